"""The numbers that the parameters of moves are worth trying at: made from extents and from the machine.

What a schedule blocks by is a count of registers (the rows of a tile), of vectors (its columns), a part of a cache
(the blocks around them), or divides an extent. Nothing here knows a schedule.
"""

from __future__ import annotations

from collections.abc import Iterator

from dojoir.backends.machine import Machine
from dojoir.ir.nodes import Kernel, Path, Scope

ITEM = 4
"""The bytes of the element that lanes are counted by: other sizes give powers of two that are there besides."""


def numbers_of(machine: Machine) -> Iterator[int]:
    """The numbers from 2 on that a machine gives reason to try, some of them more than once."""
    yield from range(2, machine.registers + 1)
    lanes = max(1, machine.vector_bytes // ITEM)
    yield from (lanes * count for count in range(1, machine.registers + 1))
    number = 2
    while number <= max(machine.caches, default=1 << 20):
        yield number
        number *= 2


def divisors(extent: int, most: int = 1 << 12) -> Iterator[int]:
    """The divisors of an extent between 1 and itself, up to `most`."""
    return (d for d in range(2, min(extent, most + 1)) if extent % d == 0)


def worth_trying(kernel: Kernel, place: Path | str, machine: Machine) -> list[int]:
    """The numbers for a parameter of a move at a node (its path) or on a buffer (its name), in rising order: those
    of the machine, and the divisors of the constant extents there."""
    found = set(numbers_of(machine))
    for extent in _constants(kernel, place):
        found.update(divisors(extent))
    return sorted(found)


def _constants(kernel: Kernel, place: Path | str) -> Iterator[int]:
    if isinstance(place, str):
        yield from (dim.extent.offset for dim in kernel.buffer(place).dims if dim.extent.is_constant)
        return
    node = kernel.at(place)
    while isinstance(node, Scope):
        if node.constant_bound is not None:
            yield node.constant_bound
        if len(node.body) != 1:
            return
        node = node.body[0]
