"""Operators of elements: arithmetic, comparisons, functions, choices, casts, tensors that are made of numbers."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import torch

from dojoir.ir.dtypes import BOOL, I8, I32, I64, U8, DType
from dojoir.ir.operations import OPERATIONS, Class
from dojoir.torch.importer.builder import Operand, ProgramBuilder, Tensor, Unsupported
from dojoir.torch.importer.element_values import (
    IndexAsValue,
    Number,
    Value,
    apply,
    cast,
    compare,
    lowest,
    number,
    select,
)
from dojoir.torch.importer.index import IndexSum, as_index

aten: Any = torch.ops.aten
prims: Any = torch.ops.prims

Make = Callable[..., Value]


def _one(value: Value, factor: float = 1.0) -> Number:
    return number(factor, value.dtype)


# -- functions of one element -------------------------------------------------------------------------------
def _written_call(name: str) -> Make:
    return lambda *args: apply(name, *args)


def _sign(x: Value) -> Value:
    """-1, 0 or 1; 0 of a NaN, as PyTorch has it."""
    if x.dtype == BOOL:
        return x
    zero = _one(x, 0)
    positive = select(compare(">", x, zero), _one(x), zero)
    return positive if x.dtype == U8 else select(compare("<", x, zero), _one(x, -1), positive)


def _trunc(x: Value) -> Value:
    return x if not x.dtype.is_float else select(compare("<", x, _one(x, 0)), apply("ceil", x), apply("floor", x))


def _rounded(name: str) -> Make:
    return lambda x: apply(name, x) if x.dtype.is_float else x


def _is_infinite(x: Value) -> Value:
    return compare("==", apply("abs", x), _one(x, math.inf)) if x.dtype.is_float else number(False, BOOL)


def relu(x: Value) -> Value:
    """`max(x, 0)`."""
    return apply("max", x, _one(x, 0))


_FLOAT: dict[str, Make] = {
    **{op.name: _written_call(op.name) for op in OPERATIONS.values() if op.kind is Class.FLOAT and op.arity == 1},
    "reciprocal": lambda x: apply("/", _one(x), x),
}  # fmt: skip
"""The operations that give a float for any number."""

_SAME: dict[str, Make] = {
    "neg": _written_call("neg"), "abs": _written_call("abs"), "relu": relu, "sign": _sign, "trunc": _trunc,
    "floor": _rounded("floor"), "ceil": _rounded("ceil"), "round": _rounded("round"),
    "square": lambda x: apply("*", x, x), "alias": lambda x: x, "detach": lambda x: x, "clone": lambda x: x,
    "lift_fresh_copy": lambda x: x, "lift_fresh": lambda x: x, "lift": lambda x: x,
    "positive": lambda x: x, "bitwise_not": lambda x: _not(x),
}  # fmt: skip
"""The operations that give the type of their operand."""


def _not(x: Value) -> Value:
    return apply("not" if x.dtype == BOOL else "~", x)


def _unary(make: Make) -> Callable[..., Tensor]:
    def lower(b: ProgramBuilder, x: Tensor, **_: Any) -> Tensor:
        kind = b.dtype()
        return b.pointwise(x.shape, kind, make, b.as_tensor(x, kind))

    return lower


def _question(make: Make) -> Callable[..., Tensor]:
    return lambda b, x: b.pointwise(x.shape, BOOL, make, x)


# -- of two -------------------------------------------------------------------------------------------------
def _binary(make: Make) -> Callable[..., Tensor]:
    def lower(b: ProgramBuilder, x: Operand, y: Operand, **_: Any) -> Tensor:
        kind = b.dtype()
        return b.pointwise(b.shape(), kind, make, b.as_tensor(x, kind), b.as_tensor(y, kind))

    return lower


def _scaled(sign: str, is_turned: bool = False) -> Callable[..., Tensor]:
    """Sum or difference; `alpha` multiplies the second."""

    def lower(b: ProgramBuilder, x: Operand, y: Operand, *, alpha: Any = 1, **_: Any) -> Tensor:
        kind = b.dtype()
        left, right = b.as_tensor(x, kind), b.as_tensor(y, kind)

        def make(p: Value, q: Value) -> Value:
            q = q if alpha == 1 else apply("*", q, number(alpha, kind))
            if kind == BOOL:
                return apply("or", p, q)
            return apply(sign, q, p) if is_turned else apply(sign, p, q)

        return b.pointwise(b.shape(), kind, make, left, right)

    return lower


def _times(p: Value, q: Value) -> Value:
    return apply("and" if p.dtype == BOOL else "*", p, q)


def _extreme(name: str) -> Make:
    """The larger or smaller of two; NaN wins."""

    def make(p: Value, q: Value) -> Value:
        return apply({"max": "or", "min": "and"}[name] if p.dtype == BOOL else name, p, q)

    return make


def _known_extreme(name: str) -> Make:
    """The larger or smaller of two values; the other one where one is NaN (`fmax`, `fmin`)."""

    def make(p: Value, q: Value) -> Value:
        found = _extreme(name)(p, q)
        if not p.dtype.is_float:
            return found
        return select(compare("!=", p, p), q, select(compare("!=", q, q), p, found))

    return make


def _signbit(x: Value) -> Value:
    if x.dtype.is_float:
        return compare("<", apply("copysign", _one(x), x), _one(x, 0))
    return number(False, BOOL) if x.dtype in (U8, BOOL) else compare("<", x, _one(x, 0))


def _is_uneven(p: Value, q: Value, rest: Value) -> Value:
    """Whether a quotient of integers is negative and has a remainder: then rounding down and rounding towards 0
    differ."""
    zero = number(0, p.dtype)
    apart = compare("!=", compare("<", p, zero), compare("<", q, zero))
    return apply("and", apart, compare("!=", rest, zero))


def _div(b: ProgramBuilder, x: Operand, y: Operand, *, rounding_mode: str | None = None) -> Tensor:
    kind = b.dtype()

    def make(p: Value, q: Value) -> Value:
        match rounding_mode:
            case None:
                return apply("/", p, q)
            case "floor":
                return apply("floor_div" if kind.is_float else "//", p, q)
            case _ if kind.is_float:
                return _trunc(apply("/", p, q))
            case _:
                down = apply("//", p, q)
                if kind == U8:
                    return down
                return select(_is_uneven(p, q, apply("%", p, q)), apply("+", down, number(1, kind)), down)

    return b.pointwise(b.shape(), kind, make, b.as_tensor(x, kind), b.as_tensor(y, kind))


def _remainder(p: Value, q: Value) -> Value:
    return apply("floor_mod" if p.dtype.is_float else "%", p, q)


def _fmod(p: Value, q: Value) -> Value:
    if p.dtype.is_float:
        return apply("fmod", p, q)
    rest = apply("%", p, q)
    return rest if p.dtype == U8 else select(_is_uneven(p, q, rest), apply("-", rest, q), rest)


def power(x: Value, exponent: Value) -> Value:
    """A power; of a number that is known by products and roots."""
    if isinstance(exponent, Number):
        match float(exponent.value):
            case 0.0:
                return _one(x)
            case 1.0:
                return x
            case 2.0:
                return apply("*", x, x)
            case 3.0:
                return apply("*", apply("*", x, x), x)
            case 4.0:
                return apply("*", apply("*", x, x), apply("*", x, x))
            case 0.5 if x.dtype.is_float:
                return apply("sqrt", x)
            case -0.5 if x.dtype.is_float:
                return apply("rsqrt", x)
            case -1.0 if x.dtype.is_float:
                return apply("/", _one(x), x)
            case -2.0 if x.dtype.is_float:
                inverse = apply("/", _one(x), x)
                return apply("*", inverse, inverse)
            case _:
                pass
    if not x.dtype.is_float:
        raise Unsupported("a power of integers whose exponent is not known")
    return apply("pow", x, exponent)


def _comparison(sign: str) -> Callable[..., Tensor]:
    def lower(b: ProgramBuilder, x: Operand, y: Operand) -> Tensor:
        kind = b.named(torch.result_type(*map(_raw, b.node.args[:2])))
        kind = I8 if kind == BOOL and sign not in ("==", "!=") else kind
        left, right = b.as_tensor(x, kind), b.as_tensor(y, kind)
        return b.pointwise(b.shape(), BOOL, lambda p, q: _compared(sign, p, q), left, right)

    return lower


def _compared(sign: str, p: Value, q: Value) -> Value:
    if p.dtype == BOOL and not isinstance(p, Number) and not isinstance(q, Number):
        p, q = cast(p, I32), cast(q, I32)
    elif p.dtype == BOOL:
        value, known = (p, q) if isinstance(q, Number) else (q, p)
        assert isinstance(known, Number)
        return value if bool(known.value) == (sign == "==") else apply("not", value)
    return compare(sign, p, q)


def _raw(arg: Any) -> Any:
    """An argument of a node as PyTorch's type promotion takes it: its fake tensor, and 1 for a size."""
    value = arg.meta["val"] if hasattr(arg, "meta") else arg
    return 1 if isinstance(value, torch.SymInt) else value


def _logical(name: str) -> Callable[..., Tensor]:
    def lower(b: ProgramBuilder, x: Operand, y: Operand) -> Tensor:
        def make(p: Value, q: Value) -> Value:
            if name == "!=":
                return compare("!=", cast(p, I32), cast(q, I32))
            return apply(name, p, q, dtype=BOOL)

        return b.pointwise(b.shape(), BOOL, make, b.as_tensor(x, BOOL), b.as_tensor(y, BOOL))

    return lower


def _bits(sign: str, word: str) -> Callable[..., Tensor]:
    def make(p: Value, q: Value) -> Value:
        if p.dtype != BOOL:
            return apply(sign, p, q)
        if sign == "^":
            return compare("!=", cast(p, I32), cast(q, I32))
        return apply(word, p, q)

    return _binary(make)


# -- choices, limits, casts -----------------------------------------------------------------------------------
def _where(b: ProgramBuilder, condition: Tensor, x: Operand, y: Operand) -> Tensor:
    kind = b.dtype()
    asked = b.as_tensor(condition, BOOL)
    return b.pointwise(b.shape(), kind, select, asked, b.as_tensor(x, kind), b.as_tensor(y, kind))


def _clamp(b: ProgramBuilder, x: Tensor, low: Operand | None = None, high: Operand | None = None) -> Tensor:
    kind = b.dtype()
    made = b.as_tensor(x, kind)
    for name, limit in (("max", low), ("min", high)):
        if limit is not None:
            if not kind.is_float and isinstance(limit, int | float):
                limit = min(max(limit, lowest(kind, "max=")), lowest(kind, "min="))
            made = b.pointwise(b.shape(), kind, _extreme(name), made, b.as_tensor(limit, kind))
    return made


def _hardtanh(b: ProgramBuilder, x: Tensor, low: float = -1.0, high: float = 1.0) -> Tensor:
    return _clamp(b, x, low, high)


def _leaky_relu(b: ProgramBuilder, x: Tensor, slope: float = 0.01) -> Tensor:
    def make(p: Value) -> Value:
        return select(compare(">", p, _one(p, 0)), p, apply("*", p, _one(p, slope)))

    return b.pointwise(x.shape, x.dtype, make, x)


def _gelu(b: ProgramBuilder, x: Tensor, *, approximate: str = "none") -> Tensor:
    def make(p: Value) -> Value:
        half = apply("*", p, _one(p, 0.5))
        if approximate == "tanh":
            cube = apply("*", apply("*", p, p), p)
            inner = apply("+", p, apply("*", cube, _one(p, 0.044715)))
            grown = apply("tanh", apply("*", inner, _one(p, math.sqrt(2 / math.pi))))
        else:
            grown = apply("erf", apply("*", p, _one(p, math.sqrt(0.5))))
        return apply("*", half, apply("+", _one(p), grown))

    return b.pointwise(x.shape, x.dtype, make, x)


def _silu(b: ProgramBuilder, x: Tensor) -> Tensor:
    return b.pointwise(x.shape, x.dtype, lambda p: apply("*", p, apply("sigmoid", p)), x)


def _mish(b: ProgramBuilder, x: Tensor) -> Tensor:
    """x tanh(log(1 + e)) for e = exp(x): the hyperbolic tangent is n / (n + 2) of n = e (e + 2), which is 1 from 20
    on in all types."""

    def make(p: Value) -> Value:
        e = apply("exp", select(compare(">", p, _one(p, 20)), _one(p, 20), p))
        n = apply("*", e, apply("+", e, _one(p, 2)))
        return apply("*", p, apply("/", n, apply("+", n, _one(p, 2))))

    return b.pointwise(x.shape, x.dtype, make, x)


def _cast(b: ProgramBuilder, x: Operand, *_: Any, **__: Any) -> Tensor:
    return b.as_tensor(x, b.dtype())


# -- made of numbers -----------------------------------------------------------------------------------------
def _filled(value: float | None) -> Callable[..., Tensor]:
    def lower(b: ProgramBuilder, *args: Any, **_: Any) -> Tensor:
        given = args[1] if value is None else value
        if isinstance(given, Tensor | IndexSum):
            return b.broadcast(b.as_tensor(given, b.dtype()), b.shape())
        return b.full(b.shape(), given, b.dtype())

    return lower


def _arange(b: ProgramBuilder, *args: Any, **_: Any) -> Tensor:
    start, step = (0, 1) if len(args) == 1 else (args[0], args[2] if len(args) > 2 else 1)
    return _iota(b, b.shape(), start, step, b.dtype())


def _iota(b: ProgramBuilder, shape: tuple[IndexSum, ...], start: Any, step: Any, kind: DType) -> Tensor:
    if kind.is_float:

        def at(index: tuple[IndexSum, ...]) -> Value:
            moved = apply("*", cast(IndexAsValue(index[0], I64), kind), number(step, kind))
            return apply("+", moved, b.as_tensor(start, kind).at(()))
    else:

        def at(index: tuple[IndexSum, ...]) -> Value:
            return IndexAsValue(index[0] * as_index(step) + as_index(start), kind)

    return Tensor(shape, kind, at)


def _copy(b: ProgramBuilder, x: Tensor, source: Tensor, *_: Any) -> Tensor:
    return b.broadcast(b.as_tensor(source, b.dtype()), b.shape())


TABLE: dict[Any, Callable[..., Any]] = {
    **{getattr(aten, n).default: _unary(f) for n, f in {**_FLOAT, **_SAME}.items() if hasattr(aten, n)},
    aten.isnan.default: _question(lambda x: compare("!=", x, x) if x.dtype.is_float else number(False, BOOL)),
    aten.isinf.default: _question(_is_infinite),
    aten.logical_not.default: _question(lambda x: apply("not", cast(x, BOOL))),
    aten.add.Tensor: _scaled("+"), aten.add.Scalar: _scaled("+"),
    aten.sub.Tensor: _scaled("-"), aten.sub.Scalar: _scaled("-"),
    aten.rsub.Tensor: _scaled("-", True), aten.rsub.Scalar: _scaled("-", True),
    aten.mul.Tensor: _binary(_times), aten.mul.Scalar: _binary(_times),
    aten.div.Tensor: _div, aten.div.Scalar: _div, aten.div.Tensor_mode: _div, aten.div.Scalar_mode: _div,
    aten.true_divide.Tensor: _div,
    aten.floor_divide.default: lambda b, x, y: _div(b, x, y, rounding_mode="floor"),
    aten.remainder.Tensor: _binary(_remainder), aten.remainder.Scalar: _binary(_remainder),
    aten.fmod.Tensor: _binary(_fmod), aten.fmod.Scalar: _binary(_fmod),
    aten.pow.Tensor_Scalar: _binary(power), aten.pow.Tensor_Tensor: _binary(power), aten.pow.Scalar: _binary(power),
    **{getattr(aten, n).default: _binary(_written_call(n)) for n in ("atan2", "hypot")},
    aten.copysign.Tensor: _binary(_written_call("copysign")),
    aten.copysign.Scalar: _binary(_written_call("copysign")),
    aten.signbit.default: _question(_signbit),
    aten.maximum.default: _binary(_extreme("max")), aten.minimum.default: _binary(_extreme("min")),
    aten.fmax.default: _binary(_known_extreme("max")), aten.fmin.default: _binary(_known_extreme("min")),
    **{
        getattr(getattr(aten, name), overload): _comparison(sign)
        for name, sign in (("eq", "=="), ("ne", "!="), ("lt", "<"), ("le", "<="), ("gt", ">"), ("ge", ">="))
        for overload in ("Tensor", "Scalar")
    },
    aten.logical_and.default: _logical("and"), aten.logical_or.default: _logical("or"),
    aten.logical_xor.default: _logical("!="),
    **{
        getattr(getattr(aten, name), overload): _bits(sign, word)
        for name, sign, word in (("bitwise_and", "&", "and"), ("bitwise_or", "|", "or"), ("bitwise_xor", "^", ""))
        for overload in ("Tensor", "Scalar")
    },
    aten.where.self: _where, aten.where.ScalarSelf: _where, aten.where.ScalarOther: _where,
    aten.where.Scalar: _where,
    **dict.fromkeys(
        (aten.masked_fill.Scalar, aten.masked_fill.Tensor), lambda b, x, mask, value: _where(b, mask, value, x)
    ),
    aten.clamp.default: _clamp, aten.clamp.Tensor: _clamp,
    aten.clamp_min.default: _clamp, aten.clamp_min.Tensor: _clamp,
    aten.clamp_max.default: lambda b, x, high: _clamp(b, x, None, high),
    aten.hardtanh.default: _hardtanh, aten.leaky_relu.default: _leaky_relu, aten.gelu.default: _gelu,
    aten.silu.default: _silu, aten.mish.default: _mish,
    aten._to_copy.default: _cast, prims.convert_element_type.default: _cast, aten.to.dtype: _cast,
    aten.full.default: _filled(None), aten.full_like.default: _filled(None), aten.fill.Scalar: _filled(None),
    aten.zeros.default: _filled(0), aten.zeros_like.default: _filled(0), aten.new_zeros.default: _filled(0),
    aten.ones.default: _filled(1), aten.ones_like.default: _filled(1), aten.new_ones.default: _filled(1),
    prims.empty_strided.default: _filled(0), aten.empty_strided.default: _filled(0),
    aten.new_empty_strided.default: _filled(0), aten.new_empty.default: _filled(0),
    aten.empty.memory_format: _filled(0), aten.empty_like.default: _filled(0), aten.new_full.default:
        lambda b, _, __, value, **___: b.full(b.shape(), value, b.dtype()),
    aten.arange.start_step: _arange, aten.arange.start: _arange, aten.arange.default: _arange,
    prims.iota.default: lambda b, _, *, start, step, **__: _iota(b, b.shape(), start, step, b.dtype()),
    aten.scalar_tensor.default: _cast, aten.copy.default: _copy,
}  # fmt: skip
