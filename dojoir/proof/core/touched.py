"""The obligation *touches*: of an array that a call gives and gets back, the kernel after touches no element that
the one before leaves alone.

Others may have the rest of such an array: threads that work on a part each may write there at any time. So an
element may not be written that was not, not even with its own value, nor read that was neither read nor written. An
`out` is written whole, and an `in` by nobody.

*Theorem.* Let the instances be proved. A statement that stands for another one and names the same elements, in its
own iterators, touches in each instance what the old instance does. Of all others is asked that the elements which
they touch are some that the kernel before does (`find_new_touch`).

A scatter counts as touching all elements that its index may name, and a condition on data as holding: what the data
say is not asked.
"""

from __future__ import annotations

from collections.abc import Iterable

import islpy as isl

from dojoir.ir.nodes import Access, Kernel, Statement, substitute
from dojoir.proof.claim import Claim
from dojoir.sets.kernel_sets import KernelSets
from dojoir.support.frozen import dataclass


@dataclass(frozen=True)
class NewTouch:
    """Instances of the kernel after to elements that the one before does not touch; with `writes`, does not
    write."""

    kernel: Kernel
    elements: isl.UnionMap
    writes: bool


def find_new_touch(claim: Claim) -> NewTouch | None:
    """An element that the kernel after touches and the one before does not, or None. The kernels are in the form
    without writes that data decide."""
    asked = asked_of(claim)
    for name in sorted({name for names in asked.values() for name in names}):
        users = [k for k in asked if name in asked[k]]
        was, were = (_of(claim.old, name, claim.old.numbers, writes) for writes in (True, False))
        now, are = (_of(claim.new, name, users, writes) for writes in (True, False))
        written, read = now.subtract_range(was.range()), are.subtract_range(was.union(were).range())
        for found, writes in ((written, True), (read, False)):
            if not found.is_empty():
                return NewTouch(claim.after, found, writes)
    return None


def asked_of(claim: Claim) -> dict[int, frozenset[str]]:
    """The statements of the kernel after that are not seen to touch what an old one does, each with the arrays of
    which that is to be asked."""
    names = frozenset(buffer.name for buffer in claim.after.buffers if buffer.role == "inout")
    users = {k for name in names for k in claim.after.users.get(name, ())}
    if not users:
        return {}
    same = _same(claim, users) if claim.certificate.rule is None else frozenset()
    return {k: names & claim.after.sites[k].statement.buffers for k in sorted(users - same)}


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
    return frozenset(k for k, same in seen.items() if same)


def _touches_no_more(kernel: Kernel, was: Statement, now: Statement) -> bool:
    """Whether a statement, by its text, touches of the arrays in question only what another one does."""

    def asked(access: Access) -> bool:
        return kernel.buffer(access.buffer).role == "inout"

    writes = not asked(now.target) or now.target == was.target
    return writes and {*filter(asked, now.reads)} <= {*was.accesses}


def _of(sets: KernelSets, name: str, numbers: Iterable[int], writes: bool) -> isl.UnionMap:
    """The elements of an array that some statements write, or read."""
    pieces = []
    for k in numbers:
        if writes and sets.kernel.sites[k].statement.target.buffer == name:
            pieces.append(sets.write_text(k))
        elif not writes:
            pieces += [sets.read_by_statement(read) for read in sets.reads[k] if read.access.buffer == name]
    return sets.map(*pieces)
