"""Moves that give a part of an expression a temporary of its own, and back."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

from dojoir.ir.affine import Affine, FloorDiv, Iter
from dojoir.ir.dtypes import DType
from dojoir.ir.expressions import parts
from dojoir.ir.nodes import (
    Access,
    Buffer,
    Cast,
    Condition,
    Dim,
    Expr,
    Kernel,
    Node,
    Op,
    Path,
    Scope,
    Site,
    Statement,
    substitute,
    substitute_extent,
    substitute_iterators,
)
from dojoir.ir.paths import next_sibling
from dojoir.ir.places import numbers_inside
from dojoir.passes.base.about import AboutStatement, Arguments, Here
from dojoir.passes.base.move import (
    BufferName,
    Move,
    Refusal,
    Rewrite,
    Undoing,
    check_new_name,
    fresh_name,
    place_of,
)
from dojoir.passes.base.reach import Reach
from dojoir.passes.storage.temporaries import temporary
from dojoir.passes.values.inlining import with_parts
from dojoir.proof.check import InstanceMap, Substitution, identity
from dojoir.sets.kernel_sets import sets_of
from dojoir.support.frozen import dataclass
from dojoir.types.elaborate import natural_type


@dataclass(frozen=True)
class ExtractSubexpression(AboutStatement, name="extract_subexpression", reach=Reach.CHILDREN):
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

    part: int
    buffer: BufferName

    def rewritten(self, at: Here[Statement]) -> Rewrite:
        return computed_before(at, at.path, range(at.depth), self.part, self.buffer)

    def back(self, at: Here[Statement]) -> Move:
        return InlineSubexpression(at.beside(), self.buffer)

    @classmethod
    def listed(cls, at: Here[Statement]) -> Arguments:
        found = [
            number
            for number, part in enumerate(parts(at.node.value))
            if isinstance(part, Op | Cast) and not (isinstance(part, Op) and part.name == "when")
            if number or at.node.accumulation is not None  # the whole would be a copy
        ]
        name = BufferName(fresh_name(at.kernel, "part")) if found else ""
        return ((number, name) for number in found)


@dataclass(frozen=True)
class InlineSubexpression(Undoing, AboutStatement, name="inline_subexpression"):
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

    buffer: BufferName

    def undone(self, kernel: Kernel) -> tuple[Kernel, Move]:
        at, gone = self.found(kernel), temporary(kernel, self.buffer).name
        first, reads = _before(kernel, at.path), reads_of(at, gone)
        if first is None or first.target.buffer != gone or len(reads) != 1:
            message = f"the statement before must assign `{gone}`, and this one read it once"
            raise at.refusal("another-form", message)
        path = next_sibling(at.path, -1)
        earlier = taken_out(at, reads[0], first.value, path, gone)
        return earlier, ExtractSubexpression(place_of(path), reads[0], self.buffer)

    @classmethod
    def candidates(cls, kernel: Kernel) -> Iterator[Move]:
        for first, site in last_users(kernel):
            if _before(kernel, site.path) is first.statement:
                yield cls(place_of(site.path), BufferName(first.statement.target.buffer))


def computed_before(
    at: Here[Statement], path: Path, needed: Sequence[int], number: int, name: BufferName
) -> Rewrite:
    """A part of the expression of a statement computed before the node at `path`, which is the statement or around
    it, into a new temporary, once for the iterations of the scopes at the depths `needed`. Raises Refusal."""
    kernel, site = at.kernel, at.site
    check_new_name(kernel, name)
    part, dtype = part_of(kernel, site, number)
    there, here = (tuple(map(Affine.iterator, depths)) for depths in (needed, range(len(needed))))
    moved = substitute_iterators(dict(zip(needed, here, strict=True)))
    node: Node = substitute(Statement(Access(name, there), "=", part), moved)
    for depth in reversed(needed[kernel.depth_of(path) :]):
        node = Scope(substitute_extent(site.scopes[depth].extent, moved), (node,))
    value = site.statement.value
    user = replace(site.statement, value=with_parts(value, {number: Access(name, there)}, site.path))
    after = at.replaced(user)
    after = after.replace_node(path, node, after.at(path))
    first, origins = numbers_inside(kernel, path)[0], identity(kernel).origins
    before = [a for p in list(parts(value))[:number] if isinstance(p, Access) for a in p.accesses()]
    step = Substitution(at.number + 1, len(before), first, there)
    instances = InstanceMap((*origins[:first], None, *origins[first:]), extracted=(step,))
    new = Buffer("tmp", name, dtype, tuple(Dim(held_extent(kernel, site, depth)) for depth in needed))
    return Rewrite(after.evolve(buffers=(*kernel.buffers, new)), instances)


def reads_of(at: Here[Statement], name: str) -> list[int]:
    """The numbers of the parts of an expression that are reads of a buffer."""
    inside = enumerate(parts(at.node.value))
    return [number for number, part in inside if isinstance(part, Access) and part.buffer == name]


def taken_out(at: Here[Statement], number: int, value: Expr, path: Path, name: str) -> Kernel:
    """The kernel with a value in the place of a part of an expression, without the node at `path`, which computed
    it, and without its temporary."""
    new = with_parts(at.node.value, {number: value}, at.path)
    return at.replaced(replace(at.node, value=new)).replace_node(path).without_buffers(name)


def last_users(kernel: Kernel) -> Iterator[tuple[Site, Site]]:
    """The two statements that touch the last buffer which is declared, where it is a temporary and they are two, of
    which the first writes it."""
    last = kernel.buffers[-1] if kernel.buffers else None
    users = kernel.users.get(last.name, ()) if last is not None and last.role == "tmp" else ()
    if last is not None and len(users) == 2:
        first, second = (kernel.sites[k] for k in users)
        if first.statement.target.buffer == last.name:
            yield first, second


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
    """An upper bound of an affine value in some scopes, without their iterators; None where a quotient of them is
    taken off, or they are in a `min` or `max`."""
    for atom, factor in affine.terms:
        if isinstance(atom, FloorDiv) and atom.numerator.iterators and factor > 0:  # it grows with what is divided
            most = _most(atom.numerator, scopes)
            if most is None:
                return None
            affine += (most // atom.divisor - Affine.atom(atom)) * factor
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
    node = kernel.at(next_sibling(path, -1))
    return node if isinstance(node, Statement) else None
