"""Long sums inside of lanes are made of the sums of blocks."""

import numpy as np
import pytest

import dojoir

COLUMNS = dojoir.parse("""kernel columns(N, M)
in    x: f32[N, M]
out   s: f32[M]
inout t: f32[M]
tmp   d: f32
M : v @j
| s[{j}] = 0
| N @i
| | d = x[{i}, {j}] * 2
| | s[{j}] += d
| | 3 @k
| | | t[{j}] += x[{i}, {j}]
""")

STRICT = dojoir.parse(str(COLUMNS).replace("kernel columns(N, M)", "kernel columns(N, M)\nfp strict"))

CONDITIONAL = dojoir.parse("""kernel conditional(N, M)
in    x: f32[N, M]
inout t: f32[M]
M : v @j
| N @i
| | t[{j}] += x[{i}, {j}] if x[{i}, {j}] > 0
""")


@pytest.mark.parametrize("target", ["llvm", "c"])
@pytest.mark.parametrize("n", [1, 31, 32, 33, 64, 1023, 1024, 1025, 2090])
def test_sums_of_whole_numbers_are_exact_at_every_edge_of_a_block(n: int, target: str) -> None:
    x = np.random.default_rng(n).integers(-4, 5, (n, 37)).astype(np.float32)
    s, t = np.zeros(37, np.float32), np.ones(37, np.float32)
    dojoir.compile(COLUMNS, target)(x, s, t, N=n, M=37)
    np.testing.assert_array_equal(s, 2 * x.sum(0))
    np.testing.assert_array_equal(t, 1 + 3 * x.sum(0))


def test_a_long_sum_in_lanes_is_accurate() -> None:
    n = 50_000
    x = np.random.default_rng(0).integers(0, 9, (n, 16)).astype(np.float32) / 7
    ulps = {}
    for kernel in (COLUMNS, STRICT):
        s, t = np.zeros(16, np.float32), np.zeros(16, np.float32)
        dojoir.compile(kernel)(x, s, t)
        right = 2 * x.astype(np.float64).sum(0)
        ulps[kernel.fp] = float(np.max(np.abs(s - right) / np.spacing(right.astype(np.float32))))
    assert ulps["reassoc"] < 30 < ulps["strict"]


def test_strict_and_conditional_sums_stay_as_the_text_has_them() -> None:
    assert "block" in dojoir.emit(COLUMNS, "c")
    assert "block" not in dojoir.emit(STRICT, "c")
    assert "block" not in dojoir.emit(CONDITIONAL, "c")
