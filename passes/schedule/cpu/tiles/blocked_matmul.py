"""`block_products`: products of matrices in blocks for the caches, with packed panels and a tile in registers.

Source: K. Goto and R. van de Geijn, "Anatomy of high-performance matrix multiplication" (2008); the names of the
loops are those of F. Van Zee and R. van de Geijn, "BLIS: a framework for rapidly instantiating BLAS functionality"
(2015).
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import partial

from dojoir.backends.host import machine_named
from dojoir.backends.machine import Machine
from dojoir.ir.nodes import Access
from dojoir.passes.base.move import BufferName
from dojoir.passes.engine.trace import Trace
from dojoir.passes.loops.tiling import Tile
from dojoir.passes.schedule.facts.product_facts import MatrixProduct, products
from dojoir.passes.schedule.facts.strides import depends, lanes_of
from dojoir.passes.schedule.steps.combinators import tried
from dojoir.passes.schedule.steps.spots import Array, Spot, act, first_nest, fuse, mark_all, nested, spot
from dojoir.passes.storage.layout import ReorderDims
from dojoir.support.frozen import dataclass

VECTORS = 2
"""How many vectors of columns a tile has."""


@dataclass(frozen=True)
class MatmulOperand:
    """An array that is multiplied: the dimension that goes `across` the sum, along rows or columns of the product,
    and the one that the `sum` runs along."""

    array: str
    across: int
    sum: int


def block_products(
    trace: Trace,
    rows: int = 0,
    columns: int = 0,
    row_block: int = 96,
    column_block: int = 1024,
    sum_block: int = 512,
    machine: Machine | str = "host",
) -> None:
    """Gives each product of matrices, a nest `i > j > (…, k > c[i, j] += a[i, k] * b[k, j], …)` with the operands
    stored in any order, three levels of blocking. Blocks of b of `sum_block` by `column_block` elements and of a of
    `row_block` by `sum_block`, each packed into strips, and tiles of c of `rows` by `columns` elements that stay in
    registers, the columns in lanes. Blocks should be whole numbers of tiles. Where rows or columns are 0, a tile is
    as many rows of two vectors as the registers of the machine hold beside the operands.

    It is for products that are larger than a cache. A product for which a move is refused stays as it was.

    >>> import dojoir
    >>> trace = dojoir.PASSES["block_products"].given("8", "32").on(dojoir.kernels.load("matmul_nt"))
    >>> print("\\n".join(line for line in str(trace.kernel).splitlines() if line.startswith("tmp")))
    tmp c_tile: f32[8, 32] reg
    tmp b_panel: f32[32, 32, 512] order(0, 2, 1)
    tmp a_panel: f32[12, 8, 512] order(0, 2, 1)
    """
    machine = machine if isinstance(machine, Machine) else machine_named(machine)
    for product in reversed(list(products(trace.kernel))):
        operands = _operands(product)
        if operands is not None:
            target = product.site.statement.target.buffer
            wide = columns or VECTORS * lanes_of(trace.kernel, target, machine)
            high = rows or (8 if machine.registers >= 32 else 6)
            blocks = (row_block, column_block, sum_block)
            tried(trace, partial(_block, product=product, operands=operands, tile=(high, wide), blocks=blocks))


def _operands(product: MatrixProduct) -> tuple[MatmulOperand, MatmulOperand] | None:
    """The operand that goes along the rows of the product, and the one that goes along its columns."""
    _, *reads = product.site.statement.accesses
    inner = len(product.site.scopes) - 1
    left = [a for a in reads if depends(a, inner - 2) and not depends(a, inner - 1)]
    right = [a for a in reads if a.buffer == product.panel]
    if len(left) != 1 or len(right) != 1:
        return None
    found = []
    for access, depth in ((left[0], inner - 2), (right[0], inner - 1)):
        across, summed = _dims(access, depth), _dims(access, inner)
        if len(across) != 1 or len(summed) != 1 or across == summed:
            return None
        found.append(MatmulOperand(access.buffer, across[0], summed[0]))
    return found[0], found[1]


def _dims(access: Access, depth: int) -> list[int]:
    """The dimensions in which an access uses the iterator of `depth`."""
    return [d for d, index in enumerate(access.indices) if depends(Access("", (index,)), depth)]


def _block(
    trace: Trace,
    product: MatrixProduct,
    operands: tuple[MatmulOperand, MatmulOperand],
    tile: tuple[int, int],
    blocks: Iterable[int],
) -> None:
    (left, right), (rows, columns) = operands, tile
    fuse(trace, product.site.path)
    i = first_nest(spot(trace, product.rows).child(0)).alone(2)
    j, k = i.child(0), i.child(0, 0)
    act(trace, Tile, (i, j, k), blocks)
    ir, jr, kr = i.child(0, 0, 0), i.child(0, 0, 0, 0), i.child(0, 0, 0, 0, 0)
    i.sink(2)
    act(trace, Tile, (ir, jr), (rows, columns))
    row, column = ir.child(0, 0), ir.child(0, 0, 0)
    ir.swap()
    column.sink(1)
    row.sink(1)
    kr.stage(product.site.statement.target.buffer, "tile", "inout", "reg")
    for nest in (
        kr.beside(-1),
        kr.child(0),
        kr.beside(1),
    ):  # the tile stays in registers while the sum runs over it
        *around, lanes = nested(nest)
        mark_all([*((scope, "u") for scope in around), (lanes, "v")])
    _pack(trace, i, right, columns)
    _pack(trace, jr, left, rows)


def _pack(trace: Trace, nest: Spot, operand: MatmulOperand, size: int) -> None:
    """Packs what a nest reads of an operand: strips of `size` elements across, side by side along the sum."""
    across = operand.across
    name = nest.stage(operand.array, "panel", "in")
    strips = nest.beside(-1).child(*(0,) * across).split(size)
    Array(trace, name).split(across, size)
    strip = (across, operand.sum + (operand.sum > across), across + 1)
    others = [d for d in range(len(trace.kernel.buffer(name).dims)) if d not in strip]
    tried(trace, ReorderDims(BufferName(name), (*others, *strip)))
    strips.mark("v")
