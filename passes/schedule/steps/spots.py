"""The parts of schedules: moves as values, on nodes that are followed through the moves before.

A path is right in one kernel. A schedule that computes by hand where a node is after five moves is right until one
of them changes; a spot asks the trace.
"""

from __future__ import annotations

from collections.abc import Iterable

from dojoir.errors import ArgumentError
from dojoir.ir.affine import Affine
from dojoir.ir.nodes import Condition, Extent, Node, Path, Scope, Statement, format_path, parse_path
from dojoir.ir.places import siblings
from dojoir.ir.text import format_condition, format_extent
from dojoir.passes.base.move import Formula, Move, Place, Quoted
from dojoir.passes.engine.trace import Trace
from dojoir.passes.loops.guards import AddGuard
from dojoir.passes.loops.joining import SplitScopes
from dojoir.passes.schedule.steps.combinators import make
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
    def is_there(self) -> bool:
        """Whether it still is one node."""
        try:
            return bool(self.path)
        except ArgumentError:
            return False

    @property
    def node(self) -> Node:
        """The node as it is now."""
        return self.trace.kernel.at(self.path)

    @property
    def scope(self) -> Scope:
        """The scope as it is now. Raises ArgumentError where another node is there."""
        node = self.node
        if not isinstance(node, Scope):
            raise ArgumentError(f"{self} is a {type(node).__name__.lower()}, not a scope", "bad-arguments")
        return node

    @property
    def body(self) -> tuple[Node, ...]:
        """The nodes right inside of it now."""
        node = self.node
        return () if isinstance(node, Statement) else node.body

    @property
    def depth(self) -> int:
        """How many scopes are around it now."""
        return self.trace.kernel.depth_of(self.path)

    @property
    def iterator(self) -> Affine:
        """The iterator of the scope, as what is inside says it now."""
        return Affine.iterator(self.depth)

    def child(self, *numbers: int) -> Spot:
        """The node inside of it now, by child indices."""
        return spot(self.trace, (*self.path, *numbers))

    def scopes(self) -> list[Spot]:
        """The scopes right inside of it now, in the order of the text."""
        return [self.child(n) for n, node in enumerate(self.body) if isinstance(node, Scope)]

    def around(self, levels: int = 1) -> Spot:
        """The node around it now, so many levels further out."""
        return spot(self.trace, self.path[:-levels])

    def beside(self, number: int) -> Spot:
        """The sibling at this distance behind it, or before it."""
        *around, own = self.path
        return spot(self.trace, (*around, own + number))

    def __str__(self) -> str:
        return format_path(self.path)


def spot(trace: Trace, path: Path) -> Spot:
    """The node at a path of the kernel of a trace as it is now."""
    return Spot(trace, format_path(path), len(trace.steps))


One = Spot | Affine | Extent | Formula | Quoted | str | int
Argument = One | Iterable[Spot] | Iterable[int] | Iterable[str] | Iterable[Formula]


def move(kind: type[Move], *arguments: Argument) -> Move:
    """A move of a kind. A spot stands for the place at which its node is now, an affine expression or an extent for
    the formula that says it."""
    return kind(*map(_written, arguments))


def act(trace: Trace, kind: type[Move], *arguments: Argument) -> None:
    """Makes a move of a kind. Raises IllegalMove where it is refused."""
    make(trace, move(kind, *arguments))


def in_two(trace: Trace, kind: type[Move], scope: Spot, *arguments: Argument) -> tuple[Spot, Spot]:
    """Makes a move of a kind that makes two scopes of one, side by side: `Cut` of its iterations, `SplitScopes` of
    its children. Returns both. Raises IllegalMove where it is refused."""
    path = scope.path
    act(trace, kind, scope, *arguments)
    first = spot(trace, path)
    return first, first.beside(1)


def guard_body(trace: Trace, around: Spot, conditions: Iterable[Condition]) -> Spot:
    """Puts all that is in a scope or guard under a guard of these conditions, and returns it. Raises IllegalMove
    where it is refused."""
    text = Quoted(" and ".join(map(format_condition, conditions)))
    act(trace, AddGuard, around.child(0), len(around.body), text)
    return around.child(0)


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


def nested(scope: Spot) -> list[Spot]:
    """A scope and those inside of it, outermost first: each is all that the one before has."""
    found = [scope]
    while len(found[-1].body) == 1 and found[-1].scopes():
        found.append(found[-1].child(0))
    return found


def first_nest(around: Spot) -> Spot:
    """The first scope inside of a scope. Raises ArgumentError where there is none."""
    found = around.scopes()
    if not found:
        raise ArgumentError(f"there is no scope in {format_path(around.path)}", "unknown-place")
    return found[0]


def _written(argument: Argument) -> object:
    """An argument as a move has it."""
    if isinstance(argument, Spot):
        return Place(str(argument))
    if isinstance(argument, Affine):
        return Formula(str(argument))
    if isinstance(argument, Extent):
        return Formula(format_extent(argument))
    return argument if isinstance(argument, str | int | Formula | Quoted) else tuple(map(_written, argument))
