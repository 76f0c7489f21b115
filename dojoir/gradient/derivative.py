"""Derivatives of the expression of a statement, by sympy, written with the functions of the language.

Elements, sizes and whatever holds no element of interest are symbols for sympy. Each function of the language is
one of sympy's with a derivative of its own. So nothing is rewritten to a form that is right over the reals
and loses digits or overflows in floats. A `select` of a derivative chooses between products, and is never a
factor of one: where its condition fails, an infinite factor does not make NaN of what is 0."""

from __future__ import annotations

import math
from collections.abc import Callable, Collection
from functools import cache
from typing import Any

import sympy

from dojoir.errors import KernelError
from dojoir.ir.dtypes import F64, DType
from dojoir.ir.expressions import Access, Cast, Const, Expr, Index, Op, expr_accesses, make_op
from dojoir.ir.format import format_expr
from dojoir.ir.kernel import Kernel
from dojoir.ir.paths import Path
from dojoir.ir.where import diagnostic_at
from dojoir.types.elaborate import natural_type

Partials = Callable[..., tuple[Any, ...]]

_ZERO = frozenset({"floor", "ceil", "round", "floor_div"})
"""The operations that are constant wherever they have a derivative."""


class Symbols:
    """The symbols for parts of a text, and back."""

    def __init__(self) -> None:
        self._parts: dict[Any, Expr] = {}

    def of(self, part: Expr) -> Any:
        """The symbol of a part: one for all that are equal."""
        symbol = sympy.Symbol(format_expr(part), real=True)
        self._parts.setdefault(symbol, part)
        return symbol

    def part(self, symbol: Any) -> Expr:
        return self._parts[symbol]


def products(
    kernel: Kernel, path: Path, expr: Expr, seed: Expr, active: Collection[str], known: Access | None = None
) -> list[tuple[Access, Expr, bool]]:
    """For each element of the buffers `active` that `expr` reads: the element, `seed` times the derivative of
    `expr` by it, and whether that is `seed` itself. Elements with a derivative of 0 are left out. `seed` is an
    element or a number; `known` is an element that holds the value of `expr`.

    Raises KernelError (`no-derivative`) for an operation that has none, at the statement at `path`.
    """
    elements = list(dict.fromkeys(a for a in expr_accesses(expr) if a.buffer in active))
    if not elements:
        return []
    symbols = Symbols()
    value = _SympyReader(kernel, path, symbols, active).read(expr)
    by = sympy.Symbol(f"{format_expr(seed)} ", real=True)
    symbols._parts[by] = seed
    found = []
    for element in elements:
        slope = sympy.diff(value, symbols.of(element))
        if known is not None and not value.is_Symbol:
            slope = slope.xreplace({value: symbols.of(known)})
        if slope != 0:
            found.append((element, written(_shortest(by * slope), symbols), slope == 1))
    return found


def _shortest(value: Any) -> Any:
    """The form with the fewest operations, of those that keep every function as it is."""
    forms = [value, sympy.factor_terms(value)]
    if value.is_Mul:
        forms.append(sympy.Mul(*(sympy.factor_terms(arg) for arg in value.args)))
    return min(forms, key=lambda form: (sympy.count_ops(form), forms.index(form)))


# -- from the text -------------------------------------------------------------------------------------------
class _SympyReader:
    """Makes sympy's expressions of the language's."""

    def __init__(self, kernel: Kernel, path: Path, symbols: Symbols, active: Collection[str]) -> None:
        self._kernel, self._path, self._symbols, self._active = kernel, path, symbols, active
        self._buffers = {buffer.name: buffer for buffer in kernel.buffers}

    def read(self, expr: Expr) -> Any:
        match expr:
            case Const(int() as value):
                return sympy.Integer(value)
            case Const(value) if math.isfinite(value):
                return sympy.Float(value)
            case Const() | Index() | Access():
                return self._symbols.of(expr)
        if not any(access.buffer in self._active for access in expr_accesses(expr)):
            return self._symbols.of(expr)
        match expr:
            case Cast(_, arg) if not (natural_type(arg, self._buffers) or F64).is_float:
                return self._symbols.of(expr)
            case Cast(dtype, arg, _, "cast") if dtype.is_float:
                return _cast(dtype)(self.read(arg))
            case Cast(dtype, arg, _, way):
                raise self._error(f"a conversion `{way}` to {dtype}" if way != "cast" else f"a cast to {dtype}")
            case Op(name, args):
                return self._operation(name, args)

    def _operation(self, name: str, args: tuple[Expr, ...]) -> Any:
        match name:
            case "select":
                return _function("select", 3)(self._symbols.of(args[0]), self.read(args[1]), self.read(args[2]))
            case "add" | "sub" | "mul" | "div" | "neg" | "fma":
                return _ARITHMETIC[name](*map(self.read, args))
            case "pow" if isinstance(args[1], Const) and args[1].value in (1, 2, 3, 4):
                return self.read(args[0]) ** int(args[1].value)
            case _ if name in _PARTIALS or name in _ZERO:
                return _function(name, len(args))(*map(self.read, args))
        raise self._error(f"`{name}`")

    def _error(self, what: str) -> KernelError:
        message = (
            f"{what} has no derivative: leave what it reads out of the gradient (of=), or compute it in a kernel "
            f"of its own"
        )
        return KernelError(diagnostic_at(self._kernel, self._path, "no-derivative", message))


_ARITHMETIC: dict[str, Callable[..., Any]] = {
    "add": lambda a, b: a + b,
    "sub": lambda a, b: a - b,
    "mul": lambda a, b: a * b,
    "div": lambda a, b: a / b,
    "neg": lambda a: -a,
    "fma": lambda a, b, c: a * b + c,
}


@cache
def _function(name: str, arity: int) -> Any:
    """The function of that name as a class of sympy."""

    def fdiff(self: Any, argindex: int = 1) -> Any:
        if name in _ZERO:
            return sympy.Integer(0)
        return _PARTIALS[name](*self.args)[argindex - 1]

    return type(name, (sympy.Function,), {"fdiff": fdiff, "nargs": arity, "is_real": True, "word": name})


@cache
def _cast(dtype: DType) -> Any:
    """A conversion to a float: of what is a float as well, the identity but for rounding."""
    own = {"fdiff": lambda self, argindex=1: sympy.Integer(1), "nargs": 1, "is_real": True, "dtype": dtype}
    return type(f"to_{dtype.name}", (sympy.Function,), own)


def _of(name: str, *args: Any) -> Any:
    return _function(name, len(args))(*args)


def _where(condition: str, a: Any, b: Any) -> Any:
    """1 where a comparison holds, and 0 elsewhere."""
    return _of("select", _of(condition, a, b), sympy.Integer(1), sympy.Integer(0))


def _larger(word: str, a: Any, b: Any) -> tuple[Any, Any]:
    """The derivatives of the larger or smaller of two: of equal ones the first has it, but a number never."""
    strict = {"ge": "gt", "le": "lt"}[word] if b.is_number else word
    first = _where(strict, a, b)
    return first, _of("select", first.args[0], sympy.Integer(0), sympy.Integer(1))


def _sign(x: Any) -> Any:
    """Of a number: 1 or -1."""
    return _of("copysign", sympy.Integer(1), x)


def _by_leg(x: Any, y: Any) -> Any:
    """x / √(x² + y²)."""
    return x / _of("hypot", x, y)


def _power(a: Any, b: Any) -> tuple[Any, Any]:
    """The second is 0 where 0 has a power of 0 or more, as 0 * log(0) is not."""
    by_exponent = _of("pow", a, b) * _of("log", a)
    if a.is_number and a != 0:
        return b * _of("pow", a, b - 1), by_exponent
    zero = _of("and", _of("eq", a, sympy.Integer(0)), _of("ge", b, sympy.Integer(0)))
    return b * _of("pow", a, b - 1), _of("select", zero, sympy.Integer(0), by_exponent)


_PARTIALS: dict[str, Partials] = {
    "exp": lambda x: (_of("exp", x),),
    "exp2": lambda x: (_of("exp2", x) * sympy.Float(math.log(2)),),
    "expm1": lambda x: (_of("exp", x),),
    "log": lambda x: (1 / x,),
    "log2": lambda x: (sympy.Float(1 / math.log(2)) / x,),
    "log1p": lambda x: (1 / (1 + x),),
    "sqrt": lambda x: (sympy.Float(0.5) / _of("sqrt", x),),
    "rsqrt": lambda x: (-sympy.Float(0.5) * _of("rsqrt", x) ** 3,),
    "tanh": lambda x: (1 - _of("tanh", x) ** 2,),
    "sigmoid": lambda x: (_of("sigmoid", x) * (1 - _of("sigmoid", x)),),
    "erf": lambda x: (sympy.Float(2 / math.sqrt(math.pi)) * _of("exp", -(x**2)),),
    "sin": lambda x: (_of("cos", x),),
    "cos": lambda x: (-_of("sin", x),),
    "tan": lambda x: (1 + _of("tan", x) ** 2,),
    "atan": lambda x: (1 / (1 + x**2),),
    "log10": lambda x: (sympy.Float(1 / math.log(10)) / x,),
    "erfc": lambda x: (-sympy.Float(2 / math.sqrt(math.pi)) * _of("exp", -(x**2)),),
    "sinh": lambda x: (_of("cosh", x),),
    "cosh": lambda x: (_of("sinh", x),),
    "asin": lambda x: (_of("rsqrt", 1 - x**2),),
    "acos": lambda x: (-_of("rsqrt", 1 - x**2),),
    "asinh": lambda x: (1 / _of("hypot", x, sympy.Integer(1)),),
    "acosh": lambda x: (_of("rsqrt", x - 1) * _of("rsqrt", x + 1),),
    "atanh": lambda x: (1 / (1 - x**2),),
    "atan2": lambda y, x: (_by_leg(x, y) / _of("hypot", x, y), -_by_leg(y, x) / _of("hypot", x, y)),
    "hypot": lambda x, y: (_by_leg(x, y), _by_leg(y, x)),
    "copysign": lambda x, y: (_sign(x) * _sign(y), sympy.Integer(0)),
    "fmod": lambda x, y: (sympy.Integer(1), (_of("fmod", x, y) - x) / y),
    "floor_mod": lambda x, y: (sympy.Integer(1), -_of("floor_div", x, y)),
    "abs": lambda x: (_where("gt", x, sympy.Integer(0)) - _where("lt", x, sympy.Integer(0)),),
    "max": lambda a, b: _larger("ge", a, b),
    "min": lambda a, b: _larger("le", a, b),
    "pow": _power,
    "select": lambda c, a, b: (
        sympy.Integer(0),
        _of("select", c, sympy.Integer(1), sympy.Integer(0)),
        _of("select", c, sympy.Integer(0), sympy.Integer(1)),
    ),
}
"""The derivatives of each function, by its arguments."""


# -- back to a text ------------------------------------------------------------------------------------------
def written(value: Any, symbols: Symbols) -> Expr:
    """The expression of the language."""
    if value.is_Symbol:
        return symbols.part(value)
    if value.is_Integer:
        return Const(int(value))
    if value.is_number and value.is_Atom:  # what has no value over the reals is NaN
        return Const(float(value) if value.is_extended_real else math.nan)
    if value.is_Add:
        return _sum(value, symbols)
    if value.is_Mul or value.is_Pow:
        return _product(value, symbols)
    args = tuple(written(arg, symbols) for arg in value.args)
    dtype = getattr(value, "dtype", None)
    return Cast(dtype, args[0]) if isinstance(dtype, DType) else Op(value.word, args)


def _sum(value: Any, symbols: Symbols) -> Expr:
    """Terms with a plus first, those that one condition decides as one."""
    choices: dict[Any, list[Any]] = {}
    terms: list[Any] = []
    for term in sorted(value.args, key=_order):
        chosen = _choice(term)
        if chosen is None:
            terms.append(term)
        else:
            condition, yes, no = chosen
            of = choices.setdefault(condition, [0, 0])
            of[0], of[1] = of[0] + yes, of[1] + no
    terms += [_function("select", 3)(c, sympy.sympify(yes), sympy.sympify(no)) for c, (yes, no) in choices.items()]
    if len(terms) == 1:
        return written(terms[0], symbols)
    terms.sort(key=lambda term: bool(term.could_extract_minus_sign()))
    result = written(terms[0], symbols)
    for term in terms[1:]:
        if term.could_extract_minus_sign():
            result = make_op("sub", (result, written(-term, symbols)))
        else:
            result = make_op("add", (result, written(term, symbols)))
    return result


def _choice(term: Any) -> tuple[Any, Any, Any] | None:
    """A product with a `select` in it as a condition and two products."""
    for factor in sympy.Mul.make_args(term):
        if getattr(factor, "word", None) == "select":
            condition, yes, no = factor.args
            rest = sympy.Mul(*(other for other in sympy.Mul.make_args(term) if other is not factor))
            return condition, rest * yes, rest * no
    return None


def _product(value: Any, symbols: Symbols) -> Expr:
    chosen = _choice(value) if value.is_Mul else None
    if chosen is not None:
        return Op("select", tuple(written(part, symbols) for part in chosen))
    if value.is_Mul and value.could_extract_minus_sign():
        positive = written(-value, symbols)
        return make_op("neg", (positive,))
    above: list[Expr] = []
    below: list[Expr] = []
    for factor in sorted(sympy.Mul.make_args(value), key=_order):
        base, exponent = factor.as_base_exp()
        if factor.is_Rational and not factor.is_Integer:
            above.append(Const(float(factor)))
        elif exponent.is_Integer and not factor.is_Number:
            (above if exponent > 0 else below).extend([written(base, symbols)] * abs(int(exponent)))
        elif factor.is_Pow and not factor.is_Number:
            above.append(Op("pow", (written(base, symbols), written(exponent, symbols))))
        else:
            above.append(written(factor, symbols))
    result = _times(above) if above else Const(1)
    return make_op("div", (result, _times(below))) if below else result


def _times(factors: list[Expr]) -> Expr:
    result = factors[0]
    for factor in factors[1:]:
        result = make_op("mul", (result, factor))
    return result


def _order(value: Any) -> tuple[int, str]:
    """Numbers first, the seed next, then by text."""
    if value.is_number:
        return 0, str(value)
    seeded = any(str(symbol).endswith(" ") for symbol in value.free_symbols)
    return (1 if seeded else 2), str(value)
