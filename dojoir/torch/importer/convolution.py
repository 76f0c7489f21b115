"""Convolutions of one to three dimensions: strides, padding, dilation, groups, transposed ones; their gradients.

Borders are guards of the sums, so that a padded input is not stored. Of halves it is: matrix units multiply all
terms of a sum, and 0 times a weight is what PyTorch adds there too.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import torch

from dojoir.torch.importer.builder import Place, ProgramBuilder, Tensor, Unsupported, element
from dojoir.torch.importer.element_values import NARROW, Value, apply, cast, number
from dojoir.torch.importer.index import IndexSum, as_index, divide, is_within, product
from dojoir.torch.importer.matrix_products import contract
from dojoir.torch.importer.nests import Node, ProgramStatement, When, loops
from dojoir.torch.importer.views import reshape

aten: Any = torch.ops.aten

TERMS, OUTPUTS = 64, 16
"""The terms of a sum and the channels of a group's result, at least, that matrix units are used for."""


@dataclass(frozen=True)
class WindowGeometry:
    """How the windows lie: for each dimension the stride, the padding in front, and the dilation."""

    stride: tuple[int, ...]
    pad: tuple[int, ...]
    dilation: tuple[int, ...]

    @classmethod
    def of(cls, stride: Sequence[int], pad: Sequence[int], dilation: Sequence[int], rank: int) -> WindowGeometry:
        """From what PyTorch gives, where one number is for all dimensions."""
        made = [tuple(int(v) for v in g) for g in (stride, pad, dilation)]
        return cls(*((g * rank if len(g) == 1 else g) for g in made))

    def place(self, at: Sequence[IndexSum], taps: Sequence[IndexSum]) -> list[IndexSum]:
        """Where a tap of a window is."""
        steps = zip(at, taps, self.stride, self.pad, self.dilation, strict=True)
        return [i * s + k * d - p for i, k, s, p, d in steps]


Condition = tuple[IndexSum, str, IndexSum]


def inside(index: Sequence[IndexSum], extents: Sequence[IndexSum]) -> tuple[Condition, ...]:
    """The conditions under which an index is in range, as far as they are not seen."""
    made: list[Condition] = []
    for i, extent in zip(index, extents, strict=True):
        if not is_within(i, 0, extent):
            constant = i.terms.get((), 0)
            made.append((i - constant, ">=", as_index(-constant)))
            made.append((i - constant, "<", extent - constant))
    return tuple(made)


def guarded(conditions: Sequence[Condition], body: Sequence[Node]) -> tuple[Node, ...]:
    """The body under conditions, if there are any."""
    return (When(tuple(conditions), tuple(body)),) if conditions else tuple(body)


def _convolution(
    b: ProgramBuilder, x: Tensor, w: Tensor, bias: Tensor | None, stride: Any, pad: Any, dilation: Any,
    transposed: bool, output_padding: Any, groups: int,
) -> Tensor:  # fmt: skip
    if x.rank != w.rank:
        raise Unsupported("a convolution without a batch")
    window = WindowGeometry.of(stride, pad, dilation, w.rank - 2)
    x, w = b.stored(x), b.stored(w)
    if transposed:
        made = spread(b, x, w, window, groups, b.shape())
    else:
        made = convolve(b, x, w, window, groups, b.shape())
    if bias is None:
        return made
    at, of_bias = made.at, bias.at
    return Tensor(made.shape, made.dtype, lambda index: apply("+", at(index), of_bias((index[1],))))


def _grouped(b: ProgramBuilder, groups: int, each: IndexSum) -> tuple[list[Any], IndexSum, IndexSum, IndexSum]:
    """Iterators over groups and the channels of one: the two indices, and that of the channel."""
    variables, (group, channel) = b.iterate([as_index(groups), each])
    return variables, group, channel, group * each + channel


def _part_groups(b: ProgramBuilder, groups: int, *of: tuple[Tensor, int]) -> None:
    """Lets the groups of channels have a dimension of their own in the buffers that tensors are."""
    for tensor, d in of:
        each = divide(tensor.shape[d], as_index(groups))[0]
        buffer = tensor.buffer
        if groups > 1 and each.constant != 1 and buffer is not None and b.program.buffers[buffer].order is None:
            b.parted.append((buffer, d, each))


def convolve(
    b: ProgramBuilder,
    x: Tensor,
    w: Tensor,
    window: WindowGeometry,
    groups: int,
    shape: Place,
    name: str | None = None,
) -> Tensor:
    """`y[n, o, i] = sum_(c, k) x[n, c, stride i + dilation k - pad] w[o, c, k]`."""
    dtype = x.dtype
    carried = dtype.compute
    each = divide(shape[1], as_index(groups))[0]
    if _for_units(b, x, product(w.shape[1:]), each) and any(window.pad):
        x, window = _padded(b, x, window)
    buffer = b.declare(shape, carried, name)
    batch, (n,) = b.iterate(shape[:1])
    outputs, group, _, o = _grouped(b, groups, each)
    spatial, at = b.iterate(shape[2:])
    channels, (c,) = b.iterate(w.shape[1:2])
    taps, k = b.iterate(w.shape[2:])
    place = window.place(at, k)
    target = element(buffer, (n, o, *at))
    factor = w.at((o, c, *k))
    value = apply("*", cast(x.at((n, group * w.shape[1] + c, *place)), carried), cast(factor, carried))
    body = _under_guards(taps, k, place, x.shape[2:], (ProgramStatement(target, "+=", value),))
    b.emit([*batch, *outputs, *spatial], ProgramStatement(target, "=", number(0, carried)), *loops(channels, body))
    made = b.tensor(buffer, shape, dtype)
    _part_groups(b, groups, (x, 1), (w, 0), (made, 1))
    return made


def _for_units(b: ProgramBuilder, x: Tensor, terms: IndexSum, outputs: IndexSum) -> bool:
    """Whether matrix units are used for a convolution of `x`, which stays in its type then."""
    narrow = x.dtype in NARROW and (terms.constant or 0) >= TERMS and (outputs.constant or 0) >= OUTPUTS
    if narrow and x.buffer is not None:
        b.program.factors.add(x.buffer)
    return narrow


def _padded(b: ProgramBuilder, x: Tensor, window: WindowGeometry) -> tuple[Tensor, WindowGeometry]:
    """The input with zeros around it, and the windows in that."""
    shape = (*x.shape[:2], *(extent + 2 * pad for extent, pad in zip(x.shape[2:], window.pad, strict=True)))
    buffer = b.zeros(shape, x.dtype)
    within, at = b.iterate(x.shape)
    moved = (*at[:2], *(index + pad for index, pad in zip(at[2:], window.pad, strict=True)))
    b.emit(within, ProgramStatement(element(buffer, moved), "=", x.at(at)))
    return b.tensor(buffer, shape, x.dtype), replace(window, pad=(0,) * len(window.pad))


def _under_guards(
    taps: Sequence[Any], k: Place, place: Sequence[IndexSum], extents: Sequence[IndexSum], body: Sequence[Node]
) -> tuple[Node, ...]:
    """The body in the loops over taps, each with its guard right inside of it."""
    asked = [inside([index], [extent]) for index, extent in zip(place, extents, strict=True)]
    return _each_guarded(taps, k, asked, body)


def _each_guarded(
    taps: Sequence[Any], k: Place, conditions: Sequence[tuple[Condition, ...]], body: Sequence[Node]
) -> tuple[Node, ...]:
    """The body in the loops over taps, with the conditions of each right inside of it."""
    variables = iter(taps)
    own = [[next(variables)] if tap.constant is None else [] for tap in k]
    inner = tuple(body)
    for variable, asked in reversed([*zip(own, conditions, strict=True)]):
        inner = loops(variable, guarded(asked, inner))
    return inner


def spread(
    b: ProgramBuilder,
    x: Tensor,
    w: Tensor,
    window: WindowGeometry,
    groups: int,
    shape: Place,
    name: str | None = None,
) -> Tensor:
    """The transposed convolution: `y[n, o, stride i + dilation k - pad] += x[n, c, i] w[c, o, k]`, as a sum for
    each element of the result."""
    apart = groups == 1 and window == WindowGeometry(
        tuple(k.constant or 0 for k in w.shape[2:]), (0,) * len(window.pad), (1,) * len(window.pad)
    )
    if apart and shape[2:] == tuple(i * k for i, k in zip(x.shape[2:], w.shape[2:], strict=True)):
        return _spread_apart(b, x, w, shape)
    dtype = x.dtype
    carried = dtype.compute
    buffer = b.declare(shape, carried, name)
    each = w.shape[1]
    batch, (n,) = b.iterate(shape[:1])
    outputs, group, own, o = _grouped(b, groups, each)
    spatial, at = b.iterate(shape[2:])
    per_group = divide(w.shape[0], as_index(groups))[0]
    _for_units(b, x, per_group, each)
    channels, (c,) = b.iterate([per_group])
    taps, k = b.iterate(w.shape[2:])
    place: list[IndexSum] = []
    conditions: list[tuple[Condition, ...]] = []
    for i, tap, s, p, d, extent in zip(at, k, window.stride, window.pad, window.dilation, x.shape[2:], strict=True):
        moved = i - tap * d + p
        if s == 1:
            place.append(moved)
            conditions.append(inside([moved], [extent]))
            continue
        place.append(divide(moved, as_index(s))[0])
        conditions.append((*inside([moved], [extent * s]), (divide(moved, as_index(s))[1], "==", as_index(0))))
    channel = group * per_group + c
    target = element(buffer, (n, o, *at))
    value = apply("*", cast(x.at((n, channel, *place)), carried), cast(w.at((channel, own, *k)), carried))
    body = _each_guarded(taps, k, conditions, (ProgramStatement(target, "+=", value),))
    b.emit([*batch, *outputs, *spatial], ProgramStatement(target, "=", number(0, carried)), *loops(channels, body))
    return b.tensor(buffer, shape, dtype)


def _spread_apart(b: ProgramBuilder, x: Tensor, w: Tensor, shape: Place) -> Tensor:
    """A transposed convolution whose windows lie side by side: a product of matrices, and its results laid out."""
    taps, places = w.shape[2:], x.shape[2:]
    rows = reshape(w, (w.shape[0], product(w.shape[1:])))
    left = Tensor((x.shape[0], *reversed(rows.shape)), w.dtype, lambda index: rows.at((index[2], index[1])))
    made = contract(b, left, reshape(x, (*x.shape[:2], product(places))))
    parted = reshape(made, (x.shape[0], *w.shape[1:], *places))

    def at(index: Place) -> Value:
        found = [divide(i, k) for i, k in zip(index[2:], taps, strict=True)]
        return parted.at((*index[:2], *(tap for _, tap in found), *(place for place, _ in found)))

    return Tensor(shape, made.dtype, at)


def _of_weights(
    b: ProgramBuilder, x: Tensor, grad: Tensor, window: WindowGeometry, groups: int, shape: Place, name: str
) -> Tensor:
    """`w[o, c, k] = sum_(n, i) grad[n, o, i] x[n, c, stride i + dilation k - pad]`."""
    dtype = x.dtype
    carried = dtype.compute
    buffer = b.declare(shape, carried, name)
    outputs, group, _, o = _grouped(b, groups, divide(shape[0], as_index(groups))[0])
    channels, (c,) = b.iterate(shape[1:2])
    taps, k = b.iterate(shape[2:])
    batch, (n,) = b.iterate(grad.shape[:1])
    spatial, at = b.iterate(grad.shape[2:])
    place = window.place(at, k)
    target = element(buffer, (o, c, *k))
    value = apply("*", cast(grad.at((n, o, *at)), carried), cast(x.at((n, group * shape[1] + c, *place)), carried))
    body = _under_guards(spatial, at, place, x.shape[2:], (ProgramStatement(target, "+=", value),))
    b.emit([*outputs, *channels, *taps], ProgramStatement(target, "=", number(0, carried)), *loops(batch, body))
    return b.tensor(buffer, shape, dtype)


def _backward(
    b: ProgramBuilder, grad: Tensor, x: Tensor, w: Tensor, bias_sizes: Any, stride: Any, pad: Any, dilation: Any,
    transposed: bool, output_padding: Any, groups: int, wanted: Sequence[bool],
) -> tuple[Tensor | None, ...]:  # fmt: skip
    window = WindowGeometry.of(stride, pad, dilation, w.rank - 2)
    grad, x, w = b.stored(grad), b.stored(x), b.stored(w)
    made: list[Tensor | None] = [None, None, None]
    name = b.node.name
    if wanted[0]:
        back = convolve if transposed else spread
        made[0] = back(b, grad, w, window, groups, x.shape, f"{name}_x")
    if wanted[1]:
        pair = (grad, x) if transposed else (x, grad)
        made[1] = _of_weights(b, *pair, window, groups, w.shape, f"{name}_w")
    if wanted[2]:
        from dojoir.torch.importer.reductions import fold

        dims = [0, *range(2, grad.rank)]
        made[2] = fold(b, grad, dims, "+=", 0, grad.dtype, name=f"{name}_bias")
    return tuple(made)


TABLE: dict[Any, Callable[..., Any]] = {
    aten.convolution.default: _convolution,
    aten.convolution_backward.default: _backward,
}
