"""How long the code of a row takes where its arrays stay in a cache: what the cores need, whatever memory does."""

from __future__ import annotations

from collections.abc import Mapping

from rows import Row

import dojoir


def seconds_in_cache(row: Row, kernel: dojoir.Kernel, target: str, threads: int, budget: float) -> float | None:
    """The least seconds of one core on `row.small`, times as many bytes as the row has more, shared out over
    `threads`. What is written past the caches is written into them here. None where the row has no small sizes.
    `budget` is in seconds. Raises DojoError as `measure` does."""
    if not row.small:
        return None
    trace = dojoir.Trace(kernel)
    for buffer in kernel.buffers:
        if buffer.stream:
            trace.apply(f"unstream({buffer.name})")
    alone = dojoir.measure(
        trace.kernel, target, threads=1, budget=budget, sizes=row.small, with_ceilings=False
    )  # fmt: skip
    return min(alone.samples) * sum(moved(row, row.sizes)) / sum(moved(row, row.small)) / threads


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
