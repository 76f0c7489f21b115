"""Recognises a part of an expression that got a temporary of its own, with the same value.

After, a new assignment stands just before the statement that it was taken from, among the children of one node, and
the statement reads its element where it had the part. So, in each iteration of the scopes around both,

- nothing runs between the two, and the assignment writes nothing but the new temporary: the part gives what it gave
  where it stood, its reads touch the elements that they touched, and these were written;
- the element is that of the iteration, for each iterator is an index of its own, in its order; nothing else uses
  the temporary. So the statement reads what was just assigned, which `definition_value` says in its types;
- each index is below the extent of its dimension, as a bound of its scope is at most that.

All else is the same text. The kernel before is well-formed if the one after is: it touches no more.
"""

from __future__ import annotations

from dojoir.ir.affine import Affine
from dojoir.ir.nodes import Buffer, Condition, Kernel, Scope, Site, expr_accesses
from dojoir.ir.rewriting.rewrite import replace_read
from dojoir.proof.certificate import InstanceMap, Substitution, identity
from dojoir.sets.kernel_sets import sets_of
from dojoir.types.elaborate import definition_value


def is_extracted(before: Kernel, after: Kernel, instances: InstanceMap) -> bool:
    """Whether the new kernel surely differs only in a new temporary, which one new statement assigns and the one
    after it reads in place of what is assigned."""
    if len(instances.extracted) != 1 or after.buffers[:-1] != before.buffers:
        return False
    (step,) = instances.extracted
    number = step.definition
    if not 0 <= number < len(before.sites) or instances != _as_extracted(before, step):
        return False
    old, definition, reader = before.sites[number], after.sites[number], after.sites[number + 1]
    inserted = before.replace_node(old.path, definition.statement, reader.statement)
    if inserted.body != after.body or not has_an_element_each(before, after.buffers[-1], definition):
        return False
    value, statement = reader.statement.value, reader.statement
    reads = list(expr_accesses(value))
    if statement.fused or definition.statement.op != "=":
        return False
    if not 0 <= step.ordinal < len(reads) or reads[step.ordinal] != definition.statement.target:
        return False
    given = definition_value(definition.statement, step.iterators, {b.name: b for b in after.buffers})
    if given is None:
        return False
    was = old.statement
    return (was.target, was.way, was.fused) == (statement.target, statement.way, statement.fused) and (
        was.value == replace_read(value, step.ordinal, given)
    )


def _as_extracted(before: Kernel, step: Substitution) -> InstanceMap:
    """The certificate of a rewrite that inserts an assignment just before the statement that `step` names, and
    changes nothing else."""
    number, origins = step.definition, identity(before).origins
    depth = len(before.sites[number].scopes)
    expected = Substitution(number + 1, step.ordinal, number, tuple(map(Affine.iterator, range(depth))))
    return InstanceMap((*origins[:number], None, *origins[number:]), extracted=(expected,))


def has_an_element_each(before: Kernel, new: Buffer, definition: Site) -> bool:
    """Whether a buffer is a new temporary with one element for each iteration of the scopes around its
    assignment: indexed by exactly their iterators, and with dimensions that are long enough and never empty."""
    scopes = definition.scopes
    target, always = definition.statement.target, sets_of(before).always
    return (
        new.role == "tmp"
        and new.name not in before.declared
        and target.buffer == new.name
        and target.indices == tuple(map(Affine.iterator, range(len(scopes))))
        and len(new.dims) == len(scopes)
        and not any(dim.collapsed for dim in new.dims)
        and all(_holds(dim.extent, scope) for dim, scope in zip(new.dims, scopes, strict=True))
        and all(always(Condition(dim.extent - 1, ">=", Affine.constant(0))) for dim in new.dims)
    )


def _holds(extent: Affine, scope: Scope) -> bool:
    """Whether a dimension is seen to be at least as long as a scope's extent."""
    over = (extent - bound for bound in scope.extent.bounds)
    return not extent.iterators and any(not rest.terms and rest.offset >= 0 for rest in over)
