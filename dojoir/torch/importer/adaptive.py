"""Adaptive pooling: windows from `i * size // count` to `(i + 1) * size / count` rounded up, of one size or not."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

from dojoir.torch.importer.builder import Place, ProgramBuilder, Tensor, Unsupported, element
from dojoir.torch.importer.convolution import WindowGeometry
from dojoir.torch.importer.element_values import I64, DType, IndexAsValue, Value, apply, cast, lowest, number
from dojoir.torch.importer.index import IndexSum, as_index, divide, row_major
from dojoir.torch.importer.nests import Node, ProgramStatement, When, loops
from dojoir.torch.importer.pooling import average, largest_backward
from dojoir.torch.importer.reductions import is_better

aten: Any = torch.ops.aten


class _Windows:
    """The windows along the last dimensions of a tensor."""

    def __init__(self, x: Tensor, shape: Place, rank: int) -> None:
        """Raises Unsupported where an extent is open and does not divide."""
        self.extents, self.counts = x.shape[-rank:], shape[-rank:]
        self.sizes: list[int] = []
        self.are_equal = True
        for extent, count in zip(self.extents, self.counts, strict=True):
            size, rest = divide(extent, count)
            if rest.constant == 0 and size.constant is not None:
                self.sizes.append(size.constant)
                continue
            n, m = extent.constant, count.constant
            if n is None or m is None:
                raise Unsupported(f"an adaptive pooling of {extent.key} elements to {count.key}: an open size")
            self.are_equal = False
            self.sizes.append(max(-(-(i + 1) * n // m) - i * n // m for i in range(m)))

    def limits(self, d: int, i: IndexSum) -> tuple[IndexSum, IndexSum]:
        """The first element of a window along a dimension, and the one behind its last."""
        extent, count = self.extents[d], self.counts[d]
        return divide(i * extent, count)[0], divide((i + 1) * extent + count - 1, count)[0]

    def count(self, index: Place, dtype: DType) -> Value:
        """How many elements a window has."""
        total = as_index(1)
        for d, i in enumerate(index):
            first, end = self.limits(d, i)
            total = total * (end - first)
        return number(total.constant, dtype) if total.constant is not None else IndexAsValue(total, dtype)

    def over(self, b: ProgramBuilder, index: Place, body: Callable[[Place], tuple[Node, ...]]) -> tuple[Node, ...]:
        """A body for each element of a window."""
        taps, k = b.iterate([as_index(size) for size in self.sizes])
        at: list[IndexSum] = []
        guards = []
        for d, (i, step) in enumerate(zip(index, k, strict=True)):
            first, end = self.limits(d, i)
            at.append(first + step)
            if (end - first).constant != self.sizes[d]:
                guards.append((first + step, "<", end))
        inside = body(tuple(at))
        return loops(taps, (When(tuple(guards), inside),) if guards else inside)


def _mean(rank: int) -> Callable[..., Tensor]:
    def lower(b: ProgramBuilder, x: Tensor, _: Any) -> Tensor:
        shape = b.shape()
        windows = _Windows(x, shape, rank)
        x = b.stored(x)
        if windows.are_equal:
            sizes = tuple(windows.sizes)
            return average(b, x, sizes, WindowGeometry(sizes, (0,) * rank, (1,) * rank), shape, True, None)
        lead, carried = x.rank - rank, x.dtype.compute
        buffer = b.declare(shape, carried)
        outer, index = b.iterate(shape)
        target = element(buffer, index)
        added = windows.over(
            b, index[lead:], lambda at: (ProgramStatement(target, "+=", cast(x.at((*index[:lead], *at)), carried)),)
        )
        b.emit(outer, ProgramStatement(target, "=", number(0, carried)), *added)
        total = b.tensor(buffer, shape, x.dtype)
        return Tensor(
            shape, x.dtype, lambda place: apply("/", total.at(place), windows.count(place[lead:], x.dtype))
        )

    return lower


def _mean_backward(rank: int) -> Callable[..., Tensor]:
    def lower(b: ProgramBuilder, grad: Tensor, x: Tensor) -> Tensor:
        windows = _Windows(x, grad.shape, rank)
        lead = x.rank - rank
        if windows.are_equal:

            def own(index: Place) -> Value:
                spot = [divide(i, as_index(s))[0] for i, s in zip(index[lead:], windows.sizes, strict=True)]
                first = windows.count(tuple(spot), grad.dtype)
                return apply("/", grad.at((*index[:lead], *spot)), first)

            return Tensor(x.shape, grad.dtype, own)
        return _handed_back(b, b.stored(grad), x.shape, windows, lead)

    return lower


def _handed_back(b: ProgramBuilder, grad: Tensor, shape: Place, windows: _Windows, lead: int) -> Tensor:
    """For each element the sum of the shares of the windows that it is in."""
    carried = grad.dtype.compute
    buffer = b.declare(shape, carried)
    outer, index = b.iterate(shape)
    around, window = b.iterate(windows.counts)
    target = element(buffer, index)
    guards = []
    for d, (at, i) in enumerate(zip(index[lead:], window, strict=True)):
        first, end = windows.limits(d, i)
        guards += [(at, ">=", first), (at, "<", end)]
    share = apply("/", grad.at((*index[:lead], *window)), windows.count(window, grad.dtype))
    added = When(tuple(guards), (ProgramStatement(target, "+=", cast(share, carried)),))
    b.emit(outer, ProgramStatement(target, "=", number(0, carried)), *loops(around, (added,)))
    return b.tensor(buffer, shape, grad.dtype)


def _largest(rank: int) -> Callable[..., Any]:
    """With the places in the plane."""

    def lower(b: ProgramBuilder, x: Tensor, _: Any) -> tuple[Tensor, Tensor]:
        shape = b.shape(b.node.meta["val"][0])
        windows, lead = _Windows(x, shape, rank), x.rank - rank
        x = b.stored(x)
        buffer, place = b.declare(shape, x.dtype), b.declare(shape, I64, f"{b.node.name}_at")
        outer, index = b.iterate(shape)
        target, spot = element(buffer, index), element(place, index)

        def kept(at: Place) -> tuple[Node, ...]:
            value = x.at((*index[:lead], *at))
            return (
                ProgramStatement(
                    spot, "=", IndexAsValue(row_major(at, x.shape[lead:]), I64), is_better(value, target, ">")
                ),
                ProgramStatement(target, "max=", value),
            )

        first = row_major([windows.limits(d, i)[0] for d, i in enumerate(index[lead:])], x.shape[lead:])
        start = number(lowest(x.dtype, "max="), x.dtype)
        begun = ProgramStatement(target, "=", start), ProgramStatement(spot, "=", IndexAsValue(first, I64))
        b.emit(outer, *begun, *windows.over(b, index[lead:], kept))
        return b.tensor(buffer, shape), b.tensor(place, shape)

    return lower


def _largest_backward(rank: int) -> Callable[..., Tensor]:
    def lower(b: ProgramBuilder, grad: Tensor, x: Tensor, at: Tensor) -> Tensor:
        return largest_backward(b, grad, x, at, rank)

    return lower


TABLE: dict[Any, Callable[..., Any]] = {
    aten._adaptive_avg_pool2d.default: _mean(2), aten._adaptive_avg_pool3d.default: _mean(3),
    aten._adaptive_avg_pool2d_backward.default: _mean_backward(2),
    aten._adaptive_avg_pool3d_backward.default: _mean_backward(3),
    aten.adaptive_max_pool2d.default: _largest(2), aten.adaptive_max_pool3d.default: _largest(3),
    aten.adaptive_max_pool2d_backward.default: _largest_backward(2),
    aten.adaptive_max_pool3d_backward.default: _largest_backward(3),
}  # fmt: skip
