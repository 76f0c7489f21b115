"""The elementary functions: their error on samples, their special values, and the same bits from every target.

`benchmarks/accuracy.py` measures the errors over all f32 arguments.
"""

from __future__ import annotations

import ctypes
import itertools
import math
import subprocess
import sys
from collections.abc import Callable, Iterator

import lir_eval
import mpmath
import numpy as np
import pytest
from elementary_values import SPECIAL, compute, inf, mp_errors, nan, same
from folders import ROOT
from lir_eval import Array, evaluate, fma, fma_f32_exact, numpy_type

import dojoir
from dojoir.codegen.lir import program as lir
from dojoir.codegen.math.elementary import FAST, FUNCTIONS, HARDWARE, OF_TWO, decode, encode, function
from dojoir.ir.dtypes import DTYPES, F32, F64, DType

UNARY = sorted(FUNCTIONS)
BINARY = sorted(OF_TWO)
TYPES = [F32, F64]


def test_the_stated_errors_are_within_the_limits() -> None:
    limits = {"erfc": 4, "asin": 2.5}
    assert all(max(f.ulp.values()) <= limits.get(name, 2) for name, f in {**FUNCTIONS, **OF_TWO}.items())
    assert all(max(f.ulp.values()) <= 4 for f in FAST.values())


def test_the_stated_errors_are_those_of_the_docs() -> None:
    lines = (ROOT / "docs" / "language.md").read_text().partition("| functions | f32 | f64 |")[2].splitlines()[2:]
    told: dict[str, dict[DType, float]] = {}
    for line in itertools.takewhile(lambda line: line.startswith("|"), lines):
        _, names, f32, f64, _ = line.split("|")
        told |= {name.strip("`"): {F32: float(f32), F64: float(f64)} for name in names.split()}
    assert told == {n: dict(f.ulp) for n, f in {**FUNCTIONS, **OF_TWO}.items() if f.ulp[F32]}


# -- the error ---------------------------------------------------------------------------------------------
def sigmoid(x: Array) -> Array:
    z = np.exp(-np.abs(x))
    return np.where(x < 0, z, 1) / (1 + z)


IN_F64: dict[str, Callable[[Array], Array]] = {
    "exp": np.exp,
    "exp2": np.exp2,
    "log": np.log,
    "log2": np.log2,
    "tanh": np.tanh,
    "erf": lambda x: np.fromiter(map(math.erf, x.tolist()), np.float64, x.size),
    "sigmoid": sigmoid,
    "sin": np.sin,
    "cos": np.cos,
    "tan": np.tan,
    "atan": np.arctan,
    "expm1": np.expm1,
    "log1p": np.log1p,
    "rsqrt": lambda x: 1 / np.sqrt(x),
    "log10": np.log10,
    "erfc": lambda x: np.fromiter(map(math.erfc, x.tolist()), np.float64, x.size),
    "sinh": np.sinh,
    "cosh": np.cosh,
    "asin": np.arcsin,
    "acos": np.arccos,
    "asinh": np.arcsinh,
    "acosh": np.arccosh,
    "atanh": np.arctanh,
}

RANGES = {"exp": (-104, 89), "exp2": (-150, 128), "tanh": (-10, 10), "erf": (-4, 4), "sigmoid": (-104, 18),
          "expm1": (-20, 89), "log1p": (-1, 3), "erfc": (-4, 10.2), "sinh": (-89.5, 89.5), "cosh": (-89.5, 89.5),
          "asin": (-1, 1), "acos": (-1, 1), "acosh": (1, 30), "atanh": (-1, 1)}  # fmt: skip


def in_domain(name: str, x: Array) -> Array:
    """The arguments, those where the function is not a number with the other sign."""
    if name in {"asin", "acos", "atanh"}:
        return x[np.abs(x) < 1]
    if name == "acosh":
        return np.concatenate([x[x >= 1], 1 + np.abs(x[np.abs(x) < 1])]).astype(x.dtype)
    if name not in {"log", "log2", "log10", "rsqrt", "log1p"}:
        return x
    return np.where(x > (-1 if name == "log1p" else 0), x, np.abs(x))


def f32_arguments(name: str) -> Array:
    """Every exponent and sign, and more where the function does something."""
    rng = np.random.default_rng(1)
    any_size = rng.integers(0, 2**32, 30_000, np.uint32).view(np.float32)
    any_size = any_size[np.isfinite(any_size)]
    even = rng.uniform(*RANGES.get(name, (-30, 30)), 60_000)
    near_one = rng.uniform(0.4, 2.5, 30_000)
    turns = np.rint(2.0 ** rng.uniform(0, 100, 1000)) * (math.pi / 2)
    x = np.concatenate([any_size, even, near_one, turns]).astype(np.float32)
    return in_domain(name, x)


def ulps(got: Array, true: Array) -> Array:
    """How far f32 numbers are from f64 ones, in units of the last place of f32 there."""
    exponent = np.maximum(np.frexp(true)[1] - 24, -149)
    with np.errstate(invalid="ignore", over="ignore"):
        error = np.abs(got.astype(np.float64) - true) / np.ldexp(1.0, np.minimum(exponent, 104))
        return np.where(got == true.astype(np.float32), np.fmin(error, 0.5), error)


@pytest.mark.parametrize("name", UNARY)
def test_error_f32(name: str) -> None:
    x = f32_arguments(name)
    with np.errstate(all="ignore"):
        true = IN_F64[name](x.astype(np.float64))
    error = ulps(compute(name, x), true)
    assert error.max() <= FUNCTIONS[name].ulp[F32], x[error.argmax()]


@pytest.mark.parametrize("name", sorted(FAST))
def test_error_of_the_fast_ones(name: str) -> None:
    x = f32_arguments(name)
    with np.errstate(all="ignore"):
        true = IN_F64[name](x.astype(np.float64))
    got = compute(name, x, fast=True)
    tiny, huge = np.finfo(np.float32).tiny, 2.0**127.5
    normal = (np.abs(x) >= tiny) & (np.abs(true) >= tiny) & (np.abs(true) < huge)
    error = ulps(got[normal], true[normal])
    assert error.max() <= FAST[name].ulp[F32], x[normal][error.argmax()]
    assert error.max() > FUNCTIONS[name].ulp[F32]  # else it would not be another function


def moved(exact: Callable[[Array], Array], ulp: int) -> Callable[[Array], Array]:
    """An instruction whose results are so far from the right ones, subnormals 0."""

    def instruction(a: Array) -> Array:
        with np.errstate(all="ignore"):
            result = exact(a.astype(np.float64)).astype(np.float32)
        for _ in range(abs(ulp)):
            result = np.where(
                np.isfinite(result), np.nextafter(result, np.float32(math.copysign(inf, ulp))), result
            )
        return np.where(np.abs(result) < np.finfo(np.float32).tiny, np.float32(0), result)

    return instruction


@pytest.mark.parametrize("ulp", [-2, 0, 2])
@pytest.mark.parametrize("name", sorted(HARDWARE))
def test_error_of_those_of_the_hardware(name: str, ulp: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """With instructions that are as wrong as they may be, in one direction."""
    monkeypatch.setitem(lir_eval._UNARY, "approx_exp2", moved(np.exp2, ulp))
    monkeypatch.setitem(lir_eval._UNARY, "approx_rsqrt", moved(lambda a: 1 / np.sqrt(a), ulp))
    x = f32_arguments(name)
    with np.errstate(all="ignore"):
        true = IN_F64[name](x.astype(np.float64))
        got = evaluate(function(name, lir.Type(F32), fast=True, approximates=True), x)
    tiny, huge = 2 * np.finfo(np.float32).tiny, 2.0**127.5
    normal = (np.abs(x) >= tiny) & (np.abs(true) >= tiny) & (np.abs(true) < huge)
    error = ulps(got[normal], true[normal])
    assert error.max() <= (HARDWARE[name].ulp[F32] if ulp else 1.9), x[normal][error.argmax()]


@pytest.mark.parametrize("name", sorted(HARDWARE))
def test_special_values_of_those_of_the_hardware(name: str) -> None:
    x, y = np.array([v for v in SPECIAL[name] if abs(v[0]) != 1e-40]).astype(np.float32).T
    with np.errstate(all="ignore"):
        same(evaluate(function(name, lir.Type(F32), fast=True, approximates=True), x), y)


@pytest.mark.parametrize("type", [lir.Type(F64), lir.Type(F32, 4)], ids=str)
def test_the_hardware_is_asked_for_one_f32_alone(type: lir.Type) -> None:
    assert function("exp", type, True, approximates=True) == function("exp", type, True)


WIDE_RANGES = {"exp": (-745, 709), "exp2": (-1074, 1023), "tanh": (-20, 20), "erf": (-6, 6), "sigmoid": (-745, 37),
               "expm1": (-40, 709), "log1p": (-0.99, 3), "erfc": (-6, 27.2), "sinh": (-710, 710),
               "cosh": (-710, 710), "asin": (-1, 1), "acos": (-1, 1), "acosh": (1, 30),
               "atanh": (-1, 1)}  # fmt: skip


def f64_arguments(name: str) -> Array:
    rng = np.random.default_rng(2)
    any_size = rng.integers(0, 2**63, 400, np.uint64).view(np.float64)
    any_size = any_size[np.isfinite(any_size)] * rng.choice([-1, 1], any_size.size)[np.isfinite(any_size)]
    even = rng.uniform(*WIDE_RANGES.get(name, (-30, 30)), 600)
    near_one = rng.uniform(0.4, 2.5, 400)
    with mpmath.workdps(400):
        turns = [float(mpmath.pi / 2 * mpmath.nint(mpmath.mpf(2) ** e)) for e in np.linspace(0, 1000, 200).tolist()]
    hard = [6381956970095103.0 * 2.0**797, 1e22, 2.0**1023, 5e-324, 2.5e-310, 0.8, 0.85, math.pi / 4]
    x = np.concatenate([any_size, even, near_one, turns, hard])
    return in_domain(name, x)


@pytest.mark.parametrize("name", UNARY)
def test_error_f64(name: str) -> None:
    x = f64_arguments(name)
    errors = np.array(list(mp_errors(name, compute(name, x), x)))
    assert errors.max() <= FUNCTIONS[name].ulp[F64], x[errors.argmax()]


@pytest.mark.parametrize("dtype", TYPES, ids=str)
def test_error_of_pow(dtype: DType) -> None:
    rng = np.random.default_rng(3)
    last = 708 if dtype == F64 else 87
    logs = [rng.uniform(-size, size, 800) for size in (last, 1, 1e-5)]
    x = np.exp(np.concatenate(logs)).astype(numpy_type(dtype))
    x = x[x != 1]
    y = (rng.uniform(-last, last, x.size) / np.log(x.astype(np.float64))).astype(numpy_type(dtype))
    digits, lowest = (53, -1074) if dtype == F64 else (24, -149)
    errors = np.array(list(mp_errors("pow", compute("pow", x, y), x, y, digits=digits, lowest=lowest)))
    assert errors.max() <= OF_TWO["pow"].ulp[dtype], (x[errors.argmax()], y[errors.argmax()])


# -- special values ----------------------------------------------------------------------------------------
@pytest.mark.parametrize("dtype", TYPES, ids=str)
@pytest.mark.parametrize("name", ["exp", "exp2", "pow"])
def test_one_instruction_that_scales_gives_the_same_bits(name: str, dtype: DType) -> None:
    type = lir.Type(dtype, 512 // dtype.bits)
    plain, scaling = function(name, type), function(name, type, scales=True)
    assert plain != scaling or (name, dtype.name) == ("pow", "f32")  # which computes in f64, on more lanes
    x = np.linspace(-1100, 1100, 40_001).astype(numpy_type(dtype))
    x = np.concatenate([x, x / 64, np.array([0.0, -0.0, np.inf, -np.inf, np.nan], x.dtype)])
    args = (np.full_like(x, 2.5), x) if name == "pow" else (x,)
    same(evaluate(scaling, *args), evaluate(plain, *args))


@pytest.mark.parametrize("dtype", TYPES, ids=str)
@pytest.mark.parametrize("name", UNARY)
def test_special_values(name: str, dtype: DType) -> None:
    x, y = np.array(SPECIAL[name]).astype(numpy_type(dtype)).T
    same(compute(name, x), y)


@pytest.mark.parametrize("name", sorted(FAST))
def test_special_values_of_the_fast_ones(name: str) -> None:
    """The same but for subnormals."""
    x, y = np.array([v for v in SPECIAL[name] if abs(v[0]) != 1e-40]).astype(np.float32).T
    same(compute(name, x, fast=True), y)


@pytest.mark.parametrize("dtype", TYPES, ids=str)
def test_overflow_and_underflow_begin_where_they_should(dtype: DType) -> None:
    kind = numpy_type(dtype)
    info = np.finfo(kind)
    with np.errstate(all="ignore"):
        last = np.log(np.array(info.max, np.longdouble)).astype(kind)
        half_least = np.log(np.array(info.smallest_subnormal, np.longdouble) / 2).astype(kind)
    around = np.array([last, np.nextafter(last, kind.type(inf))])
    if np.exp(around[0].astype(np.longdouble)) > info.max:
        around = np.array([np.nextafter(last, kind.type(0)), last])
    np.testing.assert_array_equal(np.isinf(compute("exp", around)), [False, True])
    up, down = kind.type(0), kind.type(-inf)
    low = np.array([np.nextafter(half_least, up), np.nextafter(half_least, down)])
    np.testing.assert_array_equal(compute("exp", low), [info.smallest_subnormal, 0])
    top, bottom = kind.type(info.maxexp), info.minexp - info.nmant
    got = compute("exp2", np.array([top, np.nextafter(top, up), bottom, bottom - 1], kind))
    assert got[0] == inf
    assert np.isfinite(got[1])
    np.testing.assert_array_equal(got[2:], [info.smallest_subnormal, 0])


@pytest.mark.parametrize("dtype", TYPES, ids=str)
def test_exact_powers_of_two(dtype: DType) -> None:
    kind = numpy_type(dtype)
    lowest = int(np.finfo(kind).minexp - np.finfo(kind).nmant)
    n = np.arange(lowest, int(np.finfo(kind).maxexp))
    powers = np.ldexp(kind.type(1), n)
    same(compute("exp2", n.astype(kind)), powers)
    same(compute("log2", powers), n.astype(kind))
    same(compute("pow", np.full(n.size, 2, kind), n.astype(kind)), powers)


@pytest.mark.parametrize("dtype", TYPES, ids=str)
def test_small_arguments_come_back(dtype: DType) -> None:
    """sin x and tanh x are x to the last bit where x is small or subnormal."""
    kind = numpy_type(dtype)
    bits = np.random.default_rng(4).integers(0, int(kind.type(1e-12).view(f"u{kind.itemsize}")), 1000)
    x = bits.astype(f"u{kind.itemsize}").view(kind)
    x = np.concatenate([x, -x])
    same(compute("sin", x), x)
    same(compute("tanh", x), x)


@pytest.mark.parametrize("dtype", TYPES, ids=str)
def test_erf_and_sigmoid_reach_one_and_no_more(dtype: DType) -> None:
    kind = numpy_type(dtype)
    x = np.linspace(0.9, 60, 40_001).astype(kind)
    for name in ("erf", "sigmoid"):
        got = compute(name, x)
        assert got.max() == 1
        assert got[x > 40].min() == 1
    same(compute("erf", -x), -compute("erf", x))


@pytest.mark.parametrize("dtype", TYPES, ids=str)
@pytest.mark.parametrize(("name", "divisions"), [("exp", 0), ("exp2", 0), ("erf", 0), ("sigmoid", 1)])
def test_what_is_to_be_fast_divides_at_most_once(name: str, divisions: int, dtype: DType) -> None:
    f = function(name, lir.Type(dtype, 16))
    parts = [part for e in [*(let.value for let in f.body), f.result] for part in values(e)]
    assert sum(isinstance(part, lir.Binary) and part.op == "div" for part in parts) == divisions


@pytest.mark.parametrize("dtype", TYPES, ids=str)
def test_special_values_of_pow(dtype: DType) -> None:
    """All pairs of what C99 F.9.4.4 names, as the C library has them."""
    kind = numpy_type(dtype)
    names = [0.0, 1.0, 0.5, 2.0, 2.5, 3.0, 4.0, 1e10, 8388607.0, 8388608.0, inf]
    values = np.array([*names, *(-v for v in names), nan], kind)
    x, y = (v.ravel() for v in np.meshgrid(values, values))
    c_pow = ctypes.CDLL(None).pow
    c_pow.argtypes, c_pow.restype = [ctypes.c_double] * 2, ctypes.c_double
    with np.errstate(over="ignore"):
        expected = np.array([c_pow(*pair) for pair in zip(x.tolist(), y.tolist(), strict=True)]).astype(kind)
    got = compute("pow", x, y)
    exact = ~np.isfinite(expected) | (expected == 0) | (np.abs(expected) == 1)
    same(got[exact], expected[exact])
    np.testing.assert_allclose(got[~exact], expected[~exact], rtol=2 * np.finfo(kind).eps)


@pytest.mark.parametrize("dtype", TYPES, ids=str)
def test_pow_of_small_integers_is_exact(dtype: DType) -> None:
    kind = numpy_type(dtype)
    x, y = (v.ravel().astype(kind) for v in np.meshgrid(np.arange(-12, 13), np.arange(0, 6)))
    same(compute("pow", x, y), np.power(x, y))


# -- what targets rely on ----------------------------------------------------------------------------------
def all_functions(lanes: int) -> list[lir.Function]:
    elementary = [function(n, lir.Type(t, lanes)) for n in [*UNARY, *BINARY] for t in TYPES]
    cheaper = [function(n, lir.Type(F32, lanes), fast=True) for n in FAST]
    narrow = [t for t in DTYPES.values() if t.is_float and t.bits < 32]
    storage = [decode(t, lanes) for t in narrow] + [encode(t, s, lanes) for t in narrow for s in TYPES]
    return elementary + cheaper + storage


def values(value: lir.Value) -> Iterator[lir.Value]:
    """A value and all that it is made of."""
    yield value
    for part in vars(value).values():
        if isinstance(part, lir.Value):
            yield from values(part)


def test_names_tell_functions_apart() -> None:
    names = [f.name for lanes in (1, 8, 16) for f in all_functions(lanes)]
    assert len(set(names)) == len(names)
    assert {"exp_f32", "exp_f32x16", "exp_fast_f32x8", "pow_f64x8", "bf16_to_f32", "f64_to_f16x16"} <= set(names)


@pytest.mark.parametrize("f", all_functions(16), ids=lambda f: f.name)
def test_a_function_is_self_contained(f: lir.Function) -> None:
    known = {p.name for p in f.params}
    for let in f.body:
        assert let.var.name not in known
        for part in values(let.value):
            assert not isinstance(part, (lir.Call, lir.Load))
            assert part.type.lanes == 16
            if isinstance(part, lir.Var):
                assert part.name in known
        assert let.var.type == let.value.type
        known.add(let.var.name)
    used = {v.name for e in [*(let.value for let in f.body), f.result] for v in values(e) if isinstance(v, lir.Var)}
    assert used == known


@pytest.mark.parametrize("f", all_functions(1), ids=lambda f: f.name)
def test_nothing_is_computed_twice(f: lir.Function) -> None:
    """What is used twice has a name; but bits, signs, shifts and the like of a name may be written out again."""
    cheap = (lir.Const, lir.Var, lir.Bitcast, lir.Convert)
    seen = [v for e in [*(let.value for let in f.body), f.result] for v in values(e)]
    heavy = [v for v in seen if sum(not isinstance(part, cheap) for part in values(v)) > 1]
    twice = {v for v in heavy if heavy.count(v) > 1}
    assert not twice


def random_arguments(dtype: DType) -> Array:
    rng = np.random.default_rng(5)
    kind, bits = numpy_type(dtype), np.dtype(f"u{dtype.itemsize}")
    any_size = rng.integers(0, np.iinfo(bits).max, 3000, bits).view(kind)
    with np.errstate(invalid="ignore"):  # signalling NaNs
        return np.concatenate([any_size, rng.normal(0, 3, 3003), [0, -0.0, inf, -inf, nan]]).astype(kind)


@pytest.mark.parametrize("target", ["llvm", "c"])
@pytest.mark.parametrize("dtype", TYPES, ids=str)
def test_every_target_gives_the_same_bits(dtype: DType, target: str) -> None:
    """Compiled, in lanes and a tail, as the evaluator says from the definitions of the operations."""
    calls = [*(f"{name}(x[{{0}}])" for name in UNARY), *(f"{name}(x[{{0}}], y[{{0}}])" for name in BINARY)]
    lines = ["kernel every(N)", f"in x: {dtype}[N]", f"in y: {dtype}[N]"]
    lines += [f"out z{i}: {dtype}[N]" for i in range(len(calls))]
    lines += ["", "N: v", *(f"| z{i}[{{0}}] = {call}" for i, call in enumerate(calls))]
    try:
        compiled = dojoir.compile(dojoir.parse("\n".join(lines) + "\n"), target)
    except dojoir.ToolchainError:
        pytest.skip("no C compiler")
    x = random_arguments(dtype)
    y = np.random.default_rng(6).permutation(x)
    outputs = [np.empty_like(x) for _ in calls]
    compiled(x, y, *outputs)
    for name, got in zip([*UNARY, *BINARY], outputs, strict=True):
        expected = compute(name, x, y) if name in OF_TWO else compute(name, x)
        wrong = (got.view(f"u{x.itemsize}") != expected.view(f"u{x.itemsize}")) & ~(
            np.isnan(got) & np.isnan(expected)
        )
        assert not wrong.any(), (name, x[wrong][:5], got[wrong][:5], expected[wrong][:5])


def test_fma_of_the_evaluator_rounds_once() -> None:
    rng = np.random.default_rng(7)
    a, b, c = (rng.integers(0, 2**32, 200_000, np.uint32).view(np.float32) for _ in range(3))
    with np.errstate(all="ignore"):
        near = -(a * b) * (1 + rng.integers(-2, 3, a.size).astype(np.float32) * np.float32(2.0**-23))
        for third in (c, near.astype(np.float32)):
            exact, machine = fma_f32_exact(a, b, third), fma(a, b, third)
            assert ((exact == machine) | (np.isnan(exact) & np.isnan(machine))).all()


# -- the scripts -------------------------------------------------------------------------------------------
BENCHMARKS = ROOT / "benchmarks"


def run_script(name: str, *arguments: str) -> str:
    command = [sys.executable, str(BENCHMARKS / name), *arguments]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def test_the_accuracy_script_reports_each_function_once() -> None:
    lines = run_script("accuracy.py", "exp", "pow", "--every", "40009", "--samples", "100").splitlines()
    assert [line[:18].rstrip() for line in lines[1:]] == [
        "exp           f32",
        "exp fast      f32",
        "pow           f32",
        "exp           f64",
        "pow           f64",
    ]


def test_the_coefficients_are_those_that_the_script_finds() -> None:
    lines = run_script(
        "minimax.py",
        "exp f32",
        "tanh f32",
        "erf_small f32",
        "erf_root f32",
        "erfc f32",
        "asin f32",
        "sinh f32",
        "fast.",
    ).splitlines()
    source = "".join((ROOT / "codegen" / "math" / f"{name}.py").read_text() for name in ("precision", "fast"))
    found = [coefficient.strip() for numbers in lines[1::2] for coefficient in numbers.split(",")]
    assert len(found) > 20
    assert not [coefficient for coefficient in found if coefficient not in source]
