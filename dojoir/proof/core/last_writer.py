"""The checker for one rewrite of its own: an assignment at indices from data keeps the last value by a comparison,
and no more by the order in which it runs.

    N @i                                    S
    | D                                     | last[{0}] = -1
    | | y[at[{i}], {1}] = v                 N
                                            | last[at[{0}]] max= {0}
                                            N @i
                                            | D
                                            | | y[at[{i}], {1}] = v if last[at[{i}]] == {i}

The certificate (`LastWriter`) names the statement, one of the scopes around it (of iterator `i`), which of the
scopes inside of that are *free* (here that of `D`), and the temporaries. What is proved is that the kernel
after is the one before with this rewrite, to the letter, and that the conditions below hold (`faults`). That
the kernel after is well-formed is asked besides (`dojoir.proof.core.check`).

*Why that is enough.* Take one run of the scope of `i`; the new nests run just before it. Let W be the
statement, and `key` those of its indices that are data, or that an iterator in the scope takes part in that is
not free. The other indices are made of free iterators, and of iterators around. Let `c` be the condition of W;
true, if it has none.

1. Nothing in the scope touches the array `y` but W, which does not read it. So every other statement, and the value
   of W, find in each iteration what they found before.
2. What `key` and `c` read is not written in the scope: they are the same in the nests before it as inside. They
   name no free iterator.
3. Let `e` be an element that some instance of W writes where `c` holds, and `m` the greatest `i` of these. The
   last of these instances in the order of the run is one with `i = m`, as iterations run in rising order: its
   value stays. The element `last[key of e]` becomes the greatest `i`, say `n`, of which an instance has the key
   of `e` and its `c` holds. Of course `n >= m`. The instance of `n` may have other free iterators than the one
   that writes `e`. But extents, inside of the scope, of free scopes name no iterators that are not free, nor
   the other way round: so there is an instance of the same `n` with the same `key` and `c` and with the free
   iterators of an instance that writes `e`. It writes `e`, and `n <= m`.
4. So after, of the instances that write `e`, those with `i = m` do, in the order in which they did, and none
   else: the last of them is the one that was. An element that no instance wrote, none writes. What `last`
   begins with does not count, if it is below 0: an instance compares what it took part in.

*Indices that are not there.* Where `c` does not hold, an index from data may be out of range, and must not be
used: but a condition is computed as a whole. So under a condition the indices are first brought into
temporaries, which hold 0 where `c` does not hold, and these take their places. For the same reason free scopes
run at least once: `at` is looked at only where it was.

    N
    | to[{0}] = select(c, at[{0}], 0)

What is compared is exact: `last` is of i64, and so is an iterator.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from functools import cached_property

from dojoir.errors import Diagnostic
from dojoir.ir.affine import Affine
from dojoir.ir.dtypes import I64
from dojoir.ir.nodes import (
    Access,
    Buffer,
    Const,
    Dim,
    Expr,
    Extent,
    Guard,
    Index,
    Kernel,
    Node,
    Op,
    Scope,
    Statement,
    affine_parts,
    expr_accesses,
    substitute_access,
    substitute_expr,
    substitute_extent,
    substitute_iterators,
)
from dojoir.ir.paths import is_inside
from dojoir.ir.where import diagnostic_at
from dojoir.proof.certificate import LastWriter
from dojoir.sets.ranges import is_nonnegative


def last_writer_fault(before: Kernel, after: Kernel, use: LastWriter) -> Diagnostic | None:
    """Why `after` is not `before`, which is well-formed, with this rewrite; None if it is. That `after` is
    well-formed is another question."""
    if not (0 <= use.site < len(before.sites) and 0 <= use.depth < len(before.sites[use.site].scopes)):
        return Diagnostic("another-form", "the certificate names a statement or a scope that is not there")
    kept = KeptWriter(before, use)
    for code, message in kept.faults():
        return diagnostic_at(before, kept.path, code, message)
    if kept.rewritten() != after:
        message = "more would change than the assignment and the nests before it, or they would be others"
        return diagnostic_at(before, kept.path, "another-form", message)
    return None


class KeptWriter:
    """One use of the rewrite in a kernel, whose statement and scope are there."""

    def __init__(self, kernel: Kernel, use: LastWriter) -> None:
        self.kernel, self.use, self.site = kernel, use, kernel.sites[use.site]
        self.statement, self.scopes = self.site.statement, self.site.scopes
        self.path = self.site.scope_paths[use.depth]
        self.kept = [d for d in range(use.depth, len(self.scopes)) if d not in use.free]

    @cached_property
    def key(self) -> list[int]:
        """The dimensions of the array that `last` has."""
        return [
            d
            for d, index in enumerate(self.statement.target.indices)
            if isinstance(index, Access) or index.iterators.intersection(self.kept)
        ]

    def faults(self) -> Iterator[tuple[str, str]]:
        """The conditions under which the rewrite is right that do not hold: a code, and what is wrong."""
        use, statement, free = self.use, self.statement, {*self.use.free}
        name, condition, indices = statement.target.buffer, statement.condition, statement.target.indices
        inside = [site for site in self.kernel.sites if is_inside(site.path, self.path)]
        if any(isinstance(node, Guard) for node in self.site.ancestors[len(self.path) - 1 :]):
            yield "another-form", "a guard is between the scope and the assignment"
        if statement.op != "=":
            yield "another-form", "only an assignment has a last value"
        if sum(name in other.statement.buffers for other in inside) != 1:
            yield "used-outside", f"the scope uses `{name}` in other statements as well"
        if name in statement.buffers_read:
            yield "written-inside", f"the assignment to `{name}` reads it"
        asked: list[Expr] = [index for d in self.key if isinstance(index := indices[d], Access)]
        asked += [] if condition is None else [condition]
        read = {access.buffer for expr in asked for access in expr_accesses(expr)}
        if written := read & {site.statement.target.buffer for site in inside}:
            yield "written-inside", f"`{min(written)}`, which says where it is assigned, is written in the scope"
        named = {d for expr in asked for affine in affine_parts(expr) for d in affine.iterators}
        named |= {d for k in self.key if isinstance(i := indices[k], Affine) for d in i.iterators}
        if named & free or any(not use.depth < d < len(self.scopes) for d in free):
            yield "another-form", "a scope is said to be free that decides where it is assigned"
        for depth in range(use.depth, len(self.scopes)):
            reads = {d for bound in self.scopes[depth].extent.bounds for d in bound.iterators}
            if reads & ({*self.kept} if depth in free else free):
                yield "dependent-extent", "the extents of free scopes and of others depend on each other"
            at_least_once = all(
                is_nonnegative(b - 1, self.scopes[:depth]) for b in self.scopes[depth].extent.bounds
            )
            if depth in free and not at_least_once:
                yield "may-not-run", "a free scope may not run at all, and then no index must be looked at"
        if len(use.places) != (0 if condition is None else len(statement.scatters)):
            yield "bad-names", "under a condition, and there alone, each index that is data has a temporary"
        if use.places and any(isinstance(i, Access) for d in statement.scatters for i in self._data(d).indices):
            yield "gathered", "an index under a condition is read at an index from data"
        extents = [self.scopes[d].extent.bounds for d in self.kept]
        if use.places and any(len(bounds) > 1 or bounds[0].iterators for bounds in extents):
            yield "dependent-extent", "the index would be kept in a temporary whose extent is no one number"
        new = [use.last, *use.places]
        taken = {b.name for b in self.kernel.buffers} | {size.name for size in self.kernel.sizes}
        if len({*new} - taken) < len(new):
            yield "name-taken", "the temporaries are not new ones"

    def _data(self, dim: int) -> Access:
        index = self.statement.target.indices[dim]
        assert isinstance(index, Access)
        return index

    def rewritten(self) -> Kernel:
        """The kernel after, where there are no faults."""
        use, statement = self.use, self.statement
        own, its = ([*map(Affine.iterator, ds)] for ds in (range(use.depth, use.depth + len(self.kept)), self.kept))
        short = substitute_iterators(dict(zip(self.kept, own, strict=True)))
        indices, nests, buffers = list(statement.target.indices), list[Node](), list[Buffer]()
        condition = None if statement.condition is None else substitute_expr(statement.condition, short)
        for dim, place in zip(statement.scatters, use.places, strict=False):
            index, indices[dim] = self._data(dim), Access(place, tuple(its))
            assert condition is not None
            chosen = Op("select", (condition, substitute_access(index, short), Const(0)))
            nests.append(self._nest(Statement(Access(place, tuple(own)), "=", chosen)))
            extents = (Dim(self.scopes[d].extent.bounds[0]) for d in self.kept)
            buffers.append(Buffer("tmp", place, self.kernel.buffer(index.buffer).dtype, tuple(extents)))
        dims = [self.kernel.buffer(statement.target.buffer).dims[d].extent for d in self.key]
        last = Access(use.last, tuple(indices[d] for d in self.key))
        numbered = Access(use.last, tuple(Affine.iterator(use.depth + n) for n in range(len(dims))))
        fill: Node = Statement(numbered, "=", Const(-1))
        for extent in reversed(dims):
            fill = Scope(Extent((extent,)), (fill,))
        mine: Expr = Index(own[0])
        largest = mine if condition is None else Op("when", (condition, mine))
        nests.append(self._nest(Statement(substitute_access(last, short), "max=", largest)))
        wins: Expr = Op("eq", (last, Index(its[0])))
        value = statement.value
        match value:
            case Op("when", (asked, value)):
                wins = Op("and", (asked, wins))
        target = replace(statement.target, indices=tuple(indices))
        kernel = self.kernel.replace_node(
            self.site.path, replace(statement, target=target, value=Op("when", (wins, value)))
        )
        kernel = kernel.replace_node(self.path, fill, *nests, kernel.at(self.path))
        new = Buffer("tmp", use.last, I64, tuple(map(Dim, dims)))
        return kernel.evolve(buffers=(*kernel.buffers, new, *buffers))

    def _nest(self, node: Node) -> Node:
        """A statement in the scopes around the assignment that are not free, without what marks them."""
        short = substitute_iterators({d: Affine.iterator(self.use.depth + n) for n, d in enumerate(self.kept)})
        for depth in reversed(self.kept):
            node = Scope(substitute_extent(self.scopes[depth].extent, short), (node,))
        return node


__all__ = ["KeptWriter", "last_writer_fault"]
