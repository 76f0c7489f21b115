"""Temporaries under a condition on data: what is only used where the condition holds may be computed everywhere.

In `if {1} < n[{0}]`, then `p = rows[{0}] + {1}` and `y[{0}] += v[p]`, a condition on the first statement would say
that `p` may not be written. It means the same without: nothing reads `p` but under the condition, in the iteration
that assigned it. So the condition is left out there, where computing the value can be no error of the run.
"""

from __future__ import annotations

from dataclasses import replace

from dojoir.ir.expressions import parts
from dojoir.ir.nodes import Access, Expr, Kernel, Op, Site, expr_accesses

_MAY_FAIL = frozenset({"floordiv", "mod", "shl", "shr"})


def without_idle_conditions(kernel: Kernel) -> Kernel:
    """The kernel without conditions at assignments to temporaries that are used under the same conditions alone."""
    for buffer in kernel.buffers:
        sites = [site for site in kernel.sites if buffer.name in site.statement.buffers]
        if buffer.role == "tmp" and sites and _is_idle(buffer.name, *sites):
            first = sites[0].statement
            assert isinstance(first.value, Op)
            kernel = kernel.replace_node(sites[0].path, replace(first, value=first.value.args[1]))
    return kernel


def _is_idle(name: str, first: Site, *others: Site) -> bool:
    """Whether the first statement that uses a temporary assigns it under a condition, and the others use that very
    element behind it in the same iteration, under that condition at least."""
    statement = first.statement
    match statement.op, statement.value:
        case "=", Op("when", (condition, value)) if statement.target.buffer == name and not statement.scatters:
            needed = set(_conjuncts(condition))
        case _:
            return False
    if name in {access.buffer for access in statement.reads} or not _is_harmless(value):
        return False
    around = first.path[:-1]
    return all(
        other.path[: len(around)] == around
        and all(access == statement.target for access in other.statement.accesses if access.buffer == name)
        and other.statement.condition is not None
        and needed <= set(_conjuncts(other.statement.condition))
        for other in others
    )


def _conjuncts(condition: Expr) -> tuple[Expr, ...]:
    match condition:
        case Op("and", (left, right)):
            return (*_conjuncts(left), *_conjuncts(right))
        case _:
            return (condition,)


def _is_harmless(value: Expr) -> bool:
    """Whether computing a value is no error of the run, whatever the data."""
    plain = not any(isinstance(part, Op) and part.name in _MAY_FAIL for part in parts(value))
    return plain and not any(isinstance(i, Access) for access in expr_accesses(value) for i in access.indices)
