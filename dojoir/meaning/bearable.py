"""Sizes that a kernel's own index arithmetic can bear: no value in it leaves 64 bits.

Indices, extents and conditions are computed in i64, where `4*N` of a large enough N is another number. Whether
that can happen is known before anything runs, from intervals: an iterator is below the largest value of its extent.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import lru_cache

from dojoir.errors import ArgumentError
from dojoir.ir.affine import Affine, Extremum, FloorDiv, Iter, Mod, SizeVar
from dojoir.ir.nodes import Guard, Kernel, Node, Scope, Statement

MOST = 2**63 - 1
LEAST = -(2**63)

LARGE = (1 << 40, 1 << 31, 1 << 24)
"""Sizes up to which kernels are looked at once for all calls, the largest first."""

Interval = tuple[int, int]


def check_bearable(kernel: Kernel, sizes: Mapping[str, int]) -> None:
    """Raises ArgumentError, `size-too-large`, where a value of an affine expression could wrap at these sizes."""
    if not sizes or max(sizes.values()) <= bears(kernel):
        return
    wrapping = _wrapping(kernel, {name: (value, value) for name, value in sizes.items()})
    if wrapping is not None:
        given = ", ".join(f"{name}={value}" for name, value in sizes.items())
        raise ArgumentError(
            f"at {given} a value of `{wrapping}` in kernel {kernel.name} has more than 64 bits: call it with "
            f"smaller sizes",
            "size-too-large",
        )


@lru_cache(maxsize=512)
def bears(kernel: Kernel) -> int:
    """A size up to which all runtime sizes may go at once; 0 where none of those looked at will do."""
    for size in LARGE:
        if _wrapping(kernel, dict.fromkeys(kernel.runtime_sizes, (1, size))) is None:
            return size
    return 0


def _wrapping(kernel: Kernel, sizes: Mapping[str, Interval]) -> Affine | None:
    """The first affine expression that may leave 64 bits, or None."""
    header = [dim.extent for buffer in kernel.buffers for dim in buffer.dims]
    header += [side for fact in kernel.facts for side in (fact.left, fact.right)]
    wrong = next((affine for affine in header if _interval(affine, sizes, ()) is None), None)
    return wrong or next(_in_nodes(kernel.body, sizes, ()), None)


def _in_nodes(
    nodes: tuple[Node, ...], sizes: Mapping[str, Interval], around: tuple[Interval, ...]
) -> Iterator[Affine]:
    for node in nodes:
        match node:
            case Scope(extent, body):
                bounds = [_interval(bound, sizes, around) for bound in extent.bounds]
                yield from (a for a, found in zip(extent.bounds, bounds, strict=True) if found is None)
                most = min((found[1] for found in bounds if found is not None), default=0)
                if most > 0:  # else it never runs
                    yield from _in_nodes(body, sizes, (*around, (0, most - 1)))
            case Guard(conditions, body):
                sides = (side for c in conditions for side in (c.left, c.right))
                yield from (side for side in sides if _interval(side, sizes, around) is None)
                yield from _in_nodes(body, sizes, around)
            case Statement():
                yield from (a for a in node.affine_parts if _interval(a, sizes, around) is None)


def _interval(affine: Affine, sizes: Mapping[str, Interval], around: tuple[Interval, ...]) -> Interval | None:
    """Between which numbers an expression is, or None where a part of it, summed up in any order, may leave i64."""
    low = high = below = above = affine.offset
    below, above = min(below, 0), max(above, 0)
    for atom, coefficient in affine.terms:
        found: Interval | None
        match atom:
            case SizeVar(name):
                found = sizes[name]
            case Iter(depth):
                found = around[depth]
            case FloorDiv(numerator, divisor):
                inner = _interval(numerator, sizes, around)
                found = None if inner is None else (inner[0] // divisor, inner[1] // divisor)
            case Mod(numerator, divisor):
                inner = _interval(numerator, sizes, around)
                found = None if inner is None else (0, divisor - 1)
            case Extremum():
                ranges = [_interval(part, sizes, around) for part in atom.parts]
                some = [each for each in ranges if each is not None]
                whole = len(some) == len(ranges)
                found = (atom.of(low for low, _ in some), atom.of(high for _, high in some)) if whole else None
        if found is None:
            return None
        least, most = sorted((coefficient * found[0], coefficient * found[1]))
        low, high = low + least, high + most
        below, above = below + min(least, 0), above + max(most, 0)
    return None if below < LEAST or above > MOST else (low, high)
