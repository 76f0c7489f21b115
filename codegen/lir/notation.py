"""A little notation for writing LIR: Python operators on values, and a body that names what is shared.

An `Expr` wraps a value; `+ - * / & | ^ ~ << >>`, comparisons by `< <= > >=`, `eq` and `ne`, and the methods
below give new ones. Python numbers become constants of the other operand's type. An `Expr` used twice is
computed twice: give it a name with `Body.let`.
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from dataclasses import field

from dojoir.codegen.lir import program as lir
from dojoir.codegen.lir.fresh_names import free
from dojoir.ir.dtypes import BOOL, DTYPES, F32, F64, I64, DType
from dojoir.support.frozen import dataclass

U8, U16, U32, U64 = DTYPES["u8"], DTYPES["u16"], DTYPES["u32"], DTYPES["u64"]
I32 = DTYPES["i32"]

Number = int | float


def f32(value: float) -> float:
    """The f32 nearest to `value`, as a Python float."""
    rounded: float = struct.unpack("f", struct.pack("f", value))[0]
    return rounded


def constant(kind: lir.Type, value: Number) -> lir.Const:
    """`value` in every lane: rounded to f32 where that is the type, wrapped where it is an integer type."""
    dtype = kind.dtype
    if dtype.is_float:
        return lir.Const(kind, f32(value) if dtype == F32 else float(value))
    if dtype == BOOL:
        return lir.Const(kind, bool(value))
    wrapped = int(value) & ((1 << dtype.bits) - 1)
    if dtype.kind == "i" and wrapped >> (dtype.bits - 1):
        wrapped -= 1 << dtype.bits
    return lir.Const(kind, wrapped)


def _binary(op: str) -> Callable[[Expr, Expr | Number], Expr]:
    return lambda a, b: Expr(lir.Binary(a.type, op, a.value, a.same(b)))


def _reflected(op: str) -> Callable[[Expr, Number], Expr]:
    return lambda a, b: Expr(lir.Binary(a.type, op, a.same(b), a.value))


def _compare(op: str) -> Callable[[Expr, Expr | Number], Expr]:
    return lambda a, b: Expr(lir.Compare(op, a.value, a.same(b)))


def _unary(op: str) -> Callable[[Expr], Expr]:
    return lambda a: Expr(lir.Unary(a.type, op, a.value))


@dataclass(frozen=True, eq=False)
class Expr:
    """A LIR value with operators. `>>` fills with zeros for an unsigned type, with the sign for a signed one;
    `at_least(b)` and `at_most(b)` are the larger and the smaller of a number and the value, and NaN if that is.
    `ldexp(n)` is `self * 2**n`, rounded once, where n is an integer: only where `Body.has_ldexp`. `approx_exp2` and
    `approx_rsqrt` are for one f32 alone, nearly right, on targets that approximate."""

    value: lir.Value

    __add__, __radd__ = _binary("add"), _reflected("add")
    __sub__, __rsub__ = _binary("sub"), _reflected("sub")
    __mul__, __rmul__ = _binary("mul"), _reflected("mul")
    __truediv__, __rtruediv__ = _binary("div"), _reflected("div")
    __and__, __or__, __xor__, __lshift__ = _binary("and"), _binary("or"), _binary("xor"), _binary("shl")
    __neg__, __invert__ = _unary("neg"), _unary("not")
    __lt__, __le__, __gt__, __ge__ = _compare("lt"), _compare("le"), _compare("gt"), _compare("ge")
    eq, ne = _compare("eq"), _compare("ne")
    abs, sqrt, round, floor = _unary("abs"), _unary("sqrt"), _unary("round"), _unary("floor")
    approx_exp2, approx_rsqrt = _unary("approx_exp2"), _unary("approx_rsqrt")
    at_least, at_most, ldexp = _reflected("max_fast"), _reflected("min_fast"), _binary("ldexp")

    @property
    def type(self) -> lir.Type:
        return self.value.type

    @property
    def dtype(self) -> DType:
        return self.value.type.dtype

    def same(self, other: Expr | Number) -> lir.Value:
        """`other` as a value of this type."""
        return other.value if isinstance(other, Expr) else constant(self.type, other)

    def constant(self, value: Number) -> Expr:
        """`value` in every lane, as this type."""
        return Expr(constant(self.type, value))

    def __rshift__(self, other: Expr | Number) -> Expr:
        return _binary("shr" if self.dtype.kind == "u" else "sar")(self, other)

    def convert(self, dtype: DType) -> Expr:
        """The value as `dtype`."""
        return Expr(lir.Convert(self.type.with_dtype(dtype), self.value))

    def bits(self, dtype: DType) -> Expr:
        """The same bits as `dtype`."""
        return Expr(lir.Bitcast(self.type.with_dtype(dtype), self.value))


def fma(a: Expr, b: Expr | Number, c: Expr | Number) -> Expr:
    """`a * b + c`, rounded once."""
    return Expr(lir.Fma(a.value, a.same(b), a.same(c)))


def select(condition: Expr, yes: Expr | Number, no: Expr | Number) -> Expr:
    """`condition ? yes : no` lane by lane; at least one of the two is an `Expr`."""
    if isinstance(yes, Expr):
        return Expr(lir.Select(condition.value, yes.value, yes.same(no)))
    if isinstance(no, Expr):
        return Expr(lir.Select(condition.value, no.same(yes), no.value))
    raise TypeError("select between two numbers: give one of them a type with Expr.constant")


def horner(x: Expr, coefficients: tuple[float, ...]) -> Expr:
    """`c[0] + c[1] x + … + c[n] xⁿ`, one fma a degree."""
    *low, high = coefficients
    p = x.constant(high)
    for c in reversed(low):
        p = fma(p, x, c)
    return p


@dataclass
class Body:
    """The lets of a function under construction, in order. A name that is taken gets a number behind it."""

    lanes: int
    scales: bool = False
    """Whether the target has `ldexp`."""
    lets: list[lir.Let] = field(default_factory=list)
    params: list[lir.Var] = field(default_factory=list)

    def _fresh(self, name: str) -> str:
        taken = {v.name for v in self.params} | {let.var.name for let in self.lets}
        return free(name, taken.__contains__)

    def param(self, name: str, dtype: DType) -> Expr:
        """The next parameter of the function."""
        var = lir.Var(lir.Type(dtype, self.lanes), self._fresh(name))
        self.params.append(var)
        return Expr(var)

    def let(self, name: str, e: Expr) -> Expr:
        """`e`, computed once and named."""
        var = lir.Var(e.type, self._fresh(name))
        self.lets.append(lir.Let(var, e.value))
        return Expr(var)

    def has_ldexp(self, type: lir.Type) -> bool:
        """Whether `Expr.ldexp` may be used on values of the type."""
        bits = type.lanes * type.dtype.bits
        return self.scales and (bits in {128, 256} or bits % 512 == 0)

    def function(self, name: str, result: Expr, comment: str = "") -> lir.Function:
        """The function of the parameters that computes the lets and gives `result`."""
        return lir.Function(name, tuple(self.params), tuple(self.lets), result.value, comment)


__all__ = [
    "BOOL", "F32", "F64", "I32", "I64", "U8", "U16", "U32", "U64", "Body", "Expr", "constant", "f32",
    "fma", "horner", "select",
]  # fmt: skip
