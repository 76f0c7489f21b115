"""Points of systems counted as formulas, held to enumeration."""

from __future__ import annotations

from fractions import Fraction
from itertools import product
from math import prod

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from dojoir.costs.amounts import Amount, ProductOfSums, Uncounted, count, total
from dojoir.costs.counting import Counter
from dojoir.costs.formulas import formula, formula_text
from dojoir.costs.polynomial import Polynomial, summed, without_remainders
from dojoir.costs.systems import System, TooManyPieces, system
from dojoir.ir.affine import Affine, Iter, SizeVar
from dojoir.ir.nodes import Condition, Kernel, Size

N, M, ONE = Affine.size("N"), Affine.size("M"), Affine.constant(1)
I, J, K = map(Affine.iterator, range(3))  # noqa: E741
KERNEL = Kernel("sizes", (Size("N"), Size("M")), (), ())
ZERO = Affine.constant(0)


def counted(*conditions: Condition, dims: int = 2, facts: tuple[Condition, ...] = ()) -> Amount:
    return count(Counter(Kernel("sizes", KERNEL.sizes, (), (), facts)), system(dims, conditions))


def scope(iterator: Affine, *bounds: Affine) -> list[Condition]:
    return [Condition(iterator, ">=", ZERO), *(Condition(iterator, "<", bound) for bound in bounds)]


@pytest.mark.parametrize(
    ("conditions", "text"),
    [
        ([*scope(I, N), *scope(J, M)], "M*N"),
        ([*scope(I, N), *scope(J, I + 1)], "N*(N + 1)/2"),
        ([*scope(I, N), *scope(J, N - I)], "N*(N + 1)/2"),
        ([*scope(I, N - 2), *scope(J, M)], "M*max(0, N - 2)"),
        ([*scope(I, N - 1), *scope(J, M)], "M*N - M"),
        ([*scope(I, N, M), *scope(J, ONE)], "min(M, N)"),
        ([*scope(I, (N + 15) // 16), *scope(J, ONE * 16, N - I * 16)], "N"),
        ([*scope(I, N // 16), *scope(J, ONE * 16)], "16*(N // 16)"),
        ([*scope(I, N), Condition(I % 2, "==", ZERO), *scope(J, ONE)], "(N + 1) // 2"),
        ([*scope(I, N), *scope(J, N), Condition(I, "!=", J)], "N**2 - N"),
        ([*scope(I, N), *scope(J, M), Condition(N, ">", M)], "(M*N if N >= M + 1 else 0)"),
        ([*scope(I, N), *scope(J, ZERO)], "0"),
    ],
)
def test_formulas(conditions: list[Condition], text: str) -> None:
    assert formula_text(counted(*conditions)) == text


def test_facts_make_formulas_simpler() -> None:
    whole = [*scope(I, N // 16), *scope(J, ONE * 16)]
    assert formula_text(counted(*whole, facts=(Condition(N % 16, "==", ZERO),))) == "N"
    part = [*scope(I, N, M), *scope(J, ONE)]
    assert formula_text(counted(*part, facts=(Condition(N, "<=", M),))) == "N"


def test_a_formula_is_a_sympy_expression_in_positive_integers() -> None:
    expression = formula(counted(*scope(I, N), *scope(J, I + 1)))
    assert expression is not None
    (symbol,) = expression.free_symbols
    assert (symbol.name, symbol.is_integer, symbol.is_positive) == ("N", True, True)
    assert expression.subs(symbol, 100) == 5050


def test_a_tetrahedron_of_thousands() -> None:
    amount = counted(*scope(I, N), *scope(J, I + 1), *scope(K, J + 1), dims=3)
    n = 12_345
    assert amount({"N": n, "M": 1}) == n * (n + 1) * (n + 2) // 6


def points(found: System, sizes: dict[str, int], largest: int) -> int:
    """The points of a system with iterators up to `largest`."""
    return sum(
        all(a.evaluate(sizes, at) >= 0 for a in found.inequalities)
        and all(a.evaluate(sizes, at) == 0 for a in found.equalities)
        for at in product(range(largest + 1), repeat=len(found.variables))
    )


@st.composite
def expressions(draw: st.DrawFn, depth: int) -> Affine:
    """A quasi-affine expression in the first iterators and both sizes."""
    total = Affine.constant(draw(st.integers(-2, 3)))
    for d in range(depth):
        total = total + Affine.iterator(d) * draw(st.sampled_from([0, 0, 1, 1, -1, 2, -2, 3]))
    for size in (N, M):
        total = total + size * draw(st.sampled_from([0, 0, 1, 1, 2, -1]))
    match draw(st.integers(0, 6)):
        case 0:
            return total // draw(st.sampled_from([2, 3, 4]))
        case 1:
            return total % draw(st.sampled_from([2, 3, 4]))
        case 2:
            return total + (I if depth else N) // 4
    return total


@st.composite
def systems(draw: st.DrawFn) -> System:
    dims = draw(st.integers(1, 3))
    inequalities: list[Affine] = []
    for d in range(dims):
        iterator = Affine.iterator(d)
        bounds = [ONE * 8, draw(st.one_of(st.sampled_from([N, M, N - 1, N // 2, (N + 3) // 4]), expressions(d)))]
        inequalities += [iterator, *(bound - 1 - iterator for bound in bounds)]
    inequalities += draw(st.lists(expressions(dims), max_size=2))
    equalities = draw(st.lists(expressions(dims), max_size=1)) if draw(st.booleans()) else []
    return System(
        frozenset(range(dims)),
        tuple(map(without_remainders, inequalities)),
        tuple(map(without_remainders, equalities)),
    )


@settings(max_examples=60, deadline=None, suppress_health_check=list(HealthCheck))
@given(systems())
def test_counts_are_those_of_enumeration(found: System) -> None:
    amount = count(Counter(KERNEL), [found])
    for n, m in ((1, 1), (1, 3), (2, 2), (3, 1), (4, 6), (7, 2)):
        sizes = {"N": n, "M": m}
        assert amount(sizes) == points(found, sizes, 8)


def test_without_a_formula_numbers_are_exact(monkeypatch: pytest.MonkeyPatch) -> None:
    conditions = [*scope(I, N), *scope(J, M, I + 1), Condition((I + J) % 3, "!=", ZERO)]
    found = system(2, conditions)
    short = Counter(KERNEL, max_pieces=1)
    with pytest.raises(TooManyPieces):
        short.count(found)
    amount = count(short, found)
    assert isinstance(amount, Uncounted)
    assert formula(amount) is None and formula_text(total([(2, amount)])) is None
    exact = counted(*conditions)
    assert isinstance(exact, ProductOfSums)
    for n, m in product(range(1, 8), repeat=2):
        sizes = {"N": n, "M": m}
        assert amount(sizes) == exact(sizes) == sum(points(s, sizes, 8) for s in found)
    assert amount({"N": 3000, "M": 2000}) == exact({"N": 3000, "M": 2000})
    monkeypatch.setattr("dojoir.costs.amounts.MORE_PIECES", 0)
    assert amount({"N": 30, "M": 20}) == exact({"N": 30, "M": 20})


@settings(max_examples=60, deadline=None)
@given(st.lists(st.integers(-3, 3), min_size=1, max_size=5), st.integers(-6, 6), st.integers(-1, 7))
def test_sums_over_a_range(coefficients: list[int], low: int, length: int) -> None:
    weight = Polynomial({})
    for power, coefficient in enumerate(coefficients):
        weight = weight + Polynomial.of(I) ** power * coefficient
    found = summed(weight, Iter(0), N + low, N + low + length)
    expected = sum(c * v**p for v in range(5 + low, 5 + low + length + 1) for p, c in enumerate(coefficients))
    assert found.evaluate({"N": 5}) == expected


def test_polynomials() -> None:
    n, m = Polynomial.of(N), Polynomial.of(M)
    assert (n + m) * (n - m) == n**2 - m**2
    assert (n - n).is_zero and hash(n + m) == hash(m + n)
    assert (n * m + n**2).powers(SizeVar("N")) == [Polynomial({}), m, Polynomial.constant(1)]
    assert Polynomial.of(N % 4 + (N // 4) * 4) == n
    assert (n * Fraction(1, 2)).evaluate({"N": 3}) == Fraction(3, 2)
    halves = Polynomial.of(N // 2) + Polynomial.of((N + 1) // 2)
    assert halves.without_divisions(lambda _: True) == n
    half = Polynomial.of(N // 2)
    assert half.without_divisions(lambda _: True) == half
    assert half.without_divisions(lambda at: at["N"] == (2, 1)) == (n - Polynomial.constant(1)) * Fraction(1, 2)


def test_a_product_of_amounts() -> None:
    rows, columns = counted(*scope(I, N), dims=1), counted(*scope(I, M), dims=1)
    assert total([(2, rows), (3, columns), (-2, rows)]) == total([(3, columns)])
    assert total([(1, rows)]) is rows
    assert prod([rows({"N": 3}), columns({"M": 4})]) == counted(*scope(I, N), *scope(J, M))({"N": 3, "M": 4})
