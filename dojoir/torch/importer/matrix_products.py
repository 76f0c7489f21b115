"""Products of matrices, one by one and in batches, with sums and factors around them; and attention for inference.

Of a causal attention, keys behind the block of a row are not read at all. Within its block the weights of the keys
behind a row are zeros, which are multiplied by their values, as in kernels that are written by hand: a value that
is no finite number there makes the row one of NaN.

Source: Dao et al., "FlashAttention" (2022), arXiv:2205.14135.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import torch

from dojoir.torch.attention import BLOCK, whole_attention
from dojoir.torch.importer.builder import Place, ProgramBuilder, Tensor, element
from dojoir.torch.importer.element_values import (
    F32,
    I64,
    NARROW,
    ElementValue,
    IndexAsValue,
    Value,
    apply,
    cast,
    compare,
    number,
    select,
)
from dojoir.torch.importer.index import IndexSum, IteratorAtom, as_index, divide
from dojoir.torch.importer.nests import ProgramBuffer, ProgramStatement, loops

aten: Any = torch.ops.aten


def contract(b: ProgramBuilder, x: Tensor, y: Tensor) -> Tensor:
    """`[…, i, k]` times `[…, k, j]`."""
    x, y = _factor(b, x, y.shape[-1]), _factor(b, y, x.shape[-2])
    shape = (*x.shape[:-1], y.shape[-1])
    dtype = x.dtype
    wide = dtype.compute

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

    if kind.is_float and beta == 0:
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


Along: TypeAlias = Callable[[Place], tuple[Sequence[IteratorAtom], Place]]
"""The iterators over something of a row, and the index that they make."""


@dataclass(frozen=True)
class _Rows:
    """Rows of some tensors, the end of the keys that one reads, and nests over them."""

    b: ProgramBuilder
    shape: Place
    end: Callable[[IndexSum], IndexSum]

    def itself(self, row: Place) -> tuple[Sequence[IteratorAtom], Place]:
        return (), ()

    def keys(self, row: Place) -> tuple[Sequence[IteratorAtom], Place]:
        return self.b.iterate((self.end(row[-1]),))

    def columns(self, of: Tensor) -> Along:
        return lambda row: self.b.iterate(of.shape[-1:])

    def fill(self, to: ProgramBuffer, along: Along, value: Callable[[Place], Value]) -> None:
        """Stores a value at each index."""
        rows, row = self.b.iterate(self.shape)
        inner, at = along(row)
        index = *row, *at
        self.b.emit((*rows, *inner), ProgramStatement(element(to, index), "=", value(index)))

    def accumulate(
        self,
        to: ProgramBuffer,
        along: Along,
        over: Along,
        start: float,
        op: str,
        value: Callable[[Place, Place], Value],
    ) -> None:
        """Accumulates `value(index, term)` at each index."""
        rows, row = self.b.iterate(self.shape)
        inner, at = along(row)
        summed, term = over(row)
        index = *row, *at
        added = ProgramStatement(element(to, index), op, value(index, term))
        first = ProgramStatement(element(to, index), "=", number(start, to.dtype))
        self.b.emit((*rows, *inner), first, *loops(summed, (added,)))


def _end_of_block(row: IndexSum) -> IndexSum:
    return divide(row, as_index(BLOCK))[0] * BLOCK + BLOCK


def _attention(
    b: ProgramBuilder, query: Tensor, key: Tensor, value: Tensor, scale: float, is_causal: bool
) -> Tensor:
    """Of `[…, rows, terms]`, `[…, keys, terms]` and `[…, keys, columns]`."""
    name, keys = b.node.name, key.shape[-2]
    query = _factor(b, query, keys)
    key, value = (_factor(b, one, query.shape[-2]) for one in (key, value))
    rows = _Rows(b, query.shape[:-1], _end_of_block if is_causal else lambda row: keys)
    square = *rows.shape, keys
    scores, weights = (b.declare(square, F32, f"{name}_{of}") for of in ("scores", "weights"))
    most, total = (b.declare(rows.shape, F32, f"{name}_{of}") for of in ("most", "total"))
    factors = b.declare(square, value.dtype, f"{name}_factors")
    made = b.declare((*rows.shape, value.shape[-1]), F32, name)
    b.program.factors.add(factors.name)

    def product(left: Value, right: Value) -> Value:
        return apply("*", cast(left, F32), cast(right, F32))

    def score(index: Place) -> Value:
        scaled = apply("*", element(scores, index), number(scale, F32))
        before = compare("<=", IndexAsValue(index[-1], I64), IndexAsValue(index[-2], I64))
        return select(before, scaled, number(-math.inf, F32)) if is_causal else scaled

    rows.accumulate(
        scores, rows.keys, rows.columns(query), 0, "+=",
        lambda at, k: product(query.at((*at[:-1], *k)), key.at((*at[:-2], at[-1], *k))),
    )  # fmt: skip
    rows.accumulate(most, rows.itself, rows.keys, -math.inf, "max=", lambda at, k: score((*at, *k)))
    rows.fill(weights, rows.keys, lambda at: apply("exp", apply("-", score(at), element(most, at[:-1]))))
    rows.accumulate(total, rows.itself, rows.keys, 0, "+=", lambda at, k: element(weights, (*at, *k)))
    rows.fill(factors, rows.keys, lambda at: cast(element(weights, at), factors.dtype))
    rows.accumulate(
        made, rows.columns(value), rows.keys, 0, "+=",
        lambda at, k: product(element(factors, (*at[:-1], *k)), value.at((*at[:-2], *k, at[-1]))),
    )  # fmt: skip
    return Tensor(
        made.shape, value.dtype,
        lambda at: cast(apply("/", element(made, at), element(total, at[:-1])), value.dtype),
    )  # fmt: skip


TABLE: dict[Any, Callable[..., Any]] = {
    aten.mm.default: contract, aten.bmm.default: contract, aten.mv.default: _mv, aten.dot.default: _dot,
    aten.addmm.default: _added, aten.baddbmm.default: _added, aten.addmv.default: _addmv,
    aten._trilinear.default: _trilinear, whole_attention._opoverload: _attention,
}  # fmt: skip
