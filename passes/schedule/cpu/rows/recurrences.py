"""Recurrences along a row, turned: what each element takes from those before it, these give to those behind them.

`a[i, j] += a[i, k] * a[k, j]` for k < j, as in a factorisation, is a sum down a column for each element. As soon as
element k is known, all behind it can have their share, which goes along the row, in lanes. And elements that are
not waited for, to the right of a triangle, join in. Where what comes from other rows is done before, the shares of
eight rows go together.

Rows in lanes, where each element of a row waits for a quotient of the one before, and iterations in lanes that
have small arrays of their own.

`p[i, j + 1] = c / (a * p[i, j] + b)` waits for a division in each step along a row: no lanes along rows, and rows
one after the other leave a core waiting. A vector of rows waits once for all of them. What is kept of a row is each
lane's own, and so stays in the cache: temporaries that the nest shares with others only by name are parted first.

What sorts the nine neighbours of a pixel, or solves three equations for each point, keeps a few elements for an
iteration, and its inner loops are short. Each of these elements becomes a vector, the loops are written out.

Vectorizes over blocks the values that are computed once a block, between two passes over it.

A quantiser takes the largest number of a block, makes a scale of it, and goes through the block again. The scale
is a division or two and a conversion for one number: in lanes of blocks it costs a fraction. So the scope over
blocks is parted before and behind it, and what goes from one part to the next gets an element for each block. That
also keeps what was computed of a row for the second pass over it.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from itertools import pairwise
from math import prod

from dojoir.backends.machine import Machine
from dojoir.ir.affine import Affine
from dojoir.ir.expressions import parts
from dojoir.ir.nodes import Access, Cast, Kernel, Node, Op, Path, Scope, Statement, substitute_iterators
from dojoir.ir.paths import is_inside
from dojoir.passes.base.move import Quoted, fresh_name
from dojoir.passes.engine.trace import Trace
from dojoir.passes.loops.cutting import JoinRanges
from dojoir.passes.loops.guards import AddGuard
from dojoir.passes.loops.shifting import Shift
from dojoir.passes.schedule.cpu.rows.abreast import cut_rows
from dojoir.passes.schedule.facts.strides import (
    Sizes,
    depends,
    follows,
    is_plain,
    is_short,
    plain_scopes,
    require,
    scattered,
    scope_at,
    sites_in,
    step_of,
    strided,
    widest,
)
from dojoir.passes.schedule.forms.parting import is_window
from dojoir.passes.schedule.steps.combinators import Fit, tried
from dojoir.passes.schedule.steps.spots import Array, act, add_dim, mark_all, move, scopes_inside, spot
from dojoir.passes.schedule.steps.versions import uses_in
from dojoir.passes.storage.layout import ReuseDims
from dojoir.passes.storage.sharing import UnshareBuffer

ROWS = 8
"""How many rows go together: what they read of another row is read an eighth as often."""


def turned_recurrences(kernel: Kernel, machine: Machine, sizes: Sizes) -> Iterator[Fit]:
    """Exchanges the scopes of each nest `j > (..., k < j > y[j] += f(y[k], ...), ...)` that goes through memory by
    one element along `j` and not along `k`."""
    for path in _found(kernel):
        yield Fit(path, partial(_interchange_triangles, path=path, sizes=sizes))


def _interchange_triangles(trace: Trace, path: Path, sizes: Sizes) -> None:
    """Raises IllegalMove where a move of it is refused; but what lies behind, and the rows together, are tried."""
    _interchange_triangle(trace, path)
    tried(trace, partial(_join_the_rest, path=path))
    rows = trace.kernel.at(path[:-1]) if len(path) > 1 else None
    if isinstance(rows, Scope) and len(rows.body) == 1 and not is_short(rows.extent, sizes, ROWS):
        tried(trace, partial(_rows_together, path=path))


def _found(kernel: Kernel) -> Iterator[Path]:
    """The scopes over elements, in the order of the text."""
    for path, node in kernel.walk():
        if isinstance(node, Scope) and not node.marks and len(node.extent.bounds) == 1:
            inner = [child for child in node.body if isinstance(child, Scope)]
            if len(inner) == 1 and _recurs(kernel, kernel.depth_of(path), inner[0]):
                yield path


def _recurs(kernel: Kernel, depth: int, inner: Scope) -> bool:
    """Whether a scope runs over the elements before that of the scope of `depth` around it, and accumulates what
    depends on them into that element."""
    match inner.body:
        case (Statement() as step,) if inner.extent.bounds == (Affine.iterator(depth),) and not inner.marks:
            pass
        case _:
            return False
    moved = substitute_iterators({depth: Affine.iterator(depth + 1)})
    before = tuple(i if isinstance(i, Access) else i.substitute(moved) for i in step.target.indices)
    reads = [access for access in step.accesses if access != step.target]
    return (
        step.accumulation is not None
        and step_of(kernel, step.target, depth) == 1
        and step_of(kernel, step.target, depth + 1) == 0
        and Access(step.target.buffer, before) in reads
        and any(step_of(kernel, a, depth + 1) is None for a in reads)
        and all(step_of(kernel, a, depth) is not None for a in reads)
    )


def _interchange_triangle(trace: Trace, path: Path) -> None:
    """Makes one scope of what the elements take and of what else is done for each, over a square of which it does
    nothing but in a triangle. Exchanges that with the scope around it; and takes the guards away again. Raises
    IllegalMove where a move of it is refused."""
    kernel, depth = trace.kernel, trace.kernel.depth_of(path)
    elements = scope_at(kernel, path)
    (count,) = elements.extent.bounds
    number = next(n for n, child in enumerate(elements.body) if isinstance(child, Scope))
    for n in reversed(range(number)):
        spot(trace, (*path, n)).swap_next()
    first, second = (*path, 0), (*path, 1)
    others = len(elements.body) - 1
    act(trace, AddGuard, spot(trace, (*first, 0)), 1, Quoted(f"{{{depth + 1}}} < {{{depth}}}"))
    spot(trace, first).bound(count)
    if others:
        spot(trace, second).wrap(others)
        act(trace, Shift, spot(trace, second), Affine.iterator(depth))
        act(trace, AddGuard, spot(trace, (*second, 0)), 1, Quoted(f"{{{depth + 1}}} < {{{depth}}} + 1"))
        spot(trace, second).bound(count)
        spot(trace, first).join(spot(trace, second))
    spot(trace, path).swap()
    spot(trace, first).cut(Affine.iterator(depth))
    spot(trace, first).delete()
    spot(trace, first).cut(Affine.constant(1))
    if others:
        spot(trace, (*first, 0)).delete()
        spot(trace, (*first, 0, 0)).unguard()
        spot(trace, (*first, 0)).unguard()
        spot(trace, first).remove()
        spot(trace, (*path, others, 1)).delete()
    else:
        spot(trace, first).delete()
    spot(trace, (*path, others, 0)).unguard()


def _join_the_rest(trace: Trace, path: Path) -> None:
    """Lets the elements behind those of the recurrence have their share in the same scope. Raises DojoError where
    there are none, or a move is refused."""
    here, there = spot(trace, path), spot(trace, (*path[:-1], path[-1] + 1))
    elements = here.scope
    last = len(elements.body) - 1
    share = elements.body[last]
    assert isinstance(share, Scope)
    there.swap()
    here.join(spot(trace, (*path[:-1], path[-1] + 1)))
    behind = spot(trace, (*path, last))
    act(trace, JoinRanges, behind, behind.beside(1), share.extent.bounds[0])


def _rows_together(trace: Trace, path: Path) -> None:
    """Of each eight rows, does all that comes from rows before them side by side. Raises DojoError where that is
    not as far as the first of them, or not of a row that all share, or a move is refused."""
    rows, depth = path[:-1], trace.kernel.depth_of(path) - 1
    elements = scope_at(trace.kernel, path)
    taken = [a for site in sites_in(trace.kernel, (*path, len(elements.body) - 1)) for a in site.statement.reads]
    shared = [a for a in taken if depends(a, depth + 2) and not depends(a, depth)]
    diagonal = elements.extent.bounds == (Affine.iterator(depth),)
    require(diagonal and bool(shared), "of rows as far as a diagonal that share another row")
    others = len(elements.body) - 1
    cut_rows(trace, rows, ROWS)
    nest = spot(trace, rows)
    nest.split(ROWS).child(0).cut(Affine.iterator(depth) * ROWS)
    nest.child(0).part(1)
    nest.child(0).swap()
    if others:
        nest.child(0, 0).part(others)
    share = 1 if others else 0
    nest.child(0, share).swap()
    mark_all(((nest.child(0, share), "v"), (nest.child(0, share, 0), "u")))


LONG_STEPS = frozenset({"div", "exp", "log", "exp2", "log2", "sqrt", "rsqrt", "tanh", "sigmoid", "pow"})
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
    """Whether a scope of statements has one that takes its element from the one before by LONG_STEPS operations."""
    scope, depth = kernel.at(path), kernel.depth_of(path)
    if not isinstance(scope, Scope) or not is_plain(scope) or scope.marks or scope.hints:
        return False
    return any(
        isinstance(step, Statement)
        and step.accumulation is None
        and any(_is_before(read, step.target, depth) for read in step.reads)
        and any(
            isinstance(part, Op)
            and part.name in LONG_STEPS
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
    accesses = [a for site in sites_in(trace.kernel, path) for a in site.statement.accesses]
    found = [
        (name, dim)
        for name in own
        for dim in range(len(trace.kernel.buffer(name).dims))
        if all(follows(a, dim, depth) for a in accesses if a.buffer == name)
    ]
    rows = spot(trace, path).split(lanes)
    for name, dim in found:
        tried(trace, move(ReuseDims, name, dim))
    rows.mark("v")


def _iterations_in_lanes(trace: Trace, path: Path, lanes: int) -> None:
    """Raises IllegalMove where a move is refused."""
    own = _own_temporaries(trace, path)
    depth = trace.kernel.depth_of(path)
    block = spot(trace, path).split(lanes)
    for name in own:
        dims = trace.kernel.buffer(name).dims
        accesses = [a for site in sites_in(trace.kernel, path) for a in site.statement.accesses if a.buffer == name]
        if _is_small(trace.kernel, name) and not any(depends(access, depth) for access in accesses):
            add_dim(trace, name, depth + 1, Affine.constant(lanes), len(dims))
            Array(trace, name).place("reg")
        elif not dims:
            Array(trace, name).place("reg")
    block.mark("v")
    inner = [site.scopes[depth + 2 :] for site in sites_in(trace.kernel, block.path)]
    if sum(prod(scope.extent.constant or 1 for scope in scopes) for scopes in inner) <= MOST_WRITTEN_OUT:
        mark_all([(scope, "u") for scope in scopes_inside(block)[1:] if scope.count])


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


LONG = frozenset({"div", "sqrt", "rsqrt", "exp", "log", "exp2", "log2", "pow"})
"""The operations that are slow enough on a core to gain by lanes, as a conversion to a narrow float is."""


def blocks_apart(kernel: Kernel, machine: Machine, sizes: Sizes) -> Iterator[Fit]:
    """Parts scopes over blocks where something that takes long stands between two passes over a block, unless they
    are known to be fewer than the lanes."""
    lanes = machine.vector_bytes // 4
    for path, _ in _found_blocks(kernel):
        scope = kernel.at(path)
        if isinstance(scope, Scope) and lanes > 1 and not is_short(scope.extent, sizes, lanes):
            yield Fit(path, partial(_part, path=path))


def _found_blocks(kernel: Kernel) -> Iterator[tuple[Path, tuple[int, int]]]:
    """Scopes over blocks, with where the part in the middle begins and ends."""
    for path, node in plain_scopes(kernel):
        if len(path) < 2 or any(affine.iterators for affine in node.extent.bounds):
            continue
        inner = [n for n, child in enumerate(node.body) if isinstance(child, Scope)]
        if not all(_is_pass(node.body[n]) for n in inner):
            continue
        for first, last in pairwise(inner):
            middle = node.body[first + 1 : last]
            if any(isinstance(child, Statement) and _takes_long(kernel, child) for child in middle):
                yield path, (first + 1, last)
                break


def _is_pass(node: Node) -> bool:
    """Whether a scope goes through the elements of a block, of which there are as many in each."""
    return isinstance(node, Scope) and is_plain(node) and all(bound.is_constant for bound in node.extent.bounds)


def _takes_long(kernel: Kernel, statement: Statement) -> bool:
    if kernel.buffer(statement.target.buffer).dtype.bits <= 8:
        return True
    return any(
        (isinstance(part, Op) and part.name in LONG) or (isinstance(part, Cast) and part.dtype.bits <= 8)
        for part in parts(statement.value)
    )


def _part(trace: Trace, path: Path) -> None:
    """Raises IllegalMove where a move is refused."""
    begin, end = next(found for place, found in _found_blocks(trace.kernel) if place == path)
    kernel, depth = trace.kernel, trace.kernel.depth_of(path)
    scope = scope_at(kernel, path)
    for name in _crossing(kernel, path, begin, end):
        add_dim(trace, name, depth, scope.extent)
    first, _ = spot(trace, path).part(end)
    _, middle = first.part(begin)
    if not strided(trace.kernel, middle.path):
        middle.mark("v")


def _crossing(kernel: Kernel, path: Path, begin: int, end: int) -> list[str]:
    """The temporaries that go from one part to another. None of them is used elsewhere, or nothing is found."""
    part_of: dict[str, set[int]] = {}
    outside: set[str] = set()
    for site in kernel.sites:
        names = site.statement.buffers
        if not is_inside(site.path, path):
            outside |= names
            continue
        number = site.path[len(path)]
        part = (number >= begin) + (number >= end)
        for name in names:
            part_of.setdefault(name, set()).add(part)
    temporaries = [buffer.name for buffer in kernel.buffers if buffer.role == "tmp"]
    return [name for name in temporaries if len(part_of.get(name, ())) > 1 and name not in outside]
