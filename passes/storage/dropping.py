"""Moves that take away a dimension of a temporary that has no storage of its own, and give one back."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import ClassVar

from dojoir.backends.machine import Machine
from dojoir.ir.affine import Affine
from dojoir.ir.nodes import Access, Buffer, Dim, Guard, Kernel, Node, Path, Scope, Statement, with_body
from dojoir.ir.rewriting.rewrite import map_accesses
from dojoir.passes.base.move import BufferName, Formula, Move, Refusal, Rewrite, Undoing, reversible
from dojoir.passes.base.reach import Reach
from dojoir.passes.storage.temporaries import check_dim, temporary
from dojoir.proof.check import identity
from dojoir.support.frozen import dataclass

Change = Callable[[Access, int], Access]
"""Gives the new form of an access below so many scopes."""


@dataclass(frozen=True)
class DropDim(Move):
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

    name: ClassVar[str] = "drop_dim"
    reach: ClassVar[Reach] = Reach.PANE
    buffer: BufferName
    dim: int

    def rewrite(self, kernel: Kernel) -> Rewrite:
        buffer = temporary(kernel, self.buffer)
        check_dim(buffer, self.dim)
        if not buffer.dims[self.dim].collapsed:
            message = f"dimension {self.dim} of `{buffer.name}` has storage of its own: reuse_dims takes that away"
            raise Refusal("has-storage", message)
        _check_plain(buffer)
        if any(isinstance(access.indices[self.dim], Access) for access, _ in uses_of(kernel, buffer.name)):
            raise Refusal("gathered", f"dimension {self.dim} of `{buffer.name}` is gathered")
        dims = (*buffer.dims[: self.dim], *buffer.dims[self.dim + 1 :])

        def dropped(access: Access, depth: int) -> Access:
            return Access(access.buffer, (*access.indices[: self.dim], *access.indices[self.dim + 1 :]))

        after = _changed(kernel, replace(buffer, dims=dims), dropped)
        return reversible(self, kernel, Rewrite(after, identity(kernel)))

    def inverse(self, before: Kernel) -> Move:
        given = tuple(Formula(str(access.indices[self.dim])) for access, _ in uses_of(before, self.buffer))
        return AddDim(self.buffer, self.dim, Formula(str(before.buffer(self.buffer).dims[self.dim].extent)), given)

    @classmethod
    def candidates(cls, kernel: Kernel) -> Iterator[Move]:
        """Those along which a value goes on: where accesses have several indices."""
        plain = (b for b in kernel.buffers if b.role == "tmp" and not (b.order or b.pad))
        for buffer in plain:
            for d, dim in enumerate(buffer.dims):
                if dim.collapsed:
                    indices = {access.indices[d] for access, _ in uses_of(kernel, buffer.name)}
                    if len(indices) > 1 and all(isinstance(index, Affine) for index in indices):
                        yield cls(BufferName(buffer.name), d)


@dataclass(frozen=True)
class AddDim(Undoing):
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

    name: ClassVar[str] = "add_dim"
    reach: ClassVar[Reach] = Reach.PANE
    buffer: BufferName
    dim: int
    extent: Formula
    indices: tuple[Formula, ...] = ()

    def undone(self, kernel: Kernel) -> tuple[Kernel, Move]:
        buffer = temporary(kernel, self.buffer)
        _check_plain(buffer)
        if not 0 <= self.dim <= len(buffer.dims):
            message = f"`{buffer.name}` has {len(buffer.dims)} dimensions: a new one is 0 to {len(buffer.dims)}"
            raise Refusal("unknown-dim", message)
        uses = list(uses_of(kernel, buffer.name))
        if len(uses) != len(self.indices):
            message = f"`{buffer.name}` is accessed {len(uses)} times: add_dim takes as many indices"
            raise Refusal("bad-forms", message)
        new = iter([form.index(kernel, depth) for form, (_, depth) in zip(self.indices, uses, strict=True)])
        dim = Dim(self.extent.affine(kernel, 0), collapsed=True)
        dims = (*buffer.dims[: self.dim], dim, *buffer.dims[self.dim :])

        def added(access: Access, depth: int) -> Access:
            return Access(access.buffer, (*access.indices[: self.dim], next(new), *access.indices[self.dim :]))

        return _changed(kernel, replace(buffer, dims=dims), added), DropDim(self.buffer, self.dim)

    @classmethod
    def candidates(cls, kernel: Kernel) -> Iterator[Move]:
        return iter(())

    @classmethod
    def _further(cls, kernel: Kernel, place: Path | str, machine: Machine) -> Iterator[Move]:
        """A dimension for a scope that runs equally often around all accesses, by whose iterator they are apart."""
        if not isinstance(place, str) or kernel.buffer(place).role != "tmp":
            return
        around = [site.scopes for site in kernel.sites if place in site.statement.buffers]
        count = sum(1 for _ in uses_of(kernel, place))
        for depth, scopes in enumerate(zip(*around, strict=False)):
            (first, *_), *more = {scope.extent.bounds for scope in scopes}
            if not more and not first.iterators:
                index = Formula(str(Affine.iterator(depth)))
                for dim in range(len(kernel.buffer(place).dims) + 1):
                    yield cls(BufferName(place), dim, Formula(str(first)), (index,) * count)


def _check_plain(buffer: Buffer) -> None:
    if buffer.order or buffer.pad:
        raise Refusal("has-layout", f"`{buffer.name}` has an order or a padding of its dimensions")


def uses_of(kernel: Kernel, name: str) -> Iterator[tuple[Access, int]]:
    """The accesses of a buffer in the order of the text, as `map_accesses` sees them, and how many scopes are
    around each."""
    for site in kernel.sites:
        found: list[Access] = []

        def note(access: Access, found: list[Access] = found) -> Access:
            if access.buffer == name:
                found.append(access)
            return access

        map_accesses(site.statement, note)
        yield from ((access, len(site.scopes)) for access in found)


def _changed(kernel: Kernel, buffer: Buffer, change: Change) -> Kernel:
    """The kernel with another declaration of a buffer, and what `change` makes of its accesses."""

    def visit(node: Node, depth: int) -> Node:
        match node:
            case Statement():
                return map_accesses(node, lambda a: change(a, depth) if a.buffer == buffer.name else a)
            case Guard():
                return with_body(node, tuple(visit(child, depth) for child in node.body))
            case Scope():
                return with_body(node, tuple(visit(child, depth + 1) for child in node.body))

    return kernel.evolve(body=tuple(visit(node, 0) for node in kernel.body)).replace_buffer(buffer)


MOVES = (DropDim, AddDim)
