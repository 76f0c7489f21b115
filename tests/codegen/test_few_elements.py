"""Kernels whose statements meet in a few elements, by targets of a CPU beside the interpreter."""

from __future__ import annotations

from random import Random

import pytest
from able import can_run
from agreement import agree
from drawing import draw
from drawing.settings import FEW_SIZES, few_inputs

import dojoir


@pytest.mark.parametrize("seed", range(8))
@pytest.mark.parametrize("target", ["llvm", "avx512"])
def test_kernels_that_meet_in_a_few_elements(target: str, seed: int) -> None:
    if not can_run(target):
        pytest.skip(f"this machine runs no {target}")
    random = Random(f"few {target} {seed}")
    for _ in range(3):
        kernel = draw("few elements", random)
        compiled = dojoir.compile(kernel, target)
        for sizes in FEW_SIZES:
            inputs = few_inputs(random, sizes["N"])
            expected = dojoir.interpret(kernel, inputs, **sizes)
            wrong = agree(kernel, expected, compiled.run(inputs, **sizes), exact=False)
            assert wrong is None, f"{wrong} at {sizes}\n{kernel}"
