"""Hashes of frozen trees, computed once a node."""

from __future__ import annotations

from typing import Any, TypeVar

T = TypeVar("T")

_KEY = "_hash"


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
    """Makes a frozen dataclass keep the hash of each of its instances. It is not pickled: strings hash in another
    way in another process."""
    compute = cls.__hash__

    def kept(self: Any) -> int:
        try:
            found: int = self._hash
        except AttributeError:
            found = compute(self)
            object.__setattr__(self, _KEY, found)
        return found

    def state(self: T) -> dict[str, Any]:
        return {name: value for name, value in self.__dict__.items() if name != _KEY}

    for name, method in (("__hash__", kept), ("__getstate__", state)):
        setattr(cls, name, method)
    return cls
