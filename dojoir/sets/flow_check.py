"""A computed flow held against the definition of one.

isl finds the last write before a read by integer optimisation over parameters, which is wrong for some sets with
quotients. Of the composition of accesses that is

    { o[e] -> s[i, j] : e = 0 and i mod 3 = 0 and 0 <= i <= 5 and 0 <= j <= 3 and 2*floor((1 + i)/3) >= -2 + i + j }

the last element is (3, 1), and isl 0.27 answers (0, 2); and for some such sets its computation of flow reads memory
that is not its own. So it is where the quotients come from the optimisation itself: of the one statement
that writes y[2*{0} + 4*{1}, {0} + 2*{1}], it says of y[1, 1] neither that it does nor that it does not write it.

Where quotients or remainders of iterators take part, a flow is computed from its definition, by composition and
difference, and believed only if composition and intersection find no fault in it. Else isl's own flow is held
against the definition in the same way, and replaced if it is wrong, but where no quotient can arise
(`_is_difference_system`). Before either is computed, a guess that costs little is held against the definition: that
each read gets what its own iteration of the scopes around all accesses writes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import replace
from functools import reduce

import islpy as isl

from dojoir.ir.affine import Affine, Compound, FloorDiv, Iter, Mod
from dojoir.ir.nodes import Access, Guard, Scope, Site, Statement
from dojoir.sets.limits import StepLimitReached, aside, integer
from dojoir.support.frozen import dataclass
from dojoir.support.memo import charge, spent

GUESS_STEPS = 60_000
"""The steps that a guess of a flow may take."""


@dataclass(frozen=True)
class FlowInput:
    """The input of a computation of flow: which elements each instance surely writes (`must`), adds to (`may`)
    and reads, and when it runs (`schedule`)."""

    must: isl.UnionMap
    may: isl.UnionMap
    reads: isl.UnionMap
    schedule: isl.UnionMap


def compute_flow(given: FlowInput, users: Iterable[Site]) -> tuple[isl.UnionMap, isl.UnionMap]:
    """The flow of some accesses, as two maps. From each write to the reads that get a value from it (the last sure
    write of the element, and every `may` write since), and from each read that no sure write precedes to its
    element.

    `users` are the statements that make the accesses: what divisions they have decides which method is safe.
    Raises StepLimitReached where no flow is found, or the one found fails the check against the definition.
    """
    sites = list(users)
    given = replace(given, schedule=without_equal_dims(given.schedule))
    try:
        divides = any(_divides(affine, of_sizes=False) for site in sites for affine in _affines(site))
        if not divides and all(map(_is_difference_system, sites)) and not _has_quotients(given):
            return _by_isl(given)
        near = _guessed(given)
        if near is not None:
            return near
        if not divides:
            found = _by_isl(given)
            if is_flow(given, *found):
                return found
        found = _from_definition(given)
        if not is_flow(given, *found):
            raise StepLimitReached
    except isl.Error:  # at the limit, or for a set with quotients that isl cannot factor
        raise StepLimitReached from None
    return found


def without_equal_dims(schedule: isl.UnionMap) -> isl.UnionMap:
    """The schedule without the dimensions that are one and the same number for every run, as most numbers of
    children are. They decide no order, and isl takes up to twice the time with them."""
    maps: list[isl.Map] = []
    schedule.foreach_map(maps.append)
    numbers = [
        {None if (v := one.plain_get_val_if_fixed(isl.dim_type.out, d)).is_nan() else integer(v) for one in maps}
        for d in range(maps[0].dim(isl.dim_type.out) if maps else 0)
    ]
    equal = [d for d, found in enumerate(numbers) if len(found) == 1 and None not in found]
    for d in reversed(equal):
        maps = [one.project_out(isl.dim_type.out, d, 1) for one in maps]
    return reduce(isl.UnionMap.union, map(isl.UnionMap.from_map, maps), isl.UnionMap.empty(schedule.get_space()))


def _by_isl(given: FlowInput) -> tuple[isl.UnionMap, isl.UnionMap]:
    info = isl.UnionAccessInfo.from_sink(given.reads).set_must_source(given.must).set_may_source(given.may)
    flow = info.set_schedule_map(given.schedule).compute_flow()
    return flow.get_may_dependence(), flow.get_may_no_source()


def _guessed(given: FlowInput) -> tuple[isl.UnionMap, isl.UnionMap] | None:
    """The flow, where it is seen within few steps to be what `_of_one_iteration` guesses. It is charged what it
    took to hold it against the definition. A flow that is computed is held against that as well, so no question is
    charged more than without the guess, but for what isl takes for the one form of a flow or the other."""

    def attempt() -> tuple[tuple[isl.UnionMap, isl.UnionMap], int] | None:
        guess = _of_one_iteration(given)
        start = spent()
        holds = guess is not None and is_flow(given, *guess, _domain_among(given.reads.domain()))
        return (guess, spent() - start) if guess is not None and holds else None

    found = aside(attempt, GUESS_STEPS)
    if found is None:
        return None
    charge(found[1])
    return found[0]


def _of_one_iteration(given: FlowInput) -> tuple[isl.UnionMap, isl.UnionMap] | None:
    """A guess: each read gets what the same iteration of the scopes around all of the accesses writes before it.
    None where no scopes are seen in which the text alone says what is before, or where a read would have two last
    writes. As a rule that is so of a copy of a tile, whose flow isl may take seconds to find otherwise."""
    shared = _shared_dims(given.schedule)
    if shared is None:
        return None
    times = given.schedule.gist_params(given.schedule.params())
    around, inside = (_dims(times, some) for some in (slice(0, shared), slice(shared, None)))
    here = inside.lex_lt_union_map(inside).intersect(_same(around, around))
    sure, other = (_same(writes, given.reads).intersect(here) for writes in (given.must, given.may))
    if not sure.reverse().is_single_valued():
        return None
    begun = given.reads.subtract_domain(_domain_among(given.reads.domain())(sure.reverse()))
    return sure.union(other), begun


def _domain_among(reads: isl.UnionSet) -> Callable[[isl.UnionMap], isl.UnionSet]:
    """What finds the domain of a map from some reads, with others that are none of them: what holds of all reads is
    left out, with which isl may take seconds to see where there is a value."""
    return lambda last: last.gist_domain(reads).domain()


def _shared_dims(schedule: isl.UnionMap) -> int | None:
    """The number of leading time dimensions before the first one that is a constant for every access; None if none
    is."""
    maps: list[isl.Map] = []
    schedule.foreach_map(maps.append)
    for d in range(maps[0].dim(isl.dim_type.out) if maps else 0):
        if not any(one.plain_get_val_if_fixed(isl.dim_type.out, d).is_nan() for one in maps):
            return d
    return None


def _dims(schedule: isl.UnionMap, some: slice) -> isl.UnionMap:
    """The schedule with some of its dimensions alone."""
    maps: list[isl.Map] = []
    schedule.foreach_map(maps.append)
    found = []
    for one in maps:
        count = one.dim(isl.dim_type.out)
        first, end, _ = some.indices(count)
        one = one.project_out(isl.dim_type.out, end, count - end).project_out(isl.dim_type.out, 0, first)
        found.append(isl.UnionMap.from_map(one))
    return reduce(isl.UnionMap.union, found)


def _from_definition(given: FlowInput) -> tuple[isl.UnionMap, isl.UnionMap]:
    """The flow by its definition: the writes before a read, less those that a later sure write hides."""
    order = _order(given)
    sure, other = (_same(writes, given.reads).intersect(order) for writes in (given.must, given.may))
    last = sure.subtract(_same(given.must, given.must).intersect(order).apply_range(sure))
    since = other.subtract(_same(given.may, given.must).intersect(order).apply_range(sure))
    return last.union(since), given.reads.subtract_domain(sure.range())


def is_flow(
    given: FlowInput,
    sources: isl.UnionMap,
    initial: isl.UnionMap,
    domain: Callable[[isl.UnionMap], isl.UnionSet] | None = None,
) -> bool:
    """Whether `sources` maps exactly the last sure write before each read, and every other write since, to that
    read, and `initial` has exactly the reads that no sure write precedes. `domain` finds which reads have a last
    sure write, as far as they are reads; by default in the way that is fast where isl has cut a map into pieces."""
    order = _order(given)
    sure, other = (order.intersect(_same(writes, given.reads)) for writes in (given.must, given.may))
    last = sources.intersect_domain(given.must.domain()).reverse()
    added = sources.intersect_domain(given.may.domain()).reverse()

    def from_last(writes: isl.UnionMap, relation: isl.UnionMap) -> isl.UnionMap:
        """From each read, the writes of its element that stand in this relation to the read's last sure write."""
        return last.apply_range(_same(given.must, writes).intersect(relation))

    since = from_last(given.may, order).union(other.reverse().intersect_domain(initial.domain()))
    return bool(
        from_last(given.must, order).is_disjoint(sure.reverse())
        and from_last(given.may, order.reverse()).is_disjoint(added)
        and last.is_subset(sure.reverse())
        and added.is_subset(other.reverse())
        and since.intersect(other.reverse()).is_subset(added)
        and sources.domain().is_subset(given.must.union(given.may).domain())
        and initial.is_subset(given.reads)
        and initial.domain().is_disjoint(sure.range())
        and given.reads.domain().is_subset(initial.domain().union((domain or _domain)(last)))
    )


def _domain(last: isl.UnionMap) -> isl.UnionSet:
    """The domain of a function that is given as a relation. isl is first asked for its values as formulas,
    without which it may take minutes to see where there is a value. The formulas are a hint: they count only if
    they are part of the relation."""
    try:
        formulas = isl.UnionMap.from_union_pw_multi_aff(isl.UnionPwMultiAff.from_union_map(last))
    except isl.Error:  # it has two values somewhere, or the limit is reached, of which the next line hears
        return last.domain()
    return formulas.domain() if formulas.is_subset(last) else last.domain()


def _order(given: FlowInput) -> isl.UnionMap:
    """Pairs of instances, the first a write and before the second. Bounds of iterators and facts about sizes are
    left out, which would take most of the time: intersect it with accesses, which have them."""
    schedule = given.schedule.gist_params(given.schedule.params())
    writes = given.must.union(given.may).domain().universe()
    return schedule.intersect_domain(writes).lex_lt_union_map(schedule)


def _same(left: isl.UnionMap, right: isl.UnionMap) -> isl.UnionMap:
    """The pairs that touch one element."""
    return left.apply_range(right.reverse())


def _affines(site: Site) -> list[Affine]:
    found: list[Affine] = []
    for node in site.ancestors:
        if isinstance(node, Guard):
            found += [side for condition in node.conditions for side in (condition.left, condition.right)]
        else:
            found += node.extent.bounds
    statement: Statement = site.statement
    for access in statement.accesses:
        found += [index for index in access.indices if not isinstance(index, Access)]
    return found


def _divides(affine: Affine, of_sizes: bool) -> bool:
    """Whether there is a quotient or a remainder: of iterators, or `of_sizes` alone."""
    return any(
        (isinstance(atom, FloorDiv | Mod) and (of_sizes or bool(Affine.atom(atom).iterators)))
        or any(_divides(part, of_sizes) for part in atom.parts)
        for atom, _ in affine.terms
        if isinstance(atom, Compound)
    )


def _has_quotients(given: FlowInput) -> bool:
    """Whether the sizes are bound by a quotient, as by a fact `M % 16 == 0`."""
    found: list[isl.BasicSet] = []
    for part in (given.must, given.may, given.reads):
        part.params().foreach_basic_set(found.append)
    return any(one.dim(isl.dim_type.div) for one in found)


def _is_difference_system(site: Site) -> bool:
    """Whether all that is said of the iterators of a statement are differences. Each index is one iterator and a
    constant, or a constant, and each condition compares one iterator, or the difference of two, with what does not
    vary. Of such statements isl's flow is believed as it is, since it comes without a division.

    Why. The fault is one of divisions, which isl brings in where a rational optimum is not whole (a cut). The last
    write before a read is the largest of a set whose constraints are x <= y + c or x = y + c in the iterators of
    both, from bounds, guards, equal indices and the order of the schedule. Here c is whole and affine in the
    sizes. What is left when other writes are taken away is a union of such sets again. Their matrix, with one 1
    and one -1 in a row at most, is that of a network, thus totally unimodular. Each pivot is 1 or -1, every corner
    is whole for whole sizes, and there is nothing to cut.

    Source: A. J. Hoffman and J. B. Kruskal, "Integral boundary points of convex polyhedra" (1956).
    """
    if any(_divides(affine, of_sizes=True) for affine in _affines(site)):
        return False
    for node in site.ancestors:
        match node:
            case Guard(conditions):
                if any(_coefficients(c.left - c.right) not in ([], [1], [-1], [-1, 1]) for c in conditions):
                    return False
            case Scope(extent):
                if any(_coefficients(bound) not in ([], [1]) for bound in extent.bounds):
                    return False
    indices = [index for access in site.statement.accesses for index in access.indices]
    return all(
        isinstance(index, Affine) and not index.is_clamped and _coefficients(index) in ([], [1])
        for index in indices
    )


def _coefficients(affine: Affine) -> list[int]:
    """Those of the iterators, in ascending order."""
    return sorted(c for atom, c in affine.terms if isinstance(atom, Iter))
