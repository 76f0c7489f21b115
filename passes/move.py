"""What a move is: a rewrite with a place and parameters, and an instance map. It holds no proof."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, fields, replace
from functools import cache
from itertools import count
from types import MappingProxyType
from typing import ClassVar, NewType, get_type_hints

from dojoir.affine import Affine, Iter
from dojoir.dataflow import InstanceMap, Origin, identity
from dojoir.errors import DojoError, KernelError
from dojoir.grammar import parse_affine, parse_conditions, parse_extent
from dojoir.ir import Condition, Extent, Kernel, Node, Path, Replace, Scope, format_path, substitute_iterators
from dojoir.typecheck import check
from dojoir.words import name_error

Place = NewType("Place", str)
"""A path such as `0.1`, or a label such as `@j`."""

BufferName = NewType("BufferName", str)
"""The name of a buffer of the kernel."""

Word = NewType("Word", str)
"""One of a few words, such as a storage class."""


@dataclass(frozen=True)
class Quoted:
    """A piece of the text of a kernel, written in double quotes."""

    text: str

    def __str__(self) -> str:
        return f'"{self.text}"'


@dataclass(frozen=True)
class Formula:
    """An affine expression as written, such as `N - 1` or `16*(M // 16)`."""

    text: str

    def __str__(self) -> str:
        return self.text

    def affine(self, kernel: Kernel, depth: int) -> Affine:
        """Its value in the sizes of the kernel and the iterators of `depth` scopes. Raises Refusal."""
        try:
            return parse_affine(self.text, kernel, depth)
        except DojoError as error:
            raise Refusal("bad-formula", error.diagnostic.message) from None

    def extent(self, kernel: Kernel, depth: int) -> Extent:
        """As `affine`, of an extent: it may be a `min` of several. Raises Refusal."""
        try:
            return parse_extent(self.text, kernel, depth)
        except DojoError as error:
            raise Refusal("bad-formula", error.diagnostic.message) from None


@dataclass(frozen=True)
class Rewrite:
    """The kernel after a move, and which old statement instance each new one stands for."""

    kernel: Kernel
    instances: InstanceMap


class Refusal(Exception):
    """A move that cannot be made here, whatever the data: `code`, the reason, the place it is about, a `hint` at
    what can, and what others have to do with it, each with its place."""

    def __init__(
        self,
        code: str,
        message: str,
        path: Path | None = None,
        hint: str | None = None,
        others: tuple[tuple[str, Path], ...] = (),
    ) -> None:
        super().__init__(message)
        self.code, self.message, self.path, self.hint, self.others = code, message, path, hint, others


@dataclass(frozen=True)
class Move(ABC):
    """One small rewrite of a kernel. Its fields are its arguments, in the order in which they are written; its
    text is the pipeline element that applies it. Labels stay on their scopes, and new scopes have none, unless the
    docstring says otherwise."""

    name: ClassVar[str]
    targets: ClassVar[frozenset[str] | None] = None
    """The targets for which the move makes sense; None for all."""

    @abstractmethod
    def rewrite(self, kernel: Kernel) -> Rewrite:
        """The kernel after the move. Raises Refusal where the tree does not allow it, ArgumentError for a place
        or buffer that does not exist."""

    @classmethod
    @abstractmethod
    def candidates(cls, kernel: Kernel) -> Iterator[Move]:
        """Every way to write this move on the kernel that the shape of the tree allows, legal or not, in the
        order of the text."""

    @abstractmethod
    def inverse(self, before: Kernel) -> Move:
        """The move that takes this one back: after this one on `before`, it gives the canonical text of `before`
        again. Only labels may differ."""

    def arguments(self) -> tuple[str | int | tuple[str, ...] | tuple[int, ...], ...]:
        """The values of the fields."""
        return tuple(getattr(self, field.name) for field in fields(self))

    def __str__(self) -> str:
        words: list[str] = []
        for value in self.arguments():
            words += map(str, value) if isinstance(value, tuple) else [str(value)]
        return f"{self.name}({', '.join(words)})"

    def places(self) -> list[Place]:
        """The places among the arguments."""
        words: list[Place] = []
        for name, kind in self.parameters().items():
            if kind is Place:
                words.append(getattr(self, name))
            elif kind == tuple[Place, ...]:
                words += getattr(self, name)
        return words

    @classmethod
    @cache  # resolving annotations takes longer than most rewrites
    def parameters(cls) -> Mapping[str, type]:
        """The names and types of the arguments, in order."""
        hints = get_type_hints(cls)
        return MappingProxyType({field.name: hints[field.name] for field in fields(cls)})

    @classmethod
    def lists_may_be_empty(cls) -> bool:
        """Whether the lists among the arguments may be left out: they are empty by default."""
        return all(field.default == () for field in fields(cls) if str(field.type).startswith("tuple"))


class Undoing(Move):
    """A move that takes another one back. It finds the kernel from which that other move leads to this one, to the
    letter; that the two mean the same is then what the checker proves of the other move."""

    @abstractmethod
    def undone(self, kernel: Kernel) -> tuple[Kernel, Move]:
        """What the kernel was before, and the move that would have led from there to it. Raises Refusal where the
        tree has another form."""

    def rewrite(self, kernel: Kernel) -> Rewrite:
        earlier, move = self.undone(kernel)
        if earlier.undeclared:
            lost = earlier.undeclared[0]
            raise Refusal("used-elsewhere", f"something else uses `{lost}` as well, which would be no more")
        try:
            forth = move.rewrite(earlier)
        except Refusal as refusal:
            raise Refusal("another-form", f"{move} does not lead here: {refusal.message}") from None
        if forth.kernel != kernel:
            raise Refusal("another-form", f"this is not what {move} gives")
        return Rewrite(earlier, replace(forth.instances, backward=True))

    def inverse(self, before: Kernel) -> Move:
        return self.undone(before)[1]


def well_typed(done: Rewrite) -> Rewrite:
    """The rewrite, of a move that puts numbers in the place of iterators. Raises Refusal where one does not fit its
    type, which can be where the statement does not run."""
    try:
        check(done.kernel)
    except KernelError as error:
        raise Refusal(
            error.diagnostic.code, f"a number would stand for an iterator: {error.diagnostic.message}"
        ) from None
    return done


def reversible(move: Move, kernel: Kernel, done: Rewrite) -> Rewrite:
    """The rewrite. Raises Refusal where the inverse of the move would not find the text again."""
    back = move.inverse(kernel)
    assert isinstance(back, Undoing)
    if back.undone(done.kernel)[0] != kernel:
        raise Refusal("not-reversible", f"the indices lose their form: {back} would not give them back")
    return done


def place_of(path: Path) -> Place:
    """The place as a path."""
    return Place(format_path(path))


def scope_at(kernel: Kernel, place: Place) -> tuple[Path, Scope]:
    """The scope at a place. Raises Refusal if something else is there."""
    path = kernel.path(place)
    node = kernel.at(path)
    if not isinstance(node, Scope):
        raise Refusal("not-a-scope", f"{place} is a {type(node).__name__.lower()}, not a scope", path)
    return path, node


def unhinted(path: Path, *nest: Scope) -> None:
    """Raises Refusal where a scope of a nest has hints: a move that changes what its iterations are would make
    them say something else, or lose them."""
    for level, scope in enumerate(nest):
        for hint in scope.hints:
            where = format_path(path + (0,) * level)
            raise Refusal(
                "hinted-scope",
                f"the scope at {where} has the hint {hint}, which is about its iterations as they are",
                path,
                f"take it off first: {hint.removal(where)}",
            )


def only_child(path: Path, scope: Scope) -> Scope:
    """The scope that is the only child of a scope. Raises Refusal if there is none."""
    if len(scope.body) != 1 or not isinstance(scope.body[0], Scope):
        raise Refusal(
            "not-nested",
            "the scope must have one child, a scope; it has "
            + (
                f"{len(scope.body)} children"
                if len(scope.body) != 1
                else f"a {type(scope.body[0]).__name__.lower()}"
            ),
            path,
            "split_scopes or join_scopes can make the nest perfect",
        )
    return scope.body[0]


def scopes(kernel: Kernel) -> Iterator[tuple[Path, Scope]]:
    """Every scope with its path, in the order of the text."""
    for path, node in kernel.walk():
        if isinstance(node, Scope):
            yield path, node


def siblings(kernel: Kernel, path: Path) -> tuple[Node, ...]:
    """The children of the parent of the node at `path`, itself among them."""
    nodes = kernel.body
    for child in path[:-1]:
        node = nodes[child]
        nodes = () if not hasattr(node, "body") else node.body
    return nodes


def fresh_label(kernel: Kernel, wanted: str) -> str:
    """The label, with a number after it if the kernel has it already."""
    used = {scope.label for _, scope in scopes(kernel)}
    numbered = (f"{wanted}{n}" for n in count(2))
    return wanted if wanted not in used else next(label for label in numbered if label not in used)


def fresh_name(kernel: Kernel, wanted: str) -> str:
    """The name, with a number after it if a buffer or size of the kernel has it already."""
    used = {buffer.name for buffer in kernel.buffers} | {size.name for size in kernel.sizes}
    numbered = (f"{wanted}{n}" for n in count(2))
    return wanted if wanted not in used else next(name for name in numbered if name not in used)


def conditions_of(text: Quoted, kernel: Kernel, depth: int) -> tuple[Condition, ...]:
    """The conditions that a text has in the sizes of the kernel and the iterators of `depth` scopes. Raises
    Refusal."""
    try:
        return parse_conditions(text.text, kernel, depth)
    except DojoError as error:
        raise Refusal("bad-condition", error.diagnostic.message) from None


def check_new_name(kernel: Kernel, name: str) -> None:
    """Raises Refusal where a new buffer cannot have the name."""
    wrong = name_error(name)
    if wrong is not None:
        raise Refusal("bad-name", wrong)
    if name in {buffer.name for buffer in kernel.buffers} | {size.name for size in kernel.sizes}:
        raise Refusal("name-taken", f"`{name}` is already a name of the kernel")


def renamed_inside(kernel: Kernel, path: Path, new: Replace) -> InstanceMap:
    """The instance map of a rewrite that keeps all statements in their order and renames the iterators of those
    inside `path`: `new` gives each old one in terms of the new ones."""
    origins = tuple(
        Origin(k, tuple(new(Iter(d)) for d in range(len(site.scopes))))
        if site.path[: len(path)] == path
        else origin
        for k, (site, origin) in enumerate(zip(kernel.sites, identity(kernel).origins, strict=True))
    )
    return InstanceMap(origins)


def then(first: Rewrite, second: Rewrite) -> Rewrite:
    """Two rewrites without substitutions, one after the other, as one."""
    origins: list[Origin | None] = []
    for origin in second.instances.origins:
        middle = None if origin is None else first.instances.origins[origin.site]
        if origin is None or middle is None:
            origins.append(None)
            continue
        new = substitute_iterators(dict(enumerate(origin.iterators)))
        origins.append(Origin(middle.site, tuple(a.substitute(new) for a in middle.iterators)))
    return Rewrite(second.kernel, InstanceMap(tuple(origins)))
