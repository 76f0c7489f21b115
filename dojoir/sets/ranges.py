"""The range of an affine expression without isl: its atoms replaced by their extremes, one after another.

This answers most questions about bounds in microseconds. "No" means only that it does not see it.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import gcd

from dojoir.ir.affine import Affine, Atom, Compound, Extremum, FloorDiv, Iter, Mod, SizeVar
from dojoir.ir.nodes import Scope
from dojoir.support.memo import charge


def is_nonnegative(affine: Affine, scopes: Sequence[Scope]) -> bool:
    """Whether `affine` is surely ≥ 0 wherever the body of the innermost of `scopes` runs.

    An iterator is at least 0 and less than each bound of its scope. A size is at least 1; `a % c` lies in
    0..c-1. `c * (a // c)` lies in a-c+1..a; a min is at least what all of its parts are. Guards and facts are not
    used.
    """
    if not affine.terms:
        return affine.offset >= 0
    atom, coefficient = max(affine.terms, key=_replacement_order)
    rest = affine - Affine.atom(atom) * coefficient
    match atom:
        case Iter(depth) if coefficient < 0:
            bounds = scopes[depth].extent.bounds
            charge(len(bounds))  # of so many bounds each, in so many scopes, there is a question for each choice
            return any(is_nonnegative(rest + (bound - 1) * coefficient, scopes) for bound in bounds)
        case Iter():
            return is_nonnegative(rest, scopes)
        case FloorDiv(numerator, divisor) if coefficient % divisor == 0:
            least = numerator - (divisor - 1 if coefficient > 0 else 0)
            return is_nonnegative(rest + least * (coefficient // divisor), scopes)
        case FloorDiv(numerator, _) if coefficient > 0 and is_nonnegative(numerator, scopes):
            return is_nonnegative(rest, scopes)
        case Mod(_, divisor):
            return is_nonnegative(rest + min(0, coefficient * (divisor - 1)), scopes)
        case SizeVar() if coefficient > 0:
            return is_nonnegative(rest + coefficient, scopes)
        case Extremum(word, parts):
            charge(len(parts))
            enough = all if (word == "min") == (coefficient > 0) else any
            return enough(is_nonnegative(rest + part * coefficient, scopes) for part in parts)
    return False


def without_divisions(affine: Affine, scopes: Sequence[Scope]) -> Affine:
    """The same value wherever the body of the innermost of `scopes` runs, without the divisions that its range is
    seen to decide. Of a multiple of g and a rest r, 0 <= r < g, divided by a multiple of g, r does not count. Of a
    min or a max, what is seen to be never the smallest or the largest is left out."""
    if not any(isinstance(atom, Compound) for atom, _ in affine.terms):
        return affine
    result = Affine.constant(affine.offset)
    for atom, coefficient in affine.terms:
        value = Affine.atom(atom)
        if isinstance(atom, FloorDiv | Mod):
            numerator = without_divisions(atom.numerator, scopes)
            rest = _rest(numerator, atom.divisor, scopes)
            whole = numerator - rest
            value = whole // atom.divisor if isinstance(atom, FloorDiv) else whole % atom.divisor + rest
        elif isinstance(atom, Extremum):
            value = _decided(atom, scopes)
        result = result + value * coefficient
    return result


def _decided(atom: Extremum, scopes: Sequence[Scope]) -> Affine:
    """An extremum without the parts that are seen to be on the far side of another one."""
    sign = -1 if atom.word == "min" else 1
    left = [without_divisions(part, scopes) for part in atom.parts]
    for part in tuple(left):
        if any(other is not part and is_nonnegative((other - part) * sign, scopes) for other in left):
            left.remove(part)
    return atom.among(left)


def _rest(numerator: Affine, divisor: int, scopes: Sequence[Scope]) -> Affine:
    """The part of a numerator that a division ignores: it is less than g, where g divides both the divisor and
    the rest of the numerator."""
    for common in sorted({divisor, *(gcd(divisor, c) for _, c in numerator.terms)}, reverse=True):
        terms = tuple(term for term in numerator.terms if term[1] % common)
        rest = Affine(terms, numerator.offset % common)
        if terms and is_nonnegative(rest, scopes) and is_nonnegative(common - 1 - rest, scopes):
            return rest
    return Affine.constant(0)


def _replacement_order(term: tuple[Atom, int]) -> tuple[int, int]:
    """The order in which atoms are replaced by their extremes. What is a min or a max is each of its parts in turn.
    Iterators come next, inner before outer, since an extent mentions outer iterators and sizes; then divisions,
    which what came in may cancel; then sizes."""
    match term[0]:
        case Extremum():
            return (4, 0)
        case Iter(depth):
            return (3, depth)
        case FloorDiv():
            return (2, 0)
        case Mod():
            return (1, 0)
        case SizeVar():
            return (0, 0)
