"""Recurrences: what an element of a row takes from the one before it is kept beside the row.

`y[i, j + 1] = f(y[i, j], x[i, j + 1])` waits for the store before it, and for the operation. With a temporary that
keeps the last element of each row, and takes no storage but one element, the store is one that nothing waits for.
So the row is a running value like any other.
"""

from __future__ import annotations

from dojoir.ir.affine import Affine
from dojoir.ir.nodes import Kernel, Path, Scope, Statement
from dojoir.passes.base.move import fresh_name
from dojoir.passes.engine.trace import Trace
from dojoir.passes.loops.joining import JoinScopes
from dojoir.passes.loops.once import RemoveScope
from dojoir.passes.loops.peeling import Peel
from dojoir.passes.loops.siblings import SwapSiblings
from dojoir.passes.schedule.facts.strides import depends
from dojoir.passes.schedule.steps.spots import act, spot
from dojoir.passes.storage.layout import ReuseDims
from dojoir.passes.storage.staging import Stage


def recurs(kernel: Kernel, path: Path, number: int, step: Statement) -> bool:
    """Whether the scope over rows at `path` only sets the first element of each row of an output, and then, by its
    child `number`, each next one from the one before."""
    rows, depth = kernel.at(path), kernel.depth_of(path)
    target = step.target
    own = [access for access in step.reads if access.buffer == target.buffer]
    if not isinstance(rows, Scope) or number != 1 or len(rows.body) != 2 or step.accumulation is not None:
        return False
    first = rows.body[0]
    used = sum(a.buffer == target.buffer for site in kernel.sites for a in site.statement.accesses)
    return (
        isinstance(first, Statement)
        and first.accumulation is None
        and first.target.buffer == target.buffer
        and used == 2 + len(own)
        and len(own) > 0
        and len(set(own)) == 1
        and kernel.buffer(target.buffer).role == "out"
        and depends(target, depth)
        and target.indices[:-1] == own[0].indices[:-1] == first.target.indices[:-1]
        and not any(depth + 1 in _iterators(index) for index in target.indices[:-1])
        and target.indices[-1] == Affine.iterator(depth + 1) + 1
        and own[0].indices[-1] == Affine.iterator(depth + 1)
        and first.target.indices[-1] == Affine.constant(0)
    )


def carry(trace: Trace, path: Path, written: str) -> None:
    """Keeps the last element of each row beside it, for a scope over rows of which `recurs` holds. Its children are
    then the first element, its store, and the scope along the row with a statement and a store. Raises IllegalMove
    where a move of it is refused."""
    kept = fresh_name(trace.kernel, f"{written}_kept")
    rows = spot(trace, path)
    act(trace, Stage, rows, written, kept, "out")
    for _ in range(
        trace.kernel.depth_of(path)
    ):  # the dimensions that the scopes around are for: the copy has one element in each
        act(trace, RemoveScope, rows.beside(1))
    act(trace, JoinScopes, rows, rows.beside(1))
    act(trace, Peel, rows.child(2))
    act(trace, SwapSiblings, rows.child(1))
    act(trace, JoinScopes, rows.child(2), rows.child(3))
    act(trace, ReuseDims, kept, len(trace.kernel.buffer(kept).dims) - 1)


def _iterators(index: object) -> frozenset[int]:
    return index.iterators if isinstance(index, Affine) else frozenset()
