"""The result of a search."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import dojoir
from dojoir import runtime


@dataclass(frozen=True)
class Race:
    """A kernel, by its hash, timed in turn with another at some sizes: what `measure_together` gave of both."""

    hash: str
    sizes: Mapping[str, int]
    together: runtime.Together


@dataclass(frozen=True)
class Gain(runtime.Ratio):
    """How many times as fast one kernel is as another. `races` have the samples that it follows from, where they
    were taken here."""

    races: tuple[Race, ...] = field(default=(), compare=False, repr=False)

    @classmethod
    def of(cls, ratio: runtime.Ratio, *races: Race) -> Gain:
        """A ratio, and the races that it follows from."""
        return cls(ratio.median, ratio.low, ratio.high, races)


@dataclass(frozen=True)
class Tuned:
    """The result of a search. `trace` leads to the fastest kernel that it found: proved, verified on seeds that
    the search did not use, and certified. `ratio` is how many times as fast it is as the start,
    `ratio_to_optimize` as what `optimize` gives, timed in turn in one run (None where nothing was timed to the
    end). `stopped` says why the search ended, `states` has every evaluation in order, `spent` what went into it,
    `notes` what was left out and why."""

    trace: dojoir.Trace
    ratio: Gain | None
    ratio_to_optimize: Gain | None
    stopped: str
    states: tuple[runtime.Evaluation, ...]
    spent: Mapping[str, float] = field(default_factory=dict)
    notes: tuple[str, ...] = ()

    def __repr__(self) -> str:
        faster = f", {self.ratio} as fast as the start" if self.ratio is not None else ""
        count = len(self.trace.moves)
        return f"<Tuned {self.trace.start.name}: {count} moves, {len(self.states)} states{faster}>"

    def _repr_html_(self) -> str:
        """The result as a table, and the trace to the fastest kernel below it, for notebooks."""
        from dojoir.ir.html import table_html

        ended: dict[str, int] = {}
        for state in self.states:
            ended[state.status] = ended.get(state.status, 0) + 1
        rows = [("stopped", self.stopped)]
        rows += [("states", ", ".join(f"{count} {status}" for status, count in ended.items()))] if ended else []
        rows += [("as fast as the start", str(self.ratio))] if self.ratio is not None else []
        if self.ratio_to_optimize is not None:
            rows.append(("as fast as optimize", str(self.ratio_to_optimize)))
        rows += [("note", note) for note in self.notes]
        return f"<div>{table_html(f'{self.trace.start.name}, tuned', rows)}{self.trace._repr_html_()}</div>"

    def __str__(self) -> str:
        lines = [
            f"{self.trace.start.name}: {len(self.trace.moves)} moves, {len(self.states)} states, {self.stopped}"
        ]
        if self.ratio is not None:
            lines.append(f"  {self.ratio} as fast as the start")
        if self.ratio_to_optimize is not None:
            lines.append(f"  {self.ratio_to_optimize} as fast as optimize")
        if "calls" in self.spent:
            money = f", {self.spent['money']:.4g} of money" if "money" in self.spent else ""
            lines.append(f"  {self.spent['calls']:.0f} questions, {self.spent.get('tokens', 0):.0f} tokens{money}")
        return "\n".join([*lines, *(f"  {note}" for note in self.notes)])
