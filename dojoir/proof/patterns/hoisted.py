"""Recognises a part of an expression that is now computed before, into a temporary of its own, with the same value.

After, a new assignment to a new temporary stands just before a statement, or in a nest of scopes that does nothing
else just before a scope around it, and the statement reads an element of it where it had the part. The indices of
the element are iterators of the statement: all those of the scopes around both, and some further in. The nest runs
through the extents of these, which depend on no other iterator, and neither does the part. So, in each iteration of
the scopes around both,

- the nest has given the element before the scope runs, in the one iteration that has these iterators: the statement
  reads the part as it was then. Nothing in the scope writes what the part reads, and nothing at all runs between an
  assignment and a statement that it stands right before. The nest writes nothing but the new temporary, which
  nothing else uses. It is the part as the statement had it, which `definition_value` says in its types;
- for each iteration of the nest there is one of the statement that has its iterators. No condition is around the
  statement inside of the scope, and a scope there that the nest leaves out always runs. So all that the nest reads
  was read there too, in bounds, and had been written before the scope ran, as nothing in the scope writes it;
- each index of the element is below the extent of its dimension, as a bound of its scope is at most that.

All else is the same text. The kernel before is well-formed if the one after is: what the part reads in an iteration
of the statement, the nest reads in that which has its iterators.
"""

from __future__ import annotations

from dojoir.ir.affine import Affine, Iter
from dojoir.ir.nodes import (
    Buffer,
    Condition,
    Guard,
    Kernel,
    Node,
    Path,
    Scope,
    Site,
    Statement,
    expr_accesses,
    substitute_extent,
    substitute_iterators,
)
from dojoir.ir.places import numbers_inside
from dojoir.ir.rewriting.rewrite import replace_read
from dojoir.proof.certificate import InstanceMap, Substitution, identity
from dojoir.sets.kernel_sets import sets_of
from dojoir.types.elaborate import definition_value


def is_hoisted(before: Kernel, after: Kernel, instances: InstanceMap) -> bool:
    """Whether the new kernel surely differs only in a new temporary, which is assigned just before a statement, or
    by a nest before a scope around it, and which that statement reads in place of what is assigned."""
    if len(instances.extracted) != 1 or after.buffers[:-1] != before.buffers:
        return False
    (step,) = instances.extracted
    first, number = step.definition, step.site - 1
    if not 0 <= first <= number < len(before.sites) or instances != _as_hoisted(before, step):
        return False
    definition, old, reader = after.sites[first], before.sites[number], after.sites[number + 1]
    path = _just_before(definition, reader)
    if path is None or reader.path != (*path[:-1], path[-1] + 1, *old.path[len(path) :]):
        return False
    nest, node = after.at(path), before.at(path)
    if isinstance(node, Guard) or not _does_nothing_else(nest, definition.statement):
        return False
    inserted = before.replace_node(old.path, reader.statement)
    if inserted.replace_node(path, nest, inserted.at(path)).body != after.body:
        return False
    between = numbers_inside(before, path) if isinstance(node, Scope) else []
    written = {before.sites[k].statement.target.buffer for k in between}
    return (
        definition.statement.buffers_read.isdisjoint(written)
        and has_an_element_each(before, after.buffers[-1], definition)
        and _runs_through(before, old, definition, before.depth_of(path), len(path), step)
        and _gives_the_part(after, definition.statement, reader.statement, old.statement, step)
    )


def _as_hoisted(before: Kernel, step: Substitution) -> InstanceMap:
    """The certificate of a rewrite that inserts one statement, and reads what it assigns in one behind it."""
    origins = identity(before).origins
    return InstanceMap((*origins[: step.definition], None, *origins[step.definition :]), extracted=(step,))


def _just_before(definition: Site, reader: Site) -> Path | None:
    """The path of the node with the definition, where the reader is in the one right behind it."""
    level = next(
        (n for n, pair in enumerate(zip(definition.path, reader.path, strict=False)) if pair[0] != pair[1]), 0
    )
    behind = reader.path[level] == definition.path[level] + 1 and definition.path[:level] == reader.path[:level]
    return definition.path[: level + 1] if behind else None


def _does_nothing_else(node: Node, statement: Statement) -> bool:
    """Whether all that a node does is to run a statement in scopes."""
    while isinstance(node, Scope) and len(node.body) == 1:
        node = node.body[0]
    return node is statement


def _runs_through(before: Kernel, old: Site, definition: Site, depth: int, level: int, step: Substitution) -> bool:
    """Whether the scopes of the definition, from `depth` on, have the extents of those of the statement that the
    step names, and each iteration of them is one of the statement. `level` is how many nodes are around the
    statement down to the scope before which it is computed."""
    needed = [term.depth for value in step.iterators for term, _ in value.terms if isinstance(term, Iter)]
    if step.iterators != tuple(map(Affine.iterator, needed)) or needed != sorted(set(needed)):
        return False
    if needed[:depth] != list(range(depth)) or len(definition.scopes) != len(needed):
        return False
    if needed and needed[-1] >= len(old.scopes):
        return False
    moved = substitute_iterators({d: Affine.iterator(n) for n, d in enumerate(needed)})
    for own, d in zip(definition.scopes[depth:], needed[depth:], strict=True):
        extent = old.scopes[d].extent
        if not {i for bound in extent.bounds for i in bound.iterators} <= set(needed):
            return False
        if substitute_extent(extent, moved) != own.extent:
            return False
    if not all(i < len(needed) for affine in definition.statement.affine_parts for i in affine.iterators):
        return False
    inside = old.ancestors[level - 1 :]
    if not all(isinstance(node, Scope) for node in inside):
        return False
    one = Affine.constant(1)
    return all(
        sets_of(before).implies(old.ancestors[: level - 1 + n], Condition(bound, ">=", one))
        for n, node in enumerate(inside)
        if isinstance(node, Scope) and depth + n not in needed
        for bound in node.extent.bounds
    )


def _gives_the_part(
    after: Kernel, definition: Statement, reader: Statement, was: Statement, step: Substitution
) -> bool:
    """Whether a statement is what it was, once what is assigned stands where it reads that."""
    if reader.fused or was.fused or definition.op != "=" or (was.target, was.way) != (reader.target, reader.way):
        return False
    reads = list(expr_accesses(reader.value))
    if not 0 <= step.ordinal < len(reads):
        return False
    read = reads[step.ordinal]
    if read.buffer != definition.target.buffer or read.indices != step.iterators:
        return False
    given = definition_value(definition, step.iterators, {b.name: b for b in after.buffers})
    return given is not None and was.value == replace_read(reader.value, step.ordinal, given)


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
