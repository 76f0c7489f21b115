"""The model of a CPU: which bytes a cache holds, and which of its sets they share."""

from __future__ import annotations

import pytest

import dojoir
from dojoir.costs.features import counted_at

COLUMNS = """kernel f(M)
in x: f32[16, M]
out y: f32[M]
M
| y[{0}] = 0
| 16
| | y[{0}] += x[{1}, {0}]
"""


def brought(text: str, **sizes: int) -> float:
    """The bytes from beyond the first cache of a common processor."""
    return counted_at(dojoir.parse(text), sizes, dojoir.machine_for("avx2")).brought()[0]


@pytest.mark.parametrize(("columns", "times"), [(1000, 1), (1040, 1), (1024, 16), (2048, 16)])
def test_rows_that_share_a_set_do_not_stay(columns: int, times: int) -> None:
    """16 rows a power of two apart have one set of 8 ways: each line is brought again for each of its elements."""
    once = 16 * columns * 4
    assert once * times <= brought(COLUMNS, M=columns) <= 1.2 * once * times + columns * 64


def test_few_elements_far_apart_are_few_lines() -> None:
    near = "kernel f(N)\nout y: f32[N]\n4096\n| 4\n| | y[{0} + 4096*{1}] = 0\n"
    assert brought(near, N=1 << 14) == 4 << 14


GATHERED = """kernel f(N, D)
in  r: i32[N]
in  x: f32[N, D]
out y: f32[N, D]
N @z
| D @d
| | y[{z}, {d}] = x[r[{z}], {d}]
"""


def test_a_row_that_data_lead_to_is_gone_through_as_any_other() -> None:
    counted = counted_at(dojoir.parse(GATHERED), {"N": 8, "D": 64}, dojoir.machine_for("avx2"))
    read = next(access for access in counted.kernel.sites[0].statement.reads if access.buffer == "x")
    assert (counted.step(read, 0), counted.step(read, 1)) == (None, 1)
    kernel, sizes = dojoir.parse(GATHERED), {"N": 512, "D": 64}
    in_lanes = dojoir.search.estimate(dojoir.apply(kernel, "vectorize(@d)"), sizes, threads=1)
    assert in_lanes < 1.3 * dojoir.search.estimate(kernel, sizes, threads=1)
