"""Nests that the rules leave as they are, since what they would do was slower than the text."""

from __future__ import annotations

import dojoir

POOLED = """kernel pooled(N, W)
where W >= 4
in  x: f32[N, W]
out y: f32[N, W // 4]

N @n
| W // 4 @w
| | y[{n}, {w}] = 0
| | 4 @q
| | | y[{n}, {w}] += x[{n}, 4*{w} + {q}]
"""

RAGGED = """kernel ragged(B, T, D)
in  rows: i32[B]
in  x: f32[B, T, D]
out y: f32[B, D]

B @b
| D @d
| | y[{b}, {d}] = 0
| T @t
| | D @e
| | | y[{b}, {e}] += x[{b}, {t}, {e}] if {t} < i64(rows[{b}])
"""


def moves_of(text: str) -> list[str]:
    return [move.name for move in dojoir.PASSES["default_schedule"].given("avx512").on(dojoir.parse(text)).moves]


def test_few_neighbours_that_are_added_up_get_no_lanes() -> None:
    assert "vectorize" not in moves_of(POOLED)
    assert "vectorize" in moves_of(POOLED.replace("x[{n}, 4*{w} + {q}]", "x[{n}, {w} + {q}]"))


def test_rows_that_end_by_data_are_not_added_up_eight_at_a_time() -> None:
    assert "split" not in moves_of(RAGGED)
    assert "split" in moves_of(RAGGED.replace(" if {t} < i64(rows[{b}])", ""))


PIXELS = """kernel pixels(H, W)
in  x: u8[H, W, 3]
in  a: u8[H, W]
out y: u8[H, W, 3]

H @h
| W @w
| | 3 @c
| | | y[{h}, {w}, {c}] = u8(i32(a[{h}, {w}]) * i32(x[{h}, {w}, {c}]) // 255)
"""

POINTS = """kernel points(B, N)
in  m: f32[B, 3, 4]
in  p: f32[B, N, 3]
out y: f32[B, N, 3]

B @b
| N @n
| | 3 @i
| | | y[{b}, {n}, {i}] = m[{b}, {i}, 3]
| | | 3 @k
| | | | y[{b}, {n}, {i}] += m[{b}, {i}, {k}] * p[{b}, {n}, {k}]
"""


def test_scopes_that_fill_few_lanes_stay() -> None:
    assert moves_of(PIXELS) == ["parallelize"]
    assert "vectorize" in moves_of(PIXELS.replace("3]", "64]").replace("| 3 @c", "| 64 @c"))
    assert moves_of(POINTS) == ["parallelize"]


def test_what_divides_long_integers_by_no_constant_gets_no_lanes() -> None:
    text = "kernel f(N, W)\nin x: i32[N]\nout y: i64[N]\n\nN\n| y[{0}] = i64(x[{0}]) // W\n"
    assert "vectorize" not in moves_of(text)
    assert "vectorize" in moves_of(text.replace("// W", "// 7"))
    assert "vectorize" in moves_of(text.replace("// W", "* W"))
    assert "vectorize" in moves_of(text.replace("i64", "i32").replace("// W", "// i32(W)"))
    fixed = dojoir.parse(text).specialize(W=640)
    assert ": v" in str(dojoir.PASSES["default_schedule"].given("avx512").on(fixed).kernel)
