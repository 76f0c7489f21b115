"""The LLVM target: every node of the lowered program printed, compiled and run, at several register widths."""

from __future__ import annotations

import ctypes
import re
from collections.abc import Mapping
from random import Random
from typing import Any

import numpy as np
import pytest
from agreement import agree, random_arguments, small_sizes
from lir_programs import AT, F32, N, array, index, numpy_type, over_n, program
from numpy.typing import NDArray
from runnable import runnable_kernel

import dojoir
from dojoir.codegen.lir.outcome import FIRST_CHECK, OK, OUT_OF_MEMORY, Check
from dojoir.codegen.lir.program import (
    FLAG,
    INDEX,
    Allocate,
    Array,
    Assign,
    Binary,
    Bitcast,
    Compare,
    Const,
    Convert,
    Declare,
    Fail,
    Fma,
    For,
    If,
    Iota,
    Let,
    Load,
    Parallel,
    Program,
    Reduce,
    Select,
    Splat,
    Stmt,
    Store,
    Type,
    Unary,
    Value,
    Var,
)
from dojoir.codegen.llvm.printer import print_llvm
from dojoir.codegen.lower.lower import lower
from dojoir.codegen.target import Target, llvm_host, llvm_target
from dojoir.ir.dtypes import BOOL, DTYPES, DType
from dojoir.meaning.bits import to_floats
from dojoir.runtime.build.compiler import load_llvm
from dojoir.runtime.build.llvm_engine import build
from dojoir.runtime.build.pool import parallel_for
from dojoir.support.cache import Cache

HOST = llvm_host()
TARGETS = {
    "host": HOST,
    "512-bit, masked": Target("llvm", 512, "mask", frozenset(), 32),
    "256-bit, scalar rest": Target("llvm", 256, "scalar", HOST.native, 16),
    "256-bit, some masks": Target("llvm", 256, "scalar", HOST.native, 16, masked=frozenset({32, 64})),
    "128-bit, scalar rest": Target("llvm", 128, "scalar", frozenset(), 32),
}
"""Any width runs anywhere: LLVM splits what the machine does not have."""

Arrays = Mapping[str, NDArray[Any]]


def run(prog: Program, arrays: Arrays, threads: int = 2, **sizes: int) -> tuple[int, dict[str, NDArray[Any]]]:
    """The status of a program, and its arguments afterwards."""
    text = print_llvm(prog, HOST)
    symbols = {"dojo_parallel_for": parallel_for(threads)} if "@dojo_parallel_for" in text else {}
    library = build(text, [prog.name], symbols, Cache.default())
    results = {name: given.copy() for name, given in arrays.items()}
    by_value = {var.name for var in prog.by_value}
    values: list[object] = []
    for argument in prog.arguments:
        given = results[argument.name]
        scalar = argument.name in by_value
        values.append(np.ctypeslib.as_ctypes(given) if scalar else ctypes.c_void_p(given.ctypes.data))
    values += [ctypes.c_int64(sizes[size.name]) for size in prog.sizes]
    kinds = [type(value) for value in values]
    status = ctypes.CFUNCTYPE(ctypes.c_int32, *kinds)(library.addresses[prog.name])(*values)
    return int(status), results


def vector_of(value: Value, arrays: Arrays, name: str = "y", extra: tuple[Array, ...] = ()) -> NDArray[Any]:
    """The lanes of a value, as stored by a program."""
    kind = value.type
    out = Array(name, kind.dtype, index(kind.lanes), "argument")
    prog = program((Store(name, index(0), value),), (*extra, out), sizes=())
    status, results = run(prog, {**arrays, name: np.zeros(kind.lanes, numpy_type(kind.dtype))})
    assert status == OK
    return results[name]


def lanes(dtype: str, count: int) -> Type:
    return Type(DTYPES[dtype], count)


# -- whole kernels -----------------------------------------------------------------------------------------
@pytest.mark.parametrize("name", TARGETS)
@pytest.mark.parametrize("seed", range(20))
def test_generated_kernels_mean_what_the_interpreter_says(name: str, seed: int) -> None:
    random = Random(seed)
    exact = random.random() < 0.6
    kernel = runnable_kernel(random, exact)
    prog = lower(kernel, TARGETS[name])
    compiled = load_llvm(kernel, print_llvm(prog, TARGETS[name]), 2, prog.checks)
    for _ in range(2):
        sizes = small_sizes(kernel, random)
        given = random_arguments(kernel, sizes, random, special=exact and random.random() < 0.3)
        assert agree(kernel, dojoir.interpret(kernel, given, **sizes), compiled.run(given, **sizes), exact) is None


ROWS = """
kernel rows(N, M)
in  x: f32[N, M]
out y: f32[N, M]
out s: f64[N]
tmp e: f32[N~, M]
tmp m: f32[N~]
N : p
| m[{0}] = -inf
| M : v
| | m[{0}] max= x[{0}, {1}]
| s[{0}] = 1
| M : v
| | e[{0}, {1}] = exp(x[{0}, {1}] - m[{0}])
| | s[{0}] += f64(e[{0}, {1}])
| M : v
| | y[{0}, {1}] = e[{0}, M - {1} - 1]
"""


@pytest.mark.parametrize("name", TARGETS)
@pytest.mark.parametrize("size", [1, 2, 7, 15, 16, 17, 63, 64, 65, 130, 1000])
def test_rows_of_every_length(name: str, size: int) -> None:
    kernel = dojoir.parse(ROWS)
    prog = lower(kernel, TARGETS[name])
    compiled = load_llvm(kernel, print_llvm(prog, TARGETS[name]), 2, prog.checks)
    x = np.random.default_rng(size).standard_normal((5, size)).astype(np.float32)
    e = np.exp(x.astype(np.float64) - x.max(1, keepdims=True))
    results = compiled.run({"x": x})
    np.testing.assert_allclose(results["y"], e[:, ::-1], rtol=3e-6)
    np.testing.assert_allclose(results["s"], 1 + e.sum(1), rtol=3e-6)


@pytest.mark.parametrize("op", ["max=", "min="])
@pytest.mark.parametrize("where", [0, 3, 64, 99])
def test_a_nan_is_never_lost_in_lanes(op: str, where: int) -> None:
    start = "-inf" if op == "max=" else "inf"
    kernel = dojoir.parse(f"kernel k(N)\nin x: f32[N]\nout y: f32\ny = {start}\nN : v\n| y {op} x[{{0}}]\n")
    compiled = dojoir.compile(kernel)
    x = np.arange(100, dtype=np.float32)
    assert compiled.run({"x": x})["y"] == (99 if op == "max=" else 0)
    x[where] = np.nan
    assert np.isnan(compiled.run({"x": x})["y"])


def test_names_of_the_user_do_not_meet_those_of_the_printer() -> None:
    text = """
kernel main(entry, start, from)
in  status: f32[entry, start]
in  context: f32
out v: f32[entry, start]
tmp loop: f32[entry~] reg
entry : p @to
| loop[{to}] = context
| start @done
| | loop[{to}] += status[{to}, {done}]
| start @body
| | v[{to}, {body}] = exp(loop[{to}] - loop[{to}]) * loop[{to}] + from
"""
    x = np.arange(12, dtype=np.float32).reshape(3, 4)
    results = dojoir.compile(dojoir.parse(text)).run({"status": x, "context": 5}, **{"from": 2})
    np.testing.assert_array_equal(results["v"], np.repeat(x.sum(1, keepdims=True) + 7, 4, axis=1))


@pytest.mark.parametrize(
    "dtype", ["f64", "f32", "f16", "bf16", "f8e4m3", "f4e2m1", "i64", "i8", "u16", "u8", "bool"]
)
@pytest.mark.parametrize("name", TARGETS)
def test_scalars_by_value(name: str, dtype: str) -> None:
    kernel = dojoir.parse(
        f"kernel k(N)\nin c: {dtype}\nin x: {dtype}[N]\nout y: {dtype}[N, 2]\n"
        "N : v\n| y[{0}, 0] = c\n| y[{0}, 1] = x[{0}]\n"
    )
    prog = lower(kernel, TARGETS[name])
    compiled = load_llvm(kernel, print_llvm(prog, TARGETS[name]), 1, prog.checks)
    given = random_arguments(kernel, {"N": 21}, Random(3))
    bits = given["c"]
    given["c"] = to_floats(bits, DTYPES[dtype]) if DTYPES[dtype].is_float else bits
    results = compiled.run(given)["y"]
    np.testing.assert_array_equal(results[:, 1], given["x"])
    np.testing.assert_array_equal(results[:, 0], np.repeat(bits, 21))


def test_text_is_the_same_every_time() -> None:
    kernel = dojoir.parse(ROWS)
    assert dojoir.emit(kernel, "llvm") == dojoir.emit(dojoir.parse(ROWS), "llvm")


def test_pointers_alias_nothing_and_fast_math_is_only_where_it_is_asked_for() -> None:
    text = dojoir.emit(dojoir.parse(ROWS), "llvm")
    heads = re.findall(r'^define .*@"rows(?:\.parallel0\.body)?"\((.*)\)', text, re.MULTILINE)
    assert len(heads) == 2
    for head in heads:
        pointers = [p for p in head.split(", ") if p.startswith("ptr") and not p.endswith(".status")]
        assert len(pointers) == 3
        assert all(" noalias " in pointer for pointer in pointers)
    assert "reassoc" not in text
    assert "contract" not in text
    fast = dojoir.emit(dojoir.parse(ROWS.replace("in  x", "fp fast\nin  x")), "llvm")
    function, _, rest = fast.partition("\n}\n")
    assert "exp_fast" in function
    assert "reassoc" not in function
    assert re.search(r"fadd reassoc nsz arcp contract afn <\d+ x double>", rest)
    assert " nnan " not in fast
    assert " ninf " not in fast


# -- values ------------------------------------------------------------------------------------------------
@pytest.mark.parametrize("count", [2, 5, 16, 64])
@pytest.mark.parametrize("dtype", ["f32", "f64", "u8", "bool"])
def test_loads_and_stores_in_lanes(dtype: str, count: int) -> None:
    rng = np.random.default_rng(count)
    size = 4 * count + 3
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
    return vector_of(value, {"x": x}, extra=(Array("x", source, index(count), "argument"),))


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


# -- statements --------------------------------------------------------------------------------------------
def test_loops_variables_and_branches() -> None:
    total, j = Var(F32, "total"), Var(INDEX, "j")
    inner = For(j, index(0), index(3), 1, (Assign(total, Binary(F32, "add", total, Load(F32, "x", AT))),), "unroll")
    halved = Compare("eq", Binary(INDEX, "mod", AT, index(2)), index(0))
    body = (
        Declare(total, Const(F32, 1)),
        inner,
        If(halved, (Store("y", AT, total),), (Store("y", AT, Const(F32, -1)),)),
        If(Compare("gt", AT, index(3)), (Store("y", AT, Const(F32, 9)),)),
    )
    x = np.arange(6, dtype=np.float32)
    prog = program((over_n(*body),), (array("x", "f32"), array("y", "f32")))
    _, results = run(prog, {"x": x, "y": x * 0}, N=6)
    np.testing.assert_array_equal(results["y"], [1, -1, 7, -1, 9, 9])


@pytest.mark.parametrize("start", [-3, 0, 2])
@pytest.mark.parametrize("stop", [-5, 0, 2, 9])
@pytest.mark.parametrize("step", [1, 4])
def test_trip_counts(start: int, stop: int, step: int) -> None:
    count = Var(INDEX, "count")
    loop = For(AT, index(start), N, step, (Assign(count, Binary(INDEX, "add", count, index(1))),))
    body = (Declare(count, index(0)), loop, Store("y", index(0), count))
    _, results = run(program(body, (array("y", "i64"),)), {"y": np.zeros(1, np.int64)}, N=stop)
    assert results["y"][0] == len(range(start, stop, step))


def test_masked_scalars() -> None:
    even = Compare("eq", Binary(INDEX, "mod", AT, index(2)), index(0))
    read = Load(F32, "x", AT, None, even)
    body = (Store("y", AT, Binary(F32, "add", read, Const(F32, 1)), None, Compare("gt", AT, index(0))),)
    x = np.arange(4, dtype=np.float32) + 5
    _, results = run(program((over_n(*body),), (array("x", "f32"), array("y", "f32"))), {"x": x, "y": x * 0}, N=4)
    np.testing.assert_array_equal(results["y"], [0, 1, 8, 1])


def test_stack_arrays_live_in_loops() -> None:
    row = Array("row", DTYPES["f32"], index(4), "stack")
    j = Var(INDEX, "j")
    fill = For(j, index(0), index(4), 1, (Store("row", j, Convert(F32, Binary(INDEX, "mul", AT, j))),))
    body = (Allocate(row), fill, Store("y", AT, Load(F32, "row", index(3))))
    _, results = run(program((over_n(*body),), (array("y", "f32"),)), {"y": np.zeros(100000, np.float32)}, N=100000)
    np.testing.assert_array_equal(results["y"], 3.0 * np.arange(100000, dtype=np.float32))


def heap(name: str, elements: Value, align: int = 64) -> Allocate:
    return Allocate(Array(name, DTYPES["f32"], elements, "heap", align))


@pytest.mark.parametrize("align", [64, 4096])
def test_heap_arrays_are_aligned(align: int) -> None:
    j = Var(INDEX, "j")
    body = (heap("a", N, align), For(j, index(0), N, 1, (Store("a", j, Load(F32, "x", j)),)),
            For(j, index(0), N, 1, (Store("x", j, Unary(F32, "neg", Load(F32, "a", j))),)))  # fmt: skip
    x = np.arange(1000, dtype=np.float32)
    status, results = run(program(body, (array("x", "f32"),)), {"x": x}, N=1000)
    assert status == OK
    np.testing.assert_array_equal(results["x"], -x)
    assert f"i64 {-align})" in print_llvm(program(body, (array("x", "f32"),)), HOST)


@pytest.mark.parametrize("elements", [
    Binary(INDEX, "mul", N, Binary(INDEX, "mul", N, N)),
    Binary(INDEX, "mul", Binary(INDEX, "mul", N, N), Binary(INDEX, "mul", N, N)),
])  # fmt: skip
@pytest.mark.parametrize("parallel", [False, True])
def test_no_memory_ends_the_program(elements: Value, parallel: bool) -> None:
    first, second = Load(INDEX, "at", index(0)), Load(INDEX, "at", index(1))
    again = For(AT, index(0), second, 1, (Store("row", AT, Const(F32, 2)),))  # LLVM cannot do without the array
    use = If(Compare("eq", first, index(0)), (Store("row", first, Const(F32, 1)), again))
    after = Store("x", index(1), Load(F32, "row", first))
    touch = Store("x", index(1), Const(F32, 1))
    arguments = (array("x", "f32", index(2)), array("at", "i64", index(2), constant=True))
    inside: tuple[Stmt, ...] = (heap("row", elements), use, after, touch)
    if parallel:
        loop = Parallel(Var(INDEX, "j"), index(3), (heap("row", elements),), (use, after), (N,), arguments)
        inside = (loop, touch)
    prog = program((heap("kept", index(4)), *inside), arguments)
    for size, status, left in ((2**22, OUT_OF_MEMORY, 0), (1, OK, 1)):
        given = {"x": np.zeros(2, np.float32), "at": np.zeros(2, np.int64)}
        got, results = run(prog, given, N=size)
        assert (got, results["x"][1]) == (status, left)


@pytest.mark.parametrize("kind", ["seq", "parallel", "lanes"])
def test_the_highest_failed_check_is_reported(kind: str) -> None:
    kept = Type(INDEX.dtype, 4) if kind == "lanes" else INDEX
    ids = Load(kept, "ids", index(0) if kind == "lanes" else AT)
    limit: Value = Splat(4, N) if kind == "lanes" else N
    below = Compare("lt", ids, Const(kept, 0))
    above = Compare("ge", ids, limit)
    checks: tuple[Stmt, ...] = (Fail(below, FIRST_CHECK), Fail(above, FIRST_CHECK + 1))
    if kind == "seq":
        checks = (over_n(*checks),)
    elif kind == "parallel":
        checks = (Parallel(AT, N, (), checks, (N,), (array("ids", "i64", constant=True),)),)
    found = (Check("w[ids[{0}]]", (0, 0)), Check("v[ids[{0}]]", (0, 0)))
    prog = program(checks, (array("ids", "i64", constant=True),), checks=found)
    for given, wanted in (([0, 3], OK), ([-1, 0], 2), ([0, 77], 3), ([77, -1], 3), ([-1, 77], 3)):
        assert run(prog, {"ids": np.array(given * 2)}, N=4)[0] == wanted


def test_parallel_captures_values_and_arrays() -> None:
    scale, wide = Var(F32, "scale"), Var(lanes("f32", 4), "wide")
    total = Binary(F32, "mul", Reduce("add", wide), Binary(F32, "mul", scale, Load(F32, "x", AT)))
    loop = Parallel(AT, N, (), (Store("y", AT, total),), (wide, scale),
                    (array("x", "f32", constant=True), array("y", "f32")))  # fmt: skip
    body = (Let(scale, Const(F32, 2)), Declare(wide, Const(lanes("f32", 4), 1)), loop)
    x = np.arange(100, dtype=np.float32)
    for threads in (1, 2, 3):
        prog = program(body, (array("x", "f32", constant=True), array("y", "f32")))
        _, results = run(prog, {"x": x, "y": x * 0}, threads=threads, N=100)
        np.testing.assert_array_equal(results["y"], 8 * x)


# -- machines ----------------------------------------------------------------------------------------------
def test_what_machines_have() -> None:
    avx512 = {"avx2", "avx512f", "avx512vl", "avx512bw", "avx512dq", "f16c"}
    assert llvm_target("x86_64", frozenset(avx512)) == Target(
        "llvm", 512, "mask", frozenset({"f16"}), 32, True, "x86_64", frozenset(avx512), True, dots=8
    )
    assert llvm_target("x86_64", frozenset({"avx2", "f16c"})).vector_bits == 256
    assert llvm_target("x86_64", frozenset({"avx2", "avx512f"})).tail == "scalar"
    assert llvm_target("x86_64", frozenset({"avx2"})).masked == {32, 64}
    assert not llvm_target("x86_64", frozenset(avx512)).masked
    assert llvm_target("x86_64", frozenset({"sse2"})) == Target(
        "llvm", 128, "scalar", frozenset(), 16, True, "x86_64", frozenset({"sse2"})
    )
    assert llvm_target("aarch64", frozenset({"neon"})).registers == 32


assert FLAG.dtype == BOOL
