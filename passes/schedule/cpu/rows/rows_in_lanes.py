"""Rows in lanes, where each element of a row waits for a quotient of the one before, and iterations in lanes that
have small arrays of their own.

`p[i, j + 1] = c / (a * p[i, j] + b)` waits for a division in each step along a row: no lanes along rows, and rows
one after the other leave a core waiting. A vector of rows waits once for all of them. What is kept of a row is each
lane's own, and so stays in the cache: temporaries that the nest shares with others only by name are parted first.

What sorts the nine neighbours of a pixel, or solves three equations for each point, keeps a few elements for an
iteration, and its inner loops are short. Each of these elements becomes a vector, the loops are written out.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from math import prod

from dojoir.backends.machine import Machine
from dojoir.ir.affine import Affine
from dojoir.ir.expressions import parts
from dojoir.ir.nodes import Access, Kernel, Op, Path, Scope, Statement
from dojoir.ir.paths import is_inside
from dojoir.passes.base.move import BufferName, fresh_name
from dojoir.passes.engine.trace import Trace
from dojoir.passes.hardware.marks import Unroll, Vectorize
from dojoir.passes.loops.splitting import Split
from dojoir.passes.schedule.facts.sizes import Sizes, is_short
from dojoir.passes.schedule.facts.strides import depends, follows, scattered, sites_in, widest
from dojoir.passes.schedule.facts.tree import plain_scopes
from dojoir.passes.schedule.forms.contractions import is_window
from dojoir.passes.schedule.steps.combinators import tried
from dojoir.passes.schedule.steps.dims import add_dim
from dojoir.passes.schedule.steps.fit import Fit
from dojoir.passes.schedule.steps.spots import act, move, spot
from dojoir.passes.schedule.steps.versions import uses_in
from dojoir.passes.storage.layout import PlaceBuffer, ReuseDims
from dojoir.passes.storage.sharing import UnshareBuffer

LONG = frozenset({"div", "exp", "log", "exp2", "log2", "sqrt", "rsqrt", "tanh", "sigmoid", "pow"})
"""Operations that take so long that what waits for them gains by lanes, though these read from rows apart."""


MOST_OWN = 64
"""How many elements an array has at most that each lane has for itself."""

MOST_WRITTEN_OUT = 256
"""How many statements the short loops of an iteration are at most, written out."""


def rows_in_lanes(kernel: Kernel, machine: Machine, sizes: Sizes) -> Iterator[Fit]:
    """Runs a vector of rows at a time wherever an element of a row waits for a long operation on the one before,
    or an iteration has small arrays of its own, unless rows are known to be fewer."""
    for path, node in plain_scopes(kernel):
        lanes = machine.vector_bytes // widest(kernel, path)
        if lanes > 1 and not is_short(node.extent, sizes, lanes):
            if any(isinstance(child, Scope) and _waits(kernel, (*path, n)) for n, child in enumerate(node.body)):
                yield Fit(path, partial(_in_lanes, path=path, lanes=lanes))
            elif _own_arrays(kernel, path, node):
                yield Fit(path, partial(_iterations_in_lanes, path=path, lanes=lanes))


def _own_arrays(kernel: Kernel, path: Path, scope: Scope) -> bool:
    """Whether each iteration of a scope begins small arrays of its own. All else lies side by side, and what is
    inside are short loops."""
    depth, sites = kernel.depth_of(path), sites_in(kernel, path)
    inner = [inner for site in sites for inner in site.scopes[depth + 1 :]]
    outer = not is_window(scope) and not scope.extent.bounds[0].iterators
    if not outer or scattered(kernel, path) or not all(_is_inside(one, depth) for one in inner):
        return False
    first = {site.statement.target.buffer: site.statement for site in reversed(sites)}
    begun = (one.target for one in first.values() if one.accumulation is None)
    return any(_is_small(kernel, target.buffer) and not depends(target, depth) for target in begun)


def _is_inside(scope: Scope, depth: int) -> bool:
    """Whether a scope is a window, or goes as far as short loops inside of the one at a depth say."""
    bounds = scope.extent.bounds
    return is_window(scope) or any(b.iterators and min(b.iterators) > depth and not b.sizes for b in bounds)


def _is_small(kernel: Kernel, name: str) -> bool:
    buffer = kernel.buffer(name)
    extents = [dim.extent for dim in buffer.dims if not dim.collapsed]
    if buffer.role != "tmp" or not all(extent.is_constant for extent in extents):
        return False
    return 1 < prod(extent.offset for extent in extents) <= MOST_OWN


def _waits(kernel: Kernel, path: Path) -> bool:
    """Whether a scope of statements has one that takes its element from the one before by LONG operations."""
    scope, depth = kernel.at(path), kernel.depth_of(path)
    if not isinstance(scope, Scope) or scope.marks or scope.hints:
        return False
    if not all(isinstance(child, Statement) for child in scope.body):
        return False
    return any(
        isinstance(step, Statement)
        and step.accumulation is None
        and any(_is_before(read, step.target, depth) for read in step.reads)
        and any(
            isinstance(part, Op)
            and part.name in LONG
            and any(_is_before(p, step.target, depth) for p in parts(part))
            for part in parts(step.value)
        )
        for step in scope.body
    )


def _is_before(read: object, target: Access, depth: int) -> bool:
    """Whether a read is of the element before along the scope of `depth`."""
    if not isinstance(read, Access) or read.buffer != target.buffer:
        return False
    apart = [(i, j) for i, j in zip(read.indices, target.indices, strict=True) if i != j]
    return len(apart) == 1 and all(
        isinstance(i, Affine) and isinstance(j, Affine) and i + 1 == j and depth in j.iterators for i, j in apart
    )


def _in_lanes(trace: Trace, path: Path, lanes: int) -> None:
    """Raises IllegalMove where a move is refused."""
    depth = trace.kernel.depth_of(path)
    own = _own_temporaries(trace, path)
    dims = {
        name: [
            d
            for d in range(len(trace.kernel.buffer(name).dims))
            if all(follows(access, d, depth) for access in _accesses(trace.kernel, path, name))
        ]
        for name in own
    }
    act(trace, Split, spot(trace, path), lanes)
    for name in own:
        for dim in dims[name]:
            tried(trace, ReuseDims(BufferName(name), dim))
    act(trace, Vectorize, spot(trace, (*path, 0)))


def _iterations_in_lanes(trace: Trace, path: Path, lanes: int) -> None:
    """Raises IllegalMove where a move is refused."""
    own = _own_temporaries(trace, path)
    depth = trace.kernel.depth_of(path)
    act(trace, Split, spot(trace, path), lanes)
    for name in own:
        dims = trace.kernel.buffer(name).dims
        followed = any(depends(access, depth) for access in _accesses(trace.kernel, path, name))
        if _is_small(trace.kernel, name) and not followed:
            add_dim(trace, name, depth + 1, Affine.constant(lanes), len(dims))
            act(trace, PlaceBuffer, name, "reg")
        elif not dims:
            act(trace, PlaceBuffer, name, "reg")
    block = (*path, 0)
    act(trace, Vectorize, spot(trace, block))
    kernel = trace.kernel
    inner = [site.scopes[depth + 2 :] for site in sites_in(kernel, block)]
    if sum(prod(scope.extent.constant or 1 for scope in scopes) for scopes in inner) <= MOST_WRITTEN_OUT:
        for at, node in list(kernel.walk()):
            if isinstance(node, Scope) and node.extent.constant and at != block and is_inside(at, block):
                act(trace, Unroll, spot(trace, at))


def _own_temporaries(trace: Trace, path: Path) -> list[str]:
    """Gives a scope temporaries of its own, as far as nothing else takes values from it by them; their names."""
    own = []
    for buffer in [buffer for buffer in trace.kernel.buffers if buffer.role == "tmp"]:
        name = buffer.name
        (here,), count = uses_in(trace.kernel, name, path)
        if here and len(here) < count:
            name = fresh_name(trace.kernel, f"{name}_own")
            if not tried(trace, move(UnshareBuffer, buffer.name, name, len(trace.kernel.buffers), here)):
                continue
        own += [name] if here else []
    return own


def _accesses(kernel: Kernel, path: Path, name: str) -> list[Access]:
    return [a for site in sites_in(kernel, path) for a in site.statement.accesses if a.buffer == name]
