"""Texts with pair reductions."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from random import Random
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dojoir.ir.dtypes import DTYPES

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


@dataclass(frozen=True)
class Held:
    """A text whose pairs begin with what `inout` halves hold, with its inputs and what these mean by Python's own
    numbers."""

    text: str
    given: dict[str, Array]
    right: dict[str, Array]


def held(random: Random) -> Held:
    """A drawn one: a row of the pairs of each element may be empty, lose, tie or win, and places have 64 bits."""
    op, rows, columns = random.choice(("max=", "min=")), random.randrange(1, 5), random.randrange(1, 6)
    value = random.choice(("f32", "f32", "f16", "i32", "u32", "i8"))
    place = random.choice(("i64", "i64", "i32", "u32"))
    kind = np.dtype(DTYPES[value].stored)
    if kind.kind == "f":
        values: list[Any] = [-1.5, -0.0, 0.0, 2, float("inf"), float("-inf"), float("nan")]
    else:
        info = np.iinfo(kind)
        values = [info.min, info.max, 0, 1]
    of = [n for n in (-(1 << 31), (1 << 31) - 1, 0, 3, 5) if place != "u32" or n >= 0]
    wide = {"i64": [1 << 40, -(1 << 40), 1 << 31, -(1 << 31) - 1], "i32": [], "u32": [(1 << 32) - 1, 1 << 31]}[
        place
    ]
    x = np.array([[random.choice(values) for _ in range(columns)] for _ in range(rows)], kind)
    p = np.array([random.choice(of) for _ in range(columns)], np.int32)
    m = np.array([random.choice(values) for _ in range(rows)], kind)
    at = np.array([random.choice(of + wide) for _ in range(rows)], DTYPES[place].stored)
    n = np.array([random.choice((0, 0, 1, columns, -1)) for _ in range(rows)], np.int32)
    ok = np.array([[random.random() < 0.6 for _ in range(columns)] for _ in range(rows)])
    asked, reads = random.choice((("", ""), (" if ok[{0}, {1}]", ""), ("", ""), ("", "| | y[{0}, {1}] = m[{0}]\n")))
    text = f"""kernel held(M, N)
in  n: i32[M]
in  ok: bool[M, N]
in  x: {value}[M, N]
in  p: i32[N]
inout m: {value}[M]
inout at: {place}[M]
inout y: {value}[M, N]

M
| min(n[{{0}}], N)
| | (m[{{0}}], at[{{0}}]) {op} (x[{{0}}, {{1}}], p[{{1}}]){asked}
{reads}"""
    given = {"n": n, "ok": ok, "x": x, "p": p, "m": m, "at": at, "y": np.zeros((rows, columns), kind)}
    best, places, y = [m[i] for i in range(rows)], [int(v) for v in at], given["y"].copy()
    for i in range(rows):
        for j in range(max(0, min(int(n[i]), columns))):
            if ok[i, j] or not asked:
                one, other = x[i, j], best[i]
                better = one > other if op == "max=" else one < other
                equal = bool(one == other) or (one != one and other != other)
                if better or (one != one and other == other) or (equal and int(p[j]) < places[i]):
                    if not equal:
                        best[i] = one + kind.type(0)
                    places[i] = int(p[j])
            if reads:
                y[i, j] = best[i]
    right = {"m": np.array(best, kind), "at": np.array(places).astype(at.dtype), "y": y}
    return Held(text, given, right)


def to_the_sign(found: Mapping[str, Array], expected: Mapping[str, Array]) -> bool:
    """Whether results are the same, zeros with their signs."""
    signs = all(
        np.array_equal(np.signbit(found[name]), np.signbit(one))
        for name, one in expected.items()
        if one.dtype.kind == "f" and not np.isnan(one).any()
    )
    return signs and same(found, expected)


def same(found: Mapping[str, Array], expected: Mapping[str, Array]) -> bool:
    return all(np.array_equal(found[name], expected[name], equal_nan=True) for name in expected)
