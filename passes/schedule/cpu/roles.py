"""Lanes: which scopes run a vector of iterations at a time.

Loop interchange: the innermost scope steps through memory by one element.

What reads along one dimension and writes along another goes through small squares, a vector high and wide.

Storage: dimensions that need none are collapsed, and small temporaries are in registers.

Cores: which scopes are shared out.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from math import prod

from dojoir.backends.machine import Machine
from dojoir.ir.affine import Affine
from dojoir.ir.nodes import Condition, Guard, Kernel, Path, Scope
from dojoir.ir.places import scopes_around
from dojoir.passes.base.move import BufferName, Word, place_of
from dojoir.passes.engine.trace import Trace
from dojoir.passes.hardware.marks import Parallelize, Vectorize
from dojoir.passes.loops.swapping import SwapScopes
from dojoir.passes.loops.tiling import Tile
from dojoir.passes.schedule.cpu.tiles.register_tile import transpose_squares
from dojoir.passes.schedule.facts.narrow import are_short_rows, divides_long, is_interleaved, is_narrow
from dojoir.passes.schedule.facts.strides import (
    Sizes,
    children,
    count_of,
    depends,
    innermost,
    is_leaf,
    is_little,
    is_marked,
    is_short,
    scattered,
    scope_at,
    sites_in,
    step_of,
    streamed,
    strided,
    sums_gathered,
    widest,
)
from dojoir.passes.schedule.steps.combinators import Fit, tried
from dojoir.passes.schedule.steps.spots import Spot, spot
from dojoir.passes.storage.layout import PlaceBuffer, ReuseDims
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
        two = 2 * machine.vector_bytes // widest(kernel, path)  # vectors of its widest type
        if better and tried(trace, lambda t: _split_in_lanes(t, path, two)):
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
            tried(trace, lambda t: _pairs_in_lanes(spot(t, path)))
    else:
        tried(trace, lambda t: _split_in_lanes(t, path, CHUNK))


def _is_packed(kernel: Kernel, path: Path) -> bool:
    """Whether a scope of constant extent writes neighbours that share bytes."""
    node = scope_at(kernel, path)
    whole = all(bound.is_constant and bound.offset % 2 == 0 for bound in node.extent.bounds)
    return whole and any(kernel.buffer(site.statement.target.buffer).packed for site in sites_in(kernel, path))


def _pairs_in_lanes(scope: Spot) -> None:
    """Gives each lane both halves of a byte."""
    scope.split(2)
    scope.mark("v")


def _split_in_lanes(trace: Trace, path: Path, size: int) -> None:
    lanes = spot(trace, path)
    short = [Condition(bound, "<=", Affine.constant(size)) for bound in lanes.scope.extent.bounds]
    if not any(sets_of(trace.kernel).holds_around(path, [condition]) for condition in short):
        lanes = lanes.split(size)
    lanes.mark("v")


TRANSPOSED = 32
"""The side of the blocks in which what is read along one dimension is written along another."""

FEW_ROWS = 4
"""How many rows are too few for squares."""


def interchange(kernel: Kernel, machine: Machine, sizes: Sizes) -> Iterator[Fit]:
    """Exchanges two scopes of each nest where that makes the innermost one step through memory by one element, and
    tiles those that read along one dimension and write along another."""
    for n in range(len(kernel.body)):
        yield Fit((n,), partial(_order, path=(n,), machine=machine, sizes=sizes))


def _order(trace: Trace, path: Path, machine: Machine, sizes: Sizes) -> None:
    """Below a node, and at it."""
    node = trace.kernel.at(path)
    if not isinstance(node, Scope | Guard) or is_marked(node):
        return
    for inner in children(node, path):
        _order(trace, inner, machine, sizes)
    alone = node.body[0] if isinstance(node, Scope) and len(node.body) == 1 else None
    if isinstance(node, Scope) and isinstance(alone, Scope) and is_leaf(alone):
        kernel, inner = trace.kernel, (*path, 0)
        if any(site.statement.accumulation for site in sites_in(kernel, path)):
            return
        here, there = strided(kernel, path), strided(kernel, inner)
        across = here and there and streamed(kernel, path) and streamed(kernel, inner)
        outside = is_short(node.extent, sizes, FEW_ROWS)
        if across and (outside or is_short(alone.extent, sizes, FEW_ROWS)):  # a few rows: no squares
            if not outside:
                tried(trace, SwapScopes(place_of(path)))
        elif there > here:
            tried(trace, SwapScopes(place_of(path)))
        elif across and not tried(trace, partial(transpose_squares, path=path, machine=machine)):
            tried(trace, Tile((place_of(path), place_of(inner)), (TRANSPOSED, TRANSPOSED)))


SCALAR_LIKE = 16
"""The most elements of a temporary that goes into registers."""


def collapsed(kernel: Kernel, machine: Machine, sizes: Sizes) -> Iterator[Fit]:
    """Collapses each dimension of a temporary in memory that needs no storage."""
    for name in _in_memory(kernel):
        for i, dim in enumerate(kernel.buffer(name).dims):
            if not dim.collapsed:
                yield Fit((), ReuseDims(BufferName(name), i))


def registers(kernel: Kernel, machine: Machine, sizes: Sizes) -> Iterator[Fit]:
    """Puts temporaries in memory that are known to be small into registers."""
    for name in _in_memory(kernel):
        stored = [dim.extent for dim in kernel.buffer(name).dims if not dim.collapsed]
        known = all(extent.is_constant for extent in stored)
        if known and prod(extent.offset for extent in stored) <= SCALAR_LIKE:
            yield Fit((), PlaceBuffer(BufferName(name), Word("reg")))


def _in_memory(kernel: Kernel) -> list[str]:
    return [buffer.name for buffer in kernel.buffers if buffer.role == "tmp" and buffer.storage == "heap"]


FEW_ITERATIONS = 4
"""How many iterations are too few to share out, whatever the number of cores."""


def cores(kernel: Kernel, machine: Machine, sizes: Sizes) -> Iterator[Fit]:
    """Shares the outermost scope that allows it, and runs often enough, out over the cores, unless it is known that
    there is little to do."""
    if machine.cores != 1:
        for n in range(len(kernel.body)):
            if not is_little(kernel, (n,), sizes):
                yield Fit((n,), partial(_share, path=(n,), count=machine.cores, sizes=sizes))


def _share(trace: Trace, path: Path, count: int, sizes: Sizes) -> None:
    """Shares what is at a node, or below it, out over so many cores."""
    _cores(trace, path, count, sizes)


def _cores(trace: Trace, path: Path, cores: int, sizes: Sizes) -> bool:
    """At a node and below it. A scope without scopes inside it is too little work for a team of cores,
    unless it is all there is. One that is known to run so seldom that some cores would wait leaves the work to
    those inside, if there is enough in each of them. Returns whether a scope is shared out."""
    node = trace.kernel.at(path)
    if not isinstance(node, Scope | Guard) or {"u", "v"}.intersection(getattr(node, "marks", ())):
        return False
    large = isinstance(node, Scope) and (len(path) == 1 or not is_leaf(node))
    few = isinstance(node, Scope) and not is_leaf(node) and _is_uneven(node, cores, sizes)
    if few and _cores_inside(trace, path, cores, sizes):
        return True
    if large and tried(trace, Parallelize(place_of(path))):
        return True
    return not few and _cores_inside(trace, path, cores, sizes)


def _cores_inside(trace: Trace, path: Path, cores: int, sizes: Sizes) -> bool:
    """The same for what is inside of a node, where there is enough in it each time."""
    node = trace.kernel.at(path)
    assert isinstance(node, Scope | Guard)
    shared = False
    for inner in children(node, path):
        if not is_little(trace.kernel, inner, sizes):
            shared |= _cores(trace, inner, cores, sizes)
    return shared


def _is_uneven(scope: Scope, cores: int, sizes: Sizes) -> bool:
    """Whether a scope is known to run so seldom that cores would wait for each other: less often than there are
    cores, or a few times but not as often for each."""
    count = count_of(scope.extent, sizes) or FEW_ITERATIONS
    return count < max(cores, FEW_ITERATIONS) or (count < FEW_ITERATIONS * cores and count % cores != 0)
