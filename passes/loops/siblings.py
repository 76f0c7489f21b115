"""A node exchanged with the one after it; that taken back is the same move."""

from __future__ import annotations

from collections.abc import Iterator
from typing import ClassVar

from dojoir.ir.nodes import Kernel, format_path
from dojoir.ir.paths import next_sibling
from dojoir.ir.places import numbers_inside, siblings
from dojoir.passes.base.alternatives import Alternative
from dojoir.passes.base.move import Move, Place, Refusal, Rewrite, place_of
from dojoir.passes.base.reach import Reach
from dojoir.proof.check import InstanceMap, identity
from dojoir.proof.verdict import Verdict
from dojoir.support.frozen import dataclass


@dataclass(frozen=True)
class SwapSiblings(Move):
    """Exchanges a node with the one after it in the same scope. The inverse is the same move.

    >>> import dojoir
    >>> k = dojoir.parse('''kernel f(N)
    ... in  x: f32[N]
    ... out y: f32[N]
    ... out z: f32[N]
    ... N
    ... | y[{0}] = 2 * x[{0}]
    ... | z[{0}] = x[{0}] + 1
    ... ''')
    >>> print(dojoir.apply(k, "swap_siblings(0.0)"))
    kernel f(N)
    in  x: f32[N]
    out y: f32[N]
    out z: f32[N]
    <BLANKLINE>
    N
    | z[{0}] = x[{0}] + 1
    | y[{0}] = 2 * x[{0}]
    <BLANKLINE>
    """

    name: ClassVar[str] = "swap_siblings"
    reach: ClassVar[Reach] = Reach.PANE
    node: Place

    def followers(self) -> int:
        return 1

    def rewrite(self, kernel: Kernel) -> Rewrite:
        path = kernel.path(self.node)
        following = next_sibling(path)
        if len(siblings(kernel, path)) <= following[-1]:
            raise Refusal("not-adjacent", f"nothing follows {self.node} in the same scope", path)
        first, second = kernel.at(path), kernel.at(following)
        after = kernel.replace_node(following).replace_node(path, second, first)
        origins = identity(kernel).origins
        before = [k for k, site in enumerate(kernel.sites) if site.path < path]
        mine = numbers_inside(kernel, path)
        other = [k for k, site in enumerate(kernel.sites) if site.path[: len(path)] == following]
        rest = range(len(before) + len(mine) + len(other), len(origins))
        return Rewrite(after, InstanceMap(tuple(origins[k] for k in [*before, *other, *mine, *rest])))

    def inverse(self, before: Kernel) -> Move:
        return SwapSiblings(place_of(before.path(self.node)))

    def alternatives(self, kernel: Kernel, verdict: Verdict) -> Iterator[Alternative]:
        """The node exchanged with the one before it, or all around it with what comes next."""
        path = kernel.path(self.node)
        if path[-1] > 0:
            yield Alternative((), f"swap_siblings({format_path((*path[:-1], path[-1] - 1))})")
        for length in range(len(path) - 1, 0, -1):
            yield Alternative((), f"swap_siblings({format_path(path[:length])})")

    @classmethod
    def candidates(cls, kernel: Kernel) -> Iterator[Move]:
        for path, _ in kernel.walk():
            if path[-1] + 1 < len(siblings(kernel, path)):
                yield cls(Place(format_path(path)))


MOVES = (SwapSiblings,)
