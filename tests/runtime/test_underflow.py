"""Results below the smallest normal number: rounding may take them to zero, in f64 too."""

from __future__ import annotations

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
