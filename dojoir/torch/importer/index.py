"""Index expressions: polynomials in sizes and iterators, with quotients, remainders, bounds and data as atoms.

One mechanism for every view: a reshape is a linear index divided by the new strides, and what was merged before is
taken apart again exactly, because the bounds of iterators are known. Sizes are 1 or more.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Protocol, TypeAlias


class Printed(Protocol):
    """A value of the kernel that an index is read from."""

    @property
    def key(self) -> str: ...


@dataclass(frozen=True, eq=False)
class _Keyed(ABC):
    """Equal where the keys are."""

    @property
    @abstractmethod
    def key(self) -> str: ...

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Keyed) and self.key == other.key

    def __hash__(self) -> int:
        return hash(self.key)


@dataclass(frozen=True, eq=False)
class Size(_Keyed):
    """A size of the kernel, 1 or more."""

    name: str

    @property
    def key(self) -> str:
        return self.name


@dataclass(frozen=True, eq=False)
class Var(_Keyed):
    """The iterator of a scope, from 0 to its extent, which it does not reach."""

    number: int
    extent: Index

    @property
    def key(self) -> str:
        return f"~{self.number:06d}"


@dataclass(frozen=True, eq=False)
class Divided(_Keyed):
    """`of // by`, or `of % by` where `rest` is true."""

    of: Index
    by: Index
    rest: bool

    @cached_property
    def key(self) -> str:
        return f"({self.of.key} {'%' if self.rest else '//'} {self.by.key})"


@dataclass(frozen=True, eq=False)
class Bound(_Keyed):
    """`min(left, right)`, or `max(left, right)` where `largest` is true."""

    left: Index
    right: Index
    largest: bool

    @cached_property
    def key(self) -> str:
        return f"{'max' if self.largest else 'min'}({self.left.key}, {self.right.key})"


@dataclass(frozen=True, eq=False)
class Data(_Keyed):
    """An integer that is read from memory."""

    value: Printed

    @property
    def key(self) -> str:
        return f"[{self.value.key}]"


Atom: TypeAlias = Size | Var | Divided | Bound | Data
Monomial: TypeAlias = tuple[Atom, ...]
"""A product of atoms, in the order of their keys."""


@dataclass(frozen=True, eq=False)
class Index(_Keyed):
    """A sum of products of atoms with integer factors."""

    terms: Mapping[Monomial, int]

    @cached_property
    def key(self) -> str:
        parts = sorted(("*".join(a.key for a in m), c) for m, c in self.terms.items())
        return " + ".join(f"{c}*{m}" if m else str(c) for m, c in parts) or "0"

    @cached_property
    def constant(self) -> int | None:
        """The number that it is, if it is one."""
        if not self.terms:
            return 0
        return self.terms[()] if len(self.terms) == 1 and () in self.terms else None

    @cached_property
    def only(self) -> Atom | None:
        """The atom that it is, if it is one."""
        if len(self.terms) == 1:
            ((monomial, factor),) = self.terms.items()
            if factor == 1 and len(monomial) == 1:
                return monomial[0]
        return None

    @cached_property
    def atoms(self) -> frozenset[Atom]:
        """All atoms in it, also those inside of others."""
        found: set[Atom] = set()
        for monomial in self.terms:
            for atom in monomial:
                found.add(atom)
                for part in _parts(atom):
                    found |= part.atoms
        return frozenset(found)

    @property
    def is_size(self) -> bool:
        """Whether it is made of sizes alone."""
        return not any(isinstance(atom, Var | Data) for atom in self.atoms)

    def __add__(self, other: Index | int) -> Index:
        added = dict(self.terms)
        for monomial, factor in as_index(other).terms.items():
            added[monomial] = added.get(monomial, 0) + factor
        return Index({m: c for m, c in added.items() if c})

    def __sub__(self, other: Index | int) -> Index:
        return self + as_index(other) * -1

    def __mul__(self, other: Index | int) -> Index:
        made: dict[Monomial, int] = {}
        for left, c in self.terms.items():
            for right, d in as_index(other).terms.items():
                monomial = tuple(sorted((*left, *right), key=_order))
                made[monomial] = made.get(monomial, 0) + c * d
        return Index({m: c for m, c in made.items() if c})

    __radd__ = __add__
    __rmul__ = __mul__

    def __rsub__(self, other: int) -> Index:
        return as_index(other) - self

    def __floordiv__(self, other: Index | int) -> Index:
        return divide(self, as_index(other))[0]

    def __mod__(self, other: Index | int) -> Index:
        return divide(self, as_index(other))[1]


def degree(index: Index) -> int:
    """How many sizes are multiplied in it at most."""
    return max((sum(not isinstance(a, Var | Data) for a in m) for m in index.terms), default=0)


def _order(atom: Atom) -> tuple[int, str]:
    return (0 if isinstance(atom, Size) else 2 if isinstance(atom, Var) else 1, atom.key)


def _parts(atom: Atom) -> tuple[Index, ...]:
    match atom:
        case Divided(of, by):
            return of, by
        case Bound(left, right):
            return left, right
        case Size() | Var() | Data():
            return ()


def as_index(value: Index | int) -> Index:
    """An index of a number."""
    return value if isinstance(value, Index) else Index({(): value} if value else {})


def of_atom(atom: Atom) -> Index:
    """The index that is one atom."""
    return Index({(atom,): 1})


def substitute(index: Index, change: Callable[[Var | Data], Index]) -> Index:
    """The index with others for its iterators and data, simplified again."""
    made = as_index(0)
    for monomial, factor in index.terms.items():
        product = as_index(factor)
        for atom in monomial:
            match atom:
                case Size():
                    product = product * of_atom(atom)
                case Var() | Data():
                    product = product * change(atom)
                case Divided(of, by, rest):
                    parts = divide(substitute(of, change), substitute(by, change))
                    product = product * parts[1 if rest else 0]
                case Bound(left, right, largest):
                    bound = most if largest else least
                    product = product * bound(substitute(left, change), substitute(right, change))
        made = made + product
    return made


def is_nonnegative(index: Index) -> bool:
    """Whether an index of sizes is seen to be 0 or more: with `n + 1` for each size, all factors are."""
    shifted = as_index(0)
    for monomial, factor in index.terms.items():
        product = as_index(factor)
        for atom in monomial:
            product = product * (of_atom(atom) + 1 if isinstance(atom, Size) else of_atom(atom))
        shifted = shifted + product
    return all(c >= 0 for c in shifted.terms.values())


def bounds(index: Index) -> tuple[Index, Index] | None:
    """The smallest and the largest value, as indices of sizes; None where that is not seen."""
    low = high = as_index(0)
    for monomial, factor in index.terms.items():
        sizes, below, above = as_index(factor), as_index(1), as_index(1)
        for atom in monomial:
            if isinstance(atom, Size):
                sizes = sizes * of_atom(atom)
                continue
            found = _bounds(atom)
            if found is None or not is_nonnegative(found[0]):
                return None
            below, above = below * found[0], above * found[1]
        if factor < 0:
            below, above = above, below
        low, high = low + sizes * below, high + sizes * above
    return low, high


def _bounds(atom: Atom) -> tuple[Index, Index] | None:
    match atom:
        case Size():
            return of_atom(atom), of_atom(atom)
        case Var(_, extent):
            return as_index(0), extent - 1
        case Divided(of, by, rest):
            if of.is_size and by.is_size:
                return of_atom(atom), of_atom(atom)
            if rest:
                return as_index(0), by - 1
            found = bounds(of)
            return None if found is None else (divide(found[0], by)[0], divide(found[1], by)[0])
        case Bound(left, right, largest):
            first, second = bounds(left), bounds(right)
            if largest:
                if first is None or second is None:
                    return None
                return (second[0] if is_nonnegative(second[0]) else first[0]), most(first[1], second[1])
            if first is None or second is None:
                return None
            return least(first[0], second[0]), least(first[1], second[1])
        case Data():
            return None


def is_within(index: Index, low: Index | int, end: Index | int) -> bool:
    """Whether `low <= index < end` is seen for all iterations."""
    found = bounds(index)
    if found is None:
        return False
    return is_nonnegative(found[0] - low) and is_nonnegative(as_index(end) - 1 - found[1])


def _by_monomial(monomial: Monomial, factor: int, by: Monomial, divisor: int) -> tuple[Monomial, int] | None:
    """A term divided by another, if that goes without a rest."""
    left = list(monomial)
    for atom in by:
        if atom not in left:
            return None
        left.remove(atom)
    return None if factor % divisor else (tuple(left), factor // divisor)


def divide(index: Index, by: Index) -> tuple[Index, Index]:
    """Quotient, rounded down, and remainder by a divisor of 1 or more."""
    if by.constant == 1:
        return index, as_index(0)
    if index == by:
        return as_index(1), as_index(0)
    quotient, rest = as_index(0), as_index(0)
    if len(by.terms) == 1:
        ((monomial, divisor),) = by.terms.items()
        for m, c in index.terms.items():
            whole = _by_monomial(m, c, monomial, divisor)
            if whole is None and not monomial:
                quotient = quotient + Index({m: c // divisor} if c // divisor else {})
                rest = rest + Index({m: c % divisor} if c % divisor else {})
            elif whole is None:
                rest = rest + Index({m: c})
            else:
                quotient = quotient + Index({whole[0]: whole[1]})
    else:
        rest = index
    if rest.constant == 0 or is_within(rest, 0, by):
        return quotient, rest
    if by.constant is not None:
        found = _coarser(rest, by.constant)
        if found is not None:
            return quotient + found[0], found[1]
    return quotient + _quotient(rest, by), _rest(rest, by)


def _coarser(index: Index, by: int) -> tuple[Index, Index] | None:
    """By a common factor of the divisor and of all terms whose rest is smaller than it: `(4*i + j) // 8` is
    `i // 2` for `j < 4`."""
    for factor in {math.gcd(c, by) for c in index.terms.values()} - {1}:
        whole = Index({m: c // factor for m, c in index.terms.items() if c % factor == 0})
        rest = Index({m: c for m, c in index.terms.items() if c % factor})
        if rest.terms and not is_within(rest, 0, factor):
            continue
        quotient, left = divide(whole, as_index(by // factor))
        return quotient, left * factor + rest
    return None


def _quotient(index: Index, by: Index) -> Index:
    inner = index.only
    if isinstance(inner, Divided) and not inner.rest:
        return divide(inner.of, inner.by * by)[0]
    return of_atom(Divided(index, by, False))


def _rest(index: Index, by: Index) -> Index:
    inner = index.only
    if isinstance(inner, Divided) and inner.rest and divide(inner.by, by)[1].constant == 0:
        return divide(inner.of, by)[1]
    return of_atom(Divided(index, by, True))


def least(left: Index, right: Index) -> Index:
    """The smaller of two."""
    return _bound(left, right, False)


def most(left: Index, right: Index) -> Index:
    """The larger of two."""
    return _bound(left, right, True)


def _bound(left: Index, right: Index, largest: bool) -> Index:
    if is_above(left, right):
        return left if largest else right
    if is_above(right, left):
        return right if largest else left
    return of_atom(Bound(left, right, largest))


def is_above(left: Index, right: Index) -> bool:
    """Whether `left >= right` is seen for all iterations."""
    found = bounds(left - right)
    return found is not None and is_nonnegative(found[0])


def clamp(index: Index, extent: Index) -> Index:
    """The index, moved into `0 <= … < extent` where it is not in there."""
    return least(most(index, as_index(0)), extent - 1)


def recombine(outer: Index, inner: Index, extent: Index) -> Index | None:
    """The index of two neighbouring dimensions as one, where they are its parts: `i // 4` and `i % 4` are `i`."""
    part = inner.only
    if not (isinstance(part, Divided) and part.rest and part.by == extent):
        return None
    if outer == divide(part.of, extent)[0]:
        return part.of
    whole = outer.only
    if isinstance(whole, Divided) and whole.rest and whole.of == divide(part.of, extent)[0]:
        return divide(part.of, extent * whole.by)[1]
    return None


def product(sizes: tuple[Index, ...]) -> Index:
    """The product of sizes."""
    made = as_index(1)
    for size in sizes:
        made = made * size
    return made


def render(index: Index, atom: Callable[[Atom], str]) -> str:
    """The index as text; `atom` gives iterators and data."""

    def of_monomial(monomial: Monomial) -> str:
        return "*".join(of_one(a) for a in sorted(monomial, key=_order))

    def of_one(a: Atom) -> str:
        match a:
            case Size(name):
                return name
            case Var() | Data():
                return atom(a)
            case Divided(of, by, rest):
                left = render(of, atom)
                right = render(by, atom)
                left = left if of.only is not None and not isinstance(of.only, Divided) else f"({left})"
                right = right if by.constant is not None or isinstance(by.only, Size) else f"({right})"
                return f"({left} {'%' if rest else '//'} {right})"
            case Bound(first, second, largest):
                return f"{'max' if largest else 'min'}({render(first, atom)}, {render(second, atom)})"

    ordered = sorted(
        index.terms.items(),
        key=lambda t: (len(t[0]) == 0, t[1] < 0, -len(t[0]), -abs(t[1]), [_order(a) for a in t[0]]),
    )
    made = ""
    for monomial, factor in ordered:
        value = abs(factor)
        body = (
            str(value)
            if not monomial
            else of_monomial(monomial)
            if value == 1
            else f"{value}*{of_monomial(monomial)}"
        )
        if not made:
            made = body if factor > 0 else f"-{body}"
        else:
            made += f" + {body}" if factor > 0 else f" - {body}"
    if made.startswith("(") and made.endswith(")") and len(ordered) == 1 and "*" not in made.split("(")[0]:
        inside = made[1:-1]
        if _is_balanced(inside):
            return inside
    return made or "0"


def _is_balanced(text: str) -> bool:
    depth = 0
    for sign in text:
        depth += (sign == "(") - (sign == ")")
        if depth < 0:
            return False
    return depth == 0
