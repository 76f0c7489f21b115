"""Offsets as sums: how far apart two are, and what divides one."""

from __future__ import annotations

from collections.abc import Mapping
from math import gcd

from dojoir.codegen.lir.arith import add, integer, mul
from dojoir.codegen.lir.program import INDEX, Binary, Const, Value, Var

Sum = tuple[Mapping[Value, int], int]
"""Values with their coefficients, none of them a sum, and a constant."""


def as_sum(value: Value) -> Sum:
    """An index as a sum."""
    match value:
        case Const(_, number):
            return {}, int(number)
        case Binary(_, "add" | "sub" as op, left, right):
            terms, offset = as_sum(left)
            others, other = as_sum(right)
            sign = 1 if op == "add" else -1
            found = dict(terms)
            for atom, coefficient in others.items():
                found[atom] = found.get(atom, 0) + sign * coefficient
            return {atom: c for atom, c in found.items() if c}, offset + sign * other
        case Binary(_, "mul", left, right):
            for factor, rest in ((left, right), (right, left)):
                if isinstance(factor, Const):
                    by = int(factor.value)
                    terms, offset = as_sum(rest)
                    return {atom: by * c for atom, c in terms.items() if by}, by * offset
    return {value: 1}, 0


def distance(one: Value, other: Value) -> int | None:
    """By how much the second is greater than the first, where that is the same at all sizes and iterations."""
    terms, offset = as_sum(other)
    others, first = as_sum(one)
    return offset - first if terms == others else None


def parted(value: Value, by: int) -> tuple[Value, Value]:
    """An index as two: the terms that are multiples of a number whatever the iteration, and the others."""
    terms, offset = as_sum(value)
    whole: Value = integer(offset - offset % by)
    rest: Value = integer(offset % by)
    for atom, coefficient in terms.items():
        term = mul(atom, integer(coefficient))
        whole, rest = (whole, add(rest, term)) if coefficient % by else (add(whole, term), rest)
    return whole, rest


def divisor(value: Value, known: Mapping[str, int]) -> int:
    """A number that divides an index whatever the iteration; `known` has those of variables. 0: the index is 0."""
    match value:
        case Const(_, number):
            return abs(int(number))
        case Var(_, name):
            return known.get(name, 1)
        case Binary(kind, "add" | "sub", left, right) if kind == INDEX:
            return gcd(divisor(left, known), divisor(right, known))
        case Binary(kind, "mul", left, right) if kind == INDEX:
            return divisor(left, known) * divisor(right, known)
    return 1
