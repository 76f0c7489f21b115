"""The units of a kernel: neighbouring nests that are scheduled apart from all others.

The schedule of a nest follows from the nest, from the arrays that it uses, and from whether others use them as
well. So a unit is a kernel of its own, whose arguments are the arrays that it shares with other nests. Its moves
are found on this small kernel, once for all units that are alike: in other forms of the kernel, and in the layers
of a model. Then they are made on the kernel itself, where each is checked as any move is. So a unit that lacks
something of its surroundings costs a refusal, never a wrong kernel.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import replace
from itertools import count
from typing import ClassVar

from dojoir.errors import KernelError
from dojoir.ir.nodes import Access, Buffer, Kernel
from dojoir.ir.rewriting.rename import renamed
from dojoir.passes.base.move import Move, fresh_name
from dojoir.passes.engine.engine import prove_unless_known
from dojoir.passes.engine.trace import Trace
from dojoir.passes.schedule.plan.translation import translated, with_names
from dojoir.support.frozen import dataclass

OWN_NAME = "array"
"""What the arrays of a unit are called, with their number after it."""

_OWN = re.compile(rf"({OWN_NAME}\d+)(\D.*)")


@dataclass(frozen=True)
class Unit:
    """Nests of a kernel from the one with the number `first` on, as a kernel of their own. `names` are those of the
    arrays in the whole kernel by those that they have here."""

    first: int
    kernel: Kernel
    names: Mapping[str, str]

    def in_whole(self, text: str) -> str:
        """A text about this kernel, as one about the whole."""
        return with_names(text, self.names)


@dataclass(frozen=True)
class UnitMoves:
    """The moves that schedule a unit, and the buffers that they declare."""

    held_bytes: ClassVar[int] = 40_000
    """About what one holds."""

    moves: tuple[Move, ...]
    declared: tuple[str, ...]

    @classmethod
    def of(cls, trace: Trace) -> UnitMoves:
        """Those of a trace of the kernel of a unit."""
        named = dict.fromkeys(buffer.name for step in trace.steps for buffer in step.kernel.buffers)
        return cls(trace.moves, tuple(name for name in named if name not in trace.start.declared))

    def make_all(self, trace: Trace) -> None:
        """Makes them on the kernel of a unit. Raises IllegalMove for one that is not legal."""
        for move in self.moves:
            trace.apply(move)

    def make(self, trace: Trace, unit: Unit) -> None:
        """Makes them on the kernel that the unit is of, whose nests before the unit are as they were. Raises
        IllegalMove for one that is not legal there."""
        names = dict(unit.names)
        for name in self.declared:
            own = _OWN.fullmatch(name)
            wanted = unit.names[own[1]] + own[2] if own and own[1] in unit.names else name
            names[name] = fresh_name(trace.kernel, wanted, names.values())
        for move in self.moves:
            last = len(trace.kernel.buffers)
            trace.apply(translated(move, lambda path: (path[0] + unit.first, *path[1:]), names, last))


def units_of(kernel: Kernel) -> list[Unit]:
    """The units of a kernel, in their order. Nests that write the same array are one unit with all between them:
    the schedule of a sum takes in what begins it. So are those that share a temporary which cannot be an argument:
    a scalar, or one that is not an array in memory."""
    bounds = _together(kernel)
    if len(bounds) > 1:
        units = [_unit(kernel, first, last) for first, last in bounds]
        if all(map(_is_well_formed, units)):
            return units
    return [Unit(0, kernel, {buffer.name: buffer.name for buffer in kernel.buffers})]


def _together(kernel: Kernel) -> list[tuple[int, int]]:
    """The first nest of each unit, and the one behind its last."""
    users: dict[str, list[int]] = {}
    writers: dict[str, list[int]] = {}
    copies = set[str]()
    for n, node in enumerate(kernel.body):
        for name in node.buffers:
            users.setdefault(name, []).append(n)
    for site in kernel.sites:
        statement = site.statement
        writers.setdefault(statement.target.buffer, []).append(site.path[0])
        if isinstance(statement.value, Access) and statement.accumulation is None:
            copies.add(statement.target.buffer)
    joined = set[int]()  # the nests that are in one unit with the next one
    for buffer in kernel.buffers:
        together = buffer.role == "tmp" and (buffer.name in copies or not _is_plain(buffer))
        among = (users if together else writers).get(buffer.name, [0])
        joined.update(range(min(among), max(among)))
    last = [n + 1 for n in range(len(kernel.body)) if n not in joined]
    return [*zip([0, *last], last, strict=False)]


def _is_plain(buffer: Buffer) -> bool:
    """Whether a temporary is an array as arguments are."""
    plain = Buffer("tmp", buffer.name, buffer.dtype, buffer.dims)
    return bool(buffer.dims) and buffer == plain and not any(dim.collapsed for dim in buffer.dims)


def _unit(kernel: Kernel, first: int, last: int) -> Unit:
    body = kernel.body[first:last]
    inside = {name for node in body for name in node.buffers}
    outside = {name for node in (*kernel.body[:first], *kernel.body[last:]) for name in node.buffers}
    written = {site.statement.target.buffer for site in kernel.sites if first <= site.path[0] < last}

    def role(buffer: Buffer) -> str:
        if buffer.role == "tmp" and buffer.name in outside:
            return "inout"  # some of it may not be written yet, and others read it: no move may delete or shrink it
        return buffer.role if buffer.name in written else "in"

    used = [buffer for buffer in kernel.buffers if buffer.name in inside]
    sizes = {size.name for size in kernel.sizes}
    free = (name for n in count() if (name := f"{OWN_NAME}{n}") not in sizes)
    names = {name: buffer.name for name, buffer in zip(free, used, strict=False)}
    own = kernel.evolve(name="unit", buffers=tuple(replace(b, role=role(b)) for b in used), body=body)
    return Unit(first, renamed(own, {name: own for own, name in names.items()}), names)


def _is_well_formed(unit: Unit) -> bool:
    """Whether a unit is a kernel by itself."""
    try:
        prove_unless_known(unit.kernel)
    except KernelError:
        return False
    return True
