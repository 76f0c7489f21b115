"""Elements at places from data: gathers, which are indices, and scatters, which are statements."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import torch

from dojoir.torch.importer.builder import Place, ProgramBuilder, Tensor, Unsupported, element
from dojoir.torch.importer.element_values import (
    BOOL,
    I64,
    ElementValue,
    IndexAsValue,
    Number,
    Value,
    apply,
    cast,
    compare,
    data,
    select,
)
from dojoir.torch.importer.index import IndexSum, as_index, clamp, of_atom
from dojoir.torch.importer.nests import ProgramStatement
from dojoir.torch.importer.quotients import as_quotient
from dojoir.torch.importer.views import Map, along, at_place, begin, in_windows, on_diagonal

aten: Any = torch.ops.aten


def place(value: Value, extent: IndexSum, wraps: bool = True) -> IndexSum:
    """An index from a value; one below zero counts from the end where `wraps`."""
    if isinstance(value, IndexAsValue):
        return value.index
    if isinstance(value, Number):
        return as_index(int(value.value)) + (extent if wraps and value.value < 0 else 0)
    if wraps:
        end = IndexAsValue(extent, I64)
        wide = cast(value, I64)
        value = select(compare("<", wide, IndexAsValue(as_index(0), I64)), apply("+", wide, end), wide)
    return data(value)


def _plain(b: ProgramBuilder, index: Tensor) -> Tensor:
    """Indices as elements of memory or of iterators."""
    variables, place = b.iterate(index.shape)
    value = index.at(place)
    if isinstance(value, ElementValue | IndexAsValue | Number):
        return index
    if len(variables) == 1 and (extent := variables[0].extent.constant) is not None:
        made, own = as_quotient(value, of_atom(variables[0]), extent), place.index(of_atom(variables[0]))
        if made is not None:
            return Tensor(index.shape, index.dtype, lambda at: IndexAsValue(made(at[own]), index.dtype))
    return b.realize(index, f"{b.node.name}_index")


def _light(b: ProgramBuilder, x: Tensor) -> Tensor:
    """The tensor to gather from: left as an expression where an element costs few operations, else stored first."""
    found = b.cost(x)
    return x if found.operations <= 4 and not found.costly else b.stored(x)


def _embedding(b: ProgramBuilder, weight: Tensor, ids: Tensor, *_: Any, **__: Any) -> Tensor:
    ids = _plain(b, ids)
    weight = b.stored(weight)
    rank = ids.rank

    def at(index: Place) -> Value:
        return weight.at((place(ids.at(index[:rank]), weight.shape[0], False), *index[rank:]))

    return Tensor(b.shape(), weight.dtype, at)


def _gather(b: ProgramBuilder, x: Tensor, dim: int, ids: Tensor, **_: Any) -> Tensor:
    if not x.rank:
        return x
    dim %= x.rank
    x, ids = _light(b, x), _plain(b, ids)

    def at(index: Place) -> Value:
        return x.at((*index[:dim], place(ids.at(index), x.shape[dim], False), *index[dim + 1 :]))

    return Tensor(ids.shape, x.dtype, at)


def _index_select(b: ProgramBuilder, x: Tensor, dim: int, ids: Tensor) -> Tensor:
    dim %= x.rank
    x, ids = b.stored(x), _plain(b, ids)

    def at(index: Place) -> Value:
        return x.at((*index[:dim], place(ids.at((index[dim],)), x.shape[dim], False), *index[dim + 1 :]))

    return Tensor(b.shape(), x.dtype, at)


def _where_to(
    b: ProgramBuilder, shape: Place, given: Sequence[Tensor | None], wraps: bool = True
) -> tuple[Place, Callable[[Place], Place]]:
    """For indices of some dimensions, as PyTorch has them: the shape of what is indexed, and the place in the
    tensor for each index of it."""
    there = [(d, _plain(b, t)) for d, t in enumerate(given) if t is not None]
    if any(t.dtype == BOOL for _, t in there):
        raise Unsupported("an index by a mask: its shape is a matter of data (use where, or masked_fill)")
    wide: Place = ()
    for _, t in there:
        wide = _broadcast(wide, t.shape)
    dims = [d for d, _ in there]
    first = dims[0] if dims == list(range(dims[0], dims[0] + len(dims))) else 0
    rest = [d for d in range(len(shape)) if d not in dims]
    before = [d for d in rest if d < first] if first else []
    after = [d for d in rest if d not in before]
    tensors = [(d, b.broadcast(t, wide)) for d, t in there]

    def change(index: Place) -> Place:
        middle = index[len(before) : len(before) + len(wide)]
        at: dict[int, IndexSum] = dict(zip(before, index, strict=False))
        at |= dict(zip(after, index[len(before) + len(wide) :], strict=True))
        at |= {d: place(t.at(middle), shape[d], wraps) for d, t in tensors}
        return tuple(at[d] for d in range(len(shape)))

    result = (*(shape[d] for d in before), *wide, *(shape[d] for d in after))
    return result, change


def _broadcast(first: Place, second: Place) -> Place:
    longer, shorter = (first, second) if len(first) >= len(second) else (second, first)
    padded = (as_index(1),) * (len(longer) - len(shorter)) + shorter
    return tuple(q if p.constant == 1 else p for p, q in zip(longer, padded, strict=True))


def _index(b: ProgramBuilder, x: Tensor, given: Sequence[Tensor | None], *, wraps: bool = True) -> Tensor:
    """Elements at indices. PyTorch's decompositions write indices that are in range, of which none counts from the
    end: these do not wrap."""
    x = _light(b, x)
    shape, change = _where_to(b, x.shape, given, wraps)
    return Tensor(shape, x.dtype, lambda index: x.at(change(index)))


def _index_put(
    b: ProgramBuilder, x: Tensor, given: Sequence[Tensor | None], value: Tensor, accumulate: bool = False
) -> Tensor:
    shape, change = _where_to(b, x.shape, given)
    source = b.stored(b.broadcast(b.as_tensor(value, x.dtype), shape))
    return _scattered(b, x, shape, lambda i: (change(i), source.at(i)), "+=" if accumulate else "=")


def _scattered(
    b: ProgramBuilder,
    x: Tensor,
    shape: Place,
    what: Callable[[Place], tuple[Place, Value]],
    op: str,
) -> Tensor:
    """The tensor with values put at places: a copy of it, and then each value in order."""
    kind = x.dtype
    carried = kind.compute if op != "=" else kind
    buffer = b.filled(x, carried)
    variables, index = b.iterate(shape)
    to, value = what(index)
    b.emit(variables, ProgramStatement(element(buffer, to), op, cast(value, carried)))
    return b.tensor(buffer, x.shape, kind)


def _scatter(op: str) -> Callable[..., Tensor]:
    def lower(b: ProgramBuilder, x: Tensor, dim: int, ids: Tensor, source: Any, **_: Any) -> Tensor:
        dim %= x.rank
        ids = _plain(b, ids)
        given = b.as_tensor(source, x.dtype)
        given = given if given.rank else b.broadcast(given, ids.shape)
        given = b.stored(given)

        def what(index: Place) -> tuple[Place, Value]:
            spot = place(ids.at(index), x.shape[dim], False)
            return (*index[:dim], spot, *index[dim + 1 :]), given.at(index)

        return _scattered(b, x, ids.shape, what, op)

    return lower


def _scatter_reduce(
    b: ProgramBuilder, x: Tensor, dim: int, ids: Tensor, source: Tensor, reduce: str, *, include_self: bool = True
) -> Tensor:
    ops = {"sum": "+=", "prod": "*=", "amax": "max=", "amin": "min="}
    if reduce not in ops or not include_self:
        raise Unsupported(f"scatter_reduce by {reduce}, include_self={include_self}")
    made = _scatter(ops[reduce])(b, x, dim, ids, source)
    assert isinstance(made, Tensor)
    return made


def _index_add(b: ProgramBuilder, x: Tensor, dim: int, ids: Tensor, source: Tensor, *, alpha: Any = 1) -> Tensor:
    from dojoir.torch.importer.element_values import number

    dim %= x.rank
    ids, source = _plain(b, ids), b.stored(source)

    def what(index: Place) -> tuple[Place, Value]:
        spot = place(ids.at((index[dim],)), x.shape[dim], False)
        return (*index[:dim], spot, *index[dim + 1 :]), apply("*", source.at(index), number(alpha, x.dtype))

    return _scattered(b, x, source.shape, what, "+=")


def _embedding_backward(
    b: ProgramBuilder, grad: Tensor, ids: Tensor, count: Any, padding: int = -1, by_frequency: bool = False
) -> Tensor:
    if by_frequency:
        raise Unsupported("gradients of an embedding scaled by frequency")
    ids, grad = _plain(b, ids), b.stored(grad)
    rank = ids.rank
    shape, carried = b.shape(), grad.dtype.compute
    buffer = b.zeros(shape, carried)
    variables, index = b.iterate(grad.shape)
    id_ = ids.at(index[:rank])
    asked = None if padding < 0 else compare("!=", id_, IndexAsValue(as_index(padding), I64))
    to = element(buffer, (place(id_, shape[0], False), *index[rank:]))
    b.emit(variables, ProgramStatement(to, "+=", cast(grad.at(index), carried), asked))
    return b.tensor(buffer, shape, grad.dtype)


# -- parts put together, parts replaced ------------------------------------------------------------------------
def _cat(b: ProgramBuilder, tensors: Sequence[Tensor], dim: int = 0) -> Tensor:
    there = [t for t in tensors if not (t.rank == 1 and t.shape[0].constant == 0)]
    there = [t for t in there if all(s.constant != 0 for s in t.shape)]
    dim %= there[0].rank
    shape, kind = b.shape(), b.dtype()
    if len(there) == 1:
        return b.as_tensor(there[0], kind)
    return b.joined(there, dim, shape, kind)


def _slice_scatter(
    b: ProgramBuilder, x: Tensor, source: Tensor, dim: int = 0, start: Any = None, end: Any = None, step: int = 1
) -> Tensor:
    dim %= x.rank
    return _replaced(b, x, source, along(dim, begin(b, start, x.shape[dim]), step))


def _select_scatter(b: ProgramBuilder, x: Tensor, source: Tensor, dim: int, at: Any) -> Tensor:
    dim %= x.rank
    return _replaced(b, x, source, at_place(dim, begin(b, at, x.shape[dim])))


def _diagonal_scatter(
    b: ProgramBuilder, x: Tensor, source: Tensor, offset: int = 0, first: int = 0, second: int = 1
) -> Tensor:
    return _replaced(b, x, source, on_diagonal(x.rank, offset, first, second))


def _replaced(b: ProgramBuilder, x: Tensor, source: Tensor, to: Map, op: str = "=") -> Tensor:
    """The tensor with the elements of another put at places of it, or added to those there."""
    return _scattered(b, x, source.shape, lambda index: (to(index), source.at(index)), op)


def _slice_backward(
    b: ProgramBuilder, grad: Tensor, sizes: Any, dim: int, start: Any, end: Any, step: int
) -> Tensor:
    return _slice_scatter(b, b.full(b.shape(), 0, grad.dtype), grad, dim, start, end, step)


def _select_backward(b: ProgramBuilder, grad: Tensor, sizes: Any, dim: int, at: Any) -> Tensor:
    return _select_scatter(b, b.full(b.shape(), 0, grad.dtype), grad, dim, at)


def _diagonal_backward(b: ProgramBuilder, grad: Tensor, sizes: Any, offset: int, first: int, second: int) -> Tensor:
    return _diagonal_scatter(b, b.full(b.shape(), 0, grad.dtype), grad, offset, first, second)


def _edged_backward(b: ProgramBuilder, grad: Tensor, x: Tensor, pad: Sequence[int]) -> Tensor:
    """The gradient of padding by the border: each element gets the sum of the gradients of its copies."""
    source = b.stored(grad)
    spots: dict[int, Tensor] = {}
    for n in range(len(pad) // 2):
        d = x.rank - 1 - n
        extent, before = x.shape[d], pad[2 * n]

        def at(index: Place, extent: IndexSum = extent, before: int = before) -> Value:
            return IndexAsValue(clamp(index[0] - before, extent), I64)

        spots[d] = b.realize(Tensor((grad.shape[d],), I64, at), f"{b.node.name}_at")

    def what(index: Place) -> tuple[Place, Value]:
        to = tuple(place(spots[d].at((i,)), x.shape[d], False) if d in spots else i for d, i in enumerate(index))
        return to, source.at(index)

    return _scattered(b, b.full(x.shape, 0, grad.dtype), grad.shape, what, "+=")


def _unfold_backward(b: ProgramBuilder, grad: Tensor, sizes: Any, dim: int, size: int, step: int) -> Tensor:
    shape = b.shape()
    return _replaced(b, b.full(shape, 0, grad.dtype), b.stored(grad), in_windows(dim % len(shape), step), "+=")


_EDGES = {getattr(aten, f"replication_pad{n}d_backward").default: _edged_backward for n in (1, 2, 3)}

TABLE: dict[Any, Callable[..., Any]] = {
    aten.embedding.default: _embedding, aten.embedding_dense_backward.default: _embedding_backward,
    aten.gather.default: _gather, aten.index_select.default: _index_select,
    aten.index.Tensor: _index, aten._unsafe_index.Tensor: partial(_index, wraps=False),
    aten.index_put.default: _index_put, aten._unsafe_index_put.default: _index_put,
    aten.scatter.src: _scatter("="), aten.scatter.value: _scatter("="), aten.scatter_add.default: _scatter("+="),
    aten.scatter_reduce.two: _scatter_reduce, aten.index_add.default: _index_add,
    aten.cat.default: _cat, aten.slice_scatter.default: _slice_scatter,
    aten.select_scatter.default: _select_scatter,
    aten.diagonal_scatter.default: _diagonal_scatter, aten.slice_backward.default: _slice_backward,
    aten.select_backward.default: _select_backward, aten.diagonal_backward.default: _diagonal_backward,
    aten.unfold_backward.default: _unfold_backward, **_EDGES,
}  # fmt: skip
