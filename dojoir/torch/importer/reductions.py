"""Reductions: sums, products, extremes, means and variances, questions, places of extremes, running values."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import torch

from dojoir.torch.importer.builder import Place, ProgramBuilder, Tensor, element
from dojoir.torch.importer.element_values import (
    BOOL,
    F32,
    F64,
    I32,
    I64,
    DType,
    IndexAsValue,
    Value,
    apply,
    cast,
    compare,
    data,
    lowest,
    number,
    select,
)
from dojoir.torch.importer.index import as_index, product
from dojoir.torch.importer.nests import Node, ProgramStatement, loops

aten: Any = torch.ops.aten
prims: Any = torch.ops.prims


def dims_of(dims: Any, rank: int) -> list[int]:
    """The dimensions that are meant, in order; none means all."""
    if dims is None or (isinstance(dims, Sequence) and not dims):
        return list(range(rank))
    return sorted({d % max(rank, 1) for d in ([dims] if isinstance(dims, int) else dims)}) if rank else []


def fold(
    b: ProgramBuilder, x: Tensor, dims: Any, op: str, start: float | int | bool, dtype: DType,
    keepdim: bool = False, change: Callable[[Value, Place], Value] | None = None, name: str | None = None,
) -> Tensor:  # fmt: skip
    """One number of all along some dimensions. `change` gives what is accumulated, of an element and the index in
    the result."""
    over = dims_of(dims, x.rank)
    rest = [d for d in range(x.rank) if d not in over]
    shape = tuple(x.shape[d] for d in rest)

    def value(index: Place, below: Place) -> Value:
        at = dict(zip(rest, index, strict=True)) | dict(zip(over, below, strict=True))
        found = cast(x.at(tuple(at[d] for d in range(x.rank))), dtype)
        return found if change is None else change(found, index)

    made = b.reduce(shape, [x.shape[d] for d in over], value, op, start, dtype, name)
    return kept(made, x, over) if keepdim else made


def kept(made: Tensor, x: Tensor, over: Sequence[int]) -> Tensor:
    """A reduced tensor with its dimensions of 1."""
    shape = tuple(as_index(1) if d in over else s for d, s in enumerate(x.shape))

    def at(index: Place) -> Value:
        return made.at(tuple(i for d, i in enumerate(index) if d not in over))

    return Tensor(shape, made.dtype, at)


def _folded(op: str, start: float | bool, dtype: DType | None = None) -> Callable[..., Tensor]:
    """A reduction that is one accumulation, in the type of the result or another."""

    def lower(b: ProgramBuilder, x: Tensor, dims: Any = None, keepdim: bool = False, **_: Any) -> Tensor:
        return fold(b, x, dims, op, start, dtype or b.dtype(), keepdim)

    return lower


def _extreme(b: ProgramBuilder, x: Tensor, dims: Any = None, keepdim: bool = False, *, op: str) -> Tensor:
    """The largest or smallest along dimensions."""
    if x.dtype == BOOL:
        return fold(b, x, dims, "|=" if op == "max=" else "&=", op != "max=", BOOL, keepdim)
    return fold(b, x, dims, op, lowest(x.dtype, op), x.dtype, keepdim)


def count(b: ProgramBuilder, x: Tensor, dims: Any) -> Value:
    """How many elements a reduction sees, as a number of the type that is computed in."""
    total = product(tuple(x.shape[d] for d in dims_of(dims, x.rank)))
    kind = F64 if x.dtype == F64 else F32
    return number(total.constant, kind) if total.constant is not None else IndexAsValue(total, kind)


def mean(b: ProgramBuilder, x: Tensor, dims: Any, keepdim: bool = False, name: str | None = None) -> Tensor:
    """The sum through the count."""
    by = count(b, x, dims)
    total = fold(b, x, dims, "+=", 0, x.dtype, keepdim, name=name)
    return b.pointwise(total.shape, x.dtype, lambda s: apply("/", s, by), total)


def _mean(b: ProgramBuilder, x: Tensor, dims: Any = None, keepdim: bool = False, *, dtype: Any = None) -> Tensor:
    return mean(b, b.as_tensor(x, b.dtype()), dims, keepdim)


def _moments(b: ProgramBuilder, x: Tensor, dims: Any, correction: Any, keepdim: bool) -> tuple[Tensor, Tensor]:
    """Variance and mean: the sum of squares of differences through the count less the correction."""
    if b.cost(x).operations > 4:
        x = b.realize(x, x.label or f"{b.node.name}_of")
    middle = mean(b, x, dims, True, f"{b.node.name}_mean")
    wide = b.broadcast(middle, x.shape)
    less = b.pointwise(x.shape, x.dtype, lambda p, m: apply("-", p, m), x, wide)
    squares = b.pointwise(x.shape, x.dtype, lambda p: apply("*", p, p), less)
    total = fold(b, squares, dims, "+=", 0, x.dtype, keepdim)
    n = count(b, x, dims)
    free = 1 if correction is None else correction
    divisor = apply("-", n, number(free, n.dtype)) if free else n
    made = b.pointwise(total.shape, x.dtype, lambda s: apply("/", s, divisor), total)
    if not keepdim:
        over = dims_of(dims, x.rank)
        at = middle.at
        shape = tuple(s for d, s in enumerate(x.shape) if d not in over)

        def without(index: Place) -> Value:
            rest = iter(index)
            return at(tuple(as_index(0) if d in over else next(rest) for d in range(x.rank)))

        middle = Tensor(shape, x.dtype, without)
    return made, middle


def _var(
    b: ProgramBuilder, x: Tensor, dims: Any = None, *, correction: Any = None, keepdim: bool = False
) -> Tensor:
    return _moments(b, x, dims, correction, keepdim)[0]


def _var_mean(
    b: ProgramBuilder, x: Tensor, dims: Any = None, *, correction: Any = None, keepdim: bool = False
) -> Any:
    return _moments(b, x, dims, correction, keepdim)


# -- softmax -------------------------------------------------------------------------------------------------
def _once(b: ProgramBuilder, x: Tensor, carried: DType) -> Tensor:
    """A tensor in the type of the computation, stored first where it is dear: it is read several times."""
    x = b.as_tensor(x, carried)
    return b.realize(x, x.label or f"{b.node.name}_of") if b.cost(x).operations > 6 else x


def _exponentials(b: ProgramBuilder, x: Tensor, dim: int, carried: DType) -> tuple[Tensor, Tensor]:
    """The largest of each row, and `exp(x - largest)`."""
    top = fold(b, x, [dim], "max=", -math.inf, carried, True, name=f"{b.node.name}_max")
    wide = b.broadcast(top, x.shape)
    return top, b.pointwise(x.shape, carried, lambda p, m: apply("exp", apply("-", p, m)), x, wide)


def _softmax(is_safe: bool) -> Callable[..., Tensor]:
    """`exp(x - max) / sum`; of a row of -inf alone 0, where it is to be safe."""

    def lower(b: ProgramBuilder, x: Tensor, dim: int, is_half: Any = None) -> Tensor:
        kind, name = b.dtype(), b.node.name
        carried = kind.compute
        x = _once(b, x, carried)
        if not x.rank:
            return b.full((), 1, kind)
        top, grown = _exponentials(b, x, dim, carried)
        grown = b.realize(grown, f"{name}_exp")
        total = fold(b, grown, [dim], "+=", 0, carried, True, name=f"{name}_sum")

        def share(e: Value, s: Value, m: Value) -> Value:
            made = apply("/", e, s)
            if is_safe:
                made = select(compare("==", m, number(-math.inf, carried)), number(0, carried), made)
            return cast(made, kind)

        return b.pointwise(x.shape, kind, share, grown, total, top)

    return lower


def _log_softmax(b: ProgramBuilder, x: Tensor, dim: int, is_half: Any = None) -> Tensor:
    """`x - max - log(sum(exp(x - max)))`."""
    kind, name = b.dtype(), b.node.name
    carried = kind.compute
    x = _once(b, x, carried)
    if not x.rank:
        return b.full((), 0, kind)
    top, grown = _exponentials(b, x, dim, carried)
    total = fold(b, grown, [dim], "+=", 0, carried, True, name=f"{name}_sum")
    logged = b.pointwise(total.shape, carried, lambda s: apply("log", s), total)
    logged = b.realize(logged, f"{name}_log")
    return b.pointwise(x.shape, kind, lambda p, m, s: cast(apply("-", apply("-", p, m), s), kind), x, top, logged)


# -- places of extremes ---------------------------------------------------------------------------------------
def _place(b: ProgramBuilder, x: Tensor, dim: int | None = None, keepdim: bool = False, *, op: str) -> Tensor:
    return _placed(b, x, dim, keepdim, op=op)[1]


def is_better(found: Value, top: Value, sign: str, *, last_nan: bool = True) -> Value:
    """Whether an element takes the place of the best so far, `>` or `<` it, or `>=` or `<=`: NaN does of any
    number, and of another NaN where it is the last that counts."""
    better = compare(sign, found, top)
    if not found.dtype.is_float:
        return better
    is_nan = compare("!=", found, found)
    return apply("or", better, is_nan if last_nan else apply("and", is_nan, compare("==", top, top)))


def _placed(
    b: ProgramBuilder, x: Tensor, dim: int | None, keepdim: bool = False, *, op: str
) -> tuple[Tensor, Tensor]:
    """The extreme along a dimension (None: of all elements) and the first position that has it (argmax, argmin)."""
    from dojoir.torch.importer.views import reshape

    if dim is None:
        found = _placed(b, reshape(x, (product(x.shape),)), 0, op=op)
        whole = list(range(x.rank))
        return (kept(found[0], x, whole), kept(found[1], x, whole)) if keepdim else found
    if x.dtype == BOOL:
        numbers, spots = _placed(b, b.as_tensor(x, I32), dim, keepdim, op=op)
        return b.as_tensor(numbers, BOOL), spots
    over = [dim % x.rank]
    rest = [d for d in range(x.rank) if d not in over]
    shape = tuple(x.shape[d] for d in rest)
    wide = b.realize(x) if b.cost(x).operations > 2 and x.dtype in (F64, I64) else x
    value, place = b.declare(shape, x.dtype, f"{b.node.name}_value"), b.declare(shape, I64, f"{b.node.name}_at")
    outer, index = b.iterate(shape)
    inner, below = b.iterate([x.shape[d] for d in over])
    at = dict(zip(rest, index, strict=True)) | dict(zip(over, below, strict=True))
    found_value = wide.at(tuple(at[d] for d in range(x.rank)))
    top, spot = element(value, index), element(place, index)
    step = IndexAsValue(below[0], I64)
    start = number(lowest(x.dtype, op), x.dtype)
    if x.dtype in (F64, I64):
        first: tuple[Node, ...] = (ProgramStatement(top, "=", start), ProgramStatement(spot, "=", number(0, I64)))
        sign = ">" if op == "max=" else "<"
        body: tuple[Node, ...] = (
            ProgramStatement(spot, "=", step, is_better(found_value, top, sign, last_nan=False)),
            ProgramStatement(top, op, found_value),
        )
    else:
        first = (ProgramStatement(top, "=", start, None, spot, number(0, I64)),)
        body = (ProgramStatement(top, op, found_value, None, spot, step),)
    b.emit(outer, *first, *loops(inner, body))
    made = b.tensor(value, shape), b.tensor(place, shape)
    return (kept(made[0], x, over), kept(made[1], x, over)) if keepdim else made


def _top(
    b: ProgramBuilder, x: Tensor, k: int, dim: int = -1, is_largest: bool = True, is_sorted: bool = True
) -> Any:
    """The largest or smallest `k` along a dimension, one after the other, and their places: each is taken out for
    the next. NaN is the largest of all."""
    from dojoir.torch.importer.sorting import is_before

    dim %= max(x.rank, 1)
    x = b.stored(x)
    rest = [d for d in range(x.rank) if d != dim]
    shape = (*(x.shape[d] for d in rest),)
    wide = (*shape[:dim], as_index(k), *shape[dim:])
    name = b.node.name
    value, place = b.declare(wide, x.dtype, f"{name}_value"), b.declare(wide, I64, f"{name}_at")
    taken = b.filled(b.full(x.shape, False, BOOL), name=f"{name}_taken")
    outer, index = b.iterate(shape)
    rounds, (r,) = b.iterate([as_index(k)])
    inner, (j,) = b.iterate([x.shape[dim]])
    top, spot = (element(one, (*index[:dim], r, *index[dim:])) for one in (value, place))
    at = (*index[:dim], j, *index[dim:])
    found, is_free = x.at(at), apply("not", element(taken, at))
    if x.dtype in (F64, I64) or (x.dtype.is_float and not is_largest):
        start = number(lowest(x.dtype, "max="), x.dtype)
        none = compare("<", spot, number(0, I64))
        better = apply("and", is_free, apply("or", none, is_before(found, top, x.dtype, is_largest)))
        first: tuple[Node, ...] = (
            ProgramStatement(top, "=", start),
            ProgramStatement(spot, "=", number(-1, I64)),
        )
        is_here = compare("==", spot, IndexAsValue(j, I64))
        body: tuple[Node, ...] = (
            ProgramStatement(spot, "=", IndexAsValue(j, I64), better),
            ProgramStatement(top, "=", found, is_here),
        )
    else:
        op = "max=" if is_largest else "min="
        start, behind = number(lowest(x.dtype, op), x.dtype), number(lowest(I32, "min="), I64)
        first = (ProgramStatement(top, "=", start, None, spot, behind),)  # all others come before it
        body = (ProgramStatement(top, op, found, is_free, spot, IndexAsValue(j, I64)),)
    gone = element(taken, (*index[:dim], data(spot), *index[dim:]))
    b.emit([*outer, *rounds], *first, *loops(inner, body), ProgramStatement(gone, "=", number(True, BOOL)))
    return b.tensor(value, wide), b.tensor(place, wide)


# -- running values -------------------------------------------------------------------------------------------
def _running(op: str, start: float) -> Callable[..., Tensor]:
    def lower(b: ProgramBuilder, x: Tensor, dim: int, *, dtype: Any = None) -> Tensor:
        return running(b, x, dim, op, start, b.dtype())

    return lower


def running(b: ProgramBuilder, x: Tensor, dim: int, op: str, start: float, dtype: DType) -> Tensor:
    """The running accumulation along a dimension, up to each element."""
    if not x.rank:
        return b.as_tensor(x, dtype)
    dim %= x.rank
    carried = dtype.compute
    shape = tuple(s for d, s in enumerate(x.shape) if d != dim)
    state, buffer = b.declare(shape, carried, f"{b.node.name}_state"), b.declare(x.shape, dtype)
    outer, index = b.iterate(shape)
    inner, below = b.iterate([x.shape[dim]])
    at = (*index[:dim], below[0], *index[dim:])
    kept_in = element(state, index)
    body: list[Node] = [
        ProgramStatement(kept_in, op, cast(x.at(at), carried)),
        ProgramStatement(element(buffer, at), "=", cast(kept_in, dtype)),
    ]
    b.emit(outer, ProgramStatement(kept_in, "=", number(start, carried)), *loops(inner, body))
    return b.tensor(buffer, x.shape)


def _running_extreme(op: str) -> Callable[..., tuple[Tensor, Tensor]]:
    def lower(b: ProgramBuilder, x: Tensor, dim: int) -> tuple[Tensor, Tensor]:
        if x.dtype == BOOL:
            numbers, spots = lower(b, b.as_tensor(x, I32), dim)
            return b.as_tensor(numbers, BOOL), spots
        dim %= x.rank
        shape = tuple(s for d, s in enumerate(x.shape) if d != dim)
        name = b.node.name
        best, spot = b.declare(shape, x.dtype, f"{name}_best"), b.declare(shape, I64, f"{name}_best_at")
        value, place = b.declare(x.shape, x.dtype, f"{name}_value"), b.declare(x.shape, I64, f"{name}_at")
        outer, index = b.iterate(shape)
        inner, below = b.iterate([x.shape[dim]])
        at = (*index[:dim], below[0], *index[dim:])
        top, where = element(best, index), element(spot, index)
        found = x.at(at)
        is_new = is_better(found, top, ">=" if op == "max=" else "<=")
        b.emit(
            outer,
            ProgramStatement(top, "=", number(lowest(x.dtype, op), x.dtype)),
            ProgramStatement(where, "=", number(0, I64)),
            *loops(
                inner,
                (
                    ProgramStatement(where, "=", IndexAsValue(below[0], I64), is_new),
                    ProgramStatement(top, "=", found, is_new),
                    ProgramStatement(element(value, at), "=", top),
                    ProgramStatement(element(place, at), "=", where),
                ),
            ),
        )
        return b.tensor(value, x.shape), b.tensor(place, x.shape)

    return lower


TABLE: dict[Any, Callable[..., Any]] = {
    aten.sum.dim_IntList: _folded("+=", 0), aten.sum.default: _folded("+=", 0),
    aten.prod.dim_int: _folded("*=", 1), aten.prod.default: _folded("*=", 1),
    aten.amax.default: partial(_extreme, op="max="), aten.amin.default: partial(_extreme, op="min="),
    aten.max.default: partial(_extreme, op="max="), aten.min.default: partial(_extreme, op="min="),
    **dict.fromkeys((aten.any.dim, aten.any.dims, aten.any.default), _folded("|=", False, BOOL)),
    **dict.fromkeys((aten.all.dim, aten.all.default), _folded("&=", True, BOOL)),
    aten.mean.dim: _mean, aten.mean.default: _mean,
    aten.var.correction: _var, aten.var_mean.correction: _var_mean, prims.var.default: _var,
    aten.topk.default: _top,
    aten.argmax.default: partial(_place, op="max="), aten.argmin.default: partial(_place, op="min="),
    aten.max.dim: partial(_placed, op="max="), aten.min.dim: partial(_placed, op="min="),
    aten._softmax.default: _softmax(False), aten._safe_softmax.default: _softmax(True),
    aten._log_softmax.default: _log_softmax,
    aten.cumsum.default: _running("+=", 0), aten.cumprod.default: _running("*=", 1),
    aten.cummax.default: _running_extreme("max="), aten.cummin.default: _running_extreme("min="),
}  # fmt: skip
