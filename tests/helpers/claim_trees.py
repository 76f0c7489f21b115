"""Kernels as trees of statements, each of which says what it claims to stand for (`claims.py`)."""

from __future__ import annotations

from dataclasses import dataclass, replace

from dojoir.ir.affine import Affine
from dojoir.ir.nodes import Access, Expr, Guard, Node, Op, Scope, Statement, substitute, substitute_iterators
from dojoir.proof.certificate import Origin


@dataclass(frozen=True)
class Line:
    """A statement of the new kernel and the old instance that it claims to stand for, or None."""

    statement: Statement
    origin: Origin | None


@dataclass(frozen=True)
class Block:
    """A scope or guard (with an empty body) around others."""

    node: Scope | Guard
    body: tuple[Line | Block, ...]


Tree = tuple[Line | Block, ...]


def node_of(tree: Line | Block) -> Node:
    if isinstance(tree, Line):
        return tree.statement
    return replace(tree.node, body=tuple(map(node_of, tree.body)))


def tree_of(node: Node) -> Line | Block:
    """The tree of a node; nothing in it stands for anything."""
    if isinstance(node, Statement):
        return Line(node, None)
    return Block(replace(node, body=()), tuple(map(tree_of, node.body)))


def numbered(tree: Tree, number: int, depth: int) -> tuple[Tree, int]:
    """The tree in which each statement stands for itself."""
    found: list[Line | Block] = []
    for node in tree:
        if isinstance(node, Line):
            found.append(replace(node, origin=Origin(number, tuple(map(Affine.iterator, range(depth))))))
            number += 1
        else:
            body, number = numbered(node.body, number, depth + isinstance(node.node, Scope))
            found.append(replace(node, body=body))
    return tuple(found), number


def origins(tree: Tree) -> list[Origin | None]:
    return [o for node in tree for o in ([node.origin] if isinstance(node, Line) else origins(node.body))]


def renamed(node: Line | Block, own: str, other: str, targets: bool) -> Line | Block:
    """A tree that uses another buffer of the same shape."""
    if isinstance(node, Block):
        return replace(node, body=tuple(renamed(child, own, other, targets) for child in node.body))

    def one(expr: Expr) -> Expr:
        match expr:
            case Access(name) if name == own:
                return replace(expr, buffer=other)
            case Op(_, args):
                return replace(expr, args=tuple(map(one, args)))
        return expr

    target = node.statement.target
    if target.buffer == own and targets:
        target = replace(target, buffer=other)
    return replace(node, statement=replace(node.statement, target=target, value=one(node.statement.value)))


def moved(block: Block, depth: int, at: Affine) -> Block:
    """A scope at whose iterations what ran at `at` runs, by its certificate too."""
    swap = substitute_iterators({depth: at})

    def one(node: Line | Block) -> Line | Block:
        if isinstance(node, Block):
            (outer,) = (substitute(replace(node.node, body=()), swap),)
            assert isinstance(outer, Scope | Guard)
            return Block(outer, tuple(map(one, node.body)))
        statement = substitute(node.statement, swap)
        assert isinstance(statement, Statement)
        origin = node.origin
        if origin is not None:
            origin = Origin(origin.site, tuple(value.substitute(swap) for value in origin.iterators))
        return Line(statement, origin)

    return Block(block.node, tuple(map(one, block.body)))
