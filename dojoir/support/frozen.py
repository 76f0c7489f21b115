"""Frozen data: dataclasses that are made without compiling their methods, and hashes that are computed once a node.

`dataclass` stands for the one of the standard library, which writes the text of six methods for each class and
compiles it. For some 300 classes that was a quarter of the time until a first result. Here a method is compiled
once for each number of fields, and takes their names from its class. What an object can do, and what `fields`,
`replace` and `asdict` of the standard library make of it, is the same.
"""

from __future__ import annotations

import dataclasses
import inspect
from collections.abc import Callable
from functools import cache
from types import CodeType, FunctionType
from typing import TYPE_CHECKING, Any, TypeVar

T = TypeVar("T")

Fields = dict[str, "dataclasses.Field[Any]"]

_KEY = "_hash"
_FIELDS = "__dataclass_fields__"
_PARAMS = "__dataclass_params__"
_KIND = "_field_type"

if TYPE_CHECKING:
    from dataclasses import dataclass as dataclass
else:

    def dataclass(cls: type | None = None, /, **options: bool) -> Any:
        """As `dataclasses.dataclass`. Frozen classes with plain fields are made here; those with other
        options, with factories or with fields that are no arguments are made there."""

        def made(given: type) -> type:
            if options.get("frozen") and not options.keys() - {"frozen", "eq"}:
                fields = _plain_fields(given)
                if fields is not None:
                    return _frozen_class(given, fields, options.get("eq", True))
            return dataclasses.dataclass(**options)(given)

        return made if cls is None else made(cls)


@dataclasses.dataclass(frozen=True)
class _Sample:
    """The attributes that the standard library sets on a frozen class, to set the same on others."""

    field: int


_ORDINARY = getattr(getattr(_Sample, _FIELDS)["field"], _KIND)


def _plain_fields(cls: type) -> Fields | None:
    """The fields of a class, those of its bases first; None where one is not plain, or they are in no order that
    there can be."""
    found: Fields = {}
    for base in cls.__mro__[-1:0:-1]:
        found.update(getattr(base, _FIELDS, {}))
    for name, kind in inspect.get_annotations(cls).items():
        if not isinstance(kind, str) or any(word in kind for word in ("InitVar", "KW_ONLY")):
            return None
        if kind.startswith("ClassVar["):
            continue
        default = cls.__dict__.get(name, dataclasses.MISSING)
        field = default if isinstance(default, dataclasses.Field) else dataclasses.field(default=default)
        field.name, field.type, field.kw_only = name, kind, field.kw_only is True
        setattr(field, _KIND, _ORDINARY)
        found[name] = field
    optional = [_has_default(field) for field in found.values() if not field.kw_only]
    plain = all(map(_is_plain, found.values())) and optional == sorted(optional)
    return found if plain else None


def _has_default(field: dataclasses.Field[Any]) -> bool:
    return field.default is not dataclasses.MISSING


def _is_plain(field: dataclasses.Field[Any]) -> bool:
    mutable = field.default.__class__.__hash__ is None  # refused by the standard library
    return field.init and field.default_factory is dataclasses.MISSING and not mutable


def _frozen_class(cls: type[T], fields: Fields, equal: bool) -> type[T]:
    """`cls` with the methods of a frozen dataclass, but those that it has itself."""
    own = dict(cls.__dict__)
    for name, field in fields.items():
        if isinstance(own.get(name), dataclasses.Field):
            if _has_default(field):
                setattr(cls, name, field.default)
            else:
                delattr(cls, name)
    in_order = tuple(name for name, field in fields.items() if not field.kw_only)
    shown = tuple(name for name, field in fields.items() if field.repr)
    methods: dict[str, object] = {
        _FIELDS: fields,
        _PARAMS: getattr(_Sample, _PARAMS),
        "__match_args__": in_order,
        "__init__": _init(cls, fields),
        "__repr__": _repr(shown),
    }
    if equal:
        compared = [name for name, field in fields.items() if field.compare]
        hashed = [name for name, field in fields.items() if (field.compare if field.hash is None else field.hash)]
        methods["__eq__"] = _of_fields(cls, _equal_template(len(compared)), compared)
        if own.get("__hash__") is None:  # as Python leaves it in a class that has an `__eq__`
            own.pop("__hash__", None)
            methods["__hash__"] = _of_fields(cls, _hash_template(len(hashed)), hashed)
    for name, method in methods.items():
        if name not in own:
            setattr(cls, name, method)
    _freeze(cls, frozenset(fields))
    return cls


# -- methods -------------------------------------------------------------------------------------------------
_SPACE = {"set_field": object.__setattr__}


@cache
def _template(count: int, last: bool) -> CodeType:
    """`__init__` of `count` fields `_0`, `_1`, …, and of one that ends with a `__post_init__`."""
    names = [f"_{i}" for i in range(count)]
    body = [*(f"set_field(self, {name!r}, {name})" for name in names), *(["self.__post_init__()"] if last else [])]
    space: dict[str, FunctionType] = {}
    exec(f"def __init__(self, {', '.join(names)}): {'; '.join(body) or 'pass'}", {}, space)
    return space["__init__"].__code__


def _init(cls: type, fields: Fields) -> FunctionType:
    in_order = [field for field in fields.values() if not field.kw_only]
    named = [field for field in fields.values() if field.kw_only]
    names = [field.name for field in (*in_order, *named)]
    template = _template(len(names), hasattr(cls, "__post_init__"))
    words = {f"_{i}": name for i, name in enumerate(names)}
    code = template.replace(
        co_varnames=("self", *names),
        co_consts=tuple(words.get(part, part) if isinstance(part, str) else part for part in template.co_consts),
        co_argcount=1 + len(in_order),
        co_kwonlyargcount=len(named),
        co_qualname=f"{cls.__qualname__}.__init__",
    )
    init = FunctionType(code, _SPACE, "__init__", tuple(f.default for f in in_order if _has_default(f)))
    init.__kwdefaults__ = {field.name: field.default for field in named if _has_default(field)}
    init.__annotations__ = {field.name: field.type for field in (*in_order, *named)} | {"return": None}
    init.__module__ = cls.__module__
    return init


def _repr(names: tuple[str, ...]) -> Callable[[Any], str]:
    def __repr__(self: Any) -> str:
        return f"{type(self).__qualname__}({', '.join([f'{name}={getattr(self, name)!r}' for name in names])})"

    return __repr__


@cache
def _equal_template(count: int) -> CodeType:
    """`__eq__` by `count` fields `_0`, `_1`, …."""
    mine, its = ("".join(f"{name}._{i}, " for i in range(count)) for name in ("self", "other"))
    compared = f"({mine}) == ({its}) if other.__class__ is self.__class__ else NotImplemented"
    space: dict[str, FunctionType] = {}
    exec(f"def __eq__(self, other): return {compared}", {}, space)
    return space["__eq__"].__code__


@cache
def _hash_template(count: int) -> CodeType:
    """`__hash__` by `count` fields `_0`, `_1`, …."""
    space: dict[str, FunctionType] = {}
    exec(f"def __hash__(self): return hash(({''.join(f'self._{i}, ' for i in range(count))}))", {}, space)
    return space["__hash__"].__code__


def _of_fields(cls: type, template: CodeType, names: list[str]) -> FunctionType:
    """The method of a class that a template makes of fields of these names."""
    words = {f"_{i}": name for i, name in enumerate(names)}
    code = template.replace(
        co_names=tuple(words.get(name, name) for name in template.co_names),
        co_qualname=f"{cls.__qualname__}.{template.co_name}",
    )
    return FunctionType(code, _SPACE, template.co_name)


def _freeze(cls: type, names: frozenset[str]) -> None:
    def __setattr__(self: Any, name: str, value: object) -> None:
        if type(self) is cls or name in names:
            raise dataclasses.FrozenInstanceError(f"cannot assign to field {name!r}")
        object.__setattr__(self, name, value)

    def __delattr__(self: Any, name: str) -> None:
        if type(self) is cls or name in names:
            raise dataclasses.FrozenInstanceError(f"cannot delete field {name!r}")
        object.__delattr__(self, name)

    for method in (__setattr__, __delattr__):
        setattr(cls, method.__name__, method)


# -- hashes --------------------------------------------------------------------------------------------------


def hash_once(cls: type[T]) -> type[T]:
    """Makes a frozen dataclass keep the hash of each of its instances, and compare by it first."""
    equal = cls.__eq__
    keep_hash(cls)

    def same(self: Any, other: Any) -> Any:
        if self is other:
            return True
        if self.__class__ is not other.__class__:
            return NotImplemented
        try:
            alike = self._hash == other._hash
        except AttributeError:
            alike = hash(self) == hash(other)
        return alike and equal(self, other)

    name = "__eq__"
    setattr(cls, name, same)
    return cls


def keep_hash(cls: type[T]) -> type[T]:
    """Makes a frozen dataclass keep the hash of each of its instances. It is not pickled, nor is anything else that
    is kept with one: strings hash in another way in another process."""
    compute = cls.__hash__

    def kept(self: Any) -> int:
        try:
            found: int = self._hash
        except AttributeError:
            found = compute(self)
            object.__setattr__(self, _KEY, found)
        return found

    def state(self: T) -> dict[str, Any]:
        names = getattr(self, _FIELDS)
        return {name: value for name, value in self.__dict__.items() if name in names}

    for name, method in (("__hash__", kept), ("__getstate__", state)):
        setattr(cls, name, method)
    return cls
