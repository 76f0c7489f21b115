"""A limit on how long isl may think: it counts its operations and gives up past the limit."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from dojoir.sets import workspace


@contextmanager
def limited(steps: int) -> Iterator[None]:
    """Runs isl operations of this thread under a limit: past it, they raise isl.Error.

    Inside of another limit, that one holds.
    """
    context = workspace().context
    if context.get_max_operations():
        yield
        return
    context.reset_operations()
    context.set_max_operations(steps)
    try:
        yield
    finally:
        context.set_max_operations(0)
        context.reset_operations()
