"""Amounts as sympy expressions, and as text. sympy is imported when it is needed."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dojoir.costs.amounts import Amount, Least, ProductOfAmounts, ProductOfSums, Total, Uncounted
from dojoir.costs.counting import ConditionalPiece, SumOfPieces
from dojoir.costs.polynomial import Polynomial
from dojoir.ir.affine import Affine, Atom, Extremum, FloorDiv, Iter, Mod, SizeVar

if TYPE_CHECKING:
    import sympy


def formula(amount: Amount) -> sympy.Expr | None:
    """The amount as an expression in positive integer symbols named as the sizes. None if it has no formula."""
    found = _expression(amount)
    if found is None:
        return None
    import sympy

    if found.has(sympy.Piecewise, sympy.Min, sympy.Max):
        return found
    parts = [_without_minus(sympy.factor(term)) for term in sympy.Add.make_args(found)]
    forms = [sympy.expand(found), _without_minus(sympy.factor(found)), sympy.Add(*parts)]
    return min(forms, key=lambda form: len(_text(form)))


def formula_text(amount: Amount) -> str | None:
    """The formula with `//`, `min`, `max` and `… if … else …`, as Python writes it."""
    found = formula(amount)
    return None if found is None else _text(found)


def _without_minus(expr: sympy.Expr) -> sympy.Expr:
    """A product without a leading minus sign, if one of its factors can take it."""
    import sympy

    if expr.is_Mul and expr.could_extract_minus_sign():
        for factor in expr.args:
            if factor.is_Add and sum(t.could_extract_minus_sign() for t in factor.args) * 2 >= len(factor.args):
                return sympy.Mul(-1, expr / factor) * -factor
    return expr


def _text(expr: sympy.Expr, tightest: int = 0) -> str:
    """The text of an expression, in brackets if it binds less tightly than `tightest`: sums 1, products 2, powers
    3, all else 4."""
    import sympy

    match expr:
        case sympy.Add():
            terms = expr.as_ordered_terms()
            first = next((t for t in terms if not t.could_extract_minus_sign()), terms[0])
            text, binds = _text(first, 1), 1
            for term in (t for t in terms if t is not first):
                minus = term.could_extract_minus_sign()
                text += f" - {_text(-term, 2)}" if minus else f" + {_text(term, 1)}"
        case sympy.Mul() if expr.could_extract_minus_sign():
            text, binds = f"-{_text(-expr, 2)}", 1
        case sympy.Mul():
            coefficient, rest = expr.as_coeff_Mul()
            factors = [_text(factor, 2) for factor in rest.as_ordered_factors()]
            text, binds = "*".join([str(coefficient.p)] * (coefficient.p != 1) + factors), 2
            text += f"/{coefficient.q}" if coefficient.q != 1 else ""
        case sympy.Pow():
            text, binds = f"{_text(expr.base, 4)}**{expr.exp}", 3
        case sympy.floor():
            above, below = sympy.fraction(sympy.together(expr.args[0]))
            text, binds = f"{_text(above, 3)} // {below}", 2
            tightest *= 2  # always in brackets, but alone
        case sympy.Min() | sympy.Max():
            name = "min" if isinstance(expr, sympy.Min) else "max"
            text, binds = f"{name}({', '.join(sorted(map(_text, expr.args)))})", 4
        case sympy.Piecewise():
            cases = [f"{_text(value)} if {_condition_text(condition)}" for value, condition in expr.args[:-1]]
            text, binds = f"({' else '.join(cases)} else {_text(expr.args[-1][0])})", 4
        case _:
            text, binds = str(expr), 4
    return f"({text})" if binds < tightest else text


def _condition_text(condition: sympy.Basic) -> str:
    import sympy

    if isinstance(condition, sympy.And | sympy.Or):
        word = " and " if isinstance(condition, sympy.And) else " or "
        parts = [_condition_text(part) for part in condition.args]
        return word.join(f"({p})" if " or " in p or " and " in p else p for p in parts)
    return f"{_text(condition.lhs)} {condition.rel_op} {_text(condition.rhs)}"


def _expression(amount: Amount) -> sympy.Expr | None:
    import sympy

    match amount:
        case ProductOfSums(factors):
            where = [factor.pieces[0] for factor in factors if _is_condition(factor)]
            value = sympy.Mul(*(_sum(factor) for factor in factors if not _is_condition(factor)))
            inequalities = dict.fromkeys(a for piece in where for a in piece.inequalities)
            equalities = dict.fromkeys(a for piece in where for a in piece.equalities)
            condition = _condition(ConditionalPiece(tuple(inequalities), tuple(equalities), Polynomial.constant(1)))
            return sympy.Piecewise((value, condition), (0, True), evaluate=False) if where else value
        case ProductOfAmounts(amounts):
            found = [_expression(part) for part in amounts]
            return sympy.Mul(*found) if all(e is not None for e in found) else None
        case Total(terms):
            found = [_expression(part) for _, part in terms]
            known = [times * e for (times, _), e in zip(terms, found, strict=True) if e is not None]
            return sympy.Add(*known) if len(known) == len(found) else None
        case Least(amounts):
            found = [_expression(part) for part in amounts]
            return sympy.Min(*map(sympy.expand, found)) if all(e is not None for e in found) else None
        case Uncounted():
            return None


def _is_condition(total: SumOfPieces) -> bool:
    """Whether a sum is 1 where a condition holds, and 0 elsewhere."""
    match total:
        case SumOfPieces((ConditionalPiece(inequalities, equalities, value),), True):
            return value == Polynomial.constant(1) and bool(inequalities or equalities)
    return False


def _sum(total: SumOfPieces) -> sympy.Expr:
    import sympy

    least = _extreme(total)
    if least is not None:
        return least
    cases = [(_polynomial(p.value), _condition(p)) for p in total.pieces]
    if not total.cases:
        return sympy.Add(*(sympy.Piecewise(case, (0, True), evaluate=False) for case in cases))
    if not cases or cases[-1][1] is not sympy.true:
        cases.append((sympy.Integer(0), sympy.true))
    return sympy.Piecewise(*cases, evaluate=False) if len(cases) > 1 else cases[0][0]


def _extreme(total: SumOfPieces) -> sympy.Expr | None:
    """The larger of 0 and an expression, or the smaller or larger of two, where that is what the cases say."""
    import sympy

    if not total.cases or any(p.equalities for p in total.pieces):
        return None
    conditions = [[Polynomial.of(a) for a in piece.inequalities] for piece in total.pieces]
    values = [piece.value for piece in total.pieces]
    one = Polynomial.constant(1)
    match values, conditions:
        case [value], [[least]] if least in (value, value - one):
            return sympy.Max(0, _polynomial(value))
        case [first, second], [[least], []] if least in (second - first, second - first - one):
            return sympy.Min(_polynomial(first), _polynomial(second))
        case [first, second], [[least], []] if least in (first - second, first - second - one):
            return sympy.Max(_polynomial(first), _polynomial(second))
    return None


def _condition(piece: ConditionalPiece) -> sympy.Basic:
    import sympy

    found = [sympy.Ge(*_sides(a), evaluate=False) for a in piece.inequalities]
    found += [sympy.Eq(*_sides(a), evaluate=False) for a in piece.equalities]
    return sympy.And(*found, evaluate=False) if len(found) > 1 else found[0] if found else sympy.true


def _sides(affine: Affine) -> tuple[sympy.Expr, sympy.Expr]:
    """The two sides of a comparison with 0, without minus signs where there is a choice."""
    left = Affine(tuple((a, c) for a, c in affine.terms if c > 0), max(0, affine.offset))
    return _affine(left), _affine(left - affine)


def _polynomial(polynomial: Polynomial) -> sympy.Expr:
    import sympy

    return sympy.Add(
        *(
            sympy.Mul(sympy.Rational(c.numerator, c.denominator), *(_atom(atom) ** p for atom, p in monomial))
            for monomial, c in polynomial.terms.items()
        )
    )


def _affine(affine: Affine) -> sympy.Expr:
    return _polynomial(Polynomial.of(affine))


def _atom(atom: Atom) -> sympy.Expr:
    import sympy

    match atom:
        case SizeVar(name):
            return sympy.Symbol(name, integer=True, positive=True)
        case Iter(depth):
            return sympy.Symbol(f"i{depth}", integer=True, nonnegative=True)
        case FloorDiv(numerator, divisor):
            return sympy.floor(_affine(numerator) / divisor)
        case Mod(numerator, divisor):
            return sympy.Mod(_affine(numerator), divisor)
        case Extremum(word, parts):
            return (sympy.Min if word == "min" else sympy.Max)(*map(_affine, parts))
