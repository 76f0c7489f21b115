"""The propagation of the errors of operands through products, quotients and functions, by their derivatives:
expressions.

An infinite bound says that a value may be anything: a number, an infinity or NaN. So what is computed of it may be,
too, and no factor of 0 takes that away (`unless_any`). A bound that is NaN belongs to a value that is NaN for sure.
"""

from __future__ import annotations

import math
from collections.abc import Callable

from dojoir.ir.dtypes import DType
from dojoir.ir.nodes import Cast, Const, Expr, make_op
from dojoir.types.rounding import FORMATS

ZERO, ONE, INFINITE = Const(0.0), Const(1.0), Const(math.inf)

Bound = Expr | None
"""An f64 expression for a bound, or None for an error that is always zero."""


def of_product(x: Expr, a: Bound, y: Expr, b: Bound) -> Bound:
    """`|x| b + |y| a + a b`."""
    both = None if a is None or b is None else op("mul", a, b)
    return unless_any(error_sum(times(magnitude(x), b), times(magnitude(y), a), both), a, b)


def of_quotient(y: Expr, a: Bound, b: Bound, result: Expr) -> Bound:
    """`(a + |result| b) / (|y| - b)`, and anything where `y` may be zero; nothing where it is NaN for sure."""
    if b is None:
        zero = a and op("select", op("eq", a, ZERO), ZERO, op("div", a, magnitude(y)))
        return unless_any(zero, a)
    off = error_sum(a, times(magnitude(result), b)) or ZERO
    left = op("sub", magnitude(y), b)
    none = op("select", op("ne", y, y), ZERO, INFINITE)
    return unless_any(op("select", op("gt", left, ZERO), op("div", off, left), none), a, b)


def of_power(x: Expr, a: Bound, y: Expr, b: Bound, result: Expr) -> Bound:
    """`|x**y| (exp(r) - 1)`, where `y log x` is off by `r = (|y| + b) a / (|x| - a) + |log x| b` at most; anything
    where `x` may be zero, or where it is negative and `y` not sure."""
    by_base: Bound = None
    if a is not None:
        left = op("sub", magnitude(x), a)
        step = op("select", op("gt", left, ZERO), op("div", a, left), INFINITE)
        by_base = times(error_sum(magnitude(y), b) or ZERO, op("select", op("eq", a, ZERO), ZERO, step))
    by_exponent: Bound = None
    if b is not None:
        step = op("mul", magnitude(op("log", magnitude(x))), b)
        step = op("select", op("gt", x, ZERO), step, INFINITE)
        by_exponent = op("select", op("eq", b, ZERO), ZERO, step)
    relative = error_sum(by_base, by_exponent)
    if relative is None:
        return None
    growth = op("expm1", relative)
    return unless_any(times(magnitude(result), growth), a, b, growth)


def of_multiple(x: Expr) -> Expr:
    """The error of `x` where `exp` of f32 is 2ᵗ of a rounded t = x log₂e. Past 128 the result is 0 or infinite, and
    stays that: of -inf, which a mask gives, nothing is off."""
    return op("mul", Const(1.5 * 2.0**-24), op("min", magnitude(x), Const(128.0)))


def of_function(name: str, x: Expr, a: Expr, result: Expr) -> Expr:
    """The propagated error of a function of one operand, whose error is `a` at `x`, by its derivative or the
    values beside."""
    known = unless_any(_of_known(name, x, a, result), a)
    return op("select", op("eq", a, ZERO), ZERO, known or ZERO)


def _of_known(name: str, x: Expr, a: Expr, result: Expr) -> Expr:
    match name:
        case "exp" | "exp2":
            return op("mul", result, op("sub", op(name, a), ONE))
        case "log" | "log2" | "log10":
            slope = {"log": 1.0, "log2": 1 / math.log(2), "log10": 1 / math.log(10)}[name]
            return _where_positive(x, a, op("div", op("mul", Const(slope), a), op("sub", x, a)))
        case "rsqrt":
            return _where_positive(x, a, op("div", op("mul", result, a), op("sub", x, a)))
        case "sqrt":
            return _where_positive(x, a, op("div", a, result))
        case "sigmoid":
            return op("mul", Const(0.25), a)
        case "erf" | "erfc":
            return op("mul", Const(2 / math.sqrt(math.pi)), a)
        case "tanh" | "sin" | "cos" | "atan" | "asinh":
            return a
        case "sinh" | "cosh":
            return op("mul", op("cosh", op("add", magnitude(x), a)), a)
        case "asin" | "acos":
            return _within_one(x, a, lambda most: op("rsqrt", op("sub", ONE, op("mul", most, most))))
        case "atanh":
            return _within_one(x, a, lambda most: op("div", ONE, op("sub", ONE, op("mul", most, most))))
        case "acosh":
            above = op("sub", x, ONE)
            least = op("sub", above, a)
            root = op("sqrt", op("mul", least, op("add", least, Const(2.0))))
            return _where_positive(above, a, op("div", a, root))
        case "expm1":
            return op("mul", op("add", result, ONE), op("expm1", a))
        case "log1p":
            above = op("add", x, ONE)
            return _where_positive(above, a, op("div", a, op("sub", above, a)))
        case "tan":
            return _tangent(a, result)
    raise AssertionError(f"no rule for {name}")


def _within_one(x: Expr, a: Expr, slope: Callable[[Expr], Expr]) -> Expr:
    """`a` times the slope at the largest size that `x` may have, where that is below 1; none where the size is
    above 1 for sure (the result is NaN), and anything between."""
    most = op("add", magnitude(x), a)
    outside = op("select", op("gt", op("sub", magnitude(x), a), ONE), ZERO, INFINITE)
    return op("select", op("lt", most, ONE), op("mul", slope(most), a), outside)


def of_two(name: str, x: Expr, a: Bound, y: Expr, b: Bound, result: Expr) -> Bound:
    """Of a function of two operands, whose errors are `a` and `b`: those that have a rest of a division give any
    number where an operand is off."""
    off = error_sum(a, b)
    if off is None:
        return None
    match name:
        case "pow":
            return of_power(x, a, y, b, result)
        case "hypot":
            return off
        case "copysign":
            sure = b and op("or", op("gt", magnitude(y), b), op("eq", b, ZERO))
            return error_sum(a, sure and op("select", sure, ZERO, op("mul", Const(2.0), magnitude(x))))
        case "atan2":
            return _angle(x, y, off)
        case "fmod" | "floor_mod" | "floor_div":
            return anything_if(off)
    raise AssertionError(f"no rule for {name}")


def _angle(y: Expr, x: Expr, off: Expr) -> Expr:
    """The angle under which a circle of the radius `off` is seen from the origin, π/2 of the ratio at most;
    anything where the circle meets the half line at which the angle jumps."""
    left = op("sub", op("hypot", x, y), off)
    meets = op("and", op("le", magnitude(y), off), op("le", x, off))
    seen = op("mul", Const(math.pi / 2), op("div", off, op("add", left, off)))
    free = op("or", op("le", left, ZERO), meets)
    return op("select", op("eq", off, ZERO), ZERO, op("select", free, INFINITE, seen))


def _tangent(a: Expr, result: Expr) -> Expr:
    """From tan(x + d) - tan x = (1 + tan² x) t / (1 - |tan x| t) at most, with t = tan |d|; anything where that
    passes a pole."""
    step = op("tan", a)
    left = op("sub", ONE, op("mul", magnitude(result), step))
    off = op("mul", op("add", ONE, op("mul", result, result)), step)
    passes = op("or", op("le", left, ZERO), op("gt", a, ONE))
    return op("select", passes, INFINITE, op("div", off, left))


def _where_positive(x: Expr, a: Expr, bound: Expr) -> Expr:
    """`bound` where `x` is positive for sure, none where it is negative for sure (the result is NaN), and
    anything between."""
    outside = op("select", op("lt", op("add", x, a), ZERO), ZERO, INFINITE)
    return op("select", op("gt", x, a), bound, outside)


# -- expressions -------------------------------------------------------------------------------------------
def op(name: str, *args: Expr) -> Expr:
    return make_op(name, args)


def magnitude(a: Expr) -> Expr:
    return Const(abs(a.value)) if isinstance(a, Const) else op("abs", a)


def error_sum(*bounds: Bound) -> Bound:
    present = [bound for bound in bounds if bound is not None]
    if not present:
        return None
    total = present[0]
    for bound in present[1:]:
        total = op("add", total, bound)
    return total


def times(factor: Expr, bound: Bound) -> Bound:
    """`factor * bound`, where no error stays no error whatever the factor: 0 * inf is 0 here."""
    return bound and op("select", op("eq", bound, ZERO), ZERO, op("mul", factor, bound))


def unless_any(bound: Bound, *operands: Bound) -> Bound:
    """The bound if the bounds of all operands are finite, else infinite."""
    most: Bound = None
    for operand in operands:
        most = worst(most, operand)
    return bound if bound is None or most is None else op("select", op("eq", most, INFINITE), INFINITE, bound)


def worst(a: Bound, b: Bound) -> Bound:
    """The larger of two bounds."""
    return a if b is None else b if a is None else op("max", a, b)


def of_extreme(name: str, x: Expr, a: Bound, y: Expr, b: Bound) -> Bound:
    """Of the larger (`max`) or smaller (`min`) of two values: the bound of the one that it is for sure, else the
    larger bound."""
    if a is None and b is None:
        return None
    first, second = a or ZERO, b or ZERO
    if name == "max":
        is_x = op("gt", op("sub", x, first), op("add", y, second))
        is_y = op("gt", op("sub", y, second), op("add", x, first))
    else:
        is_x = op("lt", op("add", x, first), op("sub", y, second))
        is_y = op("lt", op("add", y, second), op("sub", x, first))
    return op("select", is_x, first, op("select", is_y, second, op("max", first, second)))


def of_either(x: Expr, a: Bound, y: Expr, b: Bound) -> Expr:
    """Of one of two values, where rounding decides which."""
    apart = magnitude(op("sub", x, y))
    off = error_sum(apart, unless_any(worst(a, b), a, b)) or ZERO
    return op("select", op("lt", apart, INFINITE), off, INFINITE)


def of_step(name: str, x: Expr, a: Expr) -> Bound:
    """Of a function that rises in steps: `floor`, `ceil` or `round`."""
    step = op("sub", op(name, op("add", x, a)), op(name, op("sub", x, a)))
    return unless_any(op("select", op("lt", magnitude(x), INFINITE), step, ZERO), a)


def anything_if(bound: Expr) -> Expr:
    """Nothing where a bound is 0, and anything else where it is not."""
    return op("select", op("eq", bound, ZERO), ZERO, INFINITE)


def is_whole(value: Expr) -> Expr:
    """Whether a float is an integer."""
    return op("eq", op("floor", value), value)


def is_exact(value: Expr, dtype: DType) -> Expr:
    """Whether a type represents a number exactly."""
    return op("eq", Cast(dtype, value), value)


def roundoff(dtype: DType) -> tuple[float, float]:
    """The largest error of rounding to a float type: relative to a normal result, and absolute below those. Half
    of the smallest f64 is no f64: there it is all of it, which the reference, in f64 as well, may be off too."""
    format_ = FORMATS[dtype.name]
    absolute = math.ldexp(1.0 if format_.is_scale else 0.5, format_.quantum)  # 0 is none there
    return 2.0**-format_.precision, absolute or math.ldexp(1.0, format_.quantum)


def coarser(a: DType, b: DType) -> DType:
    """The one of two types that rounds more, if both are floats; else the first."""
    if not (a.is_float and b.is_float):
        return a
    return a if FORMATS[a.name].precision <= FORMATS[b.name].precision else b
