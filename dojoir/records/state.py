"""The one record of a measured state, and its views: a row of a database, a line of a file, words for a person.

A state is a kernel and the moves to it. Evaluated in a context it came to an outcome, as an evaluator gives it. Its
time follows from the samples: one that is written beside them is held to them, and never believed.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import dojoir
from dojoir import runtime
from dojoir.records.contexts import STATIC, Context
from dojoir.records.plain_data import spelled
from dojoir.support.seconds import format_seconds

NEAR = 1e-9
"""The share by which a time may differ from the one that follows from its samples, as it went through a text."""

CONFIDENCE = 0.95
"""Of every interval."""


@dataclass(frozen=True)
class State:
    """A state by its `hash`. `start` is that of the kernel that the moves begin at, and `kernel` its name; `parent`
    is the hash of the state before, `move` the one from there, `length` how many moves there are, `choice` the line
    of a planner that made the last of them, if one did. `outcome` is what an evaluator gave in the `context`; both
    are None where it was not evaluated. `made` is when, in seconds since 1970, `run` the name of the run. What was
    read in from elsewhere is `imported`: a hint, and no result. `number` is that of the state in its database."""

    start: str
    hash: str
    parent: str | None = None
    move: str | None = None
    outcome: runtime.Evaluation | None = None
    context: Context | None = None
    made: float = 0.0
    kernel: str = ""
    length: int = 0
    run: str | None = None
    imported: bool = False
    number: int = 0
    choice: str | None = None

    @property
    def status(self) -> str:
        """That of the outcome; "" where it was not evaluated."""
        return "" if self.outcome is None else self.outcome.status

    @property
    def reason(self) -> str:
        """Why the status is not ok."""
        return "" if self.outcome is None else self.outcome.reason

    @property
    def seconds(self) -> float | None:
        """The time of a call; None where it was not timed."""
        return None if self.outcome is None else self.outcome.seconds

    @property
    def low(self) -> float | None:
        """The lower end of the interval of that time."""
        return None if self.outcome is None or self.outcome.interval is None else self.outcome.interval[0]

    @property
    def high(self) -> float | None:
        """The upper end."""
        return None if self.outcome is None or self.outcome.interval is None else self.outcome.interval[1]

    @property
    def unfounded(self) -> str:
        """Why its time does not follow from its samples; "" where it does, and where there is none to follow."""
        if self.outcome is None or self.context is None or self.context.protocol == STATIC:
            return ""
        return unfounded(self.outcome, self.context.sizes.startswith("["))

    def to_json(self) -> dict[str, Any]:
        """The same as plain data, for a reader: `moves` is how many there are, `state` its number."""
        at = self.context
        where = {} if at is None else {name: value for name, value in vars(at).items() if name != "facts"}
        return {
            "kernel": self.kernel, "hash": self.hash, "state": self.number, "moves": self.length,
            "choice": self.choice,
            "status": self.status, "reason": self.reason, "seconds": self.seconds, "low": self.low,
            "high": self.high, "cases": self.outcome.cases if self.outcome else 0, **where, "run": self.run,
            "made": self.made, "imported": self.imported,
        }  # fmt: skip

    def to_line(self) -> dict[str, Any]:
        """An evaluation as a line of a file has it. Raises ArgumentError, `bad-record`, for what was none."""
        one, at = self.outcome, self.context
        if one is None or at is None:
            raise dojoir.ArgumentError(f"state {self.hash[:12]} was not evaluated", "bad-record")
        return {
            "result": self.hash, "of": self.start, "status": one.status, "seconds": one.seconds,
            "interval": None if one.interval is None else list(one.interval), "samples": as_lists(one),
            "cases": one.cases, "digest": one.digest, "stages": dict(one.stages), "reason": spelled(one.reason),
            "made": self.made, "context": {**vars(at), "sizes": json.loads(at.sizes)},
        }  # fmt: skip

    @property
    def where(self) -> str:
        """Where it was evaluated, in words."""
        at = self.context
        return "" if at is None else f"{at.machine} {at.target}, {at.threads} threads, {at.sizes}"

    def told(self) -> str:
        """An evaluation in a line: what became of it, and where."""
        time = ""
        if self.seconds is not None:
            low, high = (format_seconds(one) for one in (self.low or 0, self.high or 0))
            time = f"{format_seconds(self.seconds)} ({low} to {high}), "
        cases = f"{self.outcome.cases} cases verified, " if self.outcome and self.outcome.cases else ""
        protocol = "" if self.context is None else f", {self.context.protocol}"
        told = f"{', read in' * self.imported}{f', run {self.run}' if self.run else ''}"
        reason = f": {self.reason}" if self.reason else ""
        return f"{self.status}{reason}: {time}{cases}{self.where}{protocol}{told}"

    def __str__(self) -> str:
        time = "" if self.seconds is None else format_seconds(self.seconds)
        told = ", read in" if self.imported else ""
        return f"{time:>10}  {self.length:3} moves  {self.hash[:12]}  {self.where}{told}"


def way(hash: str | None, known: Mapping[str, State]) -> list[str]:
    """The hashes from a state to the first of those before it that is known."""
    found: list[str] = []
    while hash is not None and hash in known and hash not in found:
        found.append(hash)
        hash = known[hash].parent
    return found


# -- a time and its samples --------------------------------------------------------------------------------------
def parted(one: runtime.Evaluation) -> list[list[float]]:
    """The samples of an evaluation at each size."""
    counts = one.counts or (len(one.samples),)
    ends = [sum(counts[: n + 1]) for n in range(len(counts))]
    return [list(one.samples[end - count : end]) for count, end in zip(counts, ends, strict=True)]


def as_lists(one: runtime.Evaluation) -> list[Any]:
    """The samples, or a list of them for each of several sizes."""
    parts = parted(one)
    return parts if len(parts) > 1 else parts[0]


def from_lists(data: Sequence[Any]) -> tuple[tuple[float, ...], tuple[int, ...]]:
    """The samples in such a list, and how many are of each of several sizes."""
    parts: Sequence[Any] = data if data and all(isinstance(one, list | tuple) for one in data) else [data]
    counts = tuple(map(len, parts)) if len(parts) > 1 else ()
    return tuple(one for part in parts for one in part), counts


def figures_of(parts: Sequence[Sequence[float]]) -> tuple[float, float, float]:
    """The time that follows from the samples at each size, and the ends of its interval: medians of 95% confidence,
    the geometric mean over the sizes."""
    each = [runtime.spread(part, CONFIDENCE) for part in parts]
    first, low, high = (runtime.geometric([getattr(one, end) for one in each]) for end in ("median", "low", "high"))
    return first, low, high


def unfounded(one: runtime.Evaluation, several: bool = False) -> str:
    """Why a time does not follow from its samples; "" where it does, or there is none to follow. Of `several` sizes
    earlier versions did not keep which sample was at which: then it lies among them."""
    if one.status != "ok" or one.seconds is None:
        return ""
    if not one.samples:
        return "it has a time, and no samples"
    told = (one.seconds, *(one.interval or (one.seconds,) * 2))
    if several and not one.counts:
        is_among = all(min(one.samples) * (1 - NEAR) <= it <= max(one.samples) * (1 + NEAR) for it in told)
        return "" if is_among else f"its time of {told[0]:.6g} s is none of its samples"
    found = figures_of(parted(one))
    if all(abs(a - b) <= NEAR * b for a, b in zip(told, found, strict=True)):
        return ""
    return f"its samples give {found[0]:.6g} s ({found[1]:.6g} to {found[2]:.6g}), and it says " \
           f"{told[0]:.6g} s ({told[1]:.6g} to {told[2]:.6g})"  # fmt: skip


def evaluation_of(known: runtime.Evaluation) -> runtime.Evaluation:
    """The evaluation that a database gave: itself. It goes with the next version."""
    return known
