"""What honest schedules were refused for: bounds that were too small for what the language allows."""

from __future__ import annotations

from random import Random

import bounded_runs
import numpy as np
import pytest

import dojoir
from dojoir.ir.dtypes import DTYPES
from dojoir.runtime.verification.propagation import roundoff

PRODUCT = """
kernel product(N)
in  a: f64[N]
in  b: f64[N]
inout c: f64
N
| c += a[{0}] * b[{0}]
"""


@pytest.mark.parametrize("name", ["f64", "f32", "f16", "bf16"])
def test_a_rounding_is_off_by_something_below_the_normal_numbers(name: str) -> None:
    relative, absolute = roundoff(DTYPES[name])
    assert 0 < absolute < relative


def test_a_product_that_is_fused_or_not_may_underflow() -> None:
    """Half of the smallest number is rounded to 0 before it is added, and stays where it is fused with another."""
    kernel = dojoir.parse(PRODUCT)
    fused = dojoir.parse(PRODUCT.replace("c += a[{0}] * b[{0}]", "c = fma(a[{0}], b[{0}], c)"))
    tiny = np.array([5e-324, 5e-324])
    inputs = {"a": tiny, "b": np.array([0.75, -0.5]), "c": np.array(0.0)}
    report = dojoir.verify(fused, kernel, inputs=inputs)
    assert report.ok, report


def test_what_a_sum_may_be_off_does_not_follow_from_the_order_of_its_text() -> None:
    """What is small beside a term that comes later in the text may be added after it."""
    text = "kernel sums(N)\nin x: f32[N]\ninout y: f32\nN\n| y += x[{0}]\n"
    kernels = [dojoir.parse(text), dojoir.parse(text.replace("x[{0}]", "x[N - 1 - {0}]"))]
    x = np.array([1.0] * 30 + [2.0**24], np.float32) * np.float32(1.5)
    allowed = []
    for kernel in kernels:
        report = dojoir.verify(kernel, kernel, inputs={"x": x, "y": np.array(0, np.float32)})
        assert report.ok and report.worst is not None, report
        allowed.append(report.worst.allowed)
    one_rounding = 2.0**-24 * float(x.sum())
    assert min(allowed) > 2 * 10 * one_rounding, "what 30 additions to the large one are off, most of them a half"
    assert max(allowed) < 1.5 * min(allowed)


TRIANGULAR = """kernel solve(P)
in l: f32[P, 3, 3]
in b: f32[P, 3]
out x: f32[P, 3]
P @p
| 3 @i
| | x[{p}, {i}] = b[{p}, {i}]
| | {i} @j
| | | x[{p}, {i}] += -(l[{p}, {i}, {j}] * x[{p}, {j}])
| | x[{p}, {i}] *= 1 / l[{p}, {i}, {i}]
"""


def test_what_a_sum_with_infinities_feeds_may_be_anything_too() -> None:
    """Beyond f32, 1 / -1e-45 is off by infinity, and so is 0 times that, and all that is summed up with it."""
    kernel = dojoir.parse(TRIANGULAR)
    report = dojoir.verify(kernel, sizes={"P": 64}, seeds=(15,), distributions=("special",))
    assert report.reason is None, report  # nothing is wrong


def test_what_is_right_in_the_declared_types_is_allowed_at_any_value() -> None:
    found = list(filter(None, map(bounded_runs.wrong, range(120))))
    assert not found, found[0]


def test_that_a_wrong_result_is_not_allowed() -> None:
    """Most elements of the drawn kernels are compared."""
    compared, elements = 0, 0
    for seed in range(30):
        random = Random(f"bounded {seed}")
        kernel, given = bounded_runs.drawn(random), bounded_runs.inputs(random)
        for comparison in bounded_runs.compared(kernel, kernel, given).values():
            compared += comparison.elements - comparison.unchecked
            elements += comparison.elements
    assert compared > 0.6 * elements, compared / elements


EXP = """kernel exponential(N)
fp fast
in  x: f32[N]
out y: f32[N]

N @i
| y[{i}] = exp(VALUE)
"""


@pytest.mark.parametrize("value", ["x[{i}]", "select({i} % 2 == 0, x[{i}], -inf)"])
def test_exp_of_fast_is_right_on_a_gpu_and_what_is_masked_is_compared(value: str) -> None:
    """Its error grows with the argument there, and of -inf it is none."""
    x = np.random.default_rng(0).uniform(-80, 80, 200).astype(np.float32)
    kernel = dojoir.parse(EXP.replace("VALUE", value))
    report = dojoir.verify(kernel, target="cuda", emulated=True, inputs={"x": x})
    assert report.ok and "not compared" not in str(report)
