"""Nests that run through memory as one loop does: which they are, and that results stay the same, bit by bit."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

import dojoir
from dojoir.codegen.lir import program as lir
from dojoir.codegen.lir.walk import statements
from dojoir.codegen.lower.pipeline import lower
from dojoir.codegen.target import C, Target

TARGETS = [
    Target("llvm", 512, "mask", frozenset(), 32, architecture="x86_64"),
    Target("llvm", 128, "scalar"),
    Target("rvv", 128, "vl", frozenset({"f16"}), 32),
    C,
]


def kernel(body: str, buffers: str = "in  x: f32[N, H, W]\nout y: f32[N, H, W]") -> dojoir.Kernel:
    return dojoir.parse(f"kernel nest(N, H, W)\n{buffers}\n\n{body}\n")


def nest(statement: str, *, extents: str = "N H W", mark: str = ": v", buffers: str = "") -> dojoir.Kernel:
    lines = ["| " * depth + extent for depth, extent in enumerate(extents.split())]
    lines[-1] += f" {mark}"
    lines += ["| " * len(lines) + part for part in statement.split("; ")]
    return kernel("\n".join(lines), buffers) if buffers else kernel("\n".join(lines))


COPY = "y[{0}, {1}, {2}] = 2 * x[{0}, {1}, {2}]"

ONE = {
    "all three": (nest(COPY), 3),
    "in place": (
        nest("y[{0}, {1}, {2}] += x[{0}, {1}, {2}]", buffers="in x: f32[N, H, W]\ninout y: f32[N, H, W]"),
        3,
    ),
    "sums of planes": (nest("y[{0}] += x[{0}, {1}, {2}]", buffers="in x: i32[N, H, W]\ninout y: i32[N]"), 2),
    "two of three, for what belongs to the first": (
        nest("y[{0}, {1}, {2}] = x[{0}, {1}, {2}] + s[{0}]",
             buffers="in x: f32[N, H, W]\nin s: f32[N]\nout y: f32[N, H, W]"),
        2,
    ),
    "a variable of each iteration": (
        nest("t = x[{0}, {1}, {2}] + 1; y[{0}, {1}, {2}] = t * t",
             buffers="in x: f32[N, H, W]\nout y: f32[N, H, W]\ntmp t: f32 reg"),
        3,
    ),
    "two planes that are apart": (
        nest("y[{0}, 0, {1}, {2}] = x[{0}, {1}, {2}]; y[{0}, 1, {1}, {2}] = -x[{0}, {1}, {2}]",
             buffers="in x: f32[N, H, W]\nout y: f32[N, 2, H, W]"),
        2,
    ),
    "what is next to each other in memory, not in the text": (
        nest("y[{2}, {1}, {0}] = x[{1}, {2}, {0}] * 3",
             buffers="in x: f32[H, W, N] order(2, 0, 1)\nout y: f32[W, H, N] order(2, 1, 0)"),
        3,
    ),
    "rows further down, which stay apart from what is written": (
        nest("y[{0}, {1} + 3, {2}] = x[{0}, {1}, {2}]",
             buffers="in x: f32[N, H, W]\ninout y: f32[N, H + 3, W]"),
        2,
    ),
    "a streamed result": (
        nest(COPY, buffers="in x: f32[N, H, W]\nout y: f32[N, H, W] stream"),
        3,
    ),
    "a temporary on the stack": (
        kernel(
            "N\n| 3\n| | 100 : v\n| | | t[{1}, {2}] = x[{0}, {1}, {2}]\n"
            "| 3\n| | 100 : v\n| | | y[{0}, {1}, {2}] = -t[{1}, {2}]",
            "in x: f32[N, 3, 100]\nout y: f32[N, 3, 100]\ntmp t: f32[3, 100] stack",
        ),
        2,
    ),
    "other widths": (
        nest("y[{0}, {1}, {2}] = f64(x[{0}, {1}, {2}])", buffers="in x: i8[N, H, W]\nout y: f64[N, H, W]"),
        3,
    ),
}  # fmt: skip
"""Kernels, and how many of their scopes are one loop."""

INOUT = "inout y: f32[N, H, W]"

APART = {
    "a row that reads the row before": nest(
        "y[{0}, {1} + 1, {2}] = y[{0}, {1}, {2}] + x[{0}, {1}, {2}]",
        extents="N H-1 W", buffers=f"in x: f32[N, H, W]\n{INOUT}",
    ),
    "a row that overwrites the row after": nest(
        "y[{0}, {1} + 1, {2}] = x[{0}, {1}, {2}]; y[{0}, {1}, {2}] = 1",
        extents="N H-1 W", buffers=f"in x: f32[N, H, W]\n{INOUT}",
    ),
    "a first row that all read": nest(
        "y[{0}, {1} + 1, {2}] = x[{0}, {1}, {2}] + y[{0}, 0, 0]",
        extents="N H-1 W", buffers=f"in x: f32[N, H, W]\n{INOUT}",
    ),
    "rows that are read in part": nest(COPY, extents="N H W-1", buffers=f"in x: f32[N, H, W]\n{INOUT}"),
    "rows that may be fewer than none": nest(
        "y[{0}, {1}, {2}] = x[{0}, {1}, {2}]", extents="N H-3 W", buffers=f"in x: f32[N, H, W]\n{INOUT}"
    ),
    "rows of which nobody knows how many there are": nest(
        "y[{0}, {1}, {2}] = x[{0}, {1}, {2}]", extents="N H-N W", buffers=f"in x: f32[N, H, W]\n{INOUT}"
    ),
    "rows with padding": nest(COPY, buffers="in x: f32[N, H, W] pad(0, 0, 1)\nout y: f32[N, H, W]"),
    "columns of a transpose": nest(
        "y[{0}, {1}, {2}] = x[{0}, {2}, {1}]", buffers="in x: f32[N, W, H]\nout y: f32[N, H, W]"
    ),
    "a row for all rows": nest(
        "y[{0}, {1}, {2}] = x[{0}, {1}, {2}] + s[{2}]",
        buffers="in x: f32[N, H, W]\nin s: f32[W]\nout y: f32[N, H, W]",
    ),
    "a column number as a value": nest("y[{0}, {1}, {2}] = x[{0}, {1}, {2}] + f32({2})"),
    "a row number as a value": nest("y[{0}, {1}, {2}] = x[{0}, {1}, {2}] * f32({1})"),
    "every other column": nest(
        "y[{0}, {1}, {2}] = x[{0}, {1}, 2*{2}]", buffers="in x: f32[N, H, 2*W]\nout y: f32[N, H, W]"
    ),
    "rows backwards": nest("y[{0}, H - 1 - {1}, {2}] = x[{0}, {1}, {2}]"),
    "rows in turn": nest("y[{0}, {1}, {2}] = x[{0}, {1} // 2, {2}]"),
    "a diagonal": nest(
        "y[{0}, {1}, {2}] = x[{0}, {1}, {1} + {2}]", buffers="in x: f32[N, H, H + W]\nout y: f32[N, H, W]"
    ),
    "a slope": nest(
        "y[{0}, {1}, {2}] = x[{0}, {1} + {2}, {2}]", buffers="in x: f32[N, H + W, W]\nout y: f32[N, H, W]"
    ),
    "a diagonal of planes": nest(
        "y[{0}, {1}, {2}] = x[{1}, {1}, {2}]", buffers="in x: f32[H, H, W]\nout y: f32[N, H, W]"
    ),
    "a triangle": nest(COPY, extents="N H min(W,{1}+1)", buffers=f"in x: f32[N, H, W]\n{INOUT}"),
    "columns that are looked up": nest(
        "y[{0}, {1}, {2}] = x[{0}, {1}, k[{2}]]",
        buffers="in x: f32[N, H, W]\nin k: i32[W]\nout y: f32[N, H, W]",
    ),
    "sums of planes, a part of each row": nest(
        "y[{0}] += x[{0}, {1}, {2}]", extents="N H W", buffers="in x: i32[N, H, W + 5]\ninout y: i32[N]"
    ),
    "sums of rows": nest("y[{0}, {1}] += x[{0}, {1}, {2}]", buffers="in x: i32[N, H, W]\ninout y: i32[N, H]"),
    "vectors of a fixed length": nest(
        "y[{0}, {1}, {2}] = x[{0}, {1}, {2}]",
        extents="N H 8", buffers="in x: f32[N, H, 8]\nout y: f32[N, H, 8]",
    ),
    "something else in each row": kernel(
        "N\n| H\n| | s[{0}, {1}] = 0\n| | W : v\n| | | y[{0}, {1}, {2}] = x[{0}, {1}, {2}]",
        "in x: f32[N, H, W]\nout s: f32[N, H]\nout y: f32[N, H, W]",
    ),
    "rows of the number of the row before": nest(
        "y[{0}] min= x[{1}]", extents="N {0}+1", buffers="in x: i32[N]\ninout y: i32[N]"
    ),
    "rows that grow, of one element": nest(
        "y[0] min= x", extents="N {0}+1", buffers="in x: i32\ninout y: i32[N]"
    ),
    "a guard": kernel("N\n| H\n| | W : v\n| | | if {2} >= 2\n| | | | y[{0}, {1}, {2}] = x[{0}, {1}, {2}]",
                      f"in x: f32[N, H, W]\n{INOUT}"),
}  # fmt: skip
"""Kernels whose rows in lanes stay loops of their own."""


def loops(kernel: dojoir.Kernel, target: Target) -> set[int]:
    """How many scopes each innermost loop stands for, by the comments."""
    found = [stmt for stmt in statements(lower(kernel, target).body) if isinstance(stmt, lir.For)]
    inner = [loop for loop in found if not any(isinstance(stmt, lir.For) for stmt in statements(loop.body))]
    return {loop.comment.count(";") + 1 for loop in inner if loop.comment}


@pytest.mark.parametrize("target", TARGETS, ids=lambda target: f"{target.name}{target.vector_bits}")
@pytest.mark.parametrize("name", ONE)
def test_rows_that_follow_each_other_are_one_loop(name: str, target: Target) -> None:
    kernel, scopes = ONE[name]
    assert scopes in loops(kernel, target)


@pytest.mark.parametrize("target", TARGETS, ids=lambda target: f"{target.name}{target.vector_bits}")
@pytest.mark.parametrize("name", APART)
def test_other_rows_are_not(name: str, target: Target) -> None:
    assert loops(APART[name], target) <= {1}


@pytest.mark.parametrize("name", [*ONE, *APART])
def test_results_are_the_same(name: str) -> None:
    kernel = ONE[name][0] if name in ONE else APART[name]
    run = dojoir.compile(kernel)
    for seed, sizes in enumerate(itertools.product((1, 2), (1, 2, 5), (1, 2, 3, 15, 16, 17, 33))):
        given = dict(zip("NHW", sizes, strict=True))
        given = {size: n for size, n in given.items() if size in kernel.runtime_sizes}
        if given.get("H") == 1 and "H - 1" in dojoir.to_text(kernel):
            continue
        inputs = dojoir.testing.random_inputs(kernel, seed=seed, **given)
        expected = dojoir.interpret(kernel, inputs, **given)
        laid_out = {name: run.empty(name, **given) if array.ndim else array for name, array in inputs.items()}
        for name, array in inputs.items():
            laid_out[name][...] = array
        for output, array in run.run(laid_out, **given).items():
            assert np.array_equal(array, expected[output], equal_nan=True), (output, given)


def test_marks_and_hints_keep_a_loop() -> None:
    parallel = dojoir.apply(nest(COPY), "parallelize(0)")
    assert loops(parallel, TARGETS[0]) == {2}
    assert loops(dojoir.apply(nest(COPY), "parallelize(0.0)"), TARGETS[0]) == {1}
    assert loops(dojoir.apply(nest(COPY), "prefetch(0.0, x, 2)"), TARGETS[0]) == {1}
    assert loops(dojoir.apply(nest(COPY), "prefetch(0.0.0, x, 64)"), TARGETS[0]) == {3}
