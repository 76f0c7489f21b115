"""Convolutions on a GPU: a block has the same rows of an image for several output channels.

What the block reads of the image and of the filters for a few input channels goes through shared memory. A thread
has some neighbours of a row for some channels in registers, so that an element that it reads from shared memory
takes part in several products. The tiles of a product of matrices whose one operand is never laid out as a
matrix.

Source: Chetlur et al., "cuDNN: Efficient primitives for deep learning" (2014), arXiv:1410.0759, section 3.
"""

from __future__ import annotations

from dojoir.ir.affine import Affine
from dojoir.ir.nodes import Access, Guard, Kernel, Op, Path, Scope, Site
from dojoir.ir.paths import is_inside
from dojoir.passes.base.move import place_of
from dojoir.passes.engine.trace import Trace
from dojoir.passes.loops.guards import DropCondition, RemoveGuard
from dojoir.passes.loops.sinking import SinkScope
from dojoir.passes.schedule.facts.strides import depends, is_leaf, reach, require, sites_in
from dojoir.passes.schedule.gpu.sharing.threads import remove_around, shared_copy, whole_extent
from dojoir.passes.schedule.steps.combinators import tried
from dojoir.passes.schedule.steps.spots import Array, Spot, first_nest, fuse, mark_all, move, scopes_inside, spot
from dojoir.support.frozen import dataclass

ACROSS, ACROSS_GUARDED = (8, 7, 6, 5, 4), (7, 8, 5, 6, 4)
"""How many neighbours of a row a thread may have, the best first. At the edges of an image it reads them one at a
time, from different banks where threads are an odd number of elements apart."""

DOWN = 8
"""How many output channels a thread has."""

CHANNELS = (32, 16, 8)
"""How many output channels a block may have."""

ROWS = (8, 4, 2, 1)
"""How many rows of an image a block may have."""

SUMMED = (8, 4, 2, 1)
"""For how many input channels shared memory may have tiles."""

MOST_THREADS = 256

MOST_BYTES = 48 * 1024
"""Shared memory that every GPU gives a block."""


@dataclass(frozen=True)
class _ConvolutionTile:
    """Output channels, rows of the image and input channels of a block; columns of a thread."""

    channels: int
    rows: int
    summed: int
    across: int
    threads: int


def tile_convolution(trace: Trace, path: Path) -> None:
    """Gives the convolution whose images are at `path` to blocks of a GPU, in tiles that divide its sizes, which
    are constants. Raises DojoError where it is no convolution of that form, or a move is refused."""
    images = spot(trace, path)
    guards_inside(trace, images)
    site = _convolution(images)
    guards = sum(isinstance(node, Guard) for node in site.ancestors)
    extents = [scope.extent.constant or 0 for scope in site.scopes[-7:]]
    image, filters = _operands(site)
    tile = _tile(trace.kernel, image, extents, ACROSS_GUARDED if guards else ACROSS)
    fuse(trace, site.path)
    outputs, rows = images.child(0), images.child(0, 0)
    summed = first_nest(rows.child(0))
    down, across = summed.child(0), summed.child(0, 0)
    block = outputs.split(tile.channels)
    rows.split(tile.rows)
    block.swap()
    own = block.stage(site.statement.target.buffer, "tile", "out")
    written = remove_around(block.beside(1))
    channels = summed.alone(3)
    begun = channels.beside(-1)
    for scope in (summed, down, across):
        scope.lift(3)
    summed.split(tile.summed)
    for nest in (begun, channels, written):
        _of_threads(nest, tile.across)
    for scope in (channels, channels.child(0), channels.child(0, 0)):
        scope.lift(3)
    if guards:
        _read_once(trace, down, image.buffer, filters.buffer)
    for array in (image.buffer, filters.buffer):
        copy = Array(trace, shared_copy(channels, array, tile.threads))
        if array == filters.buffer:
            copy.inside(0).pad(0, 4)
    for nest, last in ((begun, "u"), (channels, "u"), (written, "v")):
        _on_threads(nest, last)
    Array(trace, own).split(1, DOWN).split(4, tile.across).place("reg")
    mark_all(((images, "gz"), (outputs, "gy"), (rows, "gx")))


def _of_threads(channels: Spot, across: int) -> None:
    """Splits a nest `channels > rows > columns` into what a thread has, innermost, and the threads around it."""
    columns = channels.child(0, 0)
    own = channels.split(DOWN)
    columns.split(across)
    own.sink(2)


def guards_inside(trace: Trace, images: Spot) -> None:
    """Takes away what all iterations of a nest pass of its guards, all of it where an image has no edge of zeros,
    and brings the rest to stand around the sum itself."""
    for guard in reversed(_guards(images)):
        node, place = guard.node, place_of(guard.path)
        if not tried(trace, RemoveGuard(place)) and isinstance(node, Guard):
            for number in reversed(range(len(node.conditions))):
                _ = tried(trace, DropCondition(place, number))
    for guard in reversed(_guards(images)):
        while len(guard.body) == 1 and isinstance(guard.body[0], Scope):
            guard.child(0).lift(1)


def _guards(nest: Spot) -> list[Spot]:
    kernel, around = nest.trace.kernel, nest.path
    return [spot(nest.trace, at) for at, n in kernel.walk() if isinstance(n, Guard) and is_inside(at, around)]


def _read_once(trace: Trace, down: Spot, image: str, filters: str) -> None:
    """Brings guards out of the scopes that they do not depend on, of those inside the one over the rows of a
    filter, and has what a thread reads for a row in registers. Then what stays guarded are the sums alone."""
    across = down.child(0)
    for guard in _guards(down):
        while guard.around().depth > down.depth and tried(trace, move(SinkScope, guard.around(), 1)):
            pass
    _near(across, image)
    _near(across.child(0), filters)


def _near(node: Spot, array: str) -> None:
    """Has what a node reads of an array in registers."""
    near = node.stage(array, "near", "in")
    copied = node.beside(-1)
    while isinstance(copied.node, Scope):
        if copied.scope.extent.constant == 1:
            copied = remove_around(copied)
        else:
            whole_extent(copied)
            copied = copied.child(0)
    Array(node.trace, near).place("reg")


def _convolution(images: Spot) -> Site:
    """The one sum of a nest over images, channels, rows and columns, and in these input channels, rows and
    columns of a filter."""
    found = sites_in(images.trace.kernel, images.path)
    nest = [isinstance(node, Scope) for node in found[-1].ancestors[:7]]  # guards may be around the sum itself
    sums = [site for site in found if site.statement.op == "+="]
    chain = len(images.path) == 1 and len(found) == 2 and all(nest) and len(found[-1].scopes) == 7
    constant = all(scope.extent.constant for site in found for scope in site.scopes)
    begun = len(found[0].scopes) == 4 and found[0].statement.op == "="
    require(chain and constant and sums == found[1:] and begun, "a convolution of constant sizes")
    return found[1]


def _operands(site: Site) -> tuple[Access, Access]:
    """The image, which all output channels share, and the filters, which all places of an image do."""
    target, value, reads = site.statement.target, site.statement.value, site.statement.reads
    multiplies = site.statement.op == "+=" and len(reads) == 2 and isinstance(value, Op) and value.name == "mul"
    require(multiplies, "a convolution of an image with filters")
    image, filters = sorted(reads, key=lambda access: depends(access, 1))
    ranks = len(target.indices) == len(image.indices) == len(filters.indices) == 4
    apart = all(not depends(filters, depth) for depth in (0, 2, 3)) and not depends(image, 1)
    different = len({target.buffer, image.buffer, filters.buffer}) == 3
    in_order = _in_order(target, (0, 1, 2, 3)) and _in_order(filters, (1, 4, 5, 6))
    require(ranks and apart and different and in_order, "a convolution of an image with filters")
    return image, filters


def _in_order(access: Access, depths: tuple[int, ...]) -> bool:
    """Whether the indices of an access are the iterators at some depths."""
    return all(str(index) == f"{{{depth}}}" for index, depth in zip(access.indices, depths, strict=False))


def _tile(kernel: Kernel, image: Access, extents: list[int], neighbours: tuple[int, ...]) -> _ConvolutionTile:
    _, outputs, height, width, inputs, down, across = extents
    columns = next((a for a in neighbours if width % a == 0), 0)
    channels = next((c for c in CHANNELS if outputs % c == 0), 0)
    require(bool(columns and channels), "channels and columns that a tile divides")
    around = channels // DOWN * (width // columns)
    rows = next((r for r in ROWS if height % r == 0 and around * r <= MOST_THREADS), 0)
    item = kernel.buffer(image.buffer).dtype.itemsize
    lines, places = image.indices[2:]
    assert isinstance(lines, Affine) and isinstance(places, Affine)
    high, broad = reach(lines, {2: rows, 5: down}), reach(places, {3: width, 6: across})
    each = (high * broad + down * across * (channels + 4)) * item
    summed = next((c for c in SUMMED if inputs % c == 0 and c * each <= MOST_BYTES), 0)
    require(bool(rows and summed), "a convolution of which a block has room for a tile")
    return _ConvolutionTile(channels, rows, summed, columns, around * rows)


def _on_threads(nest: Spot, last: str) -> None:
    """A nest of channels, rows and columns on threads; what a thread has of it is written out, but for the input
    channels of a sum. `last` is the role of the innermost scope of the nest."""
    for role in ("bz", "by", "bx"):
        nest.mark(role)
        nest = nest.child(0)
    inner = scopes_inside(nest)
    for scope in inner:
        if not (scope == nest and len(inner) > 2):
            scope.mark(last if is_leaf(scope.node) else "u")
