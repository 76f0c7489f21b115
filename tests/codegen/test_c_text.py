"""How the C of the portable target reads: constants, brackets, names, lines."""

from __future__ import annotations

import math
import re
from pathlib import Path

import numpy as np
import pytest
from c_machine import Machine
from hypothesis import given
from hypothesis import strategies as st
from lir_programs import AT, F32, I32, N, array, index, over_n, program

import dojoir
from dojoir.codegen.c.identifiers import identifiers
from dojoir.codegen.c.precedence import broken, comment
from dojoir.codegen.c.printer import print_c
from dojoir.codegen.c.spelling import float_text
from dojoir.codegen.c.symbols import symbol
from dojoir.codegen.lir.program import (
    FLAG,
    INDEX,
    Assign,
    Binary,
    Call,
    Compare,
    Const,
    Convert,
    Declare,
    Fma,
    For,
    Function,
    Let,
    Load,
    Select,
    Store,
    Type,
    Unary,
    Value,
    Var,
)
from dojoir.errors import ToolchainError
from dojoir.ir.dtypes import DTYPES
from dojoir.runtime.build.c_toolchain import find


# -- numbers in the text -------------------------------------------------------------------------------------
@given(st.floats(width=32, allow_nan=False, allow_infinity=False))
def test_f32_constants_are_exact_and_short(value: float) -> None:
    text = float_text(DTYPES["f32"], value).text
    assert text.endswith("f")
    digits = text.removesuffix("f")
    assert np.float32(np.longdouble(digits)) == np.float32(value)
    assert math.copysign(1, float(digits)) == math.copysign(1, value)
    assert len(re.sub(r"e.*|[-.]", "", digits).strip("0")) <= 9


@given(st.floats(allow_nan=False, allow_infinity=False))
def test_f64_constants_are_exact(value: float) -> None:
    text = float_text(DTYPES["f64"], value).text
    assert float(text) == value
    assert "." in text or "e" in text


# -- how the text reads --------------------------------------------------------------------------------------
def test_lines_are_broken_outside_of_brackets_first() -> None:
    long = "    const float total = first(alpha, beta) * second(gamma) + third(delta, epsilon) * fourth(zeta);"
    assert list(broken(long, 64)) == [
        "    const float total = first(alpha, beta) * second(gamma)",
        "            + third(delta, epsilon) * fourth(zeta);",
    ]
    assert list(broken("    const float total = function(of_one_argument);", 44)) == [
        "    const float total =",
        "            function(of_one_argument);",
    ]
    assert list(broken("    y[i] = f(first_argument, g(second_argument, third_argument), fourth);  // y", 44)) == [
        "    // y",
        "    y[i] = f(first_argument,",
        "             g(second_argument,",
        "               third_argument), fourth);",
    ]
    assert list(broken("// a comment stays as it is, however long it may be", 20)) == [
        "// a comment stays as it is, however long it may be"
    ]
    assert list(broken("short(1, 2);  // with a comment", 60)) == ["short(1, 2);  // with a comment"]


@given(st.text(st.sampled_from("ab(, +*[])="), max_size=60), st.integers(4, 40))
def test_breaking_changes_nothing_but_blanks(text: str, width: int) -> None:
    depth = 0
    for ch in text:
        depth += (ch in "([") - (ch in ")]")
        if depth < 0:
            return
    assert "".join("".join(broken(text, width)).split()) == "".join(text.split())


@given(st.text(max_size=30))
def test_comments_cannot_leave_their_line(text: str) -> None:
    line = comment(text)
    assert line.startswith("//") and len(line.splitlines()) == 1
    assert "\\" not in line and "??/" not in line


def test_kernels_do_not_take_names_of_the_library() -> None:
    for name in ("softmax", "conv2d", "x", "add"):
        assert symbol(name) == name
    for name in ("exp", "expf", "free", "abs", "select", "main", "int", "INT8_MAX", "memcpy", "max_f32"):
        assert symbol(name) == f"{name}_kernel"
    assert symbol("größe") == "gr__e"
    assert symbol("_x") == "v_x"


def test_names_stay_apart() -> None:
    body = tuple(Let(Var(INDEX, name), index(1)) for name in ("int", "int_", "a.b", "a_b", "N", "M_PI"))
    names = identifiers(program(body, ()))
    assert len(set(names.values())) == len(names)
    assert names["N"] == "N"
    assert not {"int", "M_PI", "a.b"} & set(names.values())


def test_sizes_may_be_called_like_macros(tmp_path: Path) -> None:
    try:
        machine = Machine(find(), tmp_path)
    except ToolchainError as error:
        pytest.skip(error.diagnostic.message)
    names = [
        "status",
        "allocate",
        "NULL",
        "restrict",
        "INT64_MAX",
        *machine.macros("math.h", "stdlib.h", "string.h"),
    ]
    sizes = tuple(Var(INDEX, name) for name in dict.fromkeys(names))
    total: Value = index(0)
    for size in sizes:
        total = Binary(INDEX, "add", total, size)
    loop = For(AT, index(0), total, 1, (Store("y", AT, Const(F32, 1)),))
    machine.check_warnings(print_c(program((loop,), (array("y", "f32"),), sizes=sizes)))


def c_of(value: Value, kind: str = "f32") -> str:
    """The right side of `y[0] = value`."""
    arguments = (array("x", kind, constant=True), array("y", kind))
    text = print_c(program((Store("y", index(0), value),), arguments))
    match = re.search(r"y\[0\] =\s(.*?);", text, re.DOTALL)
    assert match is not None, text
    return " ".join(match[1].split())


def test_brackets_are_those_that_c_or_a_reader_needs() -> None:
    a, b, c = (Load(F32, "x", index(n)) for n in range(3))

    def op(name: str, left: Value, right: Value) -> Value:
        return Binary(left.type, name, left, right)

    assert c_of(op("add", op("mul", a, b), c)) == "x[0] * x[1] + x[2]"
    assert c_of(op("mul", a, op("add", b, c))) == "x[0] * (x[1] + x[2])"
    assert c_of(op("add", a, op("add", b, c))) == "x[0] + (x[1] + x[2])"
    assert c_of(op("sub", op("add", a, b), c)) == "x[0] + x[1] - x[2]"
    assert c_of(op("div", a, op("mul", b, c))) == "x[0] / (x[1] * x[2])"
    assert c_of(op("add", a, Const(F32, -1.5))) == "x[0] - 1.5f"
    assert c_of(op("add", a, Const(F32, -0.0))) == "x[0] + -0.0f"
    assert c_of(Unary(F32, "neg", Unary(F32, "neg", a))) == "-(-x[0])"
    assert c_of(Unary(F32, "neg", op("mul", a, b))) == "-(x[0] * x[1])"
    assert c_of(op("mul", a, Unary(F32, "neg", b))) == "x[0] * -x[1]"
    assert c_of(Select(Compare("lt", a, op("add", b, c)), a, b)) == "x[0] < x[1] + x[2] ? x[0] : x[1]"
    both = Binary(FLAG, "and", Compare("lt", a, b), Compare("lt", b, c))
    assert c_of(Select(Binary(FLAG, "or", both, Unary(FLAG, "not", both)), a, b)) == (
        "(x[0] < x[1] && x[1] < x[2]) || !(x[0] < x[1] && x[1] < x[2]) ? x[0] : x[1]"
    )


def test_positions_are_plain_and_data_wraps() -> None:
    n, at = Var(INDEX, "N"), Binary(INDEX, "mul", AT, N)
    text = print_c(
        program(
            (
                over_n(
                    Let(Var(INDEX, "place"), Binary(INDEX, "add", at, Binary(INDEX, "mul", index(-1), AT))),
                    Let(Var(INDEX, "count"), Binary(INDEX, "add", AT, n)),
                    Store("y", Var(INDEX, "place"), Var(INDEX, "count")),
                    Store(
                        "y", Binary(INDEX, "floordiv", AT, index(4)), Load(INDEX, "y", Binary(INDEX, "mod", at, n))
                    ),
                    Store("y", Binary(INDEX, "mod", Binary(INDEX, "sub", AT, n), index(4)), AT),
                ),
            ),
            (array("y", "i64"),),
        )
    )
    assert "const int64_t place = at * N - at;" in text
    assert "const int64_t count = add_i64(at, N);" in text
    assert "y[at / 4] = y[at * N % N];" in text
    assert "y[mod_i64(at - N, 4)] = at;" in text


def test_small_integers_that_cannot_overflow_are_plain() -> None:
    def wide(n: int) -> Value:
        return Convert(I32, Load(Type(DTYPES["i8"]), "x", index(n)))

    def op(name: str, left: Value, right: Value) -> Value:
        return Binary(I32, name, left, right)

    product_ = op("mul", wide(0), wide(1))
    assert c_of(product_, "i32") == "(int32_t)x[0] * (int32_t)x[1]"
    assert c_of(op("sub", product_, wide(2)), "i32") == "(int32_t)x[0] * (int32_t)x[1] - (int32_t)x[2]"
    assert c_of(op("mul", product_, product_), "i32").count("mul_i32") == 0
    assert c_of(op("mul", op("mul", product_, product_), wide(2)), "i32").startswith("mul_i32(")


def test_polynomials_have_a_line_for_each_step() -> None:
    x = Var(F32, "x")
    value: Value = Const(F32, 4)
    for n in (3, 2, 1, 0):
        value = Fma(value, x, Const(F32, n))
    poly = Function("poly", (x,), (), value, "a polynomial")
    text = print_c(
        program((Store("y", index(0), Call(F32, "poly", (Const(F32, 2),))),), (array("y", "f32"),), (poly,))
    )
    expected = """\
// a polynomial
static inline float poly(float x)
{
    float p = fmaf(4.0f, x, 3.0f);
    p = fmaf(p, x, 2.0f);
    p = fmaf(p, x, 1.0f);
    return fmaf(p, x, 0.0f);
}
"""
    assert expected in text


def test_what_nothing_reads_is_left_out() -> None:
    total, unread = Var(F32, "total"), Var(INDEX, "unread")
    body = (
        Declare(total, Const(F32, 0)),
        Let(unread, Binary(INDEX, "add", N, index(1))),
        For(AT, index(0), unread, 1, (Assign(total, Binary(F32, "add", total, Load(F32, "x", AT))),)),
        Store("y", index(0), Const(F32, 1)),
    )
    text = print_c(program(body, (array("x", "f32", constant=True), array("y", "f32"))))
    assert "total" not in text and "for" not in text.partition("int32_t kernel")[2]


def test_a_loop_around_dead_values_alone_leaves_nothing() -> None:
    k = dojoir.parse("""kernel f(N)
in  x: f32[N]
out y: f32
tmp t: f32

y = x[0]
1
| min(2, 1 - 2*{0}) : v
| | t = x[0]
""")
    text = dojoir.emit(k, "c")
    assert "for (" not in text and "count" not in text


def test_a_loop_that_decides_on_a_live_value_stays() -> None:
    k = dojoir.parse("""kernel f(N)
in  x: f32[N]
out y: f32
tmp t: f32

t = 0
N
| N - {0}
| | t = x[{1}]
y = t
""")
    text = dojoir.emit(k, "c")
    assert text.count("for (") == 2 and "N - " in text
