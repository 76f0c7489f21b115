"""What no iteration touches is not touched: not read, not written, not even with its own value, by no thread."""

from __future__ import annotations

import re
from itertools import product

import numpy as np
import pytest
from everywhere import runs_here
from footprints import strays

import dojoir
from dojoir.codegen.emission import lower
from dojoir.codegen.lir import program as lir
from dojoir.codegen.lir.walk import statements

CPUS = ("llvm", "c", "avx2", "avx512", "neon", "rvv", "sve")
GPUS = ("cuda", "hip")
SIZES = {1: (1, 2, 5, 8, 9, 40), 2: (1, 2, 5, 9)}
"""Those of kernels with as many."""

VECTORS = "in x: f32[N]\ninout y: f32[N]"

EXAMPLES = {
    "the row before": (VECTORS, "N\n| {0}\n| | y[{0} - 1] += x[{1}]"),
    "the row before, in lanes": (VECTORS, "N\n| {0} : v\n| | y[{0} - 1] += x[{1}]"),
    "one more than there are": (VECTORS.replace("x: f32[N]", "x: f32[N + 1]"), "N - M + 1\n| y[M - 1] += x[{0}]"),
    "one more than there are, in lanes": (VECTORS, "N - M + 1 : v\n| y[M - 1] += x[{0}]"),
    "the eighth": (VECTORS, "N // 8\n| y[7] += x[{0}]"),
    "the eighth, in lanes": (VECTORS, "N // 8 : v\n| y[7] += x[{0}]"),
    "the eighth of whole tiles": (VECTORS, "N // 8\n| 8 : v\n| | y[7] += x[8*{0} + {1}]"),
    "the row behind": (
        "in x: f32[N, M]\ninout y: f32[N]", "N\n| N - {0} - 1\n| | M\n| | | y[{0} + 1] += x[{1}, {2}]"
    ),
    "one of many": (VECTORS, "N : p\n| N\n| | if {0} == 4\n| | | y[0] += x[{1}]"),
    "one of many, in lanes": (VECTORS, "N : p\n| N : v\n| | if {0} == 4\n| | | y[0] += x[{1}]"),
    "one of many, not of doubles": (
        "in x: f64[N]\ninout y: f64[N]", "N : p\n| N : v\n| | if {0} == 4\n| | | y[0] += x[{1}]"
    ),
    "all but the first": (
        "in x: f32[N, 32]\ninout y: f32[N]", "N\n| 32\n| | if {0} >= 1\n| | | y[{0} - 1] += x[{0}, {1}]"
    ),
    "all but the first, in lanes": (
        "in x: f32[N, 32]\ninout y: f32[N]", "N\n| 32 : v\n| | if {0} >= 1\n| | | y[{0} - 1] += x[{0}, {1}]"
    ),
    "some columns of some rows": (
        "in x: f32[N, 32]\ninout y: f32[N]",
        "N : p\n| 32 : v\n| | if 2*{0} + {1} == 37\n| | | y[{0} - 3] += x[{0}, {1}]",
    ),
    "every third": (VECTORS, "N\n| N\n| | if ({0} + {1}) % 3 == 5*{1}\n| | | y[{0}] max= x[{1}]"),
    "unrolled": (
        VECTORS, "N // 4\n| N : v\n| | 4 : u\n| | | if {1} >= 3\n| | | | y[4*{0} + {2}] += x[{1}]"
    ),
}  # fmt: skip


def example(name: str) -> dojoir.Kernel:
    buffers, body = EXAMPLES[name]
    names = "N, M" if "M" in body else "N"
    return dojoir.parse(f"kernel untouched({names})\n{buffers}\n\n{body}\n")


def sizes_of(kernel: dojoir.Kernel) -> list[dict[str, int]]:
    """Small sizes at which no index is out of bounds: a larger M than N is one where nothing runs."""
    names = kernel.runtime_sizes
    return [dict(zip(names, numbers, strict=True)) for numbers in product(SIZES[len(names)], repeat=len(names))]


def strayed(kernel: dojoir.Kernel, target: str) -> list[str]:
    found = []
    for sizes in sizes_of(kernel):
        inputs = dojoir.testing.random_inputs(kernel, seed=1, **sizes)
        found += strays(kernel, sizes, inputs, [target])
    return found


@pytest.mark.parametrize("target", CPUS)
@pytest.mark.parametrize("name", EXAMPLES)
def test_lowered_programs_keep_to_the_elements_of_their_texts(name: str, target: str) -> None:
    kernel = example(name)
    assert strayed(kernel, target) == []


@pytest.mark.parametrize("target", [*CPUS, *GPUS])
@pytest.mark.parametrize("name", EXAMPLES)
def test_so_do_schedules_by_rule(name: str, target: str) -> None:
    plain = dojoir.parse(re.sub(" : [pvu]", "", dojoir.to_text(example(name))))
    assert strayed(dojoir.optimize(plain, target).kernel, target) == []


@pytest.mark.parametrize("target", [target for target in ("llvm", "c") if runs_here(target)])
@pytest.mark.parametrize("name", ["the row before", "one more than there are", "the eighth", "the row behind"])
def test_they_are_verified_at_all_sizes(name: str, target: str) -> None:
    assert dojoir.verify(example(name), target=target, seeds=1).ok


@pytest.mark.parametrize("lanes", ["", " : v"])
def test_threads_that_accumulate_nothing_leave_a_sum_alone(lanes: str) -> None:
    kernel = dojoir.parse(
        "kernel one(N, M)\nin x: f32[M]\ninout y: f32[1]\n\n"
        f"N : p\n| M{lanes}\n| | if {{0}} == 5000\n| | | y[0] += x[{{1}}]\n"
    )
    run = dojoir.compile(kernel)
    x = np.ones(64, np.float32)
    for _ in range(20):
        y = np.zeros(1, np.float32)
        assert run.run({"x": x, "y": y}, N=20_000, M=64)["y"].tolist() == [64]


def questions(kernel: dojoir.Kernel, target: str) -> int:
    """How many conditions a program has."""
    return sum(isinstance(stmt, lir.If) for stmt in statements(lower(kernel, target).body))


def test_nothing_is_asked_where_the_sets_show_that_something_runs() -> None:
    sums = "N\n| M\n| | y[{0}] += x[{1}, {0}]"
    rows = dojoir.parse(f"kernel rows(N, M)\nin x: f32[M, N]\ninout y: f32[N]\n\n{sums}\n")
    assert questions(rows, "c") == 0
    guarded = sums.replace("| | y", "| | if {1} >= 0\n| | | y")
    assert questions(dojoir.parse(f"kernel rows(N, M)\nin x: f32[M, N]\ninout y: f32[N]\n\n{guarded}\n"), "c") <= 1
    triangle = "N - 1\n| {0} + 1\n| | y[{0}] += x[{1}, {0}]"
    assert questions(dojoir.parse(f"kernel rows(N)\nin x: f32[N, N]\ninout y: f32[N]\n\n{triangle}\n"), "c") == 0
