"""Whether a move is among those that are worth trying at its place."""

from __future__ import annotations

from typing import get_args

from dojoir.backends.machine import MACHINES, Machine
from dojoir.grammar import parse_conditions
from dojoir.ir.nodes import Kernel
from dojoir.passes.base.move import BufferName, Formula, Move, Place, Quoted, Word

MACHINE = MACHINES["avx512"]


def bare(move: Move, kernel: Kernel) -> tuple[object, ...]:
    """A move without the names that it is free to choose: places as paths, new temporaries and labels as blanks."""

    place = move.anchor(kernel)
    depth = kernel.depth_of(place) if isinstance(place, tuple) else 0

    def plain(value: object, kind: object) -> object:
        if isinstance(value, tuple):
            return tuple(plain(part, get_args(kind)[0]) for part in value)
        if isinstance(value, Formula):  # a fixed size may be written by its name
            return value.extent(kernel, depth) if isinstance(place, tuple) else value.text.replace(" ", "")
        if isinstance(value, Quoted):
            conditions = parse_conditions(value.text, kernel, depth)
            return frozenset((condition.relation, condition.left - condition.right) for condition in conditions)
        if kind is Place:
            return kernel.path(str(value))
        if kind is BufferName and value not in kernel.declared:
            return "_"
        if kind is Word and move.name == "label":
            return "_"
        return str(value)

    return move.name, *(plain(getattr(move, name), kind) for name, kind in move.parameters().items())


def in_space(move: Move, kernel: Kernel, machine: Machine = MACHINE) -> bool:
    place = move.anchor(kernel)
    assert place is not None, move
    wanted = bare(move, kernel)
    return any(bare(other, kernel) == wanted for other in type(move).space(kernel, place, machine))
