"""The definition of a move: a rewrite with a place and parameters, and an instance map. It holds no proof."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import fields, replace
from functools import cache, wraps
from itertools import chain, count
from types import MappingProxyType
from typing import Any, ClassVar, NewType, TypeVar, get_type_hints

from dojoir.backends.machine import Machine
from dojoir.errors import ArgumentError, DojoError, KernelError, repr_of
from dojoir.grammar import parse_affine, parse_conditions, parse_extent, parse_index
from dojoir.ir.affine import Affine, Iter
from dojoir.ir.nodes import (
    Condition,
    Extent,
    Kernel,
    Path,
    Replace,
    Scope,
    format_path,
    given_kernel,
    substitute_iterators,
)
from dojoir.ir.places import numbers_inside
from dojoir.ir.words import name_error
from dojoir.passes.base.alternatives import Alternative, after_joins, inner_scope
from dojoir.passes.base.forward import forward
from dojoir.passes.base.reach import Reach
from dojoir.passes.base.space import worth_trying
from dojoir.proof.check import InstanceMap, Origin, identity
from dojoir.proof.verdict import Verdict
from dojoir.support.derived import once_for_each
from dojoir.support.frozen import dataclass, hash_once
from dojoir.types.elaborate import check

R = TypeVar("R")

Place = NewType("Place", str)
"""A path such as `0.1`, or a label such as `@j`."""

BufferName = NewType("BufferName", str)
"""The name of a buffer of the kernel."""

Word = NewType("Word", str)
"""One of a few words, such as a storage class."""


def _given_machine(value: object) -> None:
    """Raises ArgumentError where what a caller gave for a machine is none."""
    if not isinstance(value, Machine):
        message = f"a space is for a Machine, such as dojoir.machine_for('llvm'), not {repr_of(value)}"
        raise ArgumentError(message, "bad-arguments")


def _of_a_kernel(method: Any) -> Any:
    """A method of a family, which is told by name where its first argument is no kernel."""
    inner = method.__func__ if isinstance(method, classmethod | staticmethod) else method
    at = 0 if isinstance(method, staticmethod) else 1

    @wraps(inner)
    def checked(*args: Any, **named: Any) -> Any:
        if len(args) > at and not isinstance(args[at], Kernel):
            given_kernel(args[at])
        return inner(*args, **named)

    return type(method)(checked) if inner is not method else checked


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

    def _value_by(self, parse: Callable[[str, Kernel, int], R], kernel: Kernel, depth: int) -> R:
        try:
            return parse(self.text, kernel, depth)
        except DojoError as error:
            raise Refusal("bad-formula", error.diagnostic.message) from None

    def affine(self, kernel: Kernel, depth: int) -> Affine:
        """Its value in the sizes of the kernel and the iterators of `depth` scopes. Raises Refusal."""
        return self._value_by(parse_affine, kernel, depth)

    def index(self, kernel: Kernel, depth: int) -> Affine:
        """As `affine`, of an index: there may be a `min` or a `max` in it. Raises Refusal."""
        return self._value_by(parse_index, kernel, depth)

    def extent(self, kernel: Kernel, depth: int) -> Extent:
        """As `affine`, of an extent: it may be a `min` of several. Raises Refusal."""
        return self._value_by(parse_extent, kernel, depth)


@hash_once
@dataclass(frozen=True)
class Rewrite:
    """The kernel after a move, and which old statement instance each new one stands for."""

    kernel: Kernel
    instances: InstanceMap

    def forward(self, before: Kernel, path: Path) -> tuple[Path, ...]:
        """Where the node at `path` of the kernel before is now: nowhere, or in several places
        (`dojoir.passes.base.forward`). Each is found once: a schedule asks again after every move."""
        return _forward_of(self)(before, path)


@once_for_each
def _forward_of(done: Rewrite) -> Callable[[Kernel, Path], tuple[Path, ...]]:
    """Where a rewrite leaves nodes, with what was found so far."""
    return cache(lambda before, path: forward(before, done.kernel, done.instances, path))


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
    reach: ClassVar[Reach] = Reach.KERNEL
    """The part of a kernel that decides whether such a move is legal: the whole kernel, unless a family claims
    less."""

    def __init_subclass__(cls, **said: object) -> None:
        """Takes what the line of a class says of the family, `class Split(AboutScope, name="split", reach=…)`, for
        its attributes. Whatever a family does with a kernel begins with the question whether it is one."""
        super().__init_subclass__()
        declared = {name for base in cls.__mro__ for name in vars(base).get("__annotations__", ())}
        for name, value in said.items():
            if name not in declared:
                raise TypeError(f"the line of {cls.__name__} says {name}, which a move has not: name, reach")
            setattr(cls, name, value)
        for name in (
            "rewrite", "inverse", "candidates", "with_numbers", "further", "alternatives",
            "things", "thing", "found", "named",
        ):  # fmt: skip
            if name in vars(cls):
                setattr(cls, name, _of_a_kernel(vars(cls)[name]))
        if "__repr__" not in vars(cls):  # a dataclass gives each family one of its own otherwise
            type.__setattr__(cls, "__repr__", Move.__repr__)

    def __repr__(self) -> str:
        """A move is shown as it is typed."""
        return str(self)

    def _repr_html_(self) -> str:
        """The move as it is typed, and what its family does."""
        from dojoir.ir.html import move_html

        return move_html(str(self), " ".join((type(self).__doc__ or "").partition("\n\n")[0].split()))

    @abstractmethod
    def rewrite(self, kernel: Kernel) -> Rewrite:
        """The kernel after the move. Raises Refusal where the tree does not allow it, ArgumentError for a place
        or buffer that does not exist."""

    @classmethod
    def candidates(cls, kernel: Kernel) -> Iterator[Move]:
        """Every way to write this move on the kernel that the shape of the tree allows, legal or not, in the
        order of the text. None, where what to write is for the user to say."""
        return iter(())

    @classmethod
    def with_numbers(cls, kernel: Kernel, place: Path | str, numbers: Sequence[int]) -> Iterator[Move]:
        """The moves of this family at a node (its path) or on a buffer (its name) that have `numbers` for
        parameters, as far as the tree allows it. None, where a family has no such parameter."""
        return iter(())

    @classmethod
    def space(cls, kernel: Kernel, place: str | Path, machine: Machine) -> Iterator[Move]:
        """Every move of this family at a place, or on a buffer, that is worth trying on a machine, legal or not:
        parameters are data, made from extents and the machine. Those of `candidates` come first, and none comes
        twice. Raises ArgumentError for a place that is neither a node nor a buffer."""
        given_kernel(kernel)
        _given_machine(machine)
        at = place_or_buffer(kernel, place)
        numbers = worth_trying(kernel, at, machine)
        seen: set[Move] = set()
        for move in chain(
            (move for move in cls.candidates(kernel) if move.anchor(kernel) == at),
            cls.with_numbers(kernel, at, numbers),
            cls._further(kernel, at, machine),
        ):
            if move not in seen:
                seen.add(move)
                yield move

    @classmethod
    def _further(cls, kernel: Kernel, place: Path | str, machine: Machine) -> Iterator[Move]:
        """The moves in the `space` of this family beyond the listed ones and those with numbers."""
        return iter(())

    def anchor(self, kernel: Kernel) -> Path | str | None:
        """Where the move is: the path of its first place, or the first buffer that it names, whichever comes first
        among its arguments; None where it has neither. Raises ArgumentError for a place that does not exist."""
        given_kernel(kernel)
        for name, kind in self.parameters().items():
            value = getattr(self, name)
            if kind is BufferName:
                return str(value)
            if kind is Place or (kind == tuple[Place, ...] and value):
                return kernel.path(value if kind is Place else value[0])
        return None

    def reach_in(self, kernel: Kernel) -> Reach:
        """The `reach` of this very move on a kernel, where that of its family depends on more."""
        return self.reach

    def like(self, kernel: Kernel) -> Move:
        """A move at the same places and buffers that is legal if this one is, and this one if that one is, where a
        pattern shows it. Itself, unless a family has numbers at which no pattern looks."""
        return self

    def followers(self) -> int:
        """How many nodes after the one at its place the move looks at besides, where it stands in the kernel."""
        return 0

    def alternatives(self, kernel: Kernel, verdict: Verdict) -> Iterator[Alternative]:
        """The alternatives where this move was refused with `verdict`, the nearest first; each is checked before
        it is shown. Unless a move knows better: the move itself after scopes are fused."""
        given_kernel(kernel)
        return after_joins(kernel, str(self))

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


def place_or_buffer(kernel: Kernel, place: str | Path) -> Path | str:
    """The path of a node, or the name of a buffer. Raises ArgumentError for what is neither."""
    if isinstance(place, str) and place in kernel.declared:
        return place
    return kernel.path(place)


def anchors(kernel: Kernel) -> Iterator[Path | str]:
    """Where a move can be: every node, in the order of the text, then every buffer."""
    yield from (path for path, _ in kernel.walk())
    yield from (buffer.name for buffer in kernel.buffers)


class Undoing(Move):
    """A move that takes another one back. It finds the kernel from which that other move leads to this one, to the
    letter; that the two mean the same is then what the checker proves of the other move."""

    @abstractmethod
    def undone(self, kernel: Kernel) -> tuple[Kernel, Move]:
        """The kernel before, and the move that leads from there to this one. Raises Refusal where the tree has
        another form."""

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
    child = inner_scope(scope)
    if child is None:
        count = len(scope.body)
        has = f"{count} children" if count != 1 else f"a {type(scope.body[0]).__name__.lower()}"
        message = f"the scope must have one child, a scope; it has {has}"
        raise Refusal("not-nested", message, path, "split_scopes or join_scopes can make the nest perfect")
    return child


def scopes(kernel: Kernel) -> Iterator[tuple[Path, Scope]]:
    """Every scope with its path, in the order of the text."""
    for path, node in kernel.walk():
        if isinstance(node, Scope):
            yield path, node


def fresh_label(kernel: Kernel, wanted: str) -> str:
    """The label, with a number after it if the kernel has it already."""
    used = {scope.label for _, scope in scopes(kernel)}
    numbered = (f"{wanted}{n}" for n in count(2))
    return wanted if wanted not in used else next(label for label in numbered if label not in used)


def fresh_name(kernel: Kernel, wanted: str, others: Iterable[str] = ()) -> str:
    """The name, with a number after it if a buffer or size of the kernel has it, or it is among `others`."""
    used = {buffer.name for buffer in kernel.buffers} | {size.name for size in kernel.sizes} | {*others}
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
    inside, origins = numbers_inside(kernel, path), identity(kernel).origins
    if not inside:
        return identity(kernel)
    return InstanceMap((*origins[: inside[0]], *moved(kernel, inside, new), *origins[inside[-1] + 1 :]))


def moved(kernel: Kernel, numbers: Iterable[int], new: Replace) -> list[Origin]:
    """The entries that say of new statements that each is one of these old ones, whose iterators `new` gives in
    terms of the new ones."""
    return [Origin(k, tuple(new(Iter(d)) for d in range(len(kernel.sites[k].scopes)))) for k in numbers]


def then(first: Rewrite, second: Rewrite) -> Rewrite:
    """Two rewrites without substitutions, one after the other, as one."""
    origins: list[Origin | None] = []
    for origin in second.instances.origins:
        middle = None if origin is None else first.instances.origins[origin.site]
        if origin is not None and middle is not None:
            new = substitute_iterators(dict(enumerate(origin.iterators)))
            middle = Origin(middle.site, tuple(a.substitute(new) for a in middle.iterators))
        origins.append(middle)
    return Rewrite(second.kernel, InstanceMap(tuple(origins)))
