"""Types: each statement elaborated into a tree in which every value has a type and every conversion is explicit.

Numbers, sizes and iterators are *weak*: an integer one takes any numeric type that its context asks for, a
float one any float type. Weak operands alone stay weak; with no context they are i64 and f64. Floats mix (f64
if one of them is, else f32: an operation never has a narrower type, only loads and casts do). Integers, floats
and bools never mix without a cast. The interpreter and the lowering both work on what `elaborate` gives.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import NoReturn

from dojoir.errors import Diagnostic, KernelError
from dojoir.ir.affine import Affine
from dojoir.ir.dtypes import BOOL, DTYPES, F32, F64, I64, DType
from dojoir.ir.format import format_access, format_expr
from dojoir.ir.nodes import (
    Access,
    Buffer,
    Cast,
    Const,
    Expr,
    Index,
    Kernel,
    Op,
    Statement,
    substitute_expr,
    substitute_iterators,
)
from dojoir.ir.operations import ACCUMULATIONS, COMPARED, OF_KEYS, OPERATIONS, PRODUCT, Class
from dojoir.ir.where import place
from dojoir.support.frozen import dataclass
from dojoir.types.pair_keys import has_code, is_place, key_of, part_of
from dojoir.types.rounding import nearest
from dojoir.types.typed import Apply, Convert, IndexValue, Load, Number, Typed, TypedStatement, convert


# -- elaboration -------------------------------------------------------------------------------------------
def elaborate(statement: Statement, buffers: Mapping[str, Buffer]) -> TypedStatement:
    """The statement with every type made explicit. Names and ranks must be right already.

    Raises KernelError (`type-mismatch`, `type-operand`, `number-range`) with the place of the culprit.
    """
    try:
        return _typed_statement(statement, buffers)
    except _Clash as clash:
        raise KernelError(
            Diagnostic(clash.code, clash.message, (clash.part and clash.part.loc) or statement.loc)
        ) from None


def check(kernel: Kernel) -> tuple[TypedStatement, ...]:
    """The statements of the kernel, in the order of `kernel.sites`, with every type made explicit.

    Raises KernelError, showing the line, for the first one whose types do not fit.
    """
    buffers = {buffer.name: buffer for buffer in kernel.buffers}
    typed: list[TypedStatement] = []
    for site in kernel.sites:
        try:
            typed.append(_typed_statement(site.statement, buffers))
        except _Clash as clash:
            source, span = place(kernel, site.path, clash.part)
            raise KernelError(Diagnostic(clash.code, clash.message, span, source)) from None
    return tuple(typed)


def natural_type(expr: Expr, buffers: Mapping[str, Buffer]) -> DType | None:
    """The type that an expression has whatever its context; None for a weak one, and for one that is not typed."""
    try:
        value = _elaborate(expr, buffers)
    except _Clash:
        return None
    return None if isinstance(value, _Weak) else value.dtype


def settled_type(expr: Expr, buffers: Mapping[str, Buffer]) -> DType:
    """The type that an expression has where nothing around it asks for one. It must be well typed."""
    return _settle(_elaborate(expr, buffers)).dtype


def is_integer(expr: Expr, buffers: Mapping[str, Buffer]) -> bool:
    """Whether an expression has an integer type, or can take one."""
    try:
        value = _elaborate(expr, buffers)
    except _Clash:
        return False
    return not value.floating if isinstance(value, _Weak) else value.dtype.is_integer


_WHOLE = frozenset({Class.INTEGER, Class.BITS, Class.SHIFT})
"""The operations that are defined for integers only."""


class _Clash(Exception):
    """Types that do not fit, at the expression `culprit`."""

    def __init__(self, code: str, message: str, culprit: Expr) -> None:
        super().__init__(message)
        self.code, self.message = code, message
        self.part = culprit if isinstance(culprit, Access | Op | Cast) else None


@dataclass(frozen=True)
class _Weak:
    """An expression of numbers, sizes and iterators that has no type yet. `args` are its elaborated operands:
    weak ones, and for select a typed condition."""

    expr: Const | Index | Op
    floating: bool
    args: tuple[Typed | _Weak, ...] = ()


def _typed_statement(statement: Statement, buffers: Mapping[str, Buffer]) -> TypedStatement:
    match statement.value:
        case Op("when", (condition, guarded)) as when:
            bare = _typed_statement(replace(statement, value=guarded), buffers)
            return replace(bare, condition=_condition(when, condition, _elaborate(condition, buffers)))
    target, expr = statement.target, statement.value
    _check_gathers(target, buffers)
    dtype = buffers[target.buffer].dtype
    value = _elaborate(expr, buffers)
    if statement.op not in ACCUMULATIONS:
        typed = _adapt(value, dtype.compute if dtype.is_float else dtype) if isinstance(value, _Weak) else value
        if _family(typed.dtype) != _family(dtype):
            _mismatch_store(target, dtype, expr, typed.dtype)
        if statement.fused and isinstance(typed, Apply):
            return TypedStatement(target, dtype, "add", Apply(typed.dtype, "mul", typed.args[:2]), fused=True)
        return TypedStatement(target, dtype, None, typed)
    op = ACCUMULATIONS[statement.op]
    if dtype.is_nibble:
        message = f"{format_access(target)} is {dtype}, which is only stored: accumulate in {dtype.compute}"
        raise _Clash("type-operand", f"{message} or wider, and store that", target)
    bits = OPERATIONS[op].kind is Class.BITS
    if dtype == BOOL if not bits else dtype.is_float:
        name = format_access(target)
        need = "an integer or a bool" if bits else "a number"
        cure = "accumulate bits into an integer" if bits else "accumulate into an integer, or by &=, |= or ^="
        raise _Clash("type-operand", f"'{statement.op}' needs {need}, and {name} is {dtype}: {cure}", target)
    if not isinstance(value, _Weak) and _family(value.dtype) != _family(dtype):
        _mismatch_store(target, dtype, expr, value.dtype)
    combined = _common([target, expr], [Load(dtype, target), value])
    return TypedStatement(target, dtype, op, _adapt(value, combined))


def _elaborate(expr: Expr, buffers: Mapping[str, Buffer]) -> Typed | _Weak:
    match expr:
        case Const(value):
            return _Weak(expr, type(value) is float)
        case Index():
            return _Weak(expr, False)
        case Access(buffer):
            _check_gathers(expr, buffers)
            return Load(buffers[buffer].dtype, expr)
        case Cast(dtype, arg, way=way) if way in OF_KEYS:
            return _part_of_key(expr, _elaborate(arg, buffers))
        case Cast(dtype, arg, way=way) if way != "cast":
            return _by_name(expr, dtype, way, _elaborate(arg, buffers))
        case Cast(dtype, Const(value)) if type(value) is int and dtype.is_integer:
            return Number(dtype, _wrap(value, dtype))
        case Cast(dtype, arg):
            return convert(dtype, _settle(_elaborate(arg, buffers)))
        case Op(name, args):
            return _operation(expr, name, args, [_elaborate(arg, buffers) for arg in args])


def _by_name(expr: Cast, dtype: DType, way: str, given: Typed | _Weak) -> Typed:
    """A conversion by name; one that is a plain one is that."""
    text = format_expr(expr.arg)
    if way == "bitcast" and isinstance(given, _Weak):
        raise _Clash(
            "type-operand", f"bitcast needs a value of a type, and {text} has none: write u32({text})", expr
        )
    value = _settle(given)
    source = value.dtype
    if BOOL in (dtype, source):
        cure = f"{text} != 0" if dtype == BOOL else f"u8({text})"
        raise _Clash("type-operand", f"{way} is between numbers, and this is of bool: write {cure}", expr)
    if way == "bitcast":
        widths = {8 * one.itemsize for one in (dtype, source)}
        if len(widths) > 1 or (dtype.bits != source.bits and {dtype.kind, source.kind} != {"f", "u"}):
            code = f": the code of {source} is a u{8 * source.itemsize}" if source.is_float else ""
            message = f"bitcast is between types of one width, and {text} is {source}, not of that of {dtype}{code}"
            raise _Clash("type-operand", message, expr)
        code_type = DTYPES[f"u{8 * dtype.itemsize}"]
        if dtype == source or not (dtype.is_float or source.is_float):
            return convert(dtype, value)
        if source.is_float:
            value = Convert(code_type, value, way)
        return Convert(dtype, convert(code_type, value), way) if dtype.is_float else convert(dtype, value)
    if not (dtype.is_float or source.is_float):
        if way == "sat":
            return convert(dtype, value) if _holds(dtype, source) else Convert(dtype, value, way)
        raise _Clash("type-operand", f"{way} rounds, and {text} is {source}: write sat({dtype}, {text})", expr)
    if dtype.is_integer:  # a float is truncated, and saturates
        return Convert(dtype, value, way) if way == "round_away" else convert(dtype, value)
    if dtype == F64 and source.bits == 64 and source.is_integer and way != "sat":
        raise _Clash("type-operand", f"{way} to f64 is of floats, and {text} is {source}: write f64({text})", expr)
    exact = dtype.bits > source.bits and dtype.bits >= 32 and (source.is_float or dtype == F64)
    if way != "sat" and (exact or dtype == source):
        return convert(dtype, value)
    return (
        convert(dtype, value)
        if way == "sat" and source.is_integer and dtype.bits >= 32
        else Convert(dtype, value, way)
    )


def _holds(dtype: DType, source: DType) -> bool:
    """Whether an integer type has all numbers of another."""
    return dtype.bits > source.bits if dtype.kind == "i" else source.kind == "u" and dtype.bits >= source.bits


def _operation(op: Op, name: str, exprs: tuple[Expr, ...], values: list[Typed | _Weak]) -> Typed | _Weak:
    kind = OPERATIONS[name].kind
    if kind is Class.SHIFT:
        return _shift(op, name, exprs, values)
    if kind is Class.KEY:
        return _key(op, values)
    match kind:
        case Class.LOGICAL:
            conditions = tuple(_condition(op, e, v) for e, v in zip(exprs, values, strict=True))
            return Apply(BOOL, name, conditions)
        case Class.SELECT:
            first: tuple[Typed, ...] = (_condition(op, exprs[0], values[0]),)
            exprs, values = exprs[1:], values[1:]
        case Class.WHEN:
            raise _Clash("misplaced-condition", "only the whole value of a statement has a condition", op)
        case _:
            first = ()
            for e, v in zip(exprs, values, strict=True):
                _check_operand(op, kind, e, v)
    weak = [v for v in values if isinstance(v, _Weak)]
    if len(weak) == len(values):
        floating = kind is Class.FLOAT or any(v.floating for v in weak)
        if kind is not Class.COMPARISON:
            return _Weak(op, floating, (*first, *weak))
        common = F64 if floating else I64
    else:
        common = _common(exprs, values)
    adapted = tuple(_adapt(v, common) for v in values)
    return Apply(BOOL if kind is Class.COMPARISON else common, name, (*first, *adapted))


def _shift(op: Op, name: str, exprs: tuple[Expr, ...], values: list[Typed | _Weak]) -> Typed | _Weak:
    """`a << n`, `a >> n`: of the type of `a`, or of that of `n` where `a` is weak. A known count is in range."""
    for e, v in zip(exprs, values, strict=True):
        _check_operand(op, Class.SHIFT, e, v)
    number, count = values
    if isinstance(number, _Weak):
        if isinstance(count, _Weak):
            _check_count(op, exprs[1], I64)
            return _Weak(op, False, (number, count))
        number = _adapt(number, count.dtype)
    number = convert(number.dtype.compute, number)
    _check_count(op, exprs[1], number.dtype)
    if isinstance(count, _Weak):
        count = _adapt(count, number.dtype if isinstance(exprs[1], Const) else I64)
    count = convert(count.dtype.compute, count) if count.dtype.is_integer else count
    return Apply(number.dtype, name, (number, count))


def _key(op: Op, values: list[Typed | _Weak]) -> Typed:
    """`argmax_key(v, p)`, `argmin_key(v, p)`: an i64. The place may be weak."""
    (value, place), (text, at) = values, map(format_expr, op.args)
    if isinstance(value, _Weak):
        cast = "f32" if value.floating else "i32"
        raise _Clash(
            "type-operand", f"{op.name} needs a value of a type, and {text} has none: write {cast}({text})", op
        )
    if not has_code(value.dtype):
        narrow = "f32" if value.dtype.is_float else "i32"
        message = f"the value of a pair has at most 32 bits, and {text} is {value.dtype}: write {narrow}({text})"
        raise _Clash("type-operand", message, op)
    if isinstance(place, _Weak) and not place.floating:
        return key_of(op.name, value, _settle(place))
    if isinstance(place, _Weak) or not is_place(place.dtype):
        raise _Clash(
            "type-operand", f"the place of a pair is an i32, and {at} is {_describe(place)}: write i32({at})", op
        )
    return key_of(op.name, value, place)


def _part_of_key(expr: Cast, key: Typed | _Weak) -> Typed:
    """`value_of(T, key)`, `argmax_of(T, key)`, `argmin_of(T, key)`."""
    dtype, way, text = expr.dtype, expr.way, format_expr(expr.arg)
    if isinstance(key, _Weak) or key.dtype != I64:
        raise _Clash("type-operand", f"{way} needs a key, an i64, and {text} is {_describe(key)}", expr)
    if not has_code(dtype) if way == "value_of" else not dtype.is_integer:
        need = "of at most 32 bits" if way == "value_of" else "an integer"
        narrow = "f32" if way == "value_of" and dtype.is_float else "i32"
        cure = f"write {dtype}({way}({narrow}, {text}))"
        raise _Clash("type-operand", f"what {way} gives is {need}, and {dtype} is not: {cure}", expr)
    return (
        part_of(way, dtype.compute, key)
        if dtype.compute == dtype
        else convert(dtype, part_of(way, dtype.compute, key))
    )


def _check_count(op: Op, count: Expr, dtype: DType) -> None:
    """That a count which is a number is one by which `dtype` can be shifted."""
    known = count.arg if isinstance(count, Cast) else count
    if isinstance(known, Const) and not 0 <= known.value < dtype.bits:
        symbol = OPERATIONS[op.name].symbol
        message = f"{dtype} is shifted by 0 to {dtype.bits - 1}, and this is '{symbol} {format_expr(count)}'"
        raise _Clash("bad-shift", message, op)


def _check_operand(op: Op, kind: Class, expr: Expr, value: Typed | _Weak) -> None:
    """That a number, float or integer operand is one; a comparison of bools is for equality only."""
    text = format_expr(expr)
    spelled = f"'{OPERATIONS[op.name].symbol or op.name}'"
    if kind is Class.INTEGER:
        _check_division(op, expr, value)
    if kind in _WHOLE and isinstance(value, _Weak) and value.floating:
        raise _Clash("type-operand", f"{spelled} needs an integer, and {text} is a float: write i64({text})", expr)
    if isinstance(value, _Weak):
        return
    dtype = value.dtype
    match kind:
        case Class.FLOAT if not dtype.is_float:
            need, cure = "a float", f"{_float_for(dtype)}({text})"
        case Class.BITS | Class.SHIFT if dtype == BOOL:
            word = {"bitand": "and", "bitor": "or", "bitxor": "!=", "bitnot": "not"}.get(op.name)
            instead = f": of bools write '{word}'" if word else f": write i32({text})"
            raise _Clash("type-operand", f"{spelled} needs an integer, and {text} is bool{instead}", expr)
        case Class.INTEGER | Class.BITS | Class.SHIFT if not dtype.is_integer:
            need, cure = "an integer", f"i64({text})" + ("; a power is pow(x, y)" if op.name == "bitxor" else "")
        case Class.ARITHMETIC if dtype == BOOL:
            need, cure = "a number", f"i32({text})"
        case Class.COMPARISON if dtype == BOOL and op.name not in ("eq", "ne"):
            need, cure = "a number", f"i32({text})"
        case _:
            return
    raise _Clash("type-operand", f"{spelled} needs {need}, and {text} is {dtype}: write {cure}", expr)


def _check_division(op: Op, expr: Expr, value: Typed | _Weak) -> None:
    """That an operand of // or % is no float, and no divisor that is 0."""
    spelled, (left, right) = OPERATIONS[op.name].symbol, (format_expr(arg, str, PRODUCT + 1) for arg in op.args)
    known = value.expr if isinstance(value, _Weak) else value
    if expr is op.args[1] and isinstance(known, Const | Number) and known.value == 0:
        raise _Clash("zero-divisor", f"this divides by 0: '{format_expr(op)}'", op)
    if value.floating if isinstance(value, _Weak) else value.dtype.is_float:
        quotient = f"floor({left} / {right})"
        cure = quotient if op.name == "floordiv" else f"{left} - {right} * {quotient}"
        has = f"{format_expr(expr)} is {_describe(value)}"
        raise _Clash("type-operand", f"'{spelled}' needs an integer, and {has}: write {cure}", expr)


def _condition(op: Op, expr: Expr, value: Typed | _Weak) -> Typed:
    if isinstance(value, _Weak) or value.dtype != BOOL:
        text = format_expr(expr, str, COMPARED)
        has = _describe(value)
        spelled = f"'{OPERATIONS[op.name].symbol or op.name}'"
        raise _Clash("type-operand", f"{spelled} needs a bool, and {text} is {has}: write {text} != 0", expr)
    return value


def _common(exprs: Sequence[Expr], values: Sequence[Typed | _Weak]) -> DType:
    """The type in which an operation on `values`, at least one of which is not weak, is done."""
    typed = [(e, v.dtype) for e, v in zip(exprs, values, strict=True) if not isinstance(v, _Weak)]
    expr, dtype = typed[0]
    for other, its in typed[1:]:
        if _family(its) != _family(dtype):
            _mismatch(expr, dtype, other, its)
    for other, value in zip(exprs, values, strict=True):
        if isinstance(value, _Weak) and (dtype == BOOL or (value.floating and not dtype.is_float)):
            cast = "i32" if dtype == BOOL else _float_for(dtype)
            message = f"{dtype} and {_describe(value)} do not mix: write {cast}({format_expr(expr)})"
            raise _Clash("type-mismatch", message, expr if isinstance(expr, Access | Op | Cast) else other)
    if not dtype.is_float:
        return dtype.compute
    return F64 if any(its == F64 for _, its in typed) else F32


def _adapt(value: Typed | _Weak, dtype: DType) -> Typed:
    """The value in the type `dtype`: a weak one computed in it, any other converted."""
    if not isinstance(value, _Weak):
        return convert(dtype, value)
    match value.expr:
        case _ if dtype == BOOL or (value.floating and dtype.is_integer):
            text = format_expr(value.expr)
            cure = f"{text} != 0" if dtype == BOOL else f"{dtype}({text})"
            message = f"{text} is {_describe(value)}, where {dtype} is needed: write {cure}"
            raise _Clash("type-mismatch", message, value.expr)
        case Const(number):
            if dtype.is_float:
                return Number(dtype, nearest(number, dtype))
            assert isinstance(number, int)
            if _wrap(number, dtype) != number:
                message = f"{number} does not fit in {dtype}: write {dtype}({number}) to wrap it"
                raise _Clash("number-range", message, value.expr)
            return Number(dtype, number)
        case Index(affine):
            return convert(dtype, IndexValue(affine))
        case Op(name):
            # What is of integers only is done in i64, whatever the context.
            inner = I64 if OPERATIONS[name].kind in _WHOLE else dtype.compute
            args = tuple(_adapt(a, inner) if isinstance(a, _Weak) else a for a in value.args)
            return convert(dtype, Apply(inner, name, args))


def _settle(value: Typed | _Weak) -> Typed:
    """The value where nothing around it asks for a type."""
    return _adapt(value, F64 if value.floating else I64) if isinstance(value, _Weak) else value


def _check_gathers(access: Access, buffers: Mapping[str, Buffer]) -> None:
    for index in access.indices:
        if isinstance(index, Access):
            dtype = buffers[index.buffer].dtype
            if not dtype.is_integer:
                text = format_access(index)
                raise _Clash("type-operand", f"an index must be an integer, and {text} is {dtype}", index)
            _check_gathers(index, buffers)


# -- words -------------------------------------------------------------------------------------------------
def _family(dtype: DType) -> str:
    """Types of one family go together without a cast: all floats, or one integer type, or bool."""
    return "float" if dtype.is_float else dtype.compute.name


def _float_for(dtype: DType) -> DType:
    """The float type to suggest for an integer or bool."""
    return F64 if dtype.bits == 64 else F32


def _describe(value: Typed | _Weak) -> str:
    if isinstance(value, _Weak):
        return "a float" if value.floating else "an integer"
    return value.dtype.name


def _mismatch(left: Expr, its: DType, right: Expr, other: DType) -> NoReturn:
    """Suggests a cast of the operand that loses nothing: bool before integer before float, narrow before wide."""

    def rank(dtype: DType) -> tuple[int, int]:
        return ("biuf".index(dtype.kind) if dtype.kind != "u" else 1, dtype.bits)

    culprit, to = (left, other) if rank(its) <= rank(other) else (right, its)
    to = to.compute
    message = f"{its} and {other} do not mix: write {to}({format_expr(culprit)})"
    raise _Clash("type-mismatch", message, culprit)


def _mismatch_store(target: Access, dtype: DType, expr: Expr, its: DType) -> NoReturn:
    text = format_expr(expr)
    cure = f"{format_expr(expr, str, COMPARED)} != 0" if dtype == BOOL else f"{dtype}({text})"
    raise _Clash("type-mismatch", f"{format_access(target)} is {dtype} and its value is {its}: write {cure}", expr)


def _wrap(value: int, dtype: DType) -> int:
    """The integer modulo 2**bits, in the range of `dtype`."""
    value &= (1 << dtype.bits) - 1
    return value - (1 << dtype.bits) if dtype.kind == "i" and value >> (dtype.bits - 1) else value


def definition_value(statement: Statement, at: tuple[Affine, ...], buffers: Mapping[str, Buffer]) -> Expr | None:
    """The value that reading the target of a plain assignment yields, in terms of the iterators `at`: its value,
    cast to the type of the target where that is another. None for an expression of numbers and iterators that
    would be computed in another type elsewhere."""
    dtype = buffers[statement.target.buffer].dtype
    natural = natural_type(statement.value, buffers)
    if natural is None and not isinstance(statement.value, Const | Index):
        return None
    value = substitute_expr(statement.value, substitute_iterators(dict(enumerate(at))))
    return value if natural == dtype else Cast(dtype, value)
