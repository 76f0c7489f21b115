"""The error of a launch, in words: from the report of the child process to a RunError with the line and the
array."""

from __future__ import annotations

import struct
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dojoir.errors import Diagnostic, Note, RunError, Source, Span
from dojoir.runtime.simt import image
from dojoir.support.frozen import dataclass

REPORT = struct.Struct("<6I7QII40s40s120s")
"""`Report` of report.h as it lies in memory."""

_KINDS = (
    "fine", "race", "out-of-bounds", "uninitialised-shared", "divergent-barrier", "two-places", "mask",
    "absent-lane", "crash", "check", "out-of-memory", "restricted", "wide-mask",
    "width", "not-landed", "not-fenced",
)  # fmt: skip
_NONE = 0xFFFFFFFF


@dataclass(frozen=True)
class Fault:
    """A report: `kind` is one of _KINDS; threads and blocks by their numbers, addresses as in the child."""

    kind: str
    access: int
    other_access: int
    bytes: int
    thread: int
    other_thread: int
    block: int
    other_block: int
    address: int
    pc: int
    other_pc: int
    accesses: int
    switches: int
    line: int
    other_line: int
    call: str
    other_call: str
    text: str


@dataclass(frozen=True)
class Place:
    """The launch that a report is about."""

    kernel: str
    grid: tuple[int, int, int]
    block: tuple[int, int, int]
    warp: int


@dataclass(frozen=True)
class ChildLayout:
    """Where things lie in the child: its program is `bias` above the addresses in its file; global memory, dynamic
    shared memory, and the arrays by address."""

    bias: int
    arena: int
    arena_size: int
    dynamic: int
    arrays: tuple[tuple[int, NDArray[Any], str], ...]


def decoded(data: bytes) -> Fault:
    """A report from its bytes."""
    kind, *numbers, call, other_call, text = REPORT.unpack(data)
    words = [word.partition(b"\0")[0].decode(errors="replace") for word in (call, other_call, text)]
    return Fault(_KINDS[kind], *numbers, *words)


def error_of(fault: Fault, place: Place, layout: ChildLayout, text: str, program: bytes) -> RunError:
    """The error that a report stands for."""
    rows = image.line_rows(program, "kernel.cu")
    line, other_line = (
        given or (image.line_of(rows, pc - layout.bias & _NONE) if pc else 0)
        for given, pc in ((fault.line, fault.pc), (fault.other_line, fault.other_pc))
    )
    source = Source(f"{place.kernel}.cu", text)
    code, message, other = _said(fault, place, layout, program)
    notes = [Note(other, _span(source, other_line), None)] if other else []
    notes.append(Note(f"kernel {place.kernel}, grid {place.grid}, block {place.block}, warps of {place.warp}"))
    return RunError(Diagnostic(code, message, _span(source, line), source, tuple(notes)))


def _said(fault: Fault, place: Place, layout: ChildLayout, program: bytes) -> tuple[str, str, str]:
    """The code, the message, and what there is to say of the other thread."""
    me = _thread(fault.thread, fault.block, place)
    other = _thread(fault.other_thread, fault.other_block, place) if fault.other_thread != _NONE else ""
    does = ("reads", "writes", "adds atomically to")[fault.access]
    did = ("reads", "writes", "adds atomically to")[fault.other_access]
    match fault.kind:
        case "race":
            what = _element_named(fault.address, fault.bytes, layout, program)
            if fault.block != fault.other_block:
                why = "blocks of one launch have no order"
            elif fault.thread // place.warp == fault.other_thread // place.warp:
                why = "no __syncwarp or __syncthreads orders the two"
            else:
                why = "no __syncthreads orders the two"
            return "race", f"{me} {does} {what}, and {other} {did} it: {why}", f"{other} {did} it here"
        case "restricted":
            what = _element_named(fault.address, fault.bytes, layout, program)
            who = other or "another thread"
            why = (
                f"{me} {does} {what}, and {who} {did} it in the same launch, which takes the array by a "
                f"pointer that is __restrict__: a compiler may take the element as it was before a barrier"
            )
            return "broken-restrict", why, f"{other} {did} it here" if other else ""
        case "out-of-bounds":
            what = _outside(fault.address, layout, program)
            return "out-of-bounds", f"{me} {does} {fault.bytes} bytes {what}", ""
        case "uninitialised-shared":
            what = _element_named(fault.address, fault.bytes, layout, program)
            return "uninitialised-shared", f"{me} {does} {what}, which no thread of its block wrote", ""
        case "divergent-barrier" if fault.other_call:
            why = f"{me} waits in {fault.call}, and {other}, which it waits for, in {fault.other_call}"
            return "divergent-barrier", why, f"{other} waits here"
        case "divergent-barrier":
            why = f"{me} waits in {fault.call}, and {other}, which it waits for, ended without it"
            return "divergent-barrier", why, ""
        case "two-places":
            why = f"{me} waits in {fault.call}, {other} in {fault.other_call} at another place or with another mask"
            return "divergent-barrier", why, f"{other} waits here"
        case "not-landed":
            what = _element_named(fault.address, fault.bytes, layout, program)
            return "not-landed", f"{me} {does} {what}, to which a copy by {other} is on its way", ""
        case "not-fenced":
            what = _element_named(fault.address, fault.bytes, layout, program)
            why = (
                f"{me} reads {what} by the asynchronous proxy, and {other} wrote it: no fence_proxy of that thread"
            )
            return "not-fenced", f"{why} is between", ""
        case "mask":
            return "bad-shuffle", f"{me} calls {fault.call} with a mask that its own lane is not in", ""
        case "wide-mask":
            why = f"{me} calls {fault.call} with a mask of more lanes than the {place.warp} of a warp"
            return "bad-shuffle", why, ""
        case "width":
            why = f"{me} calls {fault.call} in groups of {fault.bytes} lanes: no power of two up to {place.warp}"
            return "bad-shuffle", why, ""
        case "absent-lane":
            why = f"{me} reads lane {fault.bytes} in {fault.call}, which does not take part in it"
            return "bad-shuffle", why, ""
        case "check" if fault.text == "misaligned":
            why = f"{me} accesses an address that is not a multiple of {fault.bytes}, as its type asks for"
            return "misaligned", f"{why}: {_outside(fault.address, layout, program)}", ""
        case "check" if fault.text == "bounds":
            index = fault.address - (1 << 64 if fault.address >> 63 else 0)
            return "out-of-bounds", f"{me} uses index {index}, which is outside of the array", ""
        case "check":
            return "overflow", f"{me} computes {fault.text}", ""
        case "crash":
            why = fault.text or f"a signal ({fault.bytes}) at address {fault.address:#x}"
            return "crash", f"{me} crashed: {why}", ""
    return "out-of-memory", "the process of the kernel ran out of memory", ""


def _thread(thread: int, block: int, place: Place) -> str:
    return f"thread {_index(thread, place.block)} of block {_index(block, place.grid)}"


def _index(number: int, extents: tuple[int, int, int]) -> str:
    x, y, _ = extents
    index = (number % x, number // x % y, number // (x * y))
    used = next(k for k in (3, 2, 1) if k == 1 or extents[k - 1] > 1)
    return str(index[0]) if used == 1 else str(index[:used])


def _span(source: Source, line: int) -> Span | None:
    text = source.line(line)
    if not text.strip():
        return None
    first = len(text) - len(text.lstrip())
    return Span(line, first + 1, len(text) + 1)


def _element_named(address: int, size: int, layout: ChildLayout, program: bytes) -> str:
    """An element by its array and index."""
    for start, array, name in layout.arrays:
        if start <= address < start + array.nbytes:
            return f"{name}{list(map(int, np.unravel_index((address - start) // array.itemsize, array.shape)))}"
    for symbol in image.shared_arrays(program):
        inside = address - layout.bias - symbol.address
        if 0 <= inside < symbol.size:
            return f"{symbol.name}, which is shared, at byte {inside} of {symbol.size}"
    return f"dynamic shared memory at byte {address - layout.dynamic}"


def _outside(address: int, layout: ChildLayout, program: bytes) -> str:
    """An address by the array that it is nearest to."""
    if layout.arena <= address < layout.arena + layout.arena_size:
        near = [(start, array.nbytes, name) for start, array, name in layout.arrays]
    else:
        near = [(s.address + layout.bias, s.size, f"shared {s.name}") for s in image.shared_arrays(program)]
        near.append((layout.dynamic, 0, "dynamic shared memory"))

    def distance(entry: tuple[int, int, str]) -> int:
        start, size, _ = entry
        return start - address if address < start else address - start - size

    if not near or address < 1 << 16:
        return f"at address {address:#x}, where there is no array"
    start, size, name = min(near, key=distance)
    if distance((start, size, name)) > 1 << 40:
        return f"at address {address:#x}, where there is no array"
    where = f"byte {address - start} of {name}"
    return f"at {where}" + (f", which has {size}" if size else "")
