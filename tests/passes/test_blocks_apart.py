"""Scales of blocks in lanes, pairs of packed elements in lanes, and largest magnitudes by their bits."""

from __future__ import annotations

import numpy as np
import pytest
from able import runs

import dojoir
from dojoir import kernels
from dojoir.kernels.quantised import OPTIONS


def scheduled(kernel: dojoir.Kernel, machine: str = "avx512") -> dojoir.Trace:
    return dojoir.PASSES["default_schedule"].given(machine).on(kernel)


@pytest.mark.parametrize("name", [name for name in OPTIONS if name != "matmul_fp4"])
def test_scales_are_computed_in_lanes_of_blocks(name: str) -> None:
    """By moves that certify; all three passes run in lanes, of bytes where two codes share one."""
    trace = scheduled(kernels.load(name))
    moves = [str(move).partition("(")[0] for move in trace.moves]
    assert moves.count("split_scopes") == 2 and moves.count("vectorize") >= 3, trace.kernel
    assert dojoir.certify(trace).status == "legal"
    assert dojoir.verify(trace.kernel, kernels.load(name), seeds=1).ok


def test_few_blocks_stay_together() -> None:
    few = dojoir.PASSES["default_schedule"].given("avx512").for_sizes({"M": 100, "B": 4})
    assert "split_scopes" not in " ".join(map(str, few.on(kernels.load("nvfp4_quantize")).moves))


ROWS = """kernel rows(N, M)
in  x: f32[N, M]
out y: f32[N, M]
tmp a: f32
tmp r: f32

N
| a = 0
| M @k
| | a max= abs(x[{0}, {1}])
| r = 1 / a
| M @j
| | y[{0}, {1}] = x[{0}, {1}] * r
"""


def test_rows_of_any_length_are_no_blocks() -> None:
    assert "split_scopes" not in " ".join(map(str, scheduled(dojoir.parse(ROWS)).moves))


LARGEST = """kernel largest(N)
fp strict
in  x: f32[N, 32]
inout y: f32[N]

N
| 32 @k
| | y[{0}] max= abs(x[{0}, {1}])
"""


@pytest.mark.parametrize("target", ["llvm", "c", "avx2", "avx512"])
def test_the_largest_magnitude_of_special_numbers(target: str) -> None:
    """Also where the element is negative, or NaN, and there are zeros and NaNs of both signs."""
    runs(target)
    kernel = dojoir.apply(dojoir.parse(LARGEST), "vectorize(@k)")
    random = np.random.default_rng(0)
    numbers = np.array([0, -0.0, 1, -1, np.inf, -np.inf, np.nan, -np.nan, 1e-45, -1e-45, 3e38], np.float32)
    x = random.choice(numbers[[0, 1, 8, 9]], (64, 32))
    x[random.random(x.shape) < 0.02] = random.choice(numbers)
    x[:20] = random.choice(numbers, (20, 32))
    y = random.choice(numbers, 64)
    got = dojoir.compile(kernel, target).run({"x": x, "y": y.copy()})["y"]
    want = dojoir.interpret(dojoir.parse(LARGEST), {"x": x, "y": y.copy()})["y"]
    np.testing.assert_array_equal(got, want)
    np.testing.assert_array_equal(np.signbit(got)[~np.isnan(want)], np.signbit(want)[~np.isnan(want)])


def test_a_maximum_in_lanes_is_one_of_integers() -> None:
    text = dojoir.emit(dojoir.apply(dojoir.parse(LARGEST), "vectorize(@k)"), "llvm")
    assert "llvm.vector.reduce.smax" in text
