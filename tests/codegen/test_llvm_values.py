"""The LLVM target: every value of the lowered program, at several register widths."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from lir_programs import array, index, numpy_type, program
from llvm_runs import Arrays, lanes, run
from numpy.typing import NDArray

from dojoir.codegen.lir.outcome import OK
from dojoir.codegen.lir.program import (
    INDEX,
    Binary,
    Bitcast,
    Compare,
    Const,
    Convert,
    Fma,
    Iota,
    Load,
    ProgramArray,
    Reduce,
    Select,
    Splat,
    Store,
    Type,
    Unary,
    Value,
    Var,
)
from dojoir.ir.dtypes import BOOL, DTYPES, DType


def vector_of(value: Value, arrays: Arrays, name: str = "y", extra: tuple[ProgramArray, ...] = ()) -> NDArray[Any]:
    """The lanes of a value, as stored by a program."""
    kind = value.type
    out = ProgramArray(name, kind.dtype, index(kind.lanes), "argument")
    prog = program((Store(name, index(0), value),), (*extra, out), sizes=())
    status, results = run(prog, {**arrays, name: np.zeros(kind.lanes, numpy_type(kind.dtype))})
    assert status == OK
    return results[name]


# -- values ------------------------------------------------------------------------------------------------
@pytest.mark.parametrize("count", [2, 5, 16, 64])
@pytest.mark.parametrize("dtype", ["f32", "f64", "u8", "bool"])
def test_loads_and_stores_in_lanes(dtype: str, count: int) -> None:
    rng = np.random.default_rng(count)
    size = 5 * count + 3
    x = rng.integers(0, 2 if dtype == "bool" else 100, size).astype(numpy_type(DTYPES[dtype]))
    order = rng.permutation(size)[:count]
    mask = rng.random(count) < 0.5
    kind = lanes(dtype, count)
    flags = Load(lanes("bool", count), "mask", index(0))
    places = Load(lanes("i64", count), "order", index(0))
    n = Var(INDEX, "N")
    minus = Unary(INDEX, "neg", n)
    cases: list[tuple[Value, Value | None, NDArray[Any]]] = [
        (index(3), None, np.arange(count) + 3),
        (index(1), n, 4 * np.arange(count) + 1),
        (index(size - 1), minus, size - 1 - 4 * np.arange(count)),
        (index(size - 2), index(-1), size - 2 - np.arange(count)),
        *(
            (index(size - 1 - apart * (count - 1)), index(apart), size - 1 - apart * np.arange(count)[::-1])
            for apart in (2, 3, 4, 5)
        ),
        (places, None, order),
    ]
    arguments = (array("x", dtype, index(size)), array("order", "i64", index(count)),
                 array("mask", "bool", index(count)), array("y", dtype, index(size)))  # fmt: skip
    for offset, stride, where in cases:
        for chosen in (None, flags):
            read = Load(kind, "x", offset, stride, chosen)
            to_front = program((Store("y", index(0), read),), arguments)
            given = {"x": x, "order": order, "mask": mask, "y": np.zeros_like(x)}
            _, results = run(to_front, given, N=4)
            expected = x[where] if chosen is None else np.where(mask, x[where], 0).astype(x.dtype)
            np.testing.assert_array_equal(results["y"][:count], expected)
            front = Load(kind, "x", index(0))
            spread = program((Store("y", offset, front, stride, chosen),), arguments)
            _, results = run(spread, given, N=4)
            wanted = np.zeros_like(x)
            active = mask if chosen is not None else np.ones(count, bool)
            wanted[where[active]] = x[:count][active]
            np.testing.assert_array_equal(results["y"], wanted)


def test_masked_lanes_touch_no_memory() -> None:
    """The active lane is the last element before the end of the address range of the array: guarded by the mask,
    its neighbours are outside of the process's memory."""
    kind = lanes("f32", 16)
    lane = Iota(lanes("u8", 16))
    first = Compare("lt", lane, Const(lanes("u8", 16), 1))
    none = Compare("lt", lane, Const(lanes("u8", 16), 0))
    far = index(1 << 45)
    body = (
        Store("y", index(0), Load(kind, "x", far, None, none)),
        Store("y", index(0), Load(kind, "x", index(0), far, first), None, first),
        Store("y", far, Load(kind, "x", index(0)), None, none),
        Store("y", index(0), Load(kind, "x", index(0)), far, first),
    )
    x = np.arange(16, dtype=np.float32) + 1
    _, results = run(program(body, (array("x", "f32"), array("y", "f32"))), {"x": x, "y": x * 0}, N=16)
    np.testing.assert_array_equal(results["y"], np.where(np.arange(16) == 0, 1, 0))


@pytest.mark.parametrize("count", [3, 8, 37, 64])
@pytest.mark.parametrize("op", ["add", "mul", "min", "max", "min_fast", "max_fast"])
@pytest.mark.parametrize("dtype", ["f32", "f64", "i32", "u8", "i64"])
def test_reductions_across_lanes(dtype: str, op: str, count: int) -> None:
    x = (np.random.default_rng(count).integers(1, 4, count)).astype(numpy_type(DTYPES[dtype]))
    value = Reduce(op, Load(lanes(dtype, count), "x", index(0)))
    got = vector_of(value, {"x": x}, extra=(array("x", dtype, index(count)),))
    function = {"add": np.add, "mul": np.multiply, "min": np.minimum, "max": np.maximum}[op[:3]]
    expected = function.reduce(x, dtype=x.dtype)
    np.testing.assert_allclose(got[0], expected, rtol=1e-6)
    if DTYPES[dtype].is_integer:
        assert got[0] == expected


@pytest.mark.parametrize("where", [0, 1, 4])
@pytest.mark.parametrize("op", ["min", "max"])
def test_reductions_keep_a_nan_in_any_lane(op: str, where: int) -> None:
    x = np.arange(5, dtype=np.float32)
    x[where] = np.nan
    got = vector_of(
        Reduce(op, Load(lanes("f32", 5), "x", index(0))), {"x": x}, extra=(array("x", "f32", index(5)),)
    )
    assert np.isnan(got[0])


def test_flags_reduce() -> None:
    for given in ([True] * 7, [False] * 7, [False] * 3 + [True] + [False] * 3):
        x = np.array(given)
        for op, whole in (("and", x.all()), ("or", x.any())):
            value = Reduce(op, Load(lanes("bool", 7), "x", index(0)))
            assert vector_of(value, {"x": x}, extra=(array("x", "bool", index(7)),))[0] == whole


def _both(dtype: str, op: str, a: list[float], b: list[float]) -> NDArray[Any]:
    kind = lanes(dtype, len(a))
    arrays = {"a": np.array(a, numpy_type(kind.dtype)), "b": np.array(b, numpy_type(kind.dtype))}
    extra = (array("a", dtype, index(len(a))), array("b", dtype, index(len(a))))
    return vector_of(Binary(kind, op, Load(kind, "a", index(0)), Load(kind, "b", index(0))), arrays, extra=extra)


def test_min_and_max_of_floats() -> None:
    nan, inf = np.nan, np.inf
    a, b = [1, nan, 1, nan, -inf, 2], [2, 1, nan, nan, inf, 2]
    np.testing.assert_array_equal(_both("f32", "max", a, b), [2, nan, nan, nan, inf, 2])
    np.testing.assert_array_equal(_both("f32", "min", a, b), [1, nan, nan, nan, -inf, 2])
    np.testing.assert_array_equal(_both("f64", "max_fast", a, b), [2, 1, nan, nan, inf, 2])
    np.testing.assert_array_equal(_both("f64", "min_fast", a, b), [1, 1, nan, nan, -inf, 2])


@pytest.mark.parametrize("dtype", ["i8", "i32", "i64", "u8", "u64"])
@pytest.mark.parametrize("divisor", [1, 2, 3, 7, 64, 100])
def test_floor_division(dtype: str, divisor: int) -> None:
    kind = lanes(dtype, 6)
    info = np.iinfo(numpy_type(kind.dtype))
    x = np.array([info.min, info.max, 0, 1, info.max // 2, info.min // 2 + 1], numpy_type(kind.dtype))
    for op, function in (("floordiv", np.floor_divide), ("mod", np.mod)):
        value = Binary(kind, op, Load(kind, "x", index(0)), Const(kind, divisor))
        got = vector_of(value, {"x": x}, extra=(array("x", dtype, index(6)),))
        np.testing.assert_array_equal(got, function(x, x.dtype.type(divisor)))


def test_bits_and_shifts() -> None:
    x = [0x0F, 0x80, 0xFF, 1]
    np.testing.assert_array_equal(_both("u8", "shl", x, [1, 1, 4, 7]), [0x1E, 0, 0xF0, 0x80])
    np.testing.assert_array_equal(_both("u8", "shr", x, [1, 1, 4, 7]), [7, 0x40, 0x0F, 0])
    np.testing.assert_array_equal(_both("i8", "sar", [-128, -1, 64, 5], [1, 3, 2, 1]), [-64, -1, 16, 2])
    np.testing.assert_array_equal(_both("i32", "xor", x, [1, 2, 3, 4]), [0x0E, 0x82, 0xFC, 5])
    np.testing.assert_array_equal(_both("u16", "div", [7, 8, 65535, 0], [2, 3, 4, 5]), [3, 2, 16383, 0])
    np.testing.assert_array_equal(_both("u16", "rem", [7, 8, 65535, 0], [2, 3, 4, 5]), [1, 2, 3, 0])


def test_unary_operations() -> None:
    x = np.array([-2.5, -0.5, 0.5, 1.5, 2.5, np.nan, -np.inf, 3.75])
    extra = (array("x", "f64", index(8)),)
    kind = lanes("f64", 8)
    expected = {"neg": -x, "abs": np.abs(x), "floor": np.floor(x), "ceil": np.ceil(x), "round": np.round(x)}
    for op, wanted in expected.items():
        got = vector_of(Unary(kind, op, Load(kind, "x", index(0))), {"x": x}, extra=extra)
        np.testing.assert_array_equal(got, wanted)
    whole = np.array([-128, -1, 0, 127], np.int8)
    for op, wanted in {"neg": -whole, "abs": np.abs(whole), "not": ~whole}.items():
        value = Unary(lanes("i8", 4), op, Load(lanes("i8", 4), "x", index(0)))
        np.testing.assert_array_equal(vector_of(value, {"x": whole}, extra=(array("x", "i8", index(4)),)), wanted)
    flags = Unary(lanes("bool", 2), "not", Load(lanes("bool", 2), "x", index(0)))
    truth = np.array([True, False])
    np.testing.assert_array_equal(vector_of(flags, {"x": truth}, extra=(array("x", "bool", index(2)),)), ~truth)


@pytest.mark.parametrize("op", ["eq", "ne", "lt", "le", "gt", "ge"])
@pytest.mark.parametrize("dtype", ["f32", "i8", "u8"])
def test_comparisons(op: str, dtype: str) -> None:
    a = np.array([1, 2, 3, 200, 5]).astype(numpy_type(DTYPES[dtype]))
    b = np.array([2, 2, 1, 100, 5]).astype(numpy_type(DTYPES[dtype]))
    if dtype == "f32":
        a[4] = np.nan
    kind = lanes(dtype, 5)
    value = Compare(op, Load(kind, "a", index(0)), Load(kind, "b", index(0)))
    got = vector_of(value, {"a": a, "b": b}, extra=(array("a", dtype, index(5)), array("b", dtype, index(5))))
    names = {
        "eq": "equal",
        "ne": "not_equal",
        "lt": "less",
        "le": "less_equal",
        "gt": "greater",
        "ge": "greater_equal",
    }
    np.testing.assert_array_equal(got, getattr(np, names[op])(a, b))


def _converted(x: NDArray[Any], source: DType, into: DType) -> NDArray[Any]:
    count = len(x)
    value = Convert(Type(into, count), Load(Type(source, count), "x", index(0)))
    return vector_of(value, {"x": x}, extra=(ProgramArray("x", source, index(count), "argument"),))


def test_conversions() -> None:
    odd = np.array([1.9, -1.9, np.nan, np.inf, -np.inf, 3e9, -3e9, 300.0], np.float32)
    np.testing.assert_array_equal(
        _converted(odd, DTYPES["f32"], DTYPES["i32"]),
        [1, -1, 0, 2**31 - 1, -(2**31), 2**31 - 1, -(2**31), 300],
    )
    np.testing.assert_array_equal(_converted(odd, DTYPES["f32"], DTYPES["u8"]), [1, 0, 0, 255, 0, 255, 0, 255])
    np.testing.assert_array_equal(_converted(odd, DTYPES["f32"], BOOL), [True] * 8)
    whole = np.array([-1, 0, 300, 2**40 + 5])
    np.testing.assert_array_equal(_converted(whole, DTYPES["i64"], DTYPES["i8"]), whole.astype(np.int8))
    np.testing.assert_array_equal(_converted(whole, DTYPES["i64"], DTYPES["f64"]), whole.astype(float))
    np.testing.assert_array_equal(_converted(whole, DTYPES["i64"], BOOL), whole != 0)
    unsigned = whole.astype(np.uint8)
    np.testing.assert_array_equal(_converted(unsigned, DTYPES["u8"], DTYPES["i64"]), unsigned.astype(np.int64))
    np.testing.assert_array_equal(_converted(unsigned, DTYPES["u8"], DTYPES["f32"]), unsigned.astype(np.float32))
    np.testing.assert_array_equal(_converted(np.array([True, False]), BOOL, DTYPES["f64"]), [1, 0])
    np.testing.assert_array_equal(_converted(np.array([1 / 3, 1e300]), DTYPES["f64"], DTYPES["f32"]),
                                  np.array([1 / 3, np.inf], np.float32))  # fmt: skip


def test_select_fma_splat_iota_and_bitcast() -> None:
    kind = lanes("f32", 5)
    x = Load(kind, "x", index(0))
    one = Const(Type(DTYPES["f32"]), 1.0)
    extra = (array("x", "f32", index(5)),)
    given = {"x": np.array([-2, -1, 0, 1, 2], np.float32)}
    positive = Select(Compare("gt", x, Const(kind, 0)), x, Splat(5, one))
    np.testing.assert_array_equal(vector_of(positive, given, extra=extra), [1, 1, 1, 1, 2])
    np.testing.assert_array_equal(vector_of(Fma(x, x, Splat(5, one)), given, extra=extra), [5, 2, 1, 2, 5])
    np.testing.assert_array_equal(vector_of(Iota(lanes("u8", 5)), {}), np.arange(5))
    bits = Bitcast(lanes("u32", 5), x)
    np.testing.assert_array_equal(vector_of(bits, given, extra=extra), given["x"].view(np.uint32))


@pytest.mark.parametrize("value", [0.1, -0.0, np.inf, np.nan, 1e-45, 3.4028235e38, 5.0])
@pytest.mark.parametrize("dtype", ["f32", "f64", "f16", "bf16"])
def test_constants(dtype: str, value: float) -> None:
    out = {"f16": "u16", "bf16": "u16", "f32": "u32", "f64": "u64"}[dtype]
    got = vector_of(Bitcast(lanes(out, 3), Const(lanes(dtype, 3), value)), {})
    if dtype == "bf16":
        wanted = np.array([value], np.float32).view(np.uint32) >> 16
    else:
        with np.errstate(over="ignore"):
            wanted = np.array([value], numpy_type(DTYPES[dtype])).view(numpy_type(DTYPES[out]))
    if np.isnan(value):
        wanted = got[:1]
        assert np.isnan(got.view({"u16": np.float16, "u32": np.float32, "u64": np.float64}[out])).all()
    np.testing.assert_array_equal(got, np.repeat(wanted, 3))
