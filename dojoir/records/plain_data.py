"""Frozen dataclasses as plain data and back, held to what they say, and the JSON schemas of them.

What is read may come from anywhere: an unknown field, a missing one, and a value of another type are refused with
the place where they stand.
"""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import json
import re
import sys
import tomllib
import types
import typing
from collections.abc import Mapping
from typing import Any, Literal, TypeVar

import dojoir

T = TypeVar("T")

_CONTROL = re.compile(r"[^\n\t -~\xa0-\ud7ff\ue000-\uffff\U00010000-\U0010ffff]")

DRAFT = "https://json-schema.org/draft/2020-12/schema"


def to_data(value: Any) -> Any:
    """A dataclass as plain data: what `json.dumps` takes."""
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return {field.name: to_data(getattr(value, field.name)) for field in dataclasses.fields(value)}
    if isinstance(value, Mapping):
        return {str(key): to_data(one) for key, one in value.items()}
    if isinstance(value, list | tuple):
        return [to_data(one) for one in value]
    return value


def to_text(value: Any) -> str:
    """The same as a text of JSON, with its end of line. Raises ValueError for a number that is none."""
    return json.dumps(to_data(value), indent=1, allow_nan=False) + "\n"


def from_text(kind: type[T], text: str, name: str) -> T:
    """Reads the output of `to_text`. Raises ArgumentError, `bad-record`, with the file and the field."""
    return from_data(kind, json_of(text, name), name)


def from_toml(kind: type[T], text: str, name: str) -> T:
    """Reads settings in TOML. Raises ArgumentError, `bad-record`, with the file and the field."""
    try:
        data = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise dojoir.ArgumentError(f"{name} is not TOML: {error}", "bad-record") from None
    return from_data(kind, data, name)


def json_of(text: str, name: str) -> Any:
    """The data of a text of JSON. Raises ArgumentError, `bad-record`, for what is none, and for numbers that are
    none."""
    try:
        return json.loads(text, parse_constant=lambda word: _refuse(name, f"{word} is no number"))
    except (ValueError, RecursionError):
        raise dojoir.ArgumentError(f"{name} is not JSON", "bad-record") from None


def from_data(kind: type[T], data: Any, name: str) -> T:
    """The dataclass of some plain data. Raises ArgumentError, `bad-record`, with the field."""
    found: T = _value_of(kind, data, name)
    return found


def of_version(kind: type[T], data: Any, name: str, known: int) -> T:
    """The dataclass of some plain data that say their version, up to the one that is `known`. Raises ArgumentError,
    `bad-record`, and `newer-record` for a later version."""
    number = data.get("version") if isinstance(data, dict) else None
    if type(number) is not int or number < 1:
        _refuse(name, "it does not say its version, so that it is no record")
    if number > known:
        message = f"{name} is of version {number}, and this dojoir reads up to {known}: update dojoir"
        raise dojoir.ArgumentError(message, "newer-record")
    return from_data(kind, data, name)


def _refuse(where: str, what: str) -> typing.NoReturn:
    raise dojoir.ArgumentError(f"{where}: {what}", "bad-record")


@functools.cache
def _field_types(kind: type) -> dict[str, Any]:
    return typing.get_type_hints(kind, include_extras=True)


def _value_of(kind: Any, data: Any, where: str) -> Any:
    """A value of a type. Raises ArgumentError."""
    if dataclasses.is_dataclass(kind) and isinstance(kind, type):
        return _fields(kind, data, where)
    origin, inner = typing.get_origin(kind), typing.get_args(kind)
    if origin is typing.Annotated:
        value = _value_of(inner[0], data, where)
        if not all(one.holds(value) for one in inner[1:]):
            _refuse(where, f"it is a number {inner[1]}, not {_shown(data)}")
        return value
    if origin in (typing.Union, types.UnionType):
        if data is None and type(None) in inner:
            return None
        *others, last = (one for one in inner if one is not type(None))
        for one in others:
            with contextlib.suppress(dojoir.ArgumentError):
                return _value_of(one, data, where)
        return _value_of(last, data, where)
    if origin is Literal:
        if type(data) is str and data in inner:
            return data
        _refuse(where, f"it is one of {', '.join(inner)}, not {_shown(data)}")
    if origin is tuple:
        if not isinstance(data, list | tuple):
            _refuse(where, f"it is a list, not {_shown(data)}")
        if inner[-1] is not ... and len(data) != len(inner):
            _refuse(where, f"it is a list of {len(inner)}, not {_shown(data)}")
        return tuple(_value_of(inner[0], one, f"{where}[{n}]") for n, one in enumerate(data))
    if origin is not None and issubclass(origin, Mapping):
        if not isinstance(data, dict):
            _refuse(where, f"it is an object, not {_shown(data)}")
        keys = [_value_of(str, key, f"{where}, a name") for key in data]
        return {key: _value_of(inner[1], data[key], f"{where}.{key[:40]}") for key in keys}
    if kind is Any:
        return spelled(data)
    if kind is float and type(data) in (int, float):
        if not abs(data) <= sys.float_info.max:
            _refuse(where, f"{_shown(data)} is no number")
        return float(data)
    if type(data) is str and _CONTROL.search(data):
        _refuse(where, "it has characters that control a terminal")
    if type(data) is not kind:
        words = {str: "a text", int: "a whole number", float: "a number", bool: "true or false"}
        _refuse(where, f"it is {words[kind]}, not {_shown(data)}")
    return data


def spelled(data: Any) -> Any:
    """Data of any kind, in whose texts the characters that control a terminal are spelled out."""
    match data:
        case str():
            return _CONTROL.sub(lambda found: ascii(found[0])[1:-1], data)
        case dict():
            return {spelled(key): spelled(one) for key, one in data.items()}
        case list():
            return [*map(spelled, data)]
    return data


def _fields(kind: type, data: Any, where: str) -> Any:
    if not isinstance(data, dict):
        _refuse(where, f"it is an object, not {_shown(data)}")
    declared, given = _field_types(kind), {}
    for field in dataclasses.fields(kind):
        if field.name in data:
            given[field.name] = _value_of(declared[field.name], data[field.name], f"{where}.{field.name}")
        elif _is_needed(field):
            _refuse(where, f"it has no field {field.name}")
    unknown = [str(key) for key in data if key not in declared]
    if unknown:
        _refuse(where, f"it has an unknown field {unknown[0][:40]}")
    return kind(**given)


def _is_needed(field: dataclasses.Field[Any]) -> bool:
    return field.default is dataclasses.MISSING and field.default_factory is dataclasses.MISSING


def _shown(data: Any) -> str:
    text = json.dumps(data, default=repr)
    return text if len(text) <= 40 else f"{text[:37]}..."


# -- schemas -------------------------------------------------------------------------------------------------
def schema(kind: type) -> dict[str, Any]:
    """The JSON schema of a dataclass."""
    found = {"$schema": DRAFT, "title": kind.__name__, **_schema(kind)}
    if kind.__doc__:
        found["description"] = " ".join(kind.__doc__.split())
    return found


def _schema(kind: Any) -> dict[str, Any]:
    if dataclasses.is_dataclass(kind) and isinstance(kind, type):
        declared, fields = _field_types(kind), dataclasses.fields(kind)
        return {
            "type": "object",
            "required": [field.name for field in fields if _is_needed(field)],
            "properties": {field.name: _schema(declared[field.name]) for field in fields},
            "additionalProperties": False,
        }
    origin, inner = typing.get_origin(kind), typing.get_args(kind)
    if origin is typing.Annotated:
        return _schema(inner[0])
    if origin in (typing.Union, types.UnionType):
        kinds = [_schema(one) for one in inner if one is not type(None)]
        return {"anyOf": [*kinds, {"type": "null"}] if type(None) in inner else kinds}
    if origin is Literal:
        return {"enum": list(inner)}
    if origin is tuple:
        return {"type": "array", "items": _schema(inner[0])}
    if origin is not None and issubclass(origin, Mapping):
        return {"type": "object", "additionalProperties": _schema(inner[1])}
    if kind is Any:
        return {}
    return {"type": {str: "string", int: "integer", float: "number", bool: "boolean"}[kind]}
