"""Products of matrices, one by one and in batches, with sums and factors around them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

from dojoir.torch.importer.builder import Place, ProgramBuilder, Tensor
from dojoir.torch.importer.element_values import FLOATS, NARROW, ElementValue, Value, apply, carrier, cast, number
from dojoir.torch.importer.index import IndexSum, as_index

aten: Any = torch.ops.aten


def contract(b: ProgramBuilder, x: Tensor, y: Tensor) -> Tensor:
    """`[…, i, k]` times `[…, k, j]`."""
    x, y = _factor(b, x, y.shape[-1]), _factor(b, y, x.shape[-2])
    shape = (*x.shape[:-1], y.shape[-1])
    dtype = x.dtype
    wide = carrier(dtype)

    def value(index: Place, below: Place) -> Value:
        left, right = x.at((*index[:-1], below[0])), y.at((*index[:-2], below[0], index[-1]))
        return apply("*", cast(left, wide), cast(right, wide))

    return b.reduce(shape, [x.shape[-1]], value, "+=", 0, dtype)


def _factor(b: ProgramBuilder, x: Tensor, times: IndexSum) -> Tensor:
    """A factor of a product, each element of which is read several times: it is stored first, unless it is read
    once and costs an operation or two. A narrow float is stored in its own type."""
    found = b.cost(x)
    once = times.constant == 1 and found.operations <= 2 and not found.costly and found.reads <= 1
    if not once and x.dtype not in NARROW:
        return b.stored(x)
    if not once and not isinstance(x.at(b.iterate(x.shape)[1]), ElementValue):
        x = b.realize(x, x.label or f"{b.node.name}_of")
    match x.at(b.iterate(x.shape)[1]):
        case ElementValue(buffer, dtype=dtype) if dtype in NARROW:
            b.program.factors.add(buffer)
    return x


def _mv(b: ProgramBuilder, x: Tensor, y: Tensor) -> Tensor:
    x, y = b.stored(x), b.stored(y)

    def value(index: Place, below: Place) -> Value:
        return apply("*", x.at((index[0], below[0])), y.at((below[0],)))

    return b.reduce(x.shape[:1], [x.shape[1]], value, "+=", 0, x.dtype)


def _dot(b: ProgramBuilder, x: Tensor, y: Tensor) -> Tensor:
    return b.reduce((), [x.shape[0]], lambda _, k: apply("*", x.at(k), y.at(k)), "+=", 0, x.dtype)


def _added(b: ProgramBuilder, c: Tensor, x: Tensor, y: Tensor, *, beta: Any = 1, alpha: Any = 1) -> Tensor:
    """`beta c + alpha x y`."""
    return added(b, c, contract(b, x, y), beta, alpha)


def added(b: ProgramBuilder, c: Tensor, made: Tensor, beta: Any, alpha: Any) -> Tensor:
    """`beta c + alpha made`."""
    kind = made.dtype

    def scaled(value: Value, factor: Any) -> Value:
        return value if factor == 1 else apply("*", value, number(factor, kind))

    if kind in FLOATS and beta == 0:
        return b.pointwise(made.shape, kind, lambda p: scaled(p, alpha), made)
    return b.pointwise(made.shape, kind, lambda p, q: apply("+", scaled(p, alpha), scaled(q, beta)), made, c)


def _addmv(b: ProgramBuilder, c: Tensor, x: Tensor, y: Tensor, *, beta: Any = 1, alpha: Any = 1) -> Tensor:
    return added(b, c, _mv(b, x, y), beta, alpha)


def _trilinear(
    b: ProgramBuilder,
    x: Tensor,
    y: Tensor,
    z: Tensor,
    new_x: Any,
    new_y: Any,
    new_z: Any,
    over: Any,
    unroll: int = 1,
) -> Tensor:
    """The product of three tensors, each with new dimensions, summed over some."""
    from dojoir.torch.importer.reductions import fold
    from dojoir.torch.importer.views import reshape

    wide: list[Tensor] = []
    for one, new in ((x, new_x), (y, new_y), (z, new_z)):
        ones = list(b.stored(one).shape)
        for d in sorted(new):
            ones.insert(d, as_index(1))
        wide.append(reshape(one, tuple(ones)))
    ranges = zip(*(w.shape for w in wide), strict=True)
    shape = tuple(next((s for s in each if s.constant != 1), each[0]) for each in ranges)
    made = b.pointwise(shape, x.dtype, lambda p, q, r: apply("*", apply("*", p, q), r), *wide)
    return fold(b, made, over, "+=", 0, x.dtype) if over else made


TABLE: dict[Any, Callable[..., Any]] = {
    aten.mm.default: contract, aten.bmm.default: contract, aten.mv.default: _mv, aten.dot.default: _dot,
    aten.addmm.default: _added, aten.baddbmm.default: _added, aten.addmv.default: _addmv,
    aten._trilinear.default: _trilinear,
}  # fmt: skip
