"""Expressions, given what their names stand for: values, indices, extents and conditions."""

from __future__ import annotations

import math

from dojoir.errors import KernelError, Span, did_you_mean
from dojoir.grammar import syntax
from dojoir.grammar.names_in_scope import NamesInScope, short
from dojoir.grammar.other_languages import cure_of_function, cure_of_line
from dojoir.grammar.writable import affine_fits, integer_fits
from dojoir.ir.affine import Affine
from dojoir.ir.dtypes import DTYPES
from dojoir.ir.expressions import affine_operation
from dojoir.ir.nodes import (
    DEEPEST_EXPRESSION,
    RELATIONS,
    Access,
    Buffer,
    Cast,
    Condition,
    Const,
    Expr,
    Extent,
    Index,
    index_value,
    make_op,
)
from dojoir.ir.operations import CALLS, CONVERSIONS, INFIX, OPERATIONS, PREFIX

QUASI_AFFINE = (
    "a quasi-affine expression is a sum of sizes and iterators, each times an integer, "
    "with // and % by positive integers"
)

CLAMPS = {"min": None, "max": None, "clamp": 3, "abs": 1}
"""The functions that an index may have, with the number of their arguments; None for two or more."""

INDEX = "an index"
"""How the role of an index begins."""


# -- values ------------------------------------------------------------------------------------------------
def value(expr: syntax.Expr, names: NamesInScope, depth: int = 0) -> Expr:
    """An expression as the value of a statement."""
    _check_depth(expr, names, depth)
    match expr:
        case syntax.Number():
            return Const(_number_value(expr, names))
        case syntax.Name(text, span):
            if text in names.sizes:
                return index_value(names.size(names.sizes[text]))
            if text not in names.buffers:
                raise names.unknown(syntax.Word(text, span), [*names.sizes, *names.buffers])
            return access(expr, names)
        case syntax.Iterator():
            return Index(Affine.iterator(names.iterator(expr)))
        case syntax.Subscript():
            return access(expr, names, depth)
        case syntax.Call():
            return _call(expr, names, depth)
        case syntax.Unary(sign, arg, span):
            return _bounded(make_op(PREFIX[sign], (value(arg, names, depth + 1),), span), span, names)
        case syntax.Binary(left, sign, right, span):
            args = (value(left, names, depth + 1), value(right, names, depth + 1))
            return _bounded(make_op(INFIX[sign], args, span), span, names)


def _call(call: syntax.Call, names: NamesInScope, depth: int) -> Expr:
    name = call.name.text
    if name in DTYPES:
        _check_arity(call, 1, names)
        return Cast(DTYPES[name], value(call.args[0], names, depth + 1), call.span)
    if name in CONVERSIONS:
        return _conversion(call, names, depth)
    if name == "clamp":  # a spelling
        _check_arity(call, 3, names)
        x, low, high = (value(arg, names, depth + 1) for arg in call.args)
        return make_op("min", (make_op("max", (x, low), call.span), high), call.span)
    if name == "isnan":  # a spelling: what is not equal to itself
        _check_arity(call, 1, names)
        x = value(call.args[0], names, depth + 1)
        return make_op("ne", (x, x), call.span)
    if name == "signbit":  # a spelling
        _check_arity(call, 1, names)
        sign = make_op("copysign", (Const(1), value(call.args[0], names, depth + 1)), call.span)
        return make_op("lt", (sign, Const(0)), call.span)
    if name == syntax.PAIR:
        message = "a pair stands behind a pair: write (m[…], at[…]) max= (value, place)"
        raise names.error("bad-pair", message, call.span)
    if name not in CALLS:
        if name in names.buffers:
            cure = f"{name} is a buffer: its elements are written {name}[…]"
            raise names.error("unknown-function", cure, call.name.span, names.note(names.buffers[name]))
        meant = cure_of_function(name)
        hint = f": {meant}" if meant else did_you_mean(name, [*CALLS, "clamp", *DTYPES, *CONVERSIONS])
        hint = hint or f": write one of {', '.join(sorted(CALLS))}"
        raise names.error("unknown-function", f"there is no function '{short(name)}'{hint}", call.name.span)
    _check_arity(call, OPERATIONS[name].arity, names)
    return make_op(name, tuple(value(arg, names, depth + 1) for arg in call.args), call.span)


def _conversion(call: syntax.Call, names: NamesInScope, depth: int) -> Expr:
    """A conversion by name: `sat(f16, x)`."""
    _check_arity(call, 2, names)
    target, arg = call.args
    if not (isinstance(target, syntax.Name) and target.text in DTYPES):
        hint = did_you_mean(target.text, DTYPES) if isinstance(target, syntax.Name) else ""
        message = f"the first argument of {call.name.text} is an element type, as in {call.name.text}(f16, x){hint}"
        raise names.error("unknown-dtype", message, target.span)
    return Cast(DTYPES[target.text], value(arg, names, depth + 1), call.span, call.name.text)


def _check_arity(call: syntax.Call, arity: int, names: NamesInScope) -> None:
    if len(call.args) != arity:
        takes = f"{call.name.text} takes {_count(arity, 'argument')}, not {len(call.args)}"
        if call.name.text in ("max", "min") and len(call.args) == 1:
            takes += f"; over a scope it is an accumulation: `m[{{i}}] {call.name.text}= x[{{i}}, {{j}}]`"
        raise names.error("wrong-arity", takes, call.span)


def access(expr: syntax.Subscript | syntax.Name, names: NamesInScope, depth: int = 0) -> Access:
    """An element of a buffer. An index may be another element."""
    match expr:
        case syntax.Name(text, span):
            buffer = names.buffer(syntax.Word(text, span))
            args: tuple[syntax.Expr, ...] = ()
        case syntax.Subscript(name, args):
            buffer = names.buffer(name)
    if len(args) != len(buffer.dims):
        has = _count(len(buffer.dims), "dimension")
        cure = " and is written without brackets" if not buffer.dims else ""
        message = f"{buffer.name} has {has}{cure}, and is given {_count(len(args), 'index', 'indices')}"
        raise names.error("wrong-rank", message, expr.span, names.note(buffer))
    return Access(buffer.name, tuple(_index(arg, buffer, names, depth + 1) for arg in args), expr.span)


def _index(expr: syntax.Expr, buffer: Buffer, names: NamesInScope, depth: int) -> Affine | Access:
    _check_depth(expr, names, depth)
    match expr:
        case syntax.Subscript():
            return access(expr, names, depth)
        case syntax.Name(text) if text in names.buffers:
            return access(expr, names, depth)
        case _:
            return affine(expr, names, f"{INDEX} of {buffer.name}")


# -- sizes and iterators -----------------------------------------------------------------------------------
def affine(expr: syntax.Expr, names: NamesInScope, role: str) -> Affine:
    """An expression in sizes and iterators; `role` says what it is, such as "an extent"."""
    result = _affine(expr, names, role, 0)
    _check_magnitude(result, expr.span, names)
    return result


def _affine(expr: syntax.Expr, names: NamesInScope, role: str, depth: int) -> Affine:
    _check_depth(expr, names, depth)
    match expr:
        case syntax.Number(text, span):
            number = _number_value(expr, names)
            if isinstance(number, float):
                raise names.error("not-affine", f"{role} is made of integers, and {short(text)} is none", span)
            return Affine.constant(number)
        case syntax.Name(text, span):
            if text in names.sizes:
                return names.size(names.sizes[text])
            if text in names.buffers:
                raise _data(text, span, names, role)
            raise names.unknown(syntax.Word(text, span), names.sizes)
        case syntax.Iterator():
            return Affine.iterator(names.iterator(expr))
        case syntax.Subscript(name, _, span):
            raise _data(names.buffer(name).name, span, names, role)
        case syntax.Call() if expr.name.text in CLAMPS:
            return _clamp(expr, names, role, depth)
        case syntax.Call(name, _, span):
            what = f"{short(name.text)}(…) is not"
            written = cure_of_line(names.source.line(span.line)) if name.text in ("range", "prange") else None
            if written is not None:
                raise names.error("not-affine", f"there is no {name.text}: {written[0]}", span)
            raise names.error("not-affine", f"{role} is quasi-affine, and {what}: {QUASI_AFFINE}", span)
        case syntax.Unary("-", arg):
            return -_affine(arg, names, role, depth + 1)
        case syntax.Binary(left, "+" | "-" | "*" | "//" | "%" as sign, right, span):
            a, b = _affine(left, names, role, depth + 1), _affine(right, names, role, depth + 1)
            return _combine(a, sign, b, span, names, role)
        case syntax.Binary(_, "/", _, span):
            raise names.error(
                "not-affine", f"{role} is made of integers: write // for the quotient rounded down", span
            )
        case syntax.Unary("~" as sign, _, span) | syntax.Binary(_, "&" | "|" | "^" | "<<" | ">>" as sign, _, span):
            cure = "write * // % by a constant" if sign in ("<<", ">>", "&") else "compute it into an integer tmp"
            message = f"{role} is quasi-affine, and '{sign}' is not: {QUASI_AFFINE}; {cure}"
            raise names.error("not-affine", message, span)
        case syntax.Unary(sign, _, span) | syntax.Binary(_, sign, _, span):
            raise names.error("not-affine", f"{role} is a number, and '{sign}' gives a truth value", span)


def _clamp(call: syntax.Call, names: NamesInScope, role: str, depth: int) -> Affine:
    """A min, a max, or what is spelled by them, in an index."""
    name = call.name.text
    if not role.startswith(INDEX):
        what = "min(…) stands only for a whole extent or in an index"
        if name != "min":
            what = f"{name}(…) stands only in an index"
        cure = "compare each operand by itself, joined by `and`" if role != "an extent" else "write min(A, B) alone"
        raise names.error("not-affine", f"{role} is quasi-affine, and {what}: {cure}", call.span)
    arity = CLAMPS[name]
    if arity is not None:
        _check_arity(call, arity, names)
    elif len(call.args) < 2:
        message = f"{name} takes two or more arguments in an index, not {len(call.args)}"
        raise names.error("wrong-arity", message, call.span)
    args = [_affine(arg, names, role, depth + 1) for arg in call.args]
    match name:
        case "min":
            return Affine.smallest(*args)
        case "max":
            return Affine.largest(*args)
        case "abs":
            return Affine.largest(args[0], -args[0])
    x, low, high = args
    return Affine.smallest(Affine.largest(x, low), high)


def _combine(a: Affine, sign: str, b: Affine, span: Span, names: NamesInScope, role: str) -> Affine:
    found = affine_operation(INFIX[sign], (a, b))
    if found is not None:
        return found
    if sign == "*":
        how = _how_to_write_product(a, b, role)
        raise names.error("not-affine", f"{role} is quasi-affine, and this multiplies two unknowns: {how}", span)
    if b.is_constant:
        raise names.error("not-affine", f"the right side of {sign} is a positive integer, not {b.offset}", span)
    cure = f"give the divisor a fixed value (NAME = INT in the kernel line), {_OR_DIMENSIONS}"
    cure += _OR_DATA if role.startswith(INDEX) else ""
    raise names.error("not-affine", f"{role} is quasi-affine, and this divides by an unknown: {cure}", span)


_OR_DATA = "; or compute it into a tmp of i64, and let that be the index, which is checked when it runs"
_OR_DIMENSIONS = "or declare a dimension and a scope for each part: x[G, C] with [{g}, {c}] for x[C*{g} + {c}]"


def factors(expr: syntax.Expr) -> list[str]:
    """The factors of a product of sizes, as they are written; none of anything else."""
    match expr:
        case syntax.Name(text):
            return [text]
        case syntax.Binary(left, "*", right):
            one, other = factors(left), factors(right)
            return [*one, *other] if one and other else []
    return []


def _how_to_write_product(a: Affine, b: Affine, role: str) -> str:
    """How to write what a product of two unknowns is to say."""
    sizes = not (a.iterators or b.iterators)
    fixed = "or give one a fixed value (NAME = INT in the kernel line)"
    match role:
        case "an extent" if sizes:
            return f"write a scope for each factor, {a} and inside it {b}, {fixed}"
        case "a condition":
            return f"write a condition on each factor, {fixed}"
        case _ if bool(a.iterators) != bool(b.iterators):
            size, index = (b, a) if a.iterators else (a, b)
            return (
                f"declare the buffer with a dimension for each factor, the last of them {size}, and write "
                f"[{index}, …] (it is the same memory), {fixed}"
            )
    return f"{QUASI_AFFINE}; {fixed.removeprefix('or ')}{_OR_DATA if role.startswith(INDEX) else ''}"


def _data(buffer: str, span: Span, names: NamesInScope, role: str) -> KernelError:
    message = f"{role} is made of sizes and iterators, and {buffer} is data"
    if role == "an extent":
        message += (
            f": a length from data stands beside another, as in min({buffer}[…], N), or its bound is declared"
        )
        message += f", `in {buffer}: … lengths(N)`, which each call checks"
    elif role == "a condition":
        message += ": a fact is about sizes; a statement may have a condition on data, y = x if c"
    return names.error("not-affine", message, span, names.note(names.buffers[buffer]))


def extent(expr: syntax.Expr, names: NamesInScope) -> tuple[Extent, tuple[Expr, ...]]:
    """How often a scope runs: `E`, or `min(E, E)`. Lengths that are data are apart: they need another beside
    them."""
    match expr:
        case syntax.Call(syntax.Word("min"), args, span):
            if len(args) < 2:
                raise names.error("wrong-arity", "min takes two or more extents: write one without min", span)
            bounds = [arg for arg in args if not _reads(arg, names)] or [args[0]]
            lengths = tuple(value(arg, names) for arg in args if arg not in bounds)
            return Extent(tuple(affine(arg, names, "an extent") for arg in bounds), span), lengths
        case _:
            return Extent((affine(expr, names, "an extent"),), expr.span), ()


def conditions(expr: syntax.Expr, names: NamesInScope) -> tuple[tuple[Condition, ...], tuple[Expr, ...]]:
    """The conditions of a guard, which `and` joins: comparisons of quasi-affine expressions; and apart, those that
    read data, or are joined by `or` and `not`."""
    affine_ones: list[Condition] = []
    others: list[Expr] = []
    for part in _joined(expr):
        if _reads(part, names) or (isinstance(part, syntax.Unary | syntax.Binary) and part.sign in ("or", "not")):
            others.append(value(part, names))
        else:
            affine_ones.append(condition(part, names))
    return tuple(affine_ones), tuple(others)


def affine_conditions(expr: syntax.Expr, names: NamesInScope) -> tuple[Condition, ...]:
    """Comparisons of quasi-affine expressions, joined by `and`."""
    return tuple(condition(part, names) for part in _joined(expr))


def _joined(expr: syntax.Expr) -> list[syntax.Expr]:
    """The operands of `and`, in the order of the text."""
    parts: list[syntax.Expr] = []
    while isinstance(expr, syntax.Binary) and expr.sign == "and":  # a and b and c is (a and b) and c
        parts.append(expr.right)
        expr = expr.left
    return [expr, *reversed(parts)]


def _reads(expr: syntax.Expr, names: NamesInScope) -> bool:
    """Whether there is an element of a buffer in an expression."""
    return any(
        isinstance(part, syntax.Subscript) or (isinstance(part, syntax.Name) and part.text in names.buffers)
        for part in syntax.every(expr)
    )


def condition(expr: syntax.Expr, names: NamesInScope) -> Condition:
    """A comparison of two quasi-affine expressions."""
    match expr:
        case syntax.Binary(left, sign, right, span) if sign in RELATIONS:
            return Condition(affine(left, names, "a condition"), sign, affine(right, names, "a condition"), span)
        case syntax.Binary(_, "and" | "or" as sign, _, span) | syntax.Unary("not" as sign, _, span):
            cure = "a guard joins comparisons by 'and' alone" if names.scopes is not None else "give one fact each"
            raise names.error("not-a-condition", f"'{sign}' cannot stand in a condition: {cure}", span)
        case _:
            cure = f"compare it, with one of {' '.join(RELATIONS)}"
            raise names.error("not-a-condition", f"a condition is a comparison: {cure}", expr.span)


# -- numbers -----------------------------------------------------------------------------------------------
def _number_value(number: syntax.Number, names: NamesInScope) -> int | float:
    text = number.text
    if text.isdigit():
        return integer(syntax.Word(text, number.span), names)
    result = float(text)
    if math.isinf(result) and text != "inf":
        raise names.error("number-too-large", "this number is larger than every f64: write inf", number.span)
    return result


def integer(word: syntax.Word | syntax.Number, names: NamesInScope) -> int:
    """The integer that a word stands for; at most 64 bits."""
    if not word.text.isdigit():
        raise names.error("not-an-integer", f"this is an integer, and {short(word.text)} is none", word.span)
    if len(word.text.lstrip("0")) > 20 or int(word.text) >= 2**64:
        raise names.error("number-too-large", "this integer has more than 64 bits", word.span)
    return int(word.text)


def _bounded(expr: Expr, span: Span, names: NamesInScope) -> Expr:
    """`expr`, unless folding it made an integer that no type holds."""
    match expr:
        case Const(int() as number) if not integer_fits(number):
            raise names.error("number-too-large", "this integer has more than 64 bits", span)
        case Index(affine):
            _check_magnitude(affine, span, names)
    return expr


def _check_magnitude(affine: Affine, span: Span, names: NamesInScope) -> None:
    if not affine_fits(affine):
        raise names.error("number-too-large", "an integer in this has more than 64 bits", span)


def _check_depth(expr: syntax.Expr, names: NamesInScope, depth: int) -> None:
    if depth > DEEPEST_EXPRESSION:
        cure = "compute a part of it into a tmp first"
        raise names.error("too-deep", f"an expression nests at most {DEEPEST_EXPRESSION} deep: {cure}", expr.span)


def _count(number: int, one: str, many: str | None = None) -> str:
    return f"{number or 'no'} {one if number == 1 else many or one + 's'}"
