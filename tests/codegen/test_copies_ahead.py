"""Copies to shared memory one iteration ahead: what is read early is what would be read later."""

from __future__ import annotations

from random import Random

import numpy as np
import pytest
from gpu_copies import copying_kernel, wrong

import dojoir

PLAIN = """kernel t(N = 3, K = 5)
in x: f32[8*K, 64]
out y: f32[N, 64]
tmp t: f32[8, 64] shared

N : gx
| 64 : bx
| | y[{0}, {1}] = 0
| K
| | 64 : bx
| | | 8 : u
| | | | t[{3}, {2}] = x[8*{1} + {3}, {2}]
| | 64 : bx
| | | 8
| | | | y[{0}, {2}] += t[{3}, 63 - {2}]
"""

WIDE = """kernel t(N = 3, K = 5)
in x: f16[8*K, 64]
out y: f32[N, 64]
tmp t: f16[8, 64] shared

N : gx
| 64 : bx
| | y[{0}, {1}] = 0
| K
| | 64 : bx
| | | 8 : v
| | | | t[{2} // 8, 8*({2} % 8) + {3}] = x[8*{1} + {2} // 8, 8*({2} % 8) + {3}]
| | 64 : bx
| | | 8
| | | | y[{0}, {2}] += f32(t[{3}, {2}])
"""

MANY = """kernel t(N = 3, K = 5)
in x: f16[64*K, 64]
out y: f32[N, 64]
tmp t: f16[64, 64] shared

N : gx
| 64 : bx
| | y[{0}, {1}] = 0
| K
| | 64 : bx
| | | 8 : u
| | | | 8 : v
| | | | | t[8*{3} + {2} // 8, 8*({2} % 8) + {4}] = x[64*{1} + 8*{3} + {2} // 8, 8*({2} % 8) + {4}]
| | 64 : bx
| | | 64
| | | | y[{0}, {2}] += f32(t[{3}, {2}])
"""
"""64 elements of 2 bytes for each thread, in 32 words."""

AT_DATA = PLAIN.replace("in x", "in at: i32[K]\nin x").replace("x[8*{1} + {3}, {2}]", "x[at[{1}] % 5 + {3}, {2}]")

GUARDED = PLAIN.replace("x: f32[8*K, 64]", "x: f32[8*K - 3, 50]").replace(
    "| | | 8 : u\n| | | | t[{3}, {2}] = x[8*{1} + {3}, {2}]",
    "| | | t[0, {2}] = 0\n| | | 8 : u\n| | | | t[{3}, {2}] = 0\n| | | | if {2} < 50 and 8*{1} + {3} < 8*K - 3\n"
    "| | | | | t[{3}, {2}] = x[8*{1} + {3}, {2}]",
)

SCALAR = """kernel t(K = 6)
in x: f32[K, 64]
out y: f32[64]
tmp t: f32[64] shared
tmp s: f32 reg

1 : gx
| 64 : bx
| | y[{1}] = 0
| s = 1
| K
| | 64 : bx
| | | t[{2}] = 0
| | | t[{2}] = x[{1}, {2}] if s > 0
| | 64 : bx
| | | y[{2}] += t[63 - {2}]
| | s = 0 - s
"""

AHEAD = {
    "plain": PLAIN,
    "wide": WIDE,
    "as many narrow ones as there are words for": MANY,
    "guarded": GUARDED,
    "turns that are not known": PLAIN.replace("K = 5", "K"),
    "under what it does not change": SCALAR.replace("| | s = 0 - s\n", ""),
    "a text of two products": PLAIN.replace("8*{1} + {3}, {2}]", "8*{1} + {3}, {2}] * 2 + x[{3}, {2}]"),
}

NOT = {
    "written in the launch": PLAIN.replace("in x", "inout x")
    .replace("N = 3", "N = 1")
    .replace("| | 64 : bx\n| | | 8\n", "| | 64 : bx\n| | | x[8*{1}, {2}] = 1\n| | 64 : bx\n| | | 8\n"),
    "at data, which may fail": AT_DATA,
    "under what the loop changes": SCALAR,
    "one turn": PLAIN.replace("K = 5", "K = 1"),
    "more narrow ones than there are words for": MANY.replace("64*K, 64]", "72*K, 64]")
    .replace("t: f16[64", "t: f16[72")
    .replace("8 : u", "9 : u")
    .replace("x[64*", "x[72*")
    .replace("| | | 64\n", "| | | 72\n"),
    "more than registers are for": PLAIN.replace("8*K", "64*K")
    .replace("[8, 64]", "[64, 64]")
    .replace("8 : u", "64 : u")
    .replace("8*{1}", "64*{1}"),
}


@pytest.mark.parametrize("target", ["cuda", "hip"])
@pytest.mark.parametrize("name", [*AHEAD, *NOT])
def test_what_is_read_ahead_is_right(name: str, target: str) -> None:
    kernel = dojoir.parse((AHEAD | NOT)[name])
    assert ("_ahead" in dojoir.emit(kernel, target)) == (name in AHEAD)
    given = dojoir.testing.random_inputs(kernel, sizes={"K": 4} if kernel.runtime_sizes else {}, seed=1)
    expected = dojoir.interpret(kernel, given)
    found = dojoir.compile(kernel, target, emulated=True).run(given)
    for array, value in expected.items():
        np.testing.assert_allclose(found[array], value, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("number", range(10, 30))
def test_random_kernels_with_copies_are_right(number: int) -> None:
    """Wrong are 10 and 17 if what the loop assigns is not asked for, and 27 to 29 if what it writes is not."""
    random = Random(f"copies 0 {number}")
    assert wrong(copying_kernel(random), random) is None
