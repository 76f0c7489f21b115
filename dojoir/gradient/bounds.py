"""Bounds of affine values that hold for all iterations: how large an array for one value an iteration must be."""

from __future__ import annotations

from collections.abc import Sequence

from dojoir.ir.affine import Affine, Extremum, FloorDiv, Iter, Mod, SizeVar
from dojoir.ir.nodes import Extent, Scope


def largest_extent(extent: Extent, around: Sequence[Scope]) -> Affine:
    """An extent in sizes that a scope inside `around` never goes beyond."""
    bounds = [_bound(bound, around, upper=True) for bound in extent.bounds]
    return min(bounds, key=lambda bound: (len(bound.terms), str(bound)))


def _bound(affine: Affine, around: Sequence[Scope], upper: bool) -> Affine:
    total = Affine.constant(affine.offset)
    for atom, coefficient in affine.terms:
        up = upper == (coefficient > 0)
        match atom:
            case SizeVar():
                value = Affine.atom(atom)
            case Iter(depth):
                inside = around[depth].extent
                value = largest_extent(inside, around[:depth]) - 1 if up else Affine.constant(0)
            case FloorDiv(numerator, divisor):
                value = _bound(numerator, around, up) // divisor
            case Mod(_, divisor):
                value = Affine.constant(divisor - 1 if up else 0)
            case Extremum():
                value = atom.among(_bound(part, around, up) for part in atom.parts)
        total = total + value * coefficient
    return total
