"""Products of matrices in blocks: every order of the operands in memory, at sizes around those of the blocks."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from numpy.typing import NDArray

import dojoir
from dojoir.ir.nodes import Scope, format_path

Array = NDArray[np.float32]

SMALL = "block_products(4, 16, 8, 32, 8)"
"""Blocks so small that small matrices have several, full ones and cut ones."""

KERNELS: dict[str, Callable[[Array, Array], Array]] = {
    "matmul": lambda a, b: a @ b,
    "matmul_nt": lambda a, b: a @ b.T,
    "matmul_tn": lambda a, b: a.T @ b,
    "bmm": lambda a, b: a @ b,
}


def blocked(name: str) -> dojoir.Trace:
    trace = dojoir.Trace(dojoir.kernels.load(name))
    (element,) = dojoir.parse_pipeline(SMALL)
    assert isinstance(element, dojoir.Pass)
    element(trace)
    return trace


@pytest.mark.parametrize("name", KERNELS)
def test_products_in_blocks(name: str) -> None:
    trace = blocked(name)
    text = dojoir.to_text(trace.kernel)
    assert "4, 16] reg" in text
    assert "tmp a_panel" in text and "tmp b_panel" in text
    assert dojoir.certify(trace)
    compiled = dojoir.compile(trace.kernel)
    rng = np.random.default_rng(0)
    for n, m, k in ((1, 1, 1), (4, 16, 8), (8, 32, 16), (7, 31, 9), (9, 33, 7), (23, 70, 19)):
        shapes = {"matmul": ((n, k), (k, m)), "matmul_nt": ((n, k), (m, k)), "matmul_tn": ((k, n), (k, m)),
                  "bmm": ((2, n, k), (2, k, m))}[name]  # fmt: skip
        a, b = (rng.integers(-9, 9, shape).astype(np.float32) for shape in shapes)
        (c,) = compiled.run({"a": a, "b": b}).values()
        np.testing.assert_array_equal(c, KERNELS[name](a, b))


def test_what_is_no_product_stays() -> None:
    for name in ("softmax", "gemv", "conv2d"):
        kernel = dojoir.kernels.load(name)
        assert dojoir.PASSES["block_products"].on(kernel).kernel == kernel


def test_what_comes_after_the_sum_stays_after_it() -> None:
    kernel = dojoir.parse("""
kernel layer(N, M, K)
in  a: f32[N, K]
in  b: f32[K, M]
in  d: f32[M]
out c: f32[N, M]

N @i
| M @j
| | c[{i}, {j}] = d[{j}]
| | K @k
| | | c[{i}, {j}] += a[{i}, {k}] * b[{k}, {j}]
| | c[{i}, {j}] = max(c[{i}, {j}], 0)
""")
    trace = dojoir.PASSES["block_products"].on(kernel)
    assert "c_tile" in dojoir.to_text(trace.kernel)
    report = dojoir.verify(trace.kernel, kernel, sizes=[{"N": 9, "M": 33, "K": 5}], seeds=(0,))
    assert report.ok, str(report)


def test_a_tile_that_is_cut_at_the_edge_is_copied_as_far_as_it_is_there() -> None:
    kernel = blocked("matmul").kernel
    path = next(p for p, node in kernel.walk() if isinstance(node, Scope) and node.label == "k_in")
    moved = dojoir.apply(kernel, f"stage({format_path(path)}, c_tile, copy, inout)")
    assert "copy[{5}, {6}] = c_tile[{5}, {6}]" in dojoir.to_text(moved)
    assert "min(4, N - 8*{2} - 4*{4})" in dojoir.to_text(moved)
