"""How much code the unrolled scopes of a kernel become, so that they stay loops where a compiler would not end.

`work` weighs what is written out: a call of an elementary function is a polynomial of some dozens of instructions,
and a scope in lanes one copy for each vector. LLVM takes about a second for `MOST_WORK`, and more than
proportionally longer beyond.
"""

from __future__ import annotations

from dojoir.ir import operations
from dojoir.ir.expressions import parts
from dojoir.ir.nodes import Cast, Expr, Guard, Node, Op, Scope, Statement

MOST_WORK = 4096
"""How much work unrolled scopes may write out together; beyond, they stay loops."""

ELEMENTARY = frozenset(operations.ELEMENTARY) - {"rsqrt"} | {"fmod", "floor_mod"}
"""The operations that are computed by polynomials."""

POLYNOMIAL = 32
"""The cost of a polynomial, an addition being 1."""

LANES = 16
"""How many iterations of a scope in lanes are one copy of it."""


def rolled(trips: int, body: tuple[Node, ...]) -> str:
    """Why a scope that is marked to be unrolled stays a loop, or nothing where it is unrolled."""
    inside = work(body)
    if trips * inside <= MOST_WORK:
        return ""
    return f"not unrolled: {trips} times {inside} operations are more than {MOST_WORK}"


def copies(nodes: tuple[Node, ...]) -> int:
    """How many statements a block has once the unrolled scopes in it are spelled out."""
    total = 0
    for node in nodes:
        match node:
            case Statement():
                total += 1
            case Guard():
                total += copies(node.body)
            case Scope():
                total += copies(node.body) * _unrolled(node)
    return total


def work(nodes: tuple[Node, ...]) -> int:
    """How many operations a block has once the unrolled scopes in it are spelled out."""
    total = 0
    for node in nodes:
        match node:
            case Statement():
                total += max(_operations(node.value), 1)
            case Guard():
                total += work(node.body)
            case Scope():
                total += work(node.body) * _unrolled(node) * _vectors(node)
    return total


def _unrolled(scope: Scope) -> int:
    bounds = [bound.offset for bound in scope.extent.bounds if bound.is_constant]
    return max(min(bounds), 1) if "u" in scope.marks and bounds else 1


def _vectors(scope: Scope) -> int:
    constant = scope.extent.constant
    return -(-constant // LANES) if "v" in scope.marks and constant is not None and constant > 0 else 1


def _operations(expr: Expr) -> int:
    operations = [part for part in parts(expr) if isinstance(part, Op | Cast)]
    return sum(POLYNOMIAL if isinstance(part, Op) and part.name in ELEMENTARY else 1 for part in operations)
