"""Moves that delete a node without effect, and put it back."""

from __future__ import annotations

from dojoir.ir.nodes import Kernel, Node, Path, Statement, format_path, parse_path
from dojoir.passes.base.about import AboutNode, Arguments, Here
from dojoir.passes.base.move import Move, Place, Quoted, Rewrite, Undoing, place_of
from dojoir.passes.base.node_text import inserted, node_of, node_text
from dojoir.proof.check import InstanceMap, identity
from dojoir.proof.patterns.same_order import NEVER
from dojoir.sets.kernel_sets import sets_of
from dojoir.support.frozen import dataclass


@dataclass(frozen=True)
class DeleteNode(AboutNode, name="delete_node"):
    """Deletes a node, and all that is in it, that has no effect: a guard that never holds, a scope that never runs,
    a statement the value of which nothing uses.

    Those that are listed never run. The node must not be the only one where it is. The inverse is `restore_node`,
    which holds the text that is deleted.

    >>> import dojoir
    >>> k = dojoir.parse('''kernel f(N)
    ... in  x: f32[N]
    ... out y: f32[N]
    ... N @i
    ... | y[{i}] = 2 * x[{i}]
    ... | if {i} >= N
    ... | | y[{i}] = 0
    ... ''')
    >>> print(dojoir.apply(k, "delete_node(0.1)"))
    kernel f(N)
    in  x: f32[N]
    out y: f32[N]
    <BLANKLINE>
    N @i
    | y[{i}] = 2 * x[{i}]
    <BLANKLINE>
    """

    def rewritten(self, at: Here[Node]) -> Rewrite:
        if len(at.siblings) == 1:
            if len(at.path) == 1:
                raise at.refusal("nothing-left", "nothing of the at.kernel would be left")
            around = format_path(at.path[:-1])
            message = f"nothing would be left in the node around it, at {around}"
            raise at.refusal("nothing-left", message, f"delete_node({around}) deletes both")
        gone = at.numbers
        kept = tuple(origin for k, origin in enumerate(identity(at.kernel).origins) if k not in gone)
        return Rewrite(at.replaced(), InstanceMap(kept))

    def back(self, at: Here[Node]) -> Move:
        return RestoreNode(at.place, Quoted(node_text(at.kernel, at.path)))

    @classmethod
    def listed(cls, at: Here[Node]) -> Arguments:
        whole = isinstance(at.node, Statement) or len(at.siblings) == 1
        return [()] if not whole and never_runs(at.kernel, at.path) else []


def never_runs(kernel: Kernel, path: Path) -> bool:
    """Whether it is seen that a scope has no iteration, or a guard never holds, for all sizes. Where it is not,
    within the steps that a list takes, the checker is asked all the same when such a node is to be deleted."""
    return sets_of(kernel).holds_around((*path, 0), [NEVER])


@dataclass(frozen=True)
class RestoreNode(Undoing, name="restore_node"):
    """Puts in a node that has no effect. The inverse of `delete_node`.

    `at` is the path that the new node has afterwards, and `text` its lines, in quotes, with `;` between them.

    >>> import dojoir
    >>> k = dojoir.parse('''kernel f(N)
    ... in  x: f32[N]
    ... out y: f32[N]
    ... N @i
    ... | y[{i}] = 2 * x[{i}]
    ... ''')
    >>> print(dojoir.apply(k, 'restore_node(0.1, "if {0} >= N; | y[{0}] = 0")'))
    kernel f(N)
    in  x: f32[N]
    out y: f32[N]
    <BLANKLINE>
    N @i
    | y[{i}] = 2 * x[{i}]
    | if {i} >= N
    | | y[{i}] = 0
    <BLANKLINE>
    """

    at: Place
    text: Quoted

    def undone(self, kernel: Kernel) -> tuple[Kernel, Move]:
        path = parse_path(self.at)
        node = node_of(kernel, path[:-1], self.text.text)
        return kernel.evolve(body=inserted(kernel.body, path, node)), DeleteNode(place_of(path))
