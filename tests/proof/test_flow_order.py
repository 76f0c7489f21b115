"""Dimensions of time that order nothing are left out of what isl is asked: the flow is the same."""

from __future__ import annotations

import islpy as isl
import pytest
from gpu_kernels import MATMUL, STEPS

import dojoir
from dojoir.sets import flow_check
from dojoir.sets.flow import flow_of
from dojoir.sets.kernel_sets import sets_of, workspace
from dojoir.sets.limits import StepLimitReached, integer, limited
from dojoir.support.memo import fresh_tables

KERNELS = {
    "softmax": lambda: dojoir.kernels.load("softmax"),
    "jacobi2d": lambda: dojoir.kernels.load("jacobi2d"),
    "matmul": lambda: dojoir.parse(MATMUL),
    "steps": lambda: dojoir.parse(STEPS),
}


@pytest.mark.parametrize("name", KERNELS)
def test_the_flow_is_that_of_all_dimensions(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    kernel = KERNELS[name]()
    with fresh_tables():
        short = {b.name: flow_of(sets_of(kernel), b.name, strict=True) for b in kernel.buffers}
        texts = {name: (str(flow.sources), str(flow.initial)) for name, flow in short.items()}
    with fresh_tables(), monkeypatch.context() as patched:
        patched.setattr(flow_check, "_without_equal_dims", lambda schedule: schedule)
        for buffer in kernel.buffers:
            flow = flow_of(sets_of(kernel), buffer.name, strict=True)
            for mine, text in zip((flow.sources, flow.initial), texts[buffer.name], strict=True):
                assert mine.is_equal(isl.UnionMap.read_from_str(mine.get_ctx(), text))


def test_only_what_is_one_number_everywhere_is_left_out() -> None:
    context = isl.Context()
    schedule = isl.UnionMap.read_from_str(context, "{ a[i] -> [0, i, 1, 0]; b[i] -> [0, 5, 2, 0] }")
    expected = isl.UnionMap.read_from_str(context, "{ a[i] -> [i, 1]; b[i] -> [5, 2] }")
    assert flow_check._without_equal_dims(schedule).is_equal(expected)
    alone = isl.UnionMap.read_from_str(context, "{ a[] -> [3, 4] }")
    assert flow_check._without_equal_dims(alone).is_equal(isl.UnionMap.read_from_str(context, "{ a[] -> [] }"))


@pytest.mark.parametrize("steps", range(1, 60, 3))
def test_steps_that_end_while_a_number_is_read_are_the_limit(steps: int) -> None:
    """Where its steps are spent, isl gives a value that has no text: a TypeError of islpy before."""
    schedule = isl.UnionMap.read_from_str(workspace().context, "{ a[i] -> [0, i, 12, 0]; b[i] -> [0, 5, 12, 0] }")
    with pytest.raises(StepLimitReached), limited(steps):
        while True:
            flow_check._without_equal_dims(schedule)


@pytest.mark.parametrize("text", ["1/2", "NaN", "infty"])
def test_what_is_no_integer_is_an_error_of_isl(text: str) -> None:
    context = isl.Context()
    assert integer(isl.Val.read_from_str(context, str(-(2**70)))) == -(2**70)
    with pytest.raises(isl.Error):
        integer(isl.Val.read_from_str(context, text))
