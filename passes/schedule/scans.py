"""Running sums of one long row: blocks of it are summed at once, each by itself, so that all cores take part.

By the rule `blocked_scan` the sums of the blocks come first, then what comes before each, and then each block adds
up again from there. The row is read twice, which a second core makes up for.
"""

from __future__ import annotations

from functools import partial

from dojoir.ir.nodes import Kernel, Path, Scope, Statement
from dojoir.passes.base.move import fresh_name
from dojoir.passes.engine.trace import Trace
from dojoir.passes.loops.splitting import Split
from dojoir.passes.schedule.combinators import tried
from dojoir.passes.schedule.sizes import Sizes, is_little
from dojoir.passes.schedule.spots import act, spot
from dojoir.passes.schedule.strides import depends
from dojoir.passes.storage.placing import PlaceBuffer
from dojoir.passes.values.rule import UseRule

BLOCK = 4096
"""How many elements of a row are summed by one core at a time: what it has read is still in its first cache."""


def block_scans(trace: Trace, sizes: Sizes) -> None:
    """Makes each outermost running sum into one element, `s = 0; N > (s += x[{0}]; y[{0}] = s)`, one of blocks,
    unless it is known to be short. One for which a move is refused stays as it was."""
    for n in reversed(range(1, len(trace.kernel.body))):
        if _is_scan(trace.kernel, (n,)) and not is_little(trace.kernel, (n,), sizes):
            tried(trace, partial(_block, path=(n,)))


def _is_scan(kernel: Kernel, path: Path) -> bool:
    """Whether a scope without a mark adds up in one element, and gives each sum to another."""
    scope = kernel.at(path)
    if not isinstance(scope, Scope) or scope.marks or scope.hints or scope.constant_bound is not None:
        return False
    match scope.body:
        case (Statement(total, "+="), Statement(result, "=", value)):
            return value == total and not depends(total, 0) and depends(result, 0)
    return False


def _block(trace: Trace, path: Path) -> None:
    """Raises IllegalMove where a move of it is refused."""
    names = [fresh_name(trace.kernel, name) for name in ("block", "before", "within")]
    blocks = spot(trace, path)
    act(trace, Split, blocks, BLOCK)
    act(trace, UseRule, blocks.beside(-1), "blocked_scan", names)
    act(trace, PlaceBuffer, names[2], "reg")
