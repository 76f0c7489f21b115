"""Passes as actions: what takes many moves in a row, drawn with its parameters as a move is, recorded as its moves.

A product with a tile in registers is some twenty moves away from its text, each of which gains nothing by itself.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator, Mapping

import dojoir

Space = Callable[[dojoir.Machine, int], Iterator[str]]
"""The texts of a pipeline for every choice of parameters on a machine with so many threads."""


def _tiles(machine: dojoir.Machine) -> Iterator[tuple[int, int]]:
    """Rows and columns whose tile leaves registers for two operands."""
    lanes = max(1, machine.vector_bytes // 4)
    for vectors in (1, 2, 3, 4):
        for rows in range(1, machine.registers // vectors + 1):
            if rows * vectors + vectors + 1 <= machine.registers:
                yield rows, vectors * lanes


def _register_tile(machine: dojoir.Machine, threads: int) -> Iterator[str]:
    yield "register_tile"
    yield from (f"register_tile({rows}, {columns})" for rows, columns in _tiles(machine) if rows > 1)


def _blocks(machine: dojoir.Machine, threads: int) -> Iterator[str]:
    """Blocks of whole tiles: of a, within the second cache, of a column of b, within the first."""
    for rows, columns in _tiles(machine):
        if rows < 4:
            continue
        for sums in (64, 128, 256, 512):
            for down in (4, 8, 16):
                for across in (4, 16, 32):
                    yield f"block_products({rows}, {columns}, {down * rows}, {across * columns}, {sums})"


def _lanes(machine: dojoir.Machine, threads: int) -> Iterator[str]:
    yield "each(<innermost>, try(vectorize(it)))"
    lanes = max(1, machine.vector_bytes // 4)
    for count in (1, 2, 4, 8):
        yield f"each(<innermost>, try(split(it, {lanes * count}))); each(<innermost>, try(vectorize(it)))"


def _rows(machine: dojoir.Machine, threads: int) -> Iterator[str]:
    """The first scope shared out over the cores, an iteration or several at a time."""
    if threads > 1:
        yield "try(parallelize(0))"
        yield from (f"try(split(0, {count}), parallelize(0))" for count in (2, 4, 8, 16, 32, 64))


def _simple(machine: dojoir.Machine, threads: int) -> Iterator[str]:
    yield from ("simplify", "join_all", "default_schedule")


FORMS = ("joined", "products", "chained", "apart", "sunk", "residues", "ends", "packed")
STRUCTURES = (
    "rows_in_warps", "rows_in_blocks", "rules", "elements_in_threads", "blocks_in_threads", "rows_as_one",
    "sum_along", "sum_across", "partial_sums", "partial_products", "few_rows", "large_tiles", "small_tiles",
    "quad_tiles", "scaled_tiles", "large_group_tiles", "small_group_tiles", "large_matrix_tiles",
    "small_matrix_tiles", "open_matrix_tiles", "row_products", "adds_at_data", "copies_in_blocks",
    "assigns_at_data", "columns_in_threads",
)  # fmt: skip
"""For GPUs, the arguments of the passes `arrange` (FORMS) and `structure` (STRUCTURES): what the planner tries."""

NESTS = 6
"""For so many nests of a kernel the structures of a GPU are tried."""


def _planned(machine: dojoir.Machine, threads: int) -> Iterator[str]:
    """A form of the kernel or a structure of one nest, as the planner for GPUs tries them."""
    if machine.kind == "gpu":
        yield from (f"arrange({form})" for form in FORMS)
        yield from (f"structure({nest}, {name})" for nest in range(NESTS) for name in STRUCTURES)


WITHOUT = (
    "waves", "turned_recurrences", "triangles", "columns_alone", "long_sums", "register_tiles", "channel_tiles",
    "window_tiles", "gathered_rows", "rows_in_lanes", "sums_abreast", "rows_abreast", "blocks_apart",
    "sums_in_parts", "blocks_of_scans", "interchange", "lanes", "streams", "next_rows", "cores",
)  # fmt: skip
"""The structures for CPUs that the schedule by rule can do without: arguments of the pass `default_without`."""


def _without(machine: dojoir.Machine, threads: int) -> Iterator[str]:
    if machine.kind == "cpu":
        yield from (f"default_without({name})" for name in WITHOUT)


ACTIONS: Mapping[str, Space] = {
    "register_tile": _register_tile,
    "blocks": _blocks,
    "lanes": _lanes,
    "rows": _rows,
    "simple": _simple,
    "without": _without,
    "planned": _planned,
}
"""The families of actions by name."""

NAMED = frozenset({"simple", "without"})
"""Those whose parameters are names: none is between two others."""


def after(trace: dojoir.Trace, text: str, target: str) -> dojoir.Trace | None:
    """The trace after an action, given as the text of a pipeline; None where it changes nothing."""
    try:
        longer = make(trace.copy(), text, target)
    except dojoir.DojoError:
        return None
    return longer if longer.kernel != trace.kernel else None


def make(trace: dojoir.Trace, text: str, target: str) -> dojoir.Trace:
    """The trace, on which the moves and passes of a pipeline are made. Raises DojoError where one is refused."""
    for element in dojoir.parse_pipeline(text, machine=dojoir.machine_for(target)):
        make_one(trace, element)
    trace.choice = text
    return trace


def make_one(trace: dojoir.Trace, element: dojoir.Move | dojoir.Pass) -> None:
    """Makes a move or a pass. Raises DojoError where it is refused."""
    if isinstance(element, dojoir.Pass):
        element(trace)
    else:
        trace.apply(element)


def spread(target: str, threads: int, each: int) -> dict[str, str]:
    """Up to `each` texts of every family, evenly spread over its parameters, the first among them, and all of one
    that has names, with the name of the family: for a player who ranks all that can be done."""
    machine, found = dojoir.machine_for(target), dict[str, str]()
    for family, space in ACTIONS.items():
        texts = [*space(machine, threads)]
        count = len(texts) if family in NAMED else min(each, len(texts))
        found.update((texts[number * len(texts) // count], family) for number in range(count))
    return found


def drawn(
    trace: dojoir.Trace, rng: random.Random, target: str, threads: int, tries: int = 3
) -> dojoir.Trace | None:
    """The trace after an action that was drawn, first the family, then its parameters; None where no try changes
    the kernel."""
    machine = dojoir.machine_for(target)
    families = [texts for space in ACTIONS.values() if (texts := [*space(machine, threads)])]
    for _ in range(tries):
        longer = after(trace, rng.choice(rng.choice(families)), target)
        if longer is not None:
            return longer
    return None
