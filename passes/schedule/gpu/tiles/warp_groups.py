"""Products that four warps share: their operands are read from shared memory, swizzled, and not through registers.
Of copies that land later alone."""

from __future__ import annotations

from dojoir.backends.machine import Machine
from dojoir.ir.nodes import Path
from dojoir.passes.engine.trace import Trace
from dojoir.passes.schedule.facts.products import BYTES, FP8, HALVES
from dojoir.passes.schedule.gpu.tiles.matrix_units import matrix_tiles
from dojoir.passes.schedule.gpu.tiles.operands import Unit, WarpTiles
from dojoir.passes.schedule.steps.spots import Spot

GROUP = 128
"""The threads of four warps."""

LARGE, SMALL = WarpTiles(128, 128, 64, 128, 0, 3, GROUP), WarpTiles(64, 128, 64, 128, 0, 4, GROUP)
"""Tiles for results of which there are many, and of which there are few: more blocks."""


def large_group_tiles(trace: Trace, path: Path, machine: Machine) -> list[Spot]:
    """Tiles on matrix units that four warps share, for results of which there are many."""
    return matrix_tiles(trace, path, machine, LARGE, unit_of_groups)


def small_group_tiles(trace: Trace, path: Path, machine: Machine) -> list[Spot]:
    """Tiles on matrix units that four warps share, for results of which there are few: more blocks."""
    return matrix_tiles(trace, path, machine, SMALL, unit_of_groups)


def unit_of_groups(left: str, right: str, in_rows: tuple[bool, ...]) -> Unit | None:
    """The unit with which four warps multiply 64 rows by 128 columns. Terms of eight bits lie side by side."""
    if left == right and left in HALVES:
        turned = "".join(name for name, is_turned in zip("ab", in_rows, strict=True) if is_turned)
        return Unit(f"wgmma_m64n128k64_{f'trans_{turned}_' if turned else ''}{left}", "", 64, 1, 1)
    for kind, types in (("", FP8), ("byte_", BYTES)):
        if {left, right} <= {*types} and not any(in_rows):
            return Unit(f"wgmma_m64n128k128_{kind}{left}_{right}", "", 128, 1, 1, False)
    return None
