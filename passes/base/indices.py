"""Every affine expression of a tree rewritten, and divisions that the range of an iterator decides."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from math import gcd

from dojoir.ir.affine import Affine, FloorDiv, Iter, Mod
from dojoir.ir.nodes import Extent, Guard, Node, Scope, Statement
from dojoir.ir.rewriting.rewrite import map_indices

__all__ = ["map_indices", "map_slots", "slots_of", "without_divisions"]


def without_divisions(affine: Affine, atom: Iter, extent: int) -> Affine:
    """The same value, where `atom` is at least 0 and less than `extent`: a division of a*x + r by a*b is one of x
    by b, where the range shows that 0 <= r < a."""
    result = Affine.constant(affine.offset)
    for term, coefficient in affine.terms:
        match term:
            case FloorDiv(numerator, divisor):
                whole, _ = _multiple_and_rest(without_divisions(numerator, atom, extent), divisor, atom, extent)
                value = whole // divisor
            case Mod(numerator, divisor):
                whole, rest = _multiple_and_rest(without_divisions(numerator, atom, extent), divisor, atom, extent)
                value = whole % divisor + rest
            case _:
                value = Affine.atom(term)
        result = result + value * coefficient
    return result


def _multiple_and_rest(numerator: Affine, divisor: int, atom: Iter, extent: int) -> tuple[Affine, Affine]:
    """A numerator as multiples of a common divisor with `divisor`, and a rest that is less than it."""
    coefficient = numerator.coefficient(atom)
    common = gcd(divisor, *(c for term, c in numerator.terms if term != atom))
    rest = Affine.atom(atom) * coefficient + numerator.offset % common
    if coefficient < 0 or rest.offset + coefficient * (extent - 1) >= common:
        return numerator, Affine.constant(0)
    return numerator - rest, rest


def slots_of(nodes: tuple[Node, ...], depth: int) -> list[tuple[Affine, int]]:
    """Every affine expression in nodes at `depth`, in the order of the text, with how many scopes are around it."""
    found: list[tuple[Affine, int]] = []

    def note(_: int, slot: Affine, inside: int) -> Affine:
        found.append((slot, inside))
        return slot

    map_slots(nodes, depth, note)
    return found


def map_slots(nodes: tuple[Node, ...], depth: int, new: Callable[[int, Affine, int], Affine]) -> tuple[Node, ...]:
    """The nodes with every affine expression replaced by what `new` gives for its number in the order of the text,
    itself, and how many scopes are around it. `depth` scopes are around the nodes."""
    number = -1

    def visit(node: Node, depth: int) -> Node:
        def slot(affine: Affine) -> Affine:
            nonlocal number
            number += 1
            return new(number, affine, depth)

        match node:
            case Statement():
                return map_indices(node, slot, constants=True)
            case Scope(extent, body):
                bounds = tuple(map(slot, extent.bounds))
                return replace(node, extent=Extent(bounds), body=tuple(visit(child, depth + 1) for child in body))
            case Guard(conditions, body):
                sides = tuple(replace(c, left=slot(c.left), right=slot(c.right)) for c in conditions)
                return Guard(sides, tuple(visit(child, depth) for child in body))

    return tuple(visit(node, depth) for node in nodes)
