"""Recognises a scope that now accumulates into partial results, with the same total.

Before, the iterations of a scope accumulate into one element. After, iteration i accumulates into partial result
`i % f` of a new temporary. Before the scope the f of them are set to the value that the accumulation leaves alone,
and after it they are accumulated into the element. That is the same set of accumulations in another grouping, which
counts for nothing where their order is free and the scope does nothing else with the element or the temporary.

The element is now touched when the scope does not run as well: it must be in bounds, and written, all the same.
"""

from __future__ import annotations

from dojoir.ir.affine import Affine
from dojoir.ir.nodes import Access, Accumulated, Const, Extent, Kernel, Scope, Statement
from dojoir.ir.rewriting.rewrite import map_accesses
from dojoir.proof.certificate import InstanceMap, identity
from dojoir.proof.core.bounds import prove_bounds
from dojoir.proof.difference import Change
from dojoir.proof.patterns.written_before import is_written
from dojoir.sets.kernel_sets import sets_of
from dojoir.types.identities import beginning


def has_partial_results(before: Kernel, after: Kernel, instances: InstanceMap, change: Change) -> bool:
    """Whether the change surely is a scope that now accumulates into partial results, and nothing else.

    Raises isl.Error where the step limit of the context is reached.
    """
    *kept, copy = after.buffers
    same = identity(before).origins[change.were.start : change.were.stop]
    if tuple(kept) != before.buffers or copy.role != "tmp" or len(copy.dims) != 1 or copy.dims[0].collapsed:
        return False
    if instances.origins[change.are.start : change.are.stop] != (None, *same, None):
        return False
    match change.old, change.new:
        case (
            (Scope() as scope,),
            (
                Scope(Extent((start,)), (Statement(first, "=", Const(begin)),)),
                Scope() as partial,
                Scope(Extent((end,)), (Statement(target, op, Access() as last),)),
            ),
        ) if start == end == copy.dims[0].extent and start.is_constant and start.offset >= 1:
            pass
        case _:
            return False
    own = Affine.iterator(change.depth)
    part = Access(copy.name, (own % start.offset,))
    if first != last or last != Access(copy.name, (own,)) or part == last:
        return False
    fixed = all(isinstance(i, Affine) and all(d < change.depth for d in i.iterators) for i in target.indices)
    into = after.buffer(target.buffer)
    if not fixed or into.name == copy.name or into.dtype != copy.dtype or begin != beginning(op, copy.dtype):
        return False
    if map_accesses(partial, lambda access: target if access == part else access) != scope:
        return False
    return _adds_alone(after, change, copy.name, target, op) and is_written(after, into)


def _adds_alone(after: Kernel, change: Change, copy: str, target: Access, op: str) -> bool:
    """Whether the scope uses the partial results only to accumulate into them, in an order that is free, and
    does not use the buffer of the element at all. It also asks whether the element is in bounds."""
    sets = sets_of(after)
    _, *inside, end = change.are
    for number in inside:
        statement = after.sites[number].statement
        adds = statement.target.buffer == copy
        if adds and (statement.commuting != Accumulated(op) or not sets.is_free(number)):
            return False
        read = {r.access.buffer for r in sets.reads[number]}
        if copy in read or any(access.buffer == target.buffer for access in statement.accesses):
            return False
    return sets.is_free(end) and prove_bounds(after, [end]) is None
