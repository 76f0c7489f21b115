"""Codes of narrow floats are compared to the bit, or are at most a step off where rounding may decide."""

from __future__ import annotations

import re

import numpy as np
import pytest

import dojoir
from dojoir import kernels
from dojoir.runtime.verification.comparison_rules import ComparisonRule, rules_of
from dojoir.runtime.verification.oracle import Oracle

NORM = "add_rmsnorm_fp4quant"
GATED = "silu_mul_fp4quant"


def changed(name: str, *changes: tuple[str, str]) -> dojoir.Kernel:
    """A kernel of the library with some of its text replaced."""
    text = dojoir.to_text(kernels.load(name))
    for old, new in changes:
        assert re.search(old, text), old
        text = re.sub(old, new, text)
    return dojoir.parse(text)


def verdict(name: str, *changes: tuple[str, str]) -> dojoir.Report:
    return dojoir.verify(changed(name, *changes), kernels.load(name), seeds=1)


# -- rules -------------------------------------------------------------------------------------------------
def test_the_rule_of_each_output() -> None:
    assert rules_of(kernels.load("nvfp4_quantize")) == {"q": ComparisonRule.EXACT, "s": ComparisonRule.EXACT}
    assert rules_of(kernels.load(NORM)) == {
        "h": ComparisonRule.SETTLED,
        "q": ComparisonRule.CODES,
        "s": ComparisonRule.CODES,
    }
    strict = "kernel k(N)\nfp strict\nin x: f32[N]\nout y: f32[N]\nout z: f32[N]\ntmp t: f32[N]\nN\n"
    lines = ("t[{0}] = exp(x[{0}])", "y[{0}] = 2 * t[{0}]", "z[{0}] = sqrt(x[{0}]) / 3")
    assert rules_of(dojoir.parse(strict + "".join(f"| {line}\n" for line in lines))) == {
        "y": ComparisonRule.BOUNDED,
        "z": ComparisonRule.EXACT,
    }
    summed = "kernel k(N)\nin x: f32[N]\nout y: f8e4m3\nout z: f8e4m3\n\ny = 0\nN\n| y += x[{0}]\nz = y\n"
    assert rules_of(dojoir.parse(summed)) == {"y": ComparisonRule.BOUNDED, "z": ComparisonRule.BOUNDED}


# -- what must fail ----------------------------------------------------------------------------------------
CONSTANT = [(r"(q\[.*\]) = .*", r"\1 = 6"), (r"c = .*", "c = 448")]


@pytest.mark.parametrize("name", ["nvfp4_quantize", NORM, GATED])
def test_constant_codes_with_the_largest_scale_fail(name: str) -> None:
    report = verdict(name, *CONSTANT)
    assert report.status == "failed" and "wrong result" in str(report.reason)


def test_what_computes_the_residual_only_fails() -> None:
    report = verdict(NORM, (r"(q\[.*\]) = .*", r"\1 = 0"), (r"(s\[.*\]) = c", r"\1 = 0"))
    assert report.status == "failed" and "wrong result: q[" in str(report.reason)


@pytest.mark.parametrize(
    ("name", "old", "new"),
    [
        ("nvfp4_quantize", r"sat\(f4e2m1,", "round_away(f4e2m1,"),  # ties
        ("nvfp4_quantize", r"a / 6", "a / 6.1"),
        ("nvfp4_quantize", r"\) \* r\)", ") * r + 0)"),  # -0 becomes 0
        (NORM, r"h\[(.*)\] = t", r"h[\1] = round_to_zero(bf16, t)"),
        (NORM, r"\] \* r\)", "] * r * 1.01)"),
        (GATED, r"sat\(f8e4m3, (.*)\)\n", r"sat(f8e4m3, 1.02 * (\1))\n"),
    ],
)
def test_what_is_nearly_right_fails(name: str, old: str, new: str) -> None:
    report = verdict(name, (old, new))
    assert report.status == "failed" and "wrong result" in str(report.reason)


# -- ties --------------------------------------------------------------------------------------------------
SCALED = """kernel scaled(N)
in  x: f32[N]
out q: f4e2m1[N]

N
| q[{0}] = sat(f4e2m1, exp(x[{0}]))
"""


def test_a_code_may_be_a_step_off_where_the_reference_is_near_a_tie() -> None:
    """exp(log 2.5) is 2.5 as nearly as f32 knows: 2 and 3 are right. Of 2.6 only 3 is."""
    near, sure = np.log(np.float32(2.5)), np.log(np.float32(2.6))
    x = np.array([near, sure, 0, -9], np.float32)
    found = Oracle(dojoir.parse(SCALED), "llvm", 60.0).expected({"N": 4}, {"x": x})["q"]
    assert found.rule is ComparisonRule.CODES and found.bounds is not None
    assert found.bounds.tolist() == [1, 0, 0, 0] and found.values.tolist()[1:] == [3, 1, 0]
    for factor in ("1.0000001", "0.9999999", "1"):
        report = dojoir.verify(dojoir.parse(SCALED.replace("exp(", f"{factor} * exp(")), dojoir.parse(SCALED),
                               inputs={"x": x})  # fmt: skip
        assert report.ok, report
        assert (report.compared.exact, report.compared.near) == (6, 2), "of two runs"
        assert "6 elements compared to the bit, 2 within a step of a tie, 0 left out" in str(report)
    wrong = dojoir.parse(SCALED.replace("exp(", "0.95 * exp("))
    assert dojoir.verify(wrong, dojoir.parse(SCALED), inputs={"x": x}).status == "failed"


LOOSE = """kernel loose(N)
in  x: f32[N]
out q: f8e4m3[N]

N
| q[{0}] = sat(f8e4m3, (x[{0}] + 100000) - 100000)
"""


def test_too_many_codes_left_out_are_a_failure_unless_allowed_by_name() -> None:
    """Rounding the sum may change a small number by many steps."""
    kernel, x = dojoir.parse(LOOSE), np.linspace(0.01, 0.02, 300, dtype=np.float32)
    report = dojoir.verify(kernel, inputs={"x": x})
    assert report.status == "failed" and "600 of 600 codes of q could not be compared" in str(report.reason)
    allowed = dojoir.verify(kernel, inputs={"x": x}, left_out=["q"])
    assert allowed.reason is None and allowed.compared.left_out == 600 and allowed.status == "undecided"
    few = np.append(np.full(500, 1e5, np.float32), x[:2])
    assert dojoir.verify(kernel, inputs={"x": few}).ok
    with pytest.raises(dojoir.ArgumentError, match="no output of loose"):
        dojoir.verify(kernel, left_out=["x"])


def test_an_evaluator_says_how_codes_were_compared() -> None:
    kernel = kernels.load(GATED)
    with dojoir.Evaluator(kernel, "llvm", {"M": 8, "B": 4}) as evaluator:
        right, wrong = evaluator.evaluate([kernel, changed(GATED, *CONSTANT)])
    assert right.ok and right.compared["exact"] > 1000 and right.compared["left_out"] <= 10
    assert wrong.status == "wrong" and "wrong result" in wrong.reason
    assert type(right).from_json(right.to_json()) == right


def test_codes_of_an_evaluator_that_may_be_left_out() -> None:
    kernel = dojoir.parse(LOOSE)
    for left_out, status in (((), "wrong"), (("q",), "ok")):
        with dojoir.Evaluator(kernel, "llvm", {"N": 64}, left_out=left_out) as evaluator:
            (found,) = evaluator.evaluate([kernel])
        assert found.status == status and found.compared["left_out"] > 0, found.reason
        assert status == "ok" or "codes of q could not be compared" in found.reason
