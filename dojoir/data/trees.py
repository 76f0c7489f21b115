"""The states of a run as a tree: each with its kernel, its way, and what became of it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace

import dojoir
from dojoir.data.dataset_lines import NOT_EVALUATED, Later, Timing
from dojoir.evidence.bundle import STATES
from dojoir.evidence.bundle_reading import Bundle
from dojoir.records import Context, State, states_in

TIMED = ("ok", "cut")
"""The statuses of what is right and has a time."""

CANDIDATE = "candidate"
"""The verdict of what was not asked yet: a later one takes its place."""


@dataclass
class StateNode:
    """A state with its kernel, the node before it, and the moves from the start to it."""

    state: State
    kernel: dojoir.Kernel
    parent: StateNode | None
    way: tuple[str, ...]
    children: list[StateNode] = field(default_factory=list)
    offered: dict[str, str] = field(default_factory=dict)
    best: Later | None = None

    @property
    def timing(self) -> Timing:
        """The outcome as a line of a data set has it."""
        one = self.state
        return Timing(one.status or NOT_EVALUATED, one.reason, one.seconds, one.low, one.high)


@dataclass
class Tree:
    """The states of a run by their hash, in the order of its file; the first is the start. `wrong` says what of the
    file is not so."""

    bundle: Bundle
    nodes: dict[str, StateNode]
    wrong: list[str]

    @property
    def start(self) -> StateNode:
        return next(iter(self.nodes.values()))

    @property
    def context(self) -> Context | None:
        """Where its states were evaluated: of what was, the first."""
        return next((one.state.context for one in self.nodes.values() if one.state.context is not None), None)


def tree_of(bundle: Bundle) -> Tree:
    """The tree of a bundle. Moves are made without the checker, which saw them when they were recorded; what
    leads to another hash is left out, with all behind it: `dojoir dataset check` proves steps again. Raises as
    reading does."""
    start = bundle.start
    if start.hash != bundle.run.start:
        raise dojoir.ArgumentError(f"{bundle.run.name}: its start has another hash", "changed-run")
    root = StateNode(State(start.hash, start.hash, kernel=start.name), start, None, ())
    tree = Tree(bundle, {start.hash: root}, [])
    lines = [*bundle.lines(STATES)]
    for state in states_in(lines):
        if state.start == start.hash:
            _take(tree, state)
    for line in lines:
        match line:
            case {"of": str(of)} if of != start.hash:
                pass
            case {"drawn": str(hash), "moves": list(moves)} if hash in tree.nodes:
                offered = tree.nodes[hash].offered
                for move, verdict in moves:
                    if offered.get(str(move), CANDIDATE) == CANDIDATE:
                        offered[str(move)] = str(verdict)
    for node in reversed(tree.nodes.values()):  # children stand after their parents
        node.best = _best(node, root)
    return tree


def _take(tree: Tree, state: State) -> None:
    """A state that was reached, or evaluated; of several evaluations the last counts, and none that was lost."""
    node = tree.nodes.get(state.hash)
    if node is not None:
        node.state = state if state.status not in ("", "lost") else node.state
    elif state.parent in tree.nodes and state.move is not None:
        before = tree.nodes[state.parent]
        try:
            kernel = dojoir.apply(before.kernel, state.move, unsafe=True)
        except dojoir.DojoError as error:
            tree.wrong.append(f"{state.hash[:12]}: {state.move}: {error.diagnostic.message}")
            return
        if kernel.hash != state.hash:
            tree.wrong.append(f"{state.hash[:12]}: {state.move} leads to another kernel")
            return
        node = tree.nodes[state.hash] = StateNode(state, kernel, before, (*before.way, state.move))
        before.children.append(node)
        before.offered[state.move] = "legal"


def _best(node: StateNode, root: StateNode) -> Later | None:
    """The fastest of a state and all behind it, whose best are known."""
    found: Later | None = None
    one = node.state
    if one.status in TIMED and one.seconds:
        found = Later(one.hash, one.seconds, one.low, one.high, None, 0)
    for child in node.children:
        if child.best is not None and (found is None or child.best.seconds < found.seconds):
            found = replace(child.best, moves=child.best.moves + 1)
    if found is not None and root.state.seconds:
        found = replace(found, speed=root.state.seconds / found.seconds)
    return found


def leaves(tree: Tree) -> Iterator[tuple[StateNode, bool]]:
    """The states that none follows, each with whether it is the answer of the run; the answer also where one
    does."""
    answer = tree.bundle.run.result
    for hash, node in tree.nodes.items():
        if node.parent is not None and (not node.children or hash == answer):
            yield node, hash == answer
