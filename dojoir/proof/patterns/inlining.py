"""Recognises a read that was replaced by the expression that gave its value.

Before, a statement reads an element of a temporary, and one plain assignment alone writes that temporary. In each
iteration of the scopes that the two share:

- the assignment gave the element in the same iteration, and in its own scopes the element says in which one: each
  of these iterators is an index of its own. So the read gets the value of the instance that the map names;
- in the innermost node around both, nothing from the child that holds the assignment to the child that holds the
  statement writes what the assignment reads. All that runs between the two instances is in these. So the
  expression gives, where the statement is, what it gave; and what it reads lies in bounds and has been written.

All else is the same text.
"""

from __future__ import annotations

from dojoir.ir.affine import Affine
from dojoir.ir.nodes import Kernel, Scope, Site, Statement, expr_accesses, substitute_access, substitute_iterators
from dojoir.ir.rewriting.rewrite import replace_read
from dojoir.proof.certificate import InstanceMap, Substitution, identity
from dojoir.proof.core.written import comes_and_goes
from dojoir.types.elaborate import definition_value


def is_inlined(before: Kernel, after: Kernel, instances: InstanceMap) -> bool:
    """Whether the rewrite only replaces reads of one temporary, in one statement, by the expression that was
    assigned to the elements read. True only where the text shows that this keeps the meaning."""
    steps = instances.inlined
    plain = InstanceMap(identity(before).origins, inlined=steps)
    if before.buffers != after.buffers or instances != plain or len({(s.site, s.definition) for s in steps}) != 1:
        return False
    reader, definition = before.sites[steps[0].site], before.sites[steps[0].definition]
    value = _replaced(before, reader, definition, steps)
    if value is None or before.replace_node(reader.path, value).body != after.body:
        return False
    array = definition.statement.target.buffer
    writers = [site for site in before.sites if site.statement.target.buffer == array]
    return (
        writers == [definition]
        and definition.statement.accumulation is None
        and array not in definition.statement.buffers_read
        and comes_and_goes(before, before.buffer(array))
        and _stays_constant(before, definition, reader)
    )


def _replaced(kernel: Kernel, reader: Site, definition: Site, steps: tuple[Substitution, ...]) -> Statement | None:
    """The statement with the reads of all steps replaced; None where a read is not seen to get its value from
    the instance that its step names."""
    statement = reader.statement
    if statement.fused:
        return None
    shared = reader.shared_ancestors(definition.path)
    outer = sum(isinstance(node, Scope) for node in reader.ancestors[:shared])
    if not _says_which(definition, outer):
        return None
    buffers = {buffer.name: buffer for buffer in kernel.buffers}
    value = statement.value
    for step in steps:
        at, reads = step.iterators, list(expr_accesses(value))
        if len(at) != len(definition.scopes) or at[:outer] != tuple(map(Affine.iterator, range(outer))):
            return None
        target = substitute_access(definition.statement.target, substitute_iterators(dict(enumerate(at))))
        if not 0 <= step.ordinal < len(reads) or reads[step.ordinal] != target:
            return None
        given = definition_value(definition.statement, at, buffers)
        if given is None:
            return None
        new = replace_read(value, step.ordinal, given)
        if new == value:  # it is an index
            return None
        value = new
    return statement.made_of(statement.target, value, statement.loc)


def _says_which(definition: Site, outer: int) -> bool:
    """Whether the element that an assignment writes tells its iteration: each iterator of its scopes from
    `outer` on is an index of its own."""
    indices = definition.statement.target.indices
    return all(Affine.iterator(depth) in indices for depth in range(outer, len(definition.scopes)))


def _stays_constant(kernel: Kernel, definition: Site, reader: Site) -> bool:
    """Whether nothing that runs from the assignment to the statement writes what the assignment reads."""
    level = definition.shared_ancestors(reader.path)
    first, last = definition.path[level], reader.path[level]
    between = (
        site.statement.target.buffer
        for site in kernel.sites
        if site.path[:level] == definition.path[:level] and first <= site.path[level] <= last
    )
    return first < last and definition.statement.buffers_read.isdisjoint(between)
