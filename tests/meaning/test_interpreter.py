"""The meaning, against NumPy: every operation on every type, conversions, accumulation, scopes, storage, errors."""

from __future__ import annotations

import math
from collections.abc import Callable
from fractions import Fraction

import ml_dtypes
import numpy as np
import numpy.typing as npt
import pytest

from dojoir.errors import ArgumentError, DojoError, KernelError, RunError
from dojoir.grammar import parse
from dojoir.ir.dtypes import DTYPES
from dojoir.ir.operations import CALLS, OPERATIONS, Class
from dojoir.meaning.bits import from_floats, to_floats
from dojoir.meaning.interpreter import interpret
from dojoir.types.rounding import FORMATS

Array = npt.NDArray[np.generic]

FLOATS = [name for name, dtype in DTYPES.items() if dtype.is_float]
INTEGERS = [name for name, dtype in DTYPES.items() if dtype.is_integer]
COMPUTE: dict[str, type[np.floating]] = {name: np.float64 if name == "f64" else np.float32 for name in FLOATS}


def elementwise(expression: str, result: str, **arrays: tuple[str, Array]) -> Array:
    """`y[i] = expression` over arrays of one length, each given with its type."""
    declared = "\n".join(f"in {name}: {dtype}[N]" for name, (dtype, _) in arrays.items())
    text = f"kernel k(N)\n{declared}\nout y: {result}[N]\n\nN\n| y[{{0}}] = {expression}\n"
    return interpret(parse(text), {name: array for name, (_, array) in arrays.items()})["y"]


def floats(name: str, seed: int, count: int = 400) -> Array:
    """Random values of a float type of all magnitudes, and every special one."""
    rng = np.random.default_rng(seed)
    values = rng.normal(size=count) * 10.0 ** rng.integers(-3, 3, count)
    format_ = FORMATS[name]
    tiny = math.ldexp(1, format_.quantum)
    special = [0.0, -0.0, 1.0, -1.0, 0.5, 2.5, np.inf, -np.inf, np.nan, format_.largest, -format_.largest]
    special += [tiny, -tiny, 3 * tiny, math.ldexp(1, format_.lowest), 2.0]
    return from_floats(np.concatenate([values, rng.choice(special, count)]), DTYPES[name])


def integers(name: str, seed: int, count: int = 400) -> Array:
    """Random values over the whole range of an integer type, small ones, and the ends of the range."""
    rng = np.random.default_rng(seed)
    info = np.iinfo(DTYPES[name].stored)
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


def numpy_max(a: npt.NDArray[np.floating], b: npt.NDArray[np.floating]) -> npt.NDArray[np.floating]:
    """The maximum of IEEE 754-2019: +0 is above -0."""
    zero = np.where(np.signbit(a) & np.signbit(b), a, np.abs(a))
    return np.where((a == 0) & (b == 0), zero, np.maximum(a, b))


def numpy_min(a: npt.NDArray[np.floating], b: npt.NDArray[np.floating]) -> npt.NDArray[np.floating]:
    """The minimum of IEEE 754-2019: -0 is below +0."""
    zero = np.where(np.signbit(a) | np.signbit(b), -np.abs(a), a)
    return np.where((a == 0) & (b == 0), zero, np.minimum(a, b))


# -- operations on floats ----------------------------------------------------------------------------------
BINARY: dict[str, Callable[..., Array]] = {
    "a[{0}] + b[{0}]": np.add,
    "a[{0}] - b[{0}]": np.subtract,
    "a[{0}] * b[{0}]": np.multiply,
    "a[{0}] / b[{0}]": np.divide,
    "max(a[{0}], b[{0}])": numpy_max,
    "min(a[{0}], b[{0}])": numpy_min,
}
UNARY: dict[str, Callable[..., Array]] = {
    "-a[{0}]": np.negative,
    "abs(a[{0}])": np.abs,
    "floor(a[{0}])": np.floor,
    "ceil(a[{0}])": np.ceil,
    "round(a[{0}])": np.rint,
    "sqrt(a[{0}])": np.sqrt,
}


@pytest.mark.parametrize("name", FLOATS)
@pytest.mark.parametrize("expression", BINARY)
def test_float_arithmetic(name: str, expression: str) -> None:
    a, b = floats(name, 1), floats(name, 2)
    got = elementwise(expression, name, a=(name, a), b=(name, b))
    with np.errstate(all="ignore"):
        left, right = (to_floats(v, DTYPES[name]).astype(COMPUTE[name]) for v in (a, b))
        assert_same_floats(got, BINARY[expression](left, right), name)


@pytest.mark.parametrize("name", FLOATS)
@pytest.mark.parametrize("expression", UNARY)
def test_float_functions_that_are_exact(name: str, expression: str) -> None:
    a = floats(name, 3)
    got = elementwise(expression, name, a=(name, a))
    with np.errstate(all="ignore"):
        assert_same_floats(got, UNARY[expression](to_floats(a, DTYPES[name]).astype(COMPUTE[name])), name)


SMOOTH: dict[str, Callable[..., npt.NDArray[np.float64]]] = {
    "exp": np.exp,
    "exp2": np.exp2,
    "log": np.log,
    "log2": np.log2,
    "tanh": np.tanh,
    "sin": np.sin,
    "cos": np.cos,
    "rsqrt": lambda x: 1 / np.sqrt(x),
    "sigmoid": lambda x: np.where(x < 0, np.exp(x) / (1 + np.exp(x)), 1 / (1 + np.exp(-x))),
    "tan": np.tan,
    "atan": np.arctan,
    "expm1": np.expm1,
    "log1p": np.log1p,
    "erf": np.vectorize(math.erf),
}


@pytest.mark.parametrize("name", ["f64", "f32", "bf16", "f8e5m2"])
@pytest.mark.parametrize("function", SMOOTH)
def test_float_functions_to_the_last_place(name: str, function: str) -> None:
    """The C libraries of Python and of NumPy may differ by a last place of f64: that may move the rounded value."""
    a = floats(name, 4)
    got = to_floats(elementwise(f"{function}(a[{{0}}])", name, a=(name, a)), DTYPES[name])
    with np.errstate(all="ignore"):
        want = SMOOTH[function](to_floats(a, DTYPES[name]))
        want = to_floats(from_floats(want.astype(COMPUTE[name]), DTYPES[name]), DTYPES[name])
    finite = np.isfinite(want) & np.isfinite(got)
    assert (np.isnan(want) == np.isnan(got)).all()
    assert (want[~finite & ~np.isnan(want)] == got[~finite & ~np.isnan(want)]).all()
    places = 2 if name == "f64" else 0
    assert (abs(got[finite] - want[finite]) <= places * np.spacing(abs(want[finite]))).all()


def test_pow() -> None:
    a, b = abs(floats("f32", 5)), floats("f32", 6)
    got = elementwise("pow(a[{0}], b[{0}])", "f32", a=("f32", a), b=("f32", b))
    with np.errstate(all="ignore"):
        assert_same_floats(got, np.power(a.astype(np.float64), b.astype(np.float64)).astype(np.float32), "f32")


def test_fma_is_rounded_once() -> None:
    rng = np.random.default_rng(8)
    for name, kind in (("f32", np.float32), ("f64", np.float64)):
        a, b = rng.normal(size=300).astype(kind), rng.normal(size=300).astype(kind)
        c = (-(a * b)).astype(kind)
        got = elementwise("fma(a[{0}], b[{0}], c[{0}])", name, a=(name, a), b=(name, b), c=(name, c))
        cases = zip(a, b, c, strict=True)
        want = [float(Fraction(float(x)) * Fraction(float(y)) + Fraction(float(z))) for x, y, z in cases]
        assert_same_floats(got, np.array(want).astype(kind), name)
        assert (got != 0).any()


def test_each_operation_rounds_to_f32_on_its_own() -> None:
    a, b, c = (floats("f32", seed) for seed in (10, 11, 12))
    expression = "(a[{0}] + b[{0}]) * c[{0}] - a[{0}] / (b[{0}] * 3 + 0.1)"
    got = elementwise(expression, "f32", a=("f32", a), b=("f32", b), c=("f32", c))
    with np.errstate(all="ignore"):
        want = (a + b) * c - a / (b * np.float32(3) + np.float32(0.1))
    assert_same_floats(got, want, "f32")


def test_subnormals_are_kept() -> None:
    tiny = np.array([1e-40, 1.4e-45, -3e-39], np.float32)
    assert (elementwise("a[{0}] + 0", "f32", a=("f32", tiny)) == tiny).all()
    assert (elementwise("a[{0}] * 0.5", "f32", a=("f32", tiny)) == tiny * np.float32(0.5)).all()


@pytest.mark.parametrize("pair", [("f64", "f32"), ("f16", "f64"), ("bf16", "f16"), ("f8e4m3", "f4e2m1")])
def test_mixed_floats(pair: tuple[str, str]) -> None:
    a, b = floats(pair[0], 13), floats(pair[1], 14)
    kind = np.float64 if "f64" in pair else np.float32
    got = elementwise("a[{0}] * b[{0}]", "f64", a=(pair[0], a), b=(pair[1], b))
    with np.errstate(all="ignore"):
        want = to_floats(a, DTYPES[pair[0]]).astype(kind) * to_floats(b, DTYPES[pair[1]]).astype(kind)
    assert_same_floats(got, want.astype(np.float64), "f64")


# -- operations on integers and bools ----------------------------------------------------------------------
INTEGER: dict[str, Callable[..., Array]] = {
    "a[{0}] + b[{0}]": np.add,
    "a[{0}] - b[{0}]": np.subtract,
    "a[{0}] * b[{0}]": np.multiply,
    "max(a[{0}], b[{0}])": np.maximum,
    "min(a[{0}], b[{0}])": np.minimum,
    "-a[{0}]": lambda a, b: np.negative(a),
    "abs(a[{0}])": lambda a, b: np.abs(a),
    "a[{0}] // 7": lambda a, b: a // a.dtype.type(7),
    "a[{0}] % 7": lambda a, b: a % a.dtype.type(7),
    "a[{0}] & b[{0}]": np.bitwise_and,
    "a[{0}] | b[{0}]": np.bitwise_or,
    "a[{0}] ^ b[{0}]": np.bitwise_xor,
    "~a[{0}]": lambda a, b: np.invert(a),
    "a[{0}] << 3": lambda a, b: np.left_shift(a, a.dtype.type(3)),
    "a[{0}] >> 3": lambda a, b: np.right_shift(a, a.dtype.type(3)),
    "a[{0}] * 100 + 27": lambda a, b: a * a.dtype.type(100) + a.dtype.type(27),
}


@pytest.mark.parametrize("name", INTEGERS)
@pytest.mark.parametrize("expression", INTEGER)
def test_integer_arithmetic_wraps(name: str, expression: str) -> None:
    a, b = integers(name, 1), integers(name, 2)
    arrays = {"a": (name, a)} | ({"b": (name, b)} if "b[" in expression else {})
    got = elementwise(expression, name, **arrays)
    with np.errstate(all="ignore"):
        want = INTEGER[expression](a, b)
    assert got.dtype == want.dtype
    assert (got == want).all()


RELATIONS: dict[str, Callable[..., Array]] = {
    "<": np.less, "<=": np.less_equal, ">": np.greater, ">=": np.greater_equal, "==": np.equal, "!=": np.not_equal,
}  # fmt: skip


@pytest.mark.parametrize("name", ["f64", "f32", "bf16", "i64", "u64", "i8", "u8"])
@pytest.mark.parametrize("relation", RELATIONS)
def test_comparisons(name: str, relation: str) -> None:
    make = floats if DTYPES[name].is_float else integers
    a, b = make(name, 1), np.concatenate([make(name, 1)[:200], make(name, 2)[200:]])
    got = elementwise(f"a[{{0}}] {relation} b[{{0}}]", "bool", a=(name, a), b=(name, b))
    left, right = (to_floats(v, DTYPES[name]) if DTYPES[name].is_float else v for v in (a, b))
    assert got.dtype == np.bool_
    assert (got == RELATIONS[relation](left, right)).all()


def test_bools() -> None:
    a = np.array([False, False, True, True])
    b = np.array([False, True, False, True])
    both = {"a": ("bool", a), "b": ("bool", b)}
    assert (elementwise("a[{0}] and b[{0}]", "bool", **both) == (a & b)).all()
    assert (elementwise("a[{0}] or not b[{0}]", "bool", **both) == (a | ~b)).all()
    assert (elementwise("a[{0}] == b[{0}]", "bool", **both) == (a == b)).all()
    assert (elementwise("select(a[{0}], b[{0}], not b[{0}])", "bool", **both) == np.where(a, b, ~b)).all()
    assert (elementwise("i8(a[{0}]) - i8(b[{0}])", "i8", **both) == a.astype(np.int8) - b.astype(np.int8)).all()


def test_select() -> None:
    a, b = floats("f32", 20), floats("f32", 21)
    got = elementwise("select(a[{0}] < b[{0}], a[{0}], 2 * b[{0}])", "f32", a=("f32", a), b=("f32", b))
    with np.errstate(all="ignore"):
        assert_same_floats(got, np.where(a < b, a, 2 * b), "f32")


def test_every_operation_is_tested_here() -> None:
    tested = " ".join([*BINARY, *UNARY, *INTEGER, *RELATIONS, *SMOOTH, "pow( fma( select( and or not"])
    for operation in OPERATIONS.values():
        assert (operation.symbol or operation.name) in tested
    assert {op.name for op in OPERATIONS.values() if op.kind is Class.FLOAT} - {"div"} <= CALLS


# -- conversions -------------------------------------------------------------------------------------------
def converted(values: Array, source: str, target: str) -> Array:
    """What a cast means, in NumPy."""
    to = DTYPES[target]
    if DTYPES[source].is_float:
        numbers = to_floats(values, DTYPES[source])
        if to.is_float:
            return from_floats(numbers, to)
        if target == "bool":
            return numbers != 0
        info = np.iinfo(to.stored)
        exact = [0 if math.isnan(x) else max(info.min, min(info.max, _truncated(x, info.max))) for x in numbers]
        return np.array(exact, to.stored)
    if to.is_float:
        if target in ("f64", "f32"):
            return values.astype(to.stored)
        return from_floats(values.astype(np.float64), to)
    return values != 0 if target == "bool" else values.astype(to.stored)


def _truncated(x: float, most: int) -> int:
    return int(x) if math.isfinite(x) else (2 * most + 2) * (1 if x > 0 else -1)


@pytest.mark.parametrize("target", DTYPES)
@pytest.mark.parametrize("source", DTYPES)
def test_casts(source: str, target: str) -> None:
    if source == "bool":
        values: Array = np.array([True, False, True])
    elif DTYPES[source].is_float:
        values = floats(source, 30)
    else:
        values = integers(source, 31)
        if DTYPES[source].bits == 64 and DTYPES[target].is_float and DTYPES[target].bits < 32:
            values = values.astype(np.int64) >> 20 if source == "i64" else values >> np.uint64(20)
    got = elementwise(f"{target}(a[{{0}}])", target, a=(source, values))
    want = converted(values, source, target)
    assert got.dtype.name == DTYPES[target].stored
    if DTYPES[target].is_float:
        assert_same_floats(got, to_floats(want, DTYPES[target]), target)
    else:
        assert (got == want).all()


def test_casts_of_large_integers_to_narrow_floats_round_once() -> None:
    above_middle = np.array([(1 << 60) + (1 << 52) + 1], np.int64)
    assert (
        to_floats(elementwise("bf16(a[{0}])", "bf16", a=("i64", above_middle)), DTYPES["bf16"])[0]
        == 2.0**60 + 2.0**53
    )


def test_stores_round_once() -> None:
    """The f64 just above the midpoint of two bf16 numbers is that midpoint in f32."""
    a = np.array([1 + 2.0**-8 + 2.0**-40])
    assert to_floats(elementwise("a[{0}]", "bf16", a=("f64", a)), DTYPES["bf16"])[0] == 1 + 2.0**-7
    assert to_floats(elementwise("bf16(f32(a[{0}]))", "bf16", a=("f64", a)), DTYPES["bf16"])[0] == 1


def test_a_cast_inside_an_expression_rounds_there() -> None:
    a = floats("f32", 33)
    got = elementwise("f16(a[{0}]) * 3 + bf16(a[{0}] / 7)", "f32", a=("f32", a))
    with np.errstate(all="ignore"):
        third = (a / np.float32(7)).astype(ml_dtypes.bfloat16).astype(np.float32)
        want = a.astype(np.float16).astype(np.float32) * np.float32(3) + third
    assert_same_floats(got, want, "f32")


def test_sizes_and_iterators_as_values() -> None:
    kernel = parse(
        "kernel k(N, M)\nout y: f32[N, M]\nout z: i16[N, M]\nout w: f64[N, M]\n\n"
        "N\n| M\n| | y[{0}, {1}] = {0} / M + 0.5\n"
        "| | z[{0}, {1}] = 20000 * {0} - {1} + M // 2\n"
        "| | w[{0}, {1}] = (3 * {0} - {1}) % 4 + {1} // 3\n"
    )
    got = interpret(kernel, {}, N=5, M=7)
    i, j = np.mgrid[:5, :7]
    assert (got["y"] == i.astype(np.float32) / np.float32(7) + np.float32(0.5)).all()
    assert (got["z"] == (20000 * i - j + 3).astype(np.int16)).all()
    assert (got["w"] == (3 * i - j) % 4 + j // 3).all()


def test_large_iterators_become_f32_with_one_rounding() -> None:
    kernel = parse("kernel k()\nout y: f32[2]\n\n2\n| y[{0}] = 72057594037927936 + 4294967297 * {0}\n")
    got = interpret(kernel, {})["y"]
    assert got.tolist() == [2.0**56, 2.0**56 + 2.0**33]  # in f64 the second is the midpoint 2**56 + 2**32


# -- accumulation ------------------------------------------------------------------------------------------
ACCUMULATE: dict[str, tuple[str, Callable[..., np.generic]]] = {
    "+=": ("0", np.add), "*=": ("1", np.multiply), "max=": ("-inf", np.maximum), "min=": ("inf", np.minimum),
}  # fmt: skip


@pytest.mark.parametrize("name", ["f64", "f32", "f16", "bf16"])
@pytest.mark.parametrize("operator", ACCUMULATE)
@pytest.mark.parametrize("mode", ["strict", "reassoc"])
def test_accumulation_runs_in_order_and_rounds_each_time(name: str, operator: str, mode: str) -> None:
    """Sums of narrow floats in a free order are carried in f32, and rounded once."""
    start, function = ACCUMULATE[operator]
    carried = mode == "reassoc" and operator == "+=" and name in ("f16", "bf16")
    rng = np.random.default_rng(40)
    values = from_floats(1 + rng.normal(size=300) / 8, DTYPES[name])
    head = f"kernel k(N)\nfp {mode}\nin x: {name}[N]\nout s: {name}"
    kernel = parse(f"{head}\n\ns = {start}\nN\n| s {operator} x[{{0}}]\n")
    total = np.array(float(start))
    for value in to_floats(values, DTYPES[name]):
        step = np.asarray(function(total.astype(COMPUTE[name]), COMPUTE[name](value)))
        total = step if carried else to_floats(from_floats(step, DTYPES[name]), DTYPES[name])
    if carried:
        total = to_floats(from_floats(total, DTYPES[name]), DTYPES[name])
    got = interpret(kernel, {"x": values})["s"]
    assert got.shape == ()
    assert to_floats(got, DTYPES[name]) == total


def test_the_order_of_accumulation_shows() -> None:
    text = "kernel k(N)\nin x: f32[N]\nout s: f32\n\ns = 0\nN\n| s += x[{index}]\n"
    x = np.array([1, 1e8, -1e8], np.float32)
    assert interpret(parse(text.replace("{index}", "{0}")), {"x": x})["s"] == 0
    assert interpret(parse(text.replace("{index}", "N - 1 - {0}")), {"x": x})["s"] == 1


@pytest.mark.parametrize("operator", ACCUMULATE)
def test_integer_accumulation_wraps(operator: str) -> None:
    x = integers("i8", 41, 20)
    start = {"+=": "0", "*=": "1", "max=": "-128", "min=": "127"}[operator]
    kernel = parse(f"kernel k(N)\nin x: i8[N]\nout s: i8\n\ns = {start}\nN\n| s {operator} x[{{0}}]\n")
    with np.errstate(over="ignore"):
        total = np.int8(int(start))
        for value in x:
            total = ACCUMULATE[operator][1](total, value)
    assert interpret(kernel, {"x": x})["s"] == total


def test_nan_propagates_through_max_and_min() -> None:
    for operator in ("max=", "min="):
        kernel = parse(f"kernel k(N)\nin x: f32[N]\nout s: f32\n\ns = 0\nN\n| s {operator} x[{{0}}]\n")
        for position in range(3):
            x = np.ones(3, np.float32)
            x[position] = np.nan
            assert np.isnan(interpret(kernel, {"x": x})["s"])


def test_accumulation_in_a_wider_type_than_the_element() -> None:
    kernel = parse("kernel k(N)\nin x: f64[N]\ninout s: f32\n\nN\n| s += x[{0}]\n")
    assert interpret(kernel, {"x": np.array([2.0**-24, 2.0**-24]), "s": 1.0})["s"] == 1
    assert interpret(kernel, {"x": np.array([2.0**-24 + 2.0**-50]), "s": 1.0})["s"] == 1 + 2.0**-23


# -- scopes, guards, marks ---------------------------------------------------------------------------------
def test_softmax() -> None:
    kernel = parse(
        "kernel softmax(N, M)\nin x: f32[N, M]\nout y: f32[N, M]\n"
        "tmp m: f32[N]\ntmp e: f32[N, M]\ntmp s: f32[N]\n\n"
        "N\n| m[{0}] = -inf\n| M\n| | m[{0}] max= x[{0}, {1}]\n"
        "N\n| s[{0}] = 0\n| M\n| | e[{0}, {1}] = exp(x[{0}, {1}] - m[{0}])\n| | s[{0}] += e[{0}, {1}]\n"
        "| M\n| | y[{0}, {1}] = e[{0}, {1}] / s[{0}]\n"
    )
    x = np.random.default_rng(0).normal(size=(7, 13)).astype(np.float32)
    before = x.copy()
    e = np.exp(x.astype(np.float64) - x.max(axis=1, keepdims=True))
    want = e / e.sum(axis=1, keepdims=True)
    assert abs(interpret(kernel, {"x": x})["y"] - want).max() < 1e-7
    assert abs(interpret(kernel, {"x": x}, precision="f64")["y"] - want).max() < 1e-16
    assert (x == before).all()


def test_triangles_and_min_extents() -> None:
    kernel = parse(
        "kernel k(N, M)\nout y: i32[N, M]\n\nN\n| M\n| | y[{0}, {1}] = 0\n"
        "N\n| min({0} + 1, M, 4)\n| | y[{0}, {1}] = 10 * {0} + {1}\n"
    )
    i, j = np.mgrid[:6, :5]
    got = interpret(kernel, {}, N=6, M=5)["y"]
    assert (got == np.where((j <= i) & (j < 4), 10 * i + j, 0)).all()


def test_scopes_that_do_not_run() -> None:
    kernel = parse("kernel k(N)\ninout y: f32[4]\n\nN - 5\n| y[{0}] = 1\nN\n| {0} - 2\n| | y[{1}] += 1\n")
    start = np.zeros(4, np.float32)
    assert interpret(kernel, {"y": start}, N=1)["y"].tolist() == [0, 0, 0, 0]
    assert interpret(kernel, {"y": start}, N=4)["y"].tolist() == [1, 0, 0, 0]
    assert start.tolist() == [0, 0, 0, 0]


def test_guards() -> None:
    kernel = parse(
        "kernel k(N)\nin x: f32[N]\nout y: f32[N]\n\n"
        "N\n| y[{0}] = 0\n| if {0} >= 1 and {0} + 1 < N\n| | y[{0}] = x[{0} - 1] + x[{0} + 1]\n"
        "| if {0} % 3 == 0\n| | 2\n| | | y[{0}] += {1} + 1\n| if N != 6\n| | y[{0}] = -1\n"
    )
    x = np.arange(6, dtype=np.float32)
    want = np.array([3, 2, 4, 9, 8, 0], np.float32)
    assert interpret(kernel, {"x": x})["y"].tolist() == want.tolist()


def test_marks_do_not_change_the_meaning() -> None:
    text = (
        "kernel k(N, M)\nin x: f32[N, M]\nout y: f32[N]\n\nN{p}\n| y[{0}] = 0\n| M{v}\n| | y[{0}] += x[{0}, {1}]\n"
    )
    x = np.random.default_rng(1).normal(size=(5, 9)).astype(np.float32)
    plain = text.replace("{p}", "").replace("{v}", "")
    for p, v in ((" : p", " : v"), (" : u", " : u"), (" : gx", " : lane")):
        marked = text.replace("{p}", p).replace("{v}", v)
        assert (interpret(parse(marked), {"x": x})["y"] == interpret(parse(plain), {"x": x})["y"]).all()


def test_nests_deeper_than_python_allows() -> None:
    depth = 45
    lines = ["| " * level + ("2" if level % 15 == 0 else "1") for level in range(depth)]
    kernel = parse(
        "kernel k()\nout s: i32\n\ns = 0\n" + "\n".join(lines) + "\n" + "| " * depth + f"s += 1 + {{{depth - 1}}}"
    )
    assert interpret(kernel, {})["s"] == 8


def test_order_padding_and_places_do_not_change_the_meaning() -> None:
    kernel = parse(
        "kernel k(N, M)\nin x: f32[N, M] order(1, 0) pad(0, 8) align 64\nout y: f32[M] align 128\n"
        "tmp t: f32[N, M] stack order(1, 0) pad(1, 1)\n\n"
        "N\n| M\n| | t[{0}, {1}] = 2 * x[{0}, {1}]\nM\n| y[{0}] = 0\n| N\n| | y[{0}] += t[{1}, {0}]\n"
    )
    x = np.arange(12, dtype=np.float32).reshape(3, 4)
    assert (interpret(kernel, {"x": x})["y"] == 2 * x.sum(axis=0)).all()


# -- gathers and storage -----------------------------------------------------------------------------------
GATHER = parse(
    "kernel k(N, V, D)\nin w: f32[V, D]\nin ids: u8[N]\nin hop: i32[V]\nout y: f32[N, D]\n\n"
    "N\n| D\n| | y[{0}, {1}] = w[ids[{0}], {1}] + w[hop[ids[{0}]], {1}]\n"
)


def test_gathers() -> None:
    w = np.random.default_rng(2).normal(size=(6, 4)).astype(np.float32)
    ids, hop = np.array([5, 0, 3], np.uint8), np.array([2, 2, 0, 1, 5, 4], np.int32)
    assert (interpret(GATHER, {"w": w, "ids": ids, "hop": hop})["y"] == w[ids] + w[hop[ids]]).all()


@pytest.mark.parametrize(
    ("ids", "hop", "words"),
    [
        (6, 0, "at N=2, V=6, D=1, {0}=1, {1}=0: index ids[{0}] = 6 of w is outside 0..5"),
        (255, 0, "index ids[{0}] = 255 of w is outside 0..5"),
        (0, 6, "{0}=0, {1}=0: index hop[ids[{0}]] = 6 of w is outside 0..5"),
        (0, -1, "index hop[ids[{0}]] = -1 of w is outside 0..5"),
    ],
)
def test_gathered_indices_out_of_range(ids: int, hop: int, words: str) -> None:
    inputs = {"w": np.zeros((6, 1), np.float32), "ids": np.array([0, ids], np.uint8)}
    with pytest.raises(RunError) as caught:
        interpret(GATHER, inputs | {"hop": np.full(6, hop, np.int32)})
    diagnostic = caught.value.diagnostic
    assert diagnostic.code == "index-out-of-range"
    assert words in diagnostic.message
    assert diagnostic.span is not None
    assert diagnostic.span.line == 9


def test_collapsed_dimensions_share_an_element() -> None:
    kernel = parse(
        "kernel k(N, M)\nin x: f32[N, M]\nout y: f32[N, M]\ntmp t: f32[N~, M]\ntmp u: f32[N~, M~]\n\n"
        "N\n| M\n| | t[{0}, {1}] = x[{0}, {1}] + 1\n| M\n| | u[{0}, {1}] = t[{0}, {1}] * 2\n"
        "| | y[{0}, {1}] = u[{0}, {1}]\n"
    )
    x = np.arange(12, dtype=np.float32).reshape(3, 4)
    assert (interpret(kernel, {"x": x})["y"] == (x + 1) * 2).all()


def test_a_collapsed_element_is_written_once_any_index_is() -> None:
    text = "kernel k(N)\nout y: f32[N]\ntmp t: f32[N{~}]\n\nt[0] = 7\nN\n| y[{0}] = t[{0}]\n"
    assert interpret(parse(text.replace("{~}", "~")), {}, N=3)["y"].tolist() == [7, 7, 7]
    with pytest.raises(KernelError, match=r"at N=3, \{0\}=1: t\[1\] is read before it is written"):
        interpret(parse(text.replace("{~}", "")), {}, N=3)


# -- what a run finds --------------------------------------------------------------------------------------
@pytest.mark.parametrize(
    ("body", "code", "words", "line"),
    [
        ("N\n| y[{0}] = x[{0} + 1]", "out-of-bounds", "at N=4, {0}=3: index {0} + 1 = 4 of x is outside 0..3", 6),
        ("N\n| y[{0}] = x[{0} - 1]", "out-of-bounds", "at N=4, {0}=0: index {0} - 1 = -1 of x is outside 0..3", 6),
        ("N\n| y[2*{0}] = 0", "out-of-bounds", "{0}=2: index 2*{0} = 4 of y is outside 0..3", 6),
        ("N\n| y[{0}] = x[7]", "out-of-bounds", "index 7 of x is outside 0..3", 6),
        ("N\n| y[{0}] = 0\n| 2\n| | t[{0}] += 1", "read-before-write", "{0}=0, {1}=0: t[0] is read before", 8),
        ("N\n| t[{0}] = 0\nN\n| y[{0}] = t[N - 1 - {0}] + y[{0}]", "read-before-write", "{0}=0: y[0] is read", 8),
        ("N - 1\n| y[{0}] = 0", "unwritten-output", "y[3] is an output, and nothing writes it", 3),
    ],
)
def test_faults_name_line_iteration_and_index(body: str, code: str, words: str, line: int) -> None:
    kernel = parse(f"kernel k(N)\nin x: f32[N]\nout y: f32[N]\ntmp t: f32[N]\n{body}\n")
    with pytest.raises(KernelError) as caught:
        interpret(kernel, {"x": np.zeros(4, np.float32)})
    diagnostic = caught.value.diagnostic
    assert (diagnostic.code, words in diagnostic.message) == (code, True), diagnostic.message
    assert diagnostic.span is not None
    assert diagnostic.span.line == line
    assert f":{line}:" in str(caught.value)


def test_an_input_is_never_unwritten_and_a_guarded_access_never_runs() -> None:
    kernel = parse("kernel k(N)\ninout x: f32[N]\n\nN\n| x[{0}] += 1\n| if {0} >= N\n| | x[{0} + 9] = 0\n")
    assert interpret(kernel, {"x": np.zeros(2, np.float32)})["x"].tolist() == [1, 1]


def test_types_are_checked() -> None:
    kernel = parse("kernel k(N)\nout y: f32[N]\n\nN\n| y[{0}] = 1\n")
    wrong = kernel.evolve(body=parse("kernel k(N)\nout y: bool[N]\n\nN\n| y[{0}] = 1 < 2\n").body)
    with pytest.raises(KernelError, match="type-mismatch"):
        interpret(wrong, {}, N=2)


def test_too_much_memory() -> None:
    kernel = parse("kernel k(N)\nout y: f32\ntmp t: f32[N, N, N]\n\ny = 0\n")
    with pytest.raises(RunError, match="out-of-memory"):
        interpret(kernel, {}, N=2**40)


# -- arguments ---------------------------------------------------------------------------------------------
ARGUMENTS = parse(
    "kernel k(N, M, K = 3)\nwhere M % 2 == 0\nin x: f32[N, 2*M + 1]\nin a: f32\nin b: bf16[K]\ninout n: i8\n"
    "out y: f32[N]\n\nN\n| y[{0}] = a * x[{0}, 2*M] + b[K - 1]\nn += 1\n"
)
GOOD: dict[str, object] = {
    "x": np.ones((5, 9), np.float32),
    "a": 2,
    "b": np.array([0, 0, 0x3F80], np.uint16),
    "n": np.int8(127),
}


def test_arguments_that_fit() -> None:
    got = interpret(ARGUMENTS, GOOD)
    assert got["y"].tolist() == [3] * 5
    assert (got["n"], got["n"].dtype, got["n"].shape) == (-128, np.int8, ())
    assert list(got) == ["n", "y"]
    assert interpret(ARGUMENTS, GOOD, N=5, M=4)["y"].shape == (5,)


@pytest.mark.parametrize(
    "other",
    [
        {"a": np.float32(2)},
        {"a": np.array(2.0)},
        {"a": np.float64(2)},
        {"b": np.ones(3, ml_dtypes.bfloat16)},
        {"b": np.full(6, 0x3F80, np.uint16)[::-2]},
        {"b": np.full(3, 0x3F80, ">u2")},
        {"x": np.ones((9, 5), np.float32).T},
        {"x": np.ones((5, 9), ">f4")},
        {"x": np.asfortranarray(np.ones((5, 9), np.float32))},
        {"n": np.array(5, np.int8)},
    ],
)
def test_other_ways_to_pass_them(other: dict[str, object]) -> None:
    assert interpret(ARGUMENTS, GOOD | other)["y"].tolist() == [3] * 5


@pytest.mark.parametrize(
    ("change", "sizes", "code", "words"),
    [
        ({"z": 1}, {}, "unknown-argument", "no argument 'z'"),
        ({"y": np.ones(5, np.float32)}, {}, "unknown-argument", "y is an output"),
        ({"x": np.ones((5, 9))}, {}, "bad-dtype", "float64, and the kernel declares f32: pass float32"),
        ({"b": np.ones(3, np.float32)}, {}, "bad-dtype", "pass bfloat16 or uint16, which holds the bits of bf16"),
        ({"x": np.ones(5, np.float32)}, {}, "bad-rank", "has 1 dimensions (shape [5]), and the kernel declares 2"),
        ({"x": [[1.0]]}, {}, "not-an-array", "of type list, not an array: pass np.asarray(…, np.float32)"),
        ({"b": np.ones(4, np.uint16)}, {}, "bad-shape", "b has 4 along dimension 0, and must have 3"),
        ({"x": np.ones((5, 8), np.float32)}, {}, "size-conflict", "2*M + 1 = 7 (M=3 comes from dimension 1 of x)"),
        ({}, {"N": 6}, "size-conflict", "x has 5 along dimension 0, and must have N = 6 (N=6 was given)"),
        ({}, {"Q": 6}, "unknown-size", "no runtime size 'Q'"),
        ({}, {"K": 3}, "unknown-size", "size K of kernel k is fixed to 3"),
        ({}, {"N": 0}, "bad-size", "at least 1, not 0"),
        ({}, {"N": 5.0}, "bad-size", "at least 1, not 5.0"),
        ({"x": np.ones((5, 11), np.float32)}, {}, "broken-fact", "M=5 breaks 'where M % 2 == 0'"),
        ({"x": np.ones((0, 9), np.float32)}, {}, "bad-size", "would make N 0"),
        ({"a": "2"}, {}, "bad-scalar", "takes a number, not str '2'"),
        ({"a": 1e39}, {}, "bad-scalar", "outside the range of f32"),
        ({"n": 128}, {}, "bad-scalar", "outside the range of i8: -128 to 127"),
        ({"n": 1.0}, {}, "bad-scalar", "takes an integer, not float 1.0"),
        ({"n": True}, {}, "bad-scalar", "takes an integer, not bool True"),
        ({"n": np.array(5, np.int16)}, {}, "bad-dtype", "int16, and the kernel declares i8"),
    ],
)
def test_arguments_that_do_not_fit(change: dict[str, object], sizes: dict[str, int], code: str, words: str) -> None:
    with pytest.raises(ArgumentError) as caught:
        interpret(ARGUMENTS, GOOD | change, **sizes)
    assert caught.value.diagnostic.code == code
    assert words in caught.value.diagnostic.message


def test_what_is_missing() -> None:
    with pytest.raises(ArgumentError, match="argument a is missing: kernel k declares it in"):
        interpret(ARGUMENTS, {name: value for name, value in GOOD.items() if name != "a"})
    kernel = parse("kernel k(N, M)\nout y: f32[N, M]\n\nN\n| M\n| | y[{0}, {1}] = 0\n")
    with pytest.raises(
        ArgumentError, match=r"sizes N, M of kernel k cannot be known from the shapes: pass N=…, M=…"
    ):
        interpret(kernel, {})


def test_sizes_from_other_sizes() -> None:
    kernel = parse("kernel k(N, M)\nin x: f32[N + M]\nin y: f32[N]\nout s: i64\n\ns = 100 * N + M\n")
    got = interpret(kernel, {"x": np.zeros(7, np.float32), "y": np.zeros(4, np.float32)})
    assert got["s"] == 403
    halves = parse("kernel k(N)\nin x: f32[N // 2]\nout s: i64\n\ns = N\n")
    assert interpret(halves, {"x": np.zeros(3, np.float32)}, N=7)["s"] == 7
    with pytest.raises(ArgumentError, match="size-missing"):
        interpret(halves, {"x": np.zeros(3, np.float32)})


@pytest.mark.parametrize("name", DTYPES)
def test_every_type_in_and_out(name: str) -> None:
    dtype = DTYPES[name]
    shape = (2, 3)
    values: Array
    if dtype.is_float:
        values = floats(name, 50, 3).reshape(shape)
    elif dtype.is_integer:
        values = integers(name, 51, 2).reshape(shape)
    else:
        values = np.array([[True, False, True], [False, True, True]])
    declared = f"in x: {name}[N, M]\nout y: {name}[N, M]"
    kernel = parse(f"kernel k(N, M)\n{declared}\n\nN\n| M\n| | y[{{0}}, {{1}}] = x[{{0}}, {{1}}]\n")
    got = interpret(kernel, {"x": values})["y"]
    assert (got.shape, got.dtype.name) == (shape, dtype.stored)
    if dtype.is_float:
        assert_same_floats(got, to_floats(values, dtype), name)
    else:
        assert (got == values).all()
    assert not np.shares_memory(got, values)


# -- precision f64 -----------------------------------------------------------------------------------------
def test_in_f64_nothing_is_rounded() -> None:
    kernel = parse(
        "kernel k(N)\nin x: f16[N]\nin n: i32\nout y: f16[N]\nout z: i32[N]\ntmp t: f8e4m3[N]\n\n"
        "N\n| t[{0}] = x[{0}] / 3\n| y[{0}] = f16(t[{0}] * 5) + f32(n)\n| z[{0}] = i32(x[{0}] * 100)\n"
    )
    x = from_floats(np.random.default_rng(3).normal(size=50), DTYPES["f16"])
    got = interpret(kernel, {"x": x, "n": 2**30 + 1}, precision="f64")
    assert got["y"].dtype == np.float64
    assert (got["y"] == x.astype(np.float64) / 3 * 5 + (2**30 + 1)).all()
    assert (got["z"] == np.trunc(x.astype(np.float64) * 100)).all()
    assert got["z"].dtype == np.int32


def test_in_f64_numbers_keep_the_value_of_their_type() -> None:
    kernel = parse("kernel k()\nout y: f32\n\ny = 0.1\n")
    assert interpret(kernel, {}, precision="f64")["y"] == np.float64(np.float32(0.1))


def test_unknown_precision() -> None:
    with pytest.raises(DojoError, match="precision is 'declared' or 'f64', not 'f128'"):
        interpret(GATHER, {}, precision="f128")
