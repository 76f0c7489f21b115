"""Moves that compute a part of an expression before a scope around it, and back."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import ClassVar

from dojoir.ir.affine import Affine
from dojoir.ir.expressions import affine_parts, parts
from dojoir.ir.nodes import (
    Access,
    Buffer,
    Cast,
    Dim,
    Expr,
    Guard,
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
from dojoir.ir.paths import is_inside
from dojoir.ir.places import numbers_inside
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
    scope_at,
)
from dojoir.passes.base.reach import Reach
from dojoir.passes.storage.temporaries import temporary
from dojoir.passes.values.inlining import statement_at, with_parts
from dojoir.passes.values.subexpressions import held_extent, part_of
from dojoir.proof.check import InstanceMap, Substitution, identity
from dojoir.support.frozen import dataclass


@dataclass(frozen=True)
class Hoist(Move):
    """Computes a part of the expression in the statement at `statement`, which is inside of the scope at `scope`,
    just before that scope, into a new temporary, called `buffer`: once, and not in each iteration.

    `part` is its number, as `extract_subexpression` counts them. Where the part depends on iterators of scopes at
    or inside of `scope`, it is computed in scopes of their extents, without labels and marks, for all of their
    iterations. A part that is a read alone is then copied. The temporary has a dimension for each scope around what
    computes it; `reuse_dims` takes off those that need no storage. Legal where nothing writes in between what the
    part reads, and all that is read is there: conditions around the statement do not hold before the scope. The
    inverse is `unhoist`.

    >>> import dojoir
    >>> k = dojoir.parse('''kernel f(N, M)
    ... in  x: f32[N, M]
    ... in  s: f32[N]
    ... out y: f32[N, M]
    ... N
    ... | M
    ... | | y[{0}, {1}] = x[{0}, {1}] - log(s[{0}])
    ... ''')
    >>> print(dojoir.apply(k, "hoist(0.0, 0.0.0, 2, t)"))
    kernel f(N, M)
    in  x: f32[N, M]
    in  s: f32[N]
    out y: f32[N, M]
    tmp t: f32[N]
    <BLANKLINE>
    N
    | t[{0}] = log(s[{0}])
    | M
    | | y[{0}, {1}] = x[{0}, {1}] - t[{0}]
    <BLANKLINE>
    """

    name: ClassVar[str] = "hoist"
    reach: ClassVar[Reach] = Reach.CHILDREN
    scope: Place
    statement: Place
    part: int
    buffer: BufferName

    def rewrite(self, kernel: Kernel) -> Rewrite:
        path, _ = scope_at(kernel, self.scope)
        number, site = statement_at(kernel, self.statement)
        if not is_inside(site.path, path):
            raise Refusal("not-inside", f"{self.statement} is not inside of the scope at {self.scope}", site.path)
        check_new_name(kernel, self.buffer)
        value = site.statement.value
        part, dtype = part_of(kernel, site, self.part)
        needed = _needed(part, site, kernel.depth_of(path))
        there = tuple(map(Affine.iterator, needed))
        here = tuple(map(Affine.iterator, range(len(needed))))
        moved = substitute_iterators(dict(zip(needed, here, strict=True)))
        node: Node = substitute(Statement(Access(self.buffer, there), "=", part), moved)
        for depth in reversed(needed[kernel.depth_of(path) :]):
            node = Scope(substitute_extent(site.scopes[depth].extent, moved), (node,))
        user = replace(site.statement, value=with_parts(value, {self.part: Access(self.buffer, there)}, site.path))
        after = kernel.replace_node(site.path, user)
        after = after.replace_node(path, node, after.at(path))
        first = numbers_inside(kernel, path)[0]
        origins = identity(kernel).origins
        before = [a for p in list(parts(value))[: self.part] if isinstance(p, Access) for a in p.accesses()]
        step = Substitution(number + 1, len(before), first, there)
        dims = tuple(Dim(held_extent(kernel, site, depth)) for depth in needed)
        new = Buffer("tmp", self.buffer, dtype, dims)
        return Rewrite(
            after.evolve(buffers=(*kernel.buffers, new)),
            InstanceMap((*origins[:first], None, *origins[first:]), extracted=(step,)),
        )

    def inverse(self, before: Kernel) -> Move:
        path, inner = before.path(self.scope), before.path(self.statement)
        return Unhoist(place_of((*path[:-1], path[-1] + 1, *inner[len(path) :])), self.buffer)

    @classmethod
    def candidates(cls, kernel: Kernel) -> Iterator[Move]:
        """Out of each scope around that the part does not depend on."""
        name = BufferName(fresh_name(kernel, "part"))
        for site in kernel.sites:
            scopes = [(path, depth) for path, depth in _around(kernel, site.path)]
            for number, part in enumerate(parts(site.statement.value)):
                if isinstance(part, Op | Cast | Access) and not (isinstance(part, Op) and part.name == "when"):
                    for path, depth in scopes:
                        needed = _needed(part, site, depth)
                        copies = len(needed) > depth
                        if depth not in needed and (copies or not isinstance(part, Access)):
                            yield cls(place_of(path), place_of(site.path), number, name)


@dataclass(frozen=True)
class Unhoist(Undoing):
    """Takes out the temporary `buffer`, the last one declared, which is computed before a scope around the
    statement at `statement`, for a single read there: the expression takes the place of the read. The inverse of
    `hoist`.

    >>> import dojoir
    >>> k = dojoir.parse('''kernel f(N, M)
    ... in  x: f32[N, M]
    ... in  s: f32[N]
    ... out y: f32[N, M]
    ... tmp t: f32[N]
    ... N
    ... | t[{0}] = log(s[{0}])
    ... | M
    ... | | y[{0}, {1}] = x[{0}, {1}] - t[{0}]
    ... ''')
    >>> print(dojoir.apply(k, "unhoist(0.1.0, t)"))
    kernel f(N, M)
    in  x: f32[N, M]
    in  s: f32[N]
    out y: f32[N, M]
    <BLANKLINE>
    N
    | M
    | | y[{0}, {1}] = x[{0}, {1}] - log(s[{0}])
    <BLANKLINE>
    """

    name: ClassVar[str] = "unhoist"
    statement: Place
    buffer: BufferName

    def undone(self, kernel: Kernel) -> tuple[Kernel, Move]:
        _, site = statement_at(kernel, self.statement)
        gone = temporary(kernel, self.buffer)
        around = _hoisted_before(kernel, site.path, gone.name)
        inside = list(parts(site.statement.value))
        reads = [n for n, part in enumerate(inside) if isinstance(part, Access) and part.buffer == gone.name]
        if around is None or len(reads) != 1:
            message = f"a nest before a scope around must assign `{gone.name}`, and this one read it once"
            raise Refusal("another-form", message, site.path)
        path, writer = around
        read = inside[reads[0]]
        assert isinstance(read, Access)
        indices = {d: index for d, index in enumerate(read.indices) if isinstance(index, Affine)}
        copy = substitute(writer, substitute_iterators(indices))
        assert isinstance(copy, Statement)
        if any(d >= len(site.scopes) for affine in affine_parts(copy.value) for d in affine.iterators):
            message = f"what is assigned to `{gone.name}` depends on scopes that are not around its read"
            raise Refusal("another-form", message, site.path)
        value = with_parts(site.statement.value, {reads[0]: copy.value}, site.path)
        earlier = kernel.replace_node(site.path, replace(site.statement, value=value))
        place = (*path[:-1], path[-1] - 1)
        earlier = earlier.replace_node(place)
        earlier = earlier.evolve(buffers=tuple(b for b in kernel.buffers if b.name != gone.name))
        statement = (*place, *site.path[len(path) :])
        return earlier, Hoist(place_of(place), place_of(statement), reads[0], self.buffer)

    @classmethod
    def candidates(cls, kernel: Kernel) -> Iterator[Move]:
        last = kernel.buffers[-1] if kernel.buffers else None
        users = kernel.users.get(last.name, ()) if last is not None and last.role == "tmp" else ()
        if last is not None and len(users) == 2:
            site = kernel.sites[users[1]]
            if _hoisted_before(kernel, site.path, last.name) is not None:
                yield cls(place_of(site.path), BufferName(last.name))


def _around(kernel: Kernel, path: Path) -> Iterator[tuple[Path, int]]:
    """The scopes around a place, outermost first, each with how many are around it."""
    for length in range(1, len(path)):
        if isinstance(kernel.at(path[:length]), Scope):
            yield path[:length], kernel.depth_of(path[:length])


def _needed(part: Expr, site: Site, depth: int) -> list[int]:
    """The depths of the scopes that compute a part which is needed outside of the scope at `depth`. All around
    that, and of those inside the ones that the part depends on, or the extent of one of them."""
    used = {d for affine in affine_parts(part) for d in affine.iterators}
    for inner in range(len(site.scopes) - 1, depth - 1, -1):
        if inner in used:
            used.update(d for bound in site.scopes[inner].extent.bounds for d in bound.iterators)
    return [*range(depth), *sorted(d for d in used if d >= depth)]


def _hoisted_before(kernel: Kernel, path: Path, buffer: str) -> tuple[Path, Statement] | None:
    """The scope around a place just before which a nest assigns a temporary and does nothing else, and what assigns
    it there; None where there is none."""
    for around, _ in _around(kernel, path):
        if around[-1] > 0:
            first = _alone(kernel.at((*around[:-1], around[-1] - 1)))
            if first is not None and first.target.buffer == buffer and first.accumulation is None:
                return around, first
    return None


def _alone(node: Node) -> Statement | None:
    """The statement that is all that a nest of scopes runs; None where it does more, or under a condition."""
    nodes: Sequence[Node] = (node,)
    while len(nodes) == 1 and isinstance(nodes[0], Scope | Guard):
        if isinstance(nodes[0], Guard):
            return None
        nodes = nodes[0].body
    return nodes[0] if len(nodes) == 1 and isinstance(nodes[0], Statement) else None


MOVES = (Hoist, Unhoist)
