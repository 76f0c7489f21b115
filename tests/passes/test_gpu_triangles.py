"""Rows that grow, as those of causal attention, on a GPU by rule: products in tiles, right on the harness."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from gpu_rules import by_rules_alone
from on_harness import run
from references import Case, expected, inputs

import dojoir


def by_rule(kernel: dojoir.Kernel, target: str) -> dojoir.Trace:
    return by_rules_alone(kernel, target)


@pytest.mark.parametrize(("rows", "target", "order"), [(192, "cuda", "forward"), (128, "hip", "backward")])
def test_causal_attention_has_tiles(rows: int, target: str, order: Any) -> None:
    kernel = dojoir.kernels.load("attention").specialize(H=1, T=rows, D=64)
    trace = by_rule(kernel, target)
    text = dojoir.to_text(trace.kernel)
    assert "tmp s_tile: f32[1, 1, 16, 4, 1, 16, 4] reg" in text
    assert "tmp acc_tile: f32[1, 1, 16, 4, 1, 16, 4] reg" in text
    assert f"tmp m: f32[1~, {rows}~] reg" in text
    assert text.count(": lane") == 4
    case = Case("attention", {"H": 1, "T": rows, "D": 64})
    given = inputs(case.load(), case.sizes)
    found = run(trace.kernel, given, {}, target, order)["y"]
    np.testing.assert_allclose(found, expected(case, given)["y"], rtol=1e-5, atol=1e-5)


def test_attention_that_no_tile_divides_is_scheduled_too() -> None:
    text = str(by_rule(dojoir.kernels.load("attention").specialize(H=2, T=64, D=48), "cuda").kernel)
    assert "s_tile" not in text
    assert ": gx" in text
