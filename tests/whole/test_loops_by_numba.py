"""The loops that stand beside dojoir as Numba's in the benchmarks mean what the texts mean: run as plain Python,
in which roots and logarithms of negative numbers are no errors."""

from __future__ import annotations

import math
from pathlib import Path
from random import Random
from runpy import run_path
from types import SimpleNamespace

import numpy as np
import pytest
from agreement import agree, small_sizes
from folders import ROOT
from practice_texts import arguments_of

import dojoir

BENCHMARKS = ROOT / "benchmarks"
LOOPS = run_path(str(BENCHMARKS / "numba_text.py"))["loops"]
TEXTS = sorted([*(BENCHMARKS / "practice").glob("*.dojo"), *(BENCHMARKS / "polybench").glob("*.dojo")])
WITHOUT = {
    "digit_histogram", "fp4_quantize", "fp8_quantize", "int4_linear", "int4_quantize", "int8_quantize",
    "mxfp8_quantize",
}  # fmt: skip
"""Texts with types or conversions that Numba has not."""


@pytest.mark.parametrize("path", TEXTS, ids=lambda path: path.stem)
def test_they_mean_what_the_text_means(path: Path) -> None:
    kernel, random = dojoir.parse(path.read_text(encoding="utf-8")), Random(path.stem)
    sizes = small_sizes(kernel, random)
    fixed = kernel.specialize(**sizes)
    if path.stem in WITHOUT:
        with pytest.raises(NotImplementedError, match="no loops for"):
            LOOPS(fixed)
        return
    given = arguments_of(kernel, sizes, random)
    wanted = dojoir.interpret(fixed, given)
    space: dict[str, object] = {"math": SimpleNamespace(**vars(math) | {"log": np.log, "sqrt": np.sqrt}), "np": np}
    exec(LOOPS(fixed), space)
    made = {
        b.name: given[b.name].copy() if b.name in given else np.empty_like(wanted[b.name]) for b in fixed.arguments
    }
    made |= {b.name: split(fixed, b.name, made[b.name]) for b in fixed.arguments if b.flat is not None}
    run = space["run"]
    assert callable(run)
    with np.errstate(all="ignore"):
        run(*(made[b.name][()] if b.role == "in" and not b.dims else made[b.name] for b in fixed.arguments))
    assert agree(fixed, wanted, {n: made[n].reshape(wanted[n].shape) for n in wanted}, exact=False) is None


def split(kernel: dojoir.Kernel, name: str, array: np.ndarray) -> np.ndarray:
    """An array with all dimensions of its buffer, some of which are one in a call."""
    return array.reshape([dim.extent.offset for dim in kernel.buffer(name).dims])
