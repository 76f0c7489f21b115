"""Moves on how many dimensions a temporary has: one split in two, and two joined again; one without storage of its
own taken away, and given back."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from itertools import pairwise
from typing import TypeVar

from dojoir.backends.machine import Machine
from dojoir.ir.affine import Affine, FloorDiv, Iter, Mod
from dojoir.ir.nodes import Access, Buffer, Condition, Dim, Kernel, Node, Scope, Statement, with_body
from dojoir.ir.rewriting.rewrite import map_accesses
from dojoir.passes.base.about import AboutTemporary, Arguments, Declared
from dojoir.passes.base.indices import without_divisions
from dojoir.passes.base.move import Formula, Move, Refusal, Rewrite, Undoing, reversible
from dojoir.passes.base.reach import Reach
from dojoir.passes.loops.splitting import blocks
from dojoir.passes.storage.boxes import accesses_of
from dojoir.passes.storage.temporaries import check_dim
from dojoir.proof.check import identity
from dojoir.sets.kernel_sets import sets_of
from dojoir.support.frozen import dataclass

FACTORS = (4, 8, 16, 32, 64)
"""The inner extents that are listed."""

ZERO = Affine.constant(0)

Indices = tuple[Affine | Access, ...]

Around = tuple[int | None, ...]
"""How often the scopes around run at most, outermost first, as far as that is known."""

Change = Callable[[Indices, Around], Indices]
"""Gives the new indices of an access."""

T = TypeVar("T")


@dataclass(frozen=True)
class SplitDim(AboutTemporary, name="split_dim", reach=Reach.PANE):
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

    dim: int
    factor: int

    def rewritten(self, at: Declared) -> Rewrite:
        (kernel, buffer), number, factor = at, self.dim, self.factor
        extent = _stored(buffer, number).extent
        if factor < 2:
            raise Refusal("bad-factor", f"a block has at least 2 elements, not {factor}")
        divides = sets_of(kernel).always(Condition(extent % factor, "==", ZERO))
        two = Dim(extent // factor if divides else blocks(extent, factor)), Dim(Affine.constant(factor))
        order: list[int] = []
        for d in buffer.order or range(len(buffer.dims)):
            order += [number, number + 1] if d == number else [d + (d > number)]  # in memory, just inside

        def split(indices: Indices, around: Around) -> Indices:
            index = _not_gathered(buffer, number, indices[number])
            parts = (_decided(part, around) for part in (index // factor, index % factor))
            return _spliced(indices, number, 1, *parts)

        made = replace(buffer, dims=_spliced(buffer.dims, number, 1, *two), order=tuple(order))
        made = replace(made, pad=_spliced(buffer.pad, number, 1, 0, 0) if buffer.pad else None)
        return reversible(self, kernel, Rewrite(_changed(kernel, made, split), identity(kernel)))

    def back(self, at: Declared) -> Move:
        return JoinDims(self.buffer, self.dim, Formula(str(at.buffer.dims[self.dim].extent)))

    @classmethod
    def listed(cls, at: Declared) -> Arguments:
        for i, extent in _own(at.buffer) if at.buffer.storage != "reg" else ():
            most = extent.offset if extent.is_constant else 0
            yield from ((i, factor) for factor in FACTORS if most % factor == 0 and most > factor)

    @classmethod
    def numbered(cls, at: Declared, numbers: Sequence[int]) -> Arguments:
        for i, extent in _own(at.buffer):
            yield from ((i, n) for n in numbers if n > 1 and (not extent.is_constant or n < extent.offset))

    @classmethod
    def more(cls, at: Declared, machine: Machine) -> Arguments:
        """By all of its extent: an element of a GPU's threads that is a row of a tile."""
        own = _own(at.buffer) if machine.kind == "gpu" else ()
        return ((i, extent.offset) for i, extent in own if extent.is_constant)


@dataclass(frozen=True)
class JoinDims(Undoing, AboutTemporary, name="join_dims", reach=Reach.PANE):
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

    dim: int
    extent: Formula

    def undone(self, kernel: Kernel) -> tuple[Kernel, Move]:
        buffer, number = self.found(kernel).buffer, self.dim
        _stored(buffer, number)
        inner = _stored(buffer, number + 1).extent
        if not inner.is_constant or inner.offset < 2:
            raise Refusal("open-extent", f"dimension {number + 1} of `{buffer.name}` must be a constant above 1")
        one = Dim(self.extent.affine(kernel, 0))
        order = tuple(d - (d > number) for d in buffer.order or range(len(buffer.dims)) if d != number + 1)

        def join(indices: Indices, around: Around) -> Indices:
            block, element = (_not_gathered(buffer, number, index) for index in indices[number : number + 2])
            return _spliced(indices, number, 2, _whole(block * inner.offset + element))

        made = replace(buffer, dims=_spliced(buffer.dims, number, 2, one), order=order)
        made = replace(made, pad=_spliced(buffer.pad, number, 2, 0) if buffer.pad else None)
        return _changed(kernel, made, join), SplitDim(self.buffer, number, inner.offset)

    @classmethod
    def listed(cls, at: Declared) -> Arguments:
        for i, (outer, inner) in enumerate(pairwise(at.buffer.dims)):
            if not (outer.collapsed or inner.collapsed) and inner.extent.is_constant and inner.extent.offset > 1:
                yield i, Formula(str(outer.extent * inner.extent.offset))


@dataclass(frozen=True)
class DropDim(AboutTemporary, name="drop_dim", reach=Reach.PANE):
    """Takes dimension `dim` of a temporary away, which is collapsed (`N~`): the elements along it, which are one in
    memory, become one. A value that goes on from element to element is then one of a scalar. The inverse is
    `add_dim`.

    >>> import dojoir
    >>> k = dojoir.parse('''kernel f(N)
    ... in  x: f32[N]
    ... out y: f32[N]
    ... tmp t: f32[N + 1~]
    ... t[0] = 0
    ... N
    ... | t[{0} + 1] = t[{0}] + x[{0}]
    ... | y[{0}] = t[{0} + 1]
    ... ''')
    >>> print(dojoir.apply(k, "drop_dim(t, 0)"))
    kernel f(N)
    in  x: f32[N]
    out y: f32[N]
    tmp t: f32
    <BLANKLINE>
    t = 0
    N
    | t = t + x[{0}]
    | y[{0}] = t
    <BLANKLINE>
    """

    dim: int

    def rewritten(self, at: Declared) -> Rewrite:
        (kernel, buffer), number = at, self.dim
        check_dim(buffer, number)
        if not buffer.dims[number].collapsed:
            message = f"dimension {number} of `{buffer.name}` has storage of its own: reuse_dims takes that away"
            raise Refusal("has-storage", message)
        _check_plain(buffer)
        for access, _ in uses_of(kernel, buffer.name):
            _not_gathered(buffer, number, access.indices[number])
        made = replace(buffer, dims=_spliced(buffer.dims, number, 1))
        after = _changed(kernel, made, lambda indices, around: _spliced(indices, number, 1))
        return reversible(self, kernel, Rewrite(after, identity(kernel)))

    def back(self, at: Declared) -> Move:
        given = tuple(Formula(str(access.indices[self.dim])) for access, _ in uses_of(at.kernel, self.buffer))
        return AddDim(self.buffer, self.dim, Formula(str(at.buffer.dims[self.dim].extent)), given)

    @classmethod
    def listed(cls, at: Declared) -> Arguments:
        """Those along which a value goes on: where accesses have several indices."""
        plain = not (at.buffer.order or at.buffer.pad)
        for d, dim in enumerate(at.buffer.dims):
            if plain and dim.collapsed:
                indices = {access.indices[d] for access, _ in uses_of(at.kernel, at.buffer.name)}
                if len(indices) > 1 and all(isinstance(index, Affine) for index in indices):
                    yield (d,)


@dataclass(frozen=True)
class AddDim(Undoing, AboutTemporary, name="add_dim", reach=Reach.PANE):
    """Gives a temporary a dimension `dim` without storage of its own, of `extent` elements; `indices` are those
    that its accesses then have there, in the order of the text. The inverse of `drop_dim`; none are listed.

    >>> import dojoir
    >>> k = dojoir.parse('''kernel f(N)
    ... in  x: f32[N]
    ... out y: f32[N]
    ... tmp t: f32
    ... N
    ... | t = 2 * x[{0}]
    ... | y[{0}] = t + 1
    ... ''')
    >>> print(dojoir.apply(k, "add_dim(t, 0, N, {0}, {0})"))
    kernel f(N)
    in  x: f32[N]
    out y: f32[N]
    tmp t: f32[N~]
    <BLANKLINE>
    N
    | t[{0}] = 2 * x[{0}]
    | y[{0}] = t[{0}] + 1
    <BLANKLINE>
    """

    dim: int
    extent: Formula
    indices: tuple[Formula, ...] = ()

    def undone(self, kernel: Kernel) -> tuple[Kernel, Move]:
        buffer = self.found(kernel).buffer
        _check_plain(buffer)
        count = len(buffer.dims)
        if not 0 <= self.dim <= count:
            message = f"`{buffer.name}` has {count} dimensions: a new one is 0 to {count}"
            raise Refusal("unknown-dim", message)
        uses = list(uses_of(kernel, buffer.name))
        if len(uses) != len(self.indices):
            message = f"`{buffer.name}` is accessed {len(uses)} times: add_dim takes as many indices"
            raise Refusal("bad-forms", message)
        new = iter([form.index(kernel, depth) for form, (_, depth) in zip(self.indices, uses, strict=True)])
        dim = Dim(self.extent.affine(kernel, 0), collapsed=True)
        made = replace(buffer, dims=_spliced(buffer.dims, self.dim, 0, dim))
        earlier = _changed(kernel, made, lambda indices, around: _spliced(indices, self.dim, 0, next(new)))
        return earlier, DropDim(self.buffer, self.dim)

    @classmethod
    def more(cls, at: Declared, machine: Machine) -> Arguments:
        """A dimension for a scope that runs equally often around all accesses, by whose iterator they are apart."""
        around = [site.scopes for site in at.kernel.sites if at.place in site.statement.buffers]
        count = sum(1 for _ in uses_of(at.kernel, at.place))
        for depth, scopes in enumerate(zip(*around, strict=False)):
            (first, *_), *more = {scope.extent.bounds for scope in scopes}
            if not more and not first.iterators:
                index = Formula(str(Affine.iterator(depth)))
                dims = range(len(at.buffer.dims) + 1)
                yield from ((dim, Formula(str(first)), (index,) * count) for dim in dims)


def _check_plain(buffer: Buffer) -> None:
    if buffer.order or buffer.pad:
        raise Refusal("has-layout", f"`{buffer.name}` has an order or a padding of its dimensions")


def _stored(buffer: Buffer, dim: int) -> Dim:
    """A dimension with storage of its own and no padding. Raises Refusal for another."""
    if not 0 <= dim < len(buffer.dims):
        raise Refusal("unknown-dim", f"`{buffer.name}` has {len(buffer.dims)} dimensions, and none is {dim}")
    if buffer.dims[dim].collapsed or (buffer.pad and buffer.pad[dim]):
        what = "collapsed" if buffer.dims[dim].collapsed else "padded"
        raise Refusal("no-plain-dim", f"dimension {dim} of `{buffer.name}` is {what}")
    return buffer.dims[dim]


def _own(buffer: Buffer) -> Iterator[tuple[int, Affine]]:
    """The dimensions with storage of their own, each with its extent."""
    return ((i, dim.extent) for i, dim in enumerate(buffer.dims) if not dim.collapsed)


def _not_gathered(buffer: Buffer, dim: int, index: Affine | Access) -> Affine:
    """An index of a buffer that is made of sizes and iterators. Raises Refusal for one from data."""
    if isinstance(index, Access):
        raise Refusal("gathered", f"dimension {dim} of `{buffer.name}` is gathered")
    return index


def _spliced(given: tuple[T, ...], at: int, count: int, *new: T) -> tuple[T, ...]:
    """A tuple with other elements in the place of `count` from number `at` on."""
    return (*given[:at], *new, *given[at + count :])


def _decided(affine: Affine, around: Around) -> Affine:
    """The value without the divisions that the extents around decide: once that of the smallest part is known, it
    may be that of the next."""
    before: Affine | None = None
    while affine != before:
        before = affine
        for depth in sorted(affine.iterators, reverse=True):
            most = around[depth]
            affine = affine if most is None else without_divisions(affine, Iter(depth), most)
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


def uses_of(kernel: Kernel, name: str) -> Iterator[tuple[Access, int]]:
    """The accesses of a buffer in the order of the text, as `map_accesses` sees them, and how many scopes are
    around each."""
    for site in kernel.sites:
        yield from ((a, len(site.scopes)) for a in accesses_of(site.statement) if a.buffer == name)


def _changed(kernel: Kernel, buffer: Buffer, change: Change) -> Kernel:
    """The kernel with another declaration of a buffer, and what `change` makes of its indices."""

    def visit(node: Node, around: Around) -> Node:
        def moved(access: Access) -> Access:
            return Access(buffer.name, change(access.indices, around)) if access.buffer == buffer.name else access

        if buffer.name not in node.buffers:
            return node
        if isinstance(node, Statement):
            return map_accesses(node, moved)
        inside = (*around, node.constant_bound) if isinstance(node, Scope) else around
        return with_body(node, tuple(visit(child, inside) for child in node.body))

    return kernel.evolve(body=tuple(visit(node, ()) for node in kernel.body)).replace_buffer(buffer)
