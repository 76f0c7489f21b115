"""The obligation *touches*: of an array that a call gives and gets back, the kernel after touches no element that
the one before leaves alone.

Others may have the rest of such an array: threads that work on a part each may write there at any time. So an
element may not be written that was not, not even with its own value, nor read that was neither read nor written.
Nor may one be assigned for sure that was written only where the data say so, at an index from data, or under a
condition on them; partial results may be added to it, of which each may be nothing. An `out` is written whole, and
an `in` by nobody.

*Theorem.* Let the instances be proved. A statement that stands for another one and names the same elements, in its
own iterators, touches in each instance what the old instance does: data that decide it are the same, as values are.
So does one between the same bounds and guards as a statement of the kernel before that names the same elements, if
data decide nothing there, or the same. Of all others is asked that the elements which they write are some that the
kernel before writes, for sure if they assign, and those which they read some that it may touch (`find_new_touch`).
What the rule of the last writer gives touches no more, as is said there.

An index from data counts as reading all elements that it may name, and a condition on data as holding: that an
element is not read because of data is not promised.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Literal

import islpy as isl

from dojoir.ir.nodes import Access, Kernel, Statement, substitute
from dojoir.proof.certificate import LastWriter
from dojoir.proof.claim import Claim
from dojoir.proof.core.unchanged import standing
from dojoir.sets.data_writes import decided, without_data_writes
from dojoir.sets.flow import same_bounds
from dojoir.sets.kernel_sets import KernelSets, sets_of
from dojoir.support.frozen import dataclass


@dataclass(frozen=True)
class NewTouch:
    """Instances of the kernel after, in the form without writes that data decide, to elements that the one before
    does not touch; that it does not write, where `how` is "written", or writes only where data say so, where it is
    "for sure"."""

    kernel: Kernel
    elements: isl.UnionMap
    how: Literal["read", "written", "for sure"]


def find_new_touch(claim: Claim) -> NewTouch | None:
    """An element that the kernel after touches and the one before does not, or None."""
    asked = asked_of(claim)
    names = sorted({name for names in asked.values() for name in names})
    found = (found for name in names for found in _new_touches(claim, name, [k for k in asked if name in asked[k]]))
    return next((touch for touch in found if not touch.elements.is_empty()), None)


def _new_touches(claim: Claim, name: str, users: list[int]) -> Iterator[NewTouch]:
    """The elements of an array that some statements touch and the kernel before does not: may be none."""
    old, new = (sets_of(without_data_writes(kernel)) for kernel in (claim.before, claim.after))
    was, now = _of(old, name, old.numbers, True), _of(new, name, users, True)
    yield NewTouch(new.kernel, now.subtract_range(was.range()), "written")
    were, are = _of(old, name, old.numbers, False), _of(new, name, users, False)
    yield NewTouch(new.kernel, are.subtract_range(was.union(were).range()), "read")
    sure = [k for k in old.numbers if not decided(claim.before.sites[k].statement)]
    if len(sure) < len(old.numbers):
        assigned = _of(new, name, (k for k in users if claim.after.sites[k].statement.accumulation is None), True)
        yield NewTouch(new.kernel, assigned.subtract_range(_of(old, name, sure, True).range()), "for sure")


def asked_of(claim: Claim) -> dict[int, frozenset[str]]:
    """The statements of the kernel after that are not seen to touch what an old one does, each with the arrays of
    which that is to be asked."""
    if isinstance(claim.certificate.rule, LastWriter):
        return {}
    names = frozenset(buffer.name for buffer in claim.after.buffers if buffer.role == "inout")
    users = {k for name in names for k in claim.after.users.get(name, ())}
    if not users:
        return {}
    same = _same(claim, users) if claim.certificate.rule is None else frozenset()
    asked = (k for k in sorted(users - same) if not _is_between_the_same_bounds(claim, k))
    return {k: names & claim.after.sites[k].statement.buffers for k in asked}


def _is_between_the_same_bounds(claim: Claim, number: int) -> bool:
    """Whether a statement touches, by its text, no more than one between the same bounds, of those of the kernel
    before that are no more what they were: so this follows from what changed. By a rule one expression became
    another, and all else is the same."""
    before, site, by_rule = claim.before, claim.after.sites[number], claim.certificate.rule is not None
    changed = [
        before.sites[j] for k, j in claim.pairs if claim.after.sites[k].statement != before.sites[j].statement
    ]
    return any(
        same_bounds(old, site)
        and _touches_no_more(claim.after, old.statement, site.statement)
        and (not decided(old.statement) or (by_rule and _asks_the_same(old.statement, site.statement)))
        for old in (before.sites if by_rule else changed)
    )


def _asks_the_same(was: Statement, now: Statement) -> bool:
    """Whether the same data decide two statements, by their text."""
    return (was.target, was.condition) == (now.target, now.condition)


def _same(claim: Claim, users: set[int]) -> frozenset[int]:
    """Those of some statements that stand for others, and touch what these do."""
    before, after, instances = claim.forth.parts
    seen: dict[int, bool] = {}
    for k, origin in enumerate(instances.origins):
        number = k if not claim.certificate.backward or origin is None else origin.site
        if origin is not None and number in users:
            old, new = substitute(before.sites[origin.site].statement, origin.replace), after.sites[k].statement
            given, made = (new, old) if claim.certificate.backward else (old, new)
            assert isinstance(given, Statement)
            assert isinstance(made, Statement)
            seen[number] = seen.get(number, True) and _touches_no_more(claim.after, given, made)
    return frozenset(k for k, same in seen.items() if same) & standing(claim)


def _touches_no_more(kernel: Kernel, was: Statement, now: Statement) -> bool:
    """Whether a statement, by its text, touches of the arrays in question only what another one does."""

    def asked(access: Access) -> bool:
        return kernel.buffer(access.buffer).role == "inout"

    writes = not asked(now.target) or _without_data(now.target) == _without_data(was.target)
    return writes and {*filter(asked, now.reads)} <= {*was.accesses}


def _without_data(access: Access) -> tuple[object, ...]:
    """The buffer and the indices of an access, those from data left out."""
    return (access.buffer, *(None if isinstance(index, Access) else index for index in access.indices))


def _of(sets: KernelSets, name: str, numbers: Iterable[int], writes: bool) -> isl.UnionMap:
    """The elements of an array that some statements write, or read."""
    pieces = []
    for k in numbers:
        if writes and sets.kernel.sites[k].statement.target.buffer == name:
            pieces.append(sets.write_text(k))
        elif not writes:
            pieces += [sets.read_by_statement(read) for read in sets.reads[k] if read.access.buffer == name]
    return sets.map(*pieces)
