"""The strategy of a language model: asks for plans, makes them, and tells in the next question what became of them.

Each round is a conversation of its own about one state: the first about the text as it is, the others about the
fastest states, no two of one family in a row. A plan is made step by step through the checker; what is refused
comes back with its verdict, at once where nothing of an answer could be made. Effort follows the headroom: fewer
plans are asked for as the best comes near the limit of the machine, and none at the limit."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace

import dojoir
from dojoir import runtime
from dojoir.llm.models.asking import Asker
from dojoir.llm.models.chat import Exchange
from dojoir.llm.models.exchange import Message, ModelError, Question, Reply
from dojoir.llm.planner.answer import ANSWER, Answered, answered, in_text
from dojoir.llm.planner.cards import CardBottleneck, Cards
from dojoir.llm.planner.plan_making import made
from dojoir.llm.planner.question import QuestionParts, listed_at
from dojoir.llm.planner.settings import Settings
from dojoir.llm.planner.system import SYSTEM
from dojoir.llm.planner.tools import TOOLS, Tools
from dojoir.llm.planner.tries import Try, interval_of
from dojoir.search import Play
from dojoir.search.beam import Family, family_of

HOPELESS = 0.5
"""A search continues from a state while it is at least so many times as fast as the best."""


class ModelPlanner:
    """Plans by a model. `starts` are the states that numbers begin with; `stopped` says why it ended."""

    def __init__(
        self,
        play: Play,
        asker: Asker,
        settings: Settings,
        starts: Sequence[dojoir.Trace],
        tools: Tools,
        cards: Cards,
    ) -> None:
        self.play, self.asker, self.settings, self.tools, self.cards = play, asker, settings, tools, cards
        self.tries: dict[int, Try] = {}
        self.evaluations: dict[str, runtime.Evaluation] = {}
        self.bounds: dict[int, CardBottleneck] = {}
        self.reflections: list[str] = []
        self.waiting: list[dojoir.Trace] = []
        self.round = self.idle = 0
        self.reached = play.speed(play.best)
        self.stopped = ""
        for trace in starts:
            speed = play.speed(trace)
            number = len(self.tries)
            self.tries[number] = Try(number, trace, status="ok" if speed else "", speed=speed or None)

    # -- what tune calls ---------------------------------------------------------------------------------------
    def ask(self, n: int) -> list[dojoir.Trace]:
        """The next states of the plans; where there are none left, the model is asked for others."""
        while not self.waiting and not self.stopped:
            self.stopped = self._over()
            if not self.stopped:
                try:
                    self.waiting = self._planned()
                except ModelError as error:
                    self.stopped = error.reason
                self.round += 1
                self.idle += not self.waiting
        asked, self.waiting = self.waiting[:n], self.waiting[n:]
        return asked

    def tell(self, evaluations: Sequence[runtime.Evaluation], traces: Sequence[dojoir.Trace]) -> None:
        """Takes the results of the states, for the next question."""
        self.evaluations.update((one.hash, one) for one in evaluations)
        for one in [*self.tries.values()]:
            found = self.evaluations.get(one.trace.kernel.hash)
            if found is not None and not one.status:
                self.tries[one.number] = self._with_evaluation(one, found)
        if not self.waiting:
            best = self.play.speed(self.play.best)
            gained = best > self.reached * (1 + max(self.settings.gain, self.play.noise))
            self.idle = 0 if gained else self.idle + 1
            self.reached = max(self.reached, best)

    def _with_evaluation(self, one: Try, found: runtime.Evaluation) -> Try:
        speed = self.play.speed(found)
        if not speed or one.of is None:
            return replace(one, status=found.status, reason=found.reason, speed=speed or None)
        before = self.tries[one.of]
        was = self.play.speed(before.trace)
        if not was:
            return replace(one, status=found.status, speed=speed)
        ratio = speed / was
        interval = interval_of(ratio, found, self.evaluations.get(before.trace.kernel.hash), self.play.noise)
        return replace(one, status=found.status, speed=speed, ratio=ratio, interval=interval)

    # -- when, where and how much --------------------------------------------------------------------------------
    def _over(self) -> str:
        """Why nothing more is asked; empty while something is. A chat that is gone through decides by itself."""
        if self.asker.chat.ended:
            return "the chat that is replayed is at its end"
        if self.asker.chat.peek() is not None:
            return ""
        bound, headroom = self._headroom()
        if headroom <= 1 - self.settings.near:
            return f"the best is near the limit: {bound.share or 0:.0%} of the {bound.of} ceiling"
        if self.round >= self.settings.rounds:
            return f"{self.round} rounds were asked for"
        if self.idle >= max(1, math.ceil(self.settings.patience * min(1.0, 2 * headroom))):
            return f"nothing was gained in {self.idle} rounds"
        return ""

    def _headroom(self) -> tuple[CardBottleneck, float]:
        """The bottleneck of the best state, and the share of the limit that is left; all of it where that is not
        known."""
        bound = self.cards.of(self.play.best.kernel)
        return bound, 1.0 if bound.share is None else max(0.0, 1 - bound.share)

    def _state(self) -> Try:
        """The state that the next round is about."""
        exchange = self.asker.chat.peek()
        if exchange is not None:
            return self._of_chat(exchange)
        if self.round == 0:
            return self.tries[0]
        ranked = self._beam()
        return ranked[(self.round - 1) % len(ranked)]

    def _beam(self) -> list[Try]:
        """The fastest of each family, the fastest first, at most as many as the beam is wide."""
        best: dict[Family, Try] = {}
        for one in sorted(self.tries.values(), key=lambda one: (-(one.speed or 0), one.number)):
            if one.speed:
                best.setdefault(family_of(one.trace), one)
        ranked = [*best.values()][: self.settings.width]
        return [one for one in ranked if (one.speed or 0) >= HOPELESS * (ranked[0].speed or 0)] or [self.tries[0]]

    def _of_chat(self, exchange: Exchange) -> Try:
        """The state that an exchange of a chat was about. Raises ModelError where the chat does not lead there."""
        found = next((one for one in self.tries.values() if one.moves == exchange.at), None)
        if found is None:
            raise ModelError("the chat is about a state that its plans do not lead to here")
        return found

    # -- a round ---------------------------------------------------------------------------------------------------
    def _planned(self) -> list[dojoir.Trace]:
        """The states of the plans of one answer. Raises ModelError."""
        state = self._state()
        listed, estimates = listed_at(
            state, self.play.target, self.play.threads, self.play.sizes[0], self.settings.listed,
            self.settings.choices,
        )  # fmt: skip
        plans = self.settings.plans
        best = next((one for one in self.tries.values() if one.trace.kernel == self.play.best.kernel), state)
        if self.asker.chat.peek() is None:  # what stands in a chat was asked with the cards of then
            bound, headroom = self._headroom()
            plans = max(1, round(plans * min(1.0, 2 * headroom)))
            self.bounds = {
                state.number: self.cards.of(state.trace.kernel),
                best.number: bound,
                **self._last_bounds(),
            }
        asked = QuestionParts(
            state, best, tuple(self.tries.values()), listed, estimates, self.bounds, tuple(self.reflections),
            plans, self.play.target, self.play.threads, self.play.sizes, self.cards.ceilings,
        )  # fmt: skip
        return self._conversed(state, asked)

    def _last_bounds(self) -> dict[int, CardBottleneck]:
        """The bottleneck of the fastest state that was built in the last round."""
        last = [one for one in self.tries.values() if one.of is not None and one.speed]
        newest = max((one.number for one in last), default=0)
        found = [one for one in last if one.number > newest - self.settings.plans]
        fastest = max(found, key=lambda one: one.speed or 0, default=None)
        return {} if fastest is None else {fastest.number: self.cards.of(fastest.trace.kernel)}

    def _conversed(self, state: Try, asked: QuestionParts) -> list[dojoir.Trace]:
        """Asks, answers tools, and has an answer mended of which nothing can be made, a few times each. What stands
        in a chat is said as it was said then, so that a model that is asked on sees the same."""
        messages: tuple[Message, ...] = ()
        new: tuple[Message, ...] = (Message("user", asked.text()),)
        repairs = 0
        for turn in range(self.settings.turns + self.settings.repairs + 1):
            known = self.asker.chat.peek()
            new = new if known is None else known.asked
            messages = (*messages, *new)
            must = ANSWER.name if turn >= self.settings.turns else ""
            question = Question(SYSTEM, messages, TOOLS, must, self.settings.most_tokens, asked.facts)
            reply = self.asker.ask(question, self.round, state.moves, new)
            if reply.stopped == "refused":
                raise ModelError(f"the model refused to answer: {' '.join(reply.text.split())[:200]}")
            found, results, is_wrong = self._heard(reply, state, asked)
            if found:
                return found
            repairs += is_wrong
            if repairs > self.settings.repairs:
                break
            new = results
            messages = (*messages, Message("assistant", reply.text, reply.calls))
        return []

    def _heard(
        self, reply: Reply, state: Try, asked: QuestionParts
    ) -> tuple[list[dojoir.Trace], tuple[Message, ...], bool]:
        """The states of a reply; else what is to be said to it, and whether something in it was wrong."""
        results, wrong, traces = list[Message](), False, list[dojoir.Trace]()
        for call in reply.calls:
            if call.name == ANSWER.name:
                made_of, said = self._of_answer(call.arguments, True, state, asked)
                traces += made_of
                wrong |= not made_of
            else:
                said = self.tools.answer(call, state, self.tries)
            results.append(Message("tool", said, answers=call.id))
        if not reply.calls:
            traces, said = self._of_answer(reply.text, False, state, asked)
            wrong = not traces
            results.append(Message("user", said))
        return traces, tuple(results), wrong

    def _of_answer(
        self, text: str, called: bool, state: Try, asked: QuestionParts
    ) -> tuple[list[dojoir.Trace], str]:
        """The states of an answer, and what is told where there are none. Raises ModelError where the model
        stops."""
        try:
            answer = answered(text) if called else in_text(text)
        except dojoir.ArgumentError as error:
            return [], error.diagnostic.message
        if answer.reflection:
            self.reflections.append(answer.reflection)
        if answer.stop and not answer.plans:
            raise ModelError(f"the model has nothing more to try: {answer.reflection}".rstrip(": "))
        traces, said = self._made(answer, state, asked)
        return traces, "Nothing of it could be tried:\n" + "\n".join(said)

    def _made(self, answer: Answered, state: Try, asked: QuestionParts) -> tuple[list[dojoir.Trace], list[str]]:
        """The new states that the plans lead to, and what is to be said of each plan."""
        known = {one.trace.kernel.hash: one.number for one in self.tries.values()}
        traces, said = list[dojoir.Trace](), list[str]()
        for number, plan in enumerate(answer.plans, 1):
            of = state.number if plan.of is None else plan.of
            if of not in self.tries:
                said.append(f"plan {number}: there is no state #{of}; the last is #{max(self.tries)}")
                continue
            listed = asked.listed if of == state.number else {}
            found = made(self.tries[of].trace, plan.steps, listed, self.play.target, self.play.drew)
            self.play.count(len(found.steps))
            hash = found.trace.kernel.hash
            if hash in known:
                leads = f"it leads to #{known[hash]}, which is known"
                said.append(f"plan {number}: {'; '.join((*found.refused, leads))}")
                continue
            one = Try(len(self.tries), found.trace, of, found.steps, plan.expect, plan.why, found.refused)
            known[hash] = one.number
            self.tries[one.number] = one
            traces.append(found.trace)
        return traces, said
