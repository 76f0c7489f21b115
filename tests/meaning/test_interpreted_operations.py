"""The meaning of operations, against NumPy: every one on every type, and conversions."""

from __future__ import annotations

import math
from collections.abc import Callable
from fractions import Fraction

import ml_dtypes
import numpy as np
import numpy.typing as npt
import pytest
from typed_values import COMPUTE, FLOATS, Array, assert_same_floats, floats, integers, limits, wrapped

from dojoir.errors import KernelError
from dojoir.grammar import parse
from dojoir.ir.dtypes import DTYPES
from dojoir.ir.operations import CALLS, OPERATIONS, Class
from dojoir.meaning.bits import from_floats, to_floats
from dojoir.meaning.interpreter import interpret

INTEGERS = [name for name, dtype in DTYPES.items() if dtype.is_integer and not dtype.is_nibble]


def elementwise(expression: str, result: str, **arrays: tuple[str, Array]) -> Array:
    """`y[i] = expression` over arrays of one length, each given with its type."""
    declared = "\n".join(f"in {name}: {dtype}[N]" for name, (dtype, _) in arrays.items())
    text = f"kernel k(N)\n{declared}\nout y: {result}[N]\n\nN\n| y[{{0}}] = {expression}\n"
    return interpret(parse(text), {name: array for name, (_, array) in arrays.items()})["y"]


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
    "a[{0}] + b[{0}]": np.add, "a[{0}] - b[{0}]": np.subtract, "a[{0}] * b[{0}]": np.multiply,
    "a[{0}] / b[{0}]": np.divide, "max(a[{0}], b[{0}])": numpy_max, "min(a[{0}], b[{0}])": numpy_min,
}  # fmt: skip


UNARY: dict[str, Callable[..., Array]] = {
    "-a[{0}]": np.negative, "abs(a[{0}])": np.abs, "floor(a[{0}])": np.floor, "ceil(a[{0}])": np.ceil,
    "round(a[{0}])": np.rint, "sqrt(a[{0}])": np.sqrt,
}  # fmt: skip


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
    "erfc": np.vectorize(math.erfc),
    "log10": np.log10,
    "sinh": np.sinh,
    "cosh": np.cosh,
    "asin": np.arcsin,
    "acos": np.arccos,
    "asinh": np.arcsinh,
    "acosh": np.arccosh,
    "atanh": np.arctanh,
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


OF_TWO: dict[str, Callable[..., npt.NDArray[np.float64]]] = {
    "atan2": np.arctan2,
    "hypot": np.hypot,
    "copysign": np.copysign,
    "fmod": np.fmod,
    "floor_mod": lambda x, y: np.where(_are_apart(x, y), np.fmod(x, y) + y, np.fmod(x, y)),
    "floor_div": lambda x, y: np.where(y == 0, x / y, x // y),
}


def _are_apart(x: Array, y: Array) -> Array:
    rest = np.fmod(x, y)
    return (rest != 0) & (np.signbit(rest) != np.signbit(y))


@pytest.mark.parametrize("name", ["f64", "f32", "bf16", "f8e5m2"])
@pytest.mark.parametrize("function", OF_TWO)
def test_float_functions_of_two(name: str, function: str) -> None:
    a, b = floats(name, 5), floats(name, 6)
    got = to_floats(elementwise(f"{function}(a[{{0}}], b[{{0}}])", name, a=(name, a), b=(name, b)), DTYPES[name])
    with np.errstate(all="ignore"):
        want = OF_TWO[function](to_floats(a, DTYPES[name]), to_floats(b, DTYPES[name]))
        want = to_floats(from_floats(want.astype(COMPUTE[name]), DTYPES[name]), DTYPES[name])
    places = 2 if name == "f64" and function in ("atan2", "hypot") else 0
    with np.errstate(all="ignore"):
        near = abs(got - want) <= places * np.spacing(abs(want))
    assert (near | (got == want) | (np.isnan(got) & np.isnan(want))).all()
    number = (got == 0) & (want == 0)
    assert (np.signbit(got[number]) == np.signbit(want[number])).all()


def test_signbit_is_written_as_what_it_is() -> None:
    a = floats("f32", 7)
    got = elementwise("signbit(a[{0}])", "bool", a=("f32", a))
    assert (got == np.signbit(a))[~np.isnan(a)].all()
    with pytest.raises(KernelError, match="signbit takes 1 argument, not 2"):
        parse("kernel k(N)\nin a: f32[N]\nout y: bool[N]\n\nN\n| y[{0}] = signbit(a[{0}], 1)\n")


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


@pytest.mark.parametrize("name", ["f32", "f16", "bf16", "i32", "u32", "i8"])
def test_keys_order_as_pairs(name: str) -> None:
    """And give both halves back; a zero as +0, a NaN as one."""
    a = floats(name, 7) if DTYPES[name].is_float else integers(name, 7)
    places = integers("i32", 8)[: len(a)]
    a = a[: len(places)]
    values = to_floats(a, DTYPES[name]) if DTYPES[name].is_float else a.astype(np.float64)
    both = {"a": (name, a), "b": ("i32", places)}
    wide = "f32" if DTYPES[name].is_float else name
    for which, sign in (("argmax", -1), ("argmin", 1)):
        made = f"{which}_key(a[{{0}}], b[{{0}}])"
        keys = elementwise(made, "i64", **both)
        order = np.argsort(sign * keys, kind="stable") if keys.min() > -(2**63) else np.argsort(keys)[::sign]
        ranked = np.where(np.isnan(values), -np.inf, sign * (values + 0.0))
        nan_first = np.where(np.isnan(values), 0, 1)
        expected = np.lexsort((places, ranked, nan_first))
        triples = np.stack([nan_first, ranked, places], 1)
        assert np.array_equal(triples[order], triples[expected])
        assert np.array_equal(elementwise(f"{which}_of(i32, {made})", "i32", **both), places)
        back = elementwise(f"value_of({wide}, {made})", wide, **both)
        assert np.array_equal(back.astype(np.float64), values, equal_nan=True)
        assert not np.signbit(back[values == 0].astype(np.float64)).any()


def test_every_operation_is_tested_here() -> None:
    """Conditions of statements are in test_data_writes."""
    tested = " ".join(
        [
            *BINARY,
            *UNARY,
            *INTEGER,
            *RELATIONS,
            *SMOOTH,
            *OF_TWO,
            "pow( fma( select( and or not argmax_key( argmin_key(",
        ]
    )
    for operation in OPERATIONS.values():
        assert operation.kind is Class.WHEN or (operation.symbol or operation.name) in tested
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
        low, high = limits(to)
        exact = [0 if math.isnan(x) else max(low, min(high, _truncated(x, high))) for x in numbers]
        return np.array(exact, to.stored)
    if to.is_float:
        if target in ("f64", "f32"):
            return values.astype(to.stored)
        return from_floats(values.astype(np.float64), to)
    return values != 0 if target == "bool" else wrapped(values, to)


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
