"""Sums into one element: a part for each block, so that the cores share them and rounding stays small.

One accumulator for all takes up less and less of what is added to it: a sum of 2^27 numbers of one f32 stands still
at 2^24. With a part for each block or row, and the parts summed in blocks again, no chain of additions is long: of
10^9 equal numbers, which is the worst, the sum is within 1e-6.

Source: N. Higham, "The accuracy of floating point summation" (1993), section 4, on blocked and pairwise sums.

Running values of one long row, or of a few: blocks of it are put together at once, each by itself, so that all
cores take part.

The row is read twice, which a second core makes up for (`forms/running_values.py` has the moves).
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

from dojoir.backends.machine import Machine
from dojoir.ir.affine import Affine
from dojoir.ir.nodes import Kernel, Node, Path, Scope, Statement
from dojoir.ir.places import siblings
from dojoir.passes.engine.trace import Trace
from dojoir.passes.schedule.cpu.rows.abreast import CHAINS, block_of_rows
from dojoir.passes.schedule.facts.strides import Sizes, depends, is_little, is_plain, is_short, sites_in
from dojoir.passes.schedule.forms.running_values import MAPS, Blocks, keep_beside, make_blocks
from dojoir.passes.schedule.steps.combinators import Fit, tried
from dojoir.passes.schedule.steps.spots import Array, Spot, add_dim, mark_all, spot

BLOCK = 1024
"""How many elements of an array have a part of their own: with lanes, each adds up some 32."""

LEVELS = 2
"""How often parts are summed in parts again: 1024 * 1024 elements each add to the last sum."""


def sums_in_parts(kernel: Kernel, machine: Machine, sizes: Sizes) -> Iterator[Fit]:
    """Gives each outermost scope that accumulates into elements that it does not go along, in a free order, parts
    of these, one for each of its iterations. Blocks of `BLOCK` where no scope is inside of it."""
    for n in range(len(kernel.body)):
        if _summed(kernel, (n,)):
            yield Fit((n,), partial(_in_parts, path=(n,)))


def _summed(kernel: Kernel, path: Path) -> list[str]:
    """The buffers that an outermost scope accumulates into, each one element for all of it, in the order of the
    text; none where it has a mark, or a constant extent that is short."""
    scope = kernel.at(path)
    if not isinstance(scope, Scope) or scope.marks or (scope.constant_bound or BLOCK) < BLOCK:
        return []
    sites = sites_in(kernel, path)
    targets = [site.statement.target for site in sites if site.statement.accumulation]
    alone = [a for a in targets if not any(depends(a, d) for d in range(8))]
    return list(dict.fromkeys(a.buffer for a in alone))


def _in_parts(trace: Trace, path: Path, level: int = 1) -> None:
    """Raises IllegalMove where a move of it is refused."""
    names = _summed(trace.kernel, path)
    if is_plain(trace.kernel.at(path)):
        spot(trace, path).split(BLOCK)
    for name in names:
        spot(trace, path).split_sum(name)
    if level < LEVELS:
        for n in reversed(range(1, len(names) + 1)):  # what sums the parts of each
            if _summed(trace.kernel, (path[0] + n,)):
                tried(trace, partial(_in_parts, path=(path[0] + n,), level=level + 1))


ROW_BLOCK = 4096
"""How many elements of a row a core puts together at a time: what it has read is still in its first cache."""


def blocks_of_scans(kernel: Kernel, machine: Machine, sizes: Sizes) -> Iterator[Fit]:
    """Makes each running value of a row that is outermost, or one of rows known to be fewer than cores, one of
    blocks, unless it is known to be short, where there are several cores."""
    if machine.cores != 1:
        for path in _rows(kernel, machine, sizes):
            if not is_little(kernel, path, sizes):
                yield Fit(path, partial(_block, path=path))


def _rows(kernel: Kernel, machine: Machine, sizes: Sizes) -> Iterator[Path]:
    """The scopes along rows, with a statement before that says what they begin with."""
    for path, node in kernel.walk():
        rows = [kernel.at(path[:length]) for length in range(1, len(path))]
        few = all(isinstance(row, Scope) and is_short(row.extent, sizes, max(machine.cores, 2)) for row in rows)
        first = path[-1] > 0 and isinstance(siblings(kernel, path)[path[-1] - 1], Statement)
        if few and first and _is_plain(node):
            yield path


def _is_plain(node: Node) -> bool:
    """Whether a node is a scope of statements without a mark, which may be long."""
    if not isinstance(node, Scope) or node.marks or node.hints or node.constant_bound is not None:
        return False
    return all(isinstance(child, Statement) for child in node.body)


def _block(trace: Trace, path: Path) -> None:
    """Raises DojoError where it is no running value, or a move of it is refused."""
    row = spot(trace, path)
    keep_beside(trace, row)
    full = row.scope.extent.bounds[0] // ROW_BLOCK
    blocks = make_blocks(trace, row, ROW_BLOCK)
    tried(trace, partial(_inside_abreast, blocks=blocks, full=full))
    if len(blocks.names) == len(MAPS):  # sums and their like go in lanes
        tried(trace, partial(_abreast, blocks=blocks.totals, full=full))


def _inside_abreast(trace: Trace, blocks: Blocks, full: Affine) -> None:
    """Gives each block an element of its own for the value inside, and lets several go on side by side. Raises
    IllegalMove where a move of it is refused."""
    within, inside = blocks.names[-1], blocks.inside
    Array(trace, within).place("heap")
    add_dim(trace, within, inside.depth, inside.scope.extent.bounds[0])
    _abreast(trace, inside, full)


def _abreast(trace: Trace, blocks: Spot, full: Affine) -> None:
    """Lets several blocks, of those that are `full`, go on side by side: none waits for the step of another. Raises
    IllegalMove where a move of it is refused."""
    path, number = blocks.path, blocks.scopes()[0].path[-1]
    first, _ = blocks.cut(full)
    first.child(number).bound(Affine.constant(ROW_BLOCK))
    nest = block_of_rows(trace, path, CHAINS)
    nest.child(0).part(number)
    nest.child(1).swap()
    mark_all(((nest.child(0), "u"), (nest.child(1, 0), "u")))
