"""Moves that give a part of an expression a temporary of its own, and back."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import ClassVar

from dojoir.ir.affine import Affine, Iter
from dojoir.ir.dtypes import DType
from dojoir.ir.expressions import parts
from dojoir.ir.nodes import (
    Access,
    Buffer,
    Cast,
    Condition,
    Dim,
    Expr,
    Guard,
    Kernel,
    Op,
    Path,
    Scope,
    Site,
    Statement,
)
from dojoir.passes.base.move import (
    BufferName,
    Move,
    Place,
    Refusal,
    Rewrite,
    Undoing,
    check_new_name,
    fresh_name,
    place_of,
)
from dojoir.passes.base.reach import Reach
from dojoir.passes.storage.temporaries import temporary
from dojoir.passes.values.inlining import statement_at, with_parts
from dojoir.proof.check import InstanceMap, Substitution, identity
from dojoir.sets.kernel_sets import sets_of
from dojoir.support.frozen import dataclass
from dojoir.types.elaborate import natural_type


@dataclass(frozen=True)
class ExtractSubexpression(Move):
    """Computes a part of the expression in the statement at `statement` by a statement of its own, just before it,
    into a new temporary, called `buffer`.

    `part` is its number: the whole expression is 0, then comes what it is made of, from left to right, as `extract`
    counts them. The temporary has a dimension for each scope around, so that `split_scopes` can part the two
    statements; `reuse_dims` takes off what is not needed. Where the same is computed elsewhere, `extract` reads the
    temporary there. What is the same in each iteration of a scope, `hoist` computes before it. The inverse is
    `inline_subexpression`.

    >>> import dojoir
    >>> k = dojoir.parse('''kernel f(N)
    ... in  x: f32[N]
    ... out y: f32[N]
    ... N
    ... | y[{0}] = exp(2 * x[{0}]) + 1
    ... ''')
    >>> print(dojoir.apply(k, "extract_subexpression(0.0, 2, t)"))
    kernel f(N)
    in  x: f32[N]
    out y: f32[N]
    tmp t: f32[N]
    <BLANKLINE>
    N
    | t[{0}] = 2 * x[{0}]
    | y[{0}] = exp(t[{0}]) + 1
    <BLANKLINE>
    """

    name: ClassVar[str] = "extract_subexpression"
    reach: ClassVar[Reach] = Reach.CHILDREN
    statement: Place
    part: int
    buffer: BufferName

    def rewrite(self, kernel: Kernel) -> Rewrite:
        number, site = statement_at(kernel, self.statement)
        check_new_name(kernel, self.buffer)
        value = site.statement.value
        part, dtype = part_of(kernel, site, self.part)
        itself = tuple(map(Affine.iterator, range(len(site.scopes))))
        dims = tuple(Dim(held_extent(kernel, site, depth)) for depth in range(len(site.scopes)))
        read = Access(self.buffer, itself)
        user = replace(site.statement, value=with_parts(value, {self.part: read}, site.path))
        after = kernel.replace_node(site.path, Statement(read, "=", part), user)
        origins = identity(kernel).origins
        before = [a for p in list(parts(value))[: self.part] if isinstance(p, Access) for a in p.accesses()]
        step = Substitution(number + 1, len(before), number, itself)
        instances = InstanceMap((*origins[:number], None, *origins[number:]), extracted=(step,))
        new = Buffer("tmp", self.buffer, dtype, dims)
        return Rewrite(after.evolve(buffers=(*kernel.buffers, new)), instances)

    def inverse(self, before: Kernel) -> Move:
        path = before.path(self.statement)
        return InlineSubexpression(place_of((*path[:-1], path[-1] + 1)), self.buffer)

    @classmethod
    def candidates(cls, kernel: Kernel) -> Iterator[Move]:
        name = BufferName(fresh_name(kernel, "part"))
        for site in kernel.sites:
            for number, part in enumerate(parts(site.statement.value)):
                whole = number == 0 and site.statement.accumulation is None
                if isinstance(part, Op | Cast) and not whole and not (isinstance(part, Op) and part.name == "when"):
                    yield cls(place_of(site.path), number, name)


@dataclass(frozen=True)
class InlineSubexpression(Undoing):
    """Takes out the temporary `buffer`, the last one declared, which the statement before the one at `statement`
    assigns for a single read there: the expression takes the place of the read. The inverse of
    `extract_subexpression`.

    >>> import dojoir
    >>> k = dojoir.parse('''kernel f(N)
    ... in  x: f32[N]
    ... out y: f32[N]
    ... tmp t: f32[N]
    ... N
    ... | t[{0}] = 2 * x[{0}]
    ... | y[{0}] = t[{0}] + 1
    ... ''')
    >>> print(dojoir.apply(k, "inline_subexpression(0.1, t)"))
    kernel f(N)
    in  x: f32[N]
    out y: f32[N]
    <BLANKLINE>
    N
    | y[{0}] = 2 * x[{0}] + 1
    <BLANKLINE>
    """

    name: ClassVar[str] = "inline_subexpression"
    statement: Place
    buffer: BufferName

    def undone(self, kernel: Kernel) -> tuple[Kernel, Move]:
        _, site = statement_at(kernel, self.statement)
        gone = temporary(kernel, self.buffer)
        first = _before(kernel, site.path)
        inside = list(parts(site.statement.value))
        reads = [n for n, part in enumerate(inside) if isinstance(part, Access) and part.buffer == gone.name]
        if first is None or first.target.buffer != gone.name or len(reads) != 1:
            message = f"the statement before must assign `{gone.name}`, and this one read it once"
            raise Refusal("another-form", message, site.path)
        value = with_parts(site.statement.value, {reads[0]: first.value}, site.path)
        path = (*site.path[:-1], site.path[-1] - 1)
        earlier = kernel.replace_node(site.path, replace(site.statement, value=value)).replace_node(path)
        earlier = earlier.evolve(buffers=tuple(b for b in kernel.buffers if b.name != gone.name))
        return earlier, ExtractSubexpression(place_of(path), reads[0], self.buffer)

    @classmethod
    def candidates(cls, kernel: Kernel) -> Iterator[Move]:
        last = kernel.buffers[-1] if kernel.buffers else None
        users = kernel.users.get(last.name, ()) if last is not None and last.role == "tmp" else ()
        if last is not None and len(users) == 2:
            first, site = (kernel.sites[k] for k in users)
            if first.statement.target.buffer == last.name and _before(kernel, site.path) is first.statement:
                yield cls(place_of(site.path), BufferName(last.name))


def part_of(kernel: Kernel, site: Site, number: int) -> tuple[Expr, DType]:
    """The part of the value of a statement that has this number, and the type in which it is computed. Raises
    Refusal where there is none, or where it is no value by itself."""
    part = next((part for n, part in enumerate(parts(site.statement.value)) if n == number), None)
    if part is None:
        raise Refusal("no-part", f"the expression has no part {number}", site.path)
    if isinstance(part, Op) and part.name == "when":
        raise Refusal("several-values", "what a condition guards is no value: extract a part of it", site.path)
    dtype = natural_type(part, {b.name: b for b in kernel.buffers})
    if dtype is None:
        raise Refusal("weak-value", "the part has no type of its own; cast it first", site.path)
    return part, dtype


def held_extent(kernel: Kernel, site: Site, depth: int) -> Affine:
    """A size that the extent of a scope never exceeds, and that is at least 1."""
    bounds = (_most(bound, site.scopes) for bound in site.scopes[depth].extent.bounds)
    most = next((bound for bound in bounds if bound is not None), None)
    if most is None:
        message = "a scope around has no extent of which a size is known that it does not exceed"
        raise Refusal("open-extent", message, site.path)
    for size in (most, most - min(most.offset, 0), most - most.offset + 1):
        if sets_of(kernel).always(Condition(size - 1, ">=", Affine.constant(0))):
            return size
    return most


def _most(affine: Affine, scopes: Sequence[Scope]) -> Affine | None:
    """An upper bound of an affine value in some scopes, without their iterators; None where they are divided."""
    while affine.iterators:
        depth = max((atom.depth for atom, _ in affine.terms if isinstance(atom, Iter)), default=None)
        if depth is None:
            return None
        factor = affine.coefficient(Iter(depth))
        affine -= Affine.iterator(depth) * factor
        if factor > 0:
            affine += (scopes[depth].extent.bounds[0] - 1) * factor
    return affine


def _before(kernel: Kernel, path: Path) -> Statement | None:
    """The statement just before a node, if one is there."""
    if path[-1] == 0:
        return None
    node = kernel.at((*path[:-1], path[-1] - 1))
    return None if isinstance(node, Scope | Guard) else node


MOVES = (ExtractSubexpression, InlineSubexpression)
