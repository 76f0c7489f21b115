"""A kernel run on symbols: what it computes as formulas over the real numbers, at given sizes.

It shares nothing with the interpreter but the tree. A size may differ from iteration to iteration of the scopes
around it, and be 0: rules of algebra (`dojoir.rules.rule`) are used so.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import sympy

from dojoir.ir.affine import Affine, Extremum, FloorDiv, Iter, Mod
from dojoir.ir.nodes import Access, Cast, Const, Expr, Guard, Index, Kernel, Node, Op, Scope, Statement

Sizes = Mapping[str, Callable[[tuple[int, ...]], int]]
"""The value of each size, given the iterators around its use."""

Elements = dict[tuple[str, tuple[int, ...]], Any]
"""Formulas by buffer and index. (sympy has no types: hence Any.)"""

_FUNCTIONS = {"exp": sympy.exp, "log": sympy.log, "sqrt": sympy.sqrt, "pow": sympy.Pow, "abs": sympy.Abs}


def run(kernel: Kernel, sizes: Sizes) -> Elements:
    """What the kernel writes. An element of an `in` buffer, or one as an `inout` has it at first, is a real symbol
    called `x_0_1`."""
    written: Elements = {}
    _run(kernel, kernel.body, (), sizes, written)
    return written


def _run(kernel: Kernel, nodes: tuple[Node, ...], at: tuple[int, ...], sizes: Sizes, written: Elements) -> None:
    for node in nodes:
        match node:
            case Statement(target, op, value):
                place = _place(target, at, sizes)
                new = _value(kernel, value, at, sizes, written)
                written[place] = new if op == "=" else _combine(op, _before(kernel, place, written), new)
            case Scope(extent, body):
                for i in range(min(_affine(bound, at, sizes) for bound in extent.bounds)):
                    _run(kernel, body, (*at, i), sizes, written)
            case Guard():
                raise AssertionError("a rule has no guards")


def _combine(op: str, left: Any, right: Any) -> Any:
    return {
        "+=": lambda: left + right,
        "*=": lambda: left * right,
        "max=": lambda: sympy.Max(left, right),
        "min=": lambda: sympy.Min(left, right),
    }[op]()


def _before(kernel: Kernel, place: tuple[str, tuple[int, ...]], written: Elements) -> Any:
    """What an element has now."""
    name, index = place
    if place not in written and kernel.buffer(name).role in {"in", "inout"}:
        return sympy.Symbol("_".join([name, *map(str, index)]), real=True)
    return written[place]


def _place(access: Access, at: tuple[int, ...], sizes: Sizes) -> tuple[str, tuple[int, ...]]:
    return access.buffer, tuple(_affine(i, at, sizes) for i in access.indices if isinstance(i, Affine))


def _value(kernel: Kernel, expr: Expr, at: tuple[int, ...], sizes: Sizes, written: Elements) -> Any:
    match expr:
        case Const(value):
            return {float("inf"): sympy.oo, float("-inf"): -sympy.oo}.get(float(value), sympy.nsimplify(value))
        case Index(affine):
            return sympy.Integer(_affine(affine, at, sizes))
        case Access():
            return _before(kernel, _place(expr, at, sizes), written)
        case Cast():
            raise AssertionError("over the real numbers nothing is rounded")
        case Op(name, args):
            return _apply(name, [_value(kernel, arg, at, sizes, written) for arg in args])


def _apply(name: str, args: list[Any]) -> Any:
    match name, args:
        case "add", [a, b]:
            return a + b
        case "sub", [a, b]:
            return a - b
        case "mul", [a, b]:
            return a * b
        case "div", [a, b]:
            return a / b
        case "neg", [a]:
            return -a
        case "fma", [a, b, c]:
            return a * b + c
        case "max", [a, b]:
            return sympy.Max(a, b)
        case "min", [a, b]:
            return sympy.Min(a, b)
        case "eq", [a, b]:
            return sympy.Eq(a, b)
        case "select", [condition, a, b]:
            assert condition in (sympy.true, sympy.false), f"{condition} is not decided"
            return a if condition == sympy.true else b
    return _FUNCTIONS[name](*args)


def _affine(affine: Affine, at: tuple[int, ...], sizes: Sizes) -> int:
    total = affine.offset
    for atom, coefficient in affine.terms:
        match atom:
            case Iter(depth):
                value = at[depth]
            case FloorDiv(numerator, divisor):
                value = _affine(numerator, at, sizes) // divisor
            case Mod(numerator, divisor):
                value = _affine(numerator, at, sizes) % divisor
            case Extremum():
                value = atom.of(_affine(part, at, sizes) for part in atom.parts)
            case _:
                value = sizes[atom.name](at)
        total += coefficient * value
    return total
