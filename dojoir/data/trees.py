"""The states of a run as a tree: each with its kernel, its way, and what became of it."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import dojoir
from dojoir.data.forms import NOT_EVALUATED, Later, Timing
from dojoir.evidence.bundle import STATES
from dojoir.evidence.reading import Bundle

TIMED = ("ok", "cut")
"""The statuses of what is right and has a time."""

CANDIDATE = "candidate"
"""The verdict of what was not asked yet: a later one takes its place."""

UNKNOWN = Timing(NOT_EVALUATED, "", None, None, None)

Context = tuple[str, str, str, int, str, str]
"""Machine, target, sizes as text, threads, protocol, versions."""


@dataclass
class Node:
    """A state: its kernel, the move to it, the moves from the start to it, its timing."""

    kernel: dojoir.Kernel
    parent: Node | None
    move: str
    way: tuple[str, ...]
    timing: Timing = UNKNOWN
    context: Context | None = None
    children: list[Node] = field(default_factory=list)
    offered: dict[str, str] = field(default_factory=dict)
    best: Later | None = None


@dataclass
class Tree:
    """The states of a run by their hash, in the order of its file; the first is the start. `wrong` says what of the
    file is not so."""

    bundle: Bundle
    nodes: dict[str, Node]
    wrong: list[str]

    @property
    def start(self) -> Node:
        return next(iter(self.nodes.values()))

    @property
    def context(self) -> Context | None:
        """Where its states were evaluated: of what was, the first."""
        return next((node.context for node in self.nodes.values() if node.context is not None), None)


def tree_of(bundle: Bundle) -> Tree:
    """The tree of a bundle. Moves are made without the checker, which saw them when they were recorded; what
    leads to another hash is left out, with all behind it: `dojoir dataset check` proves steps again. Raises as
    reading does."""
    start = bundle.start
    if start.hash != bundle.run.start:
        raise dojoir.ArgumentError(f"{bundle.run.name}: its start has another hash", "changed-run")
    root = Node(start, None, "", ())
    tree = Tree(bundle, {start.hash: root}, [])
    for line in bundle.lines(STATES):
        with contextlib.suppress(KeyError):
            _take(tree, line, start.hash)
    for node in reversed(tree.nodes.values()):  # children stand after their parents
        node.best = _best(node, root)
    return tree


def _take(tree: Tree, line: Mapping[str, Any], start: str) -> None:
    match line:
        case {"of": str(of)} if of != start:
            pass
        case {"state": str(hash), "parent": str(parent), "move": str(move)} if hash not in tree.nodes:
            before = tree.nodes[parent]
            try:
                kernel = dojoir.apply(before.kernel, move, unsafe=True)
            except dojoir.DojoError as error:
                tree.wrong.append(f"{hash[:12]}: {move}: {error.diagnostic.message}")
                return
            if kernel.hash != hash:
                tree.wrong.append(f"{hash[:12]}: {move} leads to another kernel")
                return
            node = tree.nodes[hash] = Node(kernel, before, move, (*before.way, move))
            before.children.append(node)
            before.offered[move] = "legal"
        case {"result": str(hash), "status": str(status), "context": dict(context)}:
            node = tree.nodes[hash]
            if status != "lost":
                interval = line.get("interval") or [None, None]
                node.timing = Timing(status, str(line.get("reason", "")), line.get("seconds"), *interval)
                node.context = (
                    str(context["machine"]), str(context["target"]), json.dumps(context["sizes"]),
                    int(context["threads"]), str(context["protocol"]), str(context["versions"]),
                )  # fmt: skip
        case {"drawn": str(hash), "moves": list(moves)}:
            offered = tree.nodes[hash].offered
            for move, verdict in moves:
                if offered.get(str(move), CANDIDATE) == CANDIDATE:
                    offered[str(move)] = str(verdict)


def _best(node: Node, root: Node) -> Later | None:
    """The fastest of a state and all behind it, whose best are known."""
    found: Later | None = None
    if node.timing.status in TIMED and node.timing.seconds:
        found = Later(node.kernel.hash, node.timing.seconds, node.timing.low, node.timing.high, None, 0)
    for child in node.children:
        if child.best is not None and (found is None or child.best.seconds < found.seconds):
            found = replace(child.best, moves=child.best.moves + 1)
    if found is not None and root.timing.seconds:
        found = replace(found, speed=root.timing.seconds / found.seconds)
    return found


def leaves(tree: Tree) -> Iterator[tuple[Node, bool]]:
    """The states that none follows, each with whether it is the answer of the run; the answer also where one
    does."""
    answer = tree.bundle.run.result
    for hash, node in tree.nodes.items():
        if node.parent is not None and (not node.children or hash == answer):
            yield node, hash == answer
