"""How many integer points a system of quasi-affine constraints has, as a formula in the sizes.

The method is W. Pugh, "Counting solutions to Presburger formulas: how and why" (PLDI 1994): variables are summed
out one after another. Where several lower or upper bounds compete, the space is split into regions in which one
of each is the tightest. A division of a variable is removed by writing the variable as a multiple plus a
remainder. Faulhaber's formula sums what is then a polynomial. isl is asked only which regions are empty.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from fractions import Fraction
from functools import reduce

import islpy as isl

from dojoir.costs.polynomial import Polynomial, summed, without_remainders
from dojoir.costs.systems import (
    System,
    TooManyPieces,
    affine_of,
    difficulty,
    divisions,
    reduced,
    solve,
    split,
    without,
)
from dojoir.errors import ArgumentError
from dojoir.ir.affine import Affine, Atom, FloorDiv, Iter, Mod, SizeVar
from dojoir.ir.nodes import Kernel, Replace, substitute_iterators
from dojoir.sets.kernel_sets import isl_affine, sets_of
from dojoir.sets.limits import integer
from dojoir.sets.ranges import is_nonnegative
from dojoir.support.frozen import dataclass

MAX_PIECES = 64
"""How many regions a formula may take before it is given up."""

MAX_TERMS = 256
"""How many terms a formula may have in one region before it is given up."""

LARGEST_PERIOD = 256
"""How many remainders of one variable are told apart before a count is given up."""

MAX_CHAMBERS = 16
"""How many sets of sizes with a formula of their own are told apart."""


@dataclass(frozen=True)
class ConditionalPiece:
    """`value` where all of `inequalities` are ≥ 0 and all of `equalities` 0 (both in sizes), and 0 elsewhere."""

    inequalities: tuple[Affine, ...]
    equalities: tuple[Affine, ...]
    value: Polynomial

    def holds(self, sizes: Mapping[str, int]) -> bool:
        """Whether its conditions hold for given sizes."""
        return all(a.evaluate(sizes) >= 0 for a in self.inequalities) and all(
            a.evaluate(sizes) == 0 for a in self.equalities
        )


@dataclass(frozen=True)
class SumOfPieces:
    """The sum of pieces; if they are `cases`, only the first that holds counts, and the sum is 0 if none does."""

    pieces: tuple[ConditionalPiece, ...]
    cases: bool

    def __call__(self, sizes: Mapping[str, int]) -> Fraction:
        holding = (piece.value.evaluate(sizes) for piece in self.pieces if piece.holds(sizes))
        return next(holding, Fraction(0)) if self.cases else sum(holding, Fraction(0))


class Counter:
    """Counts systems for the sizes that one kernel allows."""

    def __init__(self, kernel: Kernel, max_pieces: int = MAX_PIECES) -> None:
        self._sets = sets_of(kernel)
        sides = [side for fact in kernel.facts for side in (fact.left, fact.right)]
        self._divided = any(isinstance(atom, FloorDiv | Mod) for side in sides for atom, _ in side.terms)
        self._max_pieces = max_pieces
        self._pieces = 0
        self._counted: dict[System, list[ConditionalPiece]] = {}

    def count(self, systems: Sequence[System]) -> tuple[SumOfPieces, ...]:
        """How many points disjoint systems have together, as a product of sums.

        Raises TooManyPieces where that would be too long, and StepLimitReached under `dojoir.sets.limits.limited`.
        """
        counted = [[self._count_connected(part) for part in self._parts(system)] for system in systems]
        if len(counted) == 1:
            return tuple(self._simplified(pieces) for pieces in counted[0])
        return (self._simplified([piece for parts in counted for piece in _multiplied(parts)]),)

    def enumerate(self, system: System) -> int:
        """The points of a system without sizes, by isl, which visits each value of all variables but one."""
        return integer(self._set(system).count_val())

    def _parts(self, system: System) -> list[System]:
        """Systems that share no variable and have the points of this one as their product."""
        if self._is_empty(system):
            return [System(frozenset(), (Affine.constant(-1),))]
        inequalities = list(dict.fromkeys(system.inequalities))
        for affine in list(inequalities):
            if len(affine.iterators) > 1:  # it may only seem to tie them together
                left = tuple(a for a in inequalities if a is not affine)
                if self._is_empty(System(system.variables, (*left, -affine - 1), system.equalities)):
                    inequalities.remove(affine)
        groups: list[frozenset[int]] = [frozenset({d}) for d in sorted(system.variables)]
        for affine in (*inequalities, *system.equalities):
            tied = [g for g in groups if g & affine.iterators]
            if len(tied) > 1:
                groups = [g for g in groups if g not in tied] + [frozenset().union(*tied)]
        return [
            System(
                group,
                tuple(a for a in inequalities if a.iterators & group or not (group or a.iterators)),
                tuple(a for a in system.equalities if a.iterators & group or not (group or a.iterators)),
            )
            for group in [frozenset[int](), *groups]
        ]

    def _count_connected(self, system: System) -> list[ConditionalPiece]:
        """The points of a system as a sum of pieces. Equal systems are counted once, whatever their variables."""
        names = {depth: n for n, depth in enumerate(sorted(system.variables))}
        renamed = substitute_iterators({depth: Affine.iterator(n) for depth, n in names.items()})
        same = System(
            frozenset(names.values()),
            tuple(a.substitute(renamed) for a in system.inequalities),
            tuple(a.substitute(renamed) for a in system.equalities),
        )
        found = self._counted.get(same)
        if found is None:
            self._pieces = 0
            found = [] if self._is_empty(same) else list(self._sum(same, Polynomial.constant(1)))
            self._counted[same] = found
        return found

    # -- summing out -------------------------------------------------------------------------------------
    def _sum(self, system: System, weight: Polynomial) -> Iterator[ConditionalPiece]:
        """The sum of `weight` over the points of a system that has some, in pieces."""
        left = reduced(system)
        if left is None:
            return
        if len(weight.terms) > MAX_TERMS:
            raise TooManyPieces
        system = left
        if not system.variables:
            self._pieces += 1
            if self._pieces > self._max_pieces:
                raise TooManyPieces
            yield ConditionalPiece(system.inequalities, system.equalities, weight)
            return
        solved = solve(system)
        if solved is not None:
            depth, value, rest = solved
            yield from self._sum(rest, weight.substitute(substitute_iterators({depth: value})))
            return
        depth = min(system.variables, key=lambda d: difficulty(system, weight, d))
        if any(divisions(system, weight, depth)):
            for part, multiplied in split(system, weight, depth):
                if not self._is_empty(part):
                    yield from self._sum(part, multiplied)
        else:
            yield from self._sum_out(system, weight, depth)

    def _sum_out(self, system: System, weight: Polynomial, depth: int) -> Iterator[ConditionalPiece]:
        """The sum over one variable that is in no division and in no equality, then over the rest."""
        lower, upper = self._bounds(system, depth)
        rest = tuple(a for a in system.inequalities if not a.coefficient(Iter(depth)))
        outside = System(system.variables - {depth}, rest, system.equalities)
        for low, lowest in _choices(lower):
            for high, highest in _choices(upper):
                region = outside.having(*lowest, *highest)
                start = (low.factor - 1 - low.rest) // low.factor
                end = high.rest // high.factor
                if (lowest or highest) and self._is_empty(region.having(end - start)):
                    continue
                total = summed(weight, Iter(depth), start, end)
                yield from self._sum(region.having(_not_below(low, high)), total)

    def _bounds(self, system: System, depth: int) -> tuple[list[_Bound], list[_Bound]]:
        """The lower and upper bounds of a variable, without those that others imply."""
        variable = Iter(depth)
        tight: dict[tuple[tuple[Atom, int], ...], Affine] = {}
        for affine in system.inequalities:
            known = tight.get(affine.terms)
            if affine.coefficient(variable) and (known is None or affine.offset < known.offset):
                tight[affine.terms] = affine
        others = [a for a in system.inequalities if not a.coefficient(variable)]
        kept = list(tight.values())
        for affine in tight.values():
            left = [a for a in kept if a is not affine]
            replaced = any((a.coefficient(variable) > 0) == (affine.coefficient(variable) > 0) for a in left)
            beyond = System(system.variables, (*others, *left, -affine - 1), system.equalities)
            if replaced and self._is_empty(beyond):
                kept = left
        sides: tuple[list[_Bound], list[_Bound]] = ([], [])
        for affine in kept:
            coefficient = affine.coefficient(variable)
            sides[coefficient < 0].append(_Bound(abs(coefficient), without(affine, variable)))
        if not all(sides):
            raise ArgumentError(
                "a scope has no bound: dojoir.prove says what is wrong with the kernel", "bad-arguments"
            )
        return sides

    def _is_empty(self, system: System) -> bool:
        """Whether a system has no points for any sizes."""
        at_zero = substitute_iterators({d: Affine.constant(0) for d in system.variables})
        if not system.equalities and all(is_nonnegative(a.substitute(at_zero), ()) for a in system.inequalities):
            return False  # 0 is in it, for all sizes
        return self._set(system).intersect_params(self._sets.parameters).is_empty()

    def _set(self, system: System) -> isl.Set:
        conditions = [f"{isl_affine(a)} >= 0" for a in system.inequalities]
        conditions += [f"{isl_affine(a)} = 0" for a in system.equalities]
        dims = f"[{', '.join(f'i{d}' for d in sorted(system.variables))}] " if system.variables else ""
        return self._sets.workspace.set(f"{self._sets.prefix}{{ {dims}: {' and '.join(conditions) or 'true'} }}")

    # -- the sum as a person would write it --------------------------------------------------------------
    def _simplified(self, pieces: Iterable[ConditionalPiece]) -> SumOfPieces:
        total: dict[tuple[frozenset[Affine], frozenset[Affine]], ConditionalPiece] = {}
        for piece in pieces:
            reduced = self._unconditional(piece)
            if reduced is not None:
                key = frozenset(reduced.inequalities), frozenset(reduced.equalities)
                value = reduced.value + total[key].value if key in total else reduced.value
                total[key] = ConditionalPiece(reduced.inequalities, reduced.equalities, value)
        found = [ConditionalPiece(p.inequalities, p.equalities, self._undivided(p.value)) for p in total.values()]
        chambers = self._chambers(found) if len(found) > 1 else None
        if chambers is not None:
            return SumOfPieces(tuple(self._cases(chambers)), cases=True)
        return SumOfPieces(tuple(p for p in found if not p.value.is_zero), cases=len(found) == 1)

    def _chambers(self, pieces: Iterable[ConditionalPiece]) -> list[tuple[isl.Set, Polynomial]] | None:
        """Disjoint sets of sizes with the value there, which together are all sizes; None if they are too many."""
        chambers = [(self._sets.parameters, Polynomial({}))]
        for piece in pieces:
            domain = self._set(System(frozenset(), piece.inequalities, piece.equalities))
            divided = [
                (part, value + piece.value if inside else value)
                for sizes, value in chambers
                for part, inside in ((sizes.intersect(domain), True), (sizes.subtract(domain), False))
            ]
            chambers = [(sizes, value) for sizes, value in divided if not sizes.is_empty()]
            if len(chambers) > MAX_CHAMBERS:
                return None
        nothing = Polynomial({})
        return [
            (part, nothing if self._agree(value, nothing, part) else self._undivided(value))
            for sizes, value in chambers
            for part in map(isl.BasicSet.to_set, sizes.coalesce().make_disjoint().get_basic_sets())
        ]

    def _cases(self, chambers: list[tuple[isl.Set, Polynomial]]) -> Iterator[ConditionalPiece]:
        """The cases of a sum, with as few polynomials as hold in several chambers each. The last of them needs no
        condition, if it is not 0."""
        groups: list[tuple[isl.Set, Polynomial]] = []
        while chambers:
            agreeing = [[s for s, other in chambers if self._agree(value, other, s)] for _, value in chambers]
            most = max(range(len(chambers)), key=lambda n: len(agreeing[n]))
            value = chambers[most][1]
            groups.append((reduce(isl.Set.union, agreeing[most]), value))
            chambers = [(s, other) for s, other in chambers if not self._agree(value, other, s)]
        described = [(self._described(domain), value) for domain, value in groups]
        described.sort(key=lambda case: (case[1].is_zero, len(case[0])))
        for n, (domains, value) in enumerate(described):
            if n == len(described) - 1 and not value.is_zero:
                yield ConditionalPiece((), (), value)
            elif not value.is_zero:
                yield from (
                    ConditionalPiece(inequalities, equalities, value) for inequalities, equalities in domains
                )

    def _described(self, domain: isl.Set) -> list[tuple[tuple[Affine, ...], tuple[Affine, ...]]]:
        """Sizes that the kernel allows as alternatives of inequalities and equalities."""
        context = self._sets.parameters
        hull = domain.remove_divs().coalesce().simple_hull().to_set()
        if hull.intersect(context).is_subset(domain):
            domain = hull
        found = []
        simple = domain.gist(context).compute_divs().coalesce().remove_redundancies()
        for basic in simple.compute_divs().get_basic_sets():  # isl may forget what a division is of
            affines = [(affine_of(c), c.is_equality()) for c in basic.get_constraints()]
            inequalities = tuple(a for a, equal in affines if not equal and not is_nonnegative(a, ()))
            found.append((inequalities, tuple(a for a, equal in affines if equal)))
        return found

    def _agree(self, value: Polynomial, other: Polynomial, sizes: isl.Set) -> bool:
        """Whether two polynomials are seen to be the same on a set of sizes, by the equalities that hold there."""
        difference = value - other
        return difference.is_zero or all(self._vanishes(difference, basic) for basic in sizes.get_basic_sets())

    def _vanishes(self, value: Polynomial, basic: isl.BasicSet) -> bool:
        for constraint in basic.affine_hull().get_constraints():
            equality = affine_of(constraint)
            for atom, coefficient in equality.terms:
                other = without(equality, atom) * -coefficient
                if isinstance(atom, SizeVar) and abs(coefficient) == 1 and atom.name not in other.sizes:
                    value = value.substitute(_fix(atom, other))
                    break

        def allowed(remainders: Mapping[str, tuple[int, int]]) -> bool:
            equalities = tuple(without_remainders(Affine.size(n) % m - r) for n, (m, r) in remainders.items())
            return not self._set(System(frozenset(), (), equalities)).intersect(basic.to_set()).is_empty()

        return value.is_zero or value.without_divisions(allowed, effort=256).is_zero

    def _undivided(self, value: Polynomial) -> Polynomial:
        return value.without_divisions(self._may_have)

    def _unconditional(self, piece: ConditionalPiece) -> ConditionalPiece | None:
        """The piece without the conditions that always hold or that do not matter; None if it never counts."""
        inequalities = [a for a in piece.inequalities if not is_nonnegative(a, ())]
        if not inequalities and not piece.equalities:
            return ConditionalPiece((), (), piece.value)
        domain = self._set(System(frozenset(), tuple(inequalities), piece.equalities))
        if domain.intersect(self._sets.parameters).is_empty():
            return None
        for affine in list(inequalities):
            others = [a for a in inequalities if a is not affine]
            beyond = self._set(System(frozenset(), (*others, -affine - 1), piece.equalities))
            beyond = beyond.intersect(self._sets.parameters)
            if self._agree(piece.value, Polynomial({}), beyond):
                inequalities = others
        always = [
            a for a in piece.equalities if self._sets.parameters.is_subset(self._set(System(frozenset(), (), (a,))))
        ]
        return ConditionalPiece(
            tuple(inequalities), tuple(a for a in piece.equalities if a not in always), piece.value
        )

    def _may_have(self, remainders: Mapping[str, tuple[int, int]]) -> bool:
        """Whether sizes that the kernel allows have given remainders."""
        if not self._divided:
            return True
        equalities = tuple(without_remainders(Affine.size(n) % m - r) for n, (m, r) in remainders.items())
        return not self._is_empty(System(frozenset(), (), equalities))


@dataclass(frozen=True)
class _Bound:
    """`factor * v >= -rest` for a lower bound of v, `factor * v <= rest` for an upper one; `factor` is positive."""

    factor: int
    rest: Affine


def _choices(bounds: Sequence[_Bound]) -> Iterator[tuple[_Bound, list[Affine]]]:
    """Each bound with the inequalities that make it the tightest (of equal ones the first).

    They compare rational bounds: what is tightest of these is so of the integers within them.
    """
    for n, bound in enumerate(bounds):
        yield (
            bound,
            [
                other.rest * bound.factor - bound.rest * other.factor - (1 if k < n else 0)
                for k, other in enumerate(bounds)
                if k != n
            ],
        )


def _not_below(low: _Bound, high: _Bound) -> Affine:
    """At least 0 only where the last integer of a range is not below the first one, or is just before it (where
    the sum of a polynomial over the range is 0 as it should). So it is wherever the range has an integer."""
    gap = high.rest * low.factor + low.rest * high.factor
    if low.factor == 1:
        return gap + high.factor
    if high.factor == 1:
        return gap + low.factor
    return gap


def _multiplied(factors: Iterable[Sequence[ConditionalPiece]]) -> list[ConditionalPiece]:
    """The product of sums of pieces, as a sum of pieces."""
    result = [ConditionalPiece((), (), Polynomial.constant(1))]
    for pieces in factors:
        result = [
            ConditionalPiece((*p.inequalities, *q.inequalities), (*p.equalities, *q.equalities), p.value * q.value)
            for p in result
            for q in pieces
        ]
    return result


def _fix(size: SizeVar, value: Affine) -> Replace:
    return lambda atom: value if atom == size else Affine.atom(atom)
