"""Index expressions: polynomials in sizes and iterators, with quotients, remainders, bounds and data as atoms.

One mechanism for every view: a reshape is a linear index divided by the new strides, and what was merged before is
taken apart again exactly, because the bounds of iterators are known. Sizes are 1 or more.

These are no affine values of the IR (`dojoir.ir.affine`): those multiply nothing by a size and divide by numbers
only. The grammar takes the products apart later, when it has all indices of a buffer.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TypeAlias


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
class SizeAtom(_Keyed):
    """A size of the kernel, 1 or more."""

    name: str

    @property
    def key(self) -> str:
        return self.name


@dataclass(frozen=True, eq=False)
class IteratorAtom(_Keyed):
    """The iterator of a scope, from 0 to its extent, which it does not reach."""

    number: int
    extent: IndexSum

    @property
    def key(self) -> str:
        return f"~{self.number:06d}"


@dataclass(frozen=True, eq=False)
class Divided(_Keyed):
    """`of // by`, or `of % by` where `rest` is true."""

    of: IndexSum
    by: IndexSum
    rest: bool

    @cached_property
    def key(self) -> str:
        return f"({self.of.key} {'%' if self.rest else '//'} {self.by.key})"


@dataclass(frozen=True, eq=False)
class MinMaxAtom(_Keyed):
    """`min(left, right)`, or `max(left, right)` where `largest` is true."""

    left: IndexSum
    right: IndexSum
    largest: bool

    @cached_property
    def key(self) -> str:
        return f"{'max' if self.largest else 'min'}({self.left.key}, {self.right.key})"


@dataclass(frozen=True, eq=False)
class Data(_Keyed):
    """An integer that is read from memory: a value of the kernel, and its text."""

    value: object
    text: str

    @property
    def key(self) -> str:
        return f"[{self.text}]"


Atom: TypeAlias = SizeAtom | IteratorAtom | Divided | MinMaxAtom | Data
Monomial: TypeAlias = tuple[Atom, ...]
"""A product of atoms, in the order of their keys."""


@dataclass(frozen=True, eq=False)
class IndexSum(_Keyed):
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
        return not any(isinstance(atom, IteratorAtom | Data) for atom in self.atoms)

    def __add__(self, other: IndexSum | int) -> IndexSum:
        added = dict(self.terms)
        for monomial, factor in as_index(other).terms.items():
            added[monomial] = added.get(monomial, 0) + factor
        return IndexSum({m: c for m, c in added.items() if c})

    def __sub__(self, other: IndexSum | int) -> IndexSum:
        return self + as_index(other) * -1

    def __mul__(self, other: IndexSum | int) -> IndexSum:
        made: dict[Monomial, int] = {}
        for left, c in self.terms.items():
            for right, d in as_index(other).terms.items():
                monomial = tuple(sorted((*left, *right), key=_order))
                made[monomial] = made.get(monomial, 0) + c * d
        return IndexSum({m: c for m, c in made.items() if c})

    __radd__ = __add__
    __rmul__ = __mul__

    def __rsub__(self, other: int) -> IndexSum:
        return as_index(other) - self

    def __floordiv__(self, other: IndexSum | int) -> IndexSum:
        return divide(self, as_index(other))[0]

    def __mod__(self, other: IndexSum | int) -> IndexSum:
        return divide(self, as_index(other))[1]


def degree(index: IndexSum) -> int:
    """How many sizes are multiplied in it at most."""
    return max((sum(not isinstance(a, IteratorAtom | Data) for a in m) for m in index.terms), default=0)


def _order(atom: Atom) -> tuple[int, str]:
    return (0 if isinstance(atom, SizeAtom) else 2 if isinstance(atom, IteratorAtom) else 1, atom.key)


def _parts(atom: Atom) -> tuple[IndexSum, ...]:
    match atom:
        case Divided(of, by):
            return of, by
        case MinMaxAtom(left, right):
            return left, right
        case SizeAtom() | IteratorAtom() | Data():
            return ()


def as_index(value: IndexSum | int) -> IndexSum:
    """An index of a number."""
    return value if isinstance(value, IndexSum) else IndexSum({(): value} if value else {})


def of_atom(atom: Atom) -> IndexSum:
    """The index that is one atom."""
    return IndexSum({(atom,): 1})


def substitute(index: IndexSum, change: Callable[[IteratorAtom | Data], IndexSum]) -> IndexSum:
    """The index with others for its iterators and data, simplified again."""
    made = as_index(0)
    for monomial, factor in index.terms.items():
        product = as_index(factor)
        for atom in monomial:
            match atom:
                case SizeAtom():
                    product = product * of_atom(atom)
                case IteratorAtom() | Data():
                    product = product * change(atom)
                case Divided(of, by, rest):
                    parts = divide(substitute(of, change), substitute(by, change))
                    product = product * parts[1 if rest else 0]
                case MinMaxAtom(left, right, largest):
                    bound = most if largest else least
                    product = product * bound(substitute(left, change), substitute(right, change))
        made = made + product
    return made


def is_nonnegative(index: IndexSum) -> bool:
    """Whether an index of sizes is seen to be 0 or more: with `n + 1` for each size, all factors are."""
    shifted = as_index(0)
    for monomial, factor in index.terms.items():
        product = as_index(factor)
        for atom in monomial:
            product = product * (of_atom(atom) + 1 if isinstance(atom, SizeAtom) else of_atom(atom))
        shifted = shifted + product
    return all(c >= 0 for c in shifted.terms.values())


def bounds(index: IndexSum) -> tuple[IndexSum, IndexSum] | None:
    """The smallest and the largest value, as indices of sizes; None where that is not seen."""
    low = high = as_index(0)
    for monomial, factor in index.terms.items():
        sizes, below, above = as_index(factor), as_index(1), as_index(1)
        for atom in monomial:
            if isinstance(atom, SizeAtom):
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


def _bounds(atom: Atom) -> tuple[IndexSum, IndexSum] | None:
    match atom:
        case SizeAtom():
            return of_atom(atom), of_atom(atom)
        case IteratorAtom(_, extent):
            return as_index(0), extent - 1
        case Divided(of, by, rest):
            if of.is_size and by.is_size:
                return of_atom(atom), of_atom(atom)
            if rest:
                return as_index(0), by - 1
            found = bounds(of)
            return None if found is None else (divide(found[0], by)[0], divide(found[1], by)[0])
        case MinMaxAtom(left, right, largest):
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


def is_within(index: IndexSum, low: IndexSum | int, end: IndexSum | int) -> bool:
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


def divide(index: IndexSum, by: IndexSum) -> tuple[IndexSum, IndexSum]:
    """Floor division and remainder by a divisor of 1 or more."""
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
                quotient = quotient + IndexSum({m: c // divisor} if c // divisor else {})
                rest = rest + IndexSum({m: c % divisor} if c % divisor else {})
            elif whole is None:
                rest = rest + IndexSum({m: c})
            else:
                quotient = quotient + IndexSum({whole[0]: whole[1]})
    else:
        rest = index
    if rest.constant == 0 or is_within(rest, 0, by):
        return quotient, rest
    if by.constant is not None:
        found = _coarser(rest, by.constant)
        if found is not None:
            return quotient + found[0], found[1]
    return quotient + _quotient(rest, by), _rest(rest, by)


def _coarser(index: IndexSum, by: int) -> tuple[IndexSum, IndexSum] | None:
    """Divides the divisor and all terms by their common factor, where the remaining terms are smaller than it:
    `(4*i + j) // 8` is `i // 2` for `j < 4`."""
    for factor in {math.gcd(c, by) for c in index.terms.values()} - {1}:
        whole = IndexSum({m: c // factor for m, c in index.terms.items() if c % factor == 0})
        rest = IndexSum({m: c for m, c in index.terms.items() if c % factor})
        if rest.terms and not is_within(rest, 0, factor):
            continue
        quotient, left = divide(whole, as_index(by // factor))
        return quotient, left * factor + rest
    return None


def _quotient(index: IndexSum, by: IndexSum) -> IndexSum:
    inner = index.only
    if isinstance(inner, Divided) and not inner.rest:
        return divide(inner.of, inner.by * by)[0]
    return of_atom(Divided(index, by, False))


def _rest(index: IndexSum, by: IndexSum) -> IndexSum:
    inner = index.only
    if isinstance(inner, Divided) and inner.rest and divide(inner.by, by)[1].constant == 0:
        return divide(inner.of, by)[1]
    return of_atom(Divided(index, by, True))


def least(left: IndexSum, right: IndexSum) -> IndexSum:
    """The smaller of two."""
    return _bound(left, right, False)


def most(left: IndexSum, right: IndexSum) -> IndexSum:
    """The larger of two."""
    return _bound(left, right, True)


def _bound(left: IndexSum, right: IndexSum, largest: bool) -> IndexSum:
    if is_above(left, right):
        return left if largest else right
    if is_above(right, left):
        return right if largest else left
    return of_atom(MinMaxAtom(left, right, largest))


def is_above(left: IndexSum, right: IndexSum) -> bool:
    """Whether `left >= right` is seen for all iterations."""
    found = bounds(left - right)
    return found is not None and is_nonnegative(found[0])


def clamp(index: IndexSum, extent: IndexSum) -> IndexSum:
    """The index clamped to `0 <= … < extent`."""
    return least(most(index, as_index(0)), extent - 1)


def recombine(outer: IndexSum, inner: IndexSum, extent: IndexSum) -> IndexSum | None:
    """The index of two adjacent dimensions as one: of `i // 4` and `i % 4` it is `i`."""
    part = inner.only
    if not (isinstance(part, Divided) and part.rest and part.by == extent):
        return None
    if outer == divide(part.of, extent)[0]:
        return part.of
    whole = outer.only
    if isinstance(whole, Divided) and whole.rest and whole.of == divide(part.of, extent)[0]:
        return divide(part.of, extent * whole.by)[1]
    return None


def product(sizes: tuple[IndexSum, ...]) -> IndexSum:
    """The product of sizes."""
    made = as_index(1)
    for size in sizes:
        made = made * size
    return made


def row_major(index: Sequence[IndexSum], extents: Sequence[IndexSum]) -> IndexSum:
    """The place of an element among all, the last dimension innermost."""
    made = as_index(0)
    for one, extent in zip(index, extents, strict=True):
        made = made * extent + one
    return made


def render(index: IndexSum, atom: Callable[[Atom], str]) -> str:
    """The index as text; `atom` gives iterators and data."""

    def of_monomial(monomial: Monomial) -> str:
        return "*".join(of_one(a) for a in sorted(monomial, key=_order))

    def of_one(a: Atom) -> str:
        match a:
            case SizeAtom(name):
                return name
            case IteratorAtom() | Data():
                return atom(a)
            case Divided(of, by, rest):
                left = render(of, atom)
                right = render(by, atom)
                left = left if of.only is not None and not isinstance(of.only, Divided) else f"({left})"
                right = right if by.constant is not None or isinstance(by.only, SizeAtom) else f"({right})"
                return f"({left} {'%' if rest else '//'} {right})"
            case MinMaxAtom(first, second, largest):
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
