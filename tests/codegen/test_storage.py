"""Narrow floats to and from bits: every code, and numbers at and around every rounding boundary."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest
from lir_eval import Array, evaluate, numpy_type

import dojoir
from dojoir.codegen.math.elementary import decode, encode
from dojoir.codegen.math.narrow_floats import bits_of
from dojoir.ir.dtypes import DTYPES, F32, F64, DType
from dojoir.types.rounding import FORMATS

REFERENCE = {
    "f16": np.float16, "bf16": ml_dtypes.bfloat16, "f8e4m3": ml_dtypes.float8_e4m3fn,
    "f8e5m2": ml_dtypes.float8_e5m2, "f4e2m1": ml_dtypes.float4_e2m1fn, "f8e8m0": ml_dtypes.float8_e8m0fnu,
}  # fmt: skip


def codes(name: str) -> Array:
    dtype = DTYPES[name]
    return np.arange(2**dtype.bits).astype(numpy_type(bits_of(dtype)))


def decoded(name: str) -> Array:
    """The number of each code, in f64."""
    with np.errstate(invalid="ignore"):  # signalling NaNs
        return codes(name).view(REFERENCE[name]).astype(np.float64)


def same(ours: Array, theirs: Array) -> None:
    """Equal bit for bit, but any NaN equals any other."""
    assert ours.dtype == theirs.dtype
    bits = np.dtype(f"u{ours.dtype.itemsize}")
    wrong = (ours.view(bits) != theirs.view(bits)) & ~(np.isnan(ours) & np.isnan(theirs))
    assert not wrong.any(), (ours[wrong][:5], theirs[wrong][:5])


@pytest.mark.parametrize("name", REFERENCE)
def test_decode_every_code(name: str) -> None:
    stored = codes(name)
    with np.errstate(invalid="ignore"):  # signalling NaNs
        expected = decoded(name).astype(np.float32)
    same(evaluate(decode(DTYPES[name], 1), stored), expected)


def boundaries(name: str, source: DType) -> Array:
    """Every number of the format, every midpoint between two, both next to each, and random ones."""
    kind = numpy_type(source)
    exact = decoded(name)
    exact = np.sort(exact[np.isfinite(exact)])
    step = exact[-1] - exact[-2]
    exact = np.concatenate([exact, [exact[-1] + step, exact[0] - step, 1e30, -1e30]])
    exact.sort()
    rng = np.random.default_rng(1)
    some = rng.integers(0, 2 ** (8 * kind.itemsize), 200_000, np.dtype(f"u{kind.itemsize}")).view(kind)
    with np.errstate(over="ignore"):
        points = np.concatenate([exact, (exact[1:] + exact[:-1]) / 2]).astype(kind)
        down, up = np.nextafter(points, -np.inf, dtype=kind), np.nextafter(points, np.inf, dtype=kind)
        near = (rng.choice(exact, 100_000) * rng.uniform(0.9, 1.1, 100_000)).astype(kind)
    special = np.array([0.0, -0.0, np.inf, -np.inf, np.nan, -np.nan, np.finfo(kind).max, 5e-324], kind)
    return np.concatenate([points, down, up, some, near, special])


def nearest(x: Array, name: str) -> Array:
    """The bits of the number of the format nearest to each x, by looking it up among all of them."""
    values = decoded(name)
    values = values if name == "f8e8m0" else values[: len(codes(name)) // 2]
    finite = values[np.isfinite(values)]
    step = finite[-1] - finite[-2] if name != "f8e8m0" else finite[-1]
    # a number of the format is even if its code is; the first number beyond the last stands for overflow
    ladder = np.append(finite, finite[-1] + step)
    middle = (ladder[1:] + ladder[:-1]) / 2
    size = np.abs(x.astype(np.float64))
    code = np.searchsorted(middle, size, "left")
    tie = (code < len(middle)) & (size == middle[np.minimum(code, len(middle) - 1)])
    return np.where(tie & ((code % 2 == 1) | (name == "f8e8m0")), code + 1, code)


@pytest.mark.parametrize("source", [F32, F64], ids=str)
@pytest.mark.parametrize("name", REFERENCE)
def test_encode_rounds_once_to_nearest_even(name: str, source: DType) -> None:
    x = boundaries(name, source)
    form = FORMATS[name]
    number = ~np.isnan(x)
    got = evaluate(encode(DTYPES[name], source, 1), x)
    code = nearest(x[number], name)
    code = np.minimum(code, form.overflow_bits)
    expected = code | np.where(np.signbit(x[number]), form.sign_bit, 0)
    if name == "f8e8m0":
        expected = np.where(x[number] < 0, form.nan_bits, code)
    np.testing.assert_array_equal(got[number], expected)


@pytest.mark.parametrize("name", REFERENCE)
def test_encode_agrees_with_ml_dtypes(name: str) -> None:
    x = boundaries(name, F32)
    if name == "f4e2m1":  # what it makes of a NaN depends on the sign of the NaN
        x = x[~np.isnan(x)]
    if name == "f8e8m0":  # there zero is NaN, and of subnormal numbers not the nearest is taken
        x = x[~(np.abs(x) < 2.0**-126)]
    with np.errstate(over="ignore", invalid="ignore"):
        theirs = x.astype(REFERENCE[name])
    ours = evaluate(encode(DTYPES[name], F32, 1), x).view(REFERENCE[name])
    same(ours, theirs)


@pytest.mark.parametrize("source", [F32, F64], ids=str)
@pytest.mark.parametrize("name", REFERENCE)
def test_nan(name: str, source: DType) -> None:
    nan = np.array([np.nan, -np.nan], numpy_type(source))
    back = evaluate(decode(DTYPES[name], 1), evaluate(encode(DTYPES[name], source, 1), nan))
    if name == "f4e2m1":
        assert (back == 0).all()
        assert np.signbit(back).all()
    else:
        assert np.isnan(back).all()
        assert not np.signbit(back).any()


@pytest.mark.parametrize("name", REFERENCE)
def test_there_and_back(name: str) -> None:
    stored = codes(name)
    value = evaluate(decode(DTYPES[name], 1), stored)
    number = ~np.isnan(value)
    np.testing.assert_array_equal(evaluate(encode(DTYPES[name], F32, 1), value)[number], stored[number])


@pytest.mark.parametrize("target", ["llvm", "c", "avx512", "avx2", "neon", "sve", "rvv"])
@pytest.mark.parametrize("name", ["f16", "bf16", "f8e4m3", "f8e5m2", "f4e2m1", "f8e8m0"])
def test_every_target_has_words_for_narrow_numbers_in_lanes(name: str, target: str) -> None:
    """What is converted in lanes is a function of that many: SVE had no name for one of four bits."""
    text = f"kernel f(N)\nin x: f64[N]\nin n: {name}[N]\nout y: {name}[N]\nout m: f64[N]\n\nN : v\n"
    text += f"| y[{{0}}] = {name}(x[{{0}}])\n| m[{{0}}] = f64(n[{{0}}])\n"
    assert "f(" in dojoir.emit(dojoir.parse(text), target)
