"""Quasi-affine expressions in sizes and iterators: the only arithmetic that indices and extents may do.

An `Affine` is always in one normal form (a sum of distinct atoms with non-zero integer coefficients and a
constant), so equal forms compare equal and print alike. Division and remainder round towards minus
infinity, as in Python and in isl. A `min` or `max` makes an expression piecewise quasi-affine, which isl says
exactly too; only indices have them (`dojoir.grammar.writable`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import lru_cache, total_ordering
from math import gcd
from operator import is_
from typing import Literal

from dojoir.support.derived import cached_property
from dojoir.support.frozen import dataclass, hash_once, keep_hash


@hash_once
@total_ordering
@dataclass(frozen=True)
class SizeVar:
    """A runtime size of the kernel, such as `N`."""

    name: str

    @cached_property
    def key(self) -> tuple[int, str]:
        return (0, self.name)

    def __lt__(self, other: Atom) -> bool:
        return self.key < other.key


@hash_once
@total_ordering
@dataclass(frozen=True)
class Iter:
    """The iterator of the enclosing scope at `depth` (0 is outermost): `{depth}` in the text."""

    depth: int

    @cached_property
    def key(self) -> tuple[int, str]:
        return (1, f"{self.depth:08d}")

    def __lt__(self, other: Atom) -> bool:
        return self.key < other.key


@hash_once
@total_ordering
@dataclass(frozen=True)
class FloorDiv:
    """`numerator // divisor`, with a positive constant divisor."""

    numerator: Affine
    divisor: int

    @cached_property
    def key(self) -> tuple[int, str]:
        return (2, f"{self.numerator}//{self.divisor:08d}")

    @property
    def parts(self) -> tuple[Affine]:
        return (self.numerator,)

    def among(self, parts: Iterable[Affine]) -> Affine:
        """The same operation on another numerator, in normal form."""
        (numerator,) = parts
        return numerator // self.divisor

    def __lt__(self, other: Atom) -> bool:
        return self.key < other.key


@hash_once
@total_ordering
@dataclass(frozen=True)
class Mod:
    """`numerator % divisor`, with a positive constant divisor: a value in [0, divisor)."""

    numerator: Affine
    divisor: int

    @cached_property
    def key(self) -> tuple[int, str]:
        return (3, f"{self.numerator}%{self.divisor:08d}")

    @property
    def parts(self) -> tuple[Affine]:
        return (self.numerator,)

    def among(self, parts: Iterable[Affine]) -> Affine:
        """The same operation on another numerator, in normal form."""
        (numerator,) = parts
        return numerator % self.divisor

    def __lt__(self, other: Atom) -> bool:
        return self.key < other.key


@hash_once
@total_ordering
@dataclass(frozen=True)
class Extremum:
    """`min(a, b, …)` or `max(a, b, …)` of two or more expressions no two of which differ by a constant. Build one
    with `Affine.smallest` and `Affine.largest`."""

    word: Literal["min", "max"]
    parts: tuple[Affine, ...]

    @cached_property
    def key(self) -> tuple[int, str]:
        return (4, f"{self.word}({', '.join(map(str, self.parts))})")

    def __lt__(self, other: Atom) -> bool:
        return self.key < other.key

    def among(self, parts: Iterable[Affine]) -> Affine:
        """The extremum of other expressions, in normal form."""
        return _extremum(self.word, parts)

    def of(self, values: Iterable[int]) -> int:
        return min(values) if self.word == "min" else max(values)


Compound = FloorDiv | Mod | Extremum
"""An atom that is made of expressions, its `parts`."""

Atom = SizeVar | Iter | Compound

Terms = tuple[tuple[Atom, int], ...]
"""Atoms with their coefficients, in the order of their keys. Different atoms have different keys."""


def _sum_of_terms(some: Terms, others: Terms) -> Terms:
    """The sum of two ordered lists of terms: terms of the same atom are added, and zeros left out."""
    if not some or not others:
        return some or others
    found: list[tuple[Atom, int]] = []
    left, right = 0, 0
    while left < len(some) and right < len(others):
        term, other = some[left], others[right]
        key, its = term[0].key, other[0].key
        if key < its:
            found.append(term)
            left += 1
        elif its < key:
            found.append(other)
            right += 1
        else:
            if term[1] + other[1]:
                found.append((term[0], term[1] + other[1]))
            left += 1
            right += 1
    return (*found, *some[left:], *others[right:])


def _collected(terms: list[tuple[Atom, int]]) -> Terms:
    """The sum of terms in any order."""
    total: dict[tuple[int, str], tuple[Atom, int]] = {}
    for atom, coefficient in terms:
        key = atom.key
        before = total.get(key)
        total[key] = (atom, coefficient) if before is None else (atom, before[1] + coefficient)
    return tuple([term for _, term in sorted(total.items()) if term[1]])


@lru_cache(maxsize=4096)
def _quotient(numerator: Affine, divisor: int) -> FloorDiv:
    """Equal values share one object: its key is a text."""
    return FloorDiv(numerator, divisor)


@lru_cache(maxsize=4096)
def _remainder(numerator: Affine, divisor: int) -> Mod:
    return Mod(numerator, divisor)


def _extremum(word: Literal["min", "max"], given: Iterable[Affine]) -> Affine:
    """The smallest or the largest of some expressions. Of those that differ by a constant one is left, and one
    within another is taken apart."""
    least: dict[Terms, int] = {}
    choose = min if word == "min" else max
    left = list(given)
    while left:
        part = left.pop()
        match part.terms:
            case ((Extremum(inner, some), 1),) if inner == word:
                left += (one + part.offset for one in some)
            case terms:
                least[terms] = choose(least.get(terms, part.offset), part.offset)
    # What varies comes first: `min({0}, N - 1)`, `max({0} - 1, 0)`.
    parts = sorted((Affine(terms, offset) for terms, offset in least.items()), key=_place)
    return parts[0] if len(parts) == 1 else Affine(((_chosen(word, tuple(parts)), 1),), 0)


def _place(part: Affine) -> tuple[bool, bool, bool, str]:
    text = str(part)
    return (not part.iterators, part.is_constant, text.startswith("-"), text)


@lru_cache(maxsize=4096)
def _chosen(word: Literal["min", "max"], parts: tuple[Affine, ...]) -> Extremum:
    return Extremum(word, parts)


@keep_hash
@dataclass(frozen=True)
class Affine:
    """`sum(coefficient * atom) + constant`, in normal form. Build one with `size`, `iterator`, `constant` and
    the operators; the constructor itself expects sorted, distinct atoms with non-zero coefficients."""

    terms: Terms
    offset: int

    def __eq__(self, other: object) -> bool:
        if self is other:
            return True
        if not isinstance(other, Affine):
            return NotImplemented
        return self.offset == other.offset and self.terms == other.terms

    # -- construction ------------------------------------------------------------------------------------
    @staticmethod
    def constant(value: int) -> Affine:
        return Affine((), value)

    @staticmethod
    def size(name: str) -> Affine:
        return Affine(((SizeVar(name), 1),), 0)

    @staticmethod
    def iterator(depth: int) -> Affine:
        return _ITERATORS[depth] if 0 <= depth < len(_ITERATORS) else Affine(((Iter(depth), 1),), 0)

    @staticmethod
    def atom(atom: Atom) -> Affine:
        if isinstance(atom, Iter):
            return Affine.iterator(atom.depth)
        return Affine(((atom, 1),), 0)

    @staticmethod
    def smallest(*parts: Affine) -> Affine:
        """`min(…)` of one expression or more."""
        return _extremum("min", parts)

    @staticmethod
    def largest(*parts: Affine) -> Affine:
        """`max(…)` of one expression or more."""
        return _extremum("max", parts)

    def __add__(self, other: Affine | int) -> Affine:
        if isinstance(other, int):
            return Affine(self.terms, self.offset + other) if other else self
        return Affine(_sum_of_terms(self.terms, other.terms), self.offset + other.offset)

    __radd__ = __add__

    def __neg__(self) -> Affine:
        return self * -1

    def __sub__(self, other: Affine | int) -> Affine:
        return self + (-other if isinstance(other, int) else other * -1)

    def __rsub__(self, other: Affine | int) -> Affine:
        return (-self) + other

    def __mul__(self, factor: int) -> Affine:
        if factor == 0:
            return Affine((), 0)
        if factor == 1:
            return self
        return Affine(tuple([(atom, c * factor) for atom, c in self.terms]), self.offset * factor)

    __rmul__ = __mul__

    def __floordiv__(self, divisor: int) -> Affine:
        """Exact multiples of the divisor leave the division: (16*{0} + {1}) // 16 is {0} + {1}//16."""
        _positive(divisor)
        if divisor == 1:
            return self
        whole = [(atom, c // divisor) for atom, c in self.terms if c % divisor == 0]
        rest = [(atom, c) for atom, c in self.terms if c % divisor]
        if not rest:
            return Affine(tuple(whole), self.offset // divisor)
        common = gcd(divisor, *(c for _, c in rest))  # floor((g*a + o) / (g*d)) is floor((a + floor(o/g)) / d)
        offset, divisor = self.offset // common, divisor // common
        pulled = abs(offset) // divisor * (1 if offset > 0 else -1)  # towards zero: (N - 1) // 16 stays as it is
        outside = Affine(tuple(whole), pulled)
        inside = Affine(tuple((atom, c // common) for atom, c in rest), offset - pulled * divisor)
        if divisor == 1:
            return outside + inside
        if len(inside.terms) == 1:
            (atom, coefficient) = inside.terms[0]
            if isinstance(atom, FloorDiv) and coefficient == 1:  # (a//b + c)//d == (a + b*c)//(b*d)
                return outside + (atom.numerator + inside.offset * atom.divisor) // (atom.divisor * divisor)
        return outside + Affine.atom(_quotient(inside, divisor))

    def __mod__(self, divisor: int) -> Affine:
        """Multiples of the divisor vanish: (16*{0} + {1}) % 16 is {1}%16."""
        _positive(divisor)
        rest = tuple((atom, c) for atom, c in self.terms if c % divisor)
        offset = self.offset % divisor
        if not rest:
            return Affine((), offset)
        common = gcd(divisor, offset, *(c for _, c in rest))
        if common == divisor:
            return Affine((), 0)
        inside = Affine(tuple((atom, c // common) for atom, c in rest), offset // common)
        divisor //= common
        if len(inside.terms) == 1 and inside.offset == 0:
            (atom, coefficient) = inside.terms[0]
            if isinstance(atom, Mod) and coefficient == 1 and divisor % atom.divisor == 0:
                return inside * common
        return Affine.atom(_remainder(inside, divisor)) * common

    # -- questions ---------------------------------------------------------------------------------------
    @property
    def is_constant(self) -> bool:
        return not self.terms

    def coefficient(self, atom: Atom) -> int:
        """The coefficient of `atom` at top level (an occurrence inside of another atom does not count)."""
        return next((c for a, c in self.terms if a == atom), 0)

    def atoms(self) -> Iterator[SizeVar | Iter]:
        """Every size and iterator that occurs anywhere, repeats included."""
        for atom, _ in self.terms:
            if isinstance(atom, Compound):
                for part in atom.parts:
                    yield from part.atoms()
            else:
                yield atom

    @cached_property
    def iterators(self) -> frozenset[int]:
        """The depths of the iterators that occur anywhere."""
        return frozenset(a.depth for a in self.atoms() if isinstance(a, Iter))

    @cached_property
    def sizes(self) -> frozenset[str]:
        """The names of the sizes that occur anywhere."""
        return frozenset(a.name for a in self.atoms() if isinstance(a, SizeVar))

    @cached_property
    def divided(self) -> frozenset[int]:
        """The depths of the iterators that occur in a division, a remainder, a min or a max."""
        inside = (part.iterators for atom, _ in self.terms if isinstance(atom, Compound) for part in atom.parts)
        return frozenset().union(*inside)

    @cached_property
    def is_clamped(self) -> bool:
        """Whether there is a min or a max anywhere."""
        return any(
            isinstance(atom, Extremum) or any(part.is_clamped for part in atom.parts)
            for atom, _ in self.terms
            if isinstance(atom, Compound)
        )

    @cached_property
    def magnitude(self) -> int:
        """The largest absolute value among the numbers in it, divisors included."""
        largest = max([abs(self.offset), *(abs(coefficient) for _, coefficient in self.terms)])
        for atom, _ in self.terms:
            if isinstance(atom, Compound):
                largest = max([largest, *(part.magnitude for part in atom.parts)])
            if isinstance(atom, FloorDiv | Mod):
                largest = max(largest, atom.divisor)
        return largest

    # -- rewriting ---------------------------------------------------------------------------------------
    def substitute(self, replace: Callable[[SizeVar | Iter], Affine]) -> Affine:
        """Every size and iterator replaced by what `replace` gives for it."""
        if not self.terms:
            return self
        terms: list[tuple[Atom, int]] = []
        offset = self.offset
        for atom, coefficient in self.terms:
            if isinstance(atom, Compound):
                inner = [part.substitute(replace) for part in atom.parts]
                if all(map(is_, inner, atom.parts)):
                    terms.append((atom, coefficient))
                    continue
                value = atom.among(inner)
            else:
                value = replace(atom)
            offset += value.offset * coefficient
            terms += value.terms if coefficient == 1 else [(a, c * coefficient) for a, c in value.terms]
        found = tuple(terms)
        if offset == self.offset and found == self.terms:
            return self
        return Affine(found if len(found) < 2 else _collected(terms), offset)

    def evaluate(self, sizes: Mapping[str, int], iterators: Mapping[int, int] | tuple[int, ...] = ()) -> int:
        """The value for concrete sizes and iterators. Raises KeyError or IndexError if one is missing."""
        total = self.offset
        for atom, coefficient in self.terms:
            match atom:
                case SizeVar(name):
                    value = sizes[name]
                case Iter(depth):
                    value = iterators[depth]
                case FloorDiv(numerator, divisor):
                    value = numerator.evaluate(sizes, iterators) // divisor
                case Mod(numerator, divisor):
                    value = numerator.evaluate(sizes, iterators) % divisor
                case Extremum():
                    value = atom.of(part.evaluate(sizes, iterators) for part in atom.parts)
            total += coefficient * value
        return total

    # -- text --------------------------------------------------------------------------------------------
    def format(self, iterator_name: Callable[[int], str]) -> str:
        """The text, with `{name}` for each iterator."""
        parts: list[str] = []
        # A positive term first reads better: `N - {0}`, not `-{0} + N`.
        for atom, coefficient in sorted(self.terms, key=lambda term: term[1] < 0):
            text = _format_term(atom, abs(coefficient), iterator_name)
            if not parts and coefficient == -1 and isinstance(atom, FloorDiv | Mod):
                text = f"({text})"  # a leading minus binds tighter than // and %
            parts.append(_signed(text, coefficient, not parts))
        if self.offset or not parts:
            parts.append(_signed(str(abs(self.offset)), self.offset, not parts))
        return "".join(parts)

    def __str__(self) -> str:
        return self.format(str)


_ITERATORS = tuple(Affine(((Iter(depth), 1),), 0) for depth in range(128))
"""The iterators of the scopes that there are, once each."""


def _signed(text: str, value: int, first: bool) -> str:
    if first:
        return f"-{text}" if value < 0 else text
    return f" - {text}" if value < 0 else f" + {text}"


def _format_term(atom: Atom, coefficient: int, iterator_name: Callable[[int], str]) -> str:
    match atom:
        case SizeVar(name):
            text = name
        case Iter(depth):
            text = "{" + iterator_name(depth) + "}"
        case FloorDiv(numerator, divisor) | Mod(numerator, divisor):
            symbol = "//" if isinstance(atom, FloorDiv) else "%"
            inner = numerator.format(iterator_name)
            simple = not numerator.offset and len(numerator.terms) == 1 and numerator.terms[0][1] == 1
            if not (simple and isinstance(numerator.terms[0][0], SizeVar | Iter | Extremum)):
                inner = f"({inner})"
            text = f"{inner} {symbol} {divisor}"
            if coefficient != 1:
                text = f"({text})"
        case Extremum(word, parts):
            text = f"{word}({', '.join(part.format(iterator_name) for part in parts)})"
    return text if coefficient == 1 else f"{coefficient}*{text}"


def _positive(divisor: int) -> None:
    if divisor <= 0:
        raise ValueError(f"the divisor of // and % must be a positive integer, not {divisor}")
