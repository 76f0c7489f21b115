"""The record of one evaluated state, as it is written and read back."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from dojoir import runtime
from dojoir.support.seconds import format_seconds


class Result(Protocol):
    """The result of an evaluation, by the names that `dojoir.runtime.Evaluation` has."""

    @property
    def hash(self) -> str: ...
    @property
    def status(self) -> str: ...
    @property
    def seconds(self) -> float | None: ...
    @property
    def interval(self) -> tuple[float, float] | None: ...
    @property
    def samples(self) -> tuple[float, ...]: ...
    @property
    def cases(self) -> int: ...
    @property
    def digest(self) -> str | None: ...
    @property
    def stages(self) -> Mapping[str, float]: ...
    @property
    def reason(self) -> str: ...
    @property
    def counts(self) -> tuple[int, ...]: ...


@dataclass(frozen=True)
class Known:
    """The data of a state in the database: the fields of an evaluation. `counts` says how many of the samples are
    of each size, where it was timed at several."""

    hash: str
    status: str
    seconds: float | None
    interval: tuple[float, float] | None
    samples: tuple[float, ...]
    cases: int
    digest: str
    stages: Mapping[str, float]
    reason: str
    counts: tuple[int, ...] = ()


NEAR = 1e-9
"""The share by which a time may differ from the one that follows from its samples, as it went through a text."""


def parted(result: Result) -> list[list[float]]:
    """The samples of a result at each size."""
    counts = getattr(result, "counts", ()) or (len(result.samples),)
    ends = [sum(counts[: n + 1]) for n in range(len(counts))]
    return [list(result.samples[end - count : end]) for count, end in zip(counts, ends, strict=True)]


def samples_as_json(result: Result) -> str:
    """The samples as text: a list, or one for each of several sizes."""
    parts = parted(result)
    return json.dumps(parts if len(parts) > 1 else parts[0])


def samples_from(text: str) -> tuple[tuple[float, ...], tuple[int, ...]]:
    """The samples in such a text, and how many are of each of several sizes."""
    data = json.loads(text)
    parts = data if data and isinstance(data[0], list) else [data]
    counts = tuple(map(len, parts)) if len(parts) > 1 else ()
    return tuple(float(one) for part in parts for one in part), counts


def figures_of(parts: Sequence[Sequence[float]]) -> tuple[float, float, float]:
    """The time that follows from the samples at each size, and the ends of its interval: medians of 95% confidence,
    the geometric mean over the sizes."""
    rows = [runtime.Measurement("", "", {}, 1, True, tuple(part), 0.95, 0, 0, None, None) for part in parts]
    ends = ([getattr(row, name) for row in rows] for name in ("seconds", "low", "high"))
    first, low, high = (math.exp(sum(map(math.log, each)) / len(each)) for each in ends)
    return first, low, high


def unfounded(result: Result, several: bool = False) -> str:
    """Why a time does not follow from its samples; "" where it does, or there is none to follow. Of `several` sizes
    earlier versions did not keep which sample was at which: then it lies among them."""
    if result.status != "ok" or result.seconds is None:
        return ""
    if not result.samples:
        return "it has a time, and no samples"
    told = (result.seconds, *(result.interval or (result.seconds,) * 2))
    if several and not getattr(result, "counts", ()):
        is_among = all(min(result.samples) * (1 - NEAR) <= one <= max(result.samples) * (1 + NEAR) for one in told)
        return "" if is_among else f"its time of {told[0]:.6g} s is none of its samples"
    found = figures_of(parted(result))
    if all(abs(a - b) <= NEAR * b for a, b in zip(told, found, strict=True)):
        return ""
    return f"its samples give {found[0]:.6g} s ({found[1]:.6g} to {found[2]:.6g}), and it says " \
           f"{told[0]:.6g} s ({told[1]:.6g} to {told[2]:.6g})"  # fmt: skip


def evaluation_of(known: Known) -> runtime.Evaluation:
    """The data of a state in a database, as an evaluator gives it."""
    return runtime.Evaluation(
        known.hash, known.status, known.seconds, known.interval, known.samples, known.cases, known.digest,
        known.stages, known.reason, counts=known.counts,
    )  # fmt: skip


@dataclass(frozen=True)
class Ranked:
    """One line of `top`: a state that was verified and timed, and where; `imported` says that it was read in from
    elsewhere."""

    kernel: str
    hash: str
    moves: int
    seconds: float
    low: float
    high: float
    machine: str
    target: str
    sizes: str
    threads: int
    protocol: str
    versions: str
    state: int
    imported: bool = False

    def to_json(self) -> dict[str, Any]:
        """The same as plain data."""
        return dict(vars(self))

    def __str__(self) -> str:
        where = f"{self.machine} {self.target}, {self.threads} threads, {self.sizes}"
        told = ", read in" if self.imported else ""
        return f"{format_seconds(self.seconds):>10}  {self.moves:3} moves  {self.hash[:12]}  {where}{told}"
