"""Invariants: what costs more than a load, and is the same in each iteration of a scope, is computed before it.

`y[i, j] = x[i, j] - log(s[i])` asks for the logarithm once a row. A compiler takes it out of each loop that it
makes of the row, whole vectors and what is left, and so computes it as often.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

from dojoir.costs.features import SLOW
from dojoir.ir.affine import Affine
from dojoir.ir.expressions import parts
from dojoir.ir.nodes import Access, Expr, Index, Kernel, Op, Path, Scope, Site, Statement
from dojoir.passes.base.move import fresh_name
from dojoir.passes.engine.trace import Trace
from dojoir.passes.schedule.facts.strides import depends
from dojoir.passes.schedule.steps.combinators import tried
from dojoir.passes.schedule.steps.spots import Spot, act, spot
from dojoir.passes.values.hoisting import Hoist

COSTS = 16
"""The cycles from which on an operation is taken out. What is an instruction, as `sqrt` and division, a compiler
takes out as well (with `rsqrt`, eight texts on a Zen 4 ran at 0.87 to 1.02 of their speed)."""


def hoist_invariants(trace: Trace) -> None:
    """Computes each costly part of an expression before the outermost of the scopes that it does not depend on,
    the largest such part of each expression. One that is refused stays where it was."""
    statements = [(site, spot(trace, site.path)) for site in trace.kernel.sites]
    for site, statement in reversed(statements):
        for number in reversed(list(_costly(site))):
            for path in _scopes(trace.kernel, statement.path, number):
                if tried(trace, partial(_hoist, path=path, statement=statement, number=number)):
                    break


def _hoist(trace: Trace, path: Path, statement: Spot, number: int) -> None:
    """Raises IllegalMove where it is refused."""
    act(trace, Hoist, spot(trace, path), statement, number, fresh_name(trace.kernel, "each"))


def _costly(site: Site) -> Iterator[int]:
    """The numbers of the largest parts of the value of a statement that are the same in each iteration of the scope
    around it, and costly."""
    if not site.scopes:
        return
    inside = 0
    for number, part in enumerate(parts(site.statement.value)):
        if inside:
            inside -= 1
        elif isinstance(part, Op) and not _varies(part, len(site.scopes) - 1):
            inside = sum(1 for _ in parts(part)) - 1
            if any(isinstance(p, Op) and SLOW.get(p.name, 0) >= COSTS for p in parts(part)):
                yield number


def _scopes(kernel: Kernel, statement: Path, number: int) -> Iterator[Path]:
    """The scopes around the statement at a path on which a part of its value does not depend, one inside the other,
    from the outermost to the innermost. None that has a mark or is around one on which it does."""
    node = kernel.at(statement)
    assert isinstance(node, Statement)
    part = next(part for n, part in enumerate(parts(node.value)) if n == number)
    found: list[Path] = []
    for length in range(len(statement) - 1, 0, -1):
        path = statement[:length]
        node = kernel.at(path)
        if isinstance(node, Scope):
            if node.marks or _varies(part, kernel.depth_of(path)):
                break
            found.append(path)
    yield from reversed(found)


def _varies(part: Expr, depth: int) -> bool:
    """Whether an expression depends on the iterator of `depth`."""
    for inner in parts(part):
        match inner:
            case Access() if depends(inner, depth):
                return True
            case Index(affine=Affine() as affine) if depth in affine.iterators:
                return True
    return False
