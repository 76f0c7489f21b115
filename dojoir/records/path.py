"""The states on the way of a trace, as they are written: by hash, with moves that need no labels."""

from __future__ import annotations

import dataclasses
from typing import Any

import dojoir


def path_of(trace: dojoir.Trace) -> list[tuple[str, str | None]]:
    """The states of a trace: the hash of each, and the move to it with its places as paths, as labels are no part
    of a state. A move that changes labels only makes no state."""
    found: list[tuple[str, str | None]] = [(trace.start.hash, None)]
    before = trace.start
    for step in trace.steps:
        if step.kernel.hash != found[-1][0]:
            found.append((step.kernel.hash, str(by_paths(step.move, before))))
        before = step.kernel
    return found


def by_paths(move: dojoir.Move, kernel: dojoir.Kernel) -> dojoir.Move:
    """A move with the paths of its places instead of their labels."""
    labels = {place for place in move.places() if place.startswith("@")}
    if not labels:
        return move
    paths = {place: ".".join(map(str, kernel.path(place))) for place in labels}
    changed: dict[str, Any] = {}
    for field in dataclasses.fields(move):
        value = getattr(move, field.name)
        if isinstance(value, tuple):
            changed[field.name] = tuple(paths.get(one, one) for one in value)
        elif value in labels:
            changed[field.name] = paths[value]
    return dataclasses.replace(move, **changed)
