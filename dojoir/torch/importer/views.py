"""Views: other shapes of the same elements. Each is a map of indices, and none copies."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch

from dojoir.torch.importer.builder import Place, ProgramBuilder, Tensor, Unsupported
from dojoir.torch.importer.element_values import BOOL, I64, IndexAsValue, Value, apply, compare, number, select
from dojoir.torch.importer.index import IndexSum, as_index, clamp, divide, is_within, product

aten: Any = torch.ops.aten

Map = Callable[[Place], Place]


def viewed(tensor: Tensor, shape: Place, change: Map) -> Tensor:
    """The tensor under a map of indices."""
    at = tensor.at
    return Tensor(shape, tensor.dtype, lambda index: at(change(index)))


def reshape(tensor: Tensor, shape: Place) -> Tensor:
    """The same elements in row-major order in another shape."""
    if shape == tensor.shape:
        return tensor
    pairs = _matching(tensor.shape, shape)

    def change(index: Place) -> Place:
        made: list[IndexSum] = [as_index(0)] * tensor.rank
        for old, new in pairs:
            linear = as_index(0)
            for d in new:
                linear = linear * shape[d] + index[d]
            for d in reversed(old[1:]):
                linear, made[d] = divide(linear, tensor.shape[d])
            if old:
                made[old[0]] = linear
        return tuple(made)

    return viewed(tensor, shape, change)


def _matching(old: Place, new: Place) -> list[tuple[list[int], list[int]]]:
    """Which dimensions become which: the shortest runs with equal products."""
    pairs: list[tuple[list[int], list[int]]] = []
    i = j = 0
    one = as_index(1)
    while i < len(old) or j < len(new):
        if i < len(old) and old[i] == one:
            pairs.append(([i], []))
            i += 1
            continue
        if j < len(new) and new[j] == one:
            j += 1
            continue
        taken, given = [i] if i < len(old) else [], [j] if j < len(new) else []
        i, j = i + 1, j + 1
        while True:
            left, right = product(tuple(old[d] for d in taken)), product(tuple(new[d] for d in given))
            if left == right:
                break
            if _is_larger(left, right) and j < len(new):
                given.append(j)
                j += 1
            elif i < len(old):
                taken.append(i)
                i += 1
            elif j < len(new):
                given.append(j)
                j += 1
            else:
                raise Unsupported(f"a view of {[s.key for s in old]} as {[s.key for s in new]}")
        pairs.append((taken, given))
    return pairs


def _is_larger(left: IndexSum, right: IndexSum) -> bool:
    """Whether the dimensions taken of the old shape are more than those of the new one."""
    if left.constant is not None and right.constant is not None:
        return left.constant > right.constant
    return divide(left, right)[1] == as_index(0)


def permute(tensor: Tensor, dims: Sequence[int]) -> Tensor:
    """Dimensions in another order."""
    order = [d % tensor.rank for d in dims]
    shape = tuple(tensor.shape[d] for d in order)

    def change(index: Place) -> Place:
        made = dict(zip(order, index, strict=True))
        return tuple(made[d] for d in range(tensor.rank))

    return viewed(tensor, shape, change)


def _permute(b: ProgramBuilder, x: Tensor, dims: Sequence[int]) -> Tensor:
    return permute(x, dims)


def transpose(b: ProgramBuilder, x: Tensor, first: int, second: int) -> Tensor:
    """Two dimensions exchanged."""
    order = list(range(x.rank))
    order[first], order[second] = order[second], order[first]
    return permute(x, order)


def _t(b: ProgramBuilder, x: Tensor) -> Tensor:
    return permute(x, tuple(reversed(range(x.rank))))


def _reshape(b: ProgramBuilder, x: Tensor, *_: Any, **__: Any) -> Tensor:
    return reshape(x, b.shape())


def _expand(b: ProgramBuilder, x: Tensor, *_: Any, **__: Any) -> Tensor:
    return b.broadcast(x, b.shape())


def _slice(b: ProgramBuilder, x: Tensor, dim: int = 0, start: Any = None, end: Any = None, step: int = 1) -> Tensor:
    dim %= x.rank
    return viewed(x, b.shape(), along(dim, begin(b, start, x.shape[dim]), step))


def begin(b: ProgramBuilder, start: Any, extent: IndexSum) -> IndexSum:
    """Where a slice begins, with what counts from the end."""
    if start is None:
        return as_index(0)
    value = b.size(start)
    if value.constant is not None and value.constant < 0:
        value = value + extent
        if value.constant is not None and value.constant < 0:
            return as_index(0)
    return value


def along(dim: int, first: IndexSum | int, step: IndexSum | int = 1) -> Map:
    """The elements along a dimension from the first one on, in steps."""
    return lambda index: (*index[:dim], index[dim] * step + first, *index[dim + 1 :])


def at_place(dim: int, place: IndexSum) -> Map:
    """Those at one place of a dimension."""
    return lambda index: (*index[:dim], place, *index[dim:])


def on_diagonal(rank: int, offset: int, first: int, second: int) -> Map:
    """Those of a diagonal of two dimensions, along which the last index goes."""
    moved = {first % rank: max(-offset, 0), second % rank: max(offset, 0)}
    others = [d for d in range(rank) if d not in moved]

    def change(index: Place) -> Place:
        made = dict(zip(others, index, strict=False)) | {d: index[-1] + by for d, by in moved.items()}
        return tuple(made[d] for d in range(rank))

    return change


def in_windows(dim: int, step: int) -> Map:
    """Those of windows along a dimension, in which the last index goes."""
    return lambda index: (*index[:dim], index[dim] * step + index[-1], *index[dim + 1 : -1])


def _select(b: ProgramBuilder, x: Tensor, dim: int, at: Any) -> Tensor:
    dim %= x.rank
    return viewed(x, b.shape(), at_place(dim, begin(b, at, x.shape[dim])))


def _split(b: ProgramBuilder, x: Tensor, sizes: Any, dim: int = 0) -> tuple[Tensor, ...]:
    dim %= x.rank
    made: list[Tensor] = []
    first = as_index(0)
    for part in b.node.meta["val"]:
        shape = b.shape(part)
        made.append(viewed(x, shape, along(dim, first)))
        first = first + shape[dim]
    return tuple(made)


def _unbind(b: ProgramBuilder, x: Tensor, dim: int = 0) -> tuple[Tensor, ...]:
    dim %= x.rank
    count = len(b.node.meta["val"])
    shape = (*x.shape[:dim], *x.shape[dim + 1 :])
    return tuple(viewed(x, shape, at_place(dim, as_index(n))) for n in range(count))


def _flip(b: ProgramBuilder, x: Tensor, dims: Sequence[int]) -> Tensor:
    turned = {d % x.rank for d in dims}

    def change(index: Place) -> Place:
        return tuple(x.shape[d] - 1 - i if d in turned else i for d, i in enumerate(index))

    return viewed(x, x.shape, change)


def _roll(b: ProgramBuilder, x: Tensor, shifts: Any, dims: Any = ()) -> Tensor:
    shifts = [shifts] if isinstance(shifts, int) else shifts
    dims = [dims] if isinstance(dims, int) else dims
    if not dims:
        flat = reshape(x, (product(x.shape),))
        return reshape(_rolled(flat, {0: shifts[0]}), x.shape)
    moved: dict[int, int] = {}
    for shift, d in zip(shifts, dims, strict=True):
        moved[d % x.rank] = moved.get(d % x.rank, 0) + shift
    return _rolled(x, moved)


def _rolled(x: Tensor, moved: dict[int, int]) -> Tensor:
    for d, by in moved.items():
        extent = x.shape[d].constant
        if extent is None:
            raise Unsupported("a roll along a dimension of open size")
        moved[d] = by % extent

    def change(index: Place) -> Place:
        return tuple((i + x.shape[d] - moved[d]) % x.shape[d] if d in moved else i for d, i in enumerate(index))

    return viewed(x, x.shape, change)


def _repeat(b: ProgramBuilder, x: Tensor, repeats: Sequence[Any]) -> Tensor:
    missing = len(repeats) - x.rank

    def change(index: Place) -> Place:
        return tuple(i % e for i, e in zip(index[missing:], x.shape, strict=True))

    return viewed(x, b.shape(), change)


def _diagonal(b: ProgramBuilder, x: Tensor, offset: int = 0, first: int = 0, second: int = 1) -> Tensor:
    return viewed(x, b.shape(), on_diagonal(x.rank, offset, first, second))


def _unfold(b: ProgramBuilder, x: Tensor, dim: int, size: int, step: int) -> Tensor:
    return viewed(x, b.shape(), in_windows(dim % x.rank, step))


def _as_strided(b: ProgramBuilder, x: Tensor, size: Any, stride: Any, offset: Any = None) -> Tensor:
    if x.buffer is None:
        x = b.realize(x)
    shape, steps = b.shape(), [b.size(s) for s in stride]
    first = b.size(offset or 0)
    flat = reshape(x, (product(x.shape),))

    def change(index: Place) -> Place:
        linear = first
        for i, step in zip(index, steps, strict=True):
            linear = linear + i * step
        return (linear,)

    if b.program.buffers[x.buffer or ""].order is not None:
        raise Unsupported("as_strided of a tensor that is not contiguous")
    return viewed(flat, shape, change)


# -- with borders: an element where there is one, else a number ----------------------------------------------
def padded(tensor: Tensor, before: Sequence[IndexSum | int], shape: Place, value: float | int | bool) -> Tensor:
    """The tensor with a number around it; `before` is how many there are before its first element."""

    def at(index: Place) -> Value:
        moved = tuple(i - p for i, p in zip(index, before, strict=True))
        asked: Value = number(True, BOOL)
        for i, extent in zip(moved, tensor.shape, strict=True):
            if not is_within(i, 0, extent):
                asked = apply("and", asked, _is_in(i, extent))
        inside = tuple(i if is_within(i, 0, e) else clamp(i, e) for i, e in zip(moved, tensor.shape, strict=True))
        return select(asked, tensor.at(inside), number(value, tensor.dtype))

    return Tensor(shape, tensor.dtype, at)


def _is_in(index: IndexSum, extent: IndexSum) -> Value:
    low = compare(">=", IndexAsValue(index, I64), number(0, I64))
    return apply("and", low, compare("<", IndexAsValue(index, I64), IndexAsValue(extent, I64)))


def _pad(b: ProgramBuilder, x: Tensor, pad: Sequence[Any], value: Any = 0) -> Tensor:
    before: list[IndexSum] = [as_index(0)] * x.rank
    for n in range(len(pad) // 2):
        before[x.rank - 1 - n] = b.size(pad[2 * n])
    return padded(x, before, b.shape(), value if isinstance(value, int | float) else 0)


def _triangle(is_upper: bool) -> Callable[..., Tensor]:
    def lower(b: ProgramBuilder, x: Tensor, diagonal: int = 0) -> Tensor:
        def at(index: Place) -> Value:
            sign = ">=" if is_upper else "<="
            asked = compare(sign, IndexAsValue(index[-1] - diagonal, I64), IndexAsValue(index[-2], I64))
            return select(asked, x.at(index), number(0, x.dtype))

        return Tensor(x.shape, x.dtype, at)

    return lower


def _mirrored(b: ProgramBuilder, x: Tensor, pad: Sequence[int]) -> Tensor:
    """Padding by reflection at the last element."""
    return _bordered(b, x, pad, lambda i, e: e - 1 - _absolute(e - 1 - _absolute(i)))


def _absolute(index: IndexSum) -> IndexSum:
    from dojoir.torch.importer.index import most

    return most(index, index * -1)


def _edged(b: ProgramBuilder, x: Tensor, pad: Sequence[int]) -> Tensor:
    """Padding by the element at the border."""
    return _bordered(b, x, pad, clamp)


def _bordered(
    b: ProgramBuilder, x: Tensor, pad: Sequence[int], change: Callable[[IndexSum, IndexSum], IndexSum]
) -> Tensor:
    before = [0] * x.rank
    for n in range(len(pad) // 2):
        before[x.rank - 1 - n] = pad[2 * n]
    padded_dims = {x.rank - 1 - n for n in range(len(pad) // 2)}

    def moved(index: Place) -> Place:
        return tuple(change(i - before[d], x.shape[d]) if d in padded_dims else i for d, i in enumerate(index))

    return viewed(x, b.shape(), moved)


def _same(b: ProgramBuilder, x: Tensor, *_: Any, **__: Any) -> Tensor:
    return x


TABLE: dict[Any, Callable[..., Any]] = {
    aten.view.default: _reshape, aten._unsafe_view.default: _reshape, aten.reshape.default: _reshape,
    aten.squeeze.dim: _reshape, aten.squeeze.dims: _reshape, aten.squeeze.default: _reshape,
    aten.unsqueeze.default: _reshape,
    aten.permute.default: _permute, aten.transpose.int: transpose, aten.t.default: _t,
    aten.expand.default: _expand, aten.slice.Tensor: _slice, aten.select.int: _select,
    aten.split.Tensor: _split, aten.split_with_sizes.default: _split, aten.unbind.int: _unbind,
    aten.flip.default: _flip, aten.roll.default: _roll, aten.repeat.default: _repeat,
    aten.diagonal.default: _diagonal, aten.unfold.default: _unfold, aten.as_strided.default: _as_strided,
    aten.constant_pad_nd.default: _pad,
    aten.tril.default: _triangle(False), aten.triu.default: _triangle(True),
    **{getattr(aten, f"reflection_pad{n}d").default: _mirrored for n in (1, 2, 3)},
    **{getattr(aten, f"replication_pad{n}d").default: _edged for n in (1, 2, 3)},
    aten.contiguous.default: _same,
}  # fmt: skip

REPLAYED = frozenset({
    aten.view.default, aten._unsafe_view.default, aten.squeeze.dim, aten.squeeze.dims, aten.squeeze.default,
    aten.unsqueeze.default, aten.permute.default, aten.transpose.int, aten.t.default, aten.expand.default,
    aten.slice.Tensor, aten.select.int, aten.alias.default, aten.detach.default,
})  # fmt: skip
"""The views that a result of a graph is given as: PyTorch makes them of the memory that there is."""
