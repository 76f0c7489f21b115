"""Products of matrices on a GPU: tiles of the operands in shared memory, a tile of the result in registers.

Source: V. Volkov and J. Demmel, "Benchmarking GPUs to tune dense linear algebra" (2008).
"""

from __future__ import annotations

from dojoir.backends.machine import ACCESS_BYTES
from dojoir.errors import ArgumentError
from dojoir.ir.affine import Affine
from dojoir.ir.nodes import Condition, Kernel, Path, Scope, format_path
from dojoir.passes.base.move import fresh_name
from dojoir.passes.engine.trace import Trace
from dojoir.passes.schedule.combinators import make, tried
from dojoir.passes.schedule.gpu_turns import Operand, through_two_buffers
from dojoir.passes.schedule.register_tile import Product, alone, fuse, products
from dojoir.sets.kernel_sets import sets_of

GROUP = 4
"""How many neighbours of a tile a thread has: one access of shared memory gives so many f32."""

PADDING = 4
"""By how many elements the rows of a turned tile are apart more, so that threads write to different banks."""


def share_tile(trace: Trace, node: str, array: str, copy: str, threads: int) -> None:
    """Makes the node at `node`, inside of a block of a GPU, work on a `copy` of what it touches of an `array`, in
    shared memory. `threads` threads fill it, 16 bytes an access as the array lies, where their number divides it. A
    tile that is higher than wide is turned, its rows padded.

    >>> import dojoir
    >>> kernel = dojoir.parse('''kernel turned(N)
    ... in  x: f32[16*N, 64]
    ... out y: f32[N, 64, 16]
    ... N
    ... | 64 : bx
    ... | | 16
    ... | | | y[{0}, {1}, {2}] = x[16*{0} + {2}, {1}]
    ... ''')
    >>> trace = dojoir.parse_pipeline("share_tile(0.0, x, t, 64)")[0].on(kernel)
    >>> print(trace.apply("bind(0, gx)"))
    kernel turned(N)
    in  x: f32[16*N, 64]
    out y: f32[N, 64, 16]
    tmp t: f32[16, 64] shared
    <BLANKLINE>
    N : gx
    | 64 : bx
    | | 4 : u
    | | | 4 : v
    | | | | t[4*{2} + {1} // 16, {3} + 4*({1} % 16)] = x[16*{0} + 4*{2} + {1} // 16, {3} + 4*({1} % 16)]
    | 64 : bx
    | | 16
    | | | y[{0}, {1}, {2}] = t[{2}, {1}]
    <BLANKLINE>
    """
    path = trace.kernel.path(node)
    make(trace, f"stage({format_path(path)}, {array}, {copy}, in)")
    _drop(trace, path)
    make(trace, f"place({copy}, shared)")
    dims = [_constant(dim.extent, copy) for dim in trace.kernel.buffer(copy).dims]
    last = len(dims) - 1
    if last and dims[last] < dims[last - 1]:
        order = [*range(last - 1), last, last - 1]
        make(trace, f"reorder_dims({copy}, {', '.join(map(str, order))})")
        make(trace, f"pad_dims({copy}, {last - 1}, {PADDING})")
    elements = 1
    for extent in dims:
        elements *= extent
    inner = path
    nest = [path]
    while isinstance(_only(trace.kernel, inner), Scope):
        inner = (*inner, 0)
        nest.append(inner)
    width = ACCESS_BYTES // trace.kernel.buffer(array).dtype.itemsize
    while width > 1 and (dims[last] % width or elements % (width * threads)):
        width //= 2
    if elements % (width * threads):
        message = f"{threads} threads do not share the {elements} elements of {copy} equally"
        raise ArgumentError(message, "bad-arguments")
    place = format_path(path)
    if width > 1:
        make(trace, f"split({format_path(nest[-1])}, {width})")
        make(trace, f"vectorize({format_path((*nest[-1], 0))})")
    for _ in nest[1:]:
        make(trace, f"collapse({place})")
    if elements > width * threads:
        make(trace, f"split({place}, {threads})")
        make(trace, f"swap_scopes({place})")
        make(trace, f"unroll({place}.0)")
    make(trace, f"bind({place}, bx)")


def tile_product(
    trace: Trace, rows: str, height: int = 128, width: int = 128, depth: int = 8, down: int = 8, across: int = 8
) -> None:
    """Gives the product of matrices whose rows are at `rows` to blocks of a GPU, `height`×`width` results each.
    Tiles of `depth` elements of each row and column go through shared memory, in turns of two buffers where the
    threads share a tile equally; a thread has `down`×`across` results in registers, in groups of 4 neighbours. The
    tile divides all sizes: constants, or open ones of which facts say so.

    >>> import dojoir
    >>> kernel = dojoir.kernels.load("matmul").specialize(N=256, M=256, K=64)
    >>> tiled = dojoir.parse_pipeline("tile_product(0, 64, 64, 8, 4, 8)")[0].on(kernel).kernel
    >>> for buffer in tiled.buffers:
    ...     if buffer.storage == "shared":
    ...         print(buffer.name, [str(dim.extent) for dim in buffer.dims])
    a_tile ['64', '4', '2', '8']
    b_tile ['4', '2', '8', '64']
    """
    tile_blocks(trace, rows, height, width, depth, down, across)
    make(trace, f"bind({format_path(trace.kernel.path(rows))}, gy)")
    make(trace, f"bind({format_path(trace.kernel.path(rows))}.0, gx)")


def tile_blocks(trace: Trace, rows: str, height: int, width: int, depth: int, down: int, across: int) -> None:
    """What `tile_product` does, but for the marks of the grid."""
    path = trace.kernel.path(rows)
    product = next((p for p in products(trace.kernel) if p.rows == path), None)
    if product is None:
        message = f"{rows} is no scope over the rows of a product of matrices such as library:matmul"
        raise ArgumentError(message, "bad-arguments")
    scopes = product.site.scopes[-3:]
    for scope, size, each in zip(scopes, (height, width, depth), (down, across, 0), strict=True):
        extent = scope.extent.bounds[0]
        _whole(trace.kernel, path, extent, max(size, 1), rows)
        if size < 1 or (each and size % each) or each % GROUP or each < 0:
            message = f"tiles of {size} in parts of {each or 1} are not in groups of {GROUP}"
            raise ArgumentError(message, "bad-arguments")
    fuse(trace, product.site.path)
    target = product.site.statement.target.buffer
    panels = [a.buffer for a in product.site.statement.reads]
    place = format_path(path)
    make(trace, f"tile({place}, {place}.0, {height}, {width})")
    block = (*path, 0)
    _set(trace, (*block, 0), height)
    _set(trace, (*block, 0, 0), width)
    tile = fresh_name(trace.kernel, f"{target}_tile")
    make(trace, f"stage({format_path((*block, 0))}, {target}, {tile}, out)")
    _drop(trace, (*block, 1))
    nest = alone(trace, (*block, 0))
    loop = format_path(nest)
    make(trace, f"lift_scope({loop}.0.0, 2)")
    make(trace, f"split({loop}, {depth})")
    _set(trace, (*nest, 0), depth)
    end = len(_block(trace, block).body)
    for i in range(end):
        if (*block, i) == nest:
            _spread(trace, (*nest, 0, 0), (height, width), (down, across), 1, "unroll")
        else:
            last = "vectorize" if i == end - 1 else "unroll"
            _spread(trace, (*block, i), (height, width), (down, across), 0, last)
    first = len(trace.kernel.buffer(tile).dims) - 2
    for dim, (size, each) in reversed(list(enumerate(((height, down), (width, across))))):
        make(trace, f"split_dim({tile}, {first + dim}, {size * GROUP // each})")
        make(trace, f"split_dim({tile}, {first + dim + 1}, {GROUP})")
    make(trace, f"place({tile}, reg)")
    threads = (height // down) * (width // across)
    several = scopes[2].extent.constant != depth
    operands = _operands(product, height, width) if several else None
    if operands and tried(trace, lambda t: through_two_buffers(t, nest, operands, depth, threads)):
        return
    for name in panels:
        node = (*nest, len(_block(trace, nest).body) - 1)
        share_tile(trace, format_path(node), name, fresh_name(trace.kernel, f"{name}_tile"), threads)


def _operands(product: Product, height: int, width: int) -> tuple[Operand, Operand] | None:
    """The two arrays of a product of f32, with their dimensions; None where their elements are found otherwise."""
    row, column, inner = (len(product.site.scopes) - n for n in (3, 2, 1))
    found: list[Operand] = []
    for access in product.site.statement.reads:
        dims = {depth: [d for d, i in enumerate(access.indices) if isinstance(i, Affine) and depth in i.iterators]
                for depth in (row, column, inner)}  # fmt: skip
        along = row if dims[row] else column
        if len(dims[along]) != 1 or len(dims[inner]) != 1 or access.buffer == product.site.statement.target.buffer:
            return None
        found.append(Operand(access.buffer, dims[along][0], dims[inner][0], height if along == row else width))
    return (found[0], found[1]) if len({operand.array for operand in found}) == 2 == len(found) else None


def _spread(trace: Trace, path: Path, tile: tuple[int, int], each: tuple[int, int], loops: int, last: str) -> None:
    """Shares a nest over the rows and columns of a tile out over threads, `each` a thread, with `loops` scopes
    around it inside of them, and writes out what a thread has of it; `last` is how the innermost scope runs."""
    (height, width), (down, across) = tile, each
    rows = format_path(path)
    make(trace, f"split({rows}, {height * GROUP // down})")
    make(trace, f"split({rows}.0, {GROUP})")
    columns = f"{rows}.0.0.0"
    make(trace, f"split({columns}, {width * GROUP // across})")
    make(trace, f"split({columns}.0, {GROUP})")
    make(trace, f"lift_scope({rows}.0, {1 + loops})")
    make(trace, f"lift_scope({columns}.0, {3 + loops})")
    top = path[: len(path) - loops]
    make(trace, f"bind({format_path(top)}, by)")
    make(trace, f"bind({format_path((*top, 0))}, bx)")
    at = (*top, 0, 0)
    while isinstance(_only(trace.kernel, at), Scope):
        make(trace, f"unroll({format_path(at)})")
        at = (*at, 0)
    make(trace, f"{last}({format_path(at)})")


def _drop(trace: Trace, path: Path) -> None:
    """Takes the scopes of extent 1 away that a nest begins with: a copy has one for each dimension."""
    while _block(trace, path).extent.constant == 1 and isinstance(_only(trace.kernel, path), Scope):
        make(trace, f"remove_scope({format_path(path)})")


def _block(trace: Trace, path: Path) -> Scope:
    scope = trace.kernel.at(path)
    assert isinstance(scope, Scope)
    return scope


def _only(kernel: Kernel, path: Path) -> object:
    """What is in a scope by itself; None where it is not."""
    scope = kernel.at(path)
    return scope.body[0] if isinstance(scope, Scope) and len(scope.body) == 1 else None


def _set(trace: Trace, path: Path, extent: int) -> None:
    """Says that a scope runs `extent` times, where that is known of open sizes."""
    if _block(trace, path).extent.constant != extent:
        make(trace, f"set_extent({format_path(path)}, {extent})")


def _whole(kernel: Kernel, path: Path, extent: Affine, size: int, what: str) -> None:
    """Raises ArgumentError where tiles of `size` are not seen to divide an extent of the nest at `path`."""
    if extent.is_constant and extent.offset % size:
        raise ArgumentError(f"tiles of {size} do not divide {extent}", "bad-arguments")
    if not extent.is_constant:
        whole = Condition(extent % size, "==", Affine.constant(0))
        if not sets_of(kernel).holds_around(path, [whole]):
            message = (
                f"{extent} of {what} is no constant, and not known to be a multiple of {size}: fix its size, "
                f"or say `where {extent} % {size} == 0`"
            )
            raise ArgumentError(message, "bad-arguments")


def _constant(extent: Affine, what: str) -> int:
    if not extent.is_constant:
        message = f"{extent} of {what} is no constant: fix its size"
        raise ArgumentError(message, "bad-arguments")
    return extent.offset
