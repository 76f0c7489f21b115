"""The NumPy versions of the library's kernels mean what the kernels mean."""

from __future__ import annotations

import numpy as np
import pytest
from references import CASES, inputs

import dojoir
from dojoir.kernels import in_numpy

NAMES = [name for name in dojoir.kernels.names() if in_numpy.baseline(name) is not None]


@pytest.mark.parametrize("name", NAMES)
def test_numpy_agrees_with_the_meaning(name: str) -> None:
    function = in_numpy.baseline(name)
    assert function is not None
    case = [case for case in CASES if case.kernel == name][-1]
    kernel = case.load()
    given = inputs(kernel, case.sizes)
    expected = dojoir.interpret(kernel, given, **case.sizes)
    actual = {n: np.array(given.get(n, np.zeros_like(array))) for n, array in expected.items()}
    function(*(actual[b.name] if b.name in actual else given[b.name] for b in kernel.arguments))
    for output, array in expected.items():
        np.testing.assert_allclose(actual[output], array, rtol=1e-4, atol=1e-5)


def test_most_kernels_have_one() -> None:
    assert len(NAMES) >= 25
    assert in_numpy.baseline("gelu") is None
    assert in_numpy.baseline("np") is None
