"""Tiles of a product's operands on their way to a block's shared memory: through registers, into two buffers.

While the threads of a block multiply with one tile, what they have read of the next lies in their registers; they
write it to the other buffer, so that they wait for each other once a tile. Every step is a move.

Source: V. Volkov and J. Demmel, "Benchmarking GPUs to tune dense linear algebra" (2008), section 4.
"""

from __future__ import annotations

from dojoir.errors import ArgumentError
from dojoir.ir.nodes import Path, Scope, format_path
from dojoir.passes.base.move import fresh_name
from dojoir.passes.engine.trace import Trace
from dojoir.passes.schedule.combinators import make
from dojoir.support.frozen import dataclass

LANES = 4
"""How many f32 one access moves."""

PADDING = 4
"""By how many elements the rows of a turned tile are apart more, so that threads write to different banks."""


@dataclass(frozen=True)
class Operand:
    """An array of a product: the dimensions of it along the tile, of `tile` elements, and along the sum."""

    array: str
    tile_dim: int
    sum_dim: int
    tile: int


def through_two_buffers(
    trace: Trace, loop: Path, operands: tuple[Operand, Operand], depth: int, threads: int
) -> None:
    """Makes the loop over tiles at `loop`, `depth` deep each, read its operands from shared memory, which `threads`
    fill. Raises DojoError where they do not share a tile equally, or a move is refused."""
    block, n = loop[:-1], loop[-1]
    fetched: list[tuple[Operand, str, str]] = []
    for operand in operands:
        tile = fresh_name(trace.kernel, f"{operand.array}_tile")
        make(trace, f"stage({_at(block, n)}, {operand.array}, {tile}, in)")
        _drop(trace, (*block, n))
        ahead = fresh_name(trace.kernel, f"{operand.array}_ahead")
        make(trace, f"stage({_at(block, n)}, {operand.array}, {ahead}, in)")
        _drop(trace, (*block, n))
        for name in (tile, ahead):
            make(trace, f"split_dim({name}, {operand.sum_dim}, {depth})")
        _shared_out(trace, (*block, n), operand, depth, threads, "vectorize")
        turned = operand.tile_dim < operand.sum_dim
        _shared_out(trace, (*block, n + 1), operand, depth, threads, "unroll" if turned else "vectorize")
        fetched.append((operand, tile, ahead))
        n += 2
    _one_ahead(trace, block, loop[-1])
    for operand, tile, ahead in fetched:
        _in_registers(trace, operand, ahead, depth, threads)
        _two(trace, operand, tile)


def _shared_out(trace: Trace, path: Path, operand: Operand, depth: int, threads: int, last: str) -> None:
    """A copy of an operand, over its two dimensions, as a loop over tiles around threads, neighbours in memory
    side by side."""
    place = format_path(path)
    rows, times = _rows(operand, depth, threads)
    if operand.tile_dim < operand.sum_dim:
        if times > 1:
            make(trace, f"split({place}, {rows})")
        inner = f"{place}.0.0" if times > 1 else f"{place}.0"
        make(trace, f"split({inner}, {depth})")
        _set(trace, f"{inner}.0", depth)
        make(trace, f"split({inner}.0, {LANES})")
        make(trace, f"lift_scope({inner}, {2 if times > 1 else 1})")
    else:
        make(trace, f"split({place}, {depth})")
        _set(trace, f"{place}.0", depth)
        if times > 1:
            make(trace, f"split({place}.0, {rows})")
        make(trace, f"split({place}.0.0{'.0' if times > 1 else ''}, {LANES})")
    if times > 1:
        make(trace, f"sink_scope({place}.0, 2)")
        make(trace, f"unroll({place}.0.0.0)")
    make(trace, f"bind({place}.0, by)")
    make(trace, f"bind({place}.0.0, bx)")
    make(trace, f"{last}({place}.0.0.0{'.0' if times > 1 else ''})")


def _rows(operand: Operand, depth: int, threads: int) -> tuple[int, int]:
    """How many rows of a tile, as it lies in memory, the threads fill at a time, and how often they do."""
    along, across = (depth, operand.tile) if operand.tile_dim < operand.sum_dim else (operand.tile, depth)
    each, left = divmod(along, LANES)
    rows = threads // max(each, 1)
    if left or not each or threads % each or across % rows:
        raise ArgumentError(f"{threads} threads do not share tiles of {along}×{across} equally", "bad-arguments")
    return rows, across // rows


def _one_ahead(trace: Trace, block: Path, n: int) -> None:
    """Five loops from child `n` on, which read the first operand, write it to the buffer, both again for the
    second, and multiply, as one: what is read there is that of the next iteration."""
    make(trace, f"swap_siblings({_at(block, n + 1)})")
    for number in (n + 1, n):
        make(trace, f"peel({_at(block, number)})")
    (whole,) = _scope(trace, (*block, n + 6)).extent.bounds
    own = trace.kernel.depth_of((*block, n))
    for number in (n + 1, n + 3):
        place, (rest,) = _at(block, number), _scope(trace, (*block, number)).extent.bounds
        make(trace, f'add_guard({place}.0, 1, "{{{own}}} < {rest}")')
        make(trace, f"set_extent({place}, {whole})")
    make(trace, f"swap_siblings({_at(block, n + 1)})")
    for number in (n + 4, n + 2, n + 2):
        make(trace, f"join_scopes({_at(block, number)}, {_at(block, number + 1)})")
    for child in (1, 0, 2, 1):
        make(trace, f"swap_siblings({_at(block, n + 2)}.{child})")
    make(trace, f"join_scopes({_at(block, n + 2)}, {_at(block, n + 3)})")


def _in_registers(trace: Trace, operand: Operand, name: str, depth: int, threads: int) -> None:
    """What a thread has read ahead: the dimensions by threads take no registers."""
    rows, times = _rows(operand, depth, threads)
    dim = operand.sum_dim
    if operand.tile_dim < operand.sum_dim:
        if times > 1:
            make(trace, f"split_dim({name}, {operand.tile_dim}, {rows})")
            dim += 1
        make(trace, f"split_dim({name}, {dim + 1}, {LANES})")
    else:
        if times > 1:
            make(trace, f"split_dim({name}, {dim + 1}, {rows})")
        make(trace, f"split_dim({name}, {dim + 2 + (times > 1)}, {LANES})")
    make(trace, f"reuse_dims({name}, {dim})")
    make(trace, f"place({name}, reg)")


def _two(trace: Trace, operand: Operand, name: str) -> None:
    """A buffer of two tiles in turns, one that lies along the sum turned."""
    dim = operand.sum_dim
    make(trace, f"split_dim({name}, {dim}, 2)")
    make(trace, f"reuse_dims({name}, {dim})")
    if operand.tile_dim < operand.sum_dim:
        order = [d for d in range(len(trace.kernel.buffer(name).dims)) if d != operand.tile_dim]
        make(trace, f"reorder_dims({name}, {', '.join(map(str, [*order, operand.tile_dim]))})")
        make(trace, f"pad_dims({name}, {operand.tile_dim}, {PADDING})")
    make(trace, f"place({name}, shared)")


def _drop(trace: Trace, path: Path) -> None:
    """Takes the scopes of extent 1 away that a nest begins with: a copy has one for each dimension."""
    while _scope(trace, path).extent.constant == 1 and isinstance(_scope(trace, path).body[0], Scope):
        make(trace, f"remove_scope({format_path(path)})")


def _set(trace: Trace, place: str, extent: int) -> None:
    if _scope(trace, trace.kernel.path(place)).extent.constant != extent:
        make(trace, f"set_extent({place}, {extent})")


def _at(block: Path, number: int) -> str:
    return format_path((*block, number))


def _scope(trace: Trace, path: Path) -> Scope:
    scope = trace.kernel.at(path)
    assert isinstance(scope, Scope)
    return scope
