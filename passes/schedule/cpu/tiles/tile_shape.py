"""How high and wide a register tile is: by the registers of the machine, and by the sizes that are known.

A tile of r rows and v vectors of columns asks for r * v multiply-adds and about r + v loads in each step of the
sum. Rows that are left over, fewer than a tile has, run by another way, which costs about two tiles; columns that
are left over run with all lanes, as many of which are in vain. So where the numbers of rows and columns are known,
the tile is the one with the least to do in all.
"""

from __future__ import annotations

from collections.abc import Iterator

from dojoir.backends.machine import Machine

MOST_COLUMNS = 64
"""How many columns a tile has at most: so many lanes a scope may have."""

LATENCY = 8
"""How many multiply-adds can begin before the first is done: a smaller tile waits."""

LOAD = 0.25
"""The cost of a load, in multiply-adds: it runs at the same time, but comes from a cache."""

GAIN = 0.92
"""Another tile is taken only if its cost is below this share of the default's: smaller gains are uncertain."""

LEFT, FEW = 2.0, 1.25
"""The cost of leftover rows, in tiles: those of a tile that fills the registers, and of a lower one."""

PARTLY = 2.7
"""The cost of leftover columns of a convolution, in tiles, on a machine that has no masks for them."""

ODD, EVEN = 2.0, 1.1
"""The cost of leftover columns, in tiles: code for vectors that are no power of two is worse."""

NARROW = (1.25, 1.25, 1.1)
"""The cost factor of a tile that reads few adjacent cache lines of an array that is not packed. Others prefetch
better, and half a line is wanted again later."""

LINE = 64
"""The bytes of a line."""

DOT = 2.5
"""The cost of one vector of a sum in lanes, in multiply-adds: it loads both factors, and nothing is used twice."""

SCATTER = 4
"""The cost of a scattered store: the neighbours of a vector do not lie side by side."""

ADDED_UP = 13
"""The cost of adding up the lanes of a sum."""


def default_shape(machine: Machine, lanes: int) -> tuple[int, int]:
    """Rows and columns where no numbers are known: nearly square in registers."""
    return tile_rows(machine), columns_of(machine, lanes, _vectors(machine))


def tile_rows(machine: Machine) -> int:
    """The rows of such a tile: as many as leave registers for a row's element and a vector of each column."""
    return (machine.registers - _vectors(machine) - 2) // _vectors(machine)


def columns_of(machine: Machine, lanes: int, vectors: int) -> int:
    """The columns of a tile of so many vectors."""
    return min(max(vectors * lanes, 1), MOST_COLUMNS)


def shape_for(machine: Machine, lanes: int, rows: int | None, columns: int | None) -> tuple[int, int]:
    """Rows and columns for a product that has so many, as far as it is known."""
    if (rows is None and columns is None) or lanes < 2:
        return default_shape(machine, lanes)
    usual, *others = _shapes(machine, lanes, rows, columns)
    best = min(others, key=lambda shape: _steps(machine, lanes, shape, rows, columns))
    better = _steps(machine, lanes, best, rows, columns) < GAIN * _steps(machine, lanes, usual, rows, columns)
    return best if better else usual


def sums_in_lanes(lanes: int, columns: int, summed: int | None) -> bool:
    """Whether so few columns, less than a vector has, cost less as sums in lanes, each of two vectors at a time,
    than as a tile that uses some of its lanes."""
    if summed is None:
        return columns * DOT < lanes
    return columns * (DOT * -(-summed // lanes) + ADDED_UP) < summed


def window_shape(
    machine: Machine,
    lanes: int,
    channels: int | None,
    columns: int | None,
    summed: int | None,
    strided: bool,
    begun: float = 0.0,
) -> tuple[bool, int, int]:
    """Whether the lanes of a convolution are channels, and the channels and columns of its tile: for so many, as
    far as they are known, each result a sum of so many products. They are channels where its columns are no
    neighbours (`strided`). `begun` is what each step costs beside its tile, in multiply-adds."""
    usual = (machine.registers - 4) // 2 - machine.registers // 16
    if channels is None or columns is None or lanes < 2:
        if strided or channels is None or channels >= 2 * lanes:
            return True, 2 * lanes, usual
        return False, machine.registers // 2, lanes
    found = []
    scattered = SCATTER * columns * channels / (summed or SCATTER * columns * channels)
    for high in range((machine.registers - 3) // 2, 0, -1):
        cost = (high != usual) * 0.01 + _window(machine, high, 2, columns, channels, 2 * lanes, usual, begun)
        found.append((cost + scattered, (True, 2 * lanes, high)))
    for vectors in () if strided else (1, 2):
        for few in range(machine.registers // (2 * vectors), 0, -1):
            cost = _window(machine, few, vectors, channels, columns, vectors * lanes, usual, begun)
            found.append((cost, (False, few, vectors * lanes)))
    return min(found)[1]


def _window(
    machine: Machine, high: int, vectors: int, down: int, across: int, wide: int, usual: int, begun: float
) -> float:
    """The cost of one step of the sum in all tiles of a convolution, of `high` rows and so many vectors: `down` by
    `across` elements, `wide` of them in the vectors of a tile. What is left of more rows than `usual` needs more
    registers than there are."""
    tile = max(high * vectors, LATENCY) + LOAD * (high + vectors)
    rows = down // high + ((LEFT if vectors * high > 2 * usual else FEW) if down % high else 0)
    times = across // wide + ((EVEN if machine.masks else PARTLY) if across % wide else 0)
    return (tile * rows + begun * -(-down // high)) * times


def _shapes(machine: Machine, lanes: int, rows: int | None, columns: int | None) -> Iterator[tuple[int, int]]:
    """The tile shapes that fit into the registers, the default first, then larger tiles before smaller ones."""
    high, wide = default_shape(machine, lanes)
    whole = MOST_COLUMNS if columns is None else lanes * -(-columns // lanes)
    yield min(high, rows or high), min(wide, whole)
    for vectors in range(min(MOST_COLUMNS, whole) // lanes, 0, -1):
        for height in range((machine.registers - vectors - 1) // vectors, 0, -1):
            if rows is None or height <= rows:
                yield height, vectors * lanes


def _steps(machine: Machine, lanes: int, shape: tuple[int, int], rows: int | None, columns: int | None) -> float:
    """The cost of one step of the sum in all tiles, in multiply-adds: of one row of tiles where rows are not
    known, and of a vector of columns where these are not. To pack the panel is a load and a store for each
    vector."""
    high, wide = shape
    vectors = wide // lanes
    tile = max(high * vectors, LATENCY) + LOAD * (high + vectors)
    left = EVEN if vectors & (vectors - 1) == 0 else ODD
    across = (1 + left / 32) / vectors  # of many columns, one tile is cut
    if columns is not None:
        across = columns // wide + (left if columns % wide else 0)
    if rows is None:
        return tile * across / high
    if rows <= high:
        lines = vectors * machine.vector_bytes // LINE
        return tile * across * (NARROW[lines] if lines < len(NARROW) and (columns or wide + 1) > wide else 1)
    down = rows // high + (LEFT if rows % high else 0)
    return (tile * down + 2 * vectors) * across


def _vectors(machine: Machine) -> int:
    return 4 if machine.registers >= 32 else 2
