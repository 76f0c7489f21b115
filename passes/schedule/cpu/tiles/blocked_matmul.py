"""`block_products`: products of matrices in blocks for the caches, with packed panels and a tile in registers.

Source: K. Goto and R. van de Geijn, "Anatomy of high-performance matrix multiplication" (2008); the names of the
loops are those of F. Van Zee and R. van de Geijn, "BLIS: a framework for rapidly instantiating BLAS functionality"
(2015).
"""

from __future__ import annotations

from functools import partial

from dojoir.backends.host import machine_named
from dojoir.backends.machine import Machine
from dojoir.ir.nodes import Access, Scope, Statement
from dojoir.passes.base.move import BufferName, fresh_name, place_of
from dojoir.passes.engine.trace import Trace
from dojoir.passes.hardware.marks import Unroll, Vectorize
from dojoir.passes.loops.sinking import SinkScope
from dojoir.passes.loops.splitting import Split
from dojoir.passes.loops.swapping import SwapScopes
from dojoir.passes.loops.tiling import Tile
from dojoir.passes.schedule.facts.products import Product, products
from dojoir.passes.schedule.facts.strides import depends
from dojoir.passes.schedule.steps.combinators import tried
from dojoir.passes.schedule.steps.spots import Spot, act, first_nest, spot, stand_alone
from dojoir.passes.storage.dims import SplitDim
from dojoir.passes.storage.layout import PlaceBuffer, ReorderDims
from dojoir.passes.storage.staging import Stage
from dojoir.passes.values.fma import ToFma
from dojoir.support.frozen import dataclass

VECTORS = 2
"""How many vectors of columns a tile has."""


@dataclass(frozen=True)
class Operand:
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
            size = trace.kernel.buffer(product.site.statement.target.buffer).dtype.itemsize
            wide = columns or max(VECTORS * machine.vector_bytes // size, 1)
            high = rows or (8 if machine.registers >= 32 else 6)
            blocks = (row_block, column_block, sum_block)
            tried(trace, partial(_block, product=product, operands=operands, tile=(high, wide), blocks=blocks))


def _operands(product: Product) -> tuple[Operand, Operand] | None:
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
        found.append(Operand(access.buffer, across[0], summed[0]))
    return found[0], found[1]


def _dims(access: Access, depth: int) -> list[int]:
    """The dimensions in which an access uses the iterator of `depth`."""
    return [
        d
        for d, index in enumerate(access.indices)
        if (depends(index, depth) if isinstance(index, Access) else depth in index.iterators)
    ]


def _block(
    trace: Trace,
    product: Product,
    operands: tuple[Operand, Operand],
    tile: tuple[int, int],
    blocks: tuple[int, int, int],
) -> None:
    left, right = operands
    rows, columns = tile
    tried(trace, ToFma(place_of(product.site.path), 0))
    i = stand_alone(trace, first_nest(spot(trace, product.rows).child(0)), 2)
    j, k = i.child(0), i.child(0, 0)
    act(trace, Tile, (i, j, k), blocks)
    ir, jr, kr = i.child(0, 0, 0), i.child(0, 0, 0, 0), i.child(0, 0, 0, 0, 0)
    act(trace, SinkScope, i, 2)
    act(trace, Tile, (ir, jr), (rows, columns))
    row, column = ir.child(0, 0), ir.child(0, 0, 0)
    act(trace, SwapScopes, ir)
    act(trace, SinkScope, column, 1)
    act(trace, SinkScope, row, 1)
    _keep_in_registers(trace, kr, product.site.statement.target.buffer)
    _pack(trace, i, right, columns)
    _pack(trace, jr, left, rows)


def _keep_in_registers(trace: Trace, summed: Spot, target: str) -> None:
    """Keeps the tile of the product in registers while the sum runs over it."""
    name = fresh_name(trace.kernel, f"{target}_tile")
    act(trace, Stage, summed, target, name, "inout")
    act(trace, PlaceBuffer, name, "reg")
    for nest in (summed.beside(-1), summed.child(0), summed.beside(1)):
        while not _is_leaf(nest):
            act(trace, Unroll, nest)
            nest = nest.child(0)
        act(trace, Vectorize, nest)


def _pack(trace: Trace, nest: Spot, operand: Operand, size: int) -> None:
    """Packs what a nest reads of an operand: strips of `size` elements across, side by side along the sum."""
    name = fresh_name(trace.kernel, f"{operand.array}_panel")
    across = operand.across
    act(trace, Stage, nest, operand.array, name, "in")
    copy = nest.beside(-1)
    act(trace, Split, copy.child(*(0,) * across), size)
    act(trace, SplitDim, name, across, size)
    strip = (across, operand.sum + (operand.sum > across), across + 1)
    others = [d for d in range(len(trace.kernel.buffer(name).dims)) if d not in strip]
    tried(trace, ReorderDims(BufferName(name), (*others, *strip)))
    act(trace, Vectorize, copy.child(*(0,) * (across + 1)))


def _is_leaf(nest: Spot) -> bool:
    node = nest.node
    return isinstance(node, Scope) and all(isinstance(child, Statement) for child in node.body)
