"""Sums and extremes on a GPU, by what lies side by side in memory.

Where that is what is summed, the threads of a block or of a warp go along it and put together what they have. Where
it is what is kept, neighbours of a block go along that, and rows of threads share the sum. Where there are too few
results for the multiprocessors, partial results are made first, and added up by a second launch.
"""

from __future__ import annotations

from math import prod

from dojoir.backends.machine import Machine
from dojoir.ir.affine import Affine
from dojoir.ir.nodes import Path, Scope
from dojoir.ir.words import GRID
from dojoir.passes.base.move import fresh_name
from dojoir.passes.engine.trace import Trace
from dojoir.passes.hardware.marks import Bind, Vectorize
from dojoir.passes.loops.collapsing import Collapse
from dojoir.passes.loops.joining import JoinScopes
from dojoir.passes.loops.splitting import Split
from dojoir.passes.loops.swapping import SwapScopes
from dojoir.passes.schedule.facts.strides import sites_in, step_of
from dojoir.passes.schedule.forms.nests import Sum, distribute, known, runs_along, sum_at, trips
from dojoir.passes.schedule.forms.parting import is_contraction
from dojoir.passes.schedule.gpu.sharing.flat import flattened
from dojoir.passes.schedule.gpu.sharing.threads import along, grid, shared_among
from dojoir.passes.schedule.steps.combinators import tried
from dojoir.passes.schedule.steps.spots import Spot, act, move, spot, stand_alone
from dojoir.passes.values.reductions import SplitReduction

WARP_SUM = 1024
"""The longest sum that a warp takes by itself."""

BLOCK = 256
WIDE = 4
"""How many neighbours one access moves."""

NEIGHBOURS, ROWS = 32, 16
"""Columns and rows of the threads of a block, where what is kept lies side by side."""

LONG = 64
"""How many terms a partial result should have at least."""

SQUARE = 64 * 64
"""How many results a tile of a contraction has, about."""

LONG_PRODUCT, DEPTH, TURN = 256, 16, 64
"""How many terms a part of a contraction should have at least; of how many all parts should be multiples; and how
many a tile on matrix units takes at a time."""

TILES = 2
"""How many tiles a multiprocessor should have at least."""

BLOCKS = 4
"""How many blocks a multiprocessor should have at least."""


def sum_along(trace: Trace, path: Path, machine: Machine) -> None:
    """One block per result, or one warp where a result has at most `WARP_SUM` terms; its threads stride along the
    contiguous dimension."""
    found = sum_at(trace, path)
    nest = [*found.summed]
    beside = runs_along(trace.kernel, found.site, nest[-1])
    known(beside or found.results < machine.multiprocessors, "a sum along memory")  # few wait for no better one
    width = WIDE if beside and _aligned(trace, found, nest[-1]) else 1
    count = trips(nest[-1])
    if len(nest) > 1 and count % (machine.warp * width):  # rows that threads would share unevenly
        nest, wide = flattened(trace, nest[0])
        width = max(width, wide) if len(nest) < len(found.summed) else width
        count = trips(nest[-1])
    elements = nest[-1]
    if count % width or count < machine.warp * width:
        width = 1
    all_of_it = prod(map(trips, nest))
    threads = machine.warp if all_of_it <= WARP_SUM and found.kept else _threads(count // width, machine)
    if width > 1:
        act(trace, Split, elements, width)
        act(trace, Vectorize, elements.child(0))
    if threads == machine.warp:
        _along_lanes(trace, elements, len(nest) - 1, threads)
    else:
        along(trace, elements, len(nest) - 1, threads)
    kept = _merged(trace, found)
    if threads == machine.warp and kept:
        act(trace, Split, kept[-1], BLOCK // threads)
        act(trace, Bind, kept[-1].child(0), "bx")
    grid(trace, reversed(kept))


def _along_lanes(trace: Trace, scope: Spot, levels: int, lanes: int) -> None:
    """A scope, which `levels` others are around, on the lanes of a warp: all of them, some under a guard."""
    shared = scope if trips(scope) == lanes else shared_among(trace, scope, lanes)
    for _ in range(levels):
        act(trace, SwapScopes, shared.around())
    act(trace, Bind, shared, "lane")


def _threads(count: int, machine: Machine) -> int:
    """On how many threads so many iterations go: all the same number of them, where that is possible."""
    even = (n for n in (2 * BLOCK, BLOCK, BLOCK // 2) if count >= n and count % n == 0)
    return next(even, BLOCK if count > BLOCK else -(-count // machine.warp) * machine.warp)


def sum_across(trace: Trace, path: Path, machine: Machine) -> None:
    """Neighbours of what is kept on the threads of a row, of which a block has several that share the sum."""
    found = sum_at(trace, path)
    column = next((s for s in reversed(found.kept) if runs_along(trace.kernel, found.site, s)), None)
    known(column is not None and found.kept[-1].path == column.path, "a sum across memory")
    nest = [*found.summed]
    while len(nest) > 1:
        if not tried(trace, move(Collapse, nest[-2])):
            break
        nest.pop()
    assert column is not None
    act(trace, Split, column, NEIGHBOURS)
    neighbours = stand_alone(trace, nest[0], 1)
    along(trace, nest[-1], len(nest), ROWS, "by")
    act(trace, Bind, neighbours, "bx")
    for other in column.scopes():
        if not other.scope.marks:
            act(trace, Bind, other, "bx")
    grid(trace, reversed(found.kept))


def partial_sums(trace: Trace, path: Path, machine: Machine) -> list[Spot]:
    """Makes partial results of a nest of few sums, each of a part of what is summed, and what adds them up. Returns
    the nests."""
    found = sum_at(trace, path)
    wanted = BLOCKS * machine.multiprocessors
    across = bool(found.kept) and runs_along(trace.kernel, found.site, found.kept[-1])
    blocks = max(1, found.results // (NEIGHBOURS if across else 1))
    known(blocks < wanted, "a nest of few sums")
    terms = prod(map(trips, found.summed))
    known(terms >= 2 * LONG, "a nest of long sums")
    return _in_parts(trace, found, max(2, min(wanted // blocks, terms // LONG)))


def partial_products(trace: Trace, path: Path, machine: Machine) -> list[Spot]:
    """Split-K: makes partial results of a contraction whose result has fewer tiles than the machine has
    multiprocessors, and what adds them up. Returns the nests, those of what is made of the result too."""
    others = _apart(trace, path)
    found = sum_at(trace, others.pop(0).path)
    known(is_contraction(found.site), "a contraction")
    tiles = max(1, found.results // SQUARE)
    known(tiles < machine.multiprocessors, "a result of few tiles")
    terms = prod(map(trips, found.summed))
    known(terms >= 2 * LONG_PRODUCT, "a contraction of long sums")
    wanted = TILES * machine.multiprocessors
    parts = _in_parts(trace, found, max(2, min(wanted // tiles, terms // LONG_PRODUCT)), DEPTH)
    return [*parts, *others]


def _apart(trace: Trace, path: Path) -> list[Spot]:
    """The nests that a nest becomes where each sum has its own, that of its one contraction first."""
    count = len(trace.kernel.body)
    if len(path) == 1:
        distribute(trace, path)
    nests = [spot(trace, (path[0] + n, *path[1:])) for n in range(1 + len(trace.kernel.body) - count)]
    multiplies = [any(map(is_contraction, sites_in(trace.kernel, nest.path))) for nest in nests]
    known(sum(multiplies) == 1, "a contraction")
    nests.insert(0, nests.pop(multiplies.index(True)))
    return nests


def _in_parts(trace: Trace, found: Sum, most: int, whole: int = 1) -> list[Spot]:
    """Splits the outermost scope that a nest sums over into so many parts at most, of so many terms or of a
    multiple. Returns the nest that makes their sums and the one that adds them up."""
    begun_before: list[Spot] = []
    if found.begins:
        nest = stand_alone(trace, found.nest, len(found.kept))
        begun_before = [nest.beside(-1)]
    part = found.summed[0]
    pieces = trips(part)
    known(pieces > 1, "a nest of long sums")
    if pieces > most:
        act(trace, Split, part, _size_of_part(pieces, most, whole))
    for _ in found.kept:
        act(trace, SwapScopes, part.around())
    target = found.site.statement.target.buffer
    name = fresh_name(trace.kernel, f"{target}_part")
    act(trace, SplitReduction, part, target, name, part.scope.extent)
    begun, together = part.beside(-1), part.beside(1)
    act(trace, JoinScopes, begun, part)
    outer = part
    for _ in found.kept:
        first, second = outer.child(0), outer.child(1)
        act(trace, JoinScopes, first, second)
        outer = outer.child(0)
    return [*begun_before, part, together]


def _size_of_part(terms: int, most: int, whole: int) -> int:
    """The size of so many parts of some terms at most: one that divides them, in whole turns of a tile, if there
    are at least half as many parts then."""
    least = -(-terms // most)
    if least < whole:
        return least
    least = -(-least // whole) * whole
    steps = [step for step in (TURN, whole) if step % whole == 0]
    even = (terms // count for count in range(most, max(1, most // 2), -1) if terms % count == 0)
    sizes = [each for each in even if each >= least]
    return next((each for step in steps for each in sizes if each % step == 0), least)


def _merged(trace: Trace, found: Sum) -> list[Spot]:
    """The kept scopes, at most as many as a grid has dimensions: the outermost ones as one where there are more."""
    kept = list(found.kept)
    while len(kept) > len(GRID):
        outermost = kept.pop(0)
        act(trace, Collapse, outermost)
        kept[0] = outermost
    return kept


def _aligned(trace: Trace, found: Sum, elements: Spot) -> bool:
    """Whether groups of WIDE neighbours along a scope begin where one access moves them."""
    kernel, depth = trace.kernel, elements.depth
    for site in sites_in(kernel, elements.path):
        for access in site.statement.reads:
            if step_of(kernel, access, depth) != 1:
                continue
            buffer = kernel.buffer(access.buffer)
            last = buffer.dims[-1].extent
            whole = len(buffer.dims) == 1 or (last.is_constant and last.offset % WIDE == 0)
            if buffer.order or buffer.pad or not whole or access.indices[-1] != Affine.iterator(depth):
                return False
            if buffer.dtype.itemsize > 4:
                return False
    return isinstance(elements.node, Scope)
