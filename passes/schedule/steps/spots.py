"""The parts of schedules: moves as values, on nodes that are followed through the moves before.

A path is right in one kernel. A schedule that computes by hand where a node is after five moves is right until one
of them changes; a spot asks the trace.

The parts of schedules: where an array is kept, and how it lies there, as moves one after the other.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from types import MappingProxyType

from dojoir.errors import ArgumentError
from dojoir.ir.affine import Affine
from dojoir.ir.format import format_condition, format_extent
from dojoir.ir.nodes import Condition, Extent, Node, Path, Scope, Statement, format_path, parse_path
from dojoir.ir.paths import is_inside
from dojoir.ir.places import siblings
from dojoir.passes.base.move import Formula, Move, Place, Quoted, fresh_name, place_of
from dojoir.passes.engine.trace import Trace
from dojoir.passes.hardware.marks import Bind, Parallelize, Unroll, Vectorize
from dojoir.passes.loops.collapsing import Collapse
from dojoir.passes.loops.cutting import Cut
from dojoir.passes.loops.deletion import DeleteNode
from dojoir.passes.loops.extents import SetExtent
from dojoir.passes.loops.guards import AddGuard, RemoveGuard
from dojoir.passes.loops.joining import JoinScopes, SplitScopes
from dojoir.passes.loops.once import AddScope, RemoveScope
from dojoir.passes.loops.siblings import SwapSiblings
from dojoir.passes.loops.sinking import LiftScope, SinkScope
from dojoir.passes.loops.splitting import Split
from dojoir.passes.loops.swapping import SwapScopes
from dojoir.passes.schedule.facts.strides import sites_in
from dojoir.passes.schedule.steps.combinators import make, tried
from dojoir.passes.storage.dims import AddDim, DropDim, SplitDim, uses_of
from dojoir.passes.storage.layout import MaterializeDims, PadDims, PlaceBuffer, ReorderDims, ReuseDims
from dojoir.passes.storage.staging import Stage
from dojoir.passes.values.fma import ToFma
from dojoir.passes.values.reductions import SplitReduction
from dojoir.support.frozen import dataclass

ROLES: Mapping[str, type[Move]] = MappingProxyType({"u": Unroll, "v": Vectorize, "p": Parallelize})
"""The moves that give a scope a role of its iterations; every other role is one of a GPU, which `Bind` gives."""


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

    @property
    def count(self) -> int:
        """How often the scope runs, where that is a number; else 0."""
        return self.scope.extent.constant or 0

    @property
    def ends(self) -> list[Condition]:
        """That its iterator is below each of its bounds that is no number."""
        bounds = self.scope.extent.bounds
        return [Condition(self.iterator, "<", bound) for bound in bounds if not bound.is_constant]

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

    # -- moves: each raises IllegalMove where it is refused -------------------------------------------------
    def mark(self, role: str) -> None:
        """Gives the iterations of the scope a role: `u` one after the other, written out, `v` lanes, `p` cores, and
        on a GPU the blocks and threads of its grid (`gx`, `bx`, `lane`)."""
        kind = ROLES.get(role)
        act(self.trace, kind or Bind, self, *(() if kind else (role,)))

    def split(self, size: int) -> Spot:
        """Blocks of so many iterations. Returns the scope over those of one block."""
        act(self.trace, Split, self, size)
        return self.child(0)

    def parts(self, *sizes: int) -> list[Spot]:
        """Blocks of so many iterations, of these again, and so on. Returns the scopes, outermost first."""
        found = [self]
        for size in sizes:
            found.append(found[-1].split(size))
        return found

    def cut(self, at: Affine | Formula) -> tuple[Spot, Spot]:
        """Two scopes side by side, the first of so many iterations. Returns both."""
        return self._in_two(Cut, at)

    def part(self, number: int) -> tuple[Spot, Spot]:
        """Two scopes side by side, the first with so many of the children. Returns both."""
        return self._in_two(SplitScopes, number)

    def _in_two(self, kind: type[Move], where: Affine | Formula | int) -> tuple[Spot, Spot]:
        path = self.path
        act(self.trace, kind, self, where)
        first = spot(self.trace, path)
        return first, first.beside(1)

    def alone(self, levels: int) -> Spot:
        """Distributes so many scopes around it, so that it is all that runs in them. Returns the outermost of them
        that has it."""
        if self.path[-1]:
            for level in range(1, levels + 1):
                self.around(level).part(self.path[-level])
        if len(siblings(self.trace.kernel, self.path)) > 1:
            for level in range(1, levels + 1):
                self.around(level).part(1)
        return self.around(levels)

    def guard(self, conditions: Iterable[Condition]) -> Spot:
        """Puts all that is in it under a guard of these conditions, which is returned."""
        text = Quoted(" and ".join(map(format_condition, conditions)))
        act(self.trace, AddGuard, self.child(0), len(self.body), text)
        return self.child(0)

    def swap(self) -> None:
        """Exchanges it with the scope that is all it has."""
        act(self.trace, SwapScopes, self)

    def sink(self, levels: int) -> None:
        """Brings it inside of so many scopes, each of which is all that the one before has."""
        act(self.trace, SinkScope, self, levels)

    def lift(self, levels: int) -> None:
        """Brings it outside of so many nodes, of each of which it is all there is."""
        act(self.trace, LiftScope, self, levels)

    def bound(self, extent: Affine | Extent) -> None:
        """Says its extent otherwise."""
        act(self.trace, SetExtent, self, extent)

    def constant(self, extent: int) -> None:
        """Writes its extent, which the facts about open sizes make so much, as a number, where it is none."""
        if self.scope.extent.constant != extent:
            self.bound(Affine.constant(extent))

    def join(self, other: Spot) -> None:
        """Makes one scope of it and the next one."""
        act(self.trace, JoinScopes, self, other)

    def collapse(self) -> None:
        """Makes one scope of it and the one that is all it has."""
        act(self.trace, Collapse, self)

    def wrap(self, count: int) -> Spot:
        """Puts it and what follows, so many nodes in all, into a scope of one iteration, which is returned."""
        act(self.trace, AddScope, self, count)
        return self.around()

    def remove(self) -> None:
        """Takes a scope of one iteration away from what it has."""
        act(self.trace, RemoveScope, self)

    def unguard(self) -> None:
        """Takes a guard that always holds away from what it has."""
        act(self.trace, RemoveGuard, self)

    def delete(self) -> None:
        """Deletes what never runs, or gives nothing that is read."""
        act(self.trace, DeleteNode, self)

    def swap_next(self) -> None:
        """Exchanges it with the node behind it."""
        act(self.trace, SwapSiblings, self)

    def split_sum(self, target: str, levels: int = 0) -> tuple[str, Spot]:
        """Makes a sum one of parts, one for each of its iterations, which begins each, so many scopes further in.
        Returns the array of the parts, and what adds them up behind it."""
        part = fresh_name(self.trace.kernel, f"{target}_part")
        act(self.trace, SplitReduction, self, target, part, self.scope.extent)
        together, inner = self.beside(1), self
        self.beside(-1).join(self)
        for _ in range(levels):
            first, sums = inner.child(0), inner.child(1)
            if sums.count and first.count > sums.count and first.count % sums.count == 0:
                first.split(first.count // sums.count)  # of an element at two iterators, as `t[4*i + j]`
            first.join(sums)
            inner = inner.child(0)
        return part, together

    def stage(
        self, array: str, kind: str, way: str, home: str = "", only: Iterable[int] = (), name: str = ""
    ) -> str:
        """Makes it work on a copy of what it touches of an array, or of what those accesses `only` do. The copy, of
        a `kind` that its `name` says, is filled before (`in`), stored behind (`out`), or both, and has a `home`.
        Returns its name."""
        name = name or fresh_name(self.trace.kernel, f"{array}_{kind}")
        act(self.trace, Stage, self, array, name, way, only)
        if home:
            act(self.trace, PlaceBuffer, name, home)
        return name

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


def nested(scope: Spot) -> list[Spot]:
    """A scope and those inside of it, outermost first: each is all that the one before has."""
    found = [scope]
    while len(found[-1].body) == 1 and found[-1].scopes():
        found.append(found[-1].child(0))
    return found


Marked = tuple[Spot, str]
"""A scope and the role that it is to have."""


def mark_all(marks: Iterable[Marked]) -> None:
    """Gives scopes their roles, in order. Raises IllegalMove where one is refused."""
    for scope, role in marks:
        scope.mark(role)


def scopes_inside(node: Spot) -> list[Spot]:
    """The scopes in a node, itself among them, in the order of the text."""
    around, found = node.path, node.trace.kernel.walk()
    return [spot(node.trace, path) for path, n in found if isinstance(n, Scope) and is_inside(path, around)]


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


@dataclass(frozen=True)
class Array:
    """An array of the kernel of a trace. Each move returns it, so that the next one can follow; each raises
    IllegalMove where it is refused."""

    trace: Trace
    name: str

    def _do(self, kind: type[Move], *arguments: Argument) -> Array:
        act(self.trace, kind, self.name, *arguments)
        return self

    def place(self, home: str) -> Array:
        """Keeps it in registers (`reg`), shared memory (`shared`), on the stack or the heap."""
        return self._do(PlaceBuffer, home)

    def split(self, dim: int, size: int) -> Array:
        """Makes two dimensions of one, the inner one of so many elements."""
        return self._do(SplitDim, dim, size)

    def reuse(self, dim: int) -> Array:
        """Gives the elements along a dimension, of which one is needed at a time, the same storage."""
        return self._do(ReuseDims, dim)

    def store(self, dim: int) -> Array:
        """Gives each element along a dimension storage again."""
        return self._do(MaterializeDims, dim)

    def single(self) -> Array:
        """Gives all its elements, of which one is needed at a time, the same storage."""
        for dim, is_one in enumerate(dim.collapsed for dim in self.trace.kernel.buffer(self.name).dims):
            _ = is_one or self.reuse(dim)
        return self

    def in_memory(self) -> Array:
        """Keeps all its elements in memory."""
        self.place("heap")
        for dim, is_one in enumerate(dim.collapsed for dim in self.trace.kernel.buffer(self.name).dims):
            _ = is_one and self.store(dim)
        return self

    def order(self, dims: Iterable[int]) -> Array:
        """Lays its dimensions out in an order, the last one side by side."""
        return self._do(ReorderDims, tuple(dims))

    def inside(self, *dims: int) -> Array:
        """Lays some dimensions out innermost, in this order, behind the others."""
        count = len(self.trace.kernel.buffer(self.name).dims)
        return self.order([*(d for d in range(count) if d not in dims), *dims])

    def pad(self, dim: int, elements: int) -> Array:
        """Leaves so many elements free behind each row of a dimension."""
        return self._do(PadDims, dim, elements)

    def drop(self, dim: int) -> Array:
        """Takes a dimension of one element of storage away."""
        return self._do(DropDim, dim)


def add_dim(trace: Trace, name: str, depth: int, extent: Affine | Extent, at: int = 0) -> None:
    """Scalar expansion: gives a temporary a dimension `at` a place, an element for each iteration of the scopes of
    `depth` around its uses. Raises IllegalMove where an iteration needs what the one before left."""
    uses = sum(1 for _ in uses_of(trace.kernel, name))
    act(trace, AddDim, name, at, extent, [Formula(str(Affine.iterator(depth)))] * uses)
    Array(trace, name).store(at)


def keep_results(trace: Trace, around: Spot, buffer: str) -> str:
    """Keeps what a scope sums up in `buffer` in registers, and stores it behind the scope; where it adds to what
    another nest gave, it loads that first. Returns the name of the copy. Raises IllegalMove where a move is
    refused."""
    name = fresh_name(trace.kernel, f"{buffer}_tile")
    statements = [site.statement for site in sites_in(trace.kernel, around.path)]
    given = any(one.target.buffer == buffer and one.accumulation is None for one in statements)
    if given and tried(trace, move(Stage, around, buffer, name, "out")):
        Array(trace, name).place("reg")
        return name
    return around.stage(buffer, "tile", "inout", "reg")


def fuse(trace: Trace, path: Path) -> None:
    """Multiplies and adds in one instruction where the statement at `path` adds up products of floats."""
    tried(trace, ToFma(place_of(path), 0))
