"""What every peer of the table works with: the arguments of a row, and calls on them."""

from __future__ import annotations

import importlib
import time
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
from rows import ROWS

Arrays = Mapping[str, Any]
"""The arguments of a row's kernel by name: NumPy arrays, and numbers for what has no shape."""

Call = Callable[[], object]
"""The operation on arguments that it knows, without arguments."""

Builder = Callable[[Arrays, int], Call]
"""Makes the call for arguments and a number of threads."""


def library(name: str) -> Any:
    """A library that need not be installed where the types are checked."""
    return importlib.import_module(name)


def kept(compute: Callable[[], Any], keep: Callable[[Any], object]) -> Call:
    """A call that computes, and keeps the result the first time."""
    first = [True]

    def call() -> None:
        result = compute()
        if first[0]:
            keep(result)
            first[0] = False

    return call


def fastest(*calls: Call) -> Call:
    """The fastest of several ways to compute the same: each runs once to warm up, then four times in turn."""
    best = [float("inf")] * len(calls)
    for turn in range(5):
        for number, call in enumerate(calls):
            start = time.perf_counter()
            call()
            if turn:
                best[number] = min(best[number], time.perf_counter() - start)
    return calls[best.index(min(best))]


def number(value: Any) -> Any:
    """A NumPy number as one of Python, anything else as it is."""
    return float(value) if isinstance(value, float | np.floating) else value


def signature(operation: str) -> tuple[list[str], list[str]]:
    """The names of the arguments that an operation reads and of those that it gives, by the row's kernel."""
    kernel = next(row for row in ROWS if row.kernel == operation).load()
    takes = [buffer.name for buffer in kernel.arguments if buffer.role != "out"]
    gives = [buffer.name for buffer in kernel.arguments if buffer.role != "in"]
    return takes, gives
