"""The limits of the language: how large the numbers of a kernel may be, and how deep it may nest.

The parser, the builder and the moves hold to the same bounds, so that the text of every kernel can be read again.
"""

from __future__ import annotations

from collections.abc import Iterator

from dojoir.ir.affine import Affine, Compound, Extremum
from dojoir.ir.buffer_rules import declaration_error
from dojoir.ir.expressions import parts
from dojoir.ir.nodes import (
    DEEPEST,
    DEEPEST_EXPRESSION,
    Access,
    Cast,
    Const,
    Expr,
    Guard,
    Index,
    Kernel,
    Node,
    Op,
    Scope,
    Statement,
)
from dojoir.support.derived import once_for_each


def integer_fits(number: int) -> bool:
    """Whether an integer can be a value: it has a type, i64 or u64."""
    return -(2**63) <= number < 2**64


def affine_fits(affine: Affine) -> bool:
    """Whether every number in an affine expression fits in i64, its negative too."""
    return affine.magnitude < 2**63


_declared_wrong = once_for_each(declaration_error)


def unwritable(kernel: Kernel) -> tuple[str, str] | None:
    """The code and message of the part of a kernel that the language cannot write, or None."""
    header = [dim.extent for buffer in kernel.buffers for dim in buffer.dims]
    header += [fact.most for buffer in kernel.buffers for fact in buffer.facts if fact.most is not None]
    header += [side for fact in kernel.facts for side in (fact.left, fact.right)]
    if not all(map(affine_fits, header)):
        return _TOO_LARGE
    if any(affine.is_clamped for affine in header):
        return _clamped()
    for buffer in kernel.buffers:
        wrong = _declared_wrong(buffer)
        if wrong is not None:
            return "bad-attribute", wrong
    if all(map(_numbers_fit, kernel.body)) and max(map(height, kernel.body), default=0) <= DEEPEST:
        return None
    return _below(kernel.body, 0)


@once_for_each
def height(node: Node) -> int:
    """How many scopes and guards nest in a node, itself counted."""
    return 0 if isinstance(node, Statement) else 1 + max(map(height, node.body), default=0)


@once_for_each
def _numbers_fit(node: Node) -> bool:
    """Whether a node is correct, apart from its depth."""
    match node:
        case Scope(_, body) | Guard(_, body):
            return _around(node) is None and all(map(_numbers_fit, body))
        case Statement():
            return _in_statement(node) is None


_TOO_LARGE = "number-too-large", "an integer of the kernel would have more than 64 bits"


def _around(node: Scope | Guard) -> tuple[str, str] | None:
    """The error in the extent or the conditions of a node."""
    match node:
        case Scope(extent):
            found = list(extent.bounds)
        case Guard(conditions):
            found = [side for c in conditions for side in (c.left, c.right)]
    if not all(map(affine_fits, found)):
        return _TOO_LARGE
    return _clamped() if any(affine.is_clamped for affine in found) else None


def _clamped() -> tuple[str, str]:
    return "clamped-elsewhere", "a min or a max of sizes and iterators would stand where no index is"


def _below(nodes: tuple[Node, ...], depth: int) -> tuple[str, str] | None:
    if depth > DEEPEST:
        return "too-deep", f"scopes and guards would nest more than {DEEPEST} deep"
    for node in nodes:
        match node:
            case Scope(_, body) | Guard(_, body):
                wrong = _around(node)
            case Statement():
                wrong, body = _in_statement(node), ()
        wrong = wrong or (_below(body, depth + 1) if body else None)
        if wrong is not None:
            return wrong
    return None


@once_for_each
def _in_statement(statement: Statement) -> tuple[str, str] | None:
    if not all(map(affine_fits, statement.affine_parts)) or not all(map(integer_fits, _integers(statement.value))):
        return _TOO_LARGE
    if any(isinstance(part, Index) and part.affine.is_clamped for part in parts(statement.value)):
        return _clamped()
    if nesting(statement.value) > DEEPEST_EXPRESSION or nesting(statement.target) > DEEPEST_EXPRESSION:
        return "too-deep", f"an expression would nest more than {DEEPEST_EXPRESSION} deep"
    return None


def _integers(expr: Expr) -> Iterator[int]:
    """The integers among the numbers of an expression."""
    return (part.value for part in parts(expr) if isinstance(part, Const) and isinstance(part.value, int))


def nesting(expr: Expr) -> int:
    """How deep an expression nests, at most, as it is written."""
    match expr:
        case Const():
            return 1
        case Index(affine):
            return _affine_nesting(affine)
        case Access(_, indices):
            inner = (nesting(i) if isinstance(i, Access) else _affine_nesting(i) for i in indices)
            return 1 + max(inner, default=0)
        case Op(_, args):
            return 1 + max(map(nesting, args), default=0)
        case Cast(_, arg):
            return 1 + nesting(arg)


def _affine_nesting(affine: Affine) -> int:
    parts = [(atom, part) for atom, _ in affine.terms if isinstance(atom, Compound) for part in atom.parts]
    inner = [_affine_nesting(part) + isinstance(atom, Extremum) * len(atom.parts) for atom, part in parts]
    return 3 + len(affine.terms) + max(inner, default=0)
