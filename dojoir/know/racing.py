"""The measured value of the schedules of similar kernels for a kernel: the estimate is a poor guide to it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import dojoir
from dojoir import runtime
from dojoir.know.likeness import Like, usual

MOST, AT_ONCE = 10, 5
"""How many kernels are timed, those with the best estimates, and how many of them in one race."""


@dataclass(frozen=True)
class Raced(runtime.Ratio):
    """The fastest of the schedules that were timed: its name, the moves, to be pasted, and how many times as fast
    as what `default_schedule` makes it is, in a race of its own after it was chosen. `timed` is how many were."""

    name: str
    text: str
    timed: int

    def to_json(self) -> dict[str, Any]:
        """The same as plain data."""
        return {"ratio": self.median, **{name: value for name, value in vars(self).items() if name != "median"}}

    def __str__(self) -> str:
        verdict = "as fast as" if self.low <= 1 <= self.high else "faster than" if self.low > 1 else "slower than"
        return f"{self.name}: {super().__str__()}, {verdict} default_schedule"


def race(
    kernel: dojoir.Kernel,
    found: Sequence[Like],
    sizes: Mapping[str, int],
    target: str = "llvm",
    *,
    threads: int = 1,
    most: int = MOST,
) -> Raced | None:
    """Times the schedules that `like` has made on a kernel beside `default_schedule`, the `most` distinct ones with
    the best estimates. The fastest is timed once more, so that it is not held to be fast by the luck of the first
    time. None where nothing but the default came out. Raises as `measure_together`."""
    base = usual(kernel, target)
    chosen = list(_distinct(kernel, found, base))[:most]
    times: list[tuple[float, str, str, dojoir.Kernel]] = []
    for begin in range(0, len(chosen), AT_ONCE):
        some = chosen[begin : begin + AT_ONCE]
        ratios = _ratios(base, [one[2] for one in some], sizes, target, threads)
        times += [(ratio.median, *one) for ratio, one in zip(ratios, some, strict=True)]
    if not times:
        return None
    _, name, text, best = max(times, key=lambda one: one[0])
    (last,) = _ratios(base, [best], sizes, target, threads)
    return Raced(**vars(last), name=name, text=text, timed=len(times))


def _distinct(
    kernel: dojoir.Kernel, found: Sequence[Like], base: dojoir.Kernel
) -> Iterator[tuple[str, str, dojoir.Kernel]]:
    """The schedules that make something else than the default, the best estimates first."""
    seen = {base.hash, kernel.hash}
    tried = [one for each in found for one in each.schedules if one.ratio]
    for one in sorted(tried, key=lambda one: -(one.ratio or 0.0)):
        trace = dojoir.Trace(kernel).then(one.text)
        if trace.kernel.hash not in seen:
            seen.add(trace.kernel.hash)
            yield one.shown, one.text, trace.kernel


def _ratios(
    base: dojoir.Kernel, kernels: Sequence[dojoir.Kernel], sizes: Mapping[str, int], target: str, threads: int
) -> list[runtime.Ratio]:
    """How many times as fast as the base each is, timed in turn."""
    timed = dojoir.measure_together([base, *kernels], target, threads=threads, sizes=dict(sizes)).measurements
    return [runtime.ratio_of(timed[0], one) for one in timed[1:]]
