"""The units of a kernel: neighbouring nests that are scheduled apart from all others.

The schedule of a nest follows from the nest, from the arrays that it uses, and from whether others use them as
well. So a unit is a kernel of its own, whose arguments are the arrays that it shares with other nests. Its moves
are found on this small kernel, once for all units that are alike: in other forms of the kernel, and in the layers
of a model. Then they are made on the kernel itself, where each is checked as any move is. So a unit that lacks
something of its surroundings costs a refusal, never a wrong kernel.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import replace
from types import MappingProxyType
from typing import Any, ClassVar, get_args

from dojoir.errors import KernelError
from dojoir.ir.nodes import Access, Buffer, Kernel, format_path, parse_path
from dojoir.ir.rewriting.rename import renamed
from dojoir.passes.base.move import BufferName, Formula, Move, Place, Quoted
from dojoir.passes.engine.engine import prove_unless_known
from dojoir.passes.engine.trace import Trace
from dojoir.support.frozen import dataclass

OWN_NAME = "array"
"""What the arrays of a unit are called, with their number after it."""

NO_NUMBERS: Mapping[str, int] = MappingProxyType({})

_WORD = re.compile(r"\b[A-Za-z_]\w*")
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
        return _exchanged(text, self.names)


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
        kernels = [trace.start, *(step.kernel for step in trace.steps)]
        named = dict.fromkeys(buffer.name for kernel in kernels for buffer in kernel.buffers)
        moves = (_without_labels(move, kernel) for move, kernel in zip(trace.moves, kernels, strict=False))
        return cls(tuple(moves), tuple(name for name in named if name not in trace.start.declared))

    def make_all(self, trace: Trace) -> None:
        """Makes them on the kernel of a unit. Raises IllegalMove for one that is not legal."""
        for move in self.moves:
            trace.apply(move)

    def make(self, trace: Trace, unit: Unit) -> None:
        """Makes them on the kernel that the unit is of, whose nests before the unit are as they were. Raises
        IllegalMove for one that is not legal there."""
        names = dict(unit.names)
        kernel = trace.kernel
        taken = {*kernel.declared, *(size.name for size in kernel.sizes)}
        for name in self.declared:
            own = _OWN.fullmatch(name)
            wanted = unit.names[own[1]] + own[2] if own and own[1] in unit.names else name
            number = 2
            names[name] = wanted
            while names[name] in taken:
                names[name] = f"{wanted}{number}"
                number += 1
            taken.add(names[name])
        for move in self.moves:
            trace.apply(_in_whole(move, unit.first, names, len(trace.kernel.buffers)))


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
    ends = list(range(len(kernel.body)))
    for buffer in kernel.buffers:
        together = buffer.role == "tmp" and (buffer.name in copies or not _is_plain(buffer))
        shared = users if together else writers
        among = shared.get(buffer.name, [])
        for n in range(min(among, default=0), max(among, default=-1)):
            ends[n] = n + 1
    bounds, first = [], 0
    for n, end in enumerate(ends):
        if end == n:
            bounds.append((first, n + 1))
            first = n + 1
    return bounds


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
    names = {f"{OWN_NAME}{n}": buffer.name for n, buffer in enumerate(used)}
    own = kernel.evolve(name="unit", buffers=tuple(replace(b, role=role(b)) for b in used), body=body)
    return Unit(first, renamed(own, {name: own for own, name in names.items()}), names)


def _is_well_formed(unit: Unit) -> bool:
    """Whether a unit is a kernel by itself."""
    try:
        prove_unless_known(unit.kernel)
    except KernelError:
        return False
    return True


def _exchanged(text: str, names: Mapping[str, str]) -> str:
    return _WORD.sub(lambda word: names.get(word[0], word[0]), text)


def _without_labels(move: Move, kernel: Kernel) -> Move:
    """The move with its places as numbers: a label may stand elsewhere in the whole kernel as well."""

    def argument(value: Any, kind: Any) -> Any:
        return Place(format_path(kernel.path(value))) if kind is Place and value.startswith("@") else value

    return _mapped(move, argument)


def _in_whole(move: Move, first: int, names: Mapping[str, str], buffers: int) -> Move:
    """The move on a kernel of so many buffers, which has `first` nests before the unit, and other names. What it
    declares comes last."""

    def argument(value: Any, kind: Any) -> Any:
        if kind is Place:
            top, *rest = parse_path(value)
            return Place(format_path((top + first, *rest)))
        if kind is BufferName:
            return BufferName(names.get(value, value))
        return kind(_exchanged(value.text, names)) if kind in (Quoted, Formula) else value

    return _mapped(move, argument, {"position": buffers})


def _mapped(move: Move, argument: Callable[[Any, Any], Any], known: Mapping[str, int] = NO_NUMBERS) -> Move:
    """The move with other arguments: `argument` gives each from its value and its kind, `known` some by name."""
    changed: dict[str, Any] = {}
    for name, kind in move.parameters().items():
        value, each = getattr(move, name), get_args(kind)
        changed[name] = tuple(argument(one, each[0]) for one in value) if each else argument(value, kind)
    return replace(move, **changed | {name: n for name, n in known.items() if name in changed})
