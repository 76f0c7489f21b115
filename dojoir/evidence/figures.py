"""The figures of a bench: times with their samples, ratios with their intervals, and how they were taken.

The samples are what was measured. All else follows from them by `computed`: who writes a bench, shows it or checks
it calls that.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal

import dojoir
from dojoir import runtime
from dojoir.evidence.bundle import Gained, Verdict

Status = Literal["ok", "failed", "unavailable"]

CONFIDENCE = 0.95
"""Of every interval."""

ITSELF = "itself"
"""The name of the kernel where it is its own peer."""


@dataclass(frozen=True)
class ComparisonReport:
    """How the results of a kernel were compared with what a text means: at which sizes (none for small ones of
    several kinds), in how many cases, and why it is not `ok`."""

    sizes: Mapping[str, int]
    status: Literal["ok", "failed", "undecided"]
    cases: int
    reason: str = ""

    @classmethod
    def of(cls, sizes: Mapping[str, int] | None, report: Any) -> ComparisonReport:
        """Of what `verify` gives."""
        lacks = f"too little could be compared: {', '.join(report.undecided)} inputs"
        reason = lacks if report.status == "undecided" else report.reason or ""
        return cls(dict(sizes or {}), report.status, len(report.cases), reason)


def of_reports(reports: Sequence[ComparisonReport]) -> tuple[Verdict, str]:
    """The verdict of some comparisons, and the reason: `pass` only where something was compared in each."""
    statuses: tuple[tuple[str, Verdict], ...] = (("failed", "fail"), ("undecided", "undecided"))
    for status, verdict in statuses:
        for one in reports:
            if one.status == status:
                return verdict, one.reason or status
    if not reports or any(one.cases < 1 for one in reports):
        return "undecided", "nothing was compared"
    return "pass", ""


@dataclass(frozen=True)
class Times:
    """The times of one contestant at one shape, in seconds of a call: the median of `count` samples with its
    interval of 95% confidence and its quartiles. `ratio` is how many times as fast as it the kernel is that is
    benched: above 1, the kernel is faster. `difference` is how far its results were from the kernel's, as a share
    of the largest; None where they cannot be compared, as one of them is not finite."""

    name: str
    seconds: float
    low: float
    high: float
    first_quartile: float
    third_quartile: float
    count: int
    samples: tuple[float, ...]
    ratio: runtime.Ratio | None = None
    difference: float | None = None


@dataclass(frozen=True)
class Ceiling:
    """The lower bound of a kernel's work and traffic by its text, the machine's ceiling (GB/s, GFLOP/s, GOP/s),
    and the share of the binding ceiling that the kernel reaches."""

    bytes: int
    flops: int
    integer: int
    memory: float | None = None
    arithmetic: float | None = None
    integers: float | None = None
    bound_by: str | None = None
    share: float | None = None


@dataclass(frozen=True)
class Shape:
    """The measurements at some sizes. `noise` is the ratio of the kernel to `itself`, timed like a peer in the same
    rounds. `left_out` has the peers that could not be timed, each with the reason."""

    sizes: Mapping[str, int]
    status: Status
    reason: str = ""
    own: Times | None = None
    noise: runtime.Ratio | None = None
    ceiling: Ceiling | None = None
    peers: tuple[Times, ...] = ()
    left_out: Mapping[str, str] = field(default_factory=dict)
    itself: Times | None = None

    @property
    def slack(self) -> float:
        """By what share two times of one and the same kernel differ here."""
        return 0.0 if self.noise is None else max(abs(self.noise.low - 1), abs(self.noise.high - 1))

    def peer(self, name: str) -> Times | None:
        """The times of a peer, if it was timed."""
        return next((one for one in self.peers if one.name == name), None)


@dataclass(frozen=True)
class Bench:
    """The times of a kernel beside others, at some shapes. `protocol` says how they were taken: figures of two
    protocols are never compared. `correct` says whether its results are what the text means, by the `reports` of
    comparisons before anything was timed."""

    kernel: str
    hash: str
    target: str
    threads: int
    protocol: str
    machine: str
    versions: str
    correct: Verdict
    reason: str
    shapes: tuple[Shape, ...]
    reports: tuple[ComparisonReport, ...] = ()

    @property
    def names(self) -> list[str]:
        """The peers that were asked for, in the order in which they come."""
        return list(dict.fromkeys(
            name for shape in self.shapes for name in (*(one.name for one in shape.peers), *shape.left_out)
        ))  # fmt: skip

    def ratios(self, name: str) -> list[runtime.Ratio]:
        """How many times as fast as a peer the kernel is, at each shape where both were timed."""
        found = (shape.peer(name) for shape in self.shapes)
        return [one.ratio for one in found if one is not None and one.ratio is not None]

    def speedups(self, name: str) -> list[float]:
        """The same without their intervals."""
        return [one.median for one in self.ratios(name)]

    def mean(self, name: str) -> float | None:
        """The geometric mean of these; None where there are none."""
        return geometric(self.speedups(name))


def measured(name: str, samples: Sequence[float], ceiling: Ceiling | None = None) -> runtime.Measurement:
    """Samples as a measurement, from which its figures follow. Raises ArgumentError, `bad-record`, for a sample
    that is no time."""
    if not samples or not all(0 < one < math.inf for one in samples):
        raise dojoir.ArgumentError(f"{name} has a sample that is no time, or none", "bad-record")
    work = ceiling or Ceiling(0, 0, 0)
    return runtime.Measurement(
        name, "", {}, 1, True, tuple(samples), CONFIDENCE, work.flops, work.bytes, work.memory, work.arithmetic,
        integer=work.integer, integer_ceiling=work.integers,
    )  # fmt: skip


def timed(name: str, samples: Sequence[float], own: Sequence[float] | None, difference: float | None) -> Times:
    """The figures that follow from the samples of a contestant, and from those of the kernel beside it."""
    row = measured(name, samples)
    ratio = None
    if own is not None:
        if len(own) != len(samples) and 1 not in (len(own), len(samples)):
            raise dojoir.ArgumentError(f"{name} has not as many samples as the kernel beside it", "bad-record")
        ratio = runtime.ratio_of(row, measured("the kernel", own))
    first, third = row.quartiles
    return Times(name, row.seconds, row.low, row.high, first, third, row.repeats, row.samples, ratio, difference)


def computed(bench: Bench) -> Bench:
    """A bench with all that follows from its samples and reports, whatever it was read with. Raises ArgumentError,
    `bad-record`, for samples of which nothing follows."""
    correct, reason = bench.correct, bench.reason
    if bench.reports or correct not in ("not-run", "unavailable"):
        correct, reason = of_reports(bench.reports)
    return replace(bench, correct=correct, reason=reason, shapes=tuple(map(_computed, bench.shapes)))


def _computed(shape: Shape) -> Shape:
    if shape.own is None:
        return replace(shape, noise=None)
    own = shape.own.samples

    def beside(one: Times) -> Times:
        return timed(one.name, one.samples, own, one.difference)

    itself = None if shape.itself is None else beside(shape.itself)
    ceiling = shape.ceiling
    if ceiling is not None:
        row = measured(shape.own.name, own, ceiling)
        ceiling = replace(ceiling, bound_by=row.bound_by, share=row.fraction)
    return replace(
        shape, own=timed(shape.own.name, own, None, shape.own.difference), itself=itself,
        noise=None if itself is None else itself.ratio, ceiling=ceiling, peers=tuple(map(beside, shape.peers)),
    )  # fmt: skip


def gains(bench: Bench | None) -> tuple[Gained, ...]:
    """How many times as fast a kernel is as each of its peers: the geometric means over the shapes."""
    if bench is None:
        return ()
    found = {name: bench.ratios(name) for name in bench.names}
    return tuple(Gained.of(name, runtime.mean_of(ratios)) for name, ratios in found.items() if ratios)


def sizes_in_words(sizes: Mapping[str, int]) -> str:
    """`N=4096, M=64`."""
    return ", ".join(f"{name}={value}" for name, value in sizes.items()) or "no sizes"


def geometric(values: list[float]) -> float | None:
    """The geometric mean; None of nothing."""
    return runtime.geometric(values) if values else None


def fast_p(benches: list[Bench], name: str, p: float) -> float:
    """The share of kernels and shapes that are right and more than `p` times as fast as a peer (A. Ouyang et al.,
    KernelBench, 2025, section 3.3)."""
    all_ = [(bench, shape) for bench in benches for shape in bench.shapes]
    good = 0
    for bench, shape in all_:
        one = shape.peer(name)
        good += bench.correct == "pass" and one is not None and one.ratio is not None and one.ratio.median > p
    return good / len(all_) if all_ else 0.0
