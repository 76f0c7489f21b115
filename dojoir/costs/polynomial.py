"""Polynomials with rational coefficients in sizes, iterators and floor divisions: what counting sums up."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from fractions import Fraction
from functools import cache
from itertools import product
from math import comb, lcm, prod

from dojoir.ir.affine import Affine, Atom, FloorDiv, Iter, Mod, SizeVar
from dojoir.support.frozen import dataclass

Monomial = tuple[tuple[Atom, int], ...]
"""Atoms with their powers, in the order of their keys."""


@dataclass(frozen=True)
class Polynomial:
    """`terms` gives each monomial a coefficient, which is not 0. A remainder `a % c` is written `a - c*(a // c)`,
    so that no atom is a `Mod`; a division has no negative constant in its numerator."""

    terms: Mapping[Monomial, Fraction]

    def __hash__(self) -> int:
        return hash(frozenset(self.terms.items()))

    # -- construction ------------------------------------------------------------------------------------
    @staticmethod
    def constant(value: int | Fraction) -> Polynomial:
        return Polynomial({(): Fraction(value)} if value else {})

    @staticmethod
    def of(affine: Affine) -> Polynomial:
        """An affine expression as a polynomial."""
        plain = without_remainders(affine)
        terms: list[tuple[Monomial, Fraction]] = [((), Fraction(plain.offset))]
        for atom, coefficient in plain.terms:
            if isinstance(atom, FloorDiv) and atom.numerator.offset < 0:  # (a - 1) // 2 is (a + 1) // 2 - 1
                whole = atom.numerator.offset // atom.divisor
                atom = FloorDiv(atom.numerator - whole * atom.divisor, atom.divisor)
                terms.append(((), Fraction(coefficient * whole)))
            terms.append((((atom, 1),), Fraction(coefficient)))
        return _collect(terms)

    def __add__(self, other: Polynomial) -> Polynomial:
        return _collect([*self.terms.items(), *other.terms.items()])

    def __sub__(self, other: Polynomial) -> Polynomial:
        return self + other * -1

    def __mul__(self, other: Polynomial | int | Fraction) -> Polynomial:
        if not isinstance(other, Polynomial):
            return Polynomial({m: c * other for m, c in self.terms.items()} if other else {})
        return _collect((_multiply(m, n), c * d) for m, c in self.terms.items() for n, d in other.terms.items())

    def __pow__(self, power: int) -> Polynomial:
        result = Polynomial.constant(1)
        for _ in range(power):
            result = result * self
        return result

    # -- questions ---------------------------------------------------------------------------------------
    @property
    def is_zero(self) -> bool:
        return not self.terms

    @property
    def atoms(self) -> frozenset[Atom]:
        """The atoms of all monomials; what stands inside a division does not count."""
        return frozenset(atom for monomial in self.terms for atom, _ in monomial)

    def powers(self, atom: Atom) -> list[Polynomial]:
        """The coefficients of the powers of an atom, from 0 up."""
        found: list[dict[Monomial, Fraction]] = []
        for monomial, coefficient in self.terms.items():
            power = next((p for a, p in monomial if a == atom), 0)
            while len(found) <= power:
                found.append({})
            found[power][tuple((a, p) for a, p in monomial if a != atom)] = coefficient
        return [Polynomial(terms) for terms in found]

    def evaluate(self, sizes: Mapping[str, int]) -> Fraction:
        """The value for concrete sizes; there must be no iterators."""
        total = Fraction(0)
        for monomial, coefficient in self.terms.items():
            for atom, power in monomial:
                coefficient *= Affine.atom(atom).evaluate(sizes) ** power
            total += coefficient
        return total

    # -- rewriting ---------------------------------------------------------------------------------------
    def substitute(self, new: Callable[[SizeVar | Iter], Affine]) -> Polynomial:
        """Every size and iterator replaced, inside divisions too."""
        return self.replace(lambda atom: Polynomial.of(Affine.atom(atom).substitute(new)))

    def replace(self, new: Callable[[Atom], Polynomial]) -> Polynomial:
        """Every atom of a monomial replaced by a polynomial."""
        replaced = {atom: new(atom) for atom in self.atoms}
        total = Polynomial({})
        for monomial, coefficient in self.terms.items():
            term = Polynomial.constant(coefficient)
            for atom, power in monomial:
                term = term * replaced[atom] ** power
            total = total + term
        return total

    def without_divisions(
        self, allowed: Callable[[Mapping[str, tuple[int, int]]], bool], effort: int = 4096
    ) -> Polynomial:
        """The polynomial without floor divisions that has the same values, where there is one; else this one.

        Each size that is divided is written `m*n + r`, with `m` the common multiple of its divisors. If the
        polynomials in `n` that this gives are one polynomial in the size for every remainder `r`, that is it.
        `allowed` says whether sizes may have given remainders: it gets each size's `(m, r)`. `effort` is the most
        terms, of all cases together, that are looked at.
        """
        periods: dict[str, int] = {}
        for atom in self.atoms:
            if isinstance(atom, FloorDiv):
                _periods(atom, periods)
        if not periods or prod(periods.values()) * len(self.terms) > effort:
            return self
        found: Polynomial | None = None
        for remainders in product(*map(range, periods.values())):
            at = {name: (m, r) for (name, m), r in zip(periods.items(), remainders, strict=True)}
            here = self._at_remainders(at)
            if here == found or not allowed(at):
                continue
            if found is not None or any(isinstance(atom, FloorDiv) for atom in here.atoms):
                return self
            found = here
        return found if found is not None else self

    def _at_remainders(self, at: Mapping[str, tuple[int, int]]) -> Polynomial:
        def split(atom: SizeVar | Iter) -> Affine:
            if isinstance(atom, SizeVar) and atom.name in at:
                period, remainder = at[atom.name]
                return Affine.size(atom.name) * period + remainder
            return Affine.atom(atom)

        def join(atom: Atom) -> Polynomial:
            if isinstance(atom, SizeVar) and atom.name in at:
                period, remainder = at[atom.name]
                return Polynomial.of(Affine.size(atom.name) - remainder) * Fraction(1, period)
            return Polynomial.of(Affine.atom(atom))

        return self.substitute(split).replace(join)


def without_remainders(affine: Affine) -> Affine:
    """Each `a % c` written as `a - c*(a // c)`, inside divisions too."""
    result = Affine.constant(affine.offset)
    for atom, coefficient in affine.terms:
        match atom:
            case Mod(numerator, divisor):
                inner = without_remainders(numerator)
                value = inner - (inner // divisor) * divisor
            case FloorDiv(numerator, divisor):
                value = without_remainders(numerator) // divisor
            case _:
                value = Affine.atom(atom)
        result = result + value * coefficient
    return result


def summed(weight: Polynomial, iterator: Iter, low: Affine, high: Affine) -> Polynomial:
    """The sum of `weight` over `iterator` from `low` to `high`, both included, for `high >= low - 1`.

    Faulhaber's formula: the sum of v**n is F_n(high) - F_n(low - 1), with F_n a polynomial of degree n + 1.
    `weight` must have the iterator in no division.
    """
    top, bottom = Polynomial.of(high), Polynomial.of(low - 1)
    total = Polynomial({})
    for power, coefficient in enumerate(weight.powers(iterator)):
        for degree, factor in enumerate(_faulhaber(power)):
            if factor:
                total = total + coefficient * (top**degree - bottom**degree) * factor
    return total


@cache
def _faulhaber(power: int) -> tuple[Fraction, ...]:
    """The coefficients of F_n, from degree 0 up: 1/(n+1) * sum of C(n+1, k) B_k x**(n+1-k), with B_1 = +1/2."""
    bernoulli = [Fraction(1)]
    for m in range(1, power + 1):
        bernoulli.append(-sum((comb(m + 1, k) * bernoulli[k] for k in range(m)), Fraction(0)) / (m + 1))
    if power:
        bernoulli[1] = Fraction(1, 2)
    found = [Fraction(0)] * (power + 2)
    for k, value in enumerate(bernoulli):
        found[power + 1 - k] = comb(power + 1, k) * value / (power + 1)
    return tuple(found)


def _collect(terms: Iterable[tuple[Monomial, Fraction]]) -> Polynomial:
    total: dict[Monomial, Fraction] = {}
    for monomial, coefficient in terms:
        total[monomial] = total.get(monomial, Fraction(0)) + coefficient
    return Polynomial({m: c for m, c in total.items() if c})


def _multiply(left: Monomial, right: Monomial) -> Monomial:
    powers = dict(left)
    for atom, power in right:
        powers[atom] = powers.get(atom, 0) + power
    return tuple(sorted(powers.items(), key=lambda item: item[0].key))


def _periods(division: FloorDiv, found: dict[str, int], outer: int = 1) -> None:
    """For each size in a division, a number whose multiples added to the size keep its remainders in place."""
    divisor = division.divisor * outer
    for atom, _ in division.numerator.terms:
        if isinstance(atom, SizeVar):
            found[atom.name] = lcm(found.get(atom.name, 1), divisor)
        elif isinstance(atom, FloorDiv):
            _periods(atom, found, divisor)
