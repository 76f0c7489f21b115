"""A program as a file: its symbols, and which line of the text an address came from (ELF of 64 bits, DWARF 4)."""

from __future__ import annotations

import re
import struct
from bisect import bisect_right
from collections.abc import Iterator

from dojoir.support.frozen import dataclass

_SECTION = struct.Struct("<IIQQQQIIQQ")
_SYMBOL = struct.Struct("<IBBHQQ")


@dataclass(frozen=True)
class Symbol:
    """A variable or function: its name, its address, its bytes, and the section that it is in."""

    name: str
    address: int
    size: int
    section: str


@dataclass(frozen=True)
class LineRow:
    """From this address on, code comes from that line; 0 where the code of a text ends."""

    address: int
    line: int


def sections(image: bytes) -> list[tuple[str, bytes]]:
    """Name and content of each section, in order."""
    (start,) = struct.unpack_from("<Q", image, 40)
    _, count, names = struct.unpack_from("<HHH", image, 58)
    heads = [_SECTION.unpack_from(image, start + n * _SECTION.size) for n in range(count)]
    contents = [b"" if head[1] == 8 else image[head[4] : head[4] + head[5]] for head in heads]
    return [(_string_at(contents[names], head[0]), data) for head, data in zip(heads, contents, strict=True)]


def symbols(image: bytes) -> list[Symbol]:
    """All symbols that lie in a section."""
    found = sections(image)
    names, data = dict(found).get(".strtab", b""), dict(found).get(".symtab", b"")
    rows = [_SYMBOL.unpack_from(data, at) for at in range(0, len(data), _SYMBOL.size)]
    return [
        Symbol(_string_at(names, name), address, size, found[section][0])
        for name, _, _, section, address, size in rows
        if 0 < section < len(found)
    ]


def shared_arrays(image: bytes) -> list[Symbol]:
    """The `__shared__` arrays by the names they have in the text, which a mangled name ends with."""
    found = []
    for symbol in symbols(image):
        if symbol.section == "dojo_shared" and symbol.size and "simt_guard_" not in symbol.name:
            local = re.match(r"_ZZ.*?E(\d+)", symbol.name)
            name = symbol.name if local is None else symbol.name[local.end() :][: int(local[1])]
            local = re.search(r"E(\d+)(\D\w*?)(?:_\d+)?$", symbol.name)
            if local is not None:
                name = local[2][: int(local[1])]
            found.append(Symbol(name.partition(".")[0], symbol.address, symbol.size, symbol.section))
    return sorted(found, key=lambda symbol: symbol.address)


def line_of(rows: list[LineRow], address: int) -> int:
    """The line that the code at an address came from; 0: unknown."""
    at = bisect_right(rows, address, key=lambda row: row.address)
    return rows[at - 1].line if at else 0


def line_rows(image: bytes, name: str) -> list[LineRow]:
    """Where each line of the file `name` was compiled to, by address. Code that was inlined from another file
    keeps the last line of this one."""
    data = dict(sections(image)).get(".debug_line", b"")
    rows: list[LineRow] = []
    at = 0
    while at + 4 <= len(data):
        (length,) = struct.unpack_from("<I", data, at)
        rows += _unit_rows(data[at + 4 : at + 4 + length], name)
        at += 4 + length
    return sorted(rows, key=lambda row: row.address)


def _unit_rows(unit: bytes, name: str) -> Iterator[LineRow]:
    dwarf, header = struct.unpack_from("<HI", unit, 0)
    if dwarf != 4:
        return
    smallest, _, _, line_base, line_range, opcode_base = struct.unpack_from("<BBBbBB", unit, 6)
    lengths = unit[12 : 11 + opcode_base]
    at = 11 + opcode_base
    while unit[at]:  # the folders
        at = unit.index(0, at) + 1
    at += 1
    names = [""]
    while unit[at]:
        end = unit.index(0, at)
        names.append(unit[at:end].decode(errors="replace"))
        at = end + 1
        for _ in range(3):
            _, at = _unsigned(unit, at)
    ours = {number for number, found in enumerate(names) if found.rpartition("/")[2] == name}
    if not ours:
        return
    at = 6 + header
    address, file, line = 0, 1, 1
    while at < len(unit):
        opcode = unit[at]
        at += 1
        emitted = ended = False
        if opcode >= opcode_base:
            step = opcode - opcode_base
            address += step // line_range * smallest
            line += line_base + step % line_range
            emitted = True
        elif opcode == 0:
            size, at = _unsigned(unit, at)
            if unit[at] == 1:
                ended = True
            elif unit[at] == 2:
                (address,) = struct.unpack_from("<Q", unit, at + 1)
            at += size
        elif opcode == 1:
            emitted = True
        elif opcode == 2:
            step, at = _unsigned(unit, at)
            address += step * smallest
        elif opcode == 3:
            step, at = _signed(unit, at)
            line += step
        elif opcode == 4:
            file, at = _unsigned(unit, at)
        elif opcode == 8:
            address += (255 - opcode_base) // line_range * smallest
        elif opcode == 9:
            (step,) = struct.unpack_from("<H", unit, at)
            address, at = address + step, at + 2
        else:
            for _ in range(lengths[opcode - 1]):
                _, at = _unsigned(unit, at)
        if emitted and file in ours and line:
            yield LineRow(address, line)
        if ended:
            yield LineRow(address, 0)
            address, file, line = 0, 1, 1


def _unsigned(data: bytes, at: int) -> tuple[int, int]:
    value = shift = 0
    while True:
        value |= (data[at] & 127) << shift
        shift += 7
        at += 1
        if data[at - 1] < 128:
            return value, at


def _signed(data: bytes, at: int) -> tuple[int, int]:
    value, end = _unsigned(data, at)
    bits = 7 * (end - at)
    return (value - (1 << bits) if data[end - 1] & 64 else value), end


def _string_at(data: bytes, at: int) -> str:
    return data[at : data.index(0, at)].decode(errors="replace")
