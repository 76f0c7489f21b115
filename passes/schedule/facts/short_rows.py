"""Rows that are shorter than a vector: lanes go over many of them, not along each.

Along a row of three, thirteen of sixteen lanes are off, and what they have summed is added up across lanes for
each row. Sixteen rows at once have no lane off and nothing to add up, but read what lies apart. That pays for sums
of few elements, and of more where each costs an `exp` or its like.
"""

from __future__ import annotations

from dojoir.backends.machine import Machine
from dojoir.costs.features import SLOW
from dojoir.ir.expressions import parts
from dojoir.ir.nodes import Kernel, Op, Path, Scope, Statement
from dojoir.passes.schedule.facts.sizes import Sizes, is_short
from dojoir.passes.schedule.facts.strides import depends, sites_in, widest

PLAIN, COSTLY = 4, 2
"""The largest part of a vector that a row may fill for lanes to go over rows: a fourth, or a half where it is
costly."""

COSTS = 16
"""The cycles that a costly operation takes at least."""


def are_short_rows(kernel: Kernel, path: Path, machine: Machine, sizes: Sizes) -> bool:
    """Whether lanes should go over the iterations of the scope at `path`: each sums in scopes that are all known to
    be short, and there are enough of them to fill a vector."""
    scope, sites = kernel.at(path), sites_in(kernel, path)
    if not isinstance(scope, Scope) or not sizes:
        return False
    lanes, depth = machine.vector_bytes // widest(kernel, path), kernel.depth_of(path)
    costly = any(is_costly(site.statement) for site in sites)
    most = lanes // COSTLY if costly else lanes // PLAIN - 1
    inside = [inner for site in sites for inner in site.scopes[depth + 1 :]]
    sums = [site for site in sites if site.statement.accumulation and len(site.scopes) > depth + 1]
    return (
        any(not depends(site.statement.target, len(site.scopes) - 1) for site in sums)
        and all(is_short(inner.extent, sizes, most + 1) for inner in inside)
        and not is_short(scope.extent, sizes, lanes)
    )


def is_costly(statement: Statement) -> bool:
    """Whether a statement has an operation that takes so long."""
    return any(isinstance(part, Op) and SLOW.get(part.name, 0) >= COSTS for part in parts(statement.value))
