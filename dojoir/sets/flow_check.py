"""A computed flow held against the definition of one.

isl finds the last write before a read by integer optimisation over parameters, which is wrong for some sets with
quotients. Of the composition of accesses that is

    { o[e] -> s[i, j] : e = 0 and i mod 3 = 0 and 0 <= i <= 5 and 0 <= j <= 3 and 2*floor((1 + i)/3) >= -2 + i + j }

the last element is (3, 1), and isl 0.27 answers (0, 2); and for some such sets its computation of flow reads memory
that is not its own. So it is where the quotients come from the optimisation itself: of the one statement
that writes y[2*{0} + 4*{1}, {0} + 2*{1}], it says of y[1, 1] neither that it does nor that it does not write it.

Where quotients or remainders of iterators take part, a flow is computed from its definition, by composition and
difference, and believed only if composition and intersection find no fault in it. Else isl's own flow is held
against the definition in the same way, and replaced if it is wrong, but where no quotient can arise.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from functools import reduce

import islpy as isl

from dojoir.ir.affine import Affine, FloorDiv, Iter, Mod
from dojoir.ir.nodes import Access, Guard, Scope, Site, Statement
from dojoir.sets.limits import StepLimitReached, integer
from dojoir.support.frozen import dataclass


@dataclass(frozen=True)
class Accesses:
    """What a flow is computed from: instances to the elements they surely write, may write (adding to what is
    there) and read, and the time at which each runs."""

    must: isl.UnionMap
    may: isl.UnionMap
    reads: isl.UnionMap
    schedule: isl.UnionMap


def compute_flow(given: Accesses, users: Iterable[Site]) -> tuple[isl.UnionMap, isl.UnionMap]:
    """The writes that each read gets a value from (the last sure one and all others since), and the reads that may
    see what was there at the start, with the element. `users` are the statements that make the accesses.

    Raises StepLimitReached where isl finds none, or what it finds does not hold.
    """
    sites = list(users)
    given = replace(given, schedule=without_equal_dims(given.schedule))
    try:
        if not any(_divides(affine, of_sizes=False) for site in sites for affine in _affines(site)):
            found = _by_isl(given)
            if all(map(_needs_no_quotients, sites)) or is_flow(given, *found):
                return found
        found = _from_definition(given)
        if not is_flow(given, *found):
            raise StepLimitReached
    except isl.Error:  # at the limit, or for a set with quotients that isl cannot factor
        raise StepLimitReached from None
    return found


def without_equal_dims(schedule: isl.UnionMap) -> isl.UnionMap:
    """The schedule without the dimensions in which all runs have one number, as most child numbers are: the order
    is the same, and isl takes as little as half the time."""
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


def _by_isl(given: Accesses) -> tuple[isl.UnionMap, isl.UnionMap]:
    info = isl.UnionAccessInfo.from_sink(given.reads).set_must_source(given.must).set_may_source(given.may)
    flow = info.set_schedule_map(given.schedule).compute_flow()
    return flow.get_may_dependence(), flow.get_may_no_source()


def _from_definition(given: Accesses) -> tuple[isl.UnionMap, isl.UnionMap]:
    """Of the writes before a read, those that no sure write comes after."""
    order = _order(given)
    sure, other = (_same(writes, given.reads).intersect(order) for writes in (given.must, given.may))
    last = sure.subtract(_same(given.must, given.must).intersect(order).apply_range(sure))
    since = other.subtract(_same(given.may, given.must).intersect(order).apply_range(sure))
    return last.union(since), given.reads.subtract_domain(sure.range())


def is_flow(given: Accesses, sources: isl.UnionMap, initial: isl.UnionMap) -> bool:
    """Whether `sources` has the last sure write before each read and all others since, and nothing else, and
    `initial` the reads with no sure write before."""
    order = _order(given)
    sure, other = (order.intersect(_same(writes, given.reads)) for writes in (given.must, given.may))
    last = sources.intersect_domain(given.must.domain()).reverse()
    added = sources.intersect_domain(given.may.domain()).reverse()

    def from_last(writes: isl.UnionMap, relation: isl.UnionMap) -> isl.UnionMap:
        """Each read to the writes of its element that are so related to its last one."""
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
        and given.reads.domain().is_subset(initial.domain().union(_domain(last)))
    )


def _domain(last: isl.UnionMap) -> isl.UnionSet:
    """Where a function is defined. Its values are asked for as formulas first: without them isl may take minutes to
    find out that an iteration has one. What it answers is a hint, and counts if it is part of the function."""
    try:
        formulas = isl.UnionMap.from_union_pw_multi_aff(isl.UnionPwMultiAff.from_union_map(last))
    except isl.Error:  # it has two values somewhere, or the limit is reached, of which the next line hears
        return last.domain()
    return formulas.domain() if formulas.is_subset(last) else last.domain()


def _order(given: Accesses) -> isl.UnionMap:
    """Each write to all that runs after it, whether its iterators are in range or not: only to be intersected with
    accesses. (Nothing is said of sizes that a call may not have: the facts about them would take most of the time.)
    """
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
    quotients = [atom for atom, _ in affine.terms if isinstance(atom, FloorDiv | Mod)]
    return any(of_sizes or Affine.atom(atom).iterators for atom in quotients)


def _needs_no_quotients(site: Site) -> bool:
    """Whether each index is an iterator or has none, and each condition is one on the difference of two iterators,
    or on one: iterators are then found from elements, and from each other, without a division."""
    if any(_divides(affine, of_sizes=True) for affine in _affines(site)):
        return False
    for node in site.ancestors:
        match node:
            case Guard(conditions):
                if any(not _is_difference(c.left - c.right) for c in conditions):
                    return False
            case Scope(extent):
                if any(_coefficients(bound) not in ([], [1]) for bound in extent.bounds):
                    return False
    indices = [index for access in site.statement.accesses for index in access.indices]
    return all(isinstance(index, Affine) and _coefficients(index) in ([], [1]) for index in indices)


def _coefficients(affine: Affine) -> list[int]:
    """Those of the iterators, in ascending order."""
    return sorted(c for atom, c in affine.terms if isinstance(atom, Iter))


def _is_difference(affine: Affine) -> bool:
    return _coefficients(affine) in ([], [1], [-1], [-1, 1])
