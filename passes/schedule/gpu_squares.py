"""What is read along one dimension and written along another, on a GPU: through squares in shared memory."""

from __future__ import annotations

from dojoir.errors import ArgumentError
from dojoir.ir.affine import Affine
from dojoir.ir.nodes import Condition, Path, Scope, format_path
from dojoir.ir.text import format_condition
from dojoir.passes.base.move import fresh_name
from dojoir.passes.engine.trace import Trace
from dojoir.passes.schedule.combinators import make
from dojoir.passes.schedule.strides import sites_in, step_of

SIDE, AT_ONCE = 64, 8
"""The side of a square that is turned in shared memory, and how many rows of it the threads of a block are."""


def turn_squares(trace: Trace, chain: list[Path]) -> None:
    """Gives the last two scopes of a chain, around one statement, to threads by squares. Raises DojoError where the
    statement turns nothing, or a move is refused."""
    kernel = trace.kernel
    outer, inner = kernel.depth_of(chain[-2]), kernel.depth_of(chain[-1])
    (site,) = sites_in(kernel, chain[-1])
    target, *reads = site.statement.accesses
    read = [a for a in reads if step_of(kernel, a, inner) == 1 and step_of(kernel, a, outer) is None]
    turned = step_of(kernel, target, outer) == 1 and step_of(kernel, target, inner) is None
    if not turned or len(read) != 1:
        raise ArgumentError("nothing is read along one dimension and written along another", "bad-arguments")
    (name,) = {a.buffer for a in read}
    place = format_path(chain[-2])
    make(trace, f"tile({place}, {place}.0, {SIDE}, {SIDE})")
    square = fresh_name(trace.kernel, f"{name}_tile")
    nest = (*chain[-1], 0)
    make(trace, f"stage({format_path(nest)}, {name}, {square}, in)")
    make(trace, f"place({square}, shared)")
    make(trace, f"pad_dims({square}, {len(kernel.buffer(name).dims) - 1}, 1)")
    copied = nest
    nest = (*nest[:-1], nest[-1] + 1)
    make(trace, f"swap_scopes({format_path(nest)})")
    for one in (copied, nest):
        _few_rows(trace, one)


def _few_rows(trace: Trace, path: Path) -> None:
    """Shares a square out over `AT_ONCE` rows of threads, each with every so many-th row: all that a thread reads
    is under way at once."""
    place, depth = format_path(path), trace.kernel.depth_of(path)
    scope = trace.kernel.at(path)
    assert isinstance(scope, Scope)
    row = Affine.iterator(depth) * AT_ONCE + Affine.iterator(depth + 1)
    ends = [Condition(row, "<", bound) for bound in scope.extent.bounds if not bound.is_constant]
    make(trace, f"split({place}, {AT_ONCE})")
    if ends:
        make(trace, f'add_guard({place}.0.0.0, 1, "{" and ".join(map(format_condition, ends))}")')
        make(trace, f"set_extent({place}.0, {AT_ONCE})")
        make(trace, f"set_extent({place}, {SIDE // AT_ONCE})")
    make(trace, f"swap_scopes({place})")
    make(trace, f"swap_scopes({place}.0)")
    make(trace, f"bind({place}, by)")
    make(trace, f"bind({place}.0, bx)")
    make(trace, f"unroll({place}.0.0)")
