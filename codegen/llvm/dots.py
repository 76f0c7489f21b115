"""Sums of four products of bytes as LLVM instructions: `vpdpbusd` where an x86 has VNNI, `sdot` and `udot` where an
Arm has dotprod, else pairs of i16. How they are exact is said in `codegen.simd.isas.x86_dots` and `arm_dots`."""

from __future__ import annotations

from dojoir.codegen.lir.program import Dot, Type
from dojoir.codegen.llvm import words as text
from dojoir.codegen.llvm.operands import Operands
from dojoir.ir.dtypes import DTYPES

I32, I16, I8 = DTYPES["i32"], DTYPES["i16"], DTYPES["i8"]
LEAST = "splat (i32 -2139062144)"
"""-128 in each byte."""
LEAST_BYTES = "splat (i8 -128)"


def dot(values: Operands, value: Dot) -> str:
    """The operand that holds the sum, of a multiple of 8 lanes, on Arm of 4: a register at a time."""
    kind = value.type
    a, b, c = (values.operand(part) for part in (value.a, value.b, value.c))
    left, right = value.signed
    if (left, right) == (True, False):
        a, b, left, right = b, a, right, left
    size = next(size for size in (16, 8, 4) if size <= values.dots and kind.lanes % size == 0)
    if kind.lanes == size:
        return _one(values, size, a, b, c, (left, right))
    return values.by_registers(kind, size, lambda x, y, z: _one(values, size, x, y, z, (left, right)), a, b, c)


def _one(values: Operands, lanes: int, a: str, b: str, c: str, signed: tuple[bool, bool]) -> str:
    """The sum in one register, of bytes that are i8 on the left only if they are on the right."""
    if not values.x86:
        return _on_arm(values, a, b, c, signed)
    if values.vnni:
        return _with_vnni(values, lanes, a, b, c, signed)
    code, kind, pairs = values.code, text.spelled(Type(I32, lanes)), text.spelled(Type(I16, 2 * lanes))
    halves = [code.value(f"bitcast {kind} {operand} to {pairs}") for operand in (a, b)]
    for odd in (False, True):
        x, y = (_widened(values, pairs, half, odd, sign) for half, sign in zip(halves, signed, strict=True))
        name = "llvm.x86.avx2.pmadd.wd" if lanes == 8 else "llvm.x86.avx512.pmaddw.d.512"
        products = code.call(name, kind, [(pairs, x), (pairs, y)])
        c = code.value(f"add {kind} {c}, {products}")
    return c


def _widened(values: Operands, pairs: str, half: str, odd: bool, signed: bool) -> str:
    """The bytes at even or odd places as i16."""
    code, eight = values.code, "splat (i16 8)"
    if signed:
        upper = half if odd else code.value(f"shl {pairs} {half}, {eight}")
        return code.value(f"ashr {pairs} {upper}, {eight}")
    return code.value(f"lshr {pairs} {half}, {eight}" if odd else f"and {pairs} {half}, splat (i16 255)")


def _with_vnni(values: Operands, lanes: int, a: str, b: str, c: str, signed: tuple[bool, bool]) -> str:
    code, kind = values.code, text.spelled(Type(I32, lanes))

    def sums(start: str, left: str, right: str) -> str:
        name = f"llvm.x86.avx512.vpdpbusd.{32 * lanes}"
        return code.call(name, kind, [(kind, start), (kind, left), (kind, right)])

    match signed:
        case (True, True):
            c = code.value(f"sub {kind} {c}, {sums('zeroinitializer', LEAST, a)}")
            a, b = code.value(f"xor {kind} {b}, {LEAST}"), a
        case (False, False):
            c = code.value(f"sub {kind} {c}, {sums('zeroinitializer', a, LEAST)}")
            b = code.value(f"xor {kind} {b}, {LEAST}")
    return sums(c, a, b)


def _on_arm(values: Operands, a: str, b: str, c: str, signed: tuple[bool, bool]) -> str:
    """Four lanes: bytes of 128 bits each."""
    code, kind, bytes_ = values.code, text.spelled(Type(I32, 4)), text.spelled(Type(I8, 16))
    x, y = (code.value(f"bitcast {kind} {operand} to {bytes_}") for operand in (a, b))
    if not values.vnni:
        return code.value(f"add {kind} {c}, {_in_pairs(values, x, y, signed)}")

    def sums(start: str, left: str) -> str:
        name = f"llvm.aarch64.neon.{'s' if signed[1] else 'u'}dot.v4i32.v16i8"
        return code.call(name, kind, [(kind, start), (bytes_, left), (bytes_, y)])

    if signed[0] != signed[1]:
        c = code.value(f"sub {kind} {c}, {sums('zeroinitializer', LEAST_BYTES)}")
        x = code.value(f"xor {bytes_} {x}, {LEAST_BYTES}")
    return sums(c, x)


def _in_pairs(values: Operands, x: str, y: str, signed: tuple[bool, bool]) -> str:
    """The sums of four products of bytes: products of 16 bits, none of which is too large, and pairs of them."""
    code, kind, eight = values.code, text.spelled(Type(I32, 4)), text.spelled(Type(I16, 8))
    bytes_, half = text.spelled(Type(I8, 16)), text.spelled(Type(I8, 8))
    word = "s" if signed[1] else "u"
    halves = []
    for first in (0, 8):
        order = ", ".join(f"i32 {first + lane}" for lane in range(8))
        wide = []
        for operand, sign in zip((x, y), signed, strict=True):
            part = code.value(f"shufflevector {bytes_} {operand}, {bytes_} poison, <8 x i32> <{order}>")
            wide.append(code.value(f"{'sext' if sign else 'zext'} {half} {part} to {eight}"))
        products = code.value(f"mul {eight} {wide[0]}, {wide[1]}")
        halves.append(code.call(f"llvm.aarch64.neon.{word}addlp.v4i32.v8i16", kind, [(eight, products)]))
    return code.call("llvm.aarch64.neon.addp.v4i32", kind, [(kind, half) for half in halves])
