"""A limit on how long isl may think: it counts its operations and gives up past the limit."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import islpy as isl

from dojoir.sets import workspace


class StepLimitReached(Exception):
    """isl gave up: the question needs more operations than the limit allows."""


@contextmanager
def limited(steps: int) -> Iterator[None]:
    """Runs isl operations of this thread under a limit: past it, StepLimitReached is raised.

    Inside of another limit, that one holds.
    """
    if workspace().context.get_max_operations():
        yield
        return
    with _counted(steps):
        yield


@contextmanager
def limited_in_part(steps: int) -> Iterator[None]:
    """The same for a question that may stay open, inside of another limit: behind it, that one begins anew."""
    around = workspace().context.get_max_operations()
    with _counted(min(steps, around) if around else steps):
        yield


@contextmanager
def _counted(steps: int) -> Iterator[None]:
    """Counts from 0 to `steps`, then gives the limit around its count from 0."""
    context = workspace().context
    around = context.get_max_operations()
    context.reset_operations()
    context.set_max_operations(steps)
    try:
        yield
    except isl.Error:
        if _is_spent(context):
            raise StepLimitReached from None
        raise
    finally:
        context.set_max_operations(around)
        context.reset_operations()


def _is_spent(context: isl.Context) -> bool:
    """Whether the limit of a context is reached: then every operation fails. (What the first that fails says is
    not always the reason: the parser calls it a syntax error.)"""
    try:
        isl.Val.int_from_si(context, 0)
    except isl.Error:
        return True
    return False
