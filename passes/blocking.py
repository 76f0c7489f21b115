"""`block_products`: products of matrices in blocks for the caches, with packed panels and a tile in registers.

Source: K. Goto and R. van de Geijn, "Anatomy of high-performance matrix multiplication" (2008); the names of the
loops are those of F. Van Zee and R. van de Geijn, "BLIS: a framework for rapidly instantiating BLAS functionality"
(2015).
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial

from dojoir.ir import Access, Path, Scope, Statement, format_path
from dojoir.passes.combinators import make, tried
from dojoir.passes.move import fresh_name
from dojoir.passes.register_tile import Product, products
from dojoir.passes.strides import depends
from dojoir.passes.trace import Trace


@dataclass(frozen=True)
class Operand:
    """An array that is multiplied: the dimension that goes `across` the sum, along rows or columns of the product,
    and the one that the `sum` runs along."""

    array: str
    across: int
    sum: int


def block_products(
    trace: Trace,
    rows: int = 8,
    columns: int = 32,
    row_block: int = 96,
    column_block: int = 1024,
    sum_block: int = 512,
) -> None:
    """Gives each product of matrices, a nest `i > j > (…, k > c[i, j] += a[i, k] * b[k, j], …)` with the operands
    stored in any order, three levels of blocking: blocks of b of `sum_block` by `column_block` elements and of a of
    `row_block` by `sum_block`, each packed into strips, and tiles of c of `rows` by `columns` elements that stay in
    registers, the columns in lanes. Blocks should be whole numbers of tiles.

    It is for products that are larger than a cache. A product for which a move is refused stays as it was.

    >>> import dojoir
    >>> trace = dojoir.PASSES["block_products"].on(dojoir.kernels.load("matmul_nt"))
    >>> print("\\n".join(line for line in str(trace.kernel).splitlines() if line.startswith("tmp")))
    tmp c_tile: f32[8, 32] reg
    tmp b_panel: f32[32, 32, 512] order(0, 2, 1)
    tmp a_panel: f32[12, 8, 512] order(0, 2, 1)
    """
    for product in reversed(list(products(trace.kernel))):
        operands = _operands(product)
        if operands is not None:
            blocks = (row_block, column_block, sum_block)
            tried(trace, partial(_block, product=product, operands=operands, tile=(rows, columns), blocks=blocks))


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
    tried(trace, f"to_fma({format_path(product.site.path)}, 0)")
    jc = _alone(trace, product.rows)
    make(trace, f"tile({_at(jc)}, {_at(jc, 1)}, {_at(jc, 2)}, {', '.join(map(str, blocks))})")
    make(trace, f"sink_scope({_at(jc)}, 2)")
    ic, jr = (*jc, 0, 0), (*jc, 0, 0, 0)
    make(trace, f"tile({_at(jr)}, {_at(jr, 1)}, {rows}, {columns})")
    make(trace, f"swap_scopes({_at(jr)})")
    make(trace, f"sink_scope({_at(jr, 3)}, 1)")
    make(trace, f"sink_scope({_at(jr, 2)}, 1)")
    _keep_in_registers(trace, (*jr, 0, 0), product.site.statement.target.buffer)
    _pack(trace, ic, right, columns)
    _pack(trace, (*ic[:-1], 1, 0), left, rows)


def _alone(trace: Trace, nest: Path) -> Path:
    """Distributes the scopes over rows and columns, so that the sum stands alone in them."""
    columns = trace.kernel.at((*nest, 0))
    assert isinstance(columns, Scope)
    before = next(n for n, node in enumerate(columns.body) if isinstance(node, Scope))
    if len(columns.body) > before + 1:
        make(trace, f"split_scopes({_at(nest, 1)}, {before + 1})")
        make(trace, f"split_scopes({_at(nest)}, 1)")
    if before:
        make(trace, f"split_scopes({_at(nest, 1)}, {before})")
        make(trace, f"split_scopes({_at(nest)}, 1)")
        nest = (*nest[:-1], nest[-1] + 1)
    return nest


def _keep_in_registers(trace: Trace, summed: Path, target: str) -> None:
    """Keeps the tile of the product in registers while the sum runs over it."""
    name = fresh_name(trace.kernel, f"{target}_tile")
    make(trace, f"stage({_at(summed)}, {target}, {name}, inout)")
    make(trace, f"place({name}, reg)")
    for nest in ((*summed[:-1], 0), (*summed[:-1], 1, 0), (*summed[:-1], 2)):
        while not _is_leaf(trace, nest):
            make(trace, f"unroll({_at(nest)})")
            nest = (*nest, 0)
        make(trace, f"vectorize({_at(nest)})")


def _pack(trace: Trace, nest: Path, operand: Operand, size: int) -> None:
    """Packs what a nest reads of an operand: strips of `size` elements across, side by side along the sum."""
    name = fresh_name(trace.kernel, f"{operand.array}_panel")
    across = operand.across
    make(trace, f"stage({_at(nest)}, {operand.array}, {name}, in)")
    make(trace, f"split({_at(nest, across)}, {size})")
    make(trace, f"split_dim({name}, {across}, {size})")
    strip = (across, operand.sum + (operand.sum > across), across + 1)
    others = [d for d in range(len(trace.kernel.buffer(name).dims)) if d not in strip]
    tried(trace, f"reorder_dims({name}, {', '.join(map(str, (*others, *strip)))})")
    make(trace, f"vectorize({_at(nest, across + 1)})")


def _at(path: Path, levels: int = 0) -> str:
    """The place so many levels inside a perfect nest."""
    return format_path(path + (0,) * levels)


def _is_leaf(trace: Trace, path: Path) -> bool:
    node = trace.kernel.at(path)
    return isinstance(node, Scope) and all(isinstance(child, Statement) for child in node.body)
