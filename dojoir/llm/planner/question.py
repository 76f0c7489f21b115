"""The question of a round, as a text: the machine, the state with what bounds it, the legal moves and the choices
by number, the best so far, and what became of the earlier tries."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import dojoir
from dojoir.game.actions import listing
from dojoir.llm.answers import planned
from dojoir.llm.planner.cards import Bound
from dojoir.llm.planner.tries import Try

MOST_TEXT = 20_000
"""The most characters of the text of a kernel that is shown."""

MOST_TRIES = 16
"""How many tries are told of: the last ones, and the fastest."""

MOST_REFLECTIONS = 6
"""How many reflections are told again, the last ones."""


@dataclass(frozen=True)
class Asked:
    """The parts of a question. `listed` are the moves and choices by number; `estimates` those of choices."""

    state: Try
    best: Try
    tries: tuple[Try, ...]
    listed: Mapping[str, str]
    estimates: Mapping[str, float]
    bounds: Mapping[int, Bound]
    reflections: tuple[str, ...]
    plans: int
    target: str
    threads: int
    sizes: tuple[Mapping[str, int], ...]

    @property
    def facts(self) -> dict[str, Any]:
        """The same as data, for a model that draws."""
        return {"state": self.state.number, "listed": [*self.listed], "plans": self.plans}

    def text(self) -> str:
        """The question."""
        parts = [self._machine(), *self._states(), self._tries()]
        if self.reflections:
            parts.append(
                "## Your reflections\n" + "\n".join(f"- {one}" for one in self.reflections[-MOST_REFLECTIONS:])
            )
        parts += [self._listed(), self._wanted()]
        return "\n\n".join(part for part in parts if part)

    def _machine(self) -> str:
        sizes = " and ".join(", ".join(f"{k}={v}" for k, v in one.items()) or "none" for one in self.sizes)
        machine = dojoir.machine_for(self.target)
        return f"Target {self.target}, {self.threads} threads, sizes {sizes}. Machine: {machine}."

    def _states(self) -> list[str]:
        shown = [(self.state, f"State #{self.state.number}, which you go on from")]
        if self.best.number != self.state.number:
            shown.append((self.best, f"State #{self.best.number}, the best so far"))
        found = []
        for one, title in shown:
            speed = f": {one.speed:.3g}x as fast as the start" if one.speed else ""
            bound = self.bounds.get(one.number)
            words = "" if bound is None else f"\n{bound.words}"
            found.append(f"## {title}{speed}\n{fenced(one.trace.kernel)}{words}")
        return found

    def _tries(self) -> str:
        fastest = sorted(self.tries, key=lambda one: -(one.speed or 0))[: MOST_TRIES // 4]
        last = self.tries[-(MOST_TRIES - len(fastest)) :]
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

    def _listed(self) -> str:
        moves = [f"{number} {text}" for number, text in self.listed.items() if number not in self.estimates]
        choices = [
            f"{number} {self.listed[number]}: about {ratio:.3g}x as fast (an estimate from the text)"
            for number, ratio in self.estimates.items()
        ]
        found = f"## Some legal moves at #{self.state.number}\n" + "\n".join(moves or ["none"])
        return found + (f"\n\n## Choices at #{self.state.number}\n" + "\n".join(choices) if choices else "")

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
    state: Try, target: str, threads: int, sizes: Mapping[str, int], moves: int, choices: int
) -> tuple[dict[str, str], dict[str, float]]:
    """Legal moves and choices at a state by number, and the estimates of the choices by theirs; the same for the
    same state."""
    found, _ = listing("drawn", target, threads).found(state.trace.kernel, moves, 0)
    texts = [str(one) for one in found]
    offered = planned(state.trace, sizes, target, threads, choices)["choices"]
    listed = {str(n): text for n, text in enumerate([*texts, *(one["apply"] for one in offered)], 1)}
    estimates = {str(len(texts) + n): one["about_times_as_fast"] for n, one in enumerate(offered, 1)}
    return listed, estimates
