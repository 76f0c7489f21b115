"""The narrow floats: encodings against ml_dtypes, rounding at every midpoint, one rounding from f64."""

from __future__ import annotations

import math
from fractions import Fraction

import ml_dtypes
import numpy as np
import numpy.typing as npt
import pytest

from dojoir.ir.dtypes import DTYPES
from dojoir.meaning.bits import from_floats, to_floats
from dojoir.types.rounding import FORMATS, nearest

REFERENCES: dict[str, type] = {
    "f16": np.float16, "bf16": ml_dtypes.bfloat16, "f8e4m3": ml_dtypes.float8_e4m3fn,
    "f8e5m2": ml_dtypes.float8_e5m2, "f4e2m1": ml_dtypes.float4_e2m1fn, "f8e8m0": ml_dtypes.float8_e8m0fnu,
}  # fmt: skip
NARROW = sorted(REFERENCES)


def every_bits(name: str) -> npt.NDArray[np.generic]:
    dtype = DTYPES[name]
    return np.arange(1 << dtype.bits, dtype=np.uint64).astype("uint16" if dtype.itemsize == 2 else "uint8")


def same(got: npt.NDArray[np.float64], want: npt.NDArray[np.float64]) -> bool:
    """Equal numbers with equal signs of zero; a NaN equals a NaN."""
    equal = (got == want) & (np.signbit(got) == np.signbit(want)) | np.isnan(got) & np.isnan(want)
    return bool(equal.all())


def bits_of(values: npt.NDArray[np.float64], name: str) -> npt.NDArray[np.int64]:
    encoded = from_floats(values, DTYPES[name])
    return encoded.view(f"uint{8 * encoded.itemsize}").astype(np.int64)


@pytest.mark.parametrize("name", NARROW)
def test_every_encoding_decodes_as_in_ml_dtypes(name: str) -> None:
    bits = every_bits(name)
    with np.errstate(invalid="ignore"):
        want = bits.view(REFERENCES[name]).astype(np.float64)
    assert same(to_floats(bits.view(DTYPES[name].stored), DTYPES[name]), want)
    if "float" not in DTYPES[name].stored:
        assert same(to_floats(bits.view(REFERENCES[name]), DTYPES[name]), want)


@pytest.mark.parametrize("name", NARROW)
def test_every_number_encodes_to_its_own_bits(name: str) -> None:
    bits = every_bits(name)
    values = to_floats(bits.view(DTYPES[name].stored), DTYPES[name])
    numbers = ~np.isnan(values)
    assert (bits_of(values, name)[numbers] == bits[numbers]).all()
    assert np.isnan(to_floats(from_floats(values, DTYPES[name]), DTYPES[name])[~numbers]).all()


@pytest.mark.parametrize("name", NARROW)
def test_midpoints_go_to_even_and_their_neighbours_to_the_nearer(name: str) -> None:
    """A midpoint of two neighbours is exact in f64, and so is what lies one f64 step beside it: a first rounding
    to f32 would lose that step."""
    format_ = FORMATS[name]
    low_bits = np.arange(format_.largest_bits, dtype=np.int64)
    stored = np.append(low_bits, format_.largest_bits).astype(f"uint{8 * DTYPES[name].itemsize}")
    values = to_floats(stored.view(DTYPES[name].stored), DTYPES[name])
    low, high = values[:-1], values[1:]
    middle = (low + high) / 2
    even = low_bits + low_bits % 2 if name != "f8e8m0" else low_bits + 1  # none is even: the larger one
    assert (bits_of(middle, name) == even).all()
    assert (bits_of(np.nextafter(middle, 0), name) == low_bits).all()
    assert (bits_of(np.nextafter(middle, np.inf), name) == low_bits + 1).all()
    below = low_bits + 1 | format_.sign_bit if name != "f8e8m0" else np.full_like(low_bits, 255)
    assert (bits_of(-np.nextafter(middle, np.inf), name) == below).all()


@pytest.mark.parametrize("name", NARROW)
def test_random_f32_round_as_in_ml_dtypes(name: str) -> None:
    rng = np.random.default_rng(7)
    values = rng.integers(0, 2**32, 20_000, dtype=np.uint32).view(np.float32)
    values = np.concatenate([values, rng.normal(0, 10, 20_000).astype(np.float32)])
    values = values[~np.isnan(values)]
    with np.errstate(all="ignore"):
        want = values.astype(REFERENCES[name]).astype(np.float64)
    if name == "f8e8m0":  # in ml_dtypes zero is NaN, and of subnormal numbers not the nearest is taken
        near = np.abs(values) < 2.0**-126
        values, want = values[~near], want[~near]
    assert same(to_floats(from_floats(values, DTYPES[name]), DTYPES[name]), want)


@pytest.mark.parametrize(
    ("name", "value", "want"),
    [
        ("f8e4m3", 464.0, 448.0),
        ("f8e4m3", math.nextafter(464, 999), math.nan),
        ("f8e4m3", -math.inf, math.nan),
        ("f8e5m2", 61440.0, math.inf),
        ("f8e5m2", math.nextafter(61440, 0), 57344.0),
        ("f4e2m1", 1e300, 6.0),
        ("f4e2m1", -math.inf, -6.0),
        ("f4e2m1", math.nan, -0.0),
        ("f8e8m0", 1.5 * 2.0**127, math.nan),
        ("f8e8m0", math.nextafter(1.5 * 2.0**127, 0), 2.0**127),
        ("f8e8m0", math.inf, math.nan),
        ("f8e8m0", -1e-300, math.nan),
        ("f8e8m0", -0.0, 2.0**-127),
        ("f8e8m0", 5e-324, 2.0**-127),
        ("f16", 65519.99, 65504.0),
        ("f16", -65520.0, -math.inf),
        ("bf16", 3.4e38, math.inf),
        ("bf16", math.nan, math.nan),
        ("f32", 1e300, math.inf),
    ],
)
def test_beyond_the_largest_number(name: str, value: float, want: float) -> None:
    dtype = DTYPES[name]
    assert same(to_floats(from_floats(np.array([value]), dtype), dtype), np.array([want]))
    assert same(np.array([nearest(value, dtype)]), np.array([want]))


@pytest.mark.parametrize("name", [*NARROW, "f32"])
def test_one_number_rounds_as_an_array(name: str) -> None:
    rng = np.random.default_rng(3)
    values = rng.normal(size=3000) * 10.0 ** rng.integers(-50, 45, 3000)
    values = np.concatenate([values, rng.normal(0, 4, 1000), [0.0, -0.0, 5e-324, -5e-324, np.inf, np.nan]])
    got = np.array([nearest(float(value), DTYPES[name]) for value in values])
    assert same(got, to_floats(from_floats(values, DTYPES[name]), DTYPES[name]))


def test_integers_round_once() -> None:
    f32, f64 = DTYPES["f32"], DTYPES["f64"]
    assert nearest(2**24 + 1, f32) == 2**24
    assert nearest(-(2**24 + 3), f32) == -(2**24 + 4)
    above_middle = (1 << 60) + (1 << 36) + 1  # f64 would round it to the midpoint of two f32 numbers
    assert nearest(above_middle, f32) == (1 << 60) + (1 << 37)
    assert nearest(2**53 + 1, f64) == 2**53
    assert nearest(10**400, f64) == math.inf
    assert nearest(-(2**128), f32) == -math.inf
    assert nearest(2**128 - 2**103 - 1, f32) == float(np.finfo(np.float32).max)
    rng = np.random.default_rng(5)
    for value in (int(v) for v in rng.integers(-(2**63), 2**63 - 1, 500)):
        error = abs(Fraction(nearest(value, f32)) - value)
        below, above = (np.nextafter(np.float32(nearest(value, f32)), np.float32(s)) for s in (-np.inf, np.inf))
        assert error <= min(abs(Fraction(float(below)) - value), abs(Fraction(float(above)) - value))


@pytest.mark.parametrize("name", NARROW)
def test_shapes_are_kept(name: str) -> None:
    dtype = DTYPES[name]
    for shape in ((), (0,), (2, 3)):
        bits = from_floats(np.ones(shape), dtype)
        assert (bits.shape, bits.dtype.name) == (shape, dtype.stored)
        assert (to_floats(bits, dtype) == 1).all()
    transposed = from_floats(np.arange(6.0).reshape(2, 3), dtype).T
    assert to_floats(transposed, dtype).shape == (3, 2)
