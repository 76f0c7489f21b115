"""Products that sum over more than a cache holds: blocks of the sum, and factors computed once a block."""

from __future__ import annotations

from dataclasses import replace

import pytest

import dojoir
from dojoir.backends.host import machine_named
from dojoir.passes.schedule.default_schedule import default_schedule

WEIGHTED = """kernel weighted(N, D)
in  x: f32[N, D]
in  w: f32[N]
out c: f32[D, D]

D @a
| D @b
| | c[{a}, {b}] = 1
N @i
| D @j
| | D @k
| | | c[{j}, {k}] += w[{i}] * x[{i}, {j}] * x[{i}, {k}]
"""

PLAIN = WEIGHTED.replace("w[{i}] * ", "").replace("in  w: f32[N]\n", "")

LONG = {"N": 20000, "D": 80}


def scheduled(text: str, cores: int, sizes: dict[str, int]) -> dojoir.Trace:
    trace = dojoir.Trace(dojoir.parse(text))
    default_schedule(trace, replace(machine_named("avx512"), cores=cores), sizes=sizes)
    return trace


@pytest.mark.parametrize("text", [WEIGHTED, PLAIN])
def test_a_long_sum_is_blocked_and_means_the_same(text: str) -> None:
    trace = scheduled(text, 1, LONG)
    assert "(N + 127) // 128" in str(trace.kernel)
    assert ("factor" in str(trace.kernel)) == (text is WEIGHTED)
    assert dojoir.certify(trace)
    sizes = [{"N": n, "D": d} for n, d in ((1, 1), (127, 20), (129, 33), (400, 81))]
    report = dojoir.verify(trace.kernel, dojoir.parse(text), sizes=sizes)
    assert report.ok, str(report)


@pytest.mark.parametrize(
    ("cores", "sizes"), [(1, {"N": 2000, "D": 80}), (1, {}), (1, {"N": 20000, "D": 16}), (4, LONG)]
)
def test_others_are_not(cores: int, sizes: dict[str, int]) -> None:
    """A sum of which a panel stays in the cache, of sizes that are not known, of one tile; and the blocks of a sum
    would wait for each other on several cores."""
    assert "128" not in str(scheduled(PLAIN, cores, sizes).kernel)
