"""Quick answers of the checker: never wrong where they are yes, and held to the full comparison in the tests."""

from __future__ import annotations

import islpy as isl

from dojoir.again import computes_again
from dojoir.alike import alike
from dojoir.change import Change, change_of
from dojoir.flow import dependences
from dojoir.inlined import is_inlined
from dojoir.instances import InstanceMap, same_statement, stand_for
from dojoir.ir import Kernel
from dojoir.memo import ObjectMemo
from dojoir.partial import has_partial_results
from dojoir.renumbered import is_renumbered
from dojoir.reorder import keeps_conflicts
from dojoir.sets import KernelSets, sets_of
from dojoir.staged import works_on_copy


def is_plain(before: Kernel, after: Kernel, instances: InstanceMap) -> bool:
    """Whether it is seen from the text that the kernel after means what the one before means, and is well-formed if
    that is; of marks it says nothing.

    Raises isl.Error where the step limit of the context is reached.
    """
    if instances.inlined and not instances.extracted:
        return is_inlined(before, after, instances)
    return is_plain_both_ways(before, after, instances)


def is_plain_both_ways(before: Kernel, after: Kernel, instances: InstanceMap) -> bool:
    """As `is_plain`, and so that the kernel before is well-formed if the one after is."""
    if instances.inlined or instances.extracted:
        return False  # what a read that was inlined touched is not in the kernel after
    if len(before.buffers) == len(after.buffers) and before.buffers != after.buffers:
        return is_renumbered(before, after, instances)
    change = change_of(before, after, instances)
    if change is None:
        return False
    if before.buffers == after.buffers:
        return runs_alike(before, after, instances, change) or keeps_conflicts(before, after, instances, change)
    return (
        works_on_copy(before, after, instances, change)
        or has_partial_results(before, after, instances, change)
        or computes_again(before, after, instances)
    )


def keeps_order(before: Kernel, after: Kernel, instances: InstanceMap) -> bool:
    """Whether the two kernels have the same buffers and the same statements on the same elements, and all that
    depends on order (`dojoir.flow.dependences`) stays in order. Then the comparison of their values, and that the
    new one is well-formed as the old one is, would hold as well; of marks it says nothing.

    Raises isl.Error where the step limit of the context is reached.
    """
    if before.buffers != after.buffers or instances.inlined or instances.extracted:
        return False
    if {o.site for o in instances.origins if o is not None} != set(range(len(before.sites))):
        return False
    for origin, site in zip(instances.origins, after.sites, strict=True):
        if origin is None or not same_statement(before.sites[origin.site].statement, origin, site.statement):
            return False
    change = change_of(before, after, instances)
    old, new = sets_of(before), sets_of(after)
    were, are = (change.were, change.are) if change is not None else (old.numbers, new.numbers)
    stands_for = stand_for(after, instances, are)
    if not stands_for.range().is_equal(old.domains_of(were)) or not stands_for.is_injective():
        return False
    order = _between(dependences(old), old, were)
    if order.is_empty():
        return True
    when = stands_for.reverse().apply_range(new.map(*(new.schedule_text(k) for k in are)))
    moved = isl.Map.from_union_map(order.apply_domain(when).apply_range(when))
    return moved.is_subset(isl.Map.lex_lt(moved.get_space().domain()))


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


def _between(order: isl.UnionMap, sets: KernelSets, numbers: range) -> isl.UnionMap:
    """The pairs of a dependence both ends of which are among the given statements."""
    if len(numbers) == len(sets.numbers):
        return order
    ends = sets.domains_of(numbers)
    return order.intersect_domain(ends).intersect_range(ends)
