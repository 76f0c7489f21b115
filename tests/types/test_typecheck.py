"""The typed tree: promotions, weak numbers, conversions, and what is refused."""

from __future__ import annotations

import math

import pytest

from dojoir.errors import KernelError
from dojoir.ir.affine import Affine
from dojoir.ir.dtypes import BOOL, DTYPES, F32, F64, I64
from dojoir.ir.format import format_expr
from dojoir.ir.nodes import Access, Buffer, Cast, Const, Dim, Expr, Index, Kernel, Op, Statement, make_op
from dojoir.types.elaborate import check, elaborate
from dojoir.types.typed import Apply, Convert, IndexValue, Load, Number, Typed

SCALARS = {name: Buffer("inout", f"s_{name}", dtype) for name, dtype in DTYPES.items()}
BUFFERS = {b.name: b for b in SCALARS.values()} | {
    "w": Buffer("in", "w", F32, (Dim(Affine.size("N")),)),
    "ids": Buffer("in", "ids", DTYPES["u8"], (Dim(Affine.size("N")),)),
}
I0, I1 = Affine.iterator(0), Affine.iterator(1)


def s(name: str) -> Access:
    return Access(f"s_{name}", ())


def op(name: str, *args: Expr | int | float) -> Expr:
    return make_op(name, tuple(Const(a) if isinstance(a, int | float) else a for a in args))


def load(name: str) -> Load:
    return Load(DTYPES[name], s(name))


def value(target: str, expr: Expr, operator: str = "=") -> Typed:
    return elaborate(Statement(s(target), operator, expr), BUFFERS).value


def error(target: str, expr: Expr, operator: str = "=") -> tuple[str, str]:
    with pytest.raises(KernelError) as caught:
        value(target, expr, operator)
    return caught.value.diagnostic.code, caught.value.diagnostic.message


def test_narrow_floats_are_computed_in_f32() -> None:
    f16, bf16 = Convert(F32, load("f16")), Convert(F32, load("bf16"))
    assert value("f16", op("add", s("f16"), s("bf16"))) == Apply(F32, "add", (f16, bf16))
    assert value("f16", op("neg", s("f16"))) == Apply(F32, "neg", (f16,))


def test_floats_mix_in_f64() -> None:
    assert value("f32", op("mul", s("f16"), s("f64"))) == Apply(
        F64, "mul", (Convert(F64, load("f16")), load("f64"))
    )


def test_a_copy_keeps_the_type_of_its_value() -> None:
    typed = elaborate(Statement(s("bf16"), "=", s("f16")), BUFFERS)
    assert typed.value == load("f16")
    assert typed.result == Convert(DTYPES["bf16"], load("f16"))
    assert elaborate(Statement(s("f16"), "=", s("f16")), BUFFERS).result == load("f16")


@pytest.mark.parametrize("name", [n for n, d in DTYPES.items() if d.is_integer and not d.is_nibble])
def test_integers_keep_their_type(name: str) -> None:
    assert value(name, op("add", s(name), 1)) == Apply(DTYPES[name], "add", (load(name), Number(DTYPES[name], 1)))


def test_numbers_take_the_type_around_them() -> None:
    assert value("f32", Const(1)) == Number(F32, 1.0)
    assert value("f16", Const(0.1)) == Number(F32, 0.10000000149011612)
    assert value("f64", Const(0.1)) == Number(F64, 0.1)
    assert value("f32", op("add", s("f64"), 0.1)) == Apply(F64, "add", (load("f64"), Number(F64, 0.1)))
    assert value("f32", Const(-math.inf)) == Number(F32, -math.inf)
    third = value("f32", op("div", 1, 3))
    assert third == Apply(F32, "div", (Number(F32, 1.0), Number(F32, 3.0)))


def test_numbers_alone_are_i64_or_f64() -> None:
    assert value("f32", Cast(F32, op("div", Index(I0), 3))) == Convert(
        F32, Apply(F64, "div", (Convert(F64, IndexValue(I0)), Number(F64, 3.0)))
    )
    assert value("bool", op("lt", Index(I0), Index(I1))) == Apply(BOOL, "lt", (IndexValue(I0), IndexValue(I1)))
    assert value("bool", op("lt", Index(I0), 0.5)) == Apply(
        BOOL, "lt", (Convert(F64, IndexValue(I0)), Number(F64, 0.5))
    )


def test_sizes_and_iterators_are_converted_from_i64() -> None:
    assert value("i32", Index(I0)) == Convert(DTYPES["i32"], IndexValue(I0))
    assert value("i64", Index(I0)) == IndexValue(I0)
    product = Op("mul", (Index(I0), Index(I1)))
    assert value("f32", product) == Apply(F32, "mul", (Convert(F32, IndexValue(I0)), Convert(F32, IndexValue(I1))))


def test_weak_floor_division_is_done_in_i64() -> None:
    product = Op("mul", (Index(I0), Index(I1)))
    half = Apply(I64, "floordiv", (Apply(I64, "mul", (IndexValue(I0), IndexValue(I1))), Number(I64, 2)))
    assert value("f32", op("floordiv", product, 2)) == Convert(F32, half)
    assert value("i8", op("floordiv", product, 2)) == Convert(DTYPES["i8"], half)


def test_weak_select_and_its_condition() -> None:
    chosen = op("select", op("eq", Index(I0), 0), 1, 2.5)
    assert value("f16", chosen) == Apply(
        F32,
        "select",
        (Apply(BOOL, "eq", (IndexValue(I0), Number(I64, 0))), Number(F32, 1.0), Number(F32, 2.5)),
    )


def test_accumulation_is_typed_as_its_operation() -> None:
    typed = elaborate(Statement(s("f16"), "max=", op("mul", s("f16"), 2)), BUFFERS)
    assert (typed.op, typed.dtype, typed.value.dtype) == ("max", DTYPES["f16"], F32)
    assert typed.result == Convert(DTYPES["f16"], Apply(F32, "max", (Convert(F32, load("f16")), typed.value)))
    assert elaborate(Statement(s("f32"), "+=", s("f64")), BUFFERS).value == load("f64")
    assert elaborate(Statement(s("i8"), "*=", Const(3)), BUFFERS).value == Number(DTYPES["i8"], 3)


def test_casts_of_integer_literals_wrap() -> None:
    assert value("u8", Cast(DTYPES["u8"], Const(-1))) == Number(DTYPES["u8"], 255)
    assert value("i8", Cast(DTYPES["i8"], Const(200))) == Number(DTYPES["i8"], -56)
    assert value("u64", Cast(DTYPES["u64"], Const(2**64 - 1))) == Number(DTYPES["u64"], 2**64 - 1)


def test_casts_keep_narrow_types() -> None:
    f16 = DTYPES["f16"]
    assert value("f32", op("add", Cast(f16, s("f32")), 1)) == Apply(
        F32, "add", (Convert(F32, Convert(f16, load("f32"))), Number(F32, 1.0))
    )


@pytest.mark.parametrize(
    ("target", "expr", "code", "words"),
    [
        ("f32", op("add", s("i32"), s("f32")), "type-mismatch", "i32 and f32 do not mix: write f32(s_i32)"),
        ("f32", op("add", s("f16"), s("i8")), "type-mismatch", "write f32(s_i8)"),
        ("i32", op("mul", s("i32"), s("i8")), "type-mismatch", "i32 and i8 do not mix: write i32(s_i8)"),
        ("i32", op("max", s("u32"), s("i64")), "type-mismatch", "write i64(s_u32)"),
        ("i32", s("f32"), "type-mismatch", "s_i32 is i32 and its value is f32: write i32(s_f32)"),
        ("i32", s("i64"), "type-mismatch", "write i32(s_i64)"),
        ("f32", s("i32"), "type-mismatch", "write f32(s_i32)"),
        ("f32", op("lt", s("f32"), 0), "type-mismatch", "write f32(s_f32 < 0)"),
        ("bool", s("i32"), "type-mismatch", "write s_i32 != 0"),
        ("bool", op("add", s("i32"), 1), "type-mismatch", "write s_i32 + 1 != 0"),
        ("bool", Const(1), "type-mismatch", "write 1 != 0"),
        ("i32", Const(1.5), "type-mismatch", "1.5 is a float, where i32 is needed: write i32(1.5)"),
        ("i32", op("add", s("i32"), 1.5), "type-mismatch", "i32 and a float do not mix: write f32(s_i32)"),
        ("i32", op("div", Index(I0), 2), "type-mismatch", "write i32({0} / 2)"),
        ("i32", op("div", s("i32"), 2), "type-operand", "'/' needs a float, and s_i32 is i32: write f32(s_i32)"),
        ("f64", op("exp", s("i64")), "type-operand", "'exp' needs a float, and s_i64 is i64: write f64(s_i64)"),
        ("f32", op("floordiv", s("f32"), 2), "type-operand", "'//' needs an integer, and s_f32 is f32"),
        ("f32", op("mod", 2.5, 2), "type-operand", "'%' needs an integer, and 2.5 is a float"),
        ("f32", op("mod", s("f32"), 2), "type-operand", "write s_f32 - 2 * floor(s_f32 / 2)"),
        ("i32", op("mod", s("i32"), 0), "zero-divisor", "this divides by 0: 's_i32 % 0'"),
        ("u8", op("floordiv", s("u8"), Cast(DTYPES["u8"], Const(256))), "zero-divisor", "this divides by 0"),
        ("i32", op("mod", s("i32"), s("u32")), "type-mismatch", "do not mix"),
        ("i8", op("mod", s("i8"), 200), "number-range", "200 does not fit in i8"),
        ("u8", op("add", s("u8"), -1), "number-range", "-1 does not fit in u8: write u8(-1) to wrap it"),
        ("i64", Const(2**63), "number-range", "does not fit in i64"),
        ("f32", op("add", s("bool"), s("bool")), "type-operand", "'+' needs a number, and s_bool is bool"),
        ("bool", op("lt", s("bool"), s("bool")), "type-operand", "'<' needs a number, and s_bool is bool"),
        ("bool", op("eq", s("bool"), 1), "type-mismatch", "bool and an integer do not mix: write i32(s_bool)"),
        ("bool", op("eq", s("bool"), s("f32")), "type-mismatch", "write f32(s_bool)"),
        ("bool", op("and", s("i32"), s("bool")), "type-operand", "'and' needs a bool, and s_i32 is i32"),
        ("bool", op("not", 1), "type-operand", "'not' needs a bool, and 1 is an integer: write 1 != 0"),
        ("f32", op("select", s("f32"), 1.0, 2.0), "type-operand", "'select' needs a bool, and s_f32 is f32"),
        ("f32", op("select", s("bool"), s("f32"), s("i32")), "type-mismatch", "write f32(s_i32)"),
        ("f32", op("fma", s("f32"), s("f32"), s("u8")), "type-operand", "'fma' needs a float, and s_u8 is u8"),
    ],
    ids=lambda case: format_expr(case) if isinstance(case, Const | Index | Access | Op | Cast) else "",
)
def test_refusals_name_the_types_and_the_cure(target: str, expr: Expr, code: str, words: str) -> None:
    got, message = error(target, expr)
    assert got == code
    assert words in message


def test_refused_accumulations() -> None:
    assert error("bool", op("eq", 1, 1), "+=")[0] == "type-operand"
    assert "write i32(s_f32)" in error("i32", s("f32"), "+=")[1]
    assert error("i32", Const(1.5), "+=")[0] == "type-mismatch"


def test_gathered_indices_are_integers() -> None:
    ids, w = Access("ids", (I0,)), Access("w", (I0,))
    assert value("f32", Access("w", (ids,))) == Load(F32, Access("w", (ids,)))
    assert error("f32", Access("w", (w,))) == ("type-operand", "an index must be an integer, and w[{0}] is f32")


def test_check_shows_the_line() -> None:
    body = (Statement(s("f32"), "=", Const(1)), Statement(s("i32"), "=", s("f32")))
    kernel = Kernel("k", (), (SCALARS["f32"], SCALARS["i32"]), body)
    with pytest.raises(KernelError) as caught:
        check(kernel)
    assert str(caught.value).startswith("k:6:9: error[type-mismatch]: ")
    assert "  s_i32 = s_f32\n" in str(caught.value)
    assert check(kernel.evolve(body=body[:1])) == (elaborate(body[0], BUFFERS),)
