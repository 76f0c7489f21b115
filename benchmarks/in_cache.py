"""How long the code of a row takes where its arrays stay in a cache: what the cores need, whatever memory does."""

from __future__ import annotations

from collections.abc import Mapping

from rows import Row

import dojoir


def seconds_in_cache(row: Row, kernel: dojoir.Kernel, target: str, threads: int, budget: float) -> float | None:
    """The least seconds of one core on `row.small`, times as many bytes as the row has more, shared out over
    `threads`. What is written past the caches is written into them here, and nothing is fetched ahead: past the end
    of a small array that costs more than it saves. None where the row has no small sizes. `budget` is in
    seconds. Raises DojoError as `measure` does."""
    if not row.small:
        return None
    trace = dojoir.Trace(kernel)
    _take_hints_off(trace)
    alone = dojoir.measure(
        trace.kernel, target, threads=1, budget=budget, sizes=row.small, with_ceilings=False
    )  # fmt: skip
    return min(alone.samples) * sum(moved(row, row.sizes)) / sum(moved(row, row.small)) / threads


def _take_hints_off(trace: dojoir.Trace) -> None:
    """Takes back all stores past the caches and all fetches ahead."""
    back = ("unstream", "unprefetch")
    while move := next((move for move in dojoir.candidates(trace.kernel) if move.name in back), None):
        trace.apply(move)


def moved(row: Row, sizes: Mapping[str, int]) -> tuple[int, int]:
    """The bytes that a row must read and write at these sizes."""
    read = written = 0
    for buffer in row.load().arguments:
        size = buffer.dtype.itemsize
        for dim in buffer.dims:
            size *= dim.extent.evaluate({**sizes, **row.fixed})
        read += size if buffer.role != "out" else 0
        written += size if buffer.role != "in" else 0
    return read, written
