"""Conditions on data that stand around statements, put on each of these.

In the tree as it is read, a statement under such conditions has `Op(UNDER, (condition, value))` as its value, the
conditions joined by `and`; here that becomes the condition of the statement. Not of all: in `if {1} < n[{0}]`,
then `p = rows[{0}] + {1}` and `y[{0}] += v[p]`, a condition on the first would say that `p` may not be written. It
means the same without: nothing reads `p` but under the condition, in the iteration that assigned it. So the
condition is left out there, where computing the value can be no error of the run."""

from __future__ import annotations

from collections.abc import Set
from dataclasses import replace

from dojoir.ir.expressions import affine_parts, parts
from dojoir.ir.nodes import Access, Expr, Guard, Kernel, Op, Scope, Site, Statement, expr_accesses
from dojoir.ir.operations import MAY_FAIL

UNDER = "under"
"""The name of an operation that says under which conditions a statement stands. It is in no finished kernel."""


def with_conditions(kernel: Kernel) -> Kernel:
    """The kernel with the conditions around its statements on them."""
    if not any(_around(site.statement) for site in kernel.sites):
        return kernel
    idle = {buffer.name for buffer in kernel.buffers if buffer.role == "tmp" and _is_idle(kernel, buffer.name)}
    found = kernel
    seen: set[str] = set()
    for site in kernel.sites:
        statement, name = site.statement, site.statement.target.buffer
        match statement.value:
            case Op("under", (condition, value)):
                first = name in idle and name not in seen
                value = value if first else _joined(condition, value)
                found = found.replace_node(site.path, replace(statement, value=value))
        seen.add(name)
    return replace(kernel, body=found.body)  # it stands where it was read


def _joined(condition: Expr, value: Expr) -> Expr:
    """A value under a condition, and under its own if it has one."""
    match value:
        case Op("when", (own, inner)):
            return Op("when", (Op("and", (condition, own)), inner), value.loc)
        case Op() | Access():
            return Op("when", (condition, value), value.loc)
        case _:
            return Op("when", (condition, value))


def _around(statement: Statement) -> tuple[Expr, ...]:
    """The conditions around a statement."""
    match statement.value:
        case Op("under", (condition, _)):
            return conditions_around(condition)
        case _:
            return ()


def conditions_around(condition: Expr) -> tuple[Expr, ...]:
    """The operands of `and` in a condition."""
    match condition:
        case Op("and", (left, right)):
            return (*conditions_around(left), *conditions_around(right))
        case _:
            return (condition,)


def _is_idle(kernel: Kernel, name: str) -> bool:
    """Whether the first statement that uses a temporary assigns it under conditions, and the others use that very
    element behind it in the same iteration, under these conditions at least."""
    sites = [site for site in kernel.sites if name in site.statement.buffers]
    if len(sites) < 2 or not _assigns(sites[0], name):
        return False
    first, *others = sites
    needed = set(_around(first.statement))
    return all(
        _is_with(first, other, needed)
        and all(access == first.statement.target for access in _accesses(other, name))
        and needed <= set(_around(other.statement))
        for other in others
    )


def _is_with(first: Site, other: Site, conditions: Set[Expr]) -> bool:
    """Whether a statement runs in the iterations of another. Or in a scope that has as many as that of the other,
    which ran before in the same iteration of what is around both, and all that decides the conditions."""
    if other.path[: len(first.path) - 1] == first.path[:-1]:
        return True
    shared, deep = first.shared_ancestors(other.path), len(first.ancestors)
    if other.path[shared] < first.path[shared] or any(isinstance(node, Guard) for node in first.ancestors[shared:]):
        return False
    depth = first.shared_scopes(other.path)
    decided = all(d < depth for one in conditions for affine in affine_parts(one) for d in affine.iterators)
    return decided and [node.extent if isinstance(node, Scope) else None for node in first.ancestors[shared:]] == [
        node.extent if isinstance(node, Scope) else None for node in other.ancestors[shared:deep]
    ]


def _accesses(site: Site, name: str) -> list[Access]:
    every = (inner for access in site.statement.accesses for inner in access.accesses())
    return [access for access in every if access.buffer == name]


def _assigns(site: Site, name: str) -> bool:
    """Whether a statement under conditions assigns a temporary, and may do so whether or not they hold."""
    statement = site.statement
    match statement.op, statement.value:
        case "=", Op("under", (_, value)) if not (isinstance(value, Op) and value.name == "when"):
            alone = _accesses(site, name) == [statement.target]
            return alone and not statement.scatters and _is_harmless(value)
    return False


def _is_harmless(value: Expr) -> bool:
    """Whether computing a value is no error of the run, whatever the data."""
    plain = not any(isinstance(part, Op) and part.name in MAY_FAIL for part in parts(value))
    return plain and not any(isinstance(i, Access) for access in expr_accesses(value) for i in access.indices)
