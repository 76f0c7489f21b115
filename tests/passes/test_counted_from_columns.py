"""Sums that are counted from the column on, or as far as it, brought around the columns."""

from __future__ import annotations

from random import Random

import pytest

import dojoir
from dojoir.passes.schedule.forms.borders import count_from_zero

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


UPPER = """kernel upper(M)
in  a: f32[M, M]
in  b: f32[M, M]
out c: f32[M, M]

M @i
| M @z
| | c[{i}, {z}] = 0
M @r
| M - {r} @j
| | {j} + 1 @k
| | | c[{r}, {r} + {j}] += a[{r}, {r} + {k}] * b[{r} + {k}, {r} + {j}]
"""
FROM_THE_SUM_ON = """| M - {0} @k
| | M - {0} - {1}
| | | c[{0}, {0} + {1} + {2}] += a[{0}, {0} + {1}] * b[{0} + {1}, {0} + {1} + {2}]
"""
SQUARE = UPPER.replace("M - {r} @j", "M @j").replace("{r} + ", "")


def test_columns_begin_at_a_sum_that_is_counted_as_far_as_the_column() -> None:
    trace = counted(UPPER)
    assert dojoir.to_text(trace.kernel).endswith(FROM_THE_SUM_ON)
    assert dojoir.certify(trace)
    assert not counted(UPPER.replace("{r} + {k}, {r} + {j}]", "{r} + {j}, {r} + {k}]")).moves, (
        "it lies along the sum"
    )


@pytest.mark.parametrize("text", [LOWER, UPPER, SQUARE], ids=["lower", "upper", "square"])
@pytest.mark.parametrize("seed", range(4))
def test_products_of_triangles_in_any_order_of_their_scopes_are_right(text: str, seed: int) -> None:
    """The form on what random moves make of a text, beside the text."""
    random, kernel = Random(seed), dojoir.parse(text)
    trace = dojoir.Trace(kernel)
    for _ in range(random.randint(0, 3)):
        trace.apply(random.choice([*dojoir.moves(trace.kernel)]))
    count_from_zero(trace)
    sizes = [{"M": size} for size in (1, 2, 9)]
    assert dojoir.verify(trace.kernel, kernel, sizes=sizes, seeds=(seed,))


BOTH = """kernel both(M)
in  a: f32[M, M]
in  b: f32[M, M]
out c: f32[M, M]

M @i
| M @z
| | c[{i}, {z}] = 0
| M @j
| | min({i} + 1, {j} + 1) @k
| | | c[{i}, {j}] += a[{i}, {k}] * b[{k}, {j}]
"""


def test_a_sum_as_far_as_the_row_or_the_column_goes_around_the_columns() -> None:
    trace = counted(BOTH)
    assert dojoir.to_text(trace.kernel).endswith(
        "| {0} + 1 @k\n| | M - {1}\n| | | c[{0}, {1} + {2}] += a[{0}, {1}] * b[{1}, {1} + {2}]\n"
    )
    assert dojoir.certify(trace)
    report = dojoir.verify(trace.kernel, dojoir.parse(BOTH), sizes=[{"M": size} for size in (1, 2, 17)])
    assert report.ok, str(report)
