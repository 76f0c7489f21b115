"""A value derived from one frozen object alone, computed once: a table beside every node of a tree.

Kernels share the nodes that a rewrite left alone, so what is kept with a node is taken over by every kernel that
has it. It goes by the very object, not by what it is equal to: labels and places in the source count.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import TYPE_CHECKING, Any, TypeVar

T = TypeVar("T")
N = TypeVar("N")


def once_for_each(found_for: Callable[[N], T]) -> Callable[[N], T]:
    """Makes a function of one frozen object keep its answer with the object. (`hash_once` does not pickle it.)"""
    key = f"_{found_for.__module__}.{found_for.__qualname__}"

    @wraps(found_for)
    def kept(of: N) -> T:
        held = of.__dict__
        try:
            found: T = held[key]
        except KeyError:
            found = held[key] = found_for(of)
        return found

    return kept


if TYPE_CHECKING:
    from functools import cached_property as cached_property
else:

    class cached_property:
        """As that of the standard library, without its lock, which Python 3.12 has given up as well: two threads
        that ask at once may both work it out, and find the same."""

        def __init__(self, found_for: Callable[[Any], Any]) -> None:
            self._found_for, self.__doc__ = found_for, found_for.__doc__

        def __set_name__(self, owner: type, name: str) -> None:
            self._name = name

        def __get__(self, of: Any, owner: type | None = None) -> Any:
            if of is None:
                return self
            return of.__dict__.setdefault(self._name, self._found_for(of))
