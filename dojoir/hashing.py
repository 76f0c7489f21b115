"""Hashes of frozen trees, computed once a node."""

from __future__ import annotations

from typing import Any, TypeVar

T = TypeVar("T")

_KEY = "_hash"


def hash_once(cls: type[T]) -> type[T]:
    """Makes a frozen dataclass keep the hash of each of its instances, and compare by it first. It is not pickled:
    strings hash in another way in another process."""
    compute, equal = cls.__hash__, cls.__eq__

    def kept(self: T) -> int:
        found: int | None = getattr(self, _KEY, None)
        if found is None:
            found = compute(self)
            object.__setattr__(self, _KEY, found)
        return found

    def same(self: T, other: object) -> Any:
        if self is other:
            return True
        if self.__class__ is not other.__class__:
            return NotImplemented
        return hash(self) == hash(other) and equal(self, other)

    def state(self: T) -> dict[str, Any]:
        return {name: value for name, value in self.__dict__.items() if name != _KEY}

    for name, method in (("__hash__", kept), ("__eq__", same), ("__getstate__", state)):
        setattr(cls, name, method)
    return cls
