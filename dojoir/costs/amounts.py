"""Amounts that depend on the sizes of a kernel: exact for any sizes, and formulas where there is one."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from math import prod

from dojoir.costs.counting import Counter, SumOfPieces
from dojoir.costs.systems import System, TooManyPieces
from dojoir.errors import ArgumentError, repr_of
from dojoir.ir.affine import Affine, Iter, SizeVar
from dojoir.ir.nodes import Kernel
from dojoir.sets.limits import StepLimitReached, limited
from dojoir.support.frozen import dataclass

STEP_LIMIT = 1_000_000
"""How many isl operations the search for one formula may take."""

MORE_PIECES = 4096
"""How many regions a count for given sizes may take before isl enumerates points."""


class _Sizes(dict[str, int]):
    """The sizes that a caller gave, held against what they should be once; one that is missing is told."""

    @classmethod
    def of(cls, given: object) -> _Sizes:
        if isinstance(given, _Sizes):
            return given
        try:
            found = cls(given.items()) if isinstance(given, Mapping) else None
        except Exception:
            found = None
        if found is None or not all(isinstance(n, str) and type(v) is int for n, v in found.items()):
            message = f'sizes are given as integers by name, as in {{"N": 4}}, not {repr_of(given)}'
            raise ArgumentError(message, "bad-size")
        for name, value in found.items():
            if value < 1:
                raise ArgumentError(f"size {name} must be an integer of at least 1, not {value}", "bad-size")
        return found

    def __missing__(self, name: str) -> int:
        raise ArgumentError(f"size {name} is not known: give it too", "size-missing")


@dataclass(frozen=True)
class ProductOfSums:
    """The product of sums: the points of systems that share no variable."""

    factors: tuple[SumOfPieces, ...]

    def __call__(self, sizes: Mapping[str, int]) -> int:
        sizes = _Sizes.of(sizes)
        value = prod(factor(sizes) for factor in self.factors)
        if value != int(value):
            given = ", ".join(f"{name}={size}" for name, size in sizes.items())
            raise ArgumentError(
                f"{given}: the count is no whole number, so these sizes break a `where` fact of the kernel",
                "broken-fact",
            )
        return int(value)


@dataclass(frozen=True)
class ProductOfAmounts:
    """The product of amounts."""

    amounts: tuple[Amount, ...]

    def __call__(self, sizes: Mapping[str, int]) -> int:
        sizes = _Sizes.of(sizes)
        return prod(amount(sizes) for amount in self.amounts)


@dataclass(frozen=True)
class Total:
    """The sum of amounts, each times a whole number."""

    terms: tuple[tuple[int, Amount], ...]

    def __call__(self, sizes: Mapping[str, int]) -> int:
        sizes = _Sizes.of(sizes)
        return sum(factor * amount(sizes) for factor, amount in self.terms)


@dataclass(frozen=True)
class Least:
    """The smallest of amounts."""

    amounts: tuple[Amount, ...]

    def __call__(self, sizes: Mapping[str, int]) -> int:
        sizes = _Sizes.of(sizes)
        return min(amount(sizes) for amount in self.amounts)


@dataclass(frozen=True)
class Uncounted:
    """The points of disjoint systems for which no formula of a reasonable length was found. They are counted when
    the sizes are known: by the same method, and in the worst case by isl, which visits all points but those of one
    dimension."""

    systems: tuple[System, ...]

    def __call__(self, sizes: Mapping[str, int]) -> int:
        sizes = _Sizes.of(sizes)
        counter = Counter(Kernel("sizes_given", (), (), ()), MORE_PIECES)
        fixed = [_fixed(system, sizes) for system in self.systems]
        try:
            return ProductOfSums(counter.count(fixed))({})
        except TooManyPieces:
            return sum(counter.enumerate(system) for system in fixed)


Amount = ProductOfSums | ProductOfAmounts | Total | Least | Uncounted
"""A function of the sizes, which are given as a mapping: `amount({"N": 4}) -> int`."""


def total(terms: Iterable[tuple[int, Amount]]) -> Amount:
    """The sum of amounts, each times a whole number."""
    found: dict[Amount, int] = {}
    for factor, amount in terms:
        parts = [(factor * f, a) for f, a in amount.terms] if isinstance(amount, Total) else [(factor, amount)]
        for times, part in parts:
            found[part] = found.get(part, 0) + times
    kept = tuple((factor, amount) for amount, factor in found.items() if factor)
    return kept[0][1] if len(kept) == 1 and kept[0][0] == 1 else Total(kept)


def product(factors: Iterable[Amount]) -> Amount:
    """The product of amounts."""
    amounts = list(factors)
    if all(isinstance(amount, ProductOfSums) for amount in amounts):
        return ProductOfSums(
            tuple(s for amount in amounts if isinstance(amount, ProductOfSums) for s in amount.factors)
        )
    return ProductOfAmounts(tuple(amounts))


def count(counter: Counter, systems: Sequence[System]) -> Amount:
    """How many points disjoint systems have together."""
    try:
        with limited(STEP_LIMIT):
            return ProductOfSums(counter.count(systems))
    except (TooManyPieces, StepLimitReached):
        return Uncounted(tuple(systems))


def _fixed(system: System, sizes: Mapping[str, int]) -> System:
    """The system for given sizes."""

    def value(atom: SizeVar | Iter) -> Affine:
        return Affine.constant(sizes[atom.name]) if isinstance(atom, SizeVar) else Affine.atom(atom)

    return System(
        system.variables,
        tuple(a.substitute(value) for a in system.inequalities),
        tuple(a.substitute(value) for a in system.equalities),
    )
