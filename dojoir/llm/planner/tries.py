"""Tries: states with a number, the hypothesis with which each was planned, and what was found of it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import dojoir
from dojoir import runtime

LONGEST = 600
"""The most characters of the steps of a try that are told."""

Verdict = Literal["confirmed", "falsified", "open"]


@dataclass(frozen=True)
class Try:
    """A state. `steps` lead to it from the state `of` (None for a start); `expect` is how many times as fast as
    that it was expected to be at least, and `why`. `refused` what was not made of the plan, with the reason.
    `speed` is how many times as fast as the start it is, `ratio` as the state `of`, with the interval; all None
    until it was evaluated, and where it was not timed. `status` is that of its evaluation, `reason` why it
    failed."""

    number: int
    trace: dojoir.Trace
    of: int | None = None
    steps: tuple[str, ...] = ()
    expect: float | None = None
    why: str = ""
    refused: tuple[str, ...] = ()
    status: str = ""
    reason: str = ""
    speed: float | None = None
    ratio: float | None = None
    interval: tuple[float, float] | None = None

    @property
    def moves(self) -> tuple[str, ...]:
        """All its moves, as texts."""
        return tuple(map(str, self.trace.moves))

    @property
    def hypothesis(self) -> Verdict:
        """`confirmed` where the whole interval of the ratio is at least what was expected, `falsified` where all of
        it is below, or the state is no result; `open` otherwise, and where nothing was expected."""
        if self.expect is None or not self.status:
            return "open"
        if self.interval is None:
            return "open" if self.status in ("ok", "cut") else "falsified"
        low, high = self.interval
        return "confirmed" if low >= self.expect else "falsified" if high < self.expect else "open"

    def told(self) -> str:
        """A line or several for a question."""
        if self.of is None:
            where = f"#{self.number} a start of {len(self.trace.moves)} moves"
        else:
            where = f"#{self.number} from #{self.of}: {_cut('; '.join(self.steps))}"
        lines = [f"{where}: {self._outcome()}"]
        if self.expect is not None:
            why = f", because {self.why}" if self.why else ""
            lines.append(f"  expected at least {self.expect:.3g}x of #{self.of}{why}: {self.hypothesis}")
        lines += [f"  refused: {one}" for one in self.refused]
        return "\n".join(lines)

    def _outcome(self) -> str:
        if not self.status:
            return "not tried yet"
        if not self.speed:
            return f"{self.status}: {self.reason[:200]}" if self.reason else self.status
        whole = f"{self.speed:.3g}x as fast as the start"
        if self.ratio is None or self.of is None:
            return whole
        low, high = self.interval or (self.ratio, self.ratio)
        return f"{self.ratio:.3g}x ({low:.3g} to {high:.3g}) as fast as #{self.of}, {whole}"


def _cut(text: str) -> str:
    return text if len(text) <= LONGEST else f"{text[:LONGEST]} …"


def interval_of(
    ratio: float, one: runtime.Evaluation, of: runtime.Evaluation | None, noise: float
) -> tuple[float, float]:
    """The interval of a ratio of speeds: from the intervals of both times, or the noise where there is none; the
    ratio is in it."""
    if noise == 0:
        return ratio, ratio
    seconds = one.seconds or 1.0
    low, high = one.interval or (seconds, seconds)
    up, down = seconds / max(low, 1e-12), seconds / max(high, 1e-12)
    if of is not None and of.interval is not None and of.seconds:
        up, down = up * of.interval[1] / of.seconds, down * of.interval[0] / of.seconds
    else:
        up, down = up * (1 + noise), down / (1 + noise)
    return ratio * min(1.0, down), ratio * max(1.0, up)
