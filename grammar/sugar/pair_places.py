"""The condition on the sizes for the place of a pair to be an i32."""

from __future__ import annotations

from collections.abc import Sequence

from dojoir.ir.affine import Affine, FloorDiv, Iter, Mod
from dojoir.ir.nodes import Condition, Const, Expr, Index, Scope
from dojoir.types.pair_keys import LEAST


def facts_of_place(place: Expr, scopes: Sequence[Scope]) -> tuple[Condition, ...] | None:
    """The facts by which a number or an affine value is always an i32, `N <= 2147483648` of the iterator of a scope
    of N; None where it is not, or none are found."""
    match place:
        case Const(int() as number):
            return () if LEAST <= number < -LEAST else None
        case Index(affine):
            facts: list[Condition] = []
            for sign, most in ((1, -LEAST - 1), (-1, -LEAST)):
                largest = _largest(affine * sign, scopes)
                if largest is None or (largest.is_constant and largest.offset > most):
                    return None
                if not largest.is_constant:
                    facts.append(Condition(largest - largest.offset, "<=", Affine.constant(most - largest.offset)))
            return tuple(facts)
    return None


def _largest(affine: Affine, scopes: Sequence[Scope]) -> Affine | None:
    """A bound from above in the sizes, for all iterations of the scopes."""
    while affine.iterators:
        found = _without_quotients(affine, scopes)
        if found is None:
            return None
        affine = found
        deepest = max(affine.iterators, default=None)
        if deepest is not None:
            coefficient = affine.coefficient(Iter(deepest))
            last = Affine.constant(0)
            if coefficient > 0:
                last = min(scopes[deepest].extent.bounds, key=lambda bound: len(bound.terms)) - 1
            affine += (last - Affine.iterator(deepest)) * coefficient
    return affine


def _without_quotients(affine: Affine, scopes: Sequence[Scope]) -> Affine | None:
    """A bound from above in which no iterator is divided."""
    for atom, coefficient in affine.terms:
        own = Affine.atom(atom)
        if not own.iterators or isinstance(atom, Iter):
            continue
        match atom:
            case Mod(_, divisor):
                bound = Affine.constant(divisor - 1 if coefficient > 0 else 0)
            case FloorDiv(numerator, divisor):
                sign = 1 if coefficient > 0 else -1
                largest = _largest(numerator * sign, scopes)
                if largest is None:
                    return None
                bound = largest * sign // divisor
            case _:
                return None
        affine += (bound - own) * coefficient
    return affine
