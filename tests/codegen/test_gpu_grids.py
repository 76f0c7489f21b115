"""Grids hold for all sizes that a kernel takes: more blocks than an axis has are launches one after the other."""

from __future__ import annotations

import numpy as np
import pytest

import dojoir
from dojoir.codegen.emission import gpu_program
from dojoir.runtime.gpu.plan import HostCode

MOST = dojoir.machine_for("cuda").grid

BOTH = """kernel both(N, M)
in  x: i8[N, M]
out y: i8[N, M]

N : gy
| M : gz
| | y[{0}, {1}] = x[{0}, {1}]
"""

Z4 = """kernel z4(A, B, C, D)
in  x: f32[A, B, C, D]
in  y: f32[D]
out z: f32[A, B, C, D]

A
| B
| | C
| | | D
| | | | z[{0}, {1}, {2}, {3}] = x[{0}, {1}, {2}, {3}] + y[{3}]
"""

RELU = """kernel relu(N, M)
in  x: f32[N, M]
out y: f32[N, M]

N
| M
| | y[{0}, {1}] = max(x[{0}, {1}], 0)
"""

PRODUCT = """kernel product({sizes})
in  a: f32[{batch}M, K]
in  b: f32[{batch}K, N]
out c: f32[{batch}M, N]

{body}"""
ROWS = """M
| N
| | c[{0}, {1}] = 0
| | K
| | | c[{0}, {1}] += a[{0}, {2}] * b[{2}, {1}]
"""
BATCHES = """B
| M
| | N
| | | c[{0}, {1}, {2}] = 0
| | | K
| | | | c[{0}, {1}, {2}] += a[{0}, {1}, {3}] * b[{0}, {3}, {2}]
"""
ONE = PRODUCT.format(sizes="M, N, K", batch="", body=ROWS)
MANY = PRODUCT.format(sizes="B, M, N, K", batch="B, ", body=BATCHES)
LARGE = {
    "z4": (Z4, {"A": 1, "B": 70000, "C": 1, "D": 2}),
    "z4, all": (Z4, {"A": 2, "B": 3, "C": 600000, "D": 1}),
    "relu": (RELU, {"N": 1, "M": 20_000_000}),
    "relu, rows": (RELU, {"N": 20_000_000, "M": 1}),
    "rows": (ONE, {"M": 10_000_000, "N": 16, "K": 8}),
    "rows of tiles": (ONE, {"M": 10_000_000 // 128 * 128, "N": 128, "K": 8}),
    "columns": (ONE, {"M": 16, "N": 10_000_000, "K": 8}),
    "batches": (MANY, {"B": 70000, "M": 64, "N": 64, "K": 8}),
    "small batches": (MANY, {"B": 70000, "M": 3, "N": 3, "K": 3}),
}


def covered(host: HostCode, sizes: dict[str, int]) -> list[tuple[int, ...]]:
    """The grids of the launches of a call, each within what an axis has."""
    grids = [step.grid for step in host.plan(sizes).steps]
    assert grids and all(0 < n <= most for grid in grids for n, most in zip(grid, MOST, strict=True))
    return grids


@pytest.mark.parametrize("fixed", [False, True])
@pytest.mark.parametrize("target", ["cuda", "hip"])
@pytest.mark.parametrize("name", LARGE)
def test_what_a_rule_makes_is_launched_at_large_sizes(name: str, target: str, fixed: bool) -> None:
    text, sizes = LARGE[name]
    kernel = dojoir.parse(text)
    trace = dojoir.optimize(kernel.specialize(**sizes) if fixed else kernel, target, sizes={} if fixed else sizes)
    program = gpu_program(trace.kernel, target)
    covered(HostCode(program), {} if fixed else sizes)
    covered(HostCode(program.shortened), {} if fixed else sizes)


def test_launches_share_out_the_blocks_of_an_axis() -> None:
    host = HostCode(gpu_program(dojoir.parse(BOTH), "cuda"))
    assert covered(host, {"N": 65535, "M": 65535}) == [(1, 65535, 65535)]
    steps = host.plan({"N": 3, "M": 2 * 65535 + 7}).steps
    assert [step.grid for step in steps] == [(1, 3, 65535), (1, 3, 65535), (1, 3, 7)]
    begins = [step.numbers[-1] for step in steps]
    assert begins == [0, 65535, 131070]
    assert len(covered(host, {"N": 70000, "M": 140000})) == 2 * 3


@pytest.mark.parametrize("sizes", [{"N": 2, "M": 65536}, {"N": 65537, "M": 1}, {"N": 1, "M": 1}])
def test_the_parts_of_a_grid_do_what_the_whole_does(sizes: dict[str, int]) -> None:
    kernel = dojoir.parse(BOTH)
    x = np.random.default_rng(0).integers(-128, 127, (sizes["N"], sizes["M"]), np.int8)
    compiled = dojoir.compile(kernel, "cuda", emulated=True)
    np.testing.assert_array_equal(compiled.run({"x": x})["y"], x)


def test_blocks_that_put_a_sum_together_may_be_of_several_launches() -> None:
    kernel = dojoir.parse("kernel f(N)\nin x: i32[N]\ninout y: i32\n\nN : gy\n| y += x[{0}]\n")
    x = np.arange(65600, dtype=np.int32)
    found = dojoir.compile(kernel, "cuda", emulated=True).run({"x": x, "y": np.array(5, np.int32)})["y"]
    assert int(found) == int(x.sum(dtype=np.int32) + np.int32(5))


def test_what_is_known_to_fit_is_one_launch_and_is_told_nothing() -> None:
    fixed = dojoir.emit(dojoir.parse(BOTH).specialize(N=65535, M=4), "cuda")
    assert "for (" not in fixed and "first" not in fixed
    text = dojoir.emit(dojoir.parse(BOTH), "cuda")
    assert "for (i64 i0_first = 0; i0_first < N; i0_first += 65535) {" in text


def test_a_call_counts_in_32_bits_as_it_did() -> None:
    """Where an axis has enough blocks, the number of the first is 0, and no number becomes larger."""
    host = HostCode(gpu_program(dojoir.parse(BOTH), "cuda"))
    assert host.is_short({"N": 1 << 15, "M": 1 << 15})
    assert not host.is_short({"N": 1 << 16, "M": 1 << 16})


def test_host_code_has_the_helpers_that_it_calls() -> None:
    """A helper of the device is no function of the host."""
    text = "kernel f(N, M)\nin x: i8[N + M]\nout y: i8[N + M]\n\nmin(N // 16 - 1, M) : gx\n| y[{0}] = x[{0}]\n"
    source = dojoir.emit(dojoir.parse(text), "cuda")
    host = source[source.index("#if !defined") :]
    assert "static inline i64 host_min_i64(i64 a, i64 b)" in host
    assert "if (host_min_i64(N / 16 - 1, M) > 0)" in host
    assert "min_i64" not in source[: source.index("#if !defined")]
