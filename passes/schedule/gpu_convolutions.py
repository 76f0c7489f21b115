"""Convolutions on a GPU: a block has the same rows of an image for several output channels.

What the block reads of the image and of the filters for a few input channels goes through shared memory; a thread
has some neighbours of a row for some channels in registers, so that an element that it reads from shared memory
takes part in several products: the tiles of a product of matrices whose one operand is never laid out as a
matrix.

Source: Chetlur et al., "cuDNN: Efficient primitives for deep learning" (2014), arXiv:1410.0759, section 3.
"""

from __future__ import annotations

from dojoir.errors import ArgumentError
from dojoir.ir.affine import Affine, Iter
from dojoir.ir.nodes import Access, Guard, Kernel, Op, Path, Scope, Site, format_path
from dojoir.passes.base.move import fresh_name
from dojoir.passes.engine.trace import Trace
from dojoir.passes.schedule.combinators import make, tried
from dojoir.passes.schedule.gpu_copies import shared_copy, whole_extent
from dojoir.passes.schedule.register_tile import fuse
from dojoir.passes.schedule.strides import depends
from dojoir.support.frozen import dataclass

ACROSS, ACROSS_GUARDED = (8, 7, 6, 5, 4), (7, 8, 5, 6, 4)
"""How many neighbours of a row a thread may have, the best first: at the edges of an image it reads them one at a
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
class _Tile:
    """Output channels, rows of the image and input channels of a block; columns of a thread."""

    channels: int
    rows: int
    summed: int
    across: int
    threads: int


def tile_convolution(trace: Trace, path: Path) -> None:
    """Gives the convolution whose images are at `path` to blocks of a GPU, in tiles that divide its sizes, which
    are constants. Raises DojoError where it is no convolution of that form, or a move is refused."""
    _guards_inside(trace, path)
    site = _convolution(trace.kernel, path)
    guards = sum(isinstance(node, Guard) for node in site.ancestors)
    extents = [scope.extent.constant or 0 for scope in site.scopes[-7:]]
    image, filters = _operands(site)
    tile = _tile(trace.kernel, image, extents, ACROSS_GUARDED if guards else ACROSS)
    target = site.statement.target.buffer
    fuse(trace, site.path)
    place = format_path(path)
    make(trace, f"split({place}.0, {tile.channels})")
    make(trace, f"split({place}.0.0.0, {tile.rows})")
    make(trace, f"swap_scopes({place}.0.0)")
    block = f"{place}.0.0"
    own = fresh_name(trace.kernel, f"{target}_tile")
    make(trace, f"stage({block}.0, {target}, {own}, out)")
    make(trace, f"remove_scope({block}.1)")
    for nest in (".0.0.0", ".0.0", ".0"):
        make(trace, f"split_scopes({block}{nest}, 1)")
    total = f"{block}.1"
    for inner in (".0.0.0", ".0.0.0.0", ".0.0.0.0.0"):
        make(trace, f"lift_scope({total}{inner}, 3)")
    make(trace, f"split({total}, {tile.summed})")
    for nest in (f"{block}.0", f"{total}.0.0.0.0", f"{block}.2"):
        make(trace, f"split({nest}, {DOWN})")
        make(trace, f"split({nest}.0.0.0, {tile.across})")
        make(trace, f"sink_scope({nest}.0, 2)")
    for inner in (".0.0.0.0", ".0.0.0.0.0", ".0.0.0.0.0.0"):
        make(trace, f"lift_scope({total}{inner}, 3)")
    if guards:
        _read_once(trace, trace.kernel.path(f"{total}.0.0.0.0.0"), image.buffer, filters.buffer)
    for n, array in enumerate((image.buffer, filters.buffer)):
        copy = fresh_name(trace.kernel, f"{array}_tile")
        shared_copy(trace, f"{total}.{n}", array, copy, tile.threads)
        if array == filters.buffer:
            make(trace, f"reorder_dims({copy}, 1, 2, 3, 0)")
            make(trace, f"pad_dims({copy}, 0, 4)")
    for nest, last in ((f"{block}.0", "unroll"), (f"{total}.2", "unroll"), (f"{block}.2", "vectorize")):
        _threads(trace, trace.kernel.path(nest), last)
    make(trace, f"split_dim({own}, 1, {DOWN})")
    make(trace, f"split_dim({own}, 4, {tile.across})")
    make(trace, f"place({own}, reg)")
    for at, mark in ((place, "gz"), (f"{place}.0", "gy"), (block, "gx")):
        make(trace, f"bind({at}, {mark})")


def _guards_inside(trace: Trace, path: Path) -> None:
    """Takes away what all iterations of a nest pass of its guards, all of it where an image has no edge of zeros,
    and brings the rest to stand around the sum itself."""
    for at in reversed(_guards(trace.kernel, path)):
        if not tried(trace, f"remove_guard({format_path(at)})"):
            guard = trace.kernel.at(at)
            assert isinstance(guard, Guard)
            for number in reversed(range(len(guard.conditions))):
                _ = tried(trace, f"drop_condition({format_path(at)}, {number})")
    for at in reversed(_guards(trace.kernel, path)):
        while isinstance(_inside(trace.kernel, at), Scope):
            make(trace, f"lift_scope({format_path((*at, 0))}, 1)")
            at = (*at, 0)


def _guards(kernel: Kernel, path: Path) -> list[Path]:
    return [at for at, node in kernel.walk() if isinstance(node, Guard) and at[: len(path)] == path]


def _inside(kernel: Kernel, path: Path) -> object:
    """What a guard is around by itself; None where that is several nodes."""
    guard = kernel.at(path)
    return guard.body[0] if isinstance(guard, Guard) and len(guard.body) == 1 else None


def _read_once(trace: Trace, rows: Path, image: str, filters: str) -> None:
    """Brings guards out of the scopes that they do not depend on, of those from the one at `rows` over the rows of
    a filter on, and has what a thread reads for a row in registers: then what stays guarded are the sums alone."""
    guard = (*rows, 0, 0, 0, 0)
    columns = (*rows, 0)
    while isinstance(trace.kernel.at(guard), Guard):
        at = guard[:-1]
        while len(at) > len(rows) and tried(trace, f"sink_scope({format_path(at)}, 1)"):
            if len(at) == len(columns):
                columns = (*columns, 0)
            at = at[:-1]
        guard = (*guard, 0)
    for name, place in ((image, columns), (filters, (*columns[:-1], 1, 0))):
        near = fresh_name(trace.kernel, f"{name}_near")
        make(trace, f"stage({format_path(place)}, {name}, {near}, in)")
        at = place
        while isinstance(scope := trace.kernel.at(at), Scope):
            if scope.extent.constant == 1:
                make(trace, f"remove_scope({format_path(at)})")
            else:
                whole_extent(trace, at)
                at = (*at, 0)
        make(trace, f"place({near}, reg)")


def _convolution(kernel: Kernel, path: Path) -> Site:
    """The one sum of a nest over images, channels, rows and columns, and in these input channels, rows and
    columns of a filter."""
    found = [site for site in kernel.sites if site.path[: len(path)] == path]
    nest = [isinstance(node, Scope) for node in found[-1].ancestors[:7]]  # guards may be around the sum itself
    sums = [site for site in found if site.statement.op == "+="]
    chain = len(path) == 1 and len(found) == 2 and all(nest) and len(found[-1].scopes) == 7
    constant = all(scope.extent.constant for site in found for scope in site.scopes)
    if not (
        chain and constant and sums == found[1:] and len(found[0].scopes) == 4 and found[0].statement.op == "="
    ):
        raise ArgumentError(
            f"the scope at {format_path(path)} is no convolution of constant sizes", "bad-arguments"
        )
    return found[1]


def _operands(site: Site) -> tuple[Access, Access]:
    """The image, which all output channels share, and the filters, which all places of an image do."""
    target, value, reads = site.statement.target, site.statement.value, site.statement.reads
    if site.statement.op == "+=" and len(reads) == 2 and isinstance(value, Op) and value.name == "mul":
        image, filters = sorted(reads, key=lambda access: depends(access, 1))
        ranks = len(target.indices) == len(image.indices) == len(filters.indices) == 4
        apart = all(not depends(filters, depth) for depth in (0, 2, 3)) and not depends(image, 1)
        different = len({target.buffer, image.buffer, filters.buffer}) == 3
        in_order = _in_order(target, (0, 1, 2, 3)) and _in_order(filters, (1, 4, 5, 6))
        if ranks and apart and different and in_order:
            return image, filters
    raise ArgumentError("the sum is no convolution of an image with filters", "bad-arguments")


def _in_order(access: Access, depths: tuple[int, ...]) -> bool:
    """Whether the indices of an access are the iterators at some depths."""
    return all(str(index) == f"{{{depth}}}" for index, depth in zip(access.indices, depths, strict=False))


def _reach(index: Affine | Access, extents: dict[int, int]) -> int:
    """Of how many elements those are the first and the last that some iterators lead to."""
    assert isinstance(index, Affine)
    return 1 + sum(abs(index.coefficient(Iter(depth))) * (extent - 1) for depth, extent in extents.items())


def _tile(kernel: Kernel, image: Access, extents: list[int], neighbours: tuple[int, ...]) -> _Tile:
    _, outputs, height, width, inputs, down, across = extents
    columns = next((a for a in neighbours if width % a == 0), 0)
    channels = next((c for c in CHANNELS if outputs % c == 0), 0)
    if not columns or not channels:
        raise ArgumentError("no tile divides the channels and columns of the result", "bad-arguments")
    around = channels // DOWN * (width // columns)
    rows = next((r for r in ROWS if height % r == 0 and around * r <= MOST_THREADS), 0)
    item = kernel.buffer(image.buffer).dtype.itemsize
    high = _reach(image.indices[2], {2: rows, 5: down})
    broad = _reach(image.indices[3], {3: width, 6: across})
    each = (high * broad + down * across * (channels + 4)) * item
    summed = next((c for c in SUMMED if inputs % c == 0 and c * each <= MOST_BYTES), 0)
    if not rows or not summed:
        raise ArgumentError("a tile of the convolution has no room in a block", "bad-arguments")
    return _Tile(channels, rows, summed, columns, around * rows)


def _threads(trace: Trace, nest: Path, last: str) -> None:
    """A nest of channels, rows and columns on threads; what a thread has of it is written out, but for the input
    channels of a sum. `last` is how the innermost scope of the nest runs."""
    for mark in ("bz", "by", "bx"):
        make(trace, f"bind({format_path(nest)}, {mark})")
        nest = (*nest, 0)
    inner = [at for at, node in trace.kernel.walk() if isinstance(node, Scope) and at[: len(nest)] == nest]
    for at in inner:
        leaf = not any(len(other) > len(at) and other[: len(at)] == at for other in inner)
        if not (at == nest and len(inner) > 2):
            make(trace, f"{last if leaf else 'unroll'}({format_path(at)})")
