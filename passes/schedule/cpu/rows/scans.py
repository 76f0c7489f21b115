"""Running values of one long row, or of a few: blocks of it are put together at once, each by itself, so that all
cores take part.

The row is read twice, which a second core makes up for (`forms/running.py` has the moves).
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

from dojoir.backends.machine import Machine
from dojoir.ir.affine import Affine
from dojoir.ir.nodes import Kernel, Node, Path, Scope, Statement
from dojoir.ir.places import siblings
from dojoir.passes.engine.trace import Trace
from dojoir.passes.hardware.marks import Unroll
from dojoir.passes.loops.cutting import Cut
from dojoir.passes.loops.extents import SetExtent
from dojoir.passes.loops.joining import SplitScopes
from dojoir.passes.loops.splitting import Split
from dojoir.passes.loops.swapping import SwapScopes
from dojoir.passes.schedule.cpu.rows.abreast import CHAINS, cut_rows, dims_of_rows
from dojoir.passes.schedule.facts.sizes import Sizes, is_little, is_short
from dojoir.passes.schedule.forms.running import MAPS, Blocks, keep_beside, make_blocks
from dojoir.passes.schedule.steps.combinators import tried
from dojoir.passes.schedule.steps.dims import add_dim
from dojoir.passes.schedule.steps.fit import Fit
from dojoir.passes.schedule.steps.spots import Spot, act, in_two, spot
from dojoir.passes.storage.layout import PlaceBuffer

BLOCK = 4096
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
    full = row.scope.extent.bounds[0] // BLOCK
    blocks = make_blocks(trace, row, BLOCK)
    tried(trace, partial(_inside_abreast, blocks=blocks, full=full))
    if len(blocks.names) == len(MAPS):  # sums and their like go in lanes
        tried(trace, partial(_abreast, blocks=blocks.totals, full=full))


def _inside_abreast(trace: Trace, blocks: Blocks, full: Affine) -> None:
    """Gives each block an element of its own for the value inside, and lets several go on side by side. Raises
    IllegalMove where a move of it is refused."""
    within, inside = blocks.names[-1], blocks.inside
    act(trace, PlaceBuffer, within, "heap")
    add_dim(trace, within, inside.depth, inside.scope.extent.bounds[0])
    _abreast(trace, inside, full)


def _abreast(trace: Trace, blocks: Spot, full: Affine) -> None:
    """Lets several blocks, of those that are `full`, go on side by side: none waits for the step of another. Raises
    IllegalMove where a move of it is refused."""
    path, number = blocks.path, blocks.scopes()[0].path[-1]
    first, _ = in_two(trace, Cut, blocks, full)
    act(trace, SetExtent, first.child(number), Affine.constant(BLOCK))
    cut_rows(trace, first.path, CHAINS)
    nest = spot(trace, path)
    act(trace, Split, nest, CHAINS)
    dims_of_rows(trace, nest.child(0), CHAINS)
    act(trace, SplitScopes, nest.child(0), number)
    act(trace, SwapScopes, nest.child(1))
    act(trace, Unroll, nest.child(0))
    act(trace, Unroll, nest.child(1, 0))
