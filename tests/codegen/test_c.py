"""The portable C target: every node of the lowered program printed, compiled and run, and how the text reads."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from itertools import product
from pathlib import Path
from random import Random
from typing import Any

import numpy as np
import pytest
from agreement import agree, random_arguments, small_sizes
from c_machine import Arrays, Machine
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from lir_programs import AT, F32, I32, N, array, index, numpy_type, over_n, program
from numpy.typing import NDArray
from runnable import runnable_kernel

import dojoir
from dojoir.codegen.c.printer import print_c
from dojoir.codegen.lir.outcome import FIRST_CHECK, OK, OUT_OF_MEMORY, Check
from dojoir.codegen.lir.program import (
    FLAG,
    INDEX,
    Allocate,
    Array,
    Assign,
    Binary,
    Bitcast,
    Call,
    Comment,
    Compare,
    Const,
    Convert,
    Declare,
    Fail,
    Fma,
    For,
    Function,
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
from dojoir.codegen.lower.lower import lower
from dojoir.codegen.target import C
from dojoir.errors import ToolchainError
from dojoir.ir.dtypes import BOOL, DTYPES, DType
from dojoir.meaning.interpreter import interpret
from dojoir.runtime.build import c_toolchain

F64 = Type(DTYPES["f64"])
SIGNED, UNSIGNED, FLOATS = ("i64", "i32", "i16", "i8"), ("u64", "u32", "u16", "u8"), ("f64", "f32")


# -- building and running ------------------------------------------------------------------------------------
@pytest.fixture
def machine(tmp_path: Path) -> Machine:
    """A compiler at work. Machines without one cannot run what this prints; there the tests that look at the
    text remain."""
    return Machine(compiler(), tmp_path)


def compiler() -> c_toolchain.Toolchain:
    try:
        return c_toolchain.find()
    except ToolchainError as error:
        pytest.skip(error.diagnostic.message)


def run_both(machine: Machine, prog: Program, arrays: Arrays, **sizes: int) -> tuple[int, Arrays]:
    """The result of a program, the same from the sanitized and from the optimised build, and free of warnings."""
    machine.check_warnings(print_c(prog))
    status, results = machine.run_checked(prog, arrays, **sizes)
    fast_status, fast = machine.run_shared(prog, arrays, **sizes)
    assert fast_status == status
    for name, result in results.items():
        np.testing.assert_array_equal(fast[name], result, err_msg=name)
    return status, results


Case = tuple[str, DType, Callable[..., Value], Callable[..., Any]]
"""A name, the type of the result, how to compute it from the operands, and what it must be."""


def check_cases(machine: Machine, operands: Mapping[str, NDArray[Any]], cases: list[Case]) -> None:
    """Every case computed on the operands element by element, all in one program."""
    count = len(next(iter(operands.values())))
    inputs = tuple(array(name, dtype_of(values), constant=True) for name, values in operands.items())
    loads = [Load(Type(a.dtype), a.name, AT) for a in inputs]
    outputs = tuple(array(name, str(dtype)) for name, dtype, _, _ in cases)
    body = tuple(over_n(Store(name, AT, compute(*loads))) for name, _, compute, _ in cases)
    arrays = dict(operands) | {name: np.zeros(count, numpy_type(dtype)) for name, dtype, _, _ in cases}
    status, results = run_both(machine, program(body, inputs + outputs), arrays, N=count)
    assert status == OK
    for name, dtype, _, expected in cases:
        wanted = [expected(*row) for row in zip(*map(list, operands.values()), strict=True)]
        np.testing.assert_array_equal(results[name], np.array(wanted, numpy_type(dtype)), err_msg=name)


def dtype_of(values: NDArray[Any]) -> str:
    return "bool" if values.dtype == np.bool_ else f"{values.dtype.kind}{values.dtype.itemsize * 8}"


def pairs(dtype: DType, left: list[Any], right: list[Any] | None = None) -> dict[str, NDArray[Any]]:
    rows = list(product(left, left if right is None else right))
    kind = numpy_type(dtype)
    return {"a": np.array([a for a, _ in rows], kind), "b": np.array([b for _, b in rows], kind)}


def edges(dtype: DType) -> list[int]:
    low, high = limits(dtype)
    return sorted({low, low + 1, high // 2, high - 1, high, 0, 1, 2, 7, *([-1, -2, -7] if low else [])})


def limits(dtype: DType) -> tuple[int, int]:
    info = np.iinfo(numpy_type(dtype))
    return int(info.min), int(info.max)


def wrapped(dtype: DType, value: int) -> int:
    value %= 2**dtype.bits
    return value - 2**dtype.bits if dtype.kind == "i" and value >= 2 ** (dtype.bits - 1) else value


# -- arithmetic ----------------------------------------------------------------------------------------------
@pytest.mark.parametrize("name", SIGNED + UNSIGNED)
def test_integers_wrap_around(machine: Machine, name: str) -> None:
    dtype = DTYPES[name]
    kind = Type(dtype)

    def binary(op: str, expected: Callable[[int, int], int]) -> Case:
        wanted = lambda a, b: wrapped(dtype, expected(int(a), int(b)))  # noqa: E731
        return f"do_{op}", dtype, lambda a, b: Binary(kind, op, a, b), wanted

    def unary(op: str, expected: Callable[[int], int]) -> Case:
        return f"do_{op}", dtype, lambda a, b: Unary(kind, op, a), lambda a, b: wrapped(dtype, expected(int(a)))

    check_cases(
        machine,
        pairs(dtype, edges(dtype)),
        [
            binary("add", lambda a, b: a + b),
            binary("sub", lambda a, b: a - b),
            binary("mul", lambda a, b: a * b),
            binary("min", min),
            binary("max", max),
            binary("min_fast", min),
            binary("max_fast", max),
            binary("and", lambda a, b: a & b),
            binary("or", lambda a, b: a | b),
            binary("xor", lambda a, b: a ^ b),
            unary("neg", lambda a: -a),
            unary("abs", abs),
            unary("not", lambda a: ~a),
            *(
                (f"do_{op}", BOOL, lambda a, b, op=op: Compare(op, a, b), compare)
                for op, compare in COMPARISONS.items()
            ),
        ],
    )


COMPARISONS: dict[str, Callable[[Any, Any], bool]] = {
    "eq": lambda a, b: a == b,
    "ne": lambda a, b: a != b,
    "lt": lambda a, b: a < b,
    "le": lambda a, b: a <= b,
    "gt": lambda a, b: a > b,
    "ge": lambda a, b: a >= b,
}


@pytest.mark.parametrize("name", SIGNED + UNSIGNED)
def test_shifts(machine: Machine, name: str) -> None:
    dtype = DTYPES[name]
    kind, bits = Type(dtype), DTYPES[name].bits

    def shift(op: str, expected: Callable[[int, int], int]) -> Case:
        wanted = lambda a, b: wrapped(dtype, expected(int(a), int(b)))  # noqa: E731
        return f"do_{op}", dtype, lambda a, b: Binary(kind, op, a, b), wanted

    signed = DType("", "i", bits)
    check_cases(
        machine,
        pairs(dtype, edges(dtype), [0, 1, bits // 2, bits - 1]),
        [
            shift("shl", lambda a, b: a << b),
            shift("shr", lambda a, b: (a % 2**bits) >> b),
            shift("sar", lambda a, b: wrapped(signed, a) >> b),
            (
                "shift_one",
                dtype,
                lambda a, b: Binary(kind, "shl", Const(kind, 1), b),
                lambda a, b: wrapped(dtype, 1 << int(b)),
            ),
        ],
    )  # fmt: skip


@pytest.mark.parametrize("name", SIGNED + UNSIGNED)
def test_division(machine: Machine, name: str) -> None:
    dtype = DTYPES[name]
    kind = Type(dtype)
    values = np.array(edges(dtype), numpy_type(dtype))
    check_cases(
        machine,
        {"a": values},
        [
            *(
                (f"{op}_{d}", dtype, lambda a, op=op, d=d: Binary(kind, op, a, Const(kind, d)), expected)
                for d in (1, 2, 7, 100)
                for op, expected in (
                    ("floordiv", lambda a, d=d: int(a) // d),
                    ("mod", lambda a, d=d: int(a) % d),
                )
            )
        ],
    )
    positive = values[values >= 0]
    quotients: list[Case] = [
        ("do_div", dtype, lambda a, b: Binary(kind, "div", a, b), lambda a, b: int(a) // int(b)),
        ("do_rem", dtype, lambda a, b: Binary(kind, "rem", a, b), lambda a, b: int(a) % int(b)),
    ]
    check_cases(machine, pairs(dtype, list(positive), [1, 3, limits(dtype)[1]]), quotients)


FLOAT_EDGES = [
    0.0, -0.0, 1.0, -1.0, 0.1, -2.5, 0.5, 1.5, 2.5, 3.5, 1e-40, -1e-40, 5e-324, 1e30, -1e30,
    math.inf, -math.inf, math.nan, 16777217.0, 8388609.5, 4503599627370497.5,
]  # fmt: skip


@pytest.mark.parametrize("name", FLOATS)
def test_floats(machine: Machine, name: str) -> None:
    dtype = DTYPES[name]
    kind, number = Type(dtype), numpy_type(dtype).type

    def larger(a: Any, b: Any) -> Any:
        return number(np.nan) if np.isnan(a) or np.isnan(b) else max(a, b)

    def smaller(a: Any, b: Any) -> Any:
        return number(np.nan) if np.isnan(a) or np.isnan(b) else min(a, b)

    def binary(op: str, expected: Callable[[Any, Any], Any]) -> Case:
        return f"do_{op}", dtype, lambda a, b: Binary(kind, op, a, b), expected

    def unary(op: str, expected: Callable[[Any], Any]) -> Case:
        return f"do_{op}", dtype, lambda a, b: Unary(kind, op, a), lambda a, b: expected(a)

    with np.errstate(all="ignore"):
        check_cases(
            machine,
            pairs(dtype, FLOAT_EDGES),
            [
                binary("add", lambda a, b: a + b),
                binary("sub", lambda a, b: a - b),
                binary("mul", lambda a, b: a * b),
                binary("div", lambda a, b: a / b),
                binary("max", larger),
                binary("min", smaller),
                binary("max_fast", lambda a, b: a if a > b else b),
                binary("min_fast", lambda a, b: a if a < b else b),
                unary("neg", lambda a: -a),
                unary("abs", abs),
                unary("sqrt", np.sqrt),
                unary("floor", np.floor),
                unary("ceil", np.ceil),
                unary("round", np.rint),
                *(
                    (f"do_{op}", BOOL, lambda a, b, op=op: Compare(op, a, b), compare)
                    for op, compare in COMPARISONS.items()
                ),
            ],
        )


# -- conversions ---------------------------------------------------------------------------------------------
def saturated(dtype: DType, value: float) -> int:
    low, high = limits(dtype)
    return 0 if math.isnan(value) else low if value <= low else high if value >= high else int(value)


def conversion(name: str, expected: Callable[[DType, Any], Any]) -> Case:
    dtype = DTYPES[name]
    return f"to_{name}", dtype, lambda a: Convert(Type(dtype), a), lambda a: expected(dtype, a)


@pytest.mark.parametrize("name", FLOATS)
def test_floats_to_integers_saturate(machine: Machine, name: str) -> None:
    source = numpy_type(DTYPES[name])
    values = [0.0, -0.0, 0.9, -0.9, 1.5, -1.5, math.nan, math.inf, -math.inf, 1e30, -1e30]
    for bits in (7, 8, 15, 16, 31, 32, 63, 64):
        edge = source.type(2.0**bits)
        values += [edge, np.nextafter(edge, source.type(0)), -edge, np.nextafter(-edge, source.type(-np.inf))]
        values += [edge - source.type(0.5), -edge - source.type(0.5), edge - 1, -edge - 1]
    check_cases(
        machine,
        {"a": np.array(values, source)},
        [conversion(to, saturated) for to in SIGNED + UNSIGNED],
    )


def test_conversions_between_integers_wrap(machine: Machine) -> None:
    values = np.array([0, 1, -1, 127, 128, -129, 2**15, 2**31, -(2**31) - 1, 2**63 - 1, -(2**63)], np.int64)
    check_cases(
        machine,
        {"a": values},
        [conversion(to, lambda dtype, a: wrapped(dtype, int(a))) for to in ("i32", "i16", "i8", *UNSIGNED)],
    )


def test_conversions_to_floats_and_bool(machine: Machine) -> None:
    values = np.array([0, 1, -1, 16777217, 2**53 + 1, 2**63 - 1, -(2**63)], np.int64)
    unsigned = values.astype(np.uint64)
    floats = np.array([0.0, -0.0, 1.0, 0.1, 1e300, math.nan, 1e-320])
    flags = np.array([1, 0, 1, 0, 1, 1, 0], bool)
    with np.errstate(all="ignore"):
        check_cases(
            machine,
            {"s": values, "u": unsigned, "f": floats, "b": flags},
            [
                ("s_f32", F32.dtype, lambda s, u, f, b: Convert(F32, s), lambda s, u, f, b: np.float32(s)),
                ("s_f64", F64.dtype, lambda s, u, f, b: Convert(F64, s), lambda s, u, f, b: np.float64(s)),
                ("u_f32", F32.dtype, lambda s, u, f, b: Convert(F32, u), lambda s, u, f, b: np.float32(u)),
                ("f_f32", F32.dtype, lambda s, u, f, b: Convert(F32, f), lambda s, u, f, b: np.float32(f)),
                ("s_bool", BOOL, lambda s, u, f, b: Convert(FLAG, s), lambda s, u, f, b: s != 0),
                ("f_bool", BOOL, lambda s, u, f, b: Convert(FLAG, f), lambda s, u, f, b: f != 0),
                ("b_i32", I32.dtype, lambda s, u, f, b: Convert(I32, b), lambda s, u, f, b: int(b)),
                ("b_f32", F32.dtype, lambda s, u, f, b: Convert(F32, b), lambda s, u, f, b: float(b)),
                ("b_same", BOOL, lambda s, u, f, b: Convert(FLAG, b), lambda s, u, f, b: b),
            ],
        )


def test_bitcasts(machine: Machine) -> None:
    def case(name: str, to: str) -> Case:
        kind = Type(DTYPES[to])
        return name, kind.dtype, lambda a: Bitcast(kind, a), lambda a: a.view(numpy_type(kind.dtype))

    check_cases(
        machine,
        {"a": np.array([0.0, -0.0, 1.5, math.inf, 1e-45], np.float32)},
        [case("u", "u32"), case("i", "i32")],
    )
    check_cases(machine, {"a": np.array([0.0, -0.0, 1.5, math.inf, 5e-324])}, [case("u", "u64"), case("i", "i64")])
    check_cases(
        machine, {"a": np.array([0, 1, 0x3FC00000, 0xFF800000], np.uint32)}, [case("f", "f32"), case("i", "i32")]
    )
    check_cases(machine, {"a": np.array([0, -1], np.int16)}, [case("u", "u16")])


def test_fma_rounds_once_and_products_are_not_contracted(machine: Machine) -> None:
    a = np.array([1 + 2.0**-12, 3.0], np.float32)
    exact = np.array([float(v) * float(v) - 1 - 2.0**-11 for v in a])
    one = Const(F32, -(1 + 2.0**-11))
    check_cases(
        machine,
        {"a": a},
        [
            ("fused", F32.dtype, lambda v: Fma(v, v, one), lambda v: np.float32(exact[list(a).index(v)])),
            (
                "apart",
                F32.dtype,
                lambda v: Binary(F32, "add", Binary(F32, "mul", v, v), one),
                lambda v: np.float32(v * v) - np.float32(1 + 2.0**-11),
            ),
        ],
    )


def test_select_and_logic(machine: Machine) -> None:
    def logic(op: str) -> Callable[..., Value]:
        return lambda a, b: Binary(FLAG, op, a, b)

    flags = [False, True]
    check_cases(
        machine,
        pairs(BOOL, flags),
        [
            ("do_and", BOOL, logic("and"), lambda a, b: a and b),
            ("do_or", BOOL, logic("or"), lambda a, b: a or b),
            ("do_xor", BOOL, logic("xor"), lambda a, b: a != b),
            ("do_not", BOOL, lambda a, b: Unary(FLAG, "not", a), lambda a, b: not a),
            ("mixed", BOOL, lambda a, b: logic("or")(logic("and")(a, b), logic("and")(b, a)), lambda a, b: a and b),
            ("select", F32.dtype, lambda a, b: Select(a, Const(F32, 2.5), Const(F32, -1)),
             lambda a, b: 2.5 if a else -1),
            ("nested", INDEX.dtype,
             lambda a, b: Select(Select(a, b, a), Select(b, index(1), index(2)), index(3)),
             lambda a, b: (1 if b else 2) if (b if a else a) else 3),
        ],
    )  # fmt: skip


def test_any_byte_but_zero_is_true(machine: Machine) -> None:
    prog = program(
        (over_n(Store("y", AT, Unary(FLAG, "not", Load(FLAG, "x", AT)))),), (array("x", "bool"), array("y", "bool"))
    )
    given = np.array([0, 1, 2, 255], np.uint8)
    _, results = run_both(machine, prog, {"x": given, "y": given.copy()}, N=4)
    assert results["y"].tolist() == [1, 0, 0, 0]


def test_constants_reach_the_compiler(machine: Machine) -> None:
    numbers: list[tuple[Type, list[float]]] = [
        (F32, [0.0, -0.0, 0.1, 1e-45, -3.4028235e38, math.inf, -math.inf, math.nan, 16777216.0, 1 / 3]),
        (F64, [0.0, -0.0, 0.1, 5e-324, 1.7976931348623157e308, -math.inf, math.nan, 1 / 3]),
    ]
    integers = [(Type(DTYPES[name]), edges(DTYPES[name])) for name in SIGNED + UNSIGNED]
    body: list[Stmt] = []
    outputs: list[Array] = []
    arrays: dict[str, NDArray[Any]] = {}
    for kind, values in [*numbers, *integers]:
        name = f"out_{kind}"
        outputs.append(array(name, str(kind), index(len(values))))
        arrays[name] = np.zeros(len(values), numpy_type(kind.dtype))
        body += [Store(name, index(at), Const(kind, value)) for at, value in enumerate(values)]
    _, results = run_both(machine, program(tuple(body), tuple(outputs), sizes=()), arrays)
    for kind, values in [*numbers, *integers]:
        wanted = np.array(values, numpy_type(kind.dtype))
        assert results[f"out_{kind}"].tobytes() == wanted.tobytes() or kind.dtype.is_float
        np.testing.assert_array_equal(results[f"out_{kind}"], wanted)
        if kind.dtype.is_float:
            np.testing.assert_array_equal(np.signbit(results[f"out_{kind}"]), np.signbit(wanted))


def test_operations_on_constants_alone(machine: Machine) -> None:
    wide, mask = Type(DTYPES["u64"]), Const(Type(DTYPES["u64"]), 0xFFFF0000)
    big = index(50000)
    body = (
        Store("p", index(0), Binary(INDEX, "mul", big, big)),
        Store(
            "p", Binary(INDEX, "sub", index(2), index(1)), Binary(INDEX, "add", index(2**31 - 1), index(2**31 - 1))
        ),
        Store("q", index(0), Unary(wide, "not", Const(wide, 1))),
        Store("q", index(1), Binary(wide, "shl", Const(wide, 1), Const(wide, 40))),
        Store("q", index(2), Binary(wide, "mul", mask, mask)),
        Store("q", index(3), Unary(wide, "neg", Binary(wide, "and", mask, mask))),
    )
    prog = program(body, (array("p", "i64", index(2)), array("q", "u64", index(4))), sizes=())
    _, results = run_both(machine, prog, {"p": np.zeros(2, np.int64), "q": np.zeros(4, np.uint64)})
    assert results["p"].tolist() == [2500000000, 2**32 - 2]
    assert results["q"].tolist() == [2**64 - 2, 2**40, 0xFFFF0000**2 % 2**64, 2**64 - 0xFFFF0000]


# -- statements ----------------------------------------------------------------------------------------------
def heap(name: str, elements: Value = N, dtype: str = "f32") -> Allocate:
    return Allocate(Array(name, DTYPES[dtype], elements, "heap", 64))


def test_variables_loops_and_conditions(machine: Machine) -> None:
    total, j, odd = Var(INDEX, "total"), Var(INDEX, "j"), Var(FLAG, "odd")
    body = (
        Declare(total, index(0)),
        For(
            j,
            index(3),
            N,
            4,
            (
                Let(odd, Compare("ne", Binary(INDEX, "mod", j, index(2)), index(0))),
                If(
                    odd,
                    (Assign(total, Binary(INDEX, "add", total, j)),),
                    (Assign(total, Binary(INDEX, "sub", total, index(-1))),),
                    comment="if {0} % 2 == 1",
                ),
            ),
            comment="N @j",
        ),
        Comment("the result"),
        Store("y", index(0), total),
    )
    prog = program(body, (array("y", "i64", index(1)),))
    _, results = run_both(machine, prog, {"y": np.zeros(1, np.int64)}, N=20)
    assert results["y"].tolist() == [3 + 7 + 11 + 15 + 19]


def test_masked_scalar_load_and_store(machine: Machine) -> None:
    inside, outside = Compare("lt", AT, index(2)), Compare("gt", AT, index(1))
    copied = Load(F32, "x", Binary(INDEX, "add", AT, index(5)), mask=inside)
    body = over_n(
        Store("y", AT, copied), Store("y", Binary(INDEX, "sub", AT, index(2)), Const(F32, 7), mask=outside)
    )
    prog = program((body,), (array("x", "f32", index(7), constant=True), array("y", "f32")))
    x = np.arange(7, dtype=np.float32)
    _, results = run_both(machine, prog, {"x": x, "y": np.ones(4, np.float32)}, N=4)
    assert results["y"].tolist() == [7, 7, 0, 0]


def test_scalars_by_value_and_names_that_c_has(machine: Machine) -> None:
    alpha, flag = Var(F32, "double"), Var(FLAG, "free")
    add = Function("int", (Var(F32, "a"), Var(F32, "unused")), (), Binary(F32, "add", Var(F32, "a"), Const(F32, 1)))
    value = Select(flag, Binary(F32, "mul", alpha, Load(F32, "static", AT)), Const(F32, 0))
    prog = program(
        (
            over_n(
                Let(Var(F32, "max_f32"), value), Store("status", AT, Call(F32, "int", (Var(F32, "max_f32"), alpha)))
            ),
        ),
        (
            array("double", "f32"),
            array("free", "bool"),
            array("static", "f32", constant=True),
            array("status", "f32"),
        ),
        (add,),
        (alpha, flag),
        name="exp",
    )
    arrays = {
        "double": np.array(2.5, np.float32),
        "free": np.array(True),
        "static": np.array([1, 2], np.float32),
        "status": np.zeros(2, np.float32),
    }
    status, results = run_both(machine, prog, arrays, N=2)
    assert status == OK
    assert results["status"].tolist() == [3.5, 6]


def test_functions_call_functions(machine: Machine) -> None:
    a = Var(F32, "a")
    inner = Function(
        "inner", (a,), (Let(Var(F32, "unused"), a),), Binary(F32, "max", a, Const(F32, 0)), "max(a, 0)"
    )
    square = Let(Var(F32, "t"), Call(F32, "inner", (Binary(F32, "mul", a, a),)))
    outer = Function("outer", (a,), (square,), Binary(F32, "sub", Var(F32, "t"), a))
    idle = Function("idle", (a,), (), a)
    prog = program(
        (over_n(Store("y", AT, Call(F32, "outer", (Load(F32, "y", AT),)))),),
        (array("y", "f32"),),
        (outer, idle, inner),
    )
    assert "idle" not in print_c(prog)
    _, results = run_both(machine, prog, {"y": np.array([3, -2], np.float32)}, N=2)
    assert results["y"].tolist() == [6, 6]


def test_arrays_are_freed_and_their_absence_is_reported(machine: Machine) -> None:
    j, huge = Var(INDEX, "j"), Binary(INDEX, "mul", N, Binary(INDEX, "mul", N, N))
    body = (
        heap("a"),
        heap("b"),
        over_n(Store("a", AT, Const(F32, 2)), Store("b", AT, Load(F32, "a", AT))),
        Allocate(Array("small", DTYPES["f32"], index(3), "stack", 32)),
        Allocate(Array("one", DTYPES["f64"], index(1), "reg")),
        For(
            j,
            index(0),
            index(3),
            1,
            (
                Store("small", j, Load(F32, "b", index(0))),
                heap("c", huge),
                over_n(Store("c", AT, Const(F32, 1)), Store("y", AT, Load(F32, "c", AT))),
            ),
            "unroll",
        ),
        Store("y", index(0), Load(F32, "small", index(2))),
    )
    prog = program(body, (array("y", "f32"),))
    status, results = run_both(machine, prog, {"y": np.zeros(4, np.float32)}, N=4)
    assert (status, results["y"].tolist()) == (OK, [2, 1, 1, 1])


def test_too_large_an_array_returns_at_once(machine: Machine) -> None:
    # The number of elements does not fit an i64; what is held is freed, and nothing after it runs.
    cube = Binary(INDEX, "mul", N, Binary(INDEX, "mul", N, N))
    j = Var(INDEX, "j")
    nested = For(j, index(0), index(2), 1, (heap("huge", cube), Store("huge", j, Load(F32, "kept", j))))
    body = (heap("kept"), over_n(Store("kept", AT, Const(F32, 0))), nested, Store("y", index(0), Const(F32, 1)))
    prog = program(body, (array("y", "f32", index(1)),))
    status, results = run_both(machine, prog, {"y": np.zeros(1, np.float32)}, N=2**22)
    assert (status, results["y"].tolist()) == (OUT_OF_MEMORY, [0])


def simd_sum(op: str, kind: Type, start: float) -> tuple[Stmt, ...]:
    total = Var(kind, f"total_{op}")
    return (
        Declare(total, Const(kind, start)),
        over_n(Assign(total, Binary(kind, op, total, Load(kind, "x", AT))), kind="simd", reductions=((op, total),)),
        Store(f"y_{op}", index(0), total),
    )


REDUCTIONS = {"add": (0, sum), "mul": (1, math.prod), "max": (-math.inf, max), "min": (math.inf, min)}


def reduce_all(machine: Machine, x: NDArray[Any], operations: list[str]) -> dict[str, float]:
    """Each reduction of `x` with an operation, its order left open."""
    kind = Type(DTYPES[dtype_of(x)])
    low, high = (-math.inf, math.inf) if kind.dtype.is_float else limits(kind.dtype)
    body: list[Stmt] = []
    for op in operations:
        body += simd_sum(op, kind, min(max(REDUCTIONS[op.removesuffix("_fast")][0], low), high))
    outputs = [array(f"y_{op}", str(kind), index(1)) for op in operations]
    prog = program(tuple(body), (array("x", str(kind), constant=True), *outputs))
    arrays = {"x": x} | {output.name: np.zeros(1, x.dtype) for output in outputs}
    _, results = run_both(machine, prog, arrays, N=len(x))
    return {op: results[f"y_{op}"].item() for op in operations}


@pytest.mark.parametrize("name", ["f32", "i32", "i8", "u32", "u8"])
def test_simd_reductions(machine: Machine, name: str) -> None:
    dtype = DTYPES[name]
    x = np.array([3, 1, 2, 5] * 5 + [7], numpy_type(dtype))
    for op, result in reduce_all(machine, x, ["add", "mul", "max", "min", "max_fast", "min_fast"]).items():
        exact = REDUCTIONS[op.removesuffix("_fast")][1](map(int, x))
        assert result == pytest.approx(float(exact) if dtype.is_float else wrapped(dtype, exact), rel=1e-6), op


def test_simd_reductions_propagate_nan(machine: Machine) -> None:
    x = np.arange(40, dtype=np.float32)
    for at in (0, 17, 39):
        results = reduce_all(machine, np.where(np.arange(40) == at, np.float32(np.nan), x), list(REDUCTIONS))
        assert all(map(math.isnan, results.values()))


def rows(*body: Stmt, prologue: tuple[Stmt, ...] = ()) -> Parallel:
    return Parallel(AT, N, prologue, body, comment="N : p")


def test_parallel_rows_with_private_arrays(machine: Machine) -> None:
    j = Var(INDEX, "j")
    offset = Binary(INDEX, "add", Binary(INDEX, "mul", AT, index(8)), j)
    fill = For(j, index(0), index(8), 1, (Store("row", j, Load(F32, "x", offset)),))
    back = For(
        j, index(0), index(8), 1, (Store("x", offset, Load(F32, "row", Binary(INDEX, "sub", index(7), j))),), "simd"
    )
    prog = program((rows(fill, back, prologue=(heap("row", index(8)),)),), (array("x", "f32"),))
    x = np.arange(80, dtype=np.float32).reshape(10, 8)
    status, results = run_both(machine, prog, {"x": x}, N=10)
    assert status == OK
    np.testing.assert_array_equal(results["x"], x[:, ::-1])
    plain = program((rows(fill, back, prologue=(Allocate(Array("row", DTYPES["f32"], index(8), "stack")),)),),
                    (array("x", "f32"),))  # fmt: skip
    _, results = run_both(machine, plain, {"x": x}, N=10)
    np.testing.assert_array_equal(results["x"], x[:, ::-1])


def test_a_worker_without_memory_ends_the_program(machine: Machine) -> None:
    cube = Binary(INDEX, "mul", N, Binary(INDEX, "mul", N, N))
    j = Var(INDEX, "j")
    use = Store("row", index(0), Const(F32, 1))
    show = Store("x", index(0), Load(F32, "row", index(0)))
    after = Store("x", index(1), Const(F32, 1))
    outside = (heap("kept", index(4)), Store("kept", index(0), Const(F32, 3)))
    share = Parallel(j, index(3), (heap("row", cube), use), (use, show))
    inside = Parallel(j, index(3), (), (heap("row", cube), use, show))
    for loop in (share, inside):
        prog = program((*outside, loop, after, Store("x", index(0), Load(F32, "kept", index(0)))),
                       (array("x", "f32", index(2)),))  # fmt: skip
        status, results = run_both(machine, prog, {"x": np.zeros(2, np.float32)}, N=2**22)
        assert (status, results["x"].tolist()) == (OUT_OF_MEMORY, [0, 0])
        status, results = run_both(machine, prog, {"x": np.zeros(2, np.float32)}, N=2)
        assert (status, results["x"].tolist()) == (OK, [3, 1])


@pytest.mark.parametrize("kind", ["seq", "simd", "parallel"])
def test_checks_report_the_highest_status_and_go_on(machine: Machine, kind: str) -> None:
    ids = Load(INDEX, "ids", AT)
    below, above = Compare("lt", ids, index(0)), Compare("ge", ids, N)
    inner = (
        Fail(below, FIRST_CHECK),
        Fail(Binary(FLAG, "or", above, Compare("eq", ids, index(77))), FIRST_CHECK + 1),
        Store("y", AT, Convert(F32, ids)),
    )
    loop = rows(*inner) if kind == "parallel" else over_n(*inner, kind=kind)
    checks = (Check("w[ids[{0}]]", (0, 0)), Check("v[ids[{0}]]", (0, 0)))
    prog = program((loop,), (array("ids", "i64", constant=True), array("y", "f32")), checks=checks)
    for ids_given, wanted in (([0, 3], 0), ([-1, 0], 2), ([0, 77], 3), ([77, -1], 3), ([-1, 77], 3)):
        given = np.array(ids_given * 2, np.int64)
        status, results = run_both(machine, prog, {"ids": given, "y": np.zeros(4, np.float32)}, N=4)
        assert status == wanted
        np.testing.assert_array_equal(results["y"], given.astype(np.float32))


@pytest.mark.parametrize(
    "value",
    [
        Splat(4, Const(F32, 1)),
        Iota(Type(DTYPES["i64"], 4)),
        Reduce("add", Const(Type(DTYPES["f32"], 4), 0)),
        Const(Type(DTYPES["f32"], 8), 0),
        Const(Type(DTYPES["f16"]), 0),
    ],
)
def test_what_the_lowering_must_not_leave_to_c(value: Value) -> None:
    with pytest.raises(AssertionError, match="portable C"):
        print_c(program((Store("y", index(0), value),), (array("y", "f32"),)))


@settings(max_examples=8, deadline=None, suppress_health_check=list(HealthCheck))
@given(st.randoms(use_true_random=False))
def test_random_kernels_under_the_sanitizers(tmp_path_factory: pytest.TempPathFactory, random: Random) -> None:
    machine = Machine(compiler(), tmp_path_factory.mktemp("random"))
    kernel = runnable_kernel(random)
    sizes = small_sizes(kernel, random)
    inputs = random_arguments(kernel, sizes, random)
    expected = interpret(kernel, inputs, **sizes)
    prog = lower(kernel, C)
    # GCC says of the dead copies of an unrolled loop that they would leave an array of its own making.
    machine.check_warnings(print_c(prog), "-Wno-aggressive-loop-optimizations")
    arrays = {b.name: np.ascontiguousarray(inputs.get(b.name, expected.get(b.name))) for b in kernel.arguments}
    for buffer in kernel.arguments:
        if buffer.role == "out":
            arrays[buffer.name] = np.full_like(arrays[buffer.name], 85)
    status, results = machine.run_checked(prog, arrays, **sizes)
    assert status == OK
    assert agree(kernel, expected, {name: results[name] for name in expected}, exact=False) is None


def test_a_kernel_may_have_the_name_of_a_library_function() -> None:
    compiler()
    kernel = dojoir.parse("kernel sqrt(N)\nin x: f32[N]\nout y: f32[N]\n\nN\n| y[{0}] = sqrt(x[{0}])\n")
    results = dojoir.compile(kernel, target="c").run({"x": np.array([4, 9], np.float32)})
    assert results["y"].tolist() == [2, 3]


@pytest.mark.parametrize("hint", ["prefetch(x, 8)", "prefetch(y, 8)"])
def test_a_hint_alone_needs_no_other_header(hint: str) -> None:
    compiler()
    kernel = dojoir.parse(f"kernel f(N)\nin x: f32[N]\nout y: f32[N]\n\nN : {hint}\n| y[{{0}}] = x[{{0}}]\n")
    results = dojoir.compile(kernel, target="c").run({"x": np.array([4, 9], np.float32)})
    assert results["y"].tolist() == [4, 9]
