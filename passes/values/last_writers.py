"""Moves that say by a comparison which of several assignments to one element is the last, and back."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from dojoir.ir.affine import Affine
from dojoir.ir.nodes import (
    Access,
    Const,
    Expr,
    Index,
    Kernel,
    Op,
    Path,
    Scope,
    Site,
    Statement,
    affine_parts,
    substitute_access,
    substitute_iterators,
)
from dojoir.ir.paths import is_inside, next_sibling
from dojoir.ir.places import siblings
from dojoir.passes.base.about import AboutScope, AboutStatement, Arguments, Here
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
from dojoir.proof.certificate import InstanceMap, LastWriter
from dojoir.proof.core.last_writer import KeptWriter
from dojoir.sets.distinct_writes import distinct_writes
from dojoir.sets.ranges import is_nonnegative
from dojoir.support.frozen import dataclass


@dataclass(frozen=True)
class KeepLastWriter(AboutScope, name="keep_last_writer"):
    """Makes the assignment at `statement`, at indices from data, store only what would stay: of the iterations of
    `scope` that assign one element, the last stores, and the others nothing. They are independent then, and may run
    on cores, in lanes and as threads, which store plainly.

    Which one is the last is computed before, into the new temporary `last`: the largest number of an iteration
    that assigns an element, one for each that the indices from data (and others that are not the same in each
    iteration) name. That is a maximum at indices from data, which threads of a GPU take by atomics. Under a
    condition on data an index may be out of range where that does not hold. So it is first brought into a
    temporary, which has 0 there: `indices` are names for these, one for each index from data where there is a
    condition, and none elsewhere.

    What the indices and the condition read must not be written in the scope, and what is assigned not be used there
    by another statement. The inverse is `drop_last_writer`.

    >>> import dojoir
    >>> k = dojoir.parse('''kernel f(N, S, D)
    ... in  at: i64[N]
    ... in  x: f32[N, D]
    ... inout y: f32[S, D]
    ... N @i
    ... | D @d
    ... | | y[at[{i}], {d}] = x[{i}, {d}]
    ... ''')
    >>> print(dojoir.apply(k, "keep_last_writer(@i, 0.0.0, last)"))
    kernel f(N, S, D)
    in  at: i64[N]
    in  x: f32[N, D]
    inout y: f32[S, D]
    tmp last: i64[S]
    <BLANKLINE>
    S
    | last[{0}] = -1
    N
    | last[at[{0}]] max= {0}
    N @i
    | D @d
    | | y[at[{i}], {d}] = x[{i}, {d}] if last[at[{i}]] == {i}
    <BLANKLINE>
    """

    statement: Place
    last: BufferName
    indices: tuple[BufferName, ...] = ()

    def rewritten(self, around: Here[Scope]) -> Rewrite:
        kernel, at = around.kernel, AboutStatement.named(around.kernel, self.statement)
        if not is_inside(at.path, around.path):
            raise at.refusal("not-nested", f"{self.statement} is not in the scope at {self.scope}")
        names = (self.last, *self.indices)
        for name in names:
            check_new_name(kernel, name)
        wanted = len(at.node.scatters) if at.node.condition is not None else 0
        if len(self.indices) != wanted or len({*names}) < len(names):
            message = f"{wanted} names for indices are needed here, apart from that of the temporary"
            raise at.refusal("bad-names", message)
        use = LastWriter(at.number, around.depth, _free(at.site, around.depth), self.last, self.indices)
        kept = KeptWriter(kernel, use)
        for fault in kept.faults():
            raise at.refusal(*fault)
        return Rewrite(kept.rewritten(), InstanceMap((), rule=use))

    def back(self, around: Here[Scope]) -> Move:
        inside = around.kernel.path(self.statement)[len(around.path) :]
        return DropLastWriter(place_of((*next_sibling(around.path, 2 + len(self.indices)), *inside)))

    @classmethod
    def candidates(cls, kernel: Kernel) -> Iterator[Move]:
        known = distinct_writes(kernel) if any(site.statement.scatters for site in kernel.sites) else {}
        for number, site in enumerate(kernel.sites):
            statement = site.statement
            if not statement.scatters or statement.op != "=" or number in known:
                continue
            count = len(statement.scatters) if statement.condition is not None else 0
            places = (BufferName(fresh_name(kernel, f"place_{n}" if n else "place")) for n in range(count))
            names = BufferName(fresh_name(kernel, "last")), tuple(places)
            for path in site.scope_paths:
                yield cls(place_of(path), place_of(site.path), *names)


def _free(site: Site, depth: int) -> tuple[int, ...]:
    """The scopes around a statement, inside of the one at `depth`, that have no part in which of its instances
    write one element: neither its condition, nor an index that is data, nor an index together with such a
    scope, nor the extent of such a scope names them, and their extents name no such scope."""
    target, condition = site.statement.target, site.statement.condition
    asked: list[Expr] = [index for index in target.indices if isinstance(index, Access)]
    asked += [] if condition is None else [condition]
    bound = {depth, *(d for expr in asked for affine in affine_parts(expr) for d in affine.iterators)}
    together = [{*index.iterators} for index in target.indices if isinstance(index, Affine)]
    extents = [
        {d, *(i for bound in scope.extent.bounds for i in bound.iterators)} for d, scope in enumerate(site.scopes)
    ]
    together += [those for d, those in enumerate(extents) if d > depth and len(those) > 1]
    inside = range(depth, len(site.scopes))
    for d in inside:
        if not all(is_nonnegative(size - 1, site.scopes[:d]) for size in site.scopes[d].extent.bounds):
            bound.add(d)  # where it does not run at all, no index must be looked at
    before = -1
    while before != len(bound):
        before = len(bound)
        for those in together:
            if bound.intersection(those, inside):
                bound |= those
    return tuple(d for d in inside if d not in bound)


@dataclass(frozen=True)
class DropLastWriter(Undoing, AboutStatement, name="drop_last_writer"):
    """Takes the comparison out of the assignment at `statement` that says which of its iterations is the last to
    assign an element: all of them assign it then, one after another. Removes what computes the last one, and the
    temporaries of that. The inverse of `keep_last_writer`.

    >>> import dojoir
    >>> k = dojoir.parse('''kernel f(N, S)
    ... in  at: i64[N]
    ... in  x: f32[N]
    ... inout y: f32[S]
    ... tmp last: i64[S]
    ... S
    ... | last[{0}] = -1
    ... N
    ... | last[at[{0}]] max= {0}
    ... N @i
    ... | y[at[{i}]] = x[{i}] if last[at[{i}]] == {i}
    ... ''')
    >>> print(dojoir.apply(k, "drop_last_writer(2.0)"))
    kernel f(N, S)
    in  at: i64[N]
    in  x: f32[N]
    inout y: f32[S]
    <BLANKLINE>
    N @i
    | y[at[{i}]] = x[{i}]
    <BLANKLINE>
    """

    def undone(self, kernel: Kernel) -> tuple[Kernel, Move]:
        at = self.found(kernel)
        statement, target = at.node, at.node.target
        found = _compared(statement.condition)
        if found is None or not 0 <= found[2] < at.depth:
            raise at.refusal("another-form", "the condition does not end in a comparison with an iterator")
        condition, last, depth = found
        names = [] if condition is None else [i.buffer for i in target.indices if isinstance(i, Access)]
        path, new = at.site.scope_paths[depth], 2 + len(names)
        if path[-1] < new:
            raise at.refusal("another-form", f"{new} nests before the scope must compute `{last}`")
        indices = tuple(
            _index(kernel, i, depth, path) if isinstance(i, Access) and names else i for i in target.indices
        )
        assert isinstance(statement.value, Op)
        plain = statement.value.args[1]
        value = plain if condition is None else Op("when", (condition, plain))
        earlier = at.replaced(replace(statement, target=replace(target, indices=indices), value=value))
        start = next_sibling(path, -new)
        earlier = earlier.replace_node(start, count=new).without_buffers(last, *names)
        inside = place_of((*start, *at.path[len(path) :]))
        return earlier, KeepLastWriter(place_of(start), inside, BufferName(last), tuple(map(BufferName, names)))

    @classmethod
    def listed(cls, at: Here[Statement]) -> Arguments:
        return [()] if at.node.scatters and _compared(at.node.condition) is not None else []


def _compared(condition: Expr | None) -> tuple[Expr | None, str, int] | None:
    """A condition that ends in the comparison of an element with an iterator: what is before it, the array, and the
    depth of the iterator."""
    first: Expr | None = None
    match condition:
        case Op("and", (first, Op("eq", (Access(last), Index(affine))))):
            pass
        case Op("eq", (Access(last), Index(affine))):
            pass
        case _:
            return None
    depths = [d for d in affine.iterators if affine == Affine.iterator(d)]
    return (first, last, depths[0]) if depths else None


def _index(kernel: Kernel, place: Access, depth: int, path: Path) -> Access:
    """The index that a temporary holds, where the nests before the scope at a path say so."""
    around = siblings(kernel, path)
    for site in kernel.sites:
        if site.statement.target.buffer == place.buffer and around and is_inside(site.path, path[:-1]):
            match site.statement.value:
                case Op("select", (_, Access() as index, Const(0))):
                    inner = dict(enumerate((i for i in place.indices if isinstance(i, Affine)), depth))
                    return substitute_access(index, substitute_iterators(inner))
    raise Refusal("another-form", f"`{place.buffer}` is not the temporary of an index", path)
