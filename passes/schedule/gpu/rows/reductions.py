"""Sums and extremes on a GPU, by what lies side by side in memory.

Where that is what is summed, the threads of a block or of a warp go along it and put together what they have. Where
it is what is kept, neighbours of a block go along that, and rows of threads share the sum. Where there are too few
results for the multiprocessors, partial results are made first, and added up by a second launch.

Sums and extremes of all that there is, on a GPU: of parts, a block each, and of these in a second launch.

Large sums of which there are too few for a GPU, as those of a batch of images by channel.

What is done with a channel becomes launches of its own: the sums of each image, those of a channel from these, and
what is made of them. Each sum is of partial results in a fixed order, so that it is the same every time.
"""

from __future__ import annotations

from math import prod

from dojoir.backends.machine import ACCESS_BYTES, Machine
from dojoir.ir.affine import Affine
from dojoir.ir.nodes import Path, Scope, Statement
from dojoir.ir.words import GRID
from dojoir.passes.engine.trace import Trace
from dojoir.passes.loops.collapsing import Collapse
from dojoir.passes.loops.joining import JoinScopes
from dojoir.passes.loops.siblings import SwapSiblings
from dojoir.passes.schedule.facts.strides import depends, dims_along, given, is_plain, require, sites_in, step_of
from dojoir.passes.schedule.forms.parting import Sum, distribute, is_contraction, runs_along, sum_at, trips, widest
from dojoir.passes.schedule.gpu.sharing.threads import along, flattened, grid, in_columns, in_vectors, without_ones
from dojoir.passes.schedule.steps.combinators import tried
from dojoir.passes.schedule.steps.spots import Array, Spot, add_dim, mark_all, move, nested, spot

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

MOST_ROWS, WARPS = 8, 8
"""How many rows a warp has at once at most, and the warps of a block."""

TILES = 2
"""How many tiles a multiprocessor should have at least."""

BLOCKS, FEW_BLOCKS = 4, 2
"""How many blocks a multiprocessor should have at least: of one sum, of rows with more to do."""


def sum_along(trace: Trace, path: Path, machine: Machine) -> None:
    """One block per result, or one warp where a result has at most `WARP_SUM` terms; its threads stride along the
    contiguous dimension."""
    found = sum_at(trace, path)
    nest = [*found.summed]
    beside = runs_along(trace.kernel, found.site, nest[-1])
    require(beside or found.results < machine.multiprocessors, "a sum along memory")  # few wait for no better one
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
    in_vectors(elements, width)
    warp = threads == machine.warp
    along(elements, len(nest) - 1, threads, "lane" if warp else "bx", whole=warp)
    kept = _merged(found)
    if warp and kept:
        kept[-1].split(BLOCK // threads).mark("bx")
    grid(reversed(kept))


def _threads(count: int, machine: Machine) -> int:
    """On how many threads so many iterations go: all the same number of them, where that is possible."""
    even = (n for n in (2 * BLOCK, BLOCK, BLOCK // 2) if count >= n and count % n == 0)
    return next(even, BLOCK if count > BLOCK else -(-count // machine.warp) * machine.warp)


def sum_across(trace: Trace, path: Path, machine: Machine) -> None:
    """Neighbours of what is kept on the threads of a row, of which a block has several that share the sum."""
    found = sum_at(trace, path)
    column = next((s for s in reversed(found.kept) if _beside(trace, found, s)), None)
    column = given(column, "a sum across memory")
    require(found.kept[-1].path == column.path, "a sum across memory")
    nest = [*found.summed]
    while len(nest) > 1 and tried(trace, move(Collapse, nest[-2])):
        nest.pop()
    in_columns(column, nest[0], nest[-1], len(nest))
    grid(reversed(found.kept))


def _beside(trace: Trace, found: Sum, scope: Spot) -> bool:
    """Whether what is summed lies side by side along a scope, but for what is the same all along it."""
    steps = {step_of(trace.kernel, a, scope.depth) for a in widest(trace.kernel, found.site)}
    return 1 in steps <= {0, 1}


def partial_sums(trace: Trace, path: Path, machine: Machine) -> list[Spot]:
    """Makes partial results of a nest of few sums, each of a part of what is summed, and what adds them up. Returns
    the nests."""
    found = sum_at(trace, path)
    wanted = BLOCKS * machine.multiprocessors
    across = bool(found.kept) and runs_along(trace.kernel, found.site, found.kept[-1])
    blocks = max(1, found.results // (NEIGHBOURS if across else 1))
    require(blocks < wanted, "a nest of few sums")
    terms = prod(map(trips, found.summed))
    require(terms >= 2 * LONG, "a nest of long sums")
    return _in_parts(found, max(2, min(wanted // blocks, terms // LONG)))


def partial_products(trace: Trace, path: Path, machine: Machine) -> list[Spot]:
    """Split-K: makes partial results of a contraction whose result has fewer tiles than the machine has
    multiprocessors, and what adds them up. Returns the nests, those of what is made of the result too."""
    others = _contraction_first(trace, path)
    found = sum_at(trace, others.pop(0).path)
    require(is_contraction(found.site), "a contraction")
    tiles = max(1, found.results // SQUARE)
    require(tiles < machine.multiprocessors, "a result of few tiles")
    terms = prod(map(trips, found.summed))
    require(terms >= 2 * LONG_PRODUCT, "a contraction of long sums")
    wanted = TILES * machine.multiprocessors
    parts = _in_parts(found, max(2, min(wanted // tiles, terms // LONG_PRODUCT)), DEPTH)
    return [*parts, *others]


def rows_of_warps(trace: Trace, path: Path, machine: Machine) -> list[Spot]:
    """Gives a warp a few rows of a contraction along memory at once, as of a few tokens: what they share, the
    weights, is read once. Each lane has sums of its own. Returns the nests of what is made of the result."""
    others = _contraction_first(trace, path)
    found = sum_at(trace, others.pop(0).path)
    (terms, *more), target = found.summed, found.site.statement.target
    reads = [a for a in found.site.statement.reads if depends(a, terms.depth)]
    beside = all(step_of(trace.kernel, a, terms.depth) == 1 for a in reads)
    require(found.begins and not more and len(reads) > 1 and beside, "sums along memory")
    rows = [s for s in found.kept if 1 < s.count <= MOST_ROWS and not all(depends(a, s.depth) for a in reads)]
    require(len(rows) == 1 and len(found.kept) > 1, "a few rows")
    kept = [s for s in found.kept if s.path != rows[0].path]
    row, column = rows[0], kept[-1]
    dims = [dims_along(target, s.depth) for s in (column, row)]
    widest = ACCESS_BYTES // max(trace.kernel.buffer(a.buffer).dtype.itemsize for a in reads)
    whole = terms.count % (machine.warp * widest) == 0 < terms.count and column.count % WARPS == 0 < column.count
    require(whole and all(len(one) == 1 for one in dims) and dims[0] != dims[1], "whole warps")
    if inside := len(found.kept) - 1 - [s.path for s in found.kept].index(row.path):
        row.sink(inside)
    warp = column.split(WARPS)
    terms.alone(1)
    warp.child(1).swap()
    vector = terms.split(widest)
    vector.sink(1)
    vector.mark("v")
    lane = terms.split(machine.warp)
    terms.swap()
    own = warp.stage(target.buffer, "tile", "out", "shared")
    part, together = warp.child(1).split_sum(own)
    add_dim(trace, part, warp.depth, Affine.constant(WARPS))
    together.swap()
    begins, sums = warp.part(1)
    sums, together = sums.part(1)
    Array(trace, part).place("reg")
    written = without_ones(together.beside(1))
    if dims[0] > dims[1]:
        written.swap()
        written = written.around()
    lane = sums.child(0)
    for nest in (begins, together, written):
        mark_all(((nest, "bx"), (nested(nest)[1], "u")))
    mark_all(((together.child(0, 0), "lane"), (sums, "bx"), (lane, "lane")))
    mark_all(((lane.child(0), "u"), (lane.child(1, 0), "u")))
    grid(reversed(kept))
    return others


def few_rows(trace: Trace, path: Path, machine: Machine) -> list[Spot]:
    """Makes nests of their own of what is done with each of a few rows, which would be too few blocks: each goes
    over as much as it has. Returns the nests."""
    rows = nested(spot(trace, path))
    require(len(path) == 1 and len(rows[-1].scopes()) > 1, "a nest of rows with several nests in each")
    require(prod(map(trips, rows)) < FEW_BLOCKS * machine.multiprocessors, "a nest of few rows")
    nests = _distributed(trace, path)
    require(len(nests) > 1, "a nest that can be distributed")
    return nests


def _distributed(trace: Trace, path: Path) -> list[Spot]:
    """The nests that a nest becomes where each sum has its own."""
    count = len(trace.kernel.body)
    if len(path) == 1:
        distribute(trace, path)
    return [spot(trace, (path[0] + n, *path[1:])) for n in range(1 + len(trace.kernel.body) - count)]


def _contraction_first(trace: Trace, path: Path) -> list[Spot]:
    """The same, that of its one contraction first."""
    nests = _distributed(trace, path)
    multiplies = [any(map(is_contraction, sites_in(trace.kernel, nest.path))) for nest in nests]
    require(sum(multiplies) == 1, "a contraction")
    nests.insert(0, nests.pop(multiplies.index(True)))
    return nests


def _in_parts(found: Sum, most: int, whole: int = 1) -> list[Spot]:
    """Splits the outermost scope that a nest sums over into so many parts at most, of so many terms or of a
    multiple. Returns the nest that makes their sums and the one that adds them up."""
    begun_before: list[Spot] = []
    if found.begins:
        nest = found.nest.alone(len(found.kept))
        begun_before = [nest.beside(-1)]
    part = found.summed[0]
    pieces = trips(part)
    require(pieces > 1, "a nest of long sums")
    if pieces > most:
        part.split(_size_of_part(pieces, most, whole))
    for _ in found.kept:
        part.around().swap()
    _, together = part.split_sum(found.site.statement.target.buffer, len(found.kept))
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


def _merged(found: Sum) -> list[Spot]:
    """The kept scopes, at most as many as a grid has dimensions: the outermost ones as one where there are more."""
    kept = list(found.kept)
    while len(kept) > len(GRID):
        outermost = kept.pop(0)
        outermost.collapse()
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


PARTS = (32768, 16384, 8192)
"""How many elements of a sum a block may add up, the best first: of long ones there are few partial results."""

ENOUGH_BLOCKS = 1024
"""How many blocks there should be for that."""

WIDTH = 4
"""How many elements side by side one access moves."""

MOST_THREADS = 1024
"""How many threads add up the partial results."""


def add_up(trace: Trace, path: Path) -> None:
    """A sum or maximum over all of a scope: of parts, a block each, and then of these."""
    blocks = spot(trace, path)
    require(is_plain(blocks.node) and len(blocks.body) == 1, "a sum by itself")
    statement, extent = sites_in(trace.kernel, path)[0].statement, blocks.count
    alone = statement.accumulation is not None and not depends(statement.target, blocks.depth)
    require(alone, "a sum of all there is")
    blocks.split(next((p for p in PARTS if extent >= p * ENOUGH_BLOCKS), PARTS[-1]))
    _, together = blocks.split_sum(statement.target.buffer)
    part, once = blocks.child(1), together.wrap(1)
    along(together, 0, MOST_THREADS)
    _ = tried(trace, lambda _: _in_fours(part))
    along(part, 0)
    blocks.mark("gx")
    before = blocks.beside(-1) if blocks.path[-1] else blocks
    if isinstance(before.node, Statement) and before.node.target == statement.target:
        _ = tried(trace, lambda _: _begun_later(before, once))
    once.mark("gx")


def _begun_later(before: Spot, once: Spot) -> None:
    """Brings what a sum begins with, in front of the blocks, to the launch behind them."""
    begun = before.wrap(1)
    begun.swap_next()
    begun.join(once)


def _in_fours(scope: Spot) -> None:
    """Elements of a sum side by side, which one access moves."""
    kernel = scope.trace.kernel
    reads = [a for site in sites_in(kernel, scope.path) for a in site.statement.reads]
    whole = scope.count > 0 and scope.count % WIDTH == 0
    require(whole and all(step_of(kernel, a, scope.depth) == 1 for a in reads), "of elements side by side")
    in_vectors(scope, WIDTH)


def channels_apart(trace: Trace, path: Path, machine: Machine) -> list[Spot]:
    """Makes nests of their own of what the scope at `path` over channels does one after the other, each over images
    and then channels where it goes through all images. Returns them, in the order of the text. Raises DojoError
    where the sums of a block are not large or there are enough of them, or a move is refused."""
    scope = spot(trace, path).scope
    inside = [node for node in scope.body if isinstance(node, Scope)]
    few = scope.extent.constant is not None and scope.extent.constant < FEW_BLOCKS * machine.multiprocessors
    large = bool(inside) and all(map(_is_large, inside))
    require(len(path) == 1 and few and large and _adds_up(trace, path), "large sums by channel")
    parts = []
    for n in reversed(range(1, len(scope.body))):
        if isinstance(scope.body[n], Scope) or isinstance(scope.body[n - 1], Scope):
            spot(trace, path).part(n)
            parts.append(spot(trace, path).beside(1))
    parts.append(spot(trace, path))
    nests: list[Spot] = []
    for part in parts:
        nests[:0] = _images(part) if isinstance(part.scope.body[0], Scope) else [part]
    if _is_small(nests[0]) and tried(trace, move(SwapSiblings, nests[0])):
        nests[:2] = reversed(nests[:2])
    launches = nests[:1]
    for nest in nests[1:]:  # few elements each: one launch
        small = _is_small(launches[-1]) and _is_small(nest)
        if not (small and tried(trace, move(JoinScopes, launches[-1], nest))):
            launches.append(nest)
    return launches


def _images(channels: Spot) -> list[Spot]:
    """Brings images to the outside of a nest over channels, whose sums get partial results, one for each image.
    Returns that nest, and the one that adds those up."""
    images = channels.child(0)
    channels.swap()
    (site,) = sites_in(channels.trace.kernel, images.path)
    if site.statement.accumulation is None:
        return [images]
    _, added = images.split_sum(site.statement.target.buffer, 1)
    added.swap()
    return [images, added.around()]


def _is_large(node: Scope) -> bool:
    """Whether a node is a perfect nest over images and what is in them, of constant extents."""
    depth, extents = 0, 1
    inner: Scope = node
    while inner.extent.constant is not None:
        depth, extents = depth + 1, extents * inner.extent.constant
        if len(inner.body) != 1 or not isinstance(inner.body[0], Scope):
            break
        inner = inner.body[0]
    return depth > 1 and extents >= 4096 and all(isinstance(child, Statement) for child in inner.body)


def _adds_up(trace: Trace, path: Path) -> bool:
    """Whether a nest inside has a sum for each iteration of the scope at `path`, and each one statement."""
    depth = trace.kernel.depth_of(path)
    sites = [site for site in sites_in(trace.kernel, path) if len(site.scopes) > depth + 1]
    sums = [site for site in sites if site.statement.accumulation is not None]
    alone = all(len(site.scopes[-1].body) == 1 for site in sites)
    return (
        bool(sums)
        and alone
        and not any(depends(site.statement.target, d) for site in sums for d in range(depth + 1, len(site.scopes)))
    )


def _is_small(nest: Spot) -> bool:
    """Whether a nest has a few statements or additions for each channel."""
    return all(len(site.scopes) <= 2 for site in sites_in(nest.trace.kernel, nest.path))
