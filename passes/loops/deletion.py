"""Moves that delete a node without effect, and put it back."""

from __future__ import annotations

from collections.abc import Iterator
from typing import ClassVar

from dojoir.ir.nodes import Kernel, Path, Statement, format_path, parse_path
from dojoir.ir.paths import is_inside
from dojoir.ir.places import siblings
from dojoir.passes.base.move import Move, Place, Quoted, Refusal, Rewrite, Undoing, place_of
from dojoir.passes.base.node_text import inserted, node_of, node_text
from dojoir.proof.check import InstanceMap, identity
from dojoir.proof.patterns.unreached import NEVER
from dojoir.sets.kernel_sets import sets_of
from dojoir.support.frozen import dataclass


@dataclass(frozen=True)
class DeleteNode(Move):
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

    name: ClassVar[str] = "delete_node"
    node: Place

    def rewrite(self, kernel: Kernel) -> Rewrite:
        path = kernel.path(self.node)
        if len(siblings(kernel, path)) == 1:
            if len(path) == 1:
                raise Refusal("nothing-left", "nothing of the kernel would be left", path)
            around = format_path(path[:-1])
            message = f"nothing would be left in the node around it, at {around}"
            raise Refusal("nothing-left", message, path, f"delete_node({around}) deletes both")
        kept = [k for k, site in enumerate(kernel.sites) if not is_inside(site.path, path)]
        origins = identity(kernel).origins
        return Rewrite(kernel.replace_node(path), InstanceMap(tuple(origins[k] for k in kept)))

    def inverse(self, before: Kernel) -> Move:
        path = before.path(self.node)
        return RestoreNode(place_of(path), Quoted(node_text(before, path)))

    @classmethod
    def candidates(cls, kernel: Kernel) -> Iterator[Move]:
        for path, node in kernel.walk():
            if not isinstance(node, Statement) and len(siblings(kernel, path)) > 1 and never_runs(kernel, path):
                yield cls(place_of(path))


def never_runs(kernel: Kernel, path: Path) -> bool:
    """Whether it is seen that a scope has no iteration, or a guard never holds, for all sizes. Where it is not,
    within the steps that a list takes, the checker is asked all the same when such a node is to be deleted."""
    return sets_of(kernel).holds_around((*path, 0), [NEVER])


@dataclass(frozen=True)
class RestoreNode(Undoing):
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

    name: ClassVar[str] = "restore_node"
    at: Place
    text: Quoted

    def undone(self, kernel: Kernel) -> tuple[Kernel, Move]:
        path = parse_path(self.at)
        node = node_of(kernel, path[:-1], self.text.text)
        return kernel.evolve(body=inserted(kernel.body, path, node)), DeleteNode(place_of(path))

    @classmethod
    def candidates(cls, kernel: Kernel) -> Iterator[Move]:
        """None: what to put in is for the user to say."""
        return iter(())


MOVES = (DeleteNode, RestoreNode)
