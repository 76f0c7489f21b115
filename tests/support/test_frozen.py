"""Frozen classes that are made without compiling: what they can do is what the standard library's can."""

from __future__ import annotations

import copy
import dataclasses
import inspect
import pickle
from typing import Any, ClassVar

import pytest

from dojoir.support import frozen

NAN = float("nan")


class Plain:
    x: int
    y: str = "y"


class Empty:
    pass


class One:
    x: object


class Special:
    x: int
    label: str | None = dataclasses.field(default=None, compare=False, repr=False)
    hidden: int = dataclasses.field(default=3, hash=False)
    tail: tuple[int, ...] = dataclasses.field(default=(), kw_only=True)
    kind: ClassVar[str] = "a constant"

    def __post_init__(self) -> None:
        object.__setattr__(self, "tail", tuple(sorted(self.tail)))


class Own:
    x: int

    def __repr__(self) -> str:
        return "own"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Own)

    def __hash__(self) -> int:
        return 1


class Equal:
    x: int

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Equal)


def pairs(given: type, **options: bool) -> tuple[Any, Any]:
    """The same class as a dataclass, made here and by the standard library."""

    def again() -> type:
        body = {
            name: copy.copy(value) for name, value in vars(given).items() if name not in {"__dict__", "__weakref__"}
        }
        return type(given.__name__, given.__bases__, body)

    return frozen.dataclass(frozen=True, **options)(again()), dataclasses.dataclass(frozen=True, **options)(again())


def outcome(call: Any, *arguments: Any, **named: Any) -> Any:
    """What a call gives, or how it fails."""
    try:
        return call(*arguments, **named)
    except Exception as error:  # any failure is an outcome to compare
        return type(error), str(error)


CALLS: tuple[tuple[tuple[Any, ...], dict[str, Any]], ...] = (
    ((), {}), ((1,), {}), ((1, "z"), {}), ((1,), {"y": "w"}), ((), {"x": 5}),
    ((1, 2, 3, 4, 5), {}), ((1,), {"no": 1}),
    ((1, "l", 4), {"tail": (3, 1)}), ((NAN,), {}), (([],), {}),
)  # fmt: skip


@pytest.mark.parametrize("given", [Plain, Empty, One, Special, Own, Equal])
@pytest.mark.parametrize("equal", [True, False])
def test_a_class_does_what_the_standard_one_does(given: type, equal: bool) -> None:
    ours, theirs = pairs(given, eq=equal)
    made = []
    for arguments, named in CALLS:
        mine, other = outcome(ours, *arguments, **named), outcome(theirs, *arguments, **named)
        assert isinstance(mine, tuple) == isinstance(other, tuple), (mine, other)
        if isinstance(mine, tuple):
            assert mine == other
            continue
        made.append((mine, other))
        assert dataclasses.is_dataclass(mine)
        if "__repr__" in vars(given) or dataclasses.fields(mine):
            assert repr(mine).replace("pairs.<locals>.again.", "") == repr(other)
        assert dataclasses.asdict(mine).keys() == dataclasses.asdict(other).keys()
        if equal:
            assert outcome(hash, mine) == outcome(hash, other)
        for name in ("x", "label", "fresh"):
            assert outcome(setattr, mine, name, 1) == outcome(setattr, other, name, 1)
            assert outcome(delattr, mine, name) == outcome(delattr, other, name)
    for mine, other in made:
        assert [mine == one for one, _ in made] == [other == one for _, one in made]
    assert ours.__match_args__ == theirs.__match_args__
    assert inspect.signature(ours) == inspect.signature(theirs)
    assert (ours.__hash__ is None) == (theirs.__hash__ is None)
    for mine, other in zip(dataclasses.fields(ours), dataclasses.fields(theirs), strict=True):
        assert repr(mine) == repr(other)


@frozen.dataclass(frozen=True)
class Base:
    """To be pickled, matched, replaced and inherited from."""

    x: int
    y: tuple[int, ...] = ()


@frozen.dataclass(frozen=True)
class Derived(Base):
    z: str = "z"


@frozen.hash_once
@frozen.dataclass(frozen=True)
class Hashed:
    x: object


def test_replace_pickle_copy_and_match() -> None:
    value = Derived(1, (2, 3), "w")
    assert dataclasses.replace(value, z="v") == Derived(1, (2, 3), "v")
    assert pickle.loads(pickle.dumps(value)) == value == copy.deepcopy(value)
    assert Base(1, (2, 3)) != value
    match value:
        case Derived(x, y, z):
            assert (x, y, z) == (1, (2, 3), "w")
    hashed = Hashed("text")
    hash(hashed)
    assert "_hash" not in pickle.loads(pickle.dumps(hashed)).__dict__
    with pytest.raises(dataclasses.FrozenInstanceError, match="cannot assign to field 'x'"):
        value.x = 3


def test_what_is_not_plain_is_left_to_the_standard_library() -> None:
    class Factory:
        parts: list[int] = dataclasses.field(default_factory=list)

    class Late:
        x: int = 1
        y: int

    class Mutable:
        parts: list[int] = []  # noqa: RUF012 (refused, which is what is tested)

    made = frozen.dataclass(frozen=True)(Factory)
    assert made().parts == [] and made().parts is not made().parts
    with pytest.raises(TypeError, match="non-default argument"):
        frozen.dataclass(frozen=True)(Late)
    with pytest.raises(ValueError, match="mutable default"):
        frozen.dataclass(frozen=True)(Mutable)
