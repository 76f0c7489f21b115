"""Masks on targets that have them for some types only: where what is left of a scope runs with some lanes off.

AVX2 reads and writes neighbours of 32 and 64 bits under a mask (`vmaskmovps`), and nothing else.
"""

from __future__ import annotations

from dojoir.codegen.lower.access.conversions import as_stored
from dojoir.codegen.lower.access.state import LoweringState, LoweringUnit, Memory
from dojoir.codegen.lower.access.stream import is_contiguous
from dojoir.codegen.lower.plans.placement import BufferMention
from dojoir.ir.nodes import Path
from dojoir.ir.paths import is_inside
from dojoir.ir.places import is_uniform


def may_mask(unit: LoweringUnit, path: Path, state: LoweringState) -> bool:
    """Whether the scope at `path`, one in lanes, may leave some of them off. Each access in it is to a variable,
    to an element that all lanes share, or to neighbours of a width that the target masks. That is in memory that
    is not added to (a masked store is not forwarded to the load after it, which waits for it). `state` is that
    around the scope."""
    return bool(unit.target.masked) and all(
        _is_maskable(unit, use, unit.kernel.depth_of(path), state)
        for uses in unit.uses.values()
        for use in uses
        if is_inside(use.site.path, path)
    )


def _is_maskable(unit: LoweringUnit, use: BufferMention, depth: int, state: LoweringState) -> bool:
    place = state.places.get(use.access.buffer)
    if is_uniform(unit.kernel, use.access, depth):
        return True
    if not isinstance(place, Memory) or place.copies != 1:
        return False
    bits = as_stored(place.layout.buffer.dtype, unit.target).bits
    if bits not in unit.target.masked or not is_contiguous(use.access, place, depth):
        return False
    statement = use.site.statement
    added_to = use.writes and (statement.accumulation is not None or statement.target in statement.reads)
    return not added_to or unit.arrays[place.array].lives == "stack"
