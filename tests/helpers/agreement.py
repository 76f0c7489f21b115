"""Arguments for a kernel, drawn at random, and whether two results of it agree."""

from __future__ import annotations

from collections.abc import Mapping
from random import Random

import numpy as np
import numpy.typing as npt

from dojoir.ir.dtypes import DTYPES, DType
from dojoir.ir.nodes import Access, Buffer, Kernel, holds
from dojoir.meaning.bits import from_floats, to_floats
from dojoir.meaning.packed import packed, unpacked
from dojoir.types.rounding import FORMATS


def small_sizes(kernel: Kernel, random: Random) -> dict[str, int]:
    """Runtime sizes that keep the facts of a kernel: small, with at most one beyond a vector or two."""
    for attempt in range(2000):
        most = 8 if attempt < 1500 else 64
        sizes = {name: random.randint(1, most) for name in kernel.runtime_sizes}
        if sizes and random.random() < 0.4:
            sizes[random.choice(kernel.runtime_sizes)] = random.choice((9, 16, 17, 31, 33, 36))
        if all(holds(fact, sizes, ()) for fact in kernel.facts):
            return sizes
    raise AssertionError(f"no small sizes satisfy the facts of {kernel.name}")


def random_arguments(
    kernel: Kernel, sizes: Mapping[str, int], random: Random, special: bool = False
) -> dict[str, npt.NDArray[np.generic]]:
    """An array for each `in` and `inout` of a kernel, in the type that it is stored in (0 dimensions: a scalar).

    Floats are small multiples of 1/8; where `special`, some are infinite, NaN, huge, subnormal or -0.0. Integers
    are mostly small; those that a gather uses as indices are in bounds.
    """
    numbers = np.random.default_rng(random.getrandbits(64))
    limits = _gather_limits(kernel, sizes)
    arrays: dict[str, npt.NDArray[np.generic]] = {}
    for buffer in kernel.arguments:
        if buffer.role != "out":
            shape = tuple(dim.extent.evaluate(sizes) for dim in buffer.dims)
            limit = limits.get(buffer.name)
            array = _random_array(buffer.dtype, shape, limit, numbers, special)
            if buffer.facts:
                array = _as_declared(buffer, sizes, shape, limit, numbers).astype(array.dtype)
            arrays[buffer.name] = packed(buffer, array)
    return arrays


def random_factors(dtype: DType, size: int, random: Random) -> npt.NDArray[np.generic]:
    """Floats whose products overflow in no order, nor are rounded."""
    signs = (1.0,) if FORMATS[dtype.name].is_scale else (-1.0, 1.0)
    numbers = np.array([random.choice(signs) for _ in range(size)])
    for factor in (2, 0.5):
        numbers[random.randrange(size)] *= factor
    return from_floats(numbers, dtype)


def _random_array(
    dtype: DType, shape: tuple[int, ...], limit: int | None, numbers: np.random.Generator, special: bool
) -> npt.NDArray[np.generic]:
    if dtype.is_float:
        values = numbers.integers(-32, 33, shape) / 8
        if special:
            odd = numbers.choice([np.inf, -np.inf, np.nan, -0.0, 1e-40, 3e38, 1e-310, 70000.0, 449.0], shape)
            values = np.where(numbers.random(shape) < 0.15, odd, values)
        if FORMATS[dtype.name].is_scale and not special:  # negative ones would be NaN
            values = np.abs(values)
        stored = from_floats(np.asarray(values), dtype)
        if shape == () and dtype.bits == 4:  # a number, then, and 6 is the largest
            return np.minimum(stored, 6)
        return stored
    if dtype == DTYPES["bool"]:
        return np.asarray(numbers.random(shape) < 0.5)
    if limit is not None:
        return np.asarray(numbers.integers(0, limit, shape)).astype(dtype.stored)
    bits = numbers.integers(-(2**63), 2**63 - 1, shape, endpoint=True)
    values = np.where(numbers.random(shape) < 0.15, bits, numbers.integers(-9, 100, shape))
    return values.astype(dtype.stored)  # wraps


def _as_declared(
    buffer: Buffer,
    sizes: Mapping[str, int],
    shape: tuple[int, ...],
    limit: int | None,
    numbers: np.random.Generator,
) -> npt.NDArray[np.generic]:
    """Integers of which the facts on the data of a buffer hold, many of them at their bounds."""
    size = int(np.prod(shape))
    largest = int(np.iinfo(buffer.dtype.stored).max) if limit is None else limit - 1
    bounds = {fact.word: fact.most.evaluate(sizes) for fact in buffer.facts if fact.most is not None}
    least = int(buffer.distinct)
    if "offsets" in bounds:
        count = shape[-1] - 1
        most = max(0, min(bounds["offsets"], (largest - 1) // max(1, count)))
        steps = np.where(numbers.random(count) < 0.3, most, numbers.integers(least, max(least, most) + 1, count))
        return np.cumsum([0, *steps])
    if "lengths" in bounds:
        largest = min(largest, bounds["lengths"])
        if not buffer.distinct:
            return np.where(numbers.random(shape) < 0.3, largest, numbers.integers(0, largest + 1, shape))
        limit = largest + 1
    return numbers.permutation(max(size, limit or 0))[:size].reshape(shape)


def _gather_limits(kernel: Kernel, sizes: Mapping[str, int]) -> dict[str, int]:
    """For each buffer whose elements are used as indices, if by way of temporaries too, the smallest dimension that
    they index."""
    limits: dict[str, int] = {}
    for site in kernel.sites:
        for access in site.statement.accesses:
            for index, dim in zip(access.indices, kernel.buffer(access.buffer).dims, strict=True):
                if isinstance(index, Access):
                    extent = dim.extent.evaluate(sizes)
                    limits[index.buffer] = min(extent, limits.get(index.buffer, extent))
    for site in reversed(kernel.sites):  # what is read for a temporary was written before
        target = site.statement.target.buffer
        for access in site.statement.reads if target in limits else ():
            limits[access.buffer] = min(limits[target], limits.get(access.buffer, limits[target]))
    return limits


def agree(
    kernel: Kernel,
    expected: Mapping[str, npt.NDArray[np.generic]],
    actual: Mapping[str, npt.NDArray[np.generic]],
    exact: bool,
) -> str | None:
    """How two results of a kernel differ beyond what correct targets may, or None.

    Where `exact`, not at all: NaN equals NaN, but 0.0 is not -0.0, except under `fp fast`. Else floats may differ
    by some units in the last place of their type, and by some in the last place of an f32 as large as the largest
    result; under `fp fast` one may be infinite and the other NaN. There what is NaN may be any number: maxima and
    minima may leave it out.
    """
    largest = 1.0
    for name in expected:
        dtype = kernel.buffer(name).dtype
        if dtype.is_float:
            finite = np.abs(_numbers(unpacked(kernel.buffer(name), expected[name]), dtype))
            largest = max(largest, float(np.max(finite, initial=0.0, where=np.isfinite(finite))))
    for name in expected:
        dtype = kernel.buffer(name).dtype
        a, b = expected[name], actual[name]
        if a.shape != b.shape or a.dtype != b.dtype:
            return f"{name}: {a.dtype}{a.shape} and {b.dtype}{b.shape}"
        a, b = (unpacked(kernel.buffer(name), one) for one in (a, b))
        if dtype.is_float:
            a, b = _numbers(a, dtype), _numbers(b, dtype)
        if exact or not dtype.is_float:
            same = (a == b) | ((a != a) & (b != b))
            if dtype.is_float and kernel.fp != "fast":
                same &= (np.signbit(a) == np.signbit(b)) | (a != a)
        else:
            unit = 2.0 ** -max(FORMATS[dtype.name].precision - 2, 0)
            with np.errstate(all="ignore"):
                same = np.isclose(a, b, rtol=max(unit, 2e-5), atol=2e-5 * largest, equal_nan=True)
            if kernel.fp == "fast":  # what overflows in one order of sums is inf, and NaN in another
                same |= (np.isinf(a) & np.isnan(b)) | (np.isnan(a) & np.isinf(b))
        if dtype.is_float and kernel.fp == "fast":
            same |= np.isnan(a)
        if not np.all(same):
            where = tuple(int(i) for i in np.argwhere(~np.asarray(same))[0])
            return f"{name}{list(where)}: {a[where]} and {b[where]}"
    return None


def _numbers(array: npt.NDArray[np.generic], dtype: DType) -> npt.NDArray[np.float64]:
    return to_floats(array, dtype)
