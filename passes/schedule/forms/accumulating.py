"""Sums that are written out, `s = s + x`, made the accumulations that they are: their order is free then."""

from __future__ import annotations

from dojoir.ir.nodes import Kernel, Path, Scope
from dojoir.ir.paths import is_inside
from dojoir.ir.places import ancestors
from dojoir.passes.base.move import Word, place_of
from dojoir.passes.engine.trace import Trace
from dojoir.passes.schedule.facts.strides import depends
from dojoir.passes.schedule.steps.combinators import tried
from dojoir.passes.values.rule import UseRule
from dojoir.passes.values.written_out import written_out


def accumulate(trace: Trace) -> None:
    """Makes an accumulation of each step of a sum, product, maximum or minimum whose value nothing reads before the
    scope around it ends. One whose every value is read, a running sum, is for the rules of scans."""
    for path, rule in list(written_out(trace.kernel)):
        if _is_whole(trace.kernel, path):
            tried(trace, UseRule(place_of(path), Word(rule), ()))


def _is_whole(kernel: Kernel, path: Path) -> bool:
    """Whether a statement goes into one element for all iterations of the scope around it, which nothing else there
    touches."""
    around = [n for n, node in enumerate(ancestors(kernel, path), 1) if isinstance(node, Scope)]
    if not around:
        return False
    scope = path[: around[-1]]
    (step,) = [site.statement for site in kernel.sites if site.path == path]
    return not depends(step.target, len(around) - 1) and not any(
        access.buffer == step.target.buffer
        for site in kernel.sites
        if site.path != path and is_inside(site.path, scope)
        for access in site.statement.accesses
    )
