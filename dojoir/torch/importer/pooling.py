"""Pooling: the largest and the mean of windows, and their gradients."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch

from dojoir.torch.importer.builder import Place, ProgramBuilder, Tensor, element
from dojoir.torch.importer.convolution import WindowGeometry, _under_guards, guarded, inside
from dojoir.torch.importer.element_values import I64, IndexAsValue, Value, apply, cast, lowest, number
from dojoir.torch.importer.gathers import place as placed
from dojoir.torch.importer.index import IndexSum, as_index, least, most, product, row_major
from dojoir.torch.importer.nests import ProgramStatement, loops
from dojoir.torch.importer.reductions import is_better

aten: Any = torch.ops.aten


def _window(rank: int, kernel: Any, stride: Any, pad: Any, dilation: Any) -> tuple[tuple[int, ...], WindowGeometry]:
    sizes = tuple(kernel) * rank if len(kernel) == 1 else tuple(kernel)
    return sizes, WindowGeometry.of(stride or sizes, pad, dilation, rank)


def _largest(is_flat: int) -> Callable[..., Any]:
    """With the places in the plane where these are used."""

    def lower(
        b: ProgramBuilder,
        x: Tensor,
        kernel: Any,
        stride: Any = (),
        pad: Any = (0,),
        dilation: Any = (1,),
        ceil: bool = False,
    ) -> tuple[Tensor, Tensor | None]:
        rank = is_flat
        sizes, window = _window(rank, kernel, stride, pad, dilation)
        shape = b.shape(b.node.meta["val"][0])
        lead = x.rank - rank
        x = b.stored(x)
        buffer = b.declare(shape, x.dtype)
        outer, index = b.iterate(shape)
        taps, k = b.iterate([as_index(s) for s in sizes])
        at = window.place(index[lead:], k)
        target, start = element(buffer, index), number(lowest(x.dtype, "max="), x.dtype)
        value = x.at((*index[:lead], *at))
        is_asked = any(u.args[1] == 1 and u.users for u in b.node.users if len(u.args) > 1)
        if not is_asked:
            body = _under_guards(taps, k, at, x.shape[lead:], (ProgramStatement(target, "max=", value),))
            b.emit(outer, ProgramStatement(target, "=", start), *body)
            return b.tensor(buffer, shape), None
        place = b.declare(shape, I64, f"{b.node.name}_at")
        spot, flat = element(place, index), row_major(at, x.shape[lead:])
        # the first place of the window that is in the plane, where no element is larger; that of the last NaN
        better = is_better(value, target, ">")
        found = (
            ProgramStatement(spot, "=", IndexAsValue(flat, I64), better),
            ProgramStatement(target, "max=", value),
        )
        body = _under_guards(taps, k, at, x.shape[lead:], found)
        corner = window.place(index[lead:], [as_index(0)] * rank)
        first = row_major([most(i, as_index(0)) for i in corner], x.shape[lead:])
        b.emit(
            outer,
            ProgramStatement(target, "=", start),
            ProgramStatement(spot, "=", IndexAsValue(first, I64)),
            *body,
        )
        return b.tensor(buffer, shape), b.tensor(place, shape)

    return lower


def _largest_backward(rank: int) -> Callable[..., Tensor]:
    def lower(b: ProgramBuilder, grad: Tensor, x: Tensor, kernel: Any, stride: Any, pad: Any, dilation: Any,
              ceil: bool, at: Tensor) -> Tensor:  # fmt: skip
        return largest_backward(b, grad, x, at, rank)

    return lower


def largest_backward(b: ProgramBuilder, grad: Tensor, x: Tensor, at: Tensor, rank: int) -> Tensor:
    """The gradients of windows, each at the place that its largest element has in the plane."""
    from dojoir.torch.importer.views import reshape

    lead = x.rank - rank
    plane = (*x.shape[:lead], product(x.shape[lead:]))
    grad, at = b.stored(grad), b.stored(at)
    buffer = b.zeros(plane, grad.dtype)
    variables, index = b.iterate(grad.shape)
    to = element(buffer, (*index[:lead], placed(at.at(index), plane[-1], False)))
    b.emit(variables, ProgramStatement(to, "+=", grad.at(index)))
    return reshape(b.tensor(buffer, plane), x.shape)


def _counts(
    x: Tensor, lead: int, index: Place, sizes: Sequence[int], window: WindowGeometry, has_pad: bool, by: int | None
) -> tuple[IndexSum, bool]:
    """How many elements a mean is of, and whether that is the same everywhere."""
    if by is not None:
        return as_index(by), True
    total, plain = as_index(1), True
    for i, size, s, p, extent in zip(index, sizes, window.stride, window.pad, x.shape[lead:], strict=True):
        start = i * s - p
        end = least(start + size, extent + p)
        if not has_pad:
            start, end = most(start, as_index(0)), least(end, extent)
        span = end - start
        plain = plain and span.constant is not None
        total = total * span
    return total, plain


def _average(rank: int) -> Callable[..., Tensor]:
    def lower(
        b: ProgramBuilder, x: Tensor, kernel: Any, stride: Any = (), pad: Any = (0,), ceil: bool = False,
        has_pad: bool = True, by: int | None = None,
    ) -> Tensor:  # fmt: skip
        sizes, window = _window(rank, kernel, stride, pad, (1,))
        return average(b, b.stored(x), sizes, window, b.shape(), has_pad, by)

    return lower


def average(
    b: ProgramBuilder,
    x: Tensor,
    sizes: Sequence[int],
    window: WindowGeometry,
    shape: Place,
    has_pad: bool,
    by: int | None,
) -> Tensor:
    """The mean of each window."""
    lead = x.rank - len(sizes)
    carried = x.dtype.compute
    buffer = b.declare(shape, carried)
    outer, index = b.iterate(shape)
    taps, k = b.iterate([as_index(s) for s in sizes])
    at = window.place(index[lead:], k)
    target = element(buffer, index)
    body = _under_guards(
        taps, k, at, x.shape[lead:], (ProgramStatement(target, "+=", cast(x.at((*index[:lead], *at)), carried)),)
    )
    b.emit(outer, ProgramStatement(target, "=", number(0, carried)), *body)
    total = b.tensor(buffer, shape, x.dtype)

    def mean(index: Place) -> Value:
        number_of, _ = _counts(x, lead, index[lead:], sizes, window, has_pad, by)
        if number_of.constant is not None:
            return apply("/", total.at(index), number(number_of.constant, carried))
        return apply("/", total.at(index), IndexAsValue(number_of, carried))

    return Tensor(shape, x.dtype, mean)


def _average_backward(rank: int) -> Callable[..., Tensor]:
    def lower(
        b: ProgramBuilder, grad: Tensor, x: Tensor, kernel: Any, stride: Any, pad: Any, ceil: bool, has_pad: bool,
        by: int | None,
    ) -> Tensor:  # fmt: skip
        sizes, window = _window(rank, kernel, stride, pad, (1,))
        lead = x.rank - rank
        grad = b.stored(grad)

        def share(index: Place) -> Value:
            count, _ = _counts(x, lead, index[lead:], sizes, window, has_pad, by)
            of = (
                number(count.constant, grad.dtype)
                if count.constant is not None
                else IndexAsValue(count, grad.dtype)
            )
            return apply("/", grad.at(index), of)

        return spread_back(b, Tensor(grad.shape, grad.dtype, share), x, sizes, window)

    return lower


def spread_back(b: ProgramBuilder, grad: Tensor, x: Tensor, sizes: Sequence[int], window: WindowGeometry) -> Tensor:
    """The adjoint of windows: each element is the sum of the gradients of the windows that contain it."""
    lead = x.rank - len(sizes)
    carried = x.dtype.compute
    buffer = b.zeros(x.shape, carried)
    variables, index = b.iterate(grad.shape)
    taps, k = b.iterate([as_index(s) for s in sizes])
    at = window.place(index[lead:], k)
    to = ProgramStatement(element(buffer, (*index[:lead], *at)), "+=", cast(grad.at(index), carried))
    b.emit(variables, *loops(taps, guarded(inside(at, x.shape[lead:]), (to,))))
    return b.tensor(buffer, x.shape, x.dtype)


TABLE: dict[Any, Callable[..., Any]] = {
    aten.max_pool2d_with_indices.default: _largest(2), aten.max_pool3d_with_indices.default: _largest(3),
    aten.max_pool2d_with_indices_backward.default: _largest_backward(2),
    aten.max_pool3d_with_indices_backward.default: _largest_backward(3),
    aten.avg_pool1d.default: _average(1), aten.avg_pool2d.default: _average(2),
    aten.avg_pool3d.default: _average(3),
    aten.avg_pool2d_backward.default: _average_backward(2), aten.avg_pool3d_backward.default: _average_backward(3),
}  # fmt: skip
