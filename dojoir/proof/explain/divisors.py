"""Divisors of sizes and iterators that are 0 in some iteration. Those that are data are checked by the run."""

from __future__ import annotations

from collections.abc import Iterator

from dojoir.errors import Diagnostic
from dojoir.ir.affine import Affine
from dojoir.ir.expressions import parts
from dojoir.ir.nodes import Cast, Expr, Index, Kernel, Op, Scope
from dojoir.ir.text import format_expr
from dojoir.proof.explain.example import accuse, occasion, party, spelling, witness
from dojoir.sets.kernel_sets import isl_affine, iterators, sets_of
from dojoir.sets.ranges import is_nonnegative


def zero_divisor(kernel: Kernel) -> Diagnostic | None:
    """An iteration in which a statement divides by 0, whatever the data, or None."""
    for number, site in enumerate(kernel.sites):
        for part, divisor in _divisions(site.statement.value):
            if is_never_0(divisor, site.scopes):
                continue
            sets = sets_of(kernel)
            where = f"{sets.constraints(site.ancestors)} and {isl_affine(divisor)} = 0"
            wrong = sets.map(f"s{number}[{iterators(len(site.scopes))}] -> [] : {where}")
            if wrong.is_empty():
                continue
            found = witness(wrong, kernel)
            name = spelling(kernel, site.scopes)
            start = occasion(found.sizes, found.left.iteration(kernel), name)
            message = f"{start}this divides by 0: '{format_expr(part, name)}'; put a guard around it"
            return accuse("zero-divisor", message, [party(found.left, kernel, "divides by 0")], found.sizes)
    return None


def _divisions(value: Expr) -> Iterator[tuple[Op, Affine]]:
    for part in parts(value):
        if isinstance(part, Op) and part.name in ("floordiv", "mod"):
            divisor = part.args[1].arg if isinstance(part.args[1], Cast) else part.args[1]
            if isinstance(divisor, Index):
                yield part, divisor.affine


def is_never_0(affine: Affine, scopes: tuple[Scope, ...]) -> bool:
    """Whether an expression in the iterators of these scopes is seen to be more than 0, or less."""
    return is_nonnegative(affine - 1, scopes) or is_nonnegative(-affine - 1, scopes)
