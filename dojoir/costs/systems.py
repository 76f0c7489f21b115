"""Systems of quasi-affine constraints on iterators, and how they are brought into a form that can be summed
(`dojoir.costs.counting`): without equalities and without divisions of a variable."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from math import gcd, lcm

import islpy as isl

from dojoir.costs.polynomial import Polynomial, without_remainders
from dojoir.ir.affine import Affine, Atom, FloorDiv, Iter
from dojoir.ir.nodes import Condition, substitute_iterators
from dojoir.sets.limits import integer
from dojoir.support.frozen import dataclass

LARGEST_PERIOD = 256
"""How many remainders of one variable are told apart before a count is given up."""


class TooManyPieces(Exception):
    """No formula of a reasonable length was found."""


@dataclass(frozen=True)
class System:
    """The integer points of some iterators where every one of `inequalities` is ≥ 0 and of `equalities` is 0."""

    variables: frozenset[int]
    inequalities: tuple[Affine, ...]
    equalities: tuple[Affine, ...] = ()

    def substitute(self, depth: int, value: Affine, new: Iterable[int] = ()) -> System:
        """One variable replaced by a value, which may have new variables."""
        mapping = substitute_iterators({depth: value})
        return System(
            (self.variables - {depth}).union(new),
            tuple(a.substitute(mapping) for a in self.inequalities),
            tuple(a.substitute(mapping) for a in self.equalities),
        )

    def having(self, *inequalities: Affine) -> System:
        """The points that have some more inequalities."""
        return System(self.variables, (*self.inequalities, *inequalities), self.equalities)


def system(variables: int, conditions: Iterable[Condition]) -> list[System]:
    """The points of the first iterators that have all conditions; those with a `!=` fall into two systems."""
    found = [System(frozenset(range(variables)), ())]
    for condition in conditions:
        difference = without_remainders(condition.left - condition.right)
        match condition.relation:
            case "==":
                found = [System(s.variables, s.inequalities, (*s.equalities, difference)) for s in found]
            case "!=":
                found = [s.having(side) for s in found for side in (difference - 1, -difference - 1)]
            case relation:
                strict = 1 if relation in {"<", ">"} else 0
                side = difference if relation in {">", ">="} else -difference
                found = [s.having(side - strict) for s in found]
    return found


def systems_of(points: isl.Set) -> list[System]:
    """The points of a set as disjoint systems: dimension d is iterator d, parameter `n_N` the size N."""
    found: list[System] = []
    simple = points.compute_divs().coalesce().make_disjoint().remove_redundancies()
    for basic in simple.compute_divs().get_basic_sets():  # isl may forget what a division is of
        inequalities: list[Affine] = []
        equalities: list[Affine] = []
        for constraint in basic.get_constraints():
            (equalities if constraint.is_equality() else inequalities).append(affine_of(constraint))
        found.append(System(frozenset(range(points.dim(isl.dim_type.set))), tuple(inequalities), tuple(equalities)))
    return found


def affine_of(source: isl.Constraint | isl.Aff) -> Affine:
    """A constraint or expression of isl, times its denominator, as ours."""
    inner = isl.dim_type.set if isinstance(source, isl.Constraint) else isl.dim_type.in_
    values = [(source.get_constant_val(), Affine.constant(1))]
    for i, name in enumerate(source.get_var_names_not_none(isl.dim_type.param)):
        values.append((source.get_coefficient_val(isl.dim_type.param, i), Affine.size(name.removeprefix("n_"))))
    values += [(source.get_coefficient_val(inner, i), Affine.iterator(i)) for i in range(source.dim(inner))]
    for i in range(source.dim(isl.dim_type.div)):
        coefficient = source.get_coefficient_val(isl.dim_type.div, i)
        if not coefficient.is_zero():
            division = source.get_div(i)
            denominator = integer(division.get_denominator_val())
            values.append((coefficient, affine_of(division) // denominator))
    scale = 1 if isinstance(source, isl.Constraint) else integer(source.get_denominator_val())
    total = Affine.constant(0)
    for value, atom in values:
        if not value.is_zero():
            total = total + atom * integer(value.mul(isl.Val.int_from_si(value.get_ctx(), scale)))
    return total


def reduced(system: System) -> System | None:
    """The same points with each constraint divided by the common factor of its coefficients and none twice; None
    if a constraint never holds."""
    inequalities: dict[Affine, None] = {}
    equalities: dict[Affine, None] = {}
    for affine in system.inequalities:
        common = gcd(*(c for _, c in affine.terms)) or 1
        smaller = Affine(tuple((a, c // common) for a, c in affine.terms), affine.offset // common)
        if not smaller.is_constant:
            inequalities[smaller] = None
        elif smaller.offset < 0:
            return None
    for affine in system.equalities:
        common = gcd(*(c for _, c in affine.terms)) or 1
        if affine.offset % common or (affine.is_constant and affine.offset):
            return None
        if not affine.is_constant:
            equalities[Affine(tuple((a, c // common) for a, c in affine.terms), affine.offset // common)] = None
    return System(system.variables, tuple(inequalities), tuple(equalities))


def solve(system: System) -> tuple[int, Affine, System] | None:
    """A variable that an equality determines, its value in the others, and the system of the others."""
    found = [
        (abs(c), -atom.depth, affine)
        for affine in system.equalities
        for atom, c in affine.terms
        if isinstance(atom, Iter) and not any(_in_divisions(affine, atom.depth))
    ]
    if not found:
        return None
    factor, negative, affine = min(found, key=lambda f: f[:2])
    depth = -negative
    rest = affine - Affine.iterator(depth) * affine.coefficient(Iter(depth))
    multiple = rest if affine.coefficient(Iter(depth)) < 0 else -rest  # factor * variable
    others = System(system.variables, system.inequalities, tuple(e for e in system.equalities if e is not affine))
    value = multiple // factor
    remainder = multiple - value * factor
    solved = others.substitute(depth, value)
    return depth, value, System(solved.variables, solved.inequalities, (*solved.equalities, remainder))


def difficulty(system: System, weight: Polynomial, depth: int) -> tuple[int, int, int]:
    """The less, the sooner a variable is summed out: how hard its divisions are, how many new ones it brings, in
    how many regions."""
    divided = list(divisions(system, weight, depth))
    if divided:
        return (2, period(system, weight, depth), -depth)
    coefficients = [(a, a.coefficient(Iter(depth))) for a in system.inequalities]
    new = sum(abs(c) > 1 and len(a.iterators) > 1 for a, c in coefficients)
    regions = sum(c > 0 for _, c in coefficients) * sum(c < 0 for _, c in coefficients)
    return (1 if new else 0, regions + new, -depth)


def _in_divisions(affine: Affine, depth: int) -> Iterator[FloorDiv]:
    """The divisions in an expression whose numerator has a variable, nested ones too."""
    for atom, _ in affine.terms:
        if isinstance(atom, FloorDiv) and depth in atom.numerator.iterators:
            yield atom
            yield from _in_divisions(atom.numerator, depth)


def divisions(system: System, weight: Polynomial, depth: int) -> Iterator[FloorDiv]:
    """The divisions in a system and a weight whose numerator has a variable."""
    for affine in (*system.inequalities, *system.equalities, *map(Affine.atom, weight.atoms)):
        yield from _in_divisions(affine, depth)


def period(system: System, weight: Polynomial, depth: int) -> int:
    """A number whose multiples leave all divisions when they are added to a variable."""

    def visit(affine: Affine, outer: int) -> Iterator[int]:
        for atom, _ in affine.terms:
            if isinstance(atom, FloorDiv) and depth in atom.numerator.iterators:
                yield outer * atom.divisor
                yield from visit(atom.numerator, outer * atom.divisor)

    affines = (*system.inequalities, *system.equalities, *map(Affine.atom, weight.atoms))
    return lcm(*(period for affine in affines for period in visit(affine, 1)))


def split(system: System, weight: Polynomial, depth: int) -> Iterator[tuple[System, Polynomial]]:
    """The system as disjoint ones that have fewer divisions of a variable."""
    divided = set(divisions(system, weight, depth))
    largest = max(d.divisor for d in divided)
    numerators = {d.numerator for d in divided}
    (numerator, *more) = numerators
    if not more and numerator.terms == ((Iter(depth), 1),) and all(largest % d.divisor == 0 for d in divided):
        # v + k = largest*q + r with a new q and r: no division by `largest` is left.
        q, r = max(system.variables) + 1, max(system.variables) + 2
        value = Affine.iterator(q) * largest + Affine.iterator(r) - numerator.offset
        whole = FloorDiv(Affine.iterator(r), largest)
        part = system.substitute(depth, value, (q, r))
        part = System(
            part.variables,
            (
                *(without(a, whole) for a in part.inequalities),
                Affine.iterator(r),
                largest - 1 - Affine.iterator(r),
            ),
            tuple(without(a, whole) for a in part.equalities),
        )
        new = weight.substitute(substitute_iterators({depth: value}))
        yield part, new.replace(lambda a: Polynomial({}) if a == whole else Polynomial.of(Affine.atom(a)))
        return
    multiple = period(system, weight, depth)
    if multiple > LARGEST_PERIOD:
        raise TooManyPieces
    for remainder in range(multiple):
        value = Affine.iterator(depth) * multiple + remainder
        yield (
            system.substitute(depth, value, (depth,)),
            weight.substitute(substitute_iterators({depth: value})),
        )


def without(affine: Affine, atom: Atom) -> Affine:
    """The expression where an atom is 0."""
    return affine - Affine.atom(atom) * affine.coefficient(atom)
