"""Sums of several rows side by side, where rows share what they read or what they add to.

A sum over a row whose other factor all rows share, as of a matrix times a vector, reads that factor again for each
row. With eight rows at once it is read an eighth as often, and memory is read from eight places. So it is with sums
that all rows share, as of a vector times a matrix: they are read and written an eighth as often. Where rows go as
far as a diagonal, as where a triangle is solved, those of eight rows go together as far as the first of them does.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

from dojoir.backends.machine import Machine
from dojoir.ir.affine import Affine
from dojoir.ir.nodes import Kernel, Path, Scope, Statement
from dojoir.passes.engine.trace import Trace
from dojoir.passes.hardware.marks import Unroll, Vectorize
from dojoir.passes.loops.cutting import Cut
from dojoir.passes.loops.joining import SplitScopes
from dojoir.passes.loops.splitting import Split
from dojoir.passes.loops.swapping import SwapScopes
from dojoir.passes.schedule.cpu.rows.abreast import cut_rows, dims_of_rows
from dojoir.passes.schedule.facts.short_rows import are_short_rows
from dojoir.passes.schedule.facts.sizes import Sizes, is_short
from dojoir.passes.schedule.facts.strides import depends, scattered, strided
from dojoir.passes.schedule.facts.tree import plain_scopes
from dojoir.passes.schedule.steps.fit import Fit
from dojoir.passes.schedule.steps.spots import act, spot
from dojoir.support.frozen import dataclass

ROWS = 8
"""How many rows are summed at once: their accumulators fit any registers, with what they read."""


@dataclass(frozen=True)
class Sums:
    """A scope over rows that goes along each by the scopes that are its children `numbers`, one after the other."""

    path: Path
    numbers: tuple[int, ...]


def sums_abreast(kernel: Kernel, machine: Machine, sizes: Sizes) -> Iterator[Fit]:
    """Brings the sums of several rows side by side, but where rows are known to be few for the cores."""
    for sums in _found(kernel):
        scope = kernel.at(sums.path)
        assert isinstance(scope, Scope)
        few = is_short(scope.extent, sizes, ROWS * max(machine.cores, 1))
        if not few and not are_short_rows(kernel, sums.path, machine, sizes):
            yield Fit(sums.path, partial(_bring, sums=sums))


def _found(kernel: Kernel) -> Iterator[Sums]:
    """In the order of the text."""
    for path, node in plain_scopes(kernel):
        numbers = tuple(n for n, child in enumerate(node.body) if not isinstance(child, Statement))
        if numbers and all(_shares(kernel, (*path, n)) for n in numbers):
            yield Sums(path, numbers)


def _shares(kernel: Kernel, path: Path) -> bool:
    """Whether a scope adds up what lies along a row, in statements of which each sums up for its row, times what
    all rows share, or for what all rows share. And lanes go along rows. For several sums it is one array that lies
    along rows: of two, memory would be read from twice as many places, which is slower. Sums under a
    condition on data may end with few rows."""
    along = kernel.at(path)
    if not isinstance(along, Scope) or along.marks or along.hints or len(along.extent.bounds) != 1:
        return False
    sums = [node for node in along.body if isinstance(node, Statement)]
    inner = kernel.depth_of(path)
    inside = [a for sum_ in sums for a in sum_.accesses if depends(a, inner)]
    shared = [access for access in inside if not depends(access, inner - 1)]
    return (
        len(sums) == len(along.body)
        and all(sum_.accumulation is not None and sum_.condition is None for sum_ in sums)
        and all(depends(sum_.target, inner) != depends(sum_.target, inner - 1) for sum_ in sums)
        and len(shared) > 0
        and len(inside) > len(shared)
        and (len(sums) == 1 or len(set(inside) - set(shared)) == 1)
        and scattered(kernel, path[:-1]) > 0
        and not strided(kernel, path)
    )


def _bring(trace: Trace, sums: Sums) -> None:
    """Raises IllegalMove where a move of it is refused."""
    cut_rows(trace, sums.path, ROWS)
    nest = spot(trace, sums.path)
    act(trace, Split, nest, ROWS)
    dims_of_rows(trace, nest.child(0), ROWS)
    depth = trace.kernel.depth_of(nest.path)
    for number in reversed(sums.numbers):
        along = nest.child(0, number).node
        assert isinstance(along, Scope)
        if any(depth + 1 in bound.iterators for bound in along.extent.bounds):
            act(trace, Cut, nest.child(0, number), Affine.iterator(depth) * ROWS)
        rows = nest.child(0).node
        assert isinstance(rows, Scope)
        if len(rows.body) > number + 1:
            act(trace, SplitScopes, nest.child(0), number + 1)
        if number:
            act(trace, SplitScopes, nest.child(0), number)
    block = nest.node
    assert isinstance(block, Scope)
    for n, rows in enumerate(block.body):
        if isinstance(rows, Scope) and isinstance(rows.body[0], Scope) and len(rows.body) == 1:
            act(trace, SwapScopes, nest.child(n))
            act(trace, Vectorize, nest.child(n))
            act(trace, Unroll, nest.child(n, 0))
