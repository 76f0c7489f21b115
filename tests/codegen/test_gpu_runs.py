"""Kernels for GPUs on the harness: right, without a race, at both warp sizes and in both orders of threads."""

from __future__ import annotations

import numpy as np
import pytest
from gpu_kernels import ALL, FUNCTIONS
from on_harness import run

import dojoir

SIZES = {
    "relu": {"N": 3, "M": 300},
    "softmax": {"N": 3},
    "warp_rows": {"N": 11},
    "row_sums": {"N": 11, "M": 75},
    "column_sums": {"M": 21},
    "reverse": {"N": 2},
    "counts": {"N": 200},
    "steps": {"T": 2, "N": 70},
}


@pytest.mark.parametrize("target", ["cuda", "hip"])
@pytest.mark.parametrize("name", ALL)
def test_a_kernel_gives_what_it_means(name: str, target: str) -> None:
    kernel = dojoir.parse(ALL[name])
    sizes = SIZES.get(name, {})
    random = np.random.default_rng(0)
    given = {}
    for buffer in kernel.arguments:
        if buffer.role != "out":
            shape = [dim.extent.evaluate(sizes) for dim in buffer.dims]
            values = random.uniform(-4, 4, shape)
            given[buffer.name] = values.astype("f4" if buffer.dtype.is_float else "i4")
    expected = dojoir.interpret(kernel, given, **sizes)
    for order in ("forward", "backward"):
        for name, array in run(kernel, given, sizes, target, order).items():
            np.testing.assert_allclose(array, expected[name], rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("target", ["cuda", "hip"])
def test_functions_of_the_hardware(target: str) -> None:
    """At the ends too: what a row of a softmax masks is -inf."""
    ends = [-np.inf, np.inf, np.nan, 0.0, -0.0, 88.7, 88.8, -103.9, -1e30, 1e30]
    x = np.concatenate([ends, np.random.default_rng(0).uniform(-80, 80, 150)]).astype("f4")
    kernel = dojoir.parse(FUNCTIONS)
    text = dojoir.emit(kernel, target)
    assert all(f"approx_{name}(" in text for name in ("exp2", "rsqrt"))
    assert "approx_" not in dojoir.emit(kernel.with_fp("reassoc"), target)
    found = run(kernel, {"x": x}, {"N": x.size}, target)
    with np.errstate(all="ignore"):
        for name, expected in (("a", np.exp(x)), ("b", np.exp2(x)), ("c", 1 / np.sqrt(x))):
            normal = ~(np.abs(expected) < np.finfo("f4").tiny)
            far = (4.5 + 0.7 * np.abs(x[normal]) if name == "a" else 4.5) * np.finfo(
                "f4"
            ).eps  # as docs/targets.md says
            got, exact = found[name][normal].astype("f8"), expected[normal].astype("f8")
            assert np.all(
                (np.abs(got - exact) <= far * np.abs(exact)) | (got == exact) | np.isnan(got) & np.isnan(exact)
            )
            np.testing.assert_allclose(found[name][~normal], 0, atol=np.finfo("f4").tiny)


ROWS = ("softmax", "layernorm", "log_softmax", "residual_rmsnorm", "reduce_max", "gemv")


@pytest.mark.parametrize("target", ["cuda", "hip"])
@pytest.mark.parametrize("name", ROWS)
def test_rows_of_the_library_run_on_blocks(name: str, target: str) -> None:
    kernel = dojoir.kernels.load(name).specialize(M=512)
    trace = dojoir.Trace(kernel)
    for step in dojoir.parse_pipeline("join_all; block_rows(0, 128)"):
        step(trace) if isinstance(step, dojoir.passes.Pass) else trace.apply(step)
    sizes = {"N": 3}
    random = np.random.default_rng(0)
    given = {
        b.name: random.uniform(0.5, 2, [dim.extent.evaluate(sizes) for dim in b.dims]).astype("f4")
        for b in kernel.arguments
        if b.role != "out"
    }
    expected = dojoir.interpret(kernel, given, **sizes)
    for array, values in run(trace.kernel, given, sizes, target, "backward").items():
        np.testing.assert_allclose(values, expected[array], rtol=2e-5, atol=1e-5)


HALVES = """kernel halves(N)
in  x: f16[N]
in  s: f16
out y: f16[N]

N // 32 + 1 : gx
| min(32, N - 32*{0}) : bx
| | y[32*{0} + {1}] = s * x[32*{0} + {1}]
"""


def test_floats_of_sixteen_bits_are_given_and_come_back() -> None:
    x = np.linspace(-2, 2, 50, dtype=np.float16)
    found = run(dojoir.parse(HALVES), {"x": x, "s": np.float16(1.5)}, {"N": 50})
    np.testing.assert_array_equal(found["y"], x * np.float16(1.5))


BESIDE = """kernel beside(N)
in  p: i32[N]
out y: i32[N]
out z: i32[N, 8]
tmp t: i32[8]

N
| 1 : gy
| | y[{0}] = 0
| 8 : bx
| | t[{1}] = p[{0}] + {1}
| 8 : lane
| | y[{0}] += t[{1}]
| 8 : bx
| | z[{0}, {1}] = t[7 - {1}]
"""


@pytest.mark.parametrize("target", ["cuda", "hip"])
def test_a_block_beside_a_grid_in_host_code(target: str) -> None:
    """Its threads are counted from the scope that is theirs, not from the host's around it."""
    kernel = dojoir.parse(BESIDE)
    given = {"p": np.array([3, -4, 5], np.int32)}
    expected = dojoir.interpret(kernel, given, N=3)
    for array, values in run(kernel, given, {"N": 3}, target, "backward").items():
        np.testing.assert_array_equal(values, expected[array])
