"""Iterations of scopes on threads and blocks of a GPU. Each function raises IllegalMove where a move is refused.

Scopes over what lies side by side in memory, as one: so that it is moved 16 bytes at a time.

The cooperative copies of a block's threads to shared memory, whatever the shape.

Temporaries of a nest on a GPU, out of memory: in registers, or computed again where they are read.

Temporaries in registers of a GPU, once it is known which thread does what: each where its threads find it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from functools import partial
from math import prod

from dojoir.backends.machine import ACCESS_BYTES
from dojoir.ir.affine import Affine, Iter
from dojoir.ir.format import format_condition
from dojoir.ir.nodes import (
    Access,
    Buffer,
    Condition,
    Kernel,
    Path,
    Site,
    Statement,
    substitute_condition,
    substitute_iterators,
)
from dojoir.ir.paths import is_inside
from dojoir.ir.words import BLOCK, GRID
from dojoir.passes.base.move import Quoted
from dojoir.passes.engine.trace import Trace
from dojoir.passes.loops.guards import AddGuard
from dojoir.passes.schedule.facts.strides import depends, given, require, scope_at, sites_in
from dojoir.passes.schedule.steps.combinators import tried
from dojoir.passes.schedule.steps.padding import conditions_of
from dojoir.passes.schedule.steps.spots import Array, Marked, Spot, act, mark_all, move, nested, spot
from dojoir.passes.storage.dead import DeleteTemporary
from dojoir.passes.storage.layout import PlaceBuffer, ReuseDims
from dojoir.passes.values.inlining import Inline
from dojoir.sets.kernel_sets import sets_of

THREADS = 256
"""How many threads a block has, where nothing else is known."""


def grid(chain: Iterable[Spot]) -> None:
    """The first scopes of a chain as a grid: the outermost has the most blocks."""
    mark_all(zip(chain, GRID, strict=False))


def along(scope: Spot, levels: int, threads: int = THREADS, role: str = "bx", whole: bool = False) -> Spot:
    """A scope, which `levels` others are around, on threads: each has every so many-th element, the last of them
    none where there are fewer, unless the threads are to be `whole`. Returns the scope over the threads, which is
    around all of them."""
    extent = scope.scope.extent.constant
    fits = scope.scope.constant_bound == threads if whole else extent is not None and extent <= threads
    shared = scope if fits else shared_among(scope, threads)
    for _ in range(levels):
        shared.around().swap()
    shared.mark(role)
    return shared


def shared_among(scope: Spot, threads: int) -> Spot:
    """Shares a scope out: each of so many threads has every so many-th iteration, the last time under a guard where
    that is not known to be one. Returns the scope over the threads, which is around the other."""
    inner = scope.split(threads)
    full_extent(inner, threads)
    scope.swap()
    return inner


def full_extent(scope: Spot, extent: int) -> None:
    """Makes the extent of a scope, which is at most `extent`, so much: what is past its end is under a guard."""
    if ends := scope.ends:
        scope.guard(ends)
        scope.constant(extent)


def a_thread_each(scope: Spot, threads: int = THREADS, width: int = 1) -> None:
    """A scope as blocks of threads, each with `width` neighbours that one access moves."""
    shared = scope.split(threads * width)
    in_vectors(shared, width)
    shared.mark("bx")


def in_vectors(scope: Spot, width: int) -> None:
    """Moves so many neighbours of a scope at a time."""
    if width > 1:
        scope.split(width).mark("v")


NEIGHBOURS, ROWS = 32, 16
"""Columns and rows of the threads of a block, where what is kept lies side by side."""


def in_columns(column: Spot, outer: Spot, inner: Spot, levels: int) -> None:
    """Sums along columns: a few neighbours a block, the rows of each shared out over its threads. These go along
    the `inner` of so many scopes, of which the first is the `outer` one."""
    column.split(NEIGHBOURS)
    neighbours = outer.alone(1)
    along(inner, levels, ROWS, "by")
    neighbours.mark("bx")
    mark_all([(other, "bx") for other in column.scopes() if not other.scope.marks])


def every_so_many_rows(rows: Spot, threads: Spot, columns: Spot) -> None:
    """A nest `rows > threads > columns`, the first two of which a split made of one, on as many rows of threads as
    the second has iterations, neighbours along the columns: each has every so many-th row."""
    rows.swap()
    rows.swap()
    mark_all(((threads, "by"), (columns, "bx")))


def flattened(trace: Trace, outermost: Spot) -> tuple[list[Spot], int]:
    """Makes one scope of the innermost scopes of a perfect nest along which all that the nest touches lies side by
    side, or stays where it is. Returns the scopes of the nest then, outermost first, and how many neighbours one
    access may move along the innermost: 1 where nothing was to be done. Raises DojoError where a move is
    refused."""
    nest = nested(outermost)
    width = 1
    while len(nest) > 1 and side_by_side(trace.kernel, nest[-2].path):
        nest.pop()
        nest[-1].collapse()
        width = _width(trace.kernel, nest[-1].path)
    return nest, width


def _width(kernel: Kernel, path: Path) -> int:
    """How many neighbours one access moves along a scope over whole rows, side by side: 1 where nothing does."""
    depth, extent = kernel.depth_of(path), scope_at(kernel, path).extent.constant
    accesses = [a for site in sites_in(kernel, path) for a in site.statement.accesses if depends(a, depth)]
    if extent is None or not accesses:
        return 1
    width = ACCESS_BYTES // max(kernel.buffer(a.buffer).dtype.itemsize for a in accesses)
    while extent % width:
        width //= 2
    return width


def side_by_side(kernel: Kernel, path: Path) -> bool:
    """Whether all that the scope at `path` touches lies in memory as its iterations and those of the scope inside
    follow each other, or stays where it is."""
    outer, inner = scope_at(kernel, path), scope_at(kernel, (*path, 0))
    depth = kernel.depth_of(path)
    if outer.marks or inner.marks or inner.extent.constant is None or len(outer.extent.bounds) > 1:
        return False
    accesses = [a for site in sites_in(kernel, path) for a in site.statement.accesses]
    return all(_along(kernel, a, depth, inner.extent.constant) for a in accesses)


def _along(kernel: Kernel, access: Access, depth: int, extent: int) -> bool:
    """Whether the last dimensions of what is accessed are those of the scopes at `depth` and inside it."""
    if not depends(access, depth) and not depends(access, depth + 1):
        return True
    buffer = kernel.buffer(access.buffer)
    last = (Affine.iterator(depth), Affine.iterator(depth + 1))
    if buffer.order or buffer.pad or len(buffer.dims) < 2 or access.indices[-2:] != last:
        return False
    rest = Access(buffer.name, access.indices[:-2])
    alone = not depends(rest, depth) and not depends(rest, depth + 1)
    stored = not any(dim.collapsed for dim in buffer.dims[-2:])
    return alone and stored and buffer.dims[-1].extent == Affine.constant(extent)


MOST_TIMES = 32
"""How often a thread copies at most, for the copies to be written out: all are in registers at once then."""


def shared_copy(node: Spot, array: str, threads: int) -> str:
    """Makes a node work on a copy of what it touches of an array, in shared memory, which `threads` fill: its
    neighbours side by side, the last time under a guard where they do not share it equally. Returns its name."""
    copy, marks = copied_in_shared(node, array, threads)
    mark_all(marks)
    return copy


def copied_in_shared(node: Spot, array: str, threads: int, only: tuple[int, ...] = ()) -> tuple[str, list[Marked]]:
    """Does `shared_copy` without the marks, which it returns too; `only` is for `stage`."""
    copy = node.stage(array, "tile", "in", only=only)
    copied = without_ones(node.beside(-1))
    Array(node.trace, copy).place("shared")
    elements = prod(whole_extent(scope) for scope in nested(copied))
    copied = without_ones(copied)
    for _ in nested(copied)[1:]:
        copied.collapse()
    if elements <= threads:
        return copy, [(copied, "bx")]
    shared = copied.split(threads)
    if elements % threads:
        number = copied.iterator * threads + shared.iterator
        shared.guard([Condition(number, "<", Affine.constant(elements))])
        shared.bound(Affine.constant(threads))
    copied.swap()
    return copy, [*([(copied, "u")] if elements <= MOST_TIMES * threads else []), (shared, "bx")]


def without_ones(copied: Spot) -> Spot:
    """Removes the scopes of extent 1 of a copy, which has a scope for each dimension; one scope is left. Returns
    the outermost that is left."""
    nest = nested(copied)
    kept = [scope for scope in nest if scope.scope.extent.constant != 1] or nest[-1:]
    for scope in nest:
        if scope not in kept:
            scope.remove()
    return kept[0]


def remove_around(scope: Spot) -> Spot:
    """Removes a scope of extent 1 around what it has. Returns the first of that."""
    inside = scope.child(0)
    scope.remove()
    return inside


def whole_extent(scope: Spot) -> int:
    """Makes the extent of a scope of a copy a constant, what is not of the array under a guard. Returns it."""
    most = given(scope.scope.constant_bound, "of an extent that a constant bounds")
    if ends := scope.ends:
        innermost = scope
        while not isinstance(innermost.child(0).node, Statement):
            innermost = innermost.child(0)
        innermost.guard(ends)
    if len(scope.scope.extent.bounds) > 1:
        scope.bound(Affine.constant(most))
    return most


def lanes_at_most(lanes: Spot, widest: int) -> int:
    """How many neighbours along a scope, at most so many, are all on one side of each guard inside of it."""
    sets = sets_of(lanes.trace.kernel)
    width = widest
    for guard in (lanes.child(n) for n in range(len(lanes.body))):
        for condition in conditions_of(guard):
            while (
                width > 1
                and lanes.depth in condition.left.iterators
                and not sets.holds_around(
                    guard.path, [Condition(condition.right % width, "==", Affine.constant(0))]
                )
            ):
                width //= 2
    return width


def guards_outside(lanes: Spot) -> list[Spot]:
    """Takes the guards in a scope of neighbours, each of which holds for all of these or for none, around it.
    Returns the scopes, one for each node that was inside."""
    found = [lanes]
    while len(found[-1].body) > 1:
        found[-1:] = found[-1].part(1)
    for scope in found:
        if conditions := conditions_of(scope.child(0)):
            first = substitute_iterators({scope.depth: Affine.constant(0)})
            text = " and ".join(format_condition(substitute_condition(c, first)) for c in conditions)
            act(scope.trace, AddGuard, scope, 1, Quoted(text))
            scope.child(0).unguard()
    return found


PRIVATE = 16
"""The most elements of a temporary that each thread keeps in registers."""


def keep_private(trace: Trace, path: Path) -> list[str]:
    """Keeps the temporaries that only the nest at `path` uses in registers, where a few elements are enough.
    Returns their names."""
    kept: list[str] = []
    for buffer in trace.kernel.buffers:
        if buffer.role != "tmp" or buffer.storage != "heap":
            continue
        sites, users = trace.kernel.sites, trace.kernel.users.get(buffer.name, ())
        if all(is_inside(sites[k].path, path) for k in users):
            if tried(trace, partial(_registers, name=buffer.name)):
                kept.append(buffer.name)
            else:
                tried(trace, partial(_again, name=buffer.name))
    return kept


def _registers(trace: Trace, name: str) -> None:
    for i, dim in enumerate(trace.kernel.buffer(name).dims):
        if not dim.collapsed and not tried(trace, move(ReuseDims, name, i)):
            require(dim.extent.is_constant and dim.extent.offset <= PRIVATE, "small enough for registers")
    Array(trace, name).place("reg")


def _again(trace: Trace, name: str) -> None:
    """Computes a temporary again where it is read, which is as often as it is written: cheaper than memory."""
    sites = [s for s in trace.kernel.sites if any(a.buffer == name for a in s.statement.accesses)]
    writers = [s for s in sites if s.statement.target.buffer == name]
    once = len(writers) == 1 and not writers[0].statement.accumulation
    require(once and all(len(s.scopes) == len(writers[0].scopes) for s in sites), "computed once for each use")
    for site in sites:
        if site is not writers[0]:
            act(trace, Inline, spot(trace, site.path), name)
    act(trace, DeleteTemporary, name)


THREAD_ROLES = frozenset({*BLOCK, "lane"})

MOST_UNROLLED = 16
"""How many iterations of a thread are written out, so that the numbers of its registers are known."""


def settle(trace: Trace, name: str) -> None:
    """Finds a place for a temporary in registers. What one thread has of another is shared by the block, or in
    memory; what a thread finds by a number that is not known beforehand is in its own memory. Raises DojoError
    where there is no place for it."""
    buffer = next((buffer for buffer in trace.kernel.buffers if buffer.name == name), None)
    if buffer is None or buffer.storage != "reg" or all(dim.collapsed for dim in buffer.dims):
        return
    if _crosses(trace.kernel, buffer):
        if not tried(trace, move(PlaceBuffer, name, "shared")):
            Array(trace, name).in_memory()
    elif not tried(trace, partial(_unrolled, name=name)):
        Array(trace, name).place("stack")


def _crosses(kernel: Kernel, buffer: Buffer) -> bool:
    """Whether a thread may use an element of a temporary that another one has: it is used in several nests of
    threads, and not seen to be by the same ones in each."""
    nests: set[tuple[Path, ...]] = set()
    seen: set[tuple[object, ...]] = set()
    for site, access in _uses(kernel, buffer.name):
        threads = _threads_around(site)
        nests.add(tuple(threads.values()))
        sizes = tuple(site.scopes[depth].constant_bound for depth in threads)
        forms = [
            _by_threads(access.indices[d], list(threads)) for d, dim in enumerate(buffer.dims) if not dim.collapsed
        ]
        seen.add((sizes, *forms) if any(forms) else ())
    return len(nests) > 1 and (len(seen) > 1 or () in seen)


def _by_threads(index: Affine | Access, depths: list[int]) -> tuple[tuple[int, int], ...]:
    """An index as a function of the number of a thread, equal for equal ones: the coefficients of the scopes over
    threads, counted from the outermost, and what is added. Empty where it depends on other things, or on none."""
    if not isinstance(index, Affine) or not index.terms:
        return ()
    found = [
        (depths.index(atom.depth), c) for atom, c in index.terms if isinstance(atom, Iter) and atom.depth in depths
    ]
    return (*sorted(found), (-1, index.offset)) if len(found) == len(index.terms) else ()


def _uses(kernel: Kernel, name: str) -> Iterator[tuple[Site, Access]]:
    for site in kernel.sites:
        for whole in site.statement.accesses:
            for access in whole.accesses():
                if access.buffer == name:
                    yield site, access


def _threads_around(site: Site) -> dict[int, Path]:
    """The scopes over threads around a statement by depth, the outermost first."""
    scopes = enumerate(zip(site.scope_paths, site.scopes, strict=True))
    return {d: path for d, (path, scope) in scopes if THREAD_ROLES.intersection(scope.marks)}


def _unrolled(trace: Trace, name: str) -> None:
    """Makes the numbers of all elements of a temporary in registers known: what finds them is written out."""
    while (path := next(_open_loops(trace.kernel, trace.kernel.buffer(name)), None)) is not None:
        loop = spot(trace, path)
        require(0 < loop.count <= MOST_UNROLLED, "found by what is known")
        loop.mark("u")


def _open_loops(kernel: Kernel, buffer: Buffer) -> Iterator[Path]:
    """The loops of a thread that an element of a temporary depends on, and that are not written out."""
    for site, access in _uses(kernel, buffer.name):
        threads = _threads_around(site)
        for index, dim in zip(access.indices, buffer.dims, strict=True):
            if dim.collapsed or _by_threads(index, list(threads)):
                continue
            depths = index.iterators if isinstance(index, Affine) else ()
            for depth in depths:
                path, scope = site.scope_paths[depth], site.scopes[depth]
                if not {"u", "v"}.intersection(scope.marks) and scope.extent.constant != 1:
                    yield path
