"""Indices that together take every value of a box, recognised by their form.

Two forms say so. A sum of iterators, `256*{0} + 16*{1} + {2}`, takes each value up to its largest if no coefficient
is more than what the part below it can count to. The digits of one iterator, `{0} // 4096`, `{0} // 64 % 64` and
`{0} % 64`, are the other way round: they take every combination of values if the iterator counts to the product of
their extents.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from dojoir.ir.affine import Affine, FloorDiv, Iter, Mod, SizeVar
from dojoir.ir.nodes import Scope
from dojoir.sets.ranges import is_nonnegative

ONE = Affine.constant(1)

Bounds = Mapping[int, tuple[Affine, ...]]
"""The bounds of the extents of scopes, by depth."""


def unblocked(bounds: Bounds, indices: Sequence[Affine]) -> tuple[dict[int, tuple[Affine, ...]], list[Affine]]:
    """Scopes and indices with one iterator for two where a scope is strip-mined: (E + f - 1) // f blocks
    of min(f, E - f*{o}) iterations {r} are E iterations f*{o} + {r}. It has the depth of the outer one."""
    found, values = dict(bounds), list(indices)
    for outer in sorted(bounds):
        for inner in sorted(depth for depth in found if depth > outer):
            joined = _joined(found, values, outer, inner)
            if joined is not None:
                found, values = joined
    return found, values


def _joined(
    bounds: Bounds, indices: Sequence[Affine], outer: int, inner: int
) -> tuple[dict[int, tuple[Affine, ...]], list[Affine]] | None:
    match bounds.get(outer), bounds[inner]:
        case ((count,), (one, other)) if one.is_constant != other.is_constant:
            size, rest = (one, other) if one.is_constant else (other, one)
        case _:
            return None
    factor, own = size.offset, Affine.iterator(outer)
    whole = rest + own * factor
    if factor < 1 or whole.iterators & {outer, inner} or count != (whole + (factor - 1)) // factor:
        return None
    # With {o} as a block and {r} as the iteration - f * block, the block goes out of the sums, or two are not one.
    block = Affine.atom(SizeVar(""))
    new = {Iter(outer): block, Iter(inner): own - block * factor}

    def replaced(value: Affine) -> Affine:
        return value.substitute(
            lambda atom: new.get(atom, Affine.atom(atom)) if isinstance(atom, Iter) else Affine.atom(atom)
        )

    found = {depth: tuple(map(replaced, bounds[depth])) for depth in bounds if depth not in {outer, inner}}
    values = list(map(replaced, indices))
    if any("" in value.sizes for value in (*values, *(bound for some in found.values() for bound in some))):
        return None
    return {**found, outer: (whole,)}, values


def counts_to(index: Affine, extents: Mapping[int, Affine], around: Sequence[Scope]) -> Affine | None:
    """The number below which a sum of iterators takes every value, whatever runs `around`; None where that is not
    seen. `extents` has those of the iterators that take all their values, by depth."""
    if index.offset:
        return None
    reached = ONE
    for atom, step in sorted(index.terms, key=lambda term: term[1]):
        if not isinstance(atom, Iter) or atom.depth not in extents or step < 1:
            return None
        if not is_nonnegative(reached - step, around):
            return None
        # Where it does not run, there is nothing below extent * step; nor is there a value at all.
        if reached != Affine.constant(step) and not is_nonnegative(extents[atom.depth] - 1, around):
            return None
        reached = reached + (extents[atom.depth] - 1) * step
    return reached


def digits_of(indices: Sequence[tuple[Affine, Affine]], bounds: Mapping[int, Affine]) -> frozenset[int] | None:
    """The iterators the digits of which take every value in a box, each index beside its extent, or None where that
    is not seen. `bounds` has the extents of the iterators that take all their values, by depth."""
    places: dict[int, list[tuple[int, int | None, Affine]]] = {}
    for index, extent in indices:
        found = _digit(index)
        if found is None or found[0] not in bounds:
            return None
        depth, place, radix = found
        places.setdefault(depth, []).append((place, radix, extent))
    for depth, digits in places.items():
        reach, below = ONE, True
        for place, radix, extent in sorted(digits, key=lambda digit: digit[0]):
            if reach != Affine.constant(place) or not below:
                return None
            below = radix is not None  # only the highest has no remainder taken
            if radix is not None and extent != Affine.constant(radix):
                return None
            reach = extent * place
        if reach != bounds[depth]:
            return None
    return frozenset(places)


def _digit(index: Affine) -> tuple[int, int, int | None] | None:
    """The depth of the iterator of which an index is a digit, the number that one of it stands for, and how many
    values it has. None for the highest one, which has no remainder taken."""
    radix = None
    atom = _only(index)
    if isinstance(atom, Mod):
        radix = atom.divisor
        atom = _only(atom.numerator)
    place = 1
    if isinstance(atom, FloorDiv):
        place = atom.divisor
        atom = _only(atom.numerator)
    return (atom.depth, place, radix) if isinstance(atom, Iter) else None


def _only(value: Affine) -> object:
    """The atom that a value is, or None."""
    return value.terms[0][0] if len(value.terms) == 1 and value.terms[0][1] == 1 and not value.offset else None
