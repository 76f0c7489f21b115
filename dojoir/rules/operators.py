"""Rules that hold for several operators: one text, in the sum, and what each operator has in place of it.

A rule file with a line `over sum, product, max, min` before its first kernel stands for as many rules. For a sum
as it is written, and for each other operator with that for `+=` and `+`, and with the value that it leaves alone
for 0. Which number that is depends on the type for max and min; there `z`, what the whole begins with, stands for
it: what is taken twice is the same as taken once.
"""

from __future__ import annotations

from dojoir.ir.nodes import Access, Const, Expr, Guard, Kernel, Node, Op, Scope, Statement, accesses_in
from dojoir.support.frozen import dataclass


@dataclass(frozen=True)
class Operator:
    """An operator that is associative and commutative: how it accumulates, and how it puts two values together.
    `neutral` is the number that it leaves alone, None where what it takes `is_repeatable`: taken twice as taken
    once."""

    name: str
    accumulates: str
    combines: str
    neutral: int | None

    @property
    def is_repeatable(self) -> bool:
        return self.neutral is None


SUM = Operator("sum", "+=", "add", 0)
OPERATORS = {
    operator.name: operator
    for operator in (
        SUM,
        Operator("product", "*=", "mul", 1),
        Operator("max", "max=", "max", None),
        Operator("min", "min=", "min", None),
    )
}


def over(side: Kernel, operator: Operator, name: str) -> Kernel:
    """One side of a rule that is written in the sum, with another operator in its place."""
    begin: Expr = Access("z", ()) if operator.neutral is None else Const(operator.neutral)

    def value(expr: Expr) -> Expr:
        match expr:
            case Op("add", args):
                return Op(operator.combines, tuple(map(value, args)))
            case Op(other, args):
                return Op(other, tuple(map(value, args)))
            case Const(0):
                return begin
        return expr

    def node(one: Node) -> Node:
        match one:
            case Statement(target, op, its):
                return Statement(target, operator.accumulates if op == SUM.accumulates else op, value(its))
            case Scope(extent, body, label=label):
                return Scope(extent, tuple(map(node, body)), label=label)
            case Guard():
                raise AssertionError("a rule has no guards")

    body = tuple(map(node, side.body))
    used = {access.buffer for access in accesses_in(body)}
    buffers = tuple(b for b in side.buffers if b.name in used)  # `z` where nothing is in place of a 0
    return side.evolve(name=name, buffers=buffers, body=body)


__all__ = ["OPERATORS", "SUM", "Operator", "over"]
