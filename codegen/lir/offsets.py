"""Which launches of a program may count in 32 bits: those none of whose numbers need more.

A launch counts in 32 bits as a whole or not at all. All its values of 64 bits are looked at, those of data too, so
that a printer has but to spell the type of indices shorter. Nothing is assumed of what guards keep from running: a
value that is never used must fit as well.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from dojoir.backends.machine import GRID
from dojoir.codegen.lir.program import INDEX, Binary, BlockNumber, For, If, Launch, Let, Program, Stmt, Value
from dojoir.codegen.lir.ranges import THREAD, Range, before_wrapping, join, limits, range_of
from dojoir.codegen.lir.walk import parts_of, statements
from dojoir.ir.dtypes import DTYPES, I64

SHORT = limits(DTYPES["i32"])
ANY = limits(I64)[1]
"""The largest size that a call may have."""


def shortened(program: Program, sizes: Mapping[str, int]) -> Program:
    """The program with its launches marked (`index_bits`) that may count in 32 bits in all calls whose sizes are at
    most `sizes`; one that is not there may be any."""
    most = {size.name: (0, sizes.get(size.name, ANY)) for size in program.sizes}
    return replace(program, body=_block(program.body, most))


def may_be_short(program: Program, sizes: Mapping[str, int]) -> bool:
    """Whether the launches that are marked so count right in calls whose sizes are at most `sizes`."""
    pairs = zip(_launches(program), _launches(shortened(program, sizes)), strict=True)
    return all(mine.index_bits == 64 or its.index_bits == 32 for mine, its in pairs)


def _launches(program: Program) -> list[Launch]:
    return [stmt for stmt in statements(program.body) if isinstance(stmt, Launch)]


def _block(body: tuple[Stmt, ...], known: Mapping[str, Range]) -> tuple[Stmt, ...]:
    """Host code with its launches marked. `known` are the ranges of sizes and of what code around has named."""
    found: list[Stmt] = []
    names = dict(known)
    for stmt in body:
        match stmt:
            case Launch():
                stmt = replace(stmt, index_bits=32 if _fits(stmt, names) else 64)
            case For(var, start, stop, step):
                inside = {**names, var.name: _of_loop(start, stop, names, step)}
                stmt = replace(stmt, body=_block(stmt.body, inside))
            case Let(var, value):
                names[var.name] = range_of(value, names)
            case If(_, then, otherwise):
                stmt = replace(stmt, then=_block(then, names), otherwise=_block(otherwise, names))
        found.append(stmt)
    return tuple(found)


def _of_loop(start: Value, stop: Value, known: Mapping[str, Range], step: int = 1) -> Range:
    low, begun = range_of(start, known)
    last = max(range_of(stop, known)[1] - 1, low)
    return low, last if low < begun else low + (last - low) // step * step


def _fits(launch: Launch, outside: Mapping[str, Range]) -> bool:
    """Whether all numbers of 64 bits in a launch are ones of 32."""
    known = {**outside, THREAD: (0, launch.threads - 1)}
    blocks_of = [
        (0, min(range_of(extent, outside)[1], most) - 1) for extent, most in zip(launch.grid, GRID, strict=False)
    ]
    for stmt in statements(launch.body):
        match stmt:
            case Let(var, BlockNumber(_, axis)):
                join(known, var.name, blocks_of[axis] if axis < len(blocks_of) else (0, 0))
            case Let(var, value) if var.type == INDEX:
                join(known, var.name, range_of(value, known))
            case For(var, start, stop, step):
                low, high = _of_loop(start, stop, known)
                join(known, var.name, (low, high + step))  # what it is when the loop has ended
    return all(_is_short(part, known) for part in parts_of(*statements(launch.body)))


def _is_short(value: Value, known: Mapping[str, Range]) -> bool:
    if value.type.dtype != I64:
        return True
    found = range_of(value, known)
    if isinstance(value, Binary) and value.op in ("add", "sub", "mul"):
        found = before_wrapping(value, known)
    if isinstance(value, BlockNumber):
        return True  # it is named right away, and the name is looked at
    return SHORT[0] <= found[0] and found[1] <= SHORT[1]
