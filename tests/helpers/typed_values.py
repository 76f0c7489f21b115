"""Values of every type, and when two floats are the same."""

from __future__ import annotations

import math

import numpy as np
import numpy.typing as npt

from dojoir.ir.dtypes import DTYPES, DType
from dojoir.meaning.bits import from_floats, to_floats
from dojoir.types.rounding import FORMATS

Array = npt.NDArray[np.generic]
FLOATS = [name for name, dtype in DTYPES.items() if dtype.is_float]
COMPUTE: dict[str, type[np.floating]] = {name: np.float64 if name == "f64" else np.float32 for name in FLOATS}


def floats(name: str, seed: int, count: int = 400) -> Array:
    """Random values of a float type of all magnitudes, and every special one."""
    rng = np.random.default_rng(seed)
    values = rng.normal(size=count) * 10.0 ** rng.integers(-3, 3, count)
    format_ = FORMATS[name]
    tiny = math.ldexp(1, format_.quantum)
    special = [0.0, -0.0, 1.0, -1.0, 0.5, 2.5, np.inf, -np.inf, np.nan, format_.largest, -format_.largest]
    special += [tiny, -tiny, 3 * tiny, math.ldexp(1, format_.lowest), 2.0]
    return from_floats(np.concatenate([values, rng.choice(special, count)]), DTYPES[name])


def limits(dtype: DType) -> tuple[int, int]:
    """The least and the largest number of an integer type."""
    low = -(1 << (dtype.bits - 1)) if dtype.kind == "i" else 0
    return low, low + (1 << dtype.bits) - 1


def wrapped(values: Array, dtype: DType) -> Array:
    """Integers modulo 2**bits in the range of an integer type."""
    stored = values.astype(dtype.stored)
    if not dtype.is_nibble:
        return stored
    low = stored & np.array(15, stored.dtype)
    return ((low ^ 8) - 8).astype(dtype.stored) if dtype.kind == "i" else low


def integers(name: str, seed: int, count: int = 400) -> Array:
    """Random values over the whole range of an integer type, small ones, and the ends of the range."""
    rng = np.random.default_rng(seed)
    info = np.iinfo(DTYPES[name].stored)
    if DTYPES[name].is_nibble:
        return rng.integers(*limits(DTYPES[name]), 3 * count, info.dtype, endpoint=True)
    wide = rng.integers(info.min, info.max, count, dtype=info.dtype, endpoint=True)
    small = rng.integers(0, 10, count).astype(info.dtype)
    return np.concatenate([wide, small, rng.choice(np.array([info.min, info.max, 0, 1], info.dtype), count)])


def assert_same_floats(got: Array, want: npt.NDArray[np.floating], name: str) -> None:
    """Bit for bit once `want`, of the compute type, is stored, but for the payload of NaN."""
    stored = to_floats(from_floats(want, DTYPES[name]), DTYPES[name])
    mine = to_floats(got, DTYPES[name])
    equal = (mine == stored) & (np.signbit(mine) == np.signbit(stored)) | np.isnan(mine) & np.isnan(stored)
    assert got.dtype.name == DTYPES[name].stored
    assert equal.all(), (mine[~equal][:3], stored[~equal][:3])
