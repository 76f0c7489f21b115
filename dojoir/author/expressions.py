"""Expressions of the IR under operators of Python, for the builder: a `Value` is one, and the scopes it needs."""

from __future__ import annotations

import operator
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from typing import NoReturn, SupportsIndex

from dojoir.errors import ArgumentError, DojoError, repr_of
from dojoir.grammar.writable import affine_fits, integer_fits
from dojoir.ir.affine import Affine
from dojoir.ir.expressions import affine_operation, as_affine
from dojoir.ir.format import format_expr
from dojoir.ir.nodes import RELATIONS, Access, Condition, Const, Expr, Extent, Index, Op, make_op
from dojoir.ir.operations import OPERATIONS

_RELATIONS = {op.name: op.symbol for op in OPERATIONS.values() if op.symbol is not None and op.symbol in RELATIONS}


class Operand(ABC):
    """Whatever stands in an expression: a `Value`, or an array without dimensions."""

    @abstractmethod
    def value(self) -> Value:
        """The value of this operand. Raises ArgumentError for an array with dimensions."""

    def __add__(self, other: Number) -> Value:
        return _op("add", self, other)

    def __radd__(self, other: Number) -> Value:
        return _op("add", other, self)

    def __sub__(self, other: Number) -> Value:
        return _op("sub", self, other)

    def __rsub__(self, other: Number) -> Value:
        return _op("sub", other, self)

    def __mul__(self, other: Number) -> Value:
        return _op("mul", self, other)

    def __rmul__(self, other: Number) -> Value:
        return _op("mul", other, self)

    def __truediv__(self, other: Number) -> Value:
        return _op("div", self, other)

    def __rtruediv__(self, other: Number) -> Value:
        return _op("div", other, self)

    def __floordiv__(self, other: Number) -> Value:
        return _op("floordiv", self, other)

    def __rfloordiv__(self, other: Number) -> Value:
        return _op("floordiv", other, self)

    def __mod__(self, other: Number) -> Value:
        return _op("mod", self, other)

    def __rmod__(self, other: Number) -> Value:
        return _op("mod", other, self)

    def __pow__(self, other: Number) -> Value:
        return _op("pow", self, other)

    def __rpow__(self, other: Number) -> Value:
        return _op("pow", other, self)

    def __neg__(self) -> Value:
        return _op("neg", self)

    def __abs__(self) -> Value:
        return _op("abs", self)

    def __lshift__(self, other: Number) -> Value:
        return _op("shl", self, other)

    def __rlshift__(self, other: Number) -> Value:
        return _op("shl", other, self)

    def __rshift__(self, other: Number) -> Value:
        return _op("shr", self, other)

    def __rrshift__(self, other: Number) -> Value:
        return _op("shr", other, self)

    def __xor__(self, other: Number) -> Value:
        return _op("bitxor", self, other)

    def __rxor__(self, other: Number) -> Value:
        return _op("bitxor", other, self)

    def __lt__(self, other: Number) -> Value:
        return _op("lt", self, other)

    def __le__(self, other: Number) -> Value:
        return _op("le", self, other)

    def __gt__(self, other: Number) -> Value:
        return _op("gt", self, other)

    def __ge__(self, other: Number) -> Value:
        return _op("ge", self, other)

    def __and__(self, other: Number) -> Value:
        return _op("and", self, other)

    def __or__(self, other: Number) -> Value:
        return _op("or", self, other)

    def __invert__(self) -> Value:
        return _op("not", self)

    def __eq__(self, other: object) -> NoReturn:
        raise ArgumentError("== compares Python objects: write build.eq(a, b)", "not-an-expression")

    def __ne__(self, other: object) -> NoReturn:
        raise ArgumentError("!= compares Python objects: write build.ne(a, b)", "not-an-expression")

    def __hash__(self) -> int:
        return id(self)

    def __bool__(self) -> NoReturn:
        raise ArgumentError(
            "a value of a kernel is not known in Python: instead of if, and, or, not and a < b < c write "
            "build.select(c, a, b) or builder.guard(c), c & d, c | d, ~c and (a < b) & (b < c)",
            "not-an-expression",
        )


class Value(Operand):
    """An expression. `scopes` are the scopes whose iterators it uses: it has a meaning only inside them."""

    def __init__(self, expr: Expr, scopes: frozenset[object] = frozenset()) -> None:
        self.expr = expr
        self.scopes = scopes

    def value(self) -> Value:
        return self

    def __repr__(self) -> str:
        return f"<{format_expr(self.expr)}>"

    def __iadd__(self, other: Number) -> Value:
        return _accumulation("+=", self, self + other, other)

    def __imul__(self, other: Number) -> Value:
        return _accumulation("*=", self, self * other, other)

    def __ixor__(self, other: Number) -> Value:
        return _accumulation("^=", self, self ^ other, other)

    def __iand__(self, other: Number) -> Value:
        return _accumulation("&=", self, self & other, other)

    def __ior__(self, other: Number) -> Value:
        return _accumulation("|=", self, self | other, other)


class Accumulation(Value):
    """The accumulated value of `x[i] += v`, on the way to `x[i] = …`: `x[i] + v`, with its parts."""

    def __init__(self, whole: Value, op: str, target: Access, added: Value) -> None:
        super().__init__(whole.expr, whole.scopes)
        self.op = op
        self.target = target
        self.added = added


Number = Operand | float | SupportsIndex
"""The types of an operand: a value, a scalar array, or a Python number."""


def as_value(number: Number) -> Value:
    """A number, value or scalar array as a value. Raises ArgumentError for anything else."""
    match number:
        case Operand():
            return number.value()
        case bool():
            raise ArgumentError(
                f"{number} is not a value of a kernel: write build.cast('bool', {int(number)})", "not-an-expression"
            )
        case float():
            return Value(Const(float(number)))
        case SupportsIndex():
            try:
                return Value(_bounded(Const(int(operator.index(number)))))
            except DojoError:
                raise
            except Exception:  # an array, or an object that does not want to
                pass
    raise ArgumentError(
        f"a value is a number, a size, an iterator or an element, not {type(number).__name__}", "not-an-expression"
    )


def _op(name: str, *operands: Number) -> Value:
    values = [as_value(operand) for operand in operands]
    scopes = frozenset[object]().union(*(value.scopes for value in values))
    return Value(_bounded(make_op(name, tuple(value.expr for value in values))), scopes)


def _bounded(expr: Expr) -> Expr:
    match expr:
        case Const(int() as number):
            fits = integer_fits(number)
        case Index(affine):
            fits = affine_fits(affine)
        case _:
            return expr
    if not fits:
        raise ArgumentError("an integer has more than 64 bits", "number-too-large")
    return expr


def _accumulation(op: str, target: Value, whole: Value, added: Number) -> Value:
    return Accumulation(whole, op, target.expr, as_value(added)) if isinstance(target.expr, Access) else whole


# -- functions ---------------------------------------------------------------------------------------------
def _function(name: str) -> Callable[[Number], Value]:
    def function(x: Number) -> Value:
        return _op(name, x)

    function.__name__ = function.__qualname__ = name
    function.__doc__ = f"`{name}(x)` in a kernel."
    return function


def _function2(name: str, symbol: str | None = None) -> Callable[[Number, Number], Value]:
    def function(a: Number, b: Number) -> Value:
        return _op(name, a, b)

    function.__name__ = function.__qualname__ = name
    function.__doc__ = f"`a {symbol} b` in a kernel." if symbol else f"`{name}(a, b)` in a kernel."
    return function


abs, floor, ceil, round = _function("abs"), _function("floor"), _function("ceil"), _function("round")
exp, exp2, log, log2 = _function("exp"), _function("exp2"), _function("log"), _function("log2")
sqrt, rsqrt, erf, sigmoid = _function("sqrt"), _function("rsqrt"), _function("erf"), _function("sigmoid")
tanh, sin, cos = _function("tanh"), _function("sin"), _function("cos")
tan, atan, expm1, log1p = _function("tan"), _function("atan"), _function("expm1"), _function("log1p")
sinh, cosh, asin, acos = _function("sinh"), _function("cosh"), _function("asin"), _function("acos")
asinh, acosh, atanh = _function("asinh"), _function("acosh"), _function("atanh")
log10, erfc = _function("log10"), _function("erfc")
min, max, pow = _function2("min"), _function2("max"), _function2("pow")
atan2, hypot, copysign = _function2("atan2"), _function2("hypot"), _function2("copysign")
fmod, floor_mod, floor_div = _function2("fmod"), _function2("floor_mod"), _function2("floor_div")
argmax_key, argmin_key = _function2("argmax_key"), _function2("argmin_key")
eq, ne = _function2("eq", "=="), _function2("ne", "!=")
bitand, bitor, bitnot = _function2("bitand", "&"), _function2("bitor", "|"), _function("bitnot")


def fma(a: Number, b: Number, c: Number) -> Value:
    """`a * b + c`, rounded once."""
    return _op("fma", a, b, c)


def select(condition: Number, a: Number, b: Number) -> Value:
    """`a` where the condition holds, else `b`; both are computed."""
    return _op("select", condition, a, b)


# -- values as parts of the tree ---------------------------------------------------------------------------
def affine_of(value: Value, role: str) -> Affine:
    """A value as an affine expression. Raises ArgumentError, naming its `role`, where it is none."""
    found = as_affine(value.expr)
    if found is not None:
        return found
    rule = "a sum of sizes and iterators, each times an integer, with // and % by positive integers"
    raise ArgumentError(f"{role} is quasi-affine, {rule}; not {repr_of(value)}", "not-affine")


def index_of(value: Value, role: str) -> Affine | Access:
    """A value as an index: affine, with `min`, `max` and `abs`, or an element by itself."""
    if isinstance(value.expr, Access):
        return value.expr
    found = _in_index(value.expr)
    return affine_of(value, role) if found is None else found


def _in_index(expr: Expr) -> Affine | None:
    """An expression with minima and maxima in it as an index; None where it is none."""
    return _index_operation(expr.name, [*map(_in_index, expr.args)]) if isinstance(expr, Op) else as_affine(expr)


def extent_of(value: Value) -> Extent:
    """A value as an extent: affine, or the `min` of such."""

    def bounds(expr: Expr) -> tuple[Affine, ...]:
        match expr:
            case Op("min", (left, right)):
                return (*bounds(left), *bounds(right))
            case _:
                return (affine_of(Value(expr), "an extent"),)

    return Extent(bounds(value.expr))


def conditions_of(value: Value) -> tuple[Condition, ...]:
    """A value as conditions: comparisons of affine values, joined by `&`."""
    match value.expr:
        case Op("and", (left, right)):
            return (*conditions_of(Value(left)), *conditions_of(Value(right)))
        case Op(name, (left, right)) if name in _RELATIONS:
            a, b = (affine_of(Value(side), "a side of a condition") for side in (left, right))
            return (Condition(a, _RELATIONS[name], b),)
    rule = "compares sizes and iterators by <, <=, >, >=, build.eq or build.ne, joined by &"
    raise ArgumentError(f"a condition {rule}; not {repr_of(value)}", "not-a-condition")


def _index_operation(name: str, operands: Sequence[Affine | None]) -> Affine | None:
    """The index that an operation on such is: an affine value, or a smallest, a largest or an absolute one of
    them. None where it is none."""
    match name, operands:
        case "min", [Affine() as a, Affine() as b]:
            return Affine.smallest(a, b)
        case "max", [Affine() as a, Affine() as b]:
            return Affine.largest(a, b)
        case "abs", [Affine() as a]:
            return Affine.largest(a, -a)
    return affine_operation(name, operands)
