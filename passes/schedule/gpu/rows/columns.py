"""Nests on a GPU whose innermost scopes all go along what lies side by side: blocks for what is around, threads for
the columns.

So sums of gathered rows run, as products with sparse matrices and bags of embeddings: what is read at an index from
data is a row, which threads read together (Bell and Garland, "Implementing Sparse Matrix-Vector Multiplication on
Throughput-Oriented Processors", 2009).
"""

from __future__ import annotations

from dojoir.backends.machine import Machine
from dojoir.ir.nodes import Path, Scope, Statement
from dojoir.ir.words import GRID
from dojoir.passes.engine.trace import Trace
from dojoir.passes.hardware.marks import Bind
from dojoir.passes.schedule.facts.strides import depends, sites_in
from dojoir.passes.schedule.forms.nests import known
from dojoir.passes.schedule.gpu.sharing.private import keep_private
from dojoir.passes.schedule.gpu.sharing.threads import grid
from dojoir.passes.schedule.steps.spots import Spot, act, spot

FEWEST, MOST = 32, 1024
"""How many columns threads have."""


def columns_in_threads(trace: Trace, path: Path, machine: Machine) -> None:
    """Gives a block to each iteration of the scopes around, and a thread to each column. Raises DojoError where the
    innermost scopes are not all columns, of one extent that a block has threads for."""
    keep_private(trace, path)
    chain = [spot(trace, path)]
    while len(chain[-1].body) == 1 and isinstance(chain[-1].body[0], Scope) and chain[-1].child(0).scopes():
        chain.append(chain[-1].child(0))
    known(len(chain) <= len(GRID) and not any(scope.scope.marks for scope in chain), "a few scopes around")
    columns = _innermost(chain[-1])
    extents = {scope.scope.extent.constant for scope in columns}
    known(len(extents) == 1, "columns of one extent")
    (extent,) = extents
    known(extent is not None and FEWEST <= extent <= MOST, "as many columns as a block has threads")
    for scope in columns:
        known(all(depends(s.statement.target, scope.depth) for s in sites_in(trace.kernel, scope.path)), "columns")
        act(trace, Bind, scope, "bx")
    grid(trace, chain)


def _innermost(around: Spot) -> list[Spot]:
    """The innermost scopes in a scope, in their order."""
    found: list[Spot] = []
    for scope in around.scopes():
        inner = all(isinstance(node, Statement) for node in scope.body)
        found += [scope] if inner else _innermost(scope)
    return found
