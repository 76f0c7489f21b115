"""Operands of products in narrow types, what they are as numbers, and how near a product is to the exact one."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

import dojoir
from dojoir.ir.dtypes import DTYPES
from dojoir.meaning.bits import coded
from dojoir.passes.schedule.facts.product_facts import FP8


def drawn(kernel: dojoir.Kernel, seed: int = 0) -> dict[str, NDArray[Any]]:
    draw = np.random.default_rng(seed)
    shapes = {b.name: tuple(d.extent.evaluate({s.name: s.value or 0 for s in kernel.sizes}) for d in b.dims)
              for b in kernel.arguments if b.role != "out"}  # fmt: skip
    return {name: _drawn(draw, kernel.buffer(name).dtype.name, shape) for name, shape in shapes.items()}


def _drawn(draw: np.random.Generator, dtype: str, shape: tuple[int, ...]) -> NDArray[Any]:
    stored: np.dtype[Any] = np.dtype(DTYPES[dtype].stored)
    if dtype in FP8:
        return draw.integers(0, 0x60, shape, stored) | draw.integers(0, 2, shape, stored) << 7  # up to 32, or 128
    if DTYPES[dtype].is_float:
        values = draw.standard_normal(shape)
        return bf16(values) if dtype == "bf16" else values.astype(stored)
    least, most = np.iinfo(stored).min, np.iinfo(stored).max
    return draw.integers(least, most, shape, stored, endpoint=True)


def bf16(values: NDArray[Any]) -> NDArray[Any]:
    """The bits of numbers that bf16 has."""
    return (values.astype(np.float32).view(np.uint32) >> 16).astype(np.uint16)


def numbers(values: NDArray[Any], dtype: str) -> NDArray[Any]:
    if dtype == "bf16":
        return (values.astype(np.uint32) << 16).view(np.float32).astype(np.float64)
    if dtype in FP8:
        return np.array([coded(DTYPES[dtype], code) for code in range(256)])[values]
    return values.astype(np.float64)


def agrees(kernel: dojoir.Kernel, found: Mapping[str, NDArray[Any]], given: Mapping[str, NDArray[Any]]) -> bool:
    """Whether each element is as near to the exact sum as a sum of f32 that is rounded once must be."""
    types = {buffer.name: buffer.dtype.name for buffer in kernel.arguments}
    n, m, k = (size.value or 0 for size in kernel.sizes)
    a, b = (numbers(given[name], types[name]) for name in "ab")
    text = dojoir.to_text(kernel)
    a = a.T if "a[{2}, {0}]" in text else a
    b = b.T if "b[{1}, {2}]" in text else b
    exact, terms = a @ b, np.abs(a) @ np.abs(b)
    if "c" in given:
        exact, terms = exact + numbers(given["c"], types["c"]), terms + np.abs(numbers(given["c"], types["c"]))
    result = numbers(found["c"].reshape(n, m), types["c"])
    if types["c"] == "i32":
        return np.array_equal(result, (exact + 2**31) % 2**32 - 2**31)
    last = {"bf16": 2.0**-8, "f16": 2.0**-11, "f32": 2.0**-24, "f64": 2.0**-53}[types["c"]]
    of_sums = 2.0**-52 if types["c"] == "f64" else 2.0**-23
    return bool(np.all(np.abs(result - exact) <= 2 * (k + 1) * of_sums * terms + last * np.abs(exact) * 1.01))
