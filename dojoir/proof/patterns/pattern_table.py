"""The patterns: shapes that moves leave, each with the theorem that a claim of that shape holds.

They are there for speed alone. None is part of what "legal" means: each says yes only where the core, without a
budget, does, which the tests hold each one to by itself, on moves and on mutants of them. False means unknown.
"""

from __future__ import annotations

from collections.abc import Callable

import islpy as isl

from dojoir.ir.nodes import Kernel
from dojoir.proof.certificate import InstanceMap, identity, same_statement, stand_for
from dojoir.proof.claim import Claim
from dojoir.proof.core.written import keeps_elements_apart
from dojoir.proof.difference import Change, change_of
from dojoir.proof.patterns.dead import is_without_dead
from dojoir.proof.patterns.hoisted import is_hoisted
from dojoir.proof.patterns.inlining import is_inlined
from dojoir.proof.patterns.partial_sums import has_partial_results
from dojoir.proof.patterns.recomputed import computes_again
from dojoir.proof.patterns.reordered import keeps_conflicts, runs_backwards
from dojoir.proof.patterns.same_order import alike, never_ran
from dojoir.proof.patterns.sharing import takes_the_storage
from dojoir.proof.patterns.split_dim import is_renumbered
from dojoir.proof.patterns.staging import works_on_copy
from dojoir.sets.flow import dependences, flow_of
from dojoir.sets.kernel_sets import sets_of
from dojoir.support.frozen import dataclass
from dojoir.support.memo import ObjectMemo


@dataclass(frozen=True)
class Pattern:
    """A sufficient condition for a claim, seen without asking the core.

    `holds` takes a claim whose certificate fits its kernels. True means that the kernel after means what the kernel
    before means, and is well-formed if that one is; `theorem` says why, in a sentence. False says nothing. Marks
    are never part of it. `converse`: the kernel before is well-formed if the one after is, too, so that the pattern
    also decides the same claim read backwards (the inverse of a move)."""

    name: str
    holds: Callable[[Claim], bool]
    theorem: str
    converse: bool = True


def is_plain(claim: Claim) -> bool:
    """Whether a pattern of `TEXTUAL` holds: then the claim does, marks aside."""
    return any(pattern.holds(claim) for pattern in TEXTUAL)


def is_plain_both_ways(claim: Claim) -> bool:
    """Whether one holds that decides the claim read backwards as well: each kernel is well-formed if the other
    is."""
    return any(pattern.holds(claim) for pattern in TEXTUAL if pattern.converse)


def keeps_order(claim: Claim) -> bool:
    """Whether `ORDER` holds: isl finds no two instances that conflict and change places."""
    return ORDER.holds(claim)


# -- when each is asked --------------------------------------------------------------------------------------
def _of_the_whole(holds: Callable[[Kernel, Kernel, InstanceMap], bool]) -> Callable[[Claim], bool]:
    """A pattern that looks at all of the two kernels."""
    return lambda claim: holds(*claim.parts)


_InChange = Callable[[Kernel, Kernel, InstanceMap, Change], bool]


def _where_it_changed(holds: _InChange, declares: bool) -> Callable[[Claim], bool]:
    """A pattern that looks at the one place where two kernels differ (`Change`). It is not asked where they differ
    in several places, where a read became an expression or the other way round, or where the buffers differ
    otherwise than `declares` says. By one that is new, or not at all."""

    def asked(claim: Claim) -> bool:
        before, after, instances = claim.parts
        if instances.inlined or instances.extracted or len(before.buffers) + declares != len(after.buffers):
            return False
        if not declares and before.buffers != after.buffers:
            return False
        change = change_of(before, after, instances)
        if change is None:
            return False
        return holds(before, after, instances, change)

    return asked


def _keeps_order(claim: Claim) -> bool:
    before, after, instances = claim.parts
    if before.buffers != after.buffers or instances.inlined or instances.extracted:
        return False
    if {o.site for o in instances.origins if o is not None} != set(range(len(before.sites))):
        return False
    for origin, site in zip(instances.origins, after.sites, strict=True):
        if origin is None or not same_statement(before.sites[origin.site].statement, origin, site.statement):
            return False
    change = change_of(before, after, instances)
    old, new = claim.old, claim.new
    were, are = (change.were, change.are) if change is not None else (old.numbers, new.numbers)
    stands_for = stand_for(after, instances, are)
    if not stands_for.range().is_equal(old.domains_of(were)) or not stands_for.is_injective():
        return False
    order = dependences(old, were)
    if order.is_empty():
        return True
    when = stands_for.reverse().apply_range(new.map(*(new.schedule_text(k) for k in are)))
    moved = isl.Map.from_union_map(order.apply_domain(when).apply_range(when))
    return moved.is_subset(isl.Map.lex_lt(moved.get_space().domain()))


def _keeps_values(claim: Claim) -> bool:
    before, after, instances = claim.parts
    if before.body != after.body or instances != identity(before) or not same_but_storage(before, after):
        return False
    ordered = claim.old.ordered(claim.strict)  # the statements are the same in both
    return all(
        flow_of(claim.old, name, ordered).is_same(flow_of(claim.new, name, ordered))
        for name in mixed_up(before, after)
    )


def same_but_storage(before: Kernel, after: Kernel) -> bool:
    """Whether the kernels declare buffers of the same names, roles, types and extents."""
    declared = [
        [(b.name, b.role, b.dtype, [d.extent for d in b.dims]) for b in kernel.buffers]
        for kernel in (before, after)
    ]
    return declared[0] == declared[1]


def mixed_up(before: Kernel, after: Kernel) -> list[str]:
    """The buffers whose storage changed and may now mix up elements: of the others it is seen that each read still
    gets what was written to its element."""
    changed = (b for a, b in zip(before.buffers, after.buffers, strict=True) if a.dims != b.dims)
    return [buffer.name for buffer in changed if not keeps_elements_apart(after, buffer)]


def runs_alike(before: Kernel, after: Kernel, instances: InstanceMap, change: Change) -> bool:
    """Whether all that changed is how the same statement instances are run in the same order, as the instance map
    says. That follows from the nodes that changed, what is around them and the sizes. The last ones are kept."""
    if before.buffers != after.buffers or instances.inlined or instances.extracted:
        return False
    rewrite = before, after, instances
    kept = _alike.get(*rewrite)
    return kept if kept is not None else _alike.put(_runs_alike(before, instances, change), *rewrite)


_alike: ObjectMemo[bool] = ObjectMemo(16)


def _runs_alike(before: Kernel, instances: InstanceMap, change: Change) -> bool:
    found = alike(sets_of(before), change.around, change.old, change.new, change.were.start)
    return found is not None and tuple(found) == instances.origins[change.are.start : change.are.stop]


TEXTUAL = (
    Pattern(
        "inlining",
        _of_the_whole(is_inlined),
        "A read of a temporary that one plain assignment alone gave, in the same iteration, may be replaced by the "
        "expression that was assigned, if nothing between the two writes what that reads.",
        converse=False,  # what the read that is gone touched is not in the kernel after
    ),
    Pattern(
        "hoisted",
        _of_the_whole(is_hoisted),
        "A part of an expression may be assigned to a new temporary just before, or before a scope around it, in "
        "which nothing writes what it reads, in scopes of the extents that it depends on, and read from there.",
    ),
    Pattern(
        "split_dim",
        _of_the_whole(is_renumbered),
        "i -> (i // f, i % f) is one to one: a temporary whose elements are renumbered so holds the same values.",
    ),
    Pattern(
        "same_order",
        _where_it_changed(runs_alike, declares=False),
        "Trees that enumerate the same statement instances in the same order do the same.",
    ),
    Pattern(
        "reordered",
        _where_it_changed(keeps_conflicts, declares=False),
        "The same instances in another order do the same if each two that conflict stay in order.",
    ),
    Pattern(
        "backwards",
        _where_it_changed(runs_backwards, declares=False),
        "A scope of which no two iterations conflict may run from its last iteration to its first.",
    ),
    Pattern(
        "unreached",
        _where_it_changed(never_ran, declares=False),
        "Statements that never run may be taken away.",
        converse=False,  # what never runs may be anything
    ),
    Pattern(
        "dead",
        _of_the_whole(is_without_dead),
        "A temporary that no other statement reads may be taken away, with the statements that write it.",
        converse=False,  # what they touch is not in the kernel after
    ),
    Pattern(
        "staging",
        _where_it_changed(works_on_copy, declares=True),
        "A node may work on a copy of a box of an array that holds all it touches: filled before it, or assigned "
        "before it is read, and copied back after it.",
    ),
    Pattern(
        "partial_sums",
        _where_it_changed(has_partial_results, declares=True),
        "Accumulations whose order is free may go to partial results, which begin neutral and are accumulated at "
        "the end.",
    ),
    Pattern(
        "recomputed",
        _where_it_changed(lambda *given: computes_again(*given[:3]), declares=True),
        "A node may read what is computed again before it, by the same statements from what has not changed since.",
    ),
    Pattern(
        "sharing",
        takes_the_storage,
        "Two temporaries of one form may have one storage, where the one is used in children of the kernel before "
        "all those in which the other is.",
        converse=False,  # what the other one left in the storage might be read
    ),
)
"""The patterns that look at the text, with hardly any isl, in the order in which they are tried."""

ORDER = Pattern(
    "order",
    _keeps_order,
    "The same statements on the same elements of the same buffers do the same if all that depends on order, as "
    "the flow of the kernel has it, stays in order.",
)
"""The questions to isl where the text does not show the answer."""

STORAGE = Pattern(
    "storage",
    _keeps_values,
    "Where only the storage of temporaries changed, the kernels do the same if each read still gets the value "
    "that it got.",
)
"""The pattern for equal trees."""

PATTERNS = (*TEXTUAL, ORDER, STORAGE)
