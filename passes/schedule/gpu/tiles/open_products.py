"""Products of matrices of open sizes on a GPU: tiles where they divide the sizes of a call, chosen there."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from math import prod

from dojoir.backends.machine import Machine
from dojoir.errors import ArgumentError
from dojoir.ir.nodes import Path
from dojoir.passes.engine.trace import Trace
from dojoir.passes.hardware.marks import Bind
from dojoir.passes.schedule.facts.products import Product, products
from dojoir.passes.schedule.gpu.tiles.products import BlockTile, grid_of_tiles, tile_blocks
from dojoir.passes.schedule.steps.combinators import tried
from dojoir.passes.schedule.steps.spots import Spot, act, spot
from dojoir.passes.schedule.steps.versions import AtMost, Multiple, split_versions

LARGE, MIDDLE = BlockTile(256, 128, 8, 16, 8), BlockTile(128, 128, 8, 16, 8)
DEEP, SMALL = BlockTile(64, 64, 16, 8, 4), BlockTile(64, 64, 8, 4, 8)
HALVES = BlockTile(128, 64, 16, 8, 8), BlockTile(128, 64, 8, 8, 8)
"""In place of the larger ones, where a thread has no room for these: of elements of 8 bytes. The deeper one waits
half as often."""

ENOUGH = 0.9
"""The least share of the multiprocessors that tiles must occupy, to be worth their size."""


def product_by_size(
    trace: Trace, path: Path, batched: bool, machine: Machine, rest: Callable[[Trace, Path], None]
) -> None:
    """Gives the product of matrices at `path` (of a batch of them, if `batched`) tiles. Large ones where there are
    enough of these for all multiprocessors, small ones where there are not, and the schedule of `rest` to sizes
    that these do not divide. Raises DojoError where it is no product."""
    product = _product_of(spot(trace, path), batched)
    extents = [scope.extent.bounds[0] for scope in product.site.scopes[-3:]]
    itemsize = max(trace.kernel.buffer(a.buffer).dtype.itemsize for a in product.site.statement.accesses)
    fitting = [tile for tile in (LARGE, MIDDLE, DEEP, SMALL) if tile.has_room(machine, itemsize)]
    if MIDDLE not in fitting:
        fitting[:0] = [tile for tile in HALVES if tile.has_room(machine, itemsize)]
    if all(extent.is_constant for extent in extents):
        results = prod(scope.extent.constant or 1 for scope in product.site.scopes[-4 if batched else -3 : -1])
        for tile in _in_order(results, batched, machine, fitting):
            if tried(trace, partial(_whole_product, path=path, batched=batched, tile=tile)):
                return
        raise ArgumentError("no tile divides the sizes", "bad-arguments")
    open_tiles = [tile for tile in ((SMALL,) if batched else (MIDDLE, HALVES[1], SMALL)) if tile in fitting]
    if not open_tiles:
        raise ArgumentError(f"{machine.name} has no room for a tile", "bad-arguments")
    tile = open_tiles[0]
    uneven = [e for e, size in zip(extents, tile, strict=False) if e.is_constant and e.offset % size]
    if uneven:
        raise ArgumentError(f"no tile divides {uneven[0]}", "bad-arguments")
    properties = [Multiple(str(e), size) for e, size in zip(extents, tile, strict=False) if not e.is_constant]
    others, here = split_versions(trace, path, *properties)
    places = [here]
    if tile != SMALL:
        side = 2 * int((machine.multiprocessors * tile.height * tile.width) ** 0.5)
        places = [*split_versions(trace, here, AtMost(f"{extents[0]} + {extents[1]}", side - 1))]
    versions = [spot(trace, at) for at in places]
    rest(trace, others)
    for version, size in zip(versions, (tile, SMALL), strict=False):
        tile_blocks(trace, _rows(version, batched), size)
    for version in versions:  # last, as each move after them is held against what they promise
        _grid(trace, version, batched)


def _in_order(results: int, batched: bool, machine: Machine, fitting: Sequence[BlockTile]) -> list[BlockTile]:
    """The tiles to try for so many results of a product, or of a batch of them, of those for which there is room:
    the largest of which there are enough first, then smaller ones. Blocks of one small product, of which few run at
    once, wait half as often for each other's copies with deep tiles."""
    tiles = [tile for tile in fitting if not (batched and tile == DEEP)]
    enough = [tile for tile in tiles if results >= ENOUGH * tile.height * tile.width * machine.multiprocessors]
    return [*enough, *(tile for tile in reversed(tiles) if tile not in enough)]


def _product_of(nest: Spot, batched: bool) -> Product:
    """The product of matrices, rows, columns and sums inside each other, of a nest."""
    rows = _rows(nest, batched).path
    product = next((p for p in products(nest.trace.kernel) if p.rows == rows), None)
    if product is None or any(len(scope.extent.bounds) > 1 for scope in product.site.scopes[-3:]):
        raise ArgumentError("no product of matrices", "bad-arguments")
    return product


def _rows(nest: Spot, batched: bool) -> Spot:
    """The rows of a product, or of each in a batch."""
    return nest.child(0) if batched else nest


def _grid(trace: Trace, nest: Spot, batched: bool) -> None:
    """Gives the tiles of a product, or of each in a batch, to the blocks of a GPU."""
    grid_of_tiles(trace, _rows(nest, batched))
    if batched:
        act(trace, Bind, nest, "gz")


def _whole_product(trace: Trace, path: Path, batched: bool, tile: BlockTile) -> None:
    nest = spot(trace, path)
    tile_blocks(trace, _rows(nest, batched), tile)
    _grid(trace, nest, batched)
