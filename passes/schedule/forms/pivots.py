"""Scopes cut where an iteration writes what all of them read: the row and the column of a pivot.

    N @k | N @i | N @j | d[i, j] min= d[i, k] + d[k, j]

No iteration of `i` reads what another one writes, but all read row `k`, which iteration `k` writes; so it is with
`j` and column `k`. What comes before the pivot, it, and what comes behind it are scopes of their own, and in the
first and the last iterations are independent. That is *index set splitting* (Griebl, Feautrier, Lengauer, 2000).
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

from dojoir.ir.affine import Affine, Iter
from dojoir.ir.nodes import Access, Kernel, Path, Site
from dojoir.passes.engine.trace import Trace
from dojoir.passes.schedule.facts.strides import ONE, depends
from dojoir.passes.schedule.forms.parting import take_units_away
from dojoir.passes.schedule.steps.combinators import tried
from dojoir.passes.schedule.steps.spots import spot

MOST_PIVOTS = 16
"""How many scopes of a kernel are cut at most: each makes two copies of what is in it."""


def cut_pivots(trace: Trace) -> None:
    """Cuts each scope at the iteration of a pivot, the outermost first."""
    cut = False
    for _ in range(MOST_PIVOTS):
        if not any(tried(trace, partial(_cut, path=path, at=at)) for path, at in _pivots(trace.kernel)):
            break
        cut = True
    if cut:
        take_units_away(trace)


def _cut(trace: Trace, path: Path, at: Affine) -> None:
    """Raises IllegalMove where a move is refused."""
    _, behind = spot(trace, path).cut(at)
    behind.cut(ONE)


def _pivots(kernel: Kernel) -> Iterator[tuple[Path, Affine]]:
    """Scopes, each with the number of the iteration that others read from."""
    for site in kernel.sites:
        target = site.statement.target
        for read in site.statement.reads:
            if read.buffer == target.buffer:
                for one, other in zip(target.indices, read.indices, strict=True):
                    yield from _at(site, read, one, other)


def _at(
    site: Site, element: Access, written: Affine | Access, read: Affine | Access
) -> Iterator[tuple[Path, Affine]]:
    """The scope along which the written index steps by one, and the iteration that writes the element that all
    iterations read. Nothing where that iteration is known to be outside of the scope."""
    if not isinstance(written, Affine) or not isinstance(read, Affine) or not written.iterators:
        return
    depth = max(written.iterators)
    at = read - (written - Affine.iterator(depth))
    scope = site.scopes[depth]
    if written.coefficient(Iter(depth)) != 1 or max(at.iterators, default=depth) >= depth or scope.marks:
        return
    if depends(element, depth):
        return
    if at.terms and all((at - bound).offset < 0 or (at - bound).terms for bound in scope.extent.bounds):
        yield site.scope_paths[depth], at
