"""The structures of nests for a GPU: what the planner tries on each, and which of them are sure."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial

from dojoir.backends.machine import Machine
from dojoir.ir.nodes import Path
from dojoir.passes.engine.trace import Trace
from dojoir.passes.schedule.gpu.nest_rules import elements_in_threads, schedule_grid
from dojoir.passes.schedule.gpu.rows.blocks import blocks_in_threads
from dojoir.passes.schedule.gpu.rows.reductions import (
    few_rows,
    partial_products,
    partial_sums,
    rows_of_warps,
    sum_across,
    sum_along,
)
from dojoir.passes.schedule.gpu.rows.rows import rows_as_one, rows_in_blocks, rows_in_warps
from dojoir.passes.schedule.gpu.rows.scatters import (
    adds_at_data,
    assigns_at_data,
    columns_in_threads,
    copies_in_blocks,
)
from dojoir.passes.schedule.gpu.tiles.contractions import large_tiles, quad_tiles, scaled_tiles, small_tiles
from dojoir.passes.schedule.gpu.tiles.matrix_units import (
    large_group_tiles,
    large_matrix_tiles,
    open_tiles,
    small_group_tiles,
    small_matrix_tiles,
)
from dojoir.passes.schedule.gpu.tiles.row_products import row_products
from dojoir.passes.schedule.steps.spots import Spot

Structure = Callable[[Trace, Path, Machine], Sequence[Spot] | None]
"""Schedules the nest at a path, or makes several nests of it, which it returns. Raises DojoError where the nest is
not of its form."""


def rules(trace: Trace, path: Path, machine: Machine) -> None:
    """The schedule of a nest by the rules."""
    schedule_grid(trace, path, machine)


def open_matrix_tiles(trace: Trace, path: Path, machine: Machine) -> None:
    """Tiles on matrix units for open sizes that allow it, the rules for others."""
    open_tiles(trace, path, machine, partial(schedule_grid, machine=machine))


SURE: tuple[Structure, ...] = (rows_in_warps, rows_in_blocks, rules)
"""The structures that need not beat the rules by a margin: rows of constant length have the same schedule however
many there are."""

STRUCTURES: tuple[Structure, ...] = (
    rows_in_warps,
    rows_in_blocks,
    rules,
    elements_in_threads,
    blocks_in_threads,
    rows_as_one,
    sum_along,
    sum_across,
    partial_sums,
    partial_products,
    rows_of_warps,
    few_rows,
    large_tiles,
    small_tiles,
    quad_tiles,
    scaled_tiles,
    large_group_tiles,
    small_group_tiles,
    large_matrix_tiles,
    small_matrix_tiles,
    open_matrix_tiles,
    row_products,
    adds_at_data,
    copies_in_blocks,
    assigns_at_data,
    columns_in_threads,
)
"""The structures, in the order in which they are tried. After the rules, no other is tried once one comes near to
the least seconds that a schedule can have."""
