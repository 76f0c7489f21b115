"""How often the gate `faster` believes what is not so, and finds what is: on this machine, with its own clock.

    python benchmarks/noise.py [--itself 200] [--faster 60] [--seconds 0.1]

A kernel stands beside one whose machine code is the same; then beside one that does 5 % more. The gate may pass the
first in at most 1 % of the runs, and is to find 90 % of the second where the noise of the run is at most 1.5 %.
"""

from __future__ import annotations

import argparse
import statistics
import sys
from collections.abc import Sequence
from typing import Any

import dojoir
from dojoir.evidence.gates import JUDGES, Asked

TEXT = """kernel chain(N)
fp strict
in  x: f32[N]
out y: f32[N]

N
| y[{{0}}] = x[{{0}}]
| {count}
| | y[{{0}}] = y[{{0}}] * 0.5 + 1.0
"""
"""A chain of dependent operations: its time is that of so many."""

STEPS = 1000


def asked(more: float, seconds: float) -> Asked:
    """The gate for a chain with one move beside its text, in place of which the same of `more` steps runs."""
    trace, other = (
        dojoir.Trace(dojoir.parse(TEXT.format(count=count))).then("reverse_scope(0)")
        for count in (STEPS, round(STEPS * more))
    )
    start, twin = trace.start, other.kernel

    def measure(contestants: Sequence[Any], *given: Any, **named: Any) -> Any:
        return dojoir.measure_together([twin if one == start else one for one in contestants], *given, **named)

    return Asked(trace, "llvm", [{"N": 64}], 1, ("text",), seed=1, seconds=seconds, measure=measure)


def passes(more: float, seconds: float) -> tuple[bool, float]:
    """Whether the gate passes it, and the noise of the run."""
    given = asked(more, seconds)
    status, reason = JUDGES["faster"](given)
    if given.bench is None or given.bench.shapes[0].status != "ok":
        raise SystemExit(f"not timed: {reason}")
    return status == "pass", given.bench.shapes[0].slack


def main() -> int:
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--itself", type=int, default=200)
    options.add_argument("--faster", type=int, default=60)
    options.add_argument("--seconds", type=float, default=0.1)
    given = options.parse_args()
    same = [passes(1.0, given.seconds) for _ in range(given.itself)]
    more = [passes(1.05, given.seconds) for _ in range(given.faster)]
    quiet = [found for found, noise in more if noise <= 0.015]
    believed = sum(found for found, _ in same)
    noise = statistics.median(noise for _, noise in (*same, *more))
    print(f"itself: {believed} of {len(same)} passed; noise {noise:.2%} in the median")
    print(f"5 % faster: {sum(quiet)} of {len(quiet)} runs with a noise of at most 1.5 % passed, "
          f"{sum(found for found, _ in more)} of {len(more)} in all")  # fmt: skip
    return 1 if believed > 0.01 * len(same) or sum(quiet) < 0.9 * len(quiet) else 0


if __name__ == "__main__":
    sys.exit(main())
