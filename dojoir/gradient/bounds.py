"""Bounds of affine values that hold for all iterations: how large an array for one value an iteration must be."""

from __future__ import annotations

from collections.abc import Sequence

from dojoir.ir.affine import Affine, Extremum, FloorDiv, Iter, Mod, SizeVar
from dojoir.ir.nodes import Condition, Dim, Extent, Kernel, Scope
from dojoir.sets.kernel_sets import sets_of


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


def dim_for(kernel: Kernel, scopes: Sequence[Scope], depth: int) -> Dim:
    """A dimension with an element for each iteration of a scope, and at least one whatever the sizes are."""
    extent = largest_extent(scopes[depth].extent, scopes[:depth])
    if sets_of(kernel).always(Condition(extent, ">=", Affine.constant(1))):
        return Dim(extent)
    return Dim(_without_negatives(extent) + 1)


def _without_negatives(affine: Affine) -> Affine:
    """Something in the sizes that is no less, and not below 0."""
    total = Affine.constant(max(affine.offset, 0))
    for atom, coefficient in affine.terms:
        if coefficient < 0:
            continue
        match atom:
            case FloorDiv(numerator, divisor):
                total += _without_negatives(numerator) // divisor * coefficient
            case Extremum():
                for part in atom.parts:
                    total += _without_negatives(part) * coefficient
            case _:
                total += Affine.atom(atom) * coefficient
    return total
