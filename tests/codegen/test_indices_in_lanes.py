"""A buffer that the kernel writes, read as an index: another one in each lane, at the same element."""

from __future__ import annotations

import numpy as np
import pytest
from able import runs

import dojoir

TEXT = """kernel most(N, M)
in  x: f32[N]
inout y: f32[M]
in  ids: u16[N]
tmp t: u16

N : v
| t = ids[{0}]
| y[t] max= x[{0}]
"""


@pytest.mark.parametrize("target", ["llvm", "c", "avx2", "avx512"])
def test_lanes_accumulate_where_each_of_them_says(target: str) -> None:
    """The index `t` names the same element of the same buffer in all lanes, and so they were taken for a reduction
    into one element: a miscompile."""
    runs(target)
    random = np.random.default_rng(0)
    for n, m in ((1, 1), (8, 3), (67, 5), (200, 40)):
        x, ids = random.standard_normal(n, np.float32), random.integers(0, m, n).astype(np.uint16)
        y = np.full(m, -np.inf, np.float32)
        wanted = y.copy()
        np.maximum.at(wanted, ids, x)
        dojoir.compile(dojoir.parse(TEXT), target)(x=x, y=y, ids=ids)
        assert (y == wanted).all(), (n, m)


def test_what_is_copied_into_an_index_is_drawn_within_its_range() -> None:
    """`verify` drew any numbers for `ids`, whose copy is the index: the kernel ended with index-out-of-range."""
    report = dojoir.verify(dojoir.parse(TEXT))
    assert report.ok, str(report)
