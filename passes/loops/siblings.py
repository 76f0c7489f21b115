"""A node exchanged with the one after it; that taken back is the same move."""

from __future__ import annotations

from collections.abc import Iterator

from dojoir.ir.nodes import Kernel, Node, format_path
from dojoir.ir.paths import next_sibling
from dojoir.ir.places import numbers_inside
from dojoir.passes.base.about import AboutNode, Arguments, Here
from dojoir.passes.base.alternatives import Alternative
from dojoir.passes.base.move import Move, Rewrite
from dojoir.passes.base.reach import Reach
from dojoir.proof.check import InstanceMap, identity
from dojoir.proof.verdict import Verdict
from dojoir.support.frozen import dataclass


@dataclass(frozen=True)
class SwapSiblings(AboutNode, name="swap_siblings", reach=Reach.PANE):
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

    def followers(self) -> int:
        return 1

    def rewritten(self, at: Here[Node]) -> Rewrite:
        first, *following = at.siblings[at.path[-1] :]
        if not following:
            raise at.refusal("not-adjacent", f"nothing follows {self.node} in the same scope")
        mine, other = at.numbers, numbers_inside(at.kernel, next_sibling(at.path))
        order = [k for k in range(len(at.kernel.sites)) if k not in (*mine, *other)]
        begin = min((*mine, *other), default=0)
        order[begin:begin] = [*other, *mine]
        instances = InstanceMap(tuple(identity(at.kernel).origins[k] for k in order))
        return Rewrite(at.replaced(following[0], first, count=2), instances)

    def back(self, at: Here[Node]) -> Move:
        return SwapSiblings(at.place)

    def alternatives(self, kernel: Kernel, verdict: Verdict) -> Iterator[Alternative]:
        """The node exchanged with the one before it, or all around it with what comes next."""
        path = kernel.path(self.node)
        if path[-1] > 0:
            yield Alternative((), f"swap_siblings({format_path(next_sibling(path, -1))})")
        for length in range(len(path) - 1, 0, -1):
            yield Alternative((), f"swap_siblings({format_path(path[:length])})")

    @classmethod
    def listed(cls, at: Here[Node]) -> Arguments:
        return [()] if at.path[-1] + 1 < len(at.siblings) else []
