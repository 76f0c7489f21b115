"""The mode of the checker: with all its shortcuts, or the core alone."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from contextvars import ContextVar

from dojoir.errors import ArgumentError, repr_of
from dojoir.support.public import public

VARIABLE = "DOJOIR_CHECK"
"""The environment variable that chooses the mode: `core`, or not set."""

CORE_FACTOR = 20
"""The budget of a question to the core alone, as a multiple of the usual one."""

_chosen: ContextVar[str | None] = ContextVar("check_with", default=None)


def uses_core() -> bool:
    """Whether questions are answered by `dojoir.proof.core` alone: without patterns, slices, refuters, and answers
    that were kept. Raises ArgumentError for a word in the environment that says nothing."""
    chosen = _chosen.get()
    way = os.environ.get(VARIABLE, "") if chosen is None else chosen
    if way not in {"", "core"}:
        raise ArgumentError(f"{VARIABLE} is `core` or not set, and here it is {repr_of(way)}", "bad-arguments")
    return way == "core"


WAYS = ("shortcuts", "core")
"""The names of the modes."""


@public
def check_with(way: str) -> AbstractContextManager[None]:
    """Proves every move in a `with` block with all shortcuts (`shortcuts`), or by the trusted core alone
    (`core`), whatever the environment says. Raises ArgumentError for another word."""
    if way not in WAYS:
        raise ArgumentError(f"moves are proved with {' or '.join(WAYS)}, not with {repr_of(way)}", "bad-arguments")
    return by_core(way == "core")


@contextmanager
def by_core(alone: bool = True) -> Iterator[None]:
    """Runs its block with the core alone, or with all shortcuts, whatever the environment says."""
    token = _chosen.set("core" if alone else "")
    try:
        yield
    finally:
        _chosen.reset(token)
