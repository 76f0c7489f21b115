"""The figures of a bench: times with their samples, ratios with their intervals, and how they were taken."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

Status = Literal["ok", "failed", "unavailable"]
Correct = Literal["pass", "fail", "not-run", "unavailable"]


@dataclass(frozen=True)
class Interval:
    """A ratio with its interval of 95% confidence."""

    median: float
    low: float
    high: float

    def __str__(self) -> str:
        return f"{self.median:.3g}x ({self.low:.3g} to {self.high:.3g})"


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
    ratio: Interval | None = None
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
    """The measurements at some sizes. `noise` is the ratio of the kernel to itself, timed like a peer in the same
    rounds. `left_out` has the peers that could not be timed, each with the reason."""

    sizes: Mapping[str, int]
    status: Status
    reason: str = ""
    own: Times | None = None
    noise: Interval | None = None
    ceiling: Ceiling | None = None
    peers: tuple[Times, ...] = ()
    left_out: Mapping[str, str] = field(default_factory=dict)

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
    protocols are never compared. `correct` says whether its results were compared with what the text means, before
    anything was timed."""

    kernel: str
    hash: str
    target: str
    threads: int
    protocol: str
    machine: str
    versions: str
    correct: Correct
    reason: str
    shapes: tuple[Shape, ...]

    @property
    def names(self) -> list[str]:
        """The peers that were asked for, in the order in which they come."""
        return list(dict.fromkeys(
            name for shape in self.shapes for name in (*(one.name for one in shape.peers), *shape.left_out)
        ))  # fmt: skip

    def speedups(self, name: str) -> list[float]:
        """How many times as fast as a peer the kernel is, at each shape where both were timed."""
        found = (shape.peer(name) for shape in self.shapes)
        return [one.ratio.median for one in found if one is not None and one.ratio is not None]

    def mean(self, name: str) -> float | None:
        """The geometric mean of these; None where there are none."""
        return geometric(self.speedups(name))


def geometric(values: list[float]) -> float | None:
    """The geometric mean; None of nothing."""
    return math.exp(sum(map(math.log, values)) / len(values)) if values else None


def fast_p(benches: list[Bench], name: str, p: float) -> float:
    """The share of kernels and shapes that are right and more than `p` times as fast as a peer (A. Ouyang et al.,
    KernelBench, 2025, section 3.3)."""
    all_ = [(bench, shape) for bench in benches for shape in bench.shapes]
    good = 0
    for bench, shape in all_:
        one = shape.peer(name)
        good += bench.correct == "pass" and one is not None and one.ratio is not None and one.ratio.median > p
    return good / len(all_) if all_ else 0.0
