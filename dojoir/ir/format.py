"""The text of the parts of a kernel: declarations, nodes, statements, expressions."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import replace

from dojoir.ir.affine import Affine
from dojoir.ir.buffer import Buffer
from dojoir.ir.expressions import Access, Cast, Const, Expr, Index, Op
from dojoir.ir.operations import ATOM, OPERATIONS, PRODUCT, SIGN, SUM, Class
from dojoir.ir.paths import Path
from dojoir.ir.tree import Condition, Extent, Guard, Node, Scope, Statement
from dojoir.support.derived import once_for_each

Name = Callable[[int], str]
"""How an iterator is written, given its depth."""


def unlabelled(node: Node) -> Node:
    """A node without the labels of its scopes."""
    if isinstance(node, Statement):
        return node
    body = tuple(unlabelled(child) for child in node.body)
    return replace(node, body=body, label=None) if isinstance(node, Scope) else replace(node, body=body)


@once_for_each
def child_lines(node: Node) -> tuple[str, ...]:
    """The lines of a child of a kernel, in depth style."""
    return tuple(line for _, line in node_lines(node, (), (), 0, False))


def node_lines(
    node: Node, path: Path, around: tuple[str, ...], bars: int, names: bool, labels: bool = False
) -> Iterator[tuple[Path, str]]:
    name: Name = (lambda depth: around[depth] or str(depth)) if names or labels else str
    prefix = "| " * bars
    match node:
        case Statement():
            yield path, prefix + format_statement(node, name)
            return
        case Guard(conditions):
            yield path, prefix + "if " + " and ".join(format_condition(c, name) for c in conditions)
        case Scope(extent, _, marks, label, hints=hints):
            if names and label is None:
                label = f"i{len(around)}"
                taken = {*around, *_labels(node.body)}
                while label in taken:
                    label += "_"
            around = (*around, label or "")
            said = [*marks, *map(str, hints)]
            tail = (f" : {', '.join(said)}" if said else "") + (f" @{label}" if label else "")
            yield path, prefix + format_extent(extent, name) + tail
    for i, child in enumerate(node.body):
        yield from node_lines(child, (*path, i), around, bars + 1, names, labels)


def _labels(nodes: tuple[Node, ...]) -> Iterator[str]:
    """Every label below."""
    for node in nodes:
        if not isinstance(node, Statement):
            yield from _labels(node.body)
            if isinstance(node, Scope) and node.label is not None:
                yield node.label


def format_buffer(buffer: Buffer) -> str:
    """The declaration line of a buffer."""
    text = f"{buffer.role:<3} {buffer.name}: {buffer.dtype}"
    if buffer.dims:
        text += "[" + ", ".join(str(d.extent) + ("~" if d.collapsed else "") for d in buffer.dims) + "]"
    if buffer.storage != "heap":
        text += f" {buffer.storage}"
    if buffer.order is not None:
        text += f" order({', '.join(map(str, buffer.order))})"
    if buffer.pad is not None:
        text += f" pad({', '.join(map(str, buffer.pad))})"
    if buffer.swizzle:
        text += f" swizzle({buffer.swizzle})"
    if buffer.align:
        text += f" align {buffer.align}"
    if buffer.stream:
        text += " stream" if buffer.stream == 1 else f" stream {buffer.stream}"
    if buffer.strided:
        text += " strided"
    if buffer.flat is not None:
        text += f" flat({', '.join(map(str, buffer.flat))})"
    if buffer.packed:
        text += " packed"
    return " ".join((text, *map(str, buffer.facts)))


def format_extent(extent: Extent, name: Name = str) -> str:
    if len(extent.bounds) == 1:
        return extent.bounds[0].format(name)
    return "min(" + ", ".join(bound.format(name) for bound in extent.bounds) + ")"


def format_condition(condition: Condition, name: Name = str) -> str:
    return f"{condition.left.format(name)} {condition.relation} {condition.right.format(name)}"


def format_statement(statement: Statement, name: Name = str) -> str:
    return f"{format_access(statement.target, name)} {statement.op} {format_expr(statement.value, name)}"


def format_access(access: Access, name: Name = str) -> str:
    if not access.indices:
        return access.buffer
    indices = (
        format_access(index, name) if isinstance(index, Access) else index.format(name) for index in access.indices
    )
    return f"{access.buffer}[{', '.join(indices)}]"


def format_expr(expr: Expr, name: Name = str, tightest: int = 0) -> str:
    """The text of an expression, in brackets if it binds less tightly than `tightest`."""
    match expr:
        case Const(value):
            negative = not math.isnan(value) and math.copysign(1, value) < 0
            text, precedence = repr(value), SIGN if negative else ATOM
        case Index(affine):
            text, precedence = affine.format(name), _affine_precedence(affine)
        case Access():
            return format_access(expr, name)
        case Cast(dtype, arg, way=way):
            inner = format_expr(arg, name)
            return f"{dtype}({inner})" if way == "cast" else f"{way}({dtype}, {inner})"
        case Op(op, args):
            if op == "when":
                condition, guarded = args
                return f"{format_expr(guarded, name, 1)} if {format_expr(condition, name, 1)}"
            text, precedence = operation_text(op, lambda n, least: format_expr(args[n], name, least))
    return f"({text})" if precedence < tightest else text


def operation_text(name: str, operand: Callable[[int, int], str]) -> tuple[str, int]:
    """The text of an operation, and how tightly it binds. `operand(n, tightest)` gives that of its nth operand, in
    brackets if that binds less tightly than `tightest`."""
    operation = OPERATIONS[name]
    symbol, precedence = operation.symbol, operation.precedence
    if symbol is None:
        return f"{name}({', '.join(operand(n, 0) for n in range(operation.arity))})", ATOM
    if operation.arity == 1:
        return f"{symbol}{' ' if symbol.isalpha() else ''}{operand(0, precedence)}", precedence
    # Operators group to the left; comparisons do not chain, so both their sides bind tighter.
    left = precedence + (operation.kind is Class.COMPARISON)
    return f"{operand(0, left)} {symbol} {operand(1, precedence + 1)}", precedence


def _affine_precedence(affine: Affine) -> int:
    if len(affine.terms) + (affine.offset != 0) > 1:
        return SUM
    (atom, coefficient) = affine.terms[0]
    if coefficient < 0:
        return SUM
    return ATOM if coefficient == 1 and not hasattr(atom, "divisor") else PRODUCT
