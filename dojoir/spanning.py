"""Which indices together take every value of a box, seen from their form.

Two forms say so. A sum of iterators, `256*{0} + 16*{1} + {2}`, counts in a mixed radix: it takes each value below
its extent once if each coefficient is what the part below it can count to, and the whole counts to the extent. The
digits of one iterator, `{0} // 4096`, `{0} // 64 % 64` and `{0} % 64`, are the other way round: they take every
combination of values once if the iterator counts to the product of their extents.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from dojoir.affine import Affine, FloorDiv, Iter, Mod

ONE = Affine.constant(1)


def counted(index: Affine, extent: Affine, bounds: Mapping[int, Affine]) -> frozenset[int] | None:
    """The iterators of a sum that takes every value in `[0, extent)`, or None where that is not seen. `bounds` has
    the extents of the iterators that are free to take all their values, by depth."""
    if index.offset or not index.terms:
        return None
    reach = ONE
    used: list[int] = []
    for atom, coefficient in sorted(index.terms, key=lambda term: term[1]):
        if not isinstance(atom, Iter) or atom.depth not in bounds or reach != Affine.constant(coefficient):
            return None
        used.append(atom.depth)
        reach = bounds[atom.depth] * coefficient
    return frozenset(used) if reach == extent else None


def digits_of(indices: Sequence[tuple[Affine, Affine]], bounds: Mapping[int, Affine]) -> frozenset[int] | None:
    """The iterators the digits of which take every value in a box, each index beside its extent, or None where that
    is not seen; `bounds` as for `counted`."""
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
    values it has: None for the highest one, which has no remainder taken."""
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
