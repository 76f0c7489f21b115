"""Every affine expression of a tree rewritten, and divisions that the range of an iterator decides."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from math import gcd

from dojoir.ir.affine import Affine, FloorDiv, Iter, Mod, SizeVar
from dojoir.ir.nodes import Extent, Guard, Node, Replace, Scope, Statement, substitute
from dojoir.ir.rewriting.rewrite import map_indices

__all__ = ["deeper", "largest", "map_indices", "map_slots", "merged", "shallower", "slots_of", "without_divisions"]


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


def _remainders(affine: Affine, atom: Iter, block: SizeVar, factor: int) -> Affine:
    """The value with c*(atom % factor) in place of c*atom - c*factor*block."""
    result = Affine.constant(affine.offset)
    for term, coefficient in affine.terms:
        match term:
            case FloorDiv(numerator, divisor):
                value = _remainders(numerator, atom, block, factor) // divisor
            case Mod(numerator, divisor):
                value = _remainders(numerator, atom, block, factor) % divisor
            case _:
                value = Affine.atom(term)
        result = result + value * coefficient
    own = result.coefficient(atom)
    if own and result.coefficient(block) == -own * factor:
        rest = Affine.atom(atom) - Affine.atom(block) * factor
        return result - rest * own + Affine.atom(atom) % factor * own
    return result


def largest(value: Affine, depth: int, extent: Affine) -> Affine | None:
    """The largest value over the iterations below an extent, whose iterator is at `depth`; None where it is not
    linear in it."""
    slope = value.coefficient(Iter(depth))
    rest = value - Affine.iterator(depth) * slope
    if depth in rest.iterators:
        return None
    return rest + (extent - 1) * slope if slope > 0 else rest


def merged(nodes: tuple[Node, ...], depth: int, factor: int, quotient: int) -> tuple[Node, ...]:
    """The nodes inside two scopes, that at `depth` and its only child, as those inside of one: the iterator number
    `quotient` of the two was {i} // factor, the other one {i} % factor."""
    own, whole = Affine.iterator(depth), SizeVar("")
    # What was {i} is now factor*whole + rest. With rest = {i} - factor*whole the whole goes out of the sums.
    values = [own - Affine.atom(whole) * factor, own - Affine.atom(whole) * factor]
    values[quotient] = Affine.atom(whole)
    new = shallower(depth, dict(enumerate(values, depth)))

    # Where it does not, and nothing else of {i} is left, it was a remainder.
    def settled(affine: Affine) -> Affine:
        rest = _remainders(affine, Iter(depth), whole, factor)
        return rest.substitute(lambda atom: own // factor if atom == whole else Affine.atom(atom))

    return tuple(map_indices(substitute(node, new), settled) for node in nodes)


def shallower(depth: int, changed: dict[int, Affine]) -> Replace:
    """The iterators after the scope inside the one at `depth` is removed: those in `changed` as it says, and the
    others below `depth` one less deep."""
    return _shifted(depth, changed, -1)


def deeper(depth: int, changed: dict[int, Affine]) -> Replace:
    """The iterators after a scope is added inside the one at `depth`: those in `changed` as it says, and the
    others below `depth` one deeper."""
    return _shifted(depth, changed, 1)


def _shifted(depth: int, changed: dict[int, Affine], by: int) -> Replace:
    def new(atom: SizeVar | Iter) -> Affine:
        match atom:
            case Iter(d) if d in changed:
                return changed[d]
            case Iter(d) if d > depth:
                return Affine.iterator(d + by)
        return Affine.atom(atom)

    return new
