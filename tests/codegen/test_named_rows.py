"""Lanes along a row that begins where the data say, and gathers by narrow indices: what is read, and what fails."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest
from able import runs

import dojoir
from dojoir import RunError

RAGGED = """kernel ragged(N, M, Z, K)
in  rows: {index}[N + 1]
in  cols: {index}[Z]
in  v: f32[Z]
in  x: f32[K]
out y: f32[N]
N @i
| y[{{i}}] = 0
| min(rows[{{i}} + 1] - rows[{{i}}], M) @j
| | y[{{i}}] += v[rows[{{i}}] + {{j}}] * x[cols[rows[{{i}}] + {{j}}]]
"""

TARGETS = ["llvm", "c", "avx2", "avx512"]


def _in_lanes(index: str) -> dojoir.Kernel:
    return dojoir.apply(dojoir.parse(RAGGED.format(index=index)), "vectorize(@j)")


@pytest.mark.parametrize("index", ["i16", "i32", "i64"])
@pytest.mark.parametrize("target", TARGETS)
def test_rows_of_every_length_are_summed(target: str, index: str) -> None:
    runs(target)
    random = np.random.default_rng(1)
    lengths = np.concatenate([np.arange(70), random.integers(0, 90, 20)])
    rows = np.concatenate([[0], np.cumsum(lengths)]).astype(index.replace("i", "int"))
    count, most, wide = len(lengths), 100, 50
    cols = random.integers(0, wide, rows[-1]).astype(rows.dtype)
    v, x = random.standard_normal(rows[-1], np.float32), random.standard_normal(wide, np.float32)
    found = dojoir.compile(_in_lanes(index), target).run({"rows": rows, "cols": cols, "v": v, "x": x}, M=most)
    wanted = [(v[a:b].astype(float) * x[cols[a:b]]).sum() for a, b in pairwise(rows)]
    assert len(found["y"]) == count
    np.testing.assert_allclose(found["y"], wanted, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("index", ["i32", "i64"])
@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize(
    ("rows", "col"),
    [
        ([0, 40], 7),
        ([-1, 20], 7),
        ([-30, 5], 7),
        ([39, 41], 7),
        ([1 << 30, (1 << 30) + 9], 7),
        ([0, 33], -1),
        ([0, 33], 8),
    ],
)
def test_an_index_out_of_range_is_an_error(target: str, index: str, rows: list[int], col: int) -> None:
    runs(target)
    dtype = index.replace("i", "int")
    cols = np.full(40, 7, dtype)
    cols[32] = col
    given = {"rows": np.array(rows, dtype), "cols": cols, "v": np.ones(40, np.float32), "x": np.ones(8, np.float32)}
    kernel = dojoir.compile(_in_lanes(index), target)
    if rows == [0, 40] and col == 7:
        assert kernel.run(given, M=64)["y"][0] == 40
        return
    with pytest.raises(RunError):
        kernel.run(given, M=64)


@pytest.mark.parametrize("target", TARGETS)
def test_a_row_from_where_a_temporary_says(target: str) -> None:
    """The windows of a pooling begin where the nest before has computed."""
    runs(target)
    text = """kernel windows(C, L, O)
    in  x: f32[C, L]
    out y: f32[C, O]
    tmp first: i64[O]
    O @o
    | first[{o}] = i64({o}) * L // O
    C @c
    | O @p
    | | y[{c}, {p}] = 0
    | | min(i64({p} + 1) * L // O - first[{p}], L) @k
    | | | y[{c}, {p}] += x[{c}, first[{p}] + {k}]
    """
    kernel = dojoir.apply(dojoir.parse(text), "vectorize(@k)")
    sizes = [{"C": 2, "L": length, "O": 3} for length in (3, 50, 129)]
    report = dojoir.verify(kernel, target=target, sizes=sizes)
    assert report.ok, str(report)


def test_schedules_sum_gathered_rows_in_lanes_with_masks() -> None:
    kernel = dojoir.parse(RAGGED.format(index="i32"))
    for machine, lanes in (("avx512", True), ("neon", False)):
        trace = dojoir.PASSES["default_schedule"].given(machine).on(kernel)
        assert ("M : v" in str(trace.kernel)) == lanes, machine
