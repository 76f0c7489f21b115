"""Hashes of frozen trees, computed once a node."""

from __future__ import annotations

from typing import Any, TypeVar

T = TypeVar("T")

_KEY = "_hash"


def hash_once(cls: type[T]) -> type[T]:
    """Makes a frozen dataclass keep the hash of each of its instances. It is not pickled: strings hash in another
    way in another process."""
    compute = cls.__hash__

    def kept(self: T) -> int:
        found: int | None = self.__dict__.get(_KEY)
        if found is None:
            found = self.__dict__[_KEY] = compute(self)
        return found

    def state(self: T) -> dict[str, Any]:
        return {name: value for name, value in self.__dict__.items() if name != _KEY}

    for name, method in (("__hash__", kept), ("__getstate__", state)):
        setattr(cls, name, method)
    return cls
