"""Sums that are counted from the column on, brought around the columns."""

from __future__ import annotations

import dojoir
from dojoir.passes.schedule.forms.counted_from_columns import count_from_zero

LOWER = """kernel lower(M)
in  a: f32[M, M]
in  b: f32[M, M]
out c: f32[M, M]

M @i
| M @z
| | c[{i}, {z}] = 0
M @r
| {r} + 1 @j
| | c[{r}, {j}] = 1
| | {r} - {j} + 1 @k
| | | c[{r}, {j}] += a[{r}, {j} + {k}] * b[{j} + {k}, {j}]
"""

AROUND = """| {0} + 1 @k
| | {1} + 1 @j_rest
| | | c[{0}, {2}] += a[{0}, {1}] * b[{1}, {2}]
"""


def counted(text: str) -> dojoir.Trace:
    trace = dojoir.Trace(dojoir.parse(text))
    count_from_zero(trace)
    return trace


def test_columns_are_neighbours_in_a_sum_that_is_counted_from_zero() -> None:
    trace = counted(LOWER)
    assert dojoir.to_text(trace.kernel).endswith(AROUND)
    assert dojoir.certify(trace)
    kernel = dojoir.optimize(dojoir.parse(LOWER), sizes={"M": 70}, threads=1).kernel
    assert ": v @j" in str(kernel)
    report = dojoir.verify(kernel, dojoir.parse(LOWER), sizes=[{"M": size} for size in (1, 2, 17, 70)])
    assert report.ok, str(report)


def test_a_sum_along_rows_stays_where_it_is() -> None:
    """Both factors lie side by side along the sum, or a factor is counted from 0 already."""
    assert not counted(LOWER.replace("b[{j} + {k}, {j}]", "b[{j}, {j} + {k}]")).moves
    assert not counted(LOWER.replace("b[{j} + {k}, {j}]", "b[{k}, {j}]")).moves
