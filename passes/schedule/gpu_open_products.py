"""Products of matrices of open sizes on a GPU: tiles where they divide the sizes of a call, chosen there."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from dojoir.backends.machine import Machine
from dojoir.errors import ArgumentError
from dojoir.ir.nodes import Path, format_path
from dojoir.passes.engine.trace import Trace
from dojoir.passes.schedule.combinators import make, tried
from dojoir.passes.schedule.gpu_products import tile_blocks
from dojoir.passes.schedule.register_tile import products
from dojoir.passes.schedule.versions import AtMost, Multiple, split_versions

LARGE, MIDDLE, DEEP, SMALL = (256, 128, 8, 16, 8), (128, 128, 8, 16, 8), (64, 64, 16, 8, 4), (64, 64, 8, 4, 8)
"""Rows, columns and depth of a tile, then the rows and columns of it that a thread has."""

ENOUGH = 0.9
"""The least share of the multiprocessors that tiles must occupy, to be worth their size."""


def product_by_size(
    trace: Trace, path: Path, batched: bool, machine: Machine, rest: Callable[[Trace, Path], None]
) -> None:
    """Gives the product of matrices at `path` (of a batch of them, if `batched`) tiles: large ones where there are
    enough of these for all multiprocessors, small ones where there are not, and the schedule of `rest` to sizes
    that these do not divide. Raises DojoError where it is no product."""
    extents = _extents(trace, _rows(path, batched))
    if all(extent.isdigit() for extent in extents):
        for tile in _in_order(int(extents[0]) * int(extents[1]), batched, machine):
            if tried(trace, partial(_whole_product, path=path, batched=batched, tile=tile)):
                return
        raise ArgumentError("no tile divides the sizes", "bad-arguments")
    tile = SMALL if batched else MIDDLE
    uneven = [e for e, size in zip(extents, tile, strict=False) if e.isdigit() and int(e) % size]
    if uneven:
        raise ArgumentError(f"no tile divides {uneven[0]}", "bad-arguments")
    properties = [Multiple(e, size) for e, size in zip(extents, tile, strict=False) if not e.isdigit()]
    others, here = split_versions(trace, path, *properties)
    places = [here]
    if not batched:
        side = 2 * int((machine.multiprocessors * tile[0] * tile[1]) ** 0.5)
        places = [*split_versions(trace, here, AtMost(f"{extents[0]} + {extents[1]}", side - 1))]
    rest(trace, others)
    for at, size in zip(places, (tile, SMALL), strict=False):
        _tile(trace, at, batched, size)
    for at in places:  # last, as each move after them is held against what they promise
        _grid(trace, at, batched)


def _in_order(results: int, batched: bool, machine: Machine) -> list[tuple[int, ...]]:
    """The tiles to try for so many results: the largest of which there are enough first, then smaller ones. Blocks
    of one small product, of which few run at once, wait half as often for each other's copies with deep tiles."""
    tiles = [LARGE, MIDDLE, SMALL] if batched else [LARGE, MIDDLE, DEEP, SMALL]
    enough = [tile for tile in tiles if results >= ENOUGH * tile[0] * tile[1] * machine.multiprocessors]
    return [*enough, *(tile for tile in reversed(tiles) if tile not in enough)]


def _extents(trace: Trace, rows: Path) -> list[str]:
    """How many rows, columns and products for each result there are."""
    product = next((p for p in products(trace.kernel) if p.rows == rows), None)
    if product is None or any(len(scope.extent.bounds) > 1 for scope in product.site.scopes[-3:]):
        raise ArgumentError("no product of matrices", "bad-arguments")
    return [str(scope.extent.bounds[0]) for scope in product.site.scopes[-3:]]


def _tile(trace: Trace, path: Path, batched: bool, tile: tuple[int, ...]) -> None:
    height, width, depth, down, across = tile
    tile_blocks(trace, format_path(_rows(path, batched)), height, width, depth, down, across)


def _grid(trace: Trace, path: Path, batched: bool) -> None:
    rows = format_path(_rows(path, batched))
    make(trace, f"bind({rows}, gy)")
    make(trace, f"bind({rows}.0, gx)")
    if batched:
        make(trace, f"bind({format_path(path)}, gz)")


def _rows(path: Path, batched: bool) -> Path:
    return (*path, 0) if batched else path


def _whole_product(trace: Trace, path: Path, batched: bool, tile: tuple[int, ...]) -> None:
    _tile(trace, path, batched, tile)
    _grid(trace, path, batched)
