"""Lanes: which scopes run a vector of iterations at a time."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

from dojoir.backends.machine import Machine
from dojoir.ir.affine import Affine
from dojoir.ir.nodes import Condition, Guard, Kernel, Path, Scope
from dojoir.ir.places import scopes_around
from dojoir.passes.base.move import place_of
from dojoir.passes.engine.trace import Trace
from dojoir.passes.hardware.marks import Vectorize
from dojoir.passes.loops.splitting import Split
from dojoir.passes.schedule.facts.gathers import sums_gathered
from dojoir.passes.schedule.facts.narrow import divides_long, is_interleaved, is_narrow
from dojoir.passes.schedule.facts.short_rows import are_short_rows
from dojoir.passes.schedule.facts.sizes import Sizes, is_short
from dojoir.passes.schedule.facts.strides import depends, is_leaf, scattered, sites_in, step_of, strided, widest
from dojoir.passes.schedule.facts.tree import children, innermost, is_marked
from dojoir.passes.schedule.steps.combinators import tried
from dojoir.passes.schedule.steps.fit import Fit
from dojoir.passes.schedule.steps.spots import act, spot
from dojoir.sets.kernel_sets import sets_of

CHUNK = 4096
"""How many iterations of a loop over one dimension a core takes at a time."""


def lanes(kernel: Kernel, machine: Machine, sizes: Sizes) -> Iterator[Fit]:
    """Runs innermost scopes in lanes if they step by one element, or the scope around them if that does and the
    innermost one does not, or only adds up, or if they add up along rows that are known to be shorter than a
    vector. Sums of what lies where data say are in lanes too, where these have masks; what divides integers of 64
    bits is not. What shares bytes goes in pairs."""
    for n in range(len(kernel.body)):
        yield Fit((n,), partial(_lanes, path=(n,), machine=machine, sizes=sizes))


def _lanes(trace: Trace, path: Path, machine: Machine, sizes: Sizes) -> None:
    """At a node and below it; a scope that is known to run once has no use for lanes."""
    kernel = trace.kernel
    node = kernel.at(path)
    if not isinstance(node, Scope | Guard):
        return
    if isinstance(node, Scope) and not is_marked(node) and not is_short(node.extent, sizes, 2):
        if is_leaf(node) and (is_narrow(kernel, path, machine) or divides_long(kernel, path)):
            return
        if is_leaf(node) and not machine.masks and _is_corner(kernel, node, path, machine):
            return
        if is_leaf(node) and (not strided(kernel, path) or (machine.masks and sums_gathered(kernel, path))):
            _leaf_in_lanes(trace, path)
            return
        if any(is_interleaved(kernel, path, leaf) for leaf in innermost(node, path) if leaf != path):
            return
        better = not is_leaf(node) and (
            are_short_rows(kernel, path, machine, sizes) or _is_better_around(kernel, node, path)
        )
        if better and tried(trace, lambda t: _nest_in_lanes(t, path, machine)):
            return
    for inner in children(node, path):
        _lanes(trace, inner, machine, sizes)


def _is_corner(kernel: Kernel, node: Scope, path: Path, machine: Machine) -> bool:
    """Whether a scope adds up, and ends at an iterator that is below the lanes of a vector, as in the triangle that
    is left of a block."""
    around, depth, sites = scopes_around(kernel, path), kernel.depth_of(path), sites_in(kernel, path)
    ends = [around[d].extent.constant for d in range(depth) if Affine.iterator(d) in node.extent.bounds]
    short = any(end is not None and end * widest(kernel, path) <= machine.vector_bytes for end in ends)
    return short and not any(depends(site.statement.target, depth) for site in sites)


def _is_better_around(kernel: Kernel, node: Scope, path: Path) -> bool:
    """Whether a scope with others in it goes into lanes better than those. It steps by one element and they do
    not, or they only add up. Or they add up and it reads few elements apart, as the windows of a pooling do."""
    leaves = list(innermost(node, path))
    if not strided(kernel, path):
        return any(strided(kernel, leaf) or _reduces(kernel, path, leaf) for leaf in leaves)
    return not scattered(kernel, path) and all(_reduces(kernel, path, leaf) for leaf in leaves)


def _reduces(kernel: Kernel, path: Path, leaf: Path) -> bool:
    """Whether a scope inside the one at `path` accumulates into one element, and that one into its neighbours, or
    into a register of each iteration."""
    outer, inner = kernel.depth_of(path), kernel.depth_of(leaf)
    sums = [site.statement.target for site in sites_in(kernel, leaf) if site.statement.accumulation]
    return any(
        step_of(kernel, a, inner) == 0
        and (step_of(kernel, a, outer) == 1 or (kernel.buffer(a.buffer).storage == "reg" and not depends(a, outer)))
        for a in sums
    )


def _leaf_in_lanes(trace: Trace, path: Path) -> None:
    if len(path) > 1:
        if not tried(trace, Vectorize(place_of(path))) and _is_packed(trace.kernel, path):
            tried(trace, lambda t: _pairs_in_lanes(t, path))
    else:
        tried(trace, lambda t: _split_in_lanes(t, path, CHUNK))


def _is_packed(kernel: Kernel, path: Path) -> bool:
    """Whether a scope of constant extent writes neighbours that share bytes."""
    node = kernel.at(path)
    assert isinstance(node, Scope)
    whole = all(bound.is_constant and bound.offset % 2 == 0 for bound in node.extent.bounds)
    return whole and any(kernel.buffer(site.statement.target.buffer).packed for site in sites_in(kernel, path))


def _pairs_in_lanes(trace: Trace, path: Path) -> None:
    """Gives each lane both halves of a byte."""
    act(trace, Split, spot(trace, path), 2)
    act(trace, Vectorize, spot(trace, path))


def _nest_in_lanes(trace: Trace, path: Path, machine: Machine) -> None:
    """Runs a scope with scopes inside it in lanes: two vectors of its widest type."""
    _split_in_lanes(trace, path, 2 * machine.vector_bytes // widest(trace.kernel, path))


def _split_in_lanes(trace: Trace, path: Path, size: int) -> None:
    scope = trace.kernel.at(path)
    assert isinstance(scope, Scope)
    lanes = spot(trace, path)
    short = [Condition(bound, "<=", Affine.constant(size)) for bound in scope.extent.bounds]
    if not any(sets_of(trace.kernel).holds_around(path, [condition]) for condition in short):
        act(trace, Split, lanes, size)
        lanes = lanes.child(0)
    act(trace, Vectorize, lanes)
