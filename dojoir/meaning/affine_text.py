"""Affine expressions of iterators as Python, and between which numbers they are."""

from __future__ import annotations

from collections.abc import Sequence

from dojoir.ir.affine import Affine, Atom, Extremum, FloorDiv, Iter, Mod, SizeVar

Interval = tuple[int, int]
"""The smallest and the largest value that an integer can take."""


def interval(affine: Affine, ranges: Sequence[Interval]) -> Interval:
    """Bounds of an affine expression of iterators that take the values in `ranges`."""
    low = high = affine.offset
    for atom, coefficient in affine.terms:
        ends = [coefficient * end for end in _atom_interval(atom, ranges)]
        low += min(ends)
        high += max(ends)
    return low, high


def _atom_interval(atom: Atom, ranges: Sequence[Interval]) -> Interval:
    match atom:
        case Iter(depth):
            return ranges[depth]
        case FloorDiv(numerator, divisor):
            low, high = interval(numerator, ranges)
            return low // divisor, high // divisor
        case Mod(numerator, divisor):
            low, high = interval(numerator, ranges)
            return (low % divisor, high % divisor) if low // divisor == high // divisor else (0, divisor - 1)
        case Extremum():
            lows, highs = zip(*(interval(part, ranges) for part in atom.parts), strict=True)
            return atom.of(lows), atom.of(highs)
        case SizeVar(name):
            raise AssertionError(f"size {name} has no value")


def format_affine(affine: Affine) -> str:
    """An affine expression of iterators as Python."""
    terms = [f"{coefficient} * {_format_atom(atom)}" for atom, coefficient in affine.terms if coefficient != 1]
    terms += [_format_atom(atom) for atom, coefficient in affine.terms if coefficient == 1]
    if affine.offset or not terms:
        terms.append(str(affine.offset))
    return " + ".join(terms)


def _format_atom(atom: Atom) -> str:
    match atom:
        case Iter(depth):
            return f"i{depth}"
        case FloorDiv(numerator, divisor):
            return f"(({format_affine(numerator)}) // {divisor})"
        case Mod(numerator, divisor):
            return f"(({format_affine(numerator)}) % {divisor})"
        case Extremum(word, parts):
            return f"{word}({', '.join(map(format_affine, parts))})"
        case SizeVar(name):
            raise AssertionError(f"size {name} has no value")
