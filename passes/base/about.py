"""The engine of moves: what a move is about, found or refused in one way, and the places of its family.

A family derives from `AboutScope`, `AboutGuard`, `AboutStatement`, `AboutNode`, `AboutPair`, `AboutBuffer` or
`AboutTemporary`. That is its first argument. `found(kernel)` gives it, with what rewrites do with it, and refuses
what is something else. Where the family may be listed is then what it `listed`s for one such thing: the other
arguments, once for each move; `numbered` and `more` are the same for `with_numbers` and the rest of `space`.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import fields, replace
from typing import Any, Generic, NamedTuple, TypeVar

from dojoir.backends.machine import Machine
from dojoir.ir.affine import Affine
from dojoir.ir.nodes import Buffer, Guard, Kernel, Node, Path, Replace, Scope, Site, Statement
from dojoir.ir.paths import next_sibling
from dojoir.ir.places import numbers_inside, siblings
from dojoir.passes.base.move import (
    BufferName,
    Move,
    Place,
    Refusal,
    Rewrite,
    only_child,
    place_of,
    renamed_inside,
    scope_at,
    unhinted,
)
from dojoir.proof.check import identity
from dojoir.support.derived import once_for_each
from dojoir.support.frozen import dataclass

Arguments = Iterable[tuple[Any, ...]]
"""The arguments of some moves of a family after the first, which says what each is about."""

N = TypeVar("N", bound=Node)


class Here(NamedTuple, Generic[N]):
    """A node that a move is about, in its kernel."""

    kernel: Kernel
    path: Path
    node: N

    @property
    def place(self) -> Place:
        """Its path, as an argument of a move."""
        return place_of(self.path)

    def beside(self, by: int = 1) -> Place:
        """The place so many nodes after it, as an argument."""
        return place_of(next_sibling(self.path, by))

    @property
    def depth(self) -> int:
        """How many scopes are around it: of a scope, the depth of its iterator."""
        return self.kernel.depth_of(self.path)

    @property
    def own(self) -> Affine:
        """The iterator of a scope."""
        return Affine.iterator(self.depth)

    @property
    def siblings(self) -> tuple[Node, ...]:
        """The nodes of the scope or guard around it, itself among them."""
        return siblings(self.kernel, self.path)

    @property
    def numbers(self) -> list[int]:
        """The numbers of its statements."""
        return numbers_inside(self.kernel, self.path)

    @property
    def number(self) -> int:
        """The number of its first statement."""
        return self.numbers[0]

    @property
    def site(self) -> Site:
        """A statement with what is around it."""
        return self.kernel.sites[self.number]

    def replaced(self, *new: Node, count: int = 1) -> Kernel:
        """The kernel with other nodes in the place of it and those after it, `count` in all."""
        return self.kernel.replace_node(self.path, *new, count=count)

    def unmoved(self, *new: Node, count: int = 1) -> Rewrite:
        """The same, where each statement is in its order what it was."""
        return Rewrite(self.replaced(*new, count=count), identity(self.kernel))

    def renamed(self, new: Replace, *nodes: Node) -> Rewrite:
        """The same, where the iterators of the statements inside are what `new` gives in terms of the new ones."""
        return Rewrite(self.replaced(*nodes), renamed_inside(self.kernel, self.path, new))

    def changed(self, **new: Any) -> Rewrite:
        """The kernel with some fields of the node changed, where each statement is in its order what it was."""
        return self.unmoved(replace(self.node, **new))

    @property
    def only_child(self) -> Scope:
        """The scope that is the only child of this one. Raises Refusal where there is none."""
        return only_child(self.path, self.scope)

    def unhinted(self, *nest: Scope) -> None:
        """Raises Refusal where this scope or one of those inside has hints (`dojoir.passes.base.move.unhinted`)."""
        unhinted(self.path, self.scope, *nest)

    def unmarked(self, named: Place) -> None:
        """Raises Refusal where this scope, as the move names it, has a mark."""
        if self.scope.marks:
            mark = self.scope.marks[-1]
            raise self.refusal("marked", f"it is marked `{mark}`", f"unmark({named}, {mark})")

    @property
    def scope(self) -> Scope:
        assert isinstance(self.node, Scope)
        return self.node

    def refusal(self, code: str, message: str, hint: str | None = None) -> Refusal:
        """A refusal that is about it."""
        return Refusal(code, message, self.path, hint)


class Declared(NamedTuple):
    """A buffer that a move is about, in its kernel."""

    kernel: Kernel
    buffer: Buffer

    @property
    def place(self) -> BufferName:
        """Its name, as an argument of a move."""
        return BufferName(self.buffer.name)

    def replaced(self, buffer: Buffer) -> Rewrite:
        """The kernel with another declaration of it, and nothing else changed."""
        return Rewrite(self.kernel.replace_buffer(buffer), identity(self.kernel))


T = TypeVar("T", bound="Here[Any] | Declared")


class _Missing(ABC):
    @abstractmethod
    def method(self, at: object) -> None:
        """Stands in the place of a method that a family does not give."""


class About(Move, Generic[T]):
    """A move about one thing of a kernel, the first of its arguments."""

    def __init_subclass__(cls, **said: object) -> None:
        """A family gives `rewritten` and `back`, or `rewrite` and `inverse` themselves. One that gives neither has
        abstract methods, and Python makes no instance of it."""
        super().__init_subclass__(**said)
        for whole, part in (("rewrite", "rewritten"), ("inverse", "back")):
            if getattr(cls, part) in (getattr(About, part), _Missing.method):
                by_itself = getattr(cls, whole) is not getattr(About, whole)
                setattr(cls, part, getattr(About, part) if by_itself else _Missing.method)

    @classmethod
    @abstractmethod
    def things(cls, kernel: Kernel) -> Iterator[T]:
        """All there are, in the order of the text."""

    @classmethod
    @abstractmethod
    def thing(cls, kernel: Kernel, place: Path | str) -> T | None:
        """The one at a path or of a name; None where something else is there."""

    def found(self, kernel: Kernel) -> T:
        """The one that the move names. Raises as `named`."""
        return self.named(kernel, getattr(self, fields(self)[0].name))

    @classmethod
    @abstractmethod
    def named(cls, kernel: Kernel, name: str) -> T:
        """The one that an argument names. Raises Refusal where something else is there, ArgumentError where nothing
        is."""

    def rewrite(self, kernel: Kernel) -> Rewrite:
        return self.rewritten(self.found(kernel))

    def rewritten(self, at: T) -> Rewrite:
        """The kernel after the move, which is about this. Raises Refusal as `rewrite` does."""
        return self.rewrite(at.kernel)

    def inverse(self, before: Kernel) -> Move:
        return self.back(self.found(before))

    def back(self, at: T) -> Move:
        """The `inverse` of the move, in terms of what it is about before it."""
        return self.inverse(at.kernel)

    @classmethod
    def listed(cls, at: T) -> Arguments:
        """The arguments of the `candidates` here. Unless a family says more, none."""
        return ()

    @classmethod
    def numbered(cls, at: T, numbers: Sequence[int]) -> Arguments:
        """Those of the moves here `with_numbers`."""
        return ()

    @classmethod
    def more(cls, at: T, machine: Machine) -> Arguments:
        """Those of the rest of the `space` here."""
        return ()

    @classmethod
    def candidates(cls, kernel: Kernel) -> Iterator[Move]:
        for at in cls.things(kernel):
            yield from cls._moves_at(at, cls.listed(at))

    @classmethod
    def with_numbers(cls, kernel: Kernel, place: Path | str, numbers: Sequence[int]) -> Iterator[Move]:
        at = cls.thing(kernel, place)
        return iter(()) if at is None else cls._moves_at(at, cls.numbered(at, numbers))

    @classmethod
    def _further(cls, kernel: Kernel, place: Path | str, machine: Machine) -> Iterator[Move]:
        at = cls.thing(kernel, place)
        return iter(()) if at is None else cls._moves_at(at, cls.more(at, machine))

    @classmethod
    def _moves_at(cls, at: T, arguments: Arguments) -> Iterator[Move]:
        family: Any = cls
        place = None
        for rest in arguments:
            place = at.place if place is None else place
            yield family(place, *rest)


class AboutKind(About[Here[N]]):
    """The same of nodes of a kind."""

    KIND: Any = Node

    @classmethod
    def things(cls, kernel: Kernel) -> Iterator[Here[N]]:
        return (Here(kernel, path, node) for path, node in _nodes_of(kernel)[cls.KIND])

    @classmethod
    def thing(cls, kernel: Kernel, place: Path | str) -> Here[N] | None:
        if isinstance(place, str):
            return None
        node: Any = kernel.at(place)
        return Here(kernel, place, node) if cls.KIND in (Node, type(node)) else None

    @classmethod
    def named(cls, kernel: Kernel, name: str) -> Here[N]:
        path = kernel.path(name)
        found = cls.thing(kernel, path)
        if found is None:
            code = {Scope: "not-a-scope", Guard: "not-a-guard", Statement: "not-a-statement"}[cls.KIND]
            other = "" if cls.KIND is Statement else f" a {type(kernel.at(path)).__name__.lower()},"
            raise Refusal(code, f"{name} is{other} not a {cls.KIND.__name__.lower()}", path)
        return found


@once_for_each
def _nodes_of(kernel: Kernel) -> dict[object, list[tuple[Path, Any]]]:
    """The nodes of a kernel with their paths, by kind, in the order of the text: every family asks for them."""
    found: dict[object, list[tuple[Path, Any]]] = {kind: [] for kind in (Node, Scope, Guard, Statement)}
    for path, node in kernel.walk():
        found[Node].append((path, node))
        found[type(node)].append((path, node))
    return found


@dataclass(frozen=True)
class AboutNode(AboutKind[Node]):
    """A move about a node, whatever it is."""

    node: Place


@dataclass(frozen=True)
class AboutScope(AboutKind[Scope]):
    """A move about a scope."""

    KIND = Scope
    scope: Place


@dataclass(frozen=True)
class AboutPair(AboutKind[Scope]):
    """A move about a scope and the one after it."""

    KIND = Scope
    first: Place
    second: Place

    def pair(self, kernel: Kernel, *notes: str) -> tuple[Here[Scope], Here[Scope]]:
        """The two. Raises Refusal where they do not follow one another, with notes that are about the first."""
        first, (path, second) = self.found(kernel), scope_at(kernel, self.second)
        if path != next_sibling(first.path):
            message = f"{self.second} does not follow {self.first} in the same scope"
            raise Refusal("not-adjacent", message, path, others=tuple((note, first.path) for note in notes))
        return first, Here(kernel, path, second)

    @classmethod
    def following(cls, at: Here[Scope]) -> Scope | None:
        """The scope after one; None where something else is there, or nothing."""
        node = next(iter(at.siblings[at.path[-1] + 1 :]), None)
        return node if isinstance(node, Scope) else None


@dataclass(frozen=True)
class AboutGuard(AboutKind[Guard]):
    """A move about a guard."""

    KIND = Guard
    guard: Place


@dataclass(frozen=True)
class AboutStatement(AboutKind[Statement]):
    """A move about a statement."""

    KIND = Statement
    statement: Place


@dataclass(frozen=True)
class AboutBuffer(About[Declared]):
    """A move about a buffer of the kernel."""

    buffer: BufferName

    @classmethod
    def things(cls, kernel: Kernel) -> Iterator[Declared]:
        return (at for buffer in kernel.buffers if (at := cls.thing(kernel, buffer.name)) is not None)

    @classmethod
    def thing(cls, kernel: Kernel, place: Path | str) -> Declared | None:
        return Declared(kernel, kernel.buffer(place)) if isinstance(place, str) else None

    @classmethod
    def named(cls, kernel: Kernel, name: str) -> Declared:
        found = cls.thing(kernel, kernel.buffer(name).name)
        if found is None:
            message = f"`{name}` is an argument of the kernel; only a tmp has storage of its own"
            raise Refusal("not-a-temporary", message)
        return found


class AboutTemporary(AboutBuffer):
    """A move about a temporary."""

    @classmethod
    def thing(cls, kernel: Kernel, place: Path | str) -> Declared | None:
        found = super().thing(kernel, place)
        return found if found is not None and found.buffer.role == "tmp" else None
