"""Integers that a module computes of an iterator in floats, as indices: `i64(f32(i) * 0.5)` is `i // 2`.

PyTorch writes the places that an interpolation reads so. The numbers are computed for all values of the iterator,
in the types of the text, and the index is one that gives the same ones: `clamp((p*i + r) // q)`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeAlias

import numpy as np

from dojoir.torch.importer.element_values import (
    F32,
    F64,
    I32,
    I64,
    Apply,
    Convert,
    ElementValue,
    IndexAsValue,
    Number,
    Value,
)
from dojoir.torch.importer.index import IndexSum, as_index, divide, least, most

MOST_VALUES = 8192
"""The extent of an iterator up to which its numbers are looked at."""

MOST_STEPS = 16
"""The largest `p` and `q`."""

Numbers: TypeAlias = "np.ndarray[Any, np.dtype[Any]]"

_DTYPES = {F64: np.float64, F32: np.float32, I64: np.int64, I32: np.int32}
_OPERATIONS: dict[str, Callable[..., Any]] = {
    "add": np.add, "sub": np.subtract, "mul": np.multiply, "max": np.maximum, "min": np.minimum, "floor": np.floor,
    "ceil": np.ceil, "neg": np.negative, "div": np.divide,
}  # fmt: skip


def as_quotient(value: Value, iterator: IndexSum, extent: int) -> Callable[[IndexSum], IndexSum] | None:
    """The index that an integer is, as a function of the one it is computed of; None where none is found."""
    if extent > MOST_VALUES or value.dtype not in (I64, I32):
        return None
    with np.errstate(all="ignore"):
        numbers = _numbers(value, iterator, np.arange(extent))
    if numbers is None or numbers.shape != (extent,) or numbers.min() < 0:
        return None
    return _fitted(numbers)


def _numbers(value: Value, iterator: IndexSum, at: Numbers) -> Numbers | None:
    """The value for each of the iterator, rounded as its types are."""
    kind = _DTYPES.get(value.dtype)
    if kind is None:
        return None
    match value:
        case Number(_, known):
            return np.asarray(known, kind)
        case IndexAsValue(index):
            known_at = index - iterator
            return None if known_at.constant is None else (at + known_at.constant).astype(kind)
        case Convert(_, of):
            made = _numbers(of, iterator, at)
            if made is None or not np.isfinite(made).all() or np.abs(made).max() > 2**30:
                return None
            return made.astype(kind)
        case Apply(_, name, args) if name in _OPERATIONS and (name != "div" or np.issubdtype(kind, np.floating)):
            parts = [_numbers(one, iterator, at) for one in args]
            if any(one is None or one.dtype != kind for one in parts):
                return None
            found: Numbers = _OPERATIONS[name](*parts)
            return found.astype(kind)
        case Apply() | ElementValue():
            return None


def _fitted(numbers: Numbers) -> Callable[[IndexSum], IndexSum] | None:
    """The simplest quotient, with bounds where it needs them."""
    low, high, at = int(numbers.min()), int(numbers.max()), np.arange(len(numbers))
    if low == high:
        return lambda index: as_index(low)
    for divisor in range(1, MOST_STEPS + 1):
        for factor in range(1, MOST_STEPS + 1):
            first, last = divisor * numbers - factor * at, divisor * numbers + divisor - 1 - factor * at
            rest_low = first[numbers > low].max()
            rest_high = last[numbers < high].min()
            if rest_low <= rest_high:
                return _quotient(factor, int(min(max(0, rest_low), rest_high)), divisor, numbers)
    return None


def _quotient(factor: int, rest: int, divisor: int, numbers: Numbers) -> Callable[[IndexSum], IndexSum]:
    low, high = int(numbers.min()), int(numbers.max())
    plain = (factor * np.arange(len(numbers)) + rest) // divisor
    needs_low, needs_high = bool(plain.min() < low), bool(plain.max() > high)

    def made(index: IndexSum) -> IndexSum:
        top = index * factor + rest
        if needs_low:
            top = most(top, as_index(low * divisor))
        quotient = divide(top, as_index(divisor))[0]
        return least(quotient, as_index(high)) if needs_high else quotient

    return made
