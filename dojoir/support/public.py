"""The wall of the public calls: what a caller gives is held against the annotations before anything else is done.

A wrong argument is told by name, with what it should be, before it comes to a line that would fail in Python's own
words. Values that only mean the same come out in their plain form: an integer of NumPy as an int, a path as text, a
sequence as a tuple, a mapping as a dict. What a value must be beyond its type is the function's own to check.
"""

from __future__ import annotations

import collections.abc
import inspect
import math
import operator
import os
import sys
import types
import typing
from collections.abc import Callable, Mapping, Sequence
from functools import wraps
from typing import Any, ParamSpec, TypeVar, cast

from dojoir.errors import ArgumentError, did_you_mean, repr_of
from dojoir.support.frozen import dataclass

P = ParamSpec("P")
R = TypeVar("R")

C = TypeVar("C", bound=type)

Check = Callable[[Any], Any]
"""Gives a value in its plain form, or raises _Wrong."""

LONGEST = 1 << 20
"""How many elements a sequence or mapping of arguments may have."""

_CURES = {
    "Kernel": "; a text becomes one by dojoir.parse, a name of the library by dojoir.kernels.load",
    "Trace": "; dojoir.Trace(kernel) is one without moves",
    "Machine": "; dojoir.machine_for(target) gives one",
    "list or tuple of traces": "; dojoir.Trace(kernel) is one without moves",
    "Pass": "; dojoir.PASSES has those that come with dojoir",
}


_IN_WORDS = {"Scheduled": "trace", "Traced": "Trace", "Versioned": "Versions"}
"""The common names of types that a user need not know."""


class _Wrong(Exception):
    """A value is not what is annotated."""


@dataclass(frozen=True)
class Within:
    """The bounds of a number, for an annotation: `Annotated[int, Within(1)]`. From `least`, or `above` that, to
    `most`; infinity is in none, nor what is no number."""

    least: float = 0
    most: float = math.inf
    above: bool = False

    def holds(self, value: float) -> bool:
        """Whether a number is within."""
        return (
            math.isfinite(value) and self.least <= value <= self.most and not (self.above and value == self.least)
        )

    def __str__(self) -> str:
        most = f" to {self.most:g}" if self.most < math.inf else ""
        return f"{'above' if self.above else 'from'} {self.least:g}{most}"


Natural = typing.Annotated[int, Within()]
Count = typing.Annotated[int, Within(1)]
Seed = typing.Annotated[int, Within(0, (1 << 63) - 1)]
Amount = typing.Annotated[float, Within()]
Seconds = typing.Annotated[float, Within(above=True, most=1e9)]
Share = typing.Annotated[float, Within(0, 1)]


def public(function: Callable[P, R]) -> Callable[P, R]:
    """The function, with each argument held against its annotation. Raises ArgumentError, `bad-arguments`, or
    `not-a-kernel` for what should be a kernel or some of them."""
    return _walled(function, {})


def public_with(**codes: str) -> Callable[[Callable[P, R]], Callable[P, R]]:
    """As `public`, with the code of the error for a wrong argument of these names: codes are stable, and these are
    of their own kind."""
    return lambda function: _walled(function, codes)


def _walled(function: Callable[P, R], codes: Mapping[str, str]) -> Callable[P, R]:
    try:
        signature = inspect.signature(function)
    except Exception:
        message = f"this holds a function to its annotations, not {repr_of(function)}"
        raise ArgumentError(message, "bad-arguments") from None
    checks: dict[str, tuple[Check, str] | None] = {}
    names = [
        p.name for p in signature.parameters.values() if p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD)
    ]
    rest = next((p.name for p in signature.parameters.values() if p.kind is p.VAR_POSITIONAL), None)
    others = next((p.name for p in signature.parameters.values() if p.kind is p.VAR_KEYWORD), None)
    is_known: list[bool] = []
    called = str(getattr(function, "__name__", type(function).__name__))
    if called == "__init__":
        called = function.__qualname__.split(".")[-2]

    def held(name: str, shown: str, value: object) -> Any:
        if name not in checks:  # what is left out asks for no room of dojoir that its annotation names
            parameter = signature.parameters.get(name)
            checks.update(_checks(function, [parameter] if parameter is not None else []))
            checks.setdefault(name, None)
        found = checks[name]
        if found is None:
            return value
        try:
            return found[0](value)
        except _Wrong:
            if name == others == "sizes":
                return value  # what takes sizes by name says itself which are wrong, and of what kernel
            raise _wrong_argument(called, shown, found[1], value, codes.get(name)) from None

    @wraps(function)
    def checked(*args: P.args, **named: P.kwargs) -> R:
        if not is_known:
            checks.update(_checks(function, [p for p in signature.parameters.values() if p.name == others]))
            is_known.append(True)
        values: list[Any] = [
            held(names[n], names[n], value) if n < len(names) else held(rest, rest, value) if rest else value
            for n, value in enumerate(args)
        ]
        if others is None and not named.keys() <= signature.parameters.keys():
            raise _unknown_keyword(
                called, next(name for name in named if name not in signature.parameters), signature
            )
        given: dict[str, Any] = {
            name: held(name if name in signature.parameters else _of_others(others, name, checks), name, value)
            for name, value in named.items()
        }
        return function(*values, **given)

    return checked


def public_class(cls: C) -> C:
    """The class, whose constructor holds what it is given like a public function."""
    made: Any = cls
    made.__init__ = public(made.__init__)
    return cast(C, made)


def unresolved(function: Callable[..., object]) -> list[str]:
    """The parameters of a function whose annotation cannot be looked up."""
    inner = inspect.unwrap(function)
    return [
        p.name
        for p in inspect.signature(inner).parameters.values()
        if p.annotation is not p.empty and _annotation(inner, p.annotation) is None
    ]


def _of_others(others: str | None, name: str, checks: Mapping[str, object]) -> str:
    """Under which name the check of a keyword stands that is not among the parameters."""
    own = f"**{name}"
    return own if own in checks else others or name


def _unknown_keyword(function: str, name: str, signature: inspect.Signature) -> ArgumentError:
    """The error for an argument that a function does not have: a size is one that `sizes` holds."""
    known = list(signature.parameters)
    hint = did_you_mean(name, known)
    if not hint and "sizes" in known:
        hint = f"; sizes are given as sizes={{'{name}': …}}"
    return ArgumentError(
        f"{function.strip('_')} has no argument '{name}'{hint or f'; it has {chr(44).join(known)}'}",
        "bad-arguments",
    )


def _wrong_argument(function: str, name: str, expected: str, value: object, code: str | None) -> ArgumentError:
    kernel = expected.removeprefix("a list or tuple of ").startswith(("a Kernel", "Kernels"))
    cure = next((cure for word, cure in _CURES.items() if expected.startswith(f"a {word}")), "")
    message = f"{function.strip('_')}: {name} is {expected}, not {repr_of(value)}{cure}"
    return ArgumentError(message, code or ("not-a-kernel" if kernel else "bad-arguments"))


def _checks(
    function: Callable[..., object], parameters: Sequence[inspect.Parameter]
) -> dict[str, tuple[Check, str]]:
    found: dict[str, tuple[Check, str]] = {}
    for parameter in parameters:
        if parameter.annotation is parameter.empty:
            continue
        kind = _annotation(function, parameter.annotation)
        if typing.get_origin(kind) is typing.Unpack:
            (table,) = typing.get_args(kind)
            found |= {f"**{key}": (_check(inner), _words(inner)) for key, inner in _fields(table).items()}
        elif kind is not None:
            found[parameter.name] = _check(kind), _words(kind)
    return found


def _fields(table: Any) -> dict[str, Any]:
    return typing.get_type_hints(table)


def _annotation(function: Callable[..., object], text: object) -> Any:
    """The type of an annotation, or None where a name in it is not there when the program runs."""
    if not isinstance(text, str):
        return text
    space = dict(vars(typing)) | vars(collections.abc) | {"os": os}
    space |= getattr(function, "__globals__", {}) | vars(sys.modules.get(function.__module__, typing))
    for _ in range(8):
        try:
            return eval(text, space)
        except NameError as error:
            name = str(error.name)
            value = getattr(sys.modules.get("dojoir"), name, None)
            if value is None or name in space:
                return None
            space[name] = value
        except TypeError:
            return None
    return None


def _anything(value: Any) -> Any:
    return value


def _flag(value: Any) -> Any:
    if isinstance(value, bool):
        return value
    raise _Wrong


def _whole(value: Any) -> int:
    if isinstance(value, bool):
        raise _Wrong
    try:
        return int(operator.index(value))
    except Exception:
        raise _Wrong from None


def _real(value: Any) -> float:
    if isinstance(value, bool | str | bytes) or not hasattr(type(value), "__float__"):
        raise _Wrong
    try:
        if getattr(value, "ndim", 0):
            raise _Wrong
        return float(value)
    except Exception:
        raise _Wrong from None


def _text(value: Any) -> str:
    if isinstance(value, str):
        return value if type(value) is str else str.__str__(value)
    raise _Wrong


def _path_in_words(value: Any) -> str:
    try:
        name = os.fspath(value)
    except Exception:
        raise _Wrong from None
    return _text(name)


def _called(value: Any) -> Any:
    if callable(value):
        return value
    raise _Wrong


def _check(kind: Any) -> Check:
    """How a value of a type is told and made plain."""
    simple: dict[Any, Check] = {
        bool: _flag, int: _whole, float: _real, str: _text, Any: _anything, object: _anything, None: _nothing,
        type(None): _nothing,
    }  # fmt: skip
    try:
        if kind in simple:
            return simple[kind]
    except TypeError:
        pass
    origin, inner = typing.get_origin(kind), typing.get_args(kind)
    if origin in (typing.Union, types.UnionType):
        return _any_of([_check(one) for one in sorted(inner, key=lambda one: one is float)])  # an int stays one
    if origin is typing.Literal:
        return _one_of(inner)
    if origin is collections.abc.Callable or kind is collections.abc.Callable:
        return _called
    if origin is os.PathLike:
        return _path_in_words
    if origin is tuple:
        return _tuple([_check(one) for one in inner if one is not ...], endless=inner[-1:] == (...,))
    if isinstance(origin, type) and issubclass(origin, collections.abc.Mapping | dict):
        return _mapping(_check(inner[0]), _check(inner[1]))
    if isinstance(origin, type) and issubclass(origin, collections.abc.Set):
        return _instance(origin)
    if isinstance(origin, type) and issubclass(origin, collections.abc.Collection | list):
        return _several(_check(inner[0]), origin)
    if origin is not None and origin is collections.abc.Iterable:
        return _several(_check(inner[0]), collections.abc.Collection)
    if origin is typing.Annotated:
        return _within(_check(inner[0]), [one for one in inner[1:] if isinstance(one, Within)])
    what = origin if isinstance(origin, type) else kind
    if getattr(what, "_is_protocol", False):
        return _alike(what)
    return _instance(what) if isinstance(what, type) else _anything


def _nothing(value: Any) -> None:
    if value is not None:
        raise _Wrong


def _within(inner: Check, bounds: list[Within]) -> Check:
    def check(value: Any) -> Any:
        found = inner(value)
        if all(one.holds(found) for one in bounds):
            return found
        raise _Wrong

    return check


def _any_of(checks: list[Check]) -> Check:
    def check(value: Any) -> Any:
        for one in checks:
            try:
                return one(value)
            except _Wrong:
                continue
        raise _Wrong

    return check


def _one_of(values: tuple[object, ...]) -> Check:
    def check(value: Any) -> Any:
        for one in values:
            if type(value) is type(one) and value == one:
                return one
        raise _Wrong

    return check


def _instance(kind: type) -> Check:
    def check(value: Any) -> Any:
        if isinstance(value, kind):
            return value
        raise _Wrong

    return check


def _alike(protocol: Any) -> Check:
    """A value that has what a protocol names."""
    names = [name for base in protocol.__mro__ for name in vars(base) if not name.startswith("_")]
    names += [name for name in getattr(protocol, "__annotations__", {}) if not name.startswith("_")]

    def check(value: Any) -> Any:
        try:
            has_all = not isinstance(value, type) and all(hasattr(value, name) for name in names)
        except Exception:
            raise _Wrong from None
        if has_all:
            return value
        raise _Wrong

    return check


def _elements(value: Any, kinds: Any) -> tuple[Any, ...]:
    if isinstance(value, str | bytes | bytearray | memoryview) or not isinstance(value, kinds):
        raise _Wrong
    try:
        if len(value) > LONGEST:
            raise _Wrong
        return tuple(value)
    except Exception:
        raise _Wrong from None


def _tuple(checks: list[Check], endless: bool) -> Check:
    def check(value: Any) -> Any:
        found = _elements(value, tuple | list)
        if endless:
            return tuple(checks[0](one) for one in found)
        if len(found) != len(checks):
            raise _Wrong
        return tuple(one(part) for one, part in zip(checks, found, strict=True))

    return check


def _several(element: Check, kinds: Any) -> Check:
    def check(value: Any) -> Any:
        return tuple(element(one) for one in _elements(value, kinds))

    return check


def _mapping(key: Check, element: Check) -> Check:
    def check(value: Any) -> Any:
        if not isinstance(value, Mapping):
            raise _Wrong
        try:
            items = list(value.items()) if len(value) <= LONGEST else None
        except Exception:
            raise _Wrong from None
        if items is None:
            raise _Wrong
        return {key(name): element(part) for name, part in items}

    return check


def _words(kind: Any) -> str:
    """A type in words, for `sizes is …, not 3`."""
    simple: dict[Any, str] = {
        bool: "True or False",
        int: "an integer",
        float: "a number",
        str: "a text",
        None: "None",
        type(None): "None",
    }
    try:
        if kind in simple:
            return simple[kind]
    except TypeError:
        pass
    origin, inner = typing.get_origin(kind), typing.get_args(kind)
    if origin in (typing.Union, types.UnionType):
        *most, last = dict.fromkeys(_words(one) for one in inner)
        return f"{', '.join(most)} or {last}" if most else last
    if origin is typing.Literal:
        return " or ".join(map(repr, inner))
    if origin is typing.Annotated:
        return f"{'a whole number' if inner[0] is int else _words(inner[0])} {' '.join(map(str, inner[1:]))}"
    if origin is os.PathLike:
        return "a path"
    if origin is collections.abc.Callable or kind is collections.abc.Callable:
        return "a function"
    if isinstance(origin, type) and issubclass(origin, collections.abc.Mapping | dict):
        return f"a dict of {_plural(inner[0])} to {_plural(inner[1])}"
    if isinstance(origin, type) and issubclass(origin, collections.abc.Iterable):
        return f"a list or tuple of {_plural(inner[0])}"
    name = getattr(origin or kind, "__name__", str(kind))
    name = _IN_WORDS.get(name, name)
    return f"{'an' if name[0] in 'AEIOU' else 'a'} {name}"


def _plural(kind: Any) -> str:
    plain = {int: "integers", float: "numbers", str: "texts", object: "values"}
    if typing.get_origin(kind) is typing.Annotated:
        base, *bounds = typing.get_args(kind)
        return f"{_plural(base)} {' '.join(map(str, bounds))}"
    word = _words(kind)
    if word.startswith("a dict of "):
        return word.replace("a dict", "dicts", 1)
    return plain.get(kind) or (
        f"{word.partition(' ')[2]}s" if word.startswith(("a ", "an ")) and " or " not in word else word
    )
