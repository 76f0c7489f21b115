"""Arguments of the texts of benchmarks/practice and benchmarks/unseen, of which some are made as their comments
say: lengths that lie within other arrays, places that all differ."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from functools import cache
from random import Random
from runpy import run_path
from typing import Any

import numpy as np
import numpy.typing as npt
from agreement import random_arguments
from folders import ROOT

import dojoir

BENCHMARKS = ROOT / "benchmarks"


@cache
def practice() -> Mapping[str, Any]:
    """What benchmarks/practice.py defines, by name."""
    sys.path.insert(0, str(BENCHMARKS))
    return run_path(str(BENCHMARKS / "practice.py"))


@cache
def _texts() -> Mapping[str, Any]:
    texts: Callable[[str], Mapping[str, Any]] = practice()["texts"]
    return {**texts("practice"), **texts("unseen")}


def arguments_of(
    kernel: dojoir.Kernel, sizes: Mapping[str, int], random: Random
) -> dict[str, npt.NDArray[np.generic]]:
    """Random arguments of a kernel, made as the comments of a text say if it is one of that name."""
    text = _texts().get(kernel.name)
    if text is not None and text.made:
        fixed = {size.name: size.value for size in kernel.sizes if size.value is not None}
        made: dict[str, npt.NDArray[np.generic]] = text.inputs({**fixed, **sizes})
        return made
    return random_arguments(kernel, sizes, random)
