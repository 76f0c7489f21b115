"""The question of a round, as a text: the machine, the state with what bounds it, the legal moves and the choices
by number, the best so far, and what became of the earlier tries."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import dojoir
from dojoir.game.choices import choices
from dojoir.llm.answers import moved, planned
from dojoir.llm.models.exchange import CHARACTERS_OF_A_TOKEN
from dojoir.llm.planner.cards import CardBottleneck
from dojoir.llm.planner.tries import Try

MOST_TEXT = 6000
"""The most characters of the text of a kernel that is shown."""

MOST_TOKENS = 2500
"""The most tokens of a question; what is least of use goes first."""

MOST_TRIES = 16
"""How many tries are told of: the last ones, and the fastest."""

MOST_REFLECTIONS = 6
"""How many reflections are told again, the last ones."""


@dataclass(frozen=True)
class QuestionParts:
    """The parts of a question. `listed` are the moves and choices by number, `estimates` how many times as fast as
    the state each is by the text. `ceilings` is what the machine reaches."""

    state: Try
    best: Try
    tries: tuple[Try, ...]
    listed: Mapping[str, str]
    estimates: Mapping[str, float]
    bounds: Mapping[int, CardBottleneck]
    reflections: tuple[str, ...]
    plans: int
    target: str
    threads: int
    sizes: tuple[Mapping[str, int], ...]
    ceilings: str = ""

    @property
    def facts(self) -> dict[str, Any]:
        """The same as data, for a model that draws."""
        estimates = {**self.estimates}
        return {"state": self.state.number, "listed": [*self.listed], "estimates": estimates, "plans": self.plans}

    def text(self) -> str:
        """The question. Where it has more than MOST_TOKENS, fewer tries and moves are told of, then one kernel."""
        for tries, moves, both in ((MOST_TRIES, 99, True), (8, 16, True), (8, 16, False), (4, 8, False)):
            found = self._told(tries, moves, both)
            if len(found) <= MOST_TOKENS * CHARACTERS_OF_A_TOKEN:
                break
        return found

    def _told(self, tries: int, moves: int, both: bool) -> str:
        parts = [self._machine(), *self._states(both), self._tries(tries)]
        if self.reflections:
            parts.append(
                "## Your reflections\n" + "\n".join(f"- {one}" for one in self.reflections[-MOST_REFLECTIONS:])
            )
        parts += [self._listed(moves), self._wanted()]
        return "\n\n".join(part for part in parts if part)

    def _machine(self) -> str:
        sizes = " and ".join(", ".join(f"{k}={v}" for k, v in one.items()) or "none" for one in self.sizes)
        machine = dojoir.machine_for(self.target)
        told = f"Target {self.target}, {self.threads} threads, sizes {sizes}. Machine: {machine}."
        return f"{told}\n{self.ceilings}" if self.ceilings else told

    def _states(self, both: bool) -> list[str]:
        shown = [(self.state, f"State #{self.state.number}, which you go on from")]
        if both and self.best.number != self.state.number:
            shown.append((self.best, f"State #{self.best.number}, the best so far"))
        found = []
        for one, title in shown:
            speed = f": {one.speed:.3g}x as fast as the start" if one.speed else ""
            bound = self.bounds.get(one.number)
            words = "" if bound is None else f"\n{bound.words}"
            found.append(f"## {title}{speed}\n{fenced(one.trace.kernel)}{words}")
        return found

    def _tries(self, most: int) -> str:
        fastest = sorted(self.tries, key=lambda one: -(one.speed or 0))[: most // 4]
        last = self.tries[-(most - len(fastest)) :]
        chosen = sorted({one.number: one for one in (*fastest, *last)}.items())
        lines = [one.told() for _, one in chosen]
        lines += [
            f"#{number} is bound so:\n{bound.words}"
            for number, bound in self.bounds.items()
            if number not in (self.state.number, self.best.number)
        ]
        left = len(self.tries) - len(chosen)
        title = "## Tries so far" + (f" ({left} others are left out)" if left else "")
        return "\n".join([title, *lines])

    def _listed(self, most: int) -> str:
        named = {str(one) for one in choices(self.target, self.threads)}
        moves, chosen = list[str](), list[str]()
        for number, text in self.listed.items():
            line = f"{number} {text}: about {self.estimates[number]:.3g}x as fast"
            (chosen if text in named else moves).append(line)
        found = f"## Some legal moves at #{self.state.number}, by an estimate from the text\n"
        found += "\n".join(moves[:most] or ["none"])
        return found + (f"\n\n## Choices at #{self.state.number}\n" + "\n".join(chosen) if chosen else "")

    def _wanted(self) -> str:
        plans = "one plan" if self.plans == 1 else f"{self.plans} plans of different kinds"
        return (
            f"## Asked\nGive {plans}, from #{self.state.number} or another state, by the tool `answer`: of each "
            "what you expect, and why; and one line of reflection on the tries so far."
        )


def fenced(kernel: dojoir.Kernel) -> str:
    """The text of a kernel, without its comments, as data: no name of it can end the fence."""
    text = dojoir.to_text(kernel, labels=True)
    cut = "" if len(text) <= MOST_TEXT else "\n(the rest is left out)"
    return f"```dojo\n{text[:MOST_TEXT].rstrip()}\n```{cut}"


def listed_at(
    state: Try, target: str, threads: int, sizes: Mapping[str, int], moves: int, most: int
) -> tuple[dict[str, str], dict[str, float]]:
    """Legal moves and choices at a state by number, and the estimates by theirs; the same for the same state."""
    single = moved(state.trace, sizes, target, threads, moves)
    offered = planned(state.trace, sizes, target, threads, most)["choices"] if most else []
    both = [*single, *((one["apply"], one["about_times_as_fast"]) for one in offered)]
    listed = {str(number): text for number, (text, _) in enumerate(both, 1)}
    return listed, {str(number): ratio for number, (_, ratio) in enumerate(both, 1)}
