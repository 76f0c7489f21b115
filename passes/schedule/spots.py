"""What schedules are built of: moves as values, on nodes that are followed through the moves before.

A path is right in one kernel. A schedule that computes by hand where a node is after five moves is right until one
of them changes; a spot asks the trace.
"""

from __future__ import annotations

from collections.abc import Iterable

from dojoir.ir.affine import Affine
from dojoir.ir.nodes import Node, Path, Scope, format_path, parse_path
from dojoir.ir.places import siblings
from dojoir.passes.base.move import Formula, Move, Place, Quoted
from dojoir.passes.engine.trace import Trace
from dojoir.passes.loops.joining import SplitScopes
from dojoir.passes.schedule.combinators import make
from dojoir.support.frozen import dataclass


@dataclass(frozen=True)
class Spot:
    """A node of the kernel of a trace, as it is after the first `since` moves; `path` is where it is now."""

    trace: Trace
    place: str
    since: int

    @property
    def path(self) -> Path:
        """Raises ArgumentError where a move removed it or made several of it."""
        return parse_path(self.trace.follow(self.place, self.since))

    @property
    def node(self) -> Node:
        """The node as it is now."""
        return self.trace.kernel.at(self.path)

    def child(self, *numbers: int) -> Spot:
        """What is inside of it now, by child indices."""
        return spot(self.trace, (*self.path, *numbers))

    def beside(self, number: int) -> Spot:
        """What now stands so many places behind it, or before it."""
        *around, own = self.path
        return spot(self.trace, (*around, own + number))

    def __str__(self) -> str:
        return format_path(self.path)


def spot(trace: Trace, path: Path) -> Spot:
    """The node at a path of the kernel of a trace as it is now."""
    return Spot(trace, format_path(path), len(trace.steps))


Argument = Spot | Affine | Formula | Quoted | str | int | Iterable[Spot] | Iterable[int] | Iterable[str]


def move(kind: type[Move], *arguments: Argument) -> Move:
    """A move of a kind. A spot stands for the place at which its node is now, an affine expression for the formula
    that says it."""
    return kind(*map(_written, arguments))


def act(trace: Trace, kind: type[Move], *arguments: Argument) -> None:
    """Makes a move of a kind. Raises IllegalMove where it is refused."""
    make(trace, move(kind, *arguments))


def stand_alone(trace: Trace, nest: Spot, levels: int) -> Spot:
    """Distributes as many scopes around a nest, so that it is all that runs in them. Returns the outermost of them
    that has the nest. Raises IllegalMove where a split is refused."""
    if nest.path[-1]:
        for level in range(1, levels + 1):
            act(trace, SplitScopes, spot(trace, nest.path[:-level]), nest.path[-level])
    if len(siblings(trace.kernel, nest.path)) > 1:
        for level in range(1, levels + 1):
            act(trace, SplitScopes, spot(trace, nest.path[:-level]), 1)
    return spot(trace, nest.path[:-levels])


def first_nest(around: Spot) -> Spot:
    """The first scope inside of a scope."""
    scope = around.node
    assert isinstance(scope, Scope)
    return around.child(next(n for n, node in enumerate(scope.body) if isinstance(node, Scope)))


def _written(argument: Argument) -> object:
    """An argument as a move has it."""
    if isinstance(argument, Spot):
        return Place(str(argument))
    if isinstance(argument, Affine):
        return Formula(str(argument))
    return argument if isinstance(argument, str | int | Formula | Quoted) else tuple(map(_written, argument))
