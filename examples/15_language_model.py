"""An agent of one's own that asks a language model, on the parts of `dojoir.llm`: it lets the model criticise its
own plans before anything is measured, and measures what stands up to that.

Without arguments a script plays in the place of a model. With one, keys come from the environment:

    python examples/15_language_model.py --model openai/gpt-4o
    python examples/15_language_model.py --model openai/llama3 --base-url http://localhost:11434/v1
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Sequence

import dojoir
from dojoir import llm
from dojoir.runtime import Evaluation

RULES = (
    llm.SYSTEM
    + """
Plans go through two steps here. First you propose plans. Then you are shown them with an estimate of each, and
keep the ones that you believe in: call answer again with those alone.
"""
)


class Critic:
    """A strategy: `ask` gives traces to try, `tell` what became of them."""

    def __init__(self, play: dojoir.search.Play, *, model: llm.Model, rounds: int = 4) -> None:
        self.play, self.model, self.rounds = play, model, rounds
        self.tries = [llm.Try(n, one, status="ok", speed=play.speed(one)) for n, one in enumerate(play.starts)]
        self.stopped = ""
        self.round = 0

    # -- what a search calls -----------------------------------------------------------------------------------
    def ask(self, n: int) -> list[dojoir.Trace]:
        """The states of the plans that the model kept; none ends the search, and `stopped` says why."""
        if self.round == self.rounds:
            self.stopped = f"{self.rounds} rounds were asked for"
            return []
        self.round += 1
        try:
            return self.planned()[:n]
        except llm.ModelError as error:
            self.stopped = error.reason
            return []

    def tell(self, evaluations: Sequence[Evaluation], traces: Sequence[dojoir.Trace]) -> None:
        """Notes how fast each state was, for the next question."""
        for found, trace in zip(evaluations, traces, strict=True):
            speed = self.play.speed(found)
            self.tries.append(llm.Try(len(self.tries), trace, status=found.status, speed=speed or None))

    # -- a round -----------------------------------------------------------------------------------------------
    def planned(self) -> list[dojoir.Trace]:
        """Asks for plans, shows them with estimates, and makes those that are kept. Raises ModelError."""
        best = max(self.tries, key=lambda one: one.speed or 0)
        listed, estimates = llm.listed_at(best, self.play.target, self.play.threads, self.play.sizes[0], 30, 12)
        asked = (llm.Message("user", self.question(best, listed)),)
        proposed, call, reply = self.answered(asked, best, listed, estimates)
        shown = [f"plan {number}: {self.about(trace, best)}" for number, trace in enumerate(proposed)]
        told = llm.Message("tool", "\n".join([*shown, "Keep those that you believe in."]), answers=call.id)
        again = (*asked, llm.Message("assistant", reply.text, reply.calls), told)
        kept, _, _ = self.answered(again, best, listed, estimates)
        return kept

    def question(self, best: llm.Try, listed: dict[str, str]) -> str:
        """The kernel as data, what was tried, and what is legal."""
        tried = [f"#{one.number}: {one.speed or 0:.3g}x: {'; '.join(one.moves)}" for one in self.tries]
        legal = [f"{number} {text}" for number, text in listed.items()]
        return "\n".join([llm.fenced(best.trace.kernel), "Tried so far:", *tried[-8:], "Legal:", *legal,
                          f"Go on from #{best.number}."])  # fmt: skip

    def about(self, trace: dojoir.Trace, best: llm.Try) -> str:
        """A plan in a line, with the estimate."""
        sizes, target, threads = dict(self.play.sizes[0]), self.play.target, self.play.threads
        ratio = dojoir.search.estimate(best.trace.kernel, sizes, target, threads) / dojoir.search.estimate(
            trace.kernel, sizes, target, threads
        )
        return f"{'; '.join(map(str, trace.moves[len(best.moves) :]))}: about {ratio:.2f}x as fast"

    def answered(
        self, messages: tuple[llm.Message, ...], best: llm.Try, listed: dict[str, str], estimates: dict[str, float]
    ) -> tuple[list[dojoir.Trace], llm.ToolCall, llm.Reply]:
        """The states of the plans of an answer; the checker has refused what is illegal in them."""
        facts = {"state": best.number, "listed": [*listed], "estimates": estimates, "messages": len(messages)}
        question = llm.Question(RULES, messages, (llm.ANSWER,), must=llm.ANSWER.name, facts=facts)
        self.play.ledger.calls += 1
        reply = self.model.ask(question, 120.0)
        self.play.ledger.tokens += reply.tokens_in + reply.tokens_out
        call = next(iter(reply.calls), llm.ToolCall("text", llm.ANSWER.name, reply.text))
        try:
            answer = llm.answered(call.arguments)
        except dojoir.ArgumentError as error:
            raise llm.ModelError(error.diagnostic.message) from None
        known = {one.trace.kernel.hash for one in self.tries}
        traces = []
        for plan in answer.plans:
            found = llm.made(best.trace, plan.steps, listed, self.play.target)
            if found.trace.kernel.hash not in known:
                known.add(found.trace.kernel.hash)
                traces.append(found.trace)
        if not traces:
            raise llm.ModelError("no plan led to anything new")
        return traces, call, reply


class Script:
    """Plays in the place of a model: proposes the choices with the best estimates and some moves, keeps two."""

    name = "script"

    def ask(self, question: llm.Question, seconds: float) -> llm.Reply:
        """The number of plans goes by whether these are the first."""
        estimates, listed = question.facts["estimates"], question.facts["listed"]
        ranked = [*sorted(estimates, key=lambda number: -estimates[number]), *listed[::7]]
        chosen = ranked[:6] if question.facts["messages"] == 1 else ranked[:2]
        of = question.facts["state"]
        plans = [{"from": of, "steps": [one], "expect": 1.0, "why": "estimate"} for one in chosen]
        data = json.dumps({"plans": plans, "reflection": "estimates rank well so far"})
        return llm.Reply("", (llm.ToolCall("c", llm.ANSWER.name, data),), "tools")


def main(arguments: Sequence[str] = ()) -> None:
    """Tunes a kernel of the library with the agent, and prints what came of it."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--kernel", default="softmax")
    parser.add_argument("--size", type=int, default=256)
    parser.add_argument("--model", help="openai/NAME or anthropic/NAME; a script plays without")
    parser.add_argument("--base-url")
    parser.add_argument("--timer", choices=("measure", "static"), default="measure")
    options = parser.parse_args(list(arguments))
    settings = llm.Settings(base_url=options.base_url)
    model = Script() if options.model is None else llm.model_named(options.model, settings, "0")
    kernel = dojoir.kernels.load(options.kernel)
    tuned = dojoir.tune(
        kernel, sizes=dict.fromkeys(kernel.runtime_sizes, options.size), strategy=Critic, options={"model": model},
        timer=options.timer, start=dojoir.Trace(kernel), budget=dojoir.Budget(seconds=60),
    )  # fmt: skip
    print(tuned)
    print(tuned.trace.kernel)


if __name__ == "__main__":
    import sys

    main(sys.argv[1:])
