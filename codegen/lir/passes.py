"""Passes told of, and the programs that they leave verified.

`watching(see)` has `see` told of each pass of the lowerings that run inside of it. With DOJOIR_VERIFY_LIR set, as
in the tests, each program is verified behind each pass.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar

from dojoir.codegen.lir.program import Program
from dojoir.codegen.lir.verify import verify
from dojoir.ir.nodes import Kernel

VARIABLE = "DOJOIR_VERIFY_LIR"

See = Callable[[str, Kernel | Program], None]
"""Takes the name of a pass, and the kernel or the program that it left."""


_watch: ContextVar[See | None] = ContextVar("watch", default=None)


@contextmanager
def watching(see: See) -> Iterator[None]:
    """Has `see` told of each pass inside of it."""
    token = _watch.set(see)
    try:
        yield
    finally:
        _watch.reset(token)


def is_watched() -> bool:
    return _watch.get() is not None


def left(name: str, now: Kernel | Program, nodes: frozenset[type] | None = None) -> None:
    """Says what a pass left: `nodes` are the classes of nodes that a program may have by then (None: any)."""
    if isinstance(now, Program) and os.environ.get(VARIABLE):
        verify(now, name, nodes)
    see = _watch.get()
    if see is not None:
        see(name, now)
