"""The portable C target: every value of the lowered program printed, compiled and run."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from c_cases import Case, compiler, dtype_of, limits, run_both, wrapped
from c_machine import Machine
from lir_programs import AT, F32, I32, array, index, numpy_type, over_n, program
from numpy.typing import NDArray

from dojoir.codegen.lir.outcome import OK
from dojoir.codegen.lir.program import (
    FLAG,
    INDEX,
    Binary,
    Bitcast,
    Compare,
    Const,
    Convert,
    Fma,
    Load,
    ProgramArray,
    Select,
    Stmt,
    Store,
    Type,
    Unary,
    Value,
)
from dojoir.ir.dtypes import BOOL, DTYPES, DType

F64 = Type(DTYPES["f64"])
SIGNED, UNSIGNED, FLOATS = ("i64", "i32", "i16", "i8"), ("u64", "u32", "u16", "u8"), ("f64", "f32")


@pytest.fixture
def machine(tmp_path: Path) -> Machine:
    """A compiler at work."""
    return Machine(compiler(), tmp_path)


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


def pairs(dtype: DType, left: list[Any], right: list[Any] | None = None) -> dict[str, NDArray[Any]]:
    rows = list(product(left, left if right is None else right))
    kind = numpy_type(dtype)
    return {"a": np.array([a for a, _ in rows], kind), "b": np.array([b for _, b in rows], kind)}


def edges(dtype: DType) -> list[int]:
    low, high = limits(dtype)
    return sorted({low, low + 1, high // 2, high - 1, high, 0, 1, 2, 7, *([-1, -2, -7] if low else [])})


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
    outputs: list[ProgramArray] = []
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
