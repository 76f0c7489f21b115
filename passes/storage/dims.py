"""Moves on how many dimensions a temporary has: one split in two, and two joined again."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import ClassVar

from dojoir.backends.machine import Machine
from dojoir.ir.affine import Affine, FloorDiv, Iter, Mod
from dojoir.ir.nodes import Access, Buffer, Condition, Dim, Guard, Kernel, Node, Path, Scope, Statement, with_body
from dojoir.ir.rewriting.rewrite import map_accesses
from dojoir.passes.base.indices import without_divisions
from dojoir.passes.base.move import BufferName, Formula, Move, Refusal, Rewrite, Undoing, reversible
from dojoir.passes.base.reach import Reach
from dojoir.passes.loops.splitting import blocks
from dojoir.passes.storage.temporaries import temporary
from dojoir.proof.check import identity
from dojoir.sets.kernel_sets import sets_of
from dojoir.support.frozen import dataclass

FACTORS = (4, 8, 16, 32, 64)
"""The inner extents that are listed."""

ZERO = Affine.constant(0)

Indices = tuple[Affine | Access, ...]
Change = Callable[[Indices, Mapping[int, int]], Indices]
"""Gives the new indices of an access; the mapping tells for scopes around, by depth, how often they run at most."""


@dataclass(frozen=True)
class SplitDim(Move):
    """Makes two dimensions of dimension `dim` of a temporary: blocks of `factor` elements, and the elements of a
    block. What was at i is then at i // `factor` and i % `factor`, without the divisions where the extents of the
    scopes around decide them. In memory a block is where the dimension was, so that nothing but the end of the
    last block is new.

    With `reorder_dims` it packs the panels of a product of matrices. The inverse is `join_dims`.

    >>> import dojoir
    >>> k = dojoir.parse('''kernel f(N)
    ... where N % 8 == 0
    ... in  x: f32[N]
    ... out y: f32[N]
    ... tmp t: f32[N]
    ... N // 8
    ... | 8
    ... | | t[8*{0} + {1}] = 2 * x[8*{0} + {1}]
    ... N
    ... | y[{0}] = t[{0}]
    ... ''')
    >>> print(dojoir.apply(k, "split_dim(t, 0, 8)"))
    kernel f(N)
    where N % 8 == 0
    in  x: f32[N]
    out y: f32[N]
    tmp t: f32[N // 8, 8]
    <BLANKLINE>
    N // 8
    | 8
    | | t[{0}, {1}] = 2 * x[8*{0} + {1}]
    N
    | y[{0}] = t[{0} // 8, {0} % 8]
    <BLANKLINE>
    """

    name: ClassVar[str] = "split_dim"
    reach: ClassVar[Reach] = Reach.PANE
    buffer: BufferName
    dim: int
    factor: int

    def rewrite(self, kernel: Kernel) -> Rewrite:
        buffer = temporary(kernel, self.buffer)
        dim = _stored(buffer, self.dim)
        if self.factor < 2:
            raise Refusal("bad-factor", f"a block has at least 2 elements, not {self.factor}")
        divides = sets_of(kernel).always(Condition(dim.extent % self.factor, "==", ZERO))
        outer = dim.extent // self.factor if divides else blocks(dim.extent, self.factor)
        two = (Dim(outer), Dim(Affine.constant(self.factor)))

        def split(indices: Indices, limits: Mapping[int, int]) -> Indices:
            index = indices[self.dim]
            if isinstance(index, Access):
                raise Refusal("gathered", f"dimension {self.dim} of `{buffer.name}` is gathered")
            parts = (_decided(part, limits) for part in (index // self.factor, index % self.factor))
            return (*indices[: self.dim], *parts, *indices[self.dim + 1 :])

        after = _changed(kernel, buffer, _with_two(buffer, self.dim, two), split)
        return reversible(self, kernel, Rewrite(after, identity(kernel)))

    def inverse(self, before: Kernel) -> Move:
        return JoinDims(self.buffer, self.dim, Formula(str(before.buffer(self.buffer).dims[self.dim].extent)))

    @classmethod
    def candidates(cls, kernel: Kernel) -> Iterator[Move]:
        for buffer in kernel.buffers:
            if buffer.role != "tmp" or buffer.storage == "reg":
                continue
            for i, dim in enumerate(buffer.dims):
                for factor in FACTORS:
                    whole = dim.extent.is_constant and dim.extent.offset % factor == 0
                    if not dim.collapsed and whole and dim.extent.offset > factor:
                        yield cls(BufferName(buffer.name), i, factor)

    @classmethod
    def with_numbers(cls, kernel: Kernel, place: Path | str, numbers: Sequence[int]) -> Iterator[Move]:
        if not isinstance(place, str) or kernel.buffer(place).role != "tmp":
            return
        for i, dim in enumerate(kernel.buffer(place).dims):
            most = dim.extent.offset if dim.extent.is_constant else None
            for n in numbers:
                if not dim.collapsed and n > 1 and (most is None or n < most):
                    yield cls(BufferName(place), i, n)

    @classmethod
    def _further(cls, kernel: Kernel, place: Path | str, machine: Machine) -> Iterator[Move]:
        """By all of its extent: an element of a GPU's threads that is a row of a tile."""
        if machine.kind != "gpu" or not isinstance(place, str) or kernel.buffer(place).role != "tmp":
            return
        for i, dim in enumerate(kernel.buffer(place).dims):
            if not dim.collapsed and dim.extent.is_constant:
                yield cls(BufferName(place), i, dim.extent.offset)


@dataclass(frozen=True)
class JoinDims(Undoing):
    """Makes one dimension of `extent` again of dimension `dim` of a temporary and the next one, which is of
    constant extent: blocks, and the elements of a block. The inverse of `split_dim`.

    >>> import dojoir
    >>> k = dojoir.parse('''kernel f(N)
    ... in  x: f32[N]
    ... out y: f32[N]
    ... tmp t: f32[(N + 7) // 8, 8]
    ... N
    ... | t[{0} // 8, {0} % 8] = 2 * x[{0}]
    ... | y[{0}] = t[{0} // 8, {0} % 8]
    ... ''')
    >>> print(dojoir.apply(k, "join_dims(t, 0, N)"))
    kernel f(N)
    in  x: f32[N]
    out y: f32[N]
    tmp t: f32[N]
    <BLANKLINE>
    N
    | t[{0}] = 2 * x[{0}]
    | y[{0}] = t[{0}]
    <BLANKLINE>
    """

    name: ClassVar[str] = "join_dims"
    reach: ClassVar[Reach] = Reach.PANE
    buffer: BufferName
    dim: int
    extent: Formula

    def undone(self, kernel: Kernel) -> tuple[Kernel, Move]:
        buffer = temporary(kernel, self.buffer)
        _stored(buffer, self.dim)
        inner = _stored(buffer, self.dim + 1).extent
        if not inner.is_constant or inner.offset < 2:
            raise Refusal("open-extent", f"dimension {self.dim + 1} of `{buffer.name}` must be a constant above 1")
        factor = inner.offset
        one = Dim(self.extent.affine(kernel, 0))

        def join(indices: Indices, limits: Mapping[int, int]) -> Indices:
            block, element = indices[self.dim : self.dim + 2]
            if isinstance(block, Access) or isinstance(element, Access):
                raise Refusal("gathered", f"dimension {self.dim} of `{buffer.name}` is gathered")
            return (*indices[: self.dim], _whole(block * factor + element), *indices[self.dim + 2 :])

        earlier = _changed(kernel, buffer, _with_one(buffer, self.dim, one), join)
        return earlier, SplitDim(self.buffer, self.dim, factor)

    @classmethod
    def candidates(cls, kernel: Kernel) -> Iterator[Move]:
        for buffer in kernel.buffers:
            for i, (outer, inner) in enumerate(zip(buffer.dims, buffer.dims[1:], strict=False)):
                collapsed = outer.collapsed or inner.collapsed
                if buffer.role == "tmp" and not collapsed and inner.extent.is_constant and inner.extent.offset > 1:
                    yield cls(BufferName(buffer.name), i, Formula(str(outer.extent * inner.extent.offset)))


def _stored(buffer: Buffer, dim: int) -> Dim:
    """A dimension with storage of its own and no padding. Raises Refusal for another."""
    if not 0 <= dim < len(buffer.dims):
        raise Refusal("unknown-dim", f"`{buffer.name}` has {len(buffer.dims)} dimensions, and none is {dim}")
    if buffer.dims[dim].collapsed or (buffer.pad and buffer.pad[dim]):
        what = "collapsed" if buffer.dims[dim].collapsed else "padded"
        raise Refusal("no-plain-dim", f"dimension {dim} of `{buffer.name}` is {what}")
    return buffer.dims[dim]


def _with_two(buffer: Buffer, dim: int, two: tuple[Dim, Dim]) -> Buffer:
    """The buffer with two dimensions for one, the second just inside the first in memory."""
    order: list[int] = []
    for d in buffer.order or range(len(buffer.dims)):
        order += [dim, dim + 1] if d == dim else [d + (d > dim)]
    pad = (*buffer.pad[:dim], 0, 0, *buffer.pad[dim + 1 :]) if buffer.pad else None
    return replace(buffer, dims=(*buffer.dims[:dim], *two, *buffer.dims[dim + 1 :]), order=tuple(order), pad=pad)


def _with_one(buffer: Buffer, dim: int, one: Dim) -> Buffer:
    """The buffer with one dimension for two, where the first of them was in memory."""
    order = tuple(d - (d > dim) for d in buffer.order or range(len(buffer.dims)) if d != dim + 1)
    pad = (*buffer.pad[:dim], 0, *buffer.pad[dim + 2 :]) if buffer.pad else None
    return replace(buffer, dims=(*buffer.dims[:dim], one, *buffer.dims[dim + 2 :]), order=order, pad=pad)


def _decided(affine: Affine, limits: Mapping[int, int]) -> Affine:
    """The value without the divisions that the extents around decide: once that of the smallest part is known, it
    may be that of the next."""
    before: Affine | None = None
    while affine != before:
        before = affine
        for depth in sorted(affine.iterators & limits.keys(), reverse=True):
            affine = without_divisions(affine, Iter(depth), limits[depth])
    return affine


def _whole(affine: Affine) -> Affine:
    """The value with n in place of each d*(n // d) + n % d."""
    for atom, coefficient in affine.terms:
        if isinstance(atom, Mod):
            quotient = FloorDiv(atom.numerator, atom.divisor)
            if affine.coefficient(quotient) == coefficient * atom.divisor:
                pair = Affine.atom(quotient) * atom.divisor + Affine.atom(atom)
                return _whole(affine - pair * coefficient + atom.numerator * coefficient)
    return affine


def _changed(kernel: Kernel, old: Buffer, new: Buffer, change: Change) -> Kernel:
    """The kernel with another declaration of a buffer, and what `change` makes of its indices."""

    def visit(node: Node, depth: int, limits: Mapping[int, int]) -> Node:
        def moved(access: Access) -> Access:
            return Access(old.name, change(access.indices, limits)) if access.buffer == old.name else access

        if old.name not in node.buffers:
            return node
        match node:
            case Statement():
                return map_accesses(node, moved)
            case Guard():
                return with_body(node, tuple(visit(child, depth, limits) for child in node.body))
            case Scope():
                most = node.constant_bound
                inside = limits if most is None else {**limits, depth: most}
                return with_body(node, tuple(visit(child, depth + 1, inside) for child in node.body))

    body = tuple(visit(node, 0, {}) for node in kernel.body)
    return kernel.evolve(body=body).replace_buffer(new)


MOVES = (SplitDim, JoinDims)
