"""Factors of contractions that take a division or more to compute, each computed once and not for each result that
it serves, as the weights of an attention:

    y[i, e] += s[i, r] / l[i] * v[r, e]

Along `e` the quotient is the same. It is computed before that scope, in a loop of its own, and where that can be in
the place of `s`.
"""

from __future__ import annotations

from functools import partial

from dojoir.costs.thread_work import SLOW
from dojoir.ir.expressions import Expr, affine_parts, expr_accesses, parts
from dojoir.ir.nodes import Cast, Kernel, Op, Path, Site, Statement
from dojoir.passes.base.move import fresh_name
from dojoir.passes.engine.trace import Trace
from dojoir.passes.loops.joining import SplitScopes
from dojoir.passes.schedule.facts.products import MOST_SUMS, products
from dojoir.passes.schedule.facts.sizes import is_short
from dojoir.passes.schedule.facts.strides import depends
from dojoir.passes.schedule.forms.parting import is_contraction
from dojoir.passes.schedule.steps.combinators import tried
from dojoir.passes.schedule.steps.spots import act, move, spot
from dojoir.passes.storage.sharing import ShareBuffer
from dojoir.passes.values.hoisting import Hoist

OFTEN = 64
"""For how many results a factor that is quick to compute must serve, to be computed before."""


def hoist_factors(trace: Trace, tiled: bool = False) -> None:
    """Computes each slow factor of a contraction before the outermost scope of its results that it does not go
    along; with `tiled`, of those alone that a register tile fits. Where a move is refused, the contraction stays
    as it was."""
    left: set[Statement] = set()
    while True:
        among = [product.site for product in products(trace.kernel, MOST_SUMS)] if tiled else trace.kernel.sites
        found = [s for s in among if s.statement not in left and _factor(trace.kernel, s, tiled) is not None]
        if not found:
            return
        left.add(found[0].statement)
        tried(trace, partial(_hoisted, site=found[0], tiled=tiled))


def _factor(kernel: Kernel, site: Site, tiled: bool) -> tuple[Path, int, Expr] | None:
    """The largest factor of a contraction that is slow to compute and does not go along one of the scopes of its
    results: the path of the outermost such scope, and the number of the part of the value, with it. In a tile,
    where a term is one operation, any other one is slow."""
    if not is_contraction(site):
        return None
    kept = [d for d in range(len(site.scopes)) if depends(site.statement.target, d)]
    whole = site.statement.value
    factors = whole.args if tiled and isinstance(whole, Op) and whole.name == "mul" else ()
    floats = kernel.buffer(site.statement.target.buffer).dtype.is_float
    for number, part in enumerate(parts(whole)):
        slow = isinstance(part, Op) and any(isinstance(inner, Op) and inner.name in SLOW for inner in parts(part))
        quick = floats and isinstance(part, Op | Cast) and part in factors
        if slow or quick:
            along = {depth for affine in affine_parts(part) for depth in affine.iterators}
            free = [d for d in kept if d not in along]
            often = slow or not all(is_short(site.scopes[d].extent, {}, OFTEN) for d in free)
            if free and along and often:
                return site.scope_paths[free[0]], number, part
    return None


def _hoisted(trace: Trace, site: Site, tiled: bool) -> None:
    """Raises IllegalMove where a move is refused."""
    found = _factor(trace.kernel, site, tiled)
    assert found is not None
    path, number, part = found
    own = fresh_name(trace.kernel, "factor")
    nest = spot(trace, path)
    alone = [len(spot(trace, path[:n]).body) == 1 for n in range(1, len(path))]
    act(trace, Hoist, nest, spot(trace, site.path), number, own)
    for n in range(len(path) - 1, 0, -1):
        if not alone[n - 1]:
            break
        act(trace, SplitScopes, spot(trace, path[:n]), 1)
    for name in dict.fromkeys(access.buffer for access in expr_accesses(part)):
        if tried(trace, move(ShareBuffer, name, own)):
            return
