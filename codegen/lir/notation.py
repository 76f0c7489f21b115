"""A little notation for writing LIR: Python operators on values, and a body that names what is shared.

An `Expr` wraps a value; `+ - * / & | ^ ~ << >>`, comparisons by `< <= > >=`, `eq` and `ne`, and the methods
below give new ones. Python numbers become constants of the other operand's type. An `Expr` used twice is
computed twice: give it a name with `Body.let`.
"""

from __future__ import annotations

import struct
from dataclasses import field

from dojoir.codegen.lir import program as lir
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


@dataclass(frozen=True, eq=False)
class Expr:
    """A LIR value with operators."""

    value: lir.Value

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

    def _binary(self, op: str, other: Expr | Number) -> Expr:
        return Expr(lir.Binary(self.type, op, self.value, self.same(other)))

    def _reflected(self, op: str, other: Number) -> Expr:
        return Expr(lir.Binary(self.type, op, self.same(other), self.value))

    def _unary(self, op: str) -> Expr:
        return Expr(lir.Unary(self.type, op, self.value))

    def _compare(self, op: str, other: Expr | Number) -> Expr:
        return Expr(lir.Compare(op, self.value, self.same(other)))

    def __add__(self, other: Expr | Number) -> Expr:
        return self._binary("add", other)

    def __radd__(self, other: Number) -> Expr:
        return self._reflected("add", other)

    def __sub__(self, other: Expr | Number) -> Expr:
        return self._binary("sub", other)

    def __rsub__(self, other: Number) -> Expr:
        return self._reflected("sub", other)

    def __mul__(self, other: Expr | Number) -> Expr:
        return self._binary("mul", other)

    def __rmul__(self, other: Number) -> Expr:
        return self._reflected("mul", other)

    def __truediv__(self, other: Expr | Number) -> Expr:
        return self._binary("div", other)

    def __rtruediv__(self, other: Number) -> Expr:
        return self._reflected("div", other)

    def __and__(self, other: Expr | Number) -> Expr:
        return self._binary("and", other)

    def __or__(self, other: Expr | Number) -> Expr:
        return self._binary("or", other)

    def __xor__(self, other: Expr | Number) -> Expr:
        return self._binary("xor", other)

    def __lshift__(self, other: Expr | Number) -> Expr:
        return self._binary("shl", other)

    def __rshift__(self, other: Expr | Number) -> Expr:
        """Fills with zeros for an unsigned type, with the sign for a signed one."""
        return self._binary("shr" if self.dtype.kind == "u" else "sar", other)

    def __neg__(self) -> Expr:
        return self._unary("neg")

    def __invert__(self) -> Expr:
        return self._unary("not")

    def __lt__(self, other: Expr | Number) -> Expr:
        return self._compare("lt", other)

    def __le__(self, other: Expr | Number) -> Expr:
        return self._compare("le", other)

    def __gt__(self, other: Expr | Number) -> Expr:
        return self._compare("gt", other)

    def __ge__(self, other: Expr | Number) -> Expr:
        return self._compare("ge", other)

    def eq(self, other: Expr | Number) -> Expr:
        return self._compare("eq", other)

    def ne(self, other: Expr | Number) -> Expr:
        return self._compare("ne", other)

    def abs(self) -> Expr:
        return self._unary("abs")

    def sqrt(self) -> Expr:
        return self._unary("sqrt")

    def round(self) -> Expr:
        return self._unary("round")

    def floor(self) -> Expr:
        return self._unary("floor")

    def approx_exp2(self) -> Expr:
        """2 to the power of one f32, nearly. Only for targets that approximate."""
        return self._unary("approx_exp2")

    def approx_rsqrt(self) -> Expr:
        """1 over the square root of one f32, nearly. Only for targets that approximate."""
        return self._unary("approx_rsqrt")

    def at_least(self, bound: Number) -> Expr:
        """`max(bound, self)`; a NaN stays NaN."""
        return self._reflected("max_fast", bound)

    def at_most(self, bound: Number) -> Expr:
        """`min(bound, self)`; a NaN stays NaN."""
        return self._reflected("min_fast", bound)

    def ldexp(self, n: Expr) -> Expr:
        """`self * 2**n`, rounded once, where n is an integer. Only where `Body.has_ldexp`."""
        return self._binary("ldexp", n)

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
        candidate, n = name, 1
        while candidate in taken:
            n += 1
            candidate = f"{name}{n}"
        return candidate

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
