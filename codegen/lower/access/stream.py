"""Stores past the caches: which they are, and how a loop comes to the alignment that they need.

A row of an array begins anywhere, and hardware streams whole aligned vectors. So a scope in lanes first runs the
few iterations up to the first aligned address of the one store that it is aligned for. A store that this does not
align asks at run time.
"""

from __future__ import annotations

from dojoir.codegen.lir import program as lir
from dojoir.codegen.lir.arith import (
    add,
    affine_value,
    along,
    binary,
    both,
    compare,
    constant_value,
    divide,
    integer,
    mul,
    smaller,
    sub,
)
from dojoir.codegen.lir.program import LINE, Type, Value, stream_alignment
from dojoir.codegen.lower.access.conversions import as_stored
from dojoir.codegen.lower.access.state import LoweringState, LoweringUnit, Memory
from dojoir.ir.affine import Affine
from dojoir.ir.nodes import Access, Path, Scope, Statement
from dojoir.ir.paths import is_inside
from dojoir.support.frozen import dataclass


def may_stream(unit: LoweringUnit, name: str, state: LoweringState) -> bool:
    """Whether stores to a buffer bypass the caches here."""
    return unit.target.streams and unit.buffers[name].stream > 0 and name not in state.cached


LONG = 512
"""How many iterations a loop has that is streamed where its sizes decide."""


@dataclass(frozen=True)
class StreamedOutputs:
    """Streamed outputs of a scope: those known to be small, those that depend on the sizes of a call, and the
    condition that the latter are large (None: there are none)."""

    small: frozenset[str]
    open: frozenset[str]
    large: Value | None


def asked_of(unit: LoweringUnit, path: Path, state: LoweringState, stop: Value) -> StreamedOutputs:
    """The check before the scope at `path` runs, of `stop` iterations, by `state` around it. One that turns out to
    be short is not streamed either: it would only come to a whole line at its end."""
    small, undecided = set(), set()
    large: Value | None = None
    for name, uses in unit.uses.items():
        place, least = state.places.get(name), unit.buffers[name].stream
        if least <= 1 or not (isinstance(place, Memory) and may_stream(unit, name, state)):
            continue
        if any(use.writes and is_inside(use.site.path, path) for use in uses):
            size = _bytes(place)
            fixed = constant_value(size)
            if fixed is None:
                undecided.add(name)
                large = both(large, compare("ge", size, integer(least)))
            elif fixed < least:
                small.add(name)
    if large is not None and constant_value(stop) is None:
        large = both(large, compare("ge", stop, integer(LONG)))
    return StreamedOutputs(frozenset(small), frozenset(undecided), large)


def _bytes(place: Memory) -> Value:
    """The size of a buffer."""
    total: Value = integer(place.layout.buffer.dtype.itemsize)
    for _, extent in place.layout.stored:
        total = mul(total, affine_value(extent, ()))
    return total


def streamed_stores(unit: LoweringUnit, path: Path, scope: Scope, state: LoweringState) -> list[Access]:
    """The elements that each iteration of the scope at `path` writes next to the one before, in buffers that are
    streamed: by assignments, without a condition on data, under which some are left as they were. `state` is that
    around the scope."""
    depth = len(state.iterators)
    found = []
    for number, node in enumerate(scope.body):
        if not isinstance(node, Statement) or unit.typed[(*path, number)].op is not None:
            continue
        if node.condition is not None:
            continue
        place = state.places.get(node.target.buffer)
        if not (may_stream(unit, node.target.buffer, state) and isinstance(place, Memory) and place.copies == 1):
            continue
        if is_contiguous(node.target, place, depth):
            found.append(node.target)
    return found


def is_contiguous(access: Access, place: Memory, depth: int) -> bool:
    """Whether the iteration after at `depth` accesses the element after."""
    last = place.layout.stored[-1][0] if place.layout.stored else None
    return last is not None and all(
        isinstance(index, Affine) and along(index, depth) == (int(d == last), True)
        for d, index in enumerate(access.indices)
        if not place.layout.buffer.dims[d].collapsed
    )


def before_alignment(
    unit: LoweringUnit, access: Access, state: LoweringState, lanes: int, stop: Value
) -> Value | None:
    """How many iterations of a scope, of which there are `stop`, come before `access` is aligned as a vector of
    `lanes` elements (0: as a cache line) must be to be streamed. None if no such vector is."""
    place = state.places[access.buffer]
    assert isinstance(place, Memory)
    dtype = as_stored(place.layout.buffer.dtype, unit.target)
    alignment = stream_alignment(Type(dtype, lanes)) if lanes else LINE
    if not alignment:
        return None
    first = address(place, access, (*state.iterators, integer(0)), dtype.itemsize)
    return smaller(divide("mod", sub(integer(0), first), alignment // dtype.itemsize), stop)


def address(place: Memory, access: Access, iterators: tuple[Value, ...], size: int) -> Value:
    """Where an element is in memory, in elements of `size` bytes."""
    indices = [affine_value(i, iterators) if isinstance(i, Affine) else integer(0) for i in access.indices]
    return add(divide("div", lir.AddressOf(place.array), size), place.layout.offset(indices))


def is_aligned(array: str, offset: Value, kind: Type) -> Value | None:
    """Whether a vector at an offset is aligned to be streamed; None if such a vector never is."""
    alignment = stream_alignment(kind)
    if not alignment:
        return None
    size = kind.dtype.itemsize
    where = add(divide("div", lir.AddressOf(array), size), offset)
    return compare("eq", binary("rem", where, integer(alignment // size)), integer(0))
