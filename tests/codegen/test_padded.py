"""Lanes beyond an edge: a cut tile runs all its lanes where what the others compute is nobody's, and only there."""

from __future__ import annotations

import re

import numpy as np
import pytest
from able import runs

import dojoir

PRODUCT = """kernel product(N, M, K)
in  a: f32[N, K]
in  b: f32[K, M]
out c: f32[N, M]

N @i
| M @j
| | c[{i}, {j}] = 1
| | K @k
| | | c[{i}, {j}] += a[{i}, {k}] * b[{k}, {j}]
"""

TILE = """kernel tile(M, K)
in  a: f32[K, K]
in  b: f32[K, M]
out c: f32[K, M]
tmp p: f32[K, 16]
tmp t: f32[16] stack

(M + 15) // 16
| K
| | min(16, M - 16*{0})
| | | p[{1}, {2}] = b[{1}, 16*{0} + {2}]
| K
| | min(16, M - 16*{0}) : v
| | | t[{2}] = 2
| | K
| | | min(16, M - 16*{0}) : v
| | | | t[{3}] += a[{1}, {2}] * p[{2}, {3}]
| | min(16, M - 16*{0})
| | | c[{1}, 16*{0} + {2}] = t[{2}]
"""

SUM = "| | | min(16, M - 16*{0}) : v\n| | | | t[{3}] += a[{1}, {2}] * p[{2}, {3}]\n"
FEWER = re.compile(r"i3 < (count|min_i64)")


def summed_in_all_lanes(text: str) -> bool:
    """Whether the loop of the sum runs 16 times in the version of cut tiles, too."""
    kernel = dojoir.parse(text)
    dojoir.prove(kernel)
    code = dojoir.emit(kernel, "c")
    assert code.count("if (M - 16 * i0 >= 16)") == 1
    return FEWER.search(code) is None


def test_what_a_tile_holds_is_computed_in_all_lanes() -> None:
    assert summed_in_all_lanes(TILE)


@pytest.mark.parametrize(
    ("old", "new", "why"),
    [
        ("f32", "i32", "a lane may divide by what is nobody's"),
        ("* p[{2}, {3}]", "* b[{2}, 16*{0} + {3}]", "an argument ends where it ends"),
        (SUM, SUM.replace("a[{1}, {2}]", "{3}"), "a lane is counted"),
        (SUM, SUM.replace("| | | | t", "| | | | if {3} < {2}\n| | | | | t"), "a condition tells lanes apart"),
        ("| | min(16, M - 16*{0}) : v\n| | | t[{2}] = 2\n", "| | 16 : v\n| | | t[{2}] = 2\n", "others are read"),
        ("| | min(16, M - 16*{0})\n| | | c[{1}, 16*{0} + {2}] = t[{2}]",
         "| | min(16, M - 16*{0})\n| | | c[{1}, 16*{0} + {2}] = t[0] + t[{2}]", "one is read by all"),
    ],
)  # fmt: skip
def test_lanes_that_somebody_may_notice_end_at_the_edge(old: str, new: str, why: str) -> None:
    text = TILE.replace(old, new)
    assert old in TILE
    assert not summed_in_all_lanes(text), why


def test_what_is_kept_from_an_iteration_with_more_lanes_is_left_alone() -> None:
    """Lanes grow with the block: what the first block writes beyond its edge must not be seen by the next."""
    text = """kernel kept(N)
in  x: f32[N]
out y: f32[N, 16]
tmp t: f32[16] stack

N @b
| if {b} == 0
| | 16
| | | t[{1}] = 7
| 2
| | min(16, 4*{b} + 4) : v
| | | t[{2}] = x[{b}] + {1}
| 16
| | y[{b}, {1}] = t[{1}]
"""
    kernel = dojoir.parse(text)
    x = np.arange(1, 6, dtype=np.float32)
    expected = dojoir.interpret(kernel, {"x": x})["y"]
    for target in ("llvm", "c"):
        assert np.array_equal(dojoir.compile(kernel, target).run({"x": x})["y"], expected), target


@pytest.mark.parametrize("target", ["llvm", "c", "avx2"])
def test_products_are_right_at_every_edge(target: str) -> None:
    runs(target)
    kernel = dojoir.PASSES["default_schedule"].given("avx2").on(dojoir.parse(PRODUCT)).kernel
    assert "c_tile: f32[6, 16] reg" in dojoir.to_text(kernel)
    run = dojoir.compile(kernel, target)
    draw = np.random.default_rng(4)
    for rows in (1, 5, 6, 7, 13):
        for columns in (*range(1, 18), 31, 33):
            a = draw.integers(-4, 5, (rows, 3)).astype(np.float32)
            b = draw.integers(-4, 5, (3, columns)).astype(np.float32)
            whole = np.full((rows * columns + 64,), 99, np.float32)
            c = whole[: rows * columns].reshape(rows, columns)
            run.bind(a, b, c)()
            assert np.array_equal(c, 1 + a @ b), (rows, columns)
            assert (whole[rows * columns :] == 99).all(), "what comes after the result is another's"


def test_convolutions_are_right_at_every_edge() -> None:
    text = """kernel conv(C, O, L)
in  x: f32[C, L]
in  f: f32[O, C, 3]
out y: f32[O, L]

O @o
| L @l
| | y[{o}, {l}] = 0
| | C @c
| | | 3 @k
| | | | if {l} + {k} >= 1 and {l} + {k} < L + 1
| | | | | y[{o}, {l}] += x[{c}, {l} + {k} - 1] * f[{o}, {c}, {k}]
"""
    kernel = dojoir.PASSES["default_schedule"].given("avx2").on(dojoir.parse(text)).kernel
    assert "f_packed" in dojoir.to_text(kernel)
    run = dojoir.compile(kernel, "llvm")
    draw = np.random.default_rng(5)
    for channels in (1, 3, 15, 16, 17, 30):
        for length in (1, 4, 5, 6, 11):
            x = draw.integers(-4, 5, (2, length)).astype(np.float32)
            f = draw.integers(-4, 5, (channels, 2, 3)).astype(np.float32)
            padded = np.pad(x, ((0, 0), (1, 1)))
            windows = np.lib.stride_tricks.sliding_window_view(padded, 3, 1)
            assert np.array_equal(run.run({"x": x, "f": f})["y"], np.einsum("clk,ock->ol", windows, f))
