"""How many results of a window are summed up in one vector, where it is known how many there are."""

from __future__ import annotations

import re

import pytest

import dojoir

POOLED = """kernel pooled(N, W)
where W >= 3, N >= 3
in  x: f32[N, W]
out y: f32[N - 2, W - 2]

N - 2 @n
| W - 2 @w
| | y[{n}, {w}] = 0
| | 3 @p
| | | 3 @q
| | | | y[{n}, {w}] += x[{n} + {p}, {w} + {q}]
"""


@pytest.mark.parametrize(
    ("columns", "lanes"), [(8, 8), (16, 16), (24, 8), (28, 16), (32, 16), (40, 16), (56, 16), (1000, 16), (3, 16)]
)
def test_vectors_are_shorter_where_the_last_one_would_be_mostly_off(columns: int, lanes: int) -> None:
    rules = dojoir.PASSES["default_schedule"].for_sizes({"W": columns + 2})
    schedule = rules.for_machine(dojoir.machine_for("avx512"))
    kernel = schedule.on(dojoir.parse(POOLED)).kernel
    tile = re.search(r"tmp y_tile: f32\[(?:1, )*(\d+)\]", str(kernel))
    assert tile is not None and int(tile[1]) == lanes
    assert dojoir.verify(kernel, dojoir.parse(POOLED)).ok
