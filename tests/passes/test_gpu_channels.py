"""Sums by channel and what lies side by side, on a GPU by rule: of the form that is fast, right on the harness."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest
from agreement import agree
from gpu_rules import by_rules_alone
from on_harness import run
from references import inputs

import dojoir
from dojoir.codegen.lower.plans.layout import Layout
from dojoir.ir.affine import Affine
from dojoir.ir.nodes import Access
from dojoir.passes.schedule.gpu.sharing.threads import flattened
from dojoir.passes.schedule.steps.spots import spot

WIDE = r"4 \*\)&x\["

IMAGES = {"N": 2, "C": 3, "H": 64, "W": 68}


def by_rule(kernel: dojoir.Kernel, target: str) -> dojoir.Trace:
    return by_rules_alone(kernel, target)


def runs_right(kernel: dojoir.Kernel, trace: dojoir.Trace, target: str, order: Any) -> None:
    given = inputs(kernel, {})
    expected = dojoir.interpret(kernel, given)
    assert agree(kernel, expected, run(trace.kernel, given, {}, target, order), exact=False) is None


@pytest.mark.parametrize(("target", "order"), [("cuda", "forward"), ("hip", "backward")])
def test_sums_of_few_channels_are_those_of_images(target: str, order: Any) -> None:
    kernel = dojoir.kernels.load("batchnorm_training").specialize(**IMAGES)
    trace = by_rule(kernel, target)
    text = dojoir.to_text(trace.kernel)
    assert "tmp sum_part: f32[2, 3]" in text
    assert "tmp sq_part: f32[2, 3]" in text
    assert text.count("| 1024 : bx") == 3
    code = dojoir.emit(trace.kernel, target)
    assert len(re.findall(WIDE, code)) == 3
    assert "atomic" not in code
    runs_right(kernel, trace, target, order)


def test_many_channels_have_a_block_each() -> None:
    kernel = dojoir.kernels.load("batchnorm_training").specialize(**IMAGES | {"C": 300})
    assert "sum_part" not in str(by_rule(kernel, "cuda").kernel)


@pytest.mark.parametrize(("target", "order"), [("cuda", "backward"), ("hip", "forward")])
def test_rows_that_lie_side_by_side_are_moved_as_one(target: str, order: Any) -> None:
    kernel = dojoir.kernels.load("batchnorm_inference").specialize(**IMAGES | {"W": 70})  # 70 is no multiple of 4
    trace = by_rule(kernel, target)
    assert "collapse" in " ".join(map(str, trace.moves))
    code = dojoir.emit(trace.kernel, target)
    assert re.search(WIDE, code)
    assert "/ 70" not in code and "% 70" not in code
    runs_right(kernel, trace, target, order)


def test_neighbours_of_a_row_keep_its_scope() -> None:
    kernel = dojoir.parse("""kernel f(N = 4)
in  x: f32[4, 8, 65]
out y: f32[4, 8, 64]

4
| 8
| | 64
| | | y[{0}, {1}, {2}] = x[{0}, {1}, {2} + 1]
""")
    assert not any("collapse(0.0)" in str(move) for move in by_rule(kernel, "cuda").moves)


@pytest.mark.parametrize("pad", [0, 3])
def test_divisions_that_cancel_leave_the_offset_as_it_is(pad: int) -> None:
    kernel = dojoir.parse(f"""kernel f(N)
in  x: f32[6, 4, 5]
out y: f32[N]
tmp t: f32[6, 4, 5] pad(0, 0, {pad})

6
| 4
| | 5
| | | t[{{0}}, {{1}}, {{2}}] = x[{{0}}, {{1}}, {{2}}]
N
| y[{{0}}] = t[{{0}} % 2, {{0}} % 4, {{0}} % 5]
""")
    layout, i = Layout(kernel.buffer("t")), Affine.iterator(0)
    forms = [
        (i // 20, (i // 5) % 4, i % 5),
        (i // 4, i % 4, Affine.constant(2)),
        (i // 20 + 1, (i // 5) % 4, (i + 2) % 5),
        (i % 6, (i // 5) % 3, i % 5),
        ((i // 15) % 2, (i // 5) % 3, i % 5),
    ]
    strides = [4 * (5 + pad), 5 + pad, 1]
    for form in forms:
        joined = layout.joined(form)
        assert not any(isinstance(index, Access) for index in joined)
        for value in range(120):
            offsets = {
                sum(stride * index.evaluate({}, [value]) for stride, index in zip(strides, indices, strict=True))
                for indices in (form, joined)
                if all(isinstance(index, Affine) for index in indices)
            }
            assert len(offsets) == 1, (form, joined, value)
    assert (str(layout.joined(forms[0])[2]) == "{0}") == (pad == 0)


def test_partial_sums_of_several_elements() -> None:
    kernel = dojoir.parse("""kernel f(N, C)
in  x: f32[N, C, 8]
inout s: f32[C]

N @n
| C
| | 8
| | | s[{1}] += x[{n}, {1}, {2}]
""")
    split = dojoir.apply(kernel, "split_reduction(@n, s, p, N)")
    assert "tmp p: f32[N, C]" in str(split)
    assert dojoir.check(split, "parallelize(1)")
    assert dojoir.apply(split, "merge_reduction(1, p)") == kernel
    rng = np.random.default_rng(0)
    given = {"x": rng.integers(-9, 9, (5, 3, 8)).astype(np.float32), "s": np.arange(3, dtype=np.float32)}
    assert np.array_equal(dojoir.interpret(split, given)["s"], dojoir.interpret(kernel, given)["s"])
    assert dojoir.check(kernel, "split_reduction(0.0, s, p, C)").code == "several-elements"


@pytest.mark.parametrize(("elements", "target", "order"), [(16384, "cuda", "backward"), (20000, "hip", "forward")])
def test_a_sum_of_all_is_two_launches(elements: int, target: str, order: Any) -> None:
    kernel = dojoir.parse(f"""kernel total(N = {elements})
in  x: f32[N]
out y: f32

y = 0
N
| y += x[{{0}}]
""")
    trace = by_rule(kernel, target)
    code = dojoir.emit(trace.kernel, target)
    assert code.count("__global__ void") == 2
    assert bool(re.search(WIDE, code)) == (elements == 16384)
    runs_right(kernel, trace, target, order)


@pytest.mark.parametrize("body", ["y[{0}] = 3", "y[{0}] += 3"])
@pytest.mark.parametrize("rows", ["N", "64"])
def test_scopes_along_which_nothing_moves_are_one(rows: str, body: str) -> None:
    kernel = dojoir.parse(f"kernel f(N)\ninout y: f32[N]\nwhere N >= 64\n{rows}\n| 8\n| | 8\n| | | {body}\n")
    trace = dojoir.Trace(kernel)
    nest, width = flattened(trace, spot(trace, (0,)))
    assert ([scope.path for scope in nest], width) == ([(0,), (0, 0)], 1)
    assert list(map(str, trace.moves)) == ["collapse(0.0)"]
