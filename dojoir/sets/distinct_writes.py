"""Statements that write at distinct indices from data: no two of their instances touch one element.

`h[at[i], j] = v`, where no two elements of `at` are equal (an argument that is `distinct`, which a call checks),
does so if no two instances have the same `i` and `j`. That is asked of all statements together that write one
buffer so.

`h[at[i], j] = v if last[at[i]] == i` does so too, whatever `at` is, while nothing writes `last`. Of two
instances that write one element, the indices are the same, so both compare the same element of `last`, and
their `i` are equal. What is compared is an affine value that fits its type, and `last` may have any of the
indices of `h` (in its own order). An element of `last` keeps its value between all instances in one iteration
of the scopes that the statements share with the writers of `last`, which all come before them there
(`_steady`). So it is asked besides that what is written at other indices is apart in any two of these
iterations.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

import islpy as isl

from dojoir.ir.affine import Affine
from dojoir.ir.dtypes import I64
from dojoir.ir.nodes import Access, Apart, Condition, Expr, Index, Kernel, Op, Scope, Statement
from dojoir.ir.paths import is_inside
from dojoir.sets.kernel_sets import KernelSets, isl_affine, iterators, sets_of
from dojoir.sets.ranges import is_nonnegative


class Told(NamedTuple):
    """How it is told which instance of a statement writes an element, and what two instances that write one have in
    common."""

    apart: Apart
    common: tuple[Affine, ...]


def distinct_writes(kernel: Kernel) -> Mapping[int, Apart]:
    """The statements, by number, that write at distinct indices from data, no two instances of those with equal
    values at the same: and that value."""
    sets, named = sets_of(kernel), dict[tuple[str, Apart], dict[int, Told]]()
    for number, site in enumerate(kernel.sites):
        told = _told(kernel, site.statement)
        if told is not None and (told.apart.kind == "distinct" or _is_exact(sets, number, told.common)):
            named.setdefault((site.statement.target.buffer, told.apart), {})[number] = told
    found: dict[int, Apart] = {}
    for (_, alike), numbers in named.items():
        around = _steady(kernel, alike.array, [*numbers]) if alike.kind == "compared" else 0
        if around is not None and _are_apart(sets, numbers, around):
            found |= dict.fromkeys(numbers, alike)
    return found


def _are_apart(sets: KernelSets, told: Mapping[int, Told], around: int) -> bool:
    """Whether no two instances of some statements write one element, where that is told in one iteration of as many
    scopes as are `around` them, and in any other by the indices that are not data."""
    targets = [sets.kernel.sites[k].statement.target.indices for k in told]
    plain = [d for d, some in enumerate(zip(*targets, strict=True)) if {*map(type, some)} == {Affine}]
    outer = tuple(map(Affine.iterator, range(around)))
    places: list[tuple[Affine, ...]] = [tuple(i for d in plain if isinstance(i := at[d], Affine)) for at in targets]
    own = _values(sets, {k: (*outer, *told[k].common, *at) for k, at in zip(told, places, strict=True)})
    if not own.is_injective():
        return False
    where = _values(sets, dict(zip(told, places, strict=True)))
    return not around or where.reverse().apply_range(_values(sets, dict.fromkeys(told, outer))).is_single_valued()


def _values(sets: KernelSets, values: Mapping[int, Sequence[Affine]]) -> isl.UnionMap:
    """Each instance of some statements to some values that it has."""
    sites = sets.kernel.sites
    return sets.map(
        *(
            f"s{k}[{iterators(len(sites[k].scopes))}] -> [{', '.join(map(isl_affine, some))}] : "
            f"{sets.constraints(sites[k].ancestors)}"
            for k, some in values.items()
        )
    )


def _told(kernel: Kernel, statement: Statement) -> Told | None:
    """How it is told which instance of a statement writes an element; None for a statement of which it is not."""
    buffer = kernel.buffer(statement.target.buffer)
    if not statement.scatters or buffer.packed or any(dim.collapsed for dim in buffer.dims):
        return None
    for dim in statement.scatters:
        match statement.target.indices[dim]:
            case Access(name, at) if kernel.buffer(name).distinct and {*map(type, at)} == {Affine}:
                common = tuple(index for index in at if isinstance(index, Affine))
                return Told(Apart("distinct", name, (dim,), statement.op), common)
    for part in _conjuncts(statement.condition):
        match part:
            case Op("eq", (Access(last, at), Index(value))) if _is_own(kernel, statement, last, at):
                dims = tuple(statement.target.indices.index(index) for index in at)
                return Told(Apart("compared", last, dims, statement.op), (value,))
    return None


def _is_own(kernel: Kernel, statement: Statement, last: str, at: Sequence[Affine | Access]) -> bool:
    """Whether an element that a condition compares is one of the array that says which instance writes: its indices
    are some of those of what is written, and its elements and an iterator are of one type."""
    buffer = kernel.buffer(last)
    plain = buffer.dtype == I64 and not any(dim.collapsed for dim in buffer.dims)
    return plain and last != statement.target.buffer and {*at} <= {*statement.target.indices}


def _is_exact(sets: KernelSets, number: int, values: Sequence[Affine]) -> bool:
    """Whether affine values of a statement surely fit i64: they are at least 0, and no more than a size or a
    constant that does. Others would wrap around, and two of them be equal."""
    site = sets.kernel.sites[number]
    around, sizes = site.ancestors, [*map(Affine.size, sets.kernel.runtime_sizes)]
    return all(
        sets.implies(around, Condition(value, ">=", Affine.constant(0)))
        and (
            is_nonnegative(Affine.constant(1 << 62) - value, site.scopes)
            or any(sets.implies(around, Condition(value, "<=", size)) for size in sizes)
        )
        for value in values
    )


def _conjuncts(condition: Expr | None) -> Iterator[Expr]:
    """The parts of a condition that all hold where it does."""
    match condition:
        case Op("and", (one, other)):
            yield from _conjuncts(one)
            yield from _conjuncts(other)
        case Access() | Op():
            yield condition


def _steady(kernel: Kernel, name: str, numbers: Sequence[int]) -> int | None:
    """In an iteration of how many scopes, from outside, no element of a buffer changes from the first instance of
    some statements to the last. All of these are inside of as many; None where that is not so of any.

    It is the scopes that a statement shares with a writer of the buffer, the most that two of them do. A writer
    inside of these comes before all the statements in the text: it shares no more scopes with them, and in one
    iteration of these it runs before. One outside runs before the iteration, or after it."""
    sites, users = kernel.sites, [kernel.sites[k] for k in numbers]
    writers = [site for site in sites if site.statement.target.buffer == name]
    shared, inside = max(
        ((user.shared_ancestors(w.path), user.path) for w in writers for user in users), default=(0, ())
    )
    around = inside[:shared]
    if not all(is_inside(user.path, around) for user in users):
        return None
    within = [writer for writer in writers if is_inside(writer.path, around)]
    if any(writer.path > user.path for writer in within for user in users):
        return None
    return sum(isinstance(node, Scope) for node in users[0].ancestors[:shared])


__all__ = ["distinct_writes"]
