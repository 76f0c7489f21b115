"""Where barriers are said to be, and all the places where one can be."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from dojoir.codegen.lower.waits.acts import BLOCK, LANE, THREAD, LaunchedPart, Reading, body, marked
from dojoir.ir.nodes import Path, Scope, Statement

Position = tuple[Path, float]
"""Before which child of the node at a path a barrier stands: the number of its children means behind the last."""

Barriers = Mapping[Position, tuple[str, ...]]
"""The barriers of a kernel, each with the buffers for which it stands there."""


def places_to_wait(reading: Reading, launch: LaunchedPart) -> Iterator[Position]:
    """Before each child of block code and of warp code, and behind the last of a loop there."""
    for i in range(launch.first, launch.last + 1):
        yield launch.root, i
        yield from _in(reading, (*launch.root, i), THREAD)


def _in(reading: Reading, path: Path, steps: frozenset[str]) -> Iterator[Position]:
    """Those in the node at `path`, where scopes with one of the marks `steps` are the code of threads."""
    node = reading.kernel.at(path)
    if isinstance(node, Statement):
        return
    if not marked(node, steps):
        yield from _among(reading, path, steps)
        if isinstance(node, Scope):
            yield path, len(node.body)
        return
    inner = path
    while len(body(reading.kernel, inner)) == 1 and marked(body(reading.kernel, inner)[0], BLOCK):
        inner = (*inner, 0)
    if steps == THREAD and reading.warp_code((*inner, 0)) == inner:
        yield from _among(reading, inner, LANE)


def _among(reading: Reading, path: Path, steps: frozenset[str]) -> Iterator[Position]:
    for i in range(len(body(reading.kernel, path))):
        yield path, i
        yield from _in(reading, (*path, i), steps)
