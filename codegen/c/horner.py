"""Polynomials step by step: what nests as `fma(fma(fma(c3, x, c2), x, c1), x, c0)` gets a line for each step, which
is how a person writes Horner's scheme."""

from __future__ import annotations

from dataclasses import field

from dojoir.codegen.lir.fresh_names import free
from dojoir.codegen.lir.program import Assign, Declare, Fma, Function, Let, Stmt, Value, Var
from dojoir.codegen.lir.walk import rebuilt
from dojoir.support.frozen import dataclass

SHORTEST = 3
"""The degree from which a polynomial is worth its own lines."""


def in_steps(function: Function) -> tuple[tuple[Stmt, ...], Value]:
    """The body of a function with its polynomials in steps, and its result."""
    steps = _Steps({var.name for var in function.params} | {let.var.name for let in function.body})
    for let in function.body:
        value = steps.value(let.value)
        steps.body.append(Let(let.var, value))
    result = steps.value(function.result)
    return tuple(steps.body), result


@dataclass
class _Steps:
    """The body as far as it is written; `used` are the names in it."""

    used: set[str]
    body: list[Stmt] = field(default_factory=list)

    def value(self, value: Value) -> Value:
        """`value` without the polynomials in it, which are written before it, all but their last step."""
        chain = _chain(value)
        if len(chain) < SHORTEST:
            return rebuilt(value, self.value)
        first, *others = chain
        so_far = Var(value.type, self._fresh("p"))
        self.body.append(Declare(so_far, Fma(self.value(first.a), first.b, self.value(first.c))))
        steps = [Fma(so_far, step.b, self.value(step.c)) for step in others]
        self.body.extend(Assign(so_far, step) for step in steps[:-1])
        return steps[-1]

    def _fresh(self, base: str) -> str:
        name = free(base, self.used.__contains__)
        self.used.add(name)
        return name


def _chain(value: Value) -> list[Fma]:
    """The steps of a polynomial in a variable that ends in `value`, innermost first."""
    if not (isinstance(value, Fma) and isinstance(value.b, Var)):
        return []
    inner = _chain(value.a)
    return [*inner, value] if inner and inner[-1].b == value.b else [value]
