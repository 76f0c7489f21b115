"""Texts with pair reductions."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

Array = NDArray[Any]

ROWS = """kernel rows(M, N)
in  x: f32[M, N]
out m: f32[M]
out at: i32[M]

M @i
| (m[{i}], at[{i}]) = (-inf, 0)
| N @j
| | (m[{i}], at[{i}]) max= (x[{i}, {j}], {j})
"""

LEAST = ROWS.replace("-inf", "inf").replace("max=", "min=")

MIDDLE = """kernel middle(M, N, K)
in  x: f32[M, N, K]
out m: f32[M, K]
out at: i64[M, K]

M
| K
| | (m[{0}, {1}], at[{0}, {1}]) = (-inf, 0)
| N
| | K
| | | (m[{0}, {2}], at[{0}, {2}]) max= (x[{0}, {1}, {2}], {1})
"""

BOTH = """kernel both(M, N)
in  ok: bool[M, N]
in  x: f32[M, N]
out high: i32[M]
out low: i32[M]
out span: f32[M]
tmp m: f32
tmp n: f32

M
| (m, high[{0}]) = (-inf, -1)
| (n, low[{0}]) = (inf, -1)
| N
| | if ok[{0}, {1}]
| | | (m, high[{0}]) max= (x[{0}, {1}], {1})
| | | (n, low[{0}]) min= (x[{0}, {1}], {1})
| span[{0}] = m - n
"""

RAGGED = """kernel ragged(M, N)
in  rows: i32[M]
in  ids: i32[N]
in  x: f32[M, N]
out m: f32[M]
out at: i32[M]

M
| (m[{0}], at[{0}]) = (-inf, 2147483647)
| min(rows[{0}], N)
| | (m[{0}], at[{0}]) max= (x[{0}, {1}], ids[{1}])
"""


def same(found: Mapping[str, Array], expected: Mapping[str, Array]) -> bool:
    return all(np.array_equal(found[name], expected[name], equal_nan=True) for name in expected)
