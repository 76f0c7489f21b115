"""Random expressions of a wanted type. What they are made of is for those who use them."""

from __future__ import annotations

from abc import ABC, abstractmethod
from random import Random

from dojoir.ir.dtypes import DTYPES, DType
from dojoir.ir.nodes import Access, Cast, Const, Expr, make_op
from dojoir.ir.operations import ELEMENTARY, OPERATIONS, Class
from drawing.table import pick

FLOATS = tuple(t for t in DTYPES.values() if t.is_float)
INTEGERS = tuple(t for t in DTYPES.values() if t.is_integer)
BOOL = DTYPES["bool"]
F32, SCALE = DTYPES["f32"], DTYPES["f8e8m0"]

_KINDS = (Class.ARITHMETIC, Class.SELECT)
OF_INTEGERS = tuple(
    op.name for op in OPERATIONS.values() if op.kind in (*_KINDS, Class.INTEGER, Class.BITS, Class.SHIFT)
)
ROUNDING = ("floor", "ceil", "round", "copysign", "fmod", "floor_mod")
OF_FLOATS = tuple(op.name for op in OPERATIONS.values() if op.kind in (*_KINDS, Class.FLOAT))
EXACT = tuple(name for name in OF_FLOATS if name not in ELEMENTARY)
NEAR = tuple(name for name in OF_FLOATS if name not in ROUNDING)
"""What may be applied to a value whose last bit is free: it does not jump."""

ODD = (float("inf"), float("-inf"), float("nan"), -0.0, 1e-45, 5e-324, 1.7976931348623157e308, 1e22, 1e16)
COMPARISONS = tuple(op.name for op in OPERATIONS.values() if op.kind == Class.COMPARISON)


def accumulations(dtype: DType) -> tuple[str, ...]:
    """The operators that accumulate into elements of a type."""
    if dtype.is_nibble:
        return ()
    bits = () if dtype.is_float else ("^=", "&=", "|=")
    return bits if dtype == BOOL else ("+=", "*=", "max=", "min=", *bits)


class Expressions(ABC):
    """Draws expressions that type.

    The types are bool, each integer type, and one for all floats (f32 stands for it). An expression is *exact*
    if every correct target gives the same bits for it. Only what is exact may be compared, rounded or cast to an
    integer, where the last bit of an inexact value would matter; where `wild` is set, anything may.
    """

    wild = False
    signs = True
    """Whether a negative number, which is NaN as an f8e8m0, may become one. What `fp fast` makes of NaN is free."""

    converts = False
    """Whether most operations are conversions, most of them by name."""

    at_risk = False
    """Whether divisors, and how far is shifted, may be data for which a run ends in an error."""

    def __init__(self, random: Random) -> None:
        self.random = random

    @abstractmethod
    def leaf(self, dtype: DType, exact: bool) -> Expr | None:
        """An element of a buffer of a type that goes with `dtype`, or a size or an iterator if it is a number."""

    @abstractmethod
    def tame(self, dtype: DType) -> Expr | None:
        """An exact float that is neither huge nor a zero of an unknown sign."""

    def risk(self) -> Access | None:
        """An integer that may be 0, or no distance of a shift."""
        return None

    def chance(self, probability: float) -> bool:
        return self.random.random() < probability

    def value(self, dtype: DType, fuel: int, exact: bool) -> Expr:
        """An expression with at most about 2**fuel operations."""
        if dtype == BOOL:
            return self._bool(fuel)
        if fuel <= 0 or self.chance(0.15):
            found = self.leaf(dtype, exact) if self.chance(0.85) else None
            return self.number(dtype) if found is None else found
        return self._float(fuel, exact) if dtype.is_float else self._integer(dtype, fuel)

    # -- numbers -----------------------------------------------------------------------------------------
    def number(self, dtype: DType) -> Expr:
        """A number that fits."""
        if dtype.is_float:
            if self.wild and self.chance(0.3):
                return Const(self.random.choice(ODD))
            return Const(self.random.choice((0.0, 0.5, 1.0, 2.0, -1.0, 0.1, -0.75, 3.0, 1, 2, -3, 0)))
        if self.wild and self.chance(0.1):
            top = 2 ** (dtype.bits - (dtype.kind == "i")) - 1
            return Cast(dtype, Const(self.random.choice((top, top - 1, -top - 1 if dtype.kind == "i" else 0))))
        large = () if dtype.is_nibble else (100,)
        signed = (-1, -2, *(-n for n in large)) if dtype.kind == "i" else ()
        return Const(self.random.choice((0, 1, 2, 3, 5, 7, *large, *signed)))

    def _typed(self, dtype: DType, value: Expr) -> Expr:
        """`value` as one of the type `dtype` and no other, where it may be a number that takes any."""
        return value if isinstance(value, Access) else Cast(dtype, value)

    def _fitting(self, expr: Expr, dtype: DType) -> Expr:
        """`expr`, unless folding made it a number that its type does not hold."""
        if isinstance(expr, Const) and isinstance(expr.value, int) and dtype.is_integer:
            low = -(2 ** (dtype.bits - 1)) if dtype.kind == "i" else 0
            high = 2 ** (dtype.bits - (dtype.kind == "i"))
            if not low <= expr.value < high:
                return Const(abs(expr.value) % min(high, 100))
        return expr

    # -- one type each -----------------------------------------------------------------------------------
    def _bool(self, fuel: int) -> Expr:
        if fuel > 0 and self.chance(0.35):
            match self.random.randrange(4):
                case 0:
                    return make_op("not", (self._bool(fuel - 1),))
                case 1:
                    return make_op("and", (self._bool(fuel - 1), self._bool(fuel - 1)))
                case 2:
                    return make_op("or", (self._bool(fuel - 1), self._bool(fuel - 1)))
                case _:
                    return make_op("eq" if self.chance(0.5) else "ne", (self._bool(fuel - 1), self._bool(fuel - 1)))
        if self.chance(0.2):
            found = self.leaf(BOOL, True)
            if found is not None:
                return found
        dtype = self.random.choice((F32, F32, self.random.choice(INTEGERS)))
        if self.chance(0.1):
            return Cast(BOOL, self.value(dtype, fuel - 1, True))
        sides = (self.value(dtype, fuel - 1, True), self.value(dtype, fuel - 1, True))
        return make_op(pick(self.random, "operation", COMPARISONS), sides)

    def _integer(self, dtype: DType, fuel: int) -> Expr:
        converts = self.chance(0.5 if self.converts else 0.1)
        name = "cast" if converts else pick(self.random, "operation", OF_INTEGERS)

        def arg() -> Expr:
            return self.value(dtype, fuel - 1, True)

        match name:
            case "cast" if self.chance(0.8 if self.converts else 0.3):
                return self._integer_by_name(dtype, fuel)
            case "cast" if self.chance(0.1):
                return self._of_key(dtype, fuel)
            case "cast":
                other = self.random.choice((*INTEGERS, F32, F32, F32, BOOL))
                return Cast(dtype, self.value(other, fuel - 1, True))
            case "floordiv" | "mod":
                args: tuple[Expr, ...] = (arg(), self._divisor(dtype, fuel))
            case "neg" | "abs" | "bitnot":
                args = (arg(),)
            case "shl" | "shr":
                number = arg()
                if self.at_risk and self.chance(0.7) and (found := self.risk()) is not None:
                    count: Expr = found
                elif self.chance(0.5):
                    count = Const(self.random.randrange(dtype.bits))
                else:
                    count = make_op("bitand", (self._typed(dtype, arg()), Const(dtype.bits - 1)))
                args = (self._typed(dtype, number), count)
            case "select":
                args = (self._bool(fuel - 1), arg(), arg())
            case _:
                args = (arg(), arg())
        return self._fitting(make_op(name, args), dtype)

    def _integer_by_name(self, dtype: DType, fuel: int) -> Expr:
        """A conversion by name: one that saturates or rounds, or the code of a float."""
        way = self.random.choice(("sat", "round_away", "bitcast"))
        others = INTEGERS if way == "sat" and self.chance(0.7) else (F32,)
        inner = self.value(self.random.choice(others), fuel - 1, True)
        if way != "bitcast":
            return Cast(dtype, Cast(F32, inner) if others == (F32,) else inner, way=way)
        signed = dtype.kind == "i"
        width = f"{dtype.bits}"
        if self.chance(0.3):
            unlike = DTYPES[("u" if signed else "i") + width]
            return Cast(dtype, Cast(unlike, self.value(unlike, fuel - 1, True)), way=way)
        codes = [t for t in FLOATS if t.bits == dtype.bits or (t.bits == 4 and dtype.name == "u8")]
        return Cast(dtype, Cast(self.random.choice(codes), inner), way=way)

    def _of_key(self, dtype: DType, fuel: int) -> Expr:
        """The key of a pair, or a part of one."""
        name, inner = self.random.choice(("argmax", "argmin")), self.random.choice((F32, DTYPES["i32"]))
        value = Cast(inner, self.value(inner, fuel - 1, True))
        key = make_op(f"{name}_key", (value, Cast(DTYPES["i32"], self.value(DTYPES["i32"], fuel - 1, True))))
        match self.random.randrange(4):
            case 0:
                return Cast(dtype, key)
            case 1:
                return Cast(dtype, Cast(inner, key, way="value_of"))
            case _:
                return Cast(dtype, key, way=f"{name}_of")

    def _float_by_name(self, fuel: int, exact: bool) -> Expr:
        """A conversion by name: one that saturates or rounds, or a number by its code."""
        way = self.random.choice(("sat", "round_away", "round_to_zero", "bitcast"))
        if way == "bitcast":
            kinds = [t for t in FLOATS if self.wild or t.bits == 4]  # others may be huge, or NaN
            dtype = self.random.choice(kinds)
            code = DTYPES[f"u{8 * dtype.itemsize}"]
            return Cast(dtype, Cast(code, self.value(code, fuel - 1, True)), way=way)
        if not exact and not self.wild:  # to the nearest, so that what is inexact stays near
            return Cast(self.random.choice(FLOATS[:2]), self.value(F32, fuel - 1, exact), way="sat")
        if self.chance(0.3):
            number = self.value(self.random.choice(INTEGERS), fuel - 1, True)
            return self.rounded(self.random.choice(FLOATS[1:]), number, way)
        return self.rounded(self.random.choice(FLOATS), Cast(F32, self.value(F32, fuel - 1, True)), way)

    def rounded(self, dtype: DType, value: Expr, way: str = "cast") -> Expr:
        """A number converted to a float type, of its size where it may have no sign."""
        if dtype == SCALE and not self.signs:
            value = make_op("abs", (Cast(F32, value),))
        return Cast(dtype, value, way=way)

    def _divisor(self, dtype: DType, fuel: int) -> Expr:
        """An integer other than 0, or one at risk."""
        if self.at_risk and self.chance(0.7) and (found := self.risk()) is not None:
            return Cast(dtype, found)
        if self.chance(0.5):
            return Const(self.random.choice((1, 2, 3, 7, 16) + ((-1, -2, -3) if dtype.kind == "i" else ())))
        return make_op("bitor", (self._typed(dtype, self.value(dtype, fuel - 1, True)), Const(1)))

    def _float(self, fuel: int, exact: bool) -> Expr:
        def arg(exactly: bool = exact) -> Expr:
            return self.value(F32, fuel - 1, exactly)

        def smooth() -> Expr:
            found = None if self.wild else self.tame(F32)
            return arg(True) if found is None else found

        names = OF_FLOATS if self.wild else EXACT if exact else NEAR
        name = "cast" if self.chance(0.5 if self.converts else 0.05) else pick(self.random, "operation", names)
        match name:
            case "cast" if self.chance(0.8 if self.converts else 0.3):
                return self._float_by_name(fuel, exact)
            case "cast":
                other = self.random.choice((F32, self.random.choice(INTEGERS), BOOL))
                inner = self.value(other, fuel - 1, exact)
                if other.is_integer and not exact and not self.wild:  # large numbers drown the inexact ones
                    inner = make_op("mod", (inner, Const(7)))
                return self.rounded(self.random.choice(FLOATS if exact else FLOATS[:2]), inner)
            case "select":
                args: tuple[Expr, ...] = (self._bool(fuel - 1), arg(), arg())
            case "fma":
                args = (arg(), arg(), arg())
            case "neg" | "abs":
                args = (arg(),)
            case "floor" | "ceil" | "round":
                args = (arg(True),)
            case "div":
                args = (arg(), self._positive(smooth()))
            case "copysign":  # no sign of a NaN, which is free
                args = (arg(), Cast(F32, self.value(self.random.choice(INTEGERS), fuel - 1, True)))
            case "fmod" | "floor_mod" | "floor_div":  # exact operands alone: they jump
                args = (arg(True), arg(True) if self.wild else self._positive(arg(True)))
            case "atan2" | "hypot":
                args = (smooth(), self._positive(smooth()))
            case "asin" | "acos" | "atanh" | "tan":
                args = (smooth() if self.wild else make_op("div", (smooth(), Const(1024.0))),)
            case "acosh":
                args = (make_op("add", (self._positive(smooth()), Const(1.0))),)
            case "sqrt" | "log" | "log2" | "log10" | "log1p" | "rsqrt":
                args = (self._positive(smooth()),)
            case "pow":
                args = (self._positive(smooth()), self.number(F32))
            case _ if name in ELEMENTARY:
                args = (smooth(),)
            case _:
                args = (arg(), arg())
        return make_op(name, args)

    def _positive(self, expr: Expr) -> Expr:
        """At least one half, and of a known sign."""
        if self.wild and self.chance(0.5):
            return expr
        return make_op("add", (make_op("abs", (expr,)), Const(0.5)))
