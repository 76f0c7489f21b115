"""Contractions with edges: what a condition on the column asks for is asked at the two ends of a row alone.

A convolution with zeros around it has a condition in its innermost loop, which a tile of a block in the middle of
a row always passes. Rows of many tiles become three nests: their first tile, the middle without a condition, and
the last.
"""

from __future__ import annotations

from dojoir.errors import ArgumentError
from dojoir.ir.affine import Affine
from dojoir.ir.nodes import Guard, Path, Scope, Site
from dojoir.passes.engine.trace import Trace
from dojoir.passes.loops.cutting import Cut
from dojoir.passes.schedule.facts.strides import step_of
from dojoir.passes.schedule.forms.parting import is_contraction
from dojoir.passes.schedule.forms.settling import settle_guards
from dojoir.passes.schedule.steps.spots import in_two, spot

TILE = 128
"""How many columns the largest tile has, where the middle begins and ends."""

FEWEST = 4
"""How many tiles a row has at least that is cut."""


def cut_ends(trace: Trace) -> None:
    """Cuts the first and the last tile off the rows of each contraction with a condition on its columns. Raises
    ArgumentError where there is none."""
    ends = [found for site in trace.kernel.sites if (found := _columns(trace, site)) is not None]
    if not ends:
        raise ArgumentError("no contraction with a condition on its columns", "bad-arguments")
    for path in sorted(set(ends), reverse=True):
        count = trace.kernel.at(path)
        assert isinstance(count, Scope) and count.extent.constant is not None
        tiles = (count.extent.constant - 1) // TILE
        middle, last = in_two(trace, Cut, spot(trace, path), Affine.constant(tiles * TILE))
        first, middle = in_two(trace, Cut, middle, Affine.constant(TILE))
        for part in (last, middle, first):
            settle_guards(trace, part.path)


def _columns(trace: Trace, site: Site) -> Path | None:
    """The scope over the columns of a contraction, where there are many and a condition on them."""
    kernel = trace.kernel
    if not is_contraction(site) or any(scope.marks for scope in site.scopes):
        return None
    target = site.statement.target
    guards = (node for node in site.ancestors if isinstance(node, Guard))
    asked = {d for guard in guards for c in guard.conditions for d in c.left.iterators | c.right.iterators}
    for depth, scope in enumerate(site.scopes):
        many = (scope.extent.constant or 0) >= FEWEST * TILE
        if many and depth in asked and step_of(kernel, target, depth) == 1:
            return site.scope_paths[depth]
    return None
