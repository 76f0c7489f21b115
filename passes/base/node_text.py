"""Nodes as text among the arguments of a move: what it deletes, and what is put in again."""

from __future__ import annotations

from dataclasses import replace

from dojoir.errors import DojoError
from dojoir.grammar.reading import parse_once
from dojoir.ir.nodes import Kernel, Node, Path, Statement
from dojoir.ir.paths import is_inside
from dojoir.passes.base.move import Refusal


def header(kernel: Kernel) -> list[str]:
    """The lines before the tree."""
    return [line for path, line in kernel.lines() if not path and line]


def node_text(kernel: Kernel, path: Path) -> str:
    """The lines of a node, without the bars of what is around it, `;` between them."""
    bars = "| " * (len(path) - 1)
    below = [line.removeprefix(bars) for p, line in kernel.lines() if is_inside(p, path)]
    return "; ".join(below)


def node_of(kernel: Kernel, around: Path, text: str) -> Node:
    """The node that a text writes, as a child of the node at `around`. Raises Refusal."""
    if around:
        kernel.path(around)
    outer = [line for path, line in kernel.lines() if path and is_inside(around, path)]
    inner = ["| " * len(around) + line.strip() for line in text.split(";")]
    nodes = parsed([*header(kernel), *outer, *inner]).body
    for _ in around:
        nodes = () if isinstance(nodes[0], Statement) else nodes[0].body
    if len(nodes) != 1:
        raise Refusal("bad-text", f'"{text}" is {len(nodes)} nodes, not one')
    return nodes[0]


def parsed(text: list[str]) -> Kernel:
    """The kernel that some lines write. Raises Refusal."""
    try:
        return parse_once("\n".join(text) + "\n")
    except DojoError as error:
        raise Refusal("bad-text", error.diagnostic.message) from None


def inserted(nodes: tuple[Node, ...], path: Path, new: Node) -> tuple[Node, ...]:
    """The tree with a new node at a path, what is there and after it one place later. Raises Refusal."""
    n, *deeper = path
    if not deeper:
        if n > len(nodes):
            raise Refusal("bad-position", f"a node cannot be number {n} of {len(nodes) + 1}")
        return (*nodes[:n], new, *nodes[n:])
    node = nodes[n] if n < len(nodes) else None
    if node is None or isinstance(node, Statement):
        raise Refusal("bad-position", "there is no scope or guard around the place of a new node")
    return (*nodes[:n], replace(node, body=inserted(node.body, tuple(deeper), new)), *nodes[n + 1 :])
