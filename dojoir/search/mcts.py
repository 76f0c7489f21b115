"""`mcts`: Monte-Carlo tree search over moves, where the value of a node is the best that was found below it.

The selection is UCT (L. Kocsis, C. Szepesvári, "Bandit based Monte-Carlo planning", 2006); the number of children
grows with the visits, as there are thousands of moves (progressive widening: R. Coulom, 2007). Nothing is rolled
out: every node is measured.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field

import dojoir
from dojoir import runtime
from dojoir.search.play import Play


@dataclass
class SearchNode:
    """A state in the tree. `value` is the speed of the best state at it or below."""

    trace: dojoir.Trace
    parent: SearchNode | None = None
    children: list[SearchNode] = field(default_factory=list)
    visits: int = 0
    value: float = 0.0

    def told(self, speed: float) -> None:
        """Notes a speed here, and in all that leads here."""
        node: SearchNode | None = self
        while node is not None:
            node.visits += 1
            node.value = max(node.value, speed)
            node = node.parent


class Mcts:
    """A node may have `widen` times the square root of its visits children. `explore` weighs what was seldom
    visited against what is fast."""

    def __init__(self, play: Play, explore: float = 0.4, widen: float = 2.0, depth: int = 40) -> None:
        self.play, self.explore, self.widen, self.depth = play, explore, widen, depth
        self.root = SearchNode(dojoir.Trace(play.kernel))
        for trace in play.starts:
            child = SearchNode(trace, self.root)
            self.root.children.append(child)
            child.told(play.speed(trace))
        self.asked: list[SearchNode] = []

    def ask(self, n: int) -> list[dojoir.Trace]:
        """New leaves."""
        self.asked = []
        while len(self.asked) < min(n, 4):
            node = self._chosen()
            found = self.play.children(node.trace, 1)
            if not found:
                break
            child = SearchNode(found[0], node)
            node.children.append(child)
            node.visits += 1  # others look elsewhere until this one is known
            self.asked.append(child)
        return [node.trace for node in self.asked]

    def tell(self, evaluations: Sequence[runtime.Evaluation]) -> None:
        """Values go up the tree; what failed is no longer gone into."""
        for node in self.asked:
            speed = self.play.speed(node.trace)
            if speed > 0:
                node.told(speed)
            elif node.parent is not None:
                node.parent.children.remove(node)

    def _chosen(self) -> SearchNode:
        """The node that gets a child."""
        node = self.root.children[0] if not self.root.visits else self.root
        while node.children:
            may_widen = node is not self.root and len(node.children) < self.widen * math.sqrt(1 + node.visits)
            if may_widen or len(node.trace.moves) >= self.depth:
                break
            node = max(node.children, key=self._score)
        return node

    def _score(self, node: SearchNode) -> float:
        parent = node.parent
        assert parent is not None
        best = max(self.root.value, 1e-9)
        return node.value / best + self.explore * math.sqrt(math.log(1 + parent.visits) / (1 + node.visits))
