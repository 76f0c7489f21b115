"""Vectorizes over blocks the values that are computed once a block, between two passes over it.

A quantiser takes the largest number of a block, makes a scale of it, and goes through the block again. The scale
is a division or two and a conversion for one number: in lanes of blocks it costs a fraction. So the scope over
blocks is parted before and behind it, and what goes from one part to the next gets an element for each block. That
also keeps what was computed of a row for the second pass over it."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from itertools import pairwise

from dojoir.backends.machine import Machine
from dojoir.ir.expressions import parts
from dojoir.ir.nodes import Cast, Kernel, Node, Op, Path, Scope, Statement
from dojoir.ir.paths import is_inside
from dojoir.passes.engine.trace import Trace
from dojoir.passes.hardware.marks import Vectorize
from dojoir.passes.loops.joining import SplitScopes
from dojoir.passes.schedule.facts.sizes import Sizes, is_short
from dojoir.passes.schedule.facts.strides import strided
from dojoir.passes.schedule.facts.tree import plain_scopes
from dojoir.passes.schedule.steps.dims import add_dim
from dojoir.passes.schedule.steps.fit import Fit
from dojoir.passes.schedule.steps.spots import act, in_two, spot

LONG = frozenset({"div", "sqrt", "rsqrt", "exp", "log", "exp2", "log2", "pow"})
"""The operations that are slow enough on a core to gain by lanes, as a conversion to a narrow float is."""


def blocks_apart(kernel: Kernel, machine: Machine, sizes: Sizes) -> Iterator[Fit]:
    """Parts scopes over blocks where something that takes long stands between two passes over a block, unless they
    are known to be fewer than the lanes."""
    lanes = machine.vector_bytes // 4
    for path, _ in _found(kernel):
        scope = kernel.at(path)
        if isinstance(scope, Scope) and lanes > 1 and not is_short(scope.extent, sizes, lanes):
            yield Fit(path, partial(_part, path=path))


def _found(kernel: Kernel) -> Iterator[tuple[Path, tuple[int, int]]]:
    """Scopes over blocks, with where the part in the middle begins and ends."""
    for path, node in plain_scopes(kernel):
        if len(path) < 2 or any(affine.iterators for affine in node.extent.bounds):
            continue
        inner = [n for n, child in enumerate(node.body) if isinstance(child, Scope)]
        if not all(_is_pass(node.body[n]) for n in inner):
            continue
        for first, last in pairwise(inner):
            middle = node.body[first + 1 : last]
            if any(isinstance(child, Statement) and _takes_long(kernel, child) for child in middle):
                yield path, (first + 1, last)
                break


def _is_pass(node: Node) -> bool:
    """Whether a scope goes through the elements of a block, of which there are as many in each."""
    if not isinstance(node, Scope) or not all(bound.is_constant for bound in node.extent.bounds):
        return False
    return all(isinstance(child, Statement) for child in node.body)


def _takes_long(kernel: Kernel, statement: Statement) -> bool:
    if kernel.buffer(statement.target.buffer).dtype.bits <= 8:
        return True
    return any(
        (isinstance(part, Op) and part.name in LONG) or (isinstance(part, Cast) and part.dtype.bits <= 8)
        for part in parts(statement.value)
    )


def _part(trace: Trace, path: Path) -> None:
    """Raises IllegalMove where a move is refused."""
    begin, end = next(found for place, found in _found(trace.kernel) if place == path)
    kernel, depth = trace.kernel, trace.kernel.depth_of(path)
    scope = kernel.at(path)
    assert isinstance(scope, Scope)
    for name in _crossing(kernel, path, begin, end):
        add_dim(trace, name, depth, scope.extent)
    first, _ = in_two(trace, SplitScopes, spot(trace, path), end)
    _, middle = in_two(trace, SplitScopes, first, begin)
    if not strided(trace.kernel, middle.path):
        act(trace, Vectorize, middle)


def _crossing(kernel: Kernel, path: Path, begin: int, end: int) -> list[str]:
    """The temporaries that go from one part to another. None of them is used elsewhere, or nothing is found."""
    part_of: dict[str, set[int]] = {}
    outside: set[str] = set()
    for site in kernel.sites:
        names = site.statement.buffers
        if not is_inside(site.path, path):
            outside |= names
            continue
        number = site.path[len(path)]
        part = (number >= begin) + (number >= end)
        for name in names:
            part_of.setdefault(name, set()).add(part)
    temporaries = [buffer.name for buffer in kernel.buffers if buffer.role == "tmp"]
    return [name for name in temporaries if len(part_of.get(name, ())) > 1 and name not in outside]
