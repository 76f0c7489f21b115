"""The ceilings of this machine: bytes read, copied and combined per second, and fused multiply-adds.

Measured once with loops written in LLVM IR, through the engine and the thread pool that kernels use, and kept in
the build cache. Memory is streamed from arrays four times as large as the last-level cache, written past the
caches where that is faster.
"""

from __future__ import annotations

import json
import os
import platform
import time
from collections.abc import Callable, Mapping
from dataclasses import asdict
from functools import cache, partial
from time import perf_counter
from typing import Any

from dojoir.errors import RunError
from dojoir.runtime.build.llvm_engine import host
from dojoir.runtime.build.pool import available_threads, thread_count
from dojoir.runtime.measurement.lease import timing_lease
from dojoir.runtime.measurement.memory import last_level_cache, physical_memory, touched
from dojoir.runtime.measurement.stream_loops import BLOCK_BYTES, WAYS, Loops
from dojoir.runtime.process.child import raise_reported, run_child
from dojoir.runtime.process.worker import Report
from dojoir.support.cache import Cache, content_key
from dojoir.support.frozen import dataclass
from dojoir.support.public import public

REVISION = "3"
TIME_LIMIT = 300.0
KEPT_SECONDS, BUSY_SECONDS = 10 * 365 * 86400.0, 600.0
"""How long figures hold, and those from a busy machine."""

SECONDS = 0.15
"""How long each loop is repeated. The fastest counts."""


@dataclass(frozen=True)
class ThreadCeilings:
    """The ceilings of a number of threads together: GB/s of memory read; copied, counting reads and writes; and in
    `a = b + s*c`, counting all three arrays. Then GFLOP/s of fused multiply-adds, which count as two, and GOP/s of
    products of bytes summed in i32, likewise (0: not measured)."""

    threads: int
    read: float
    copy: float
    triad: float
    fma_f32: float
    fma_f64: float
    dot_i8: float = 0.0

    @property
    def memory(self) -> float:
        """The largest of the memory figures: no mix of reading and writing is faster."""
        return max(self.read, self.copy, self.triad)


@dataclass(frozen=True)
class Ceilings:
    """The ceilings of a machine, for some numbers of threads."""

    machine: str
    by_threads: Mapping[int, ThreadCeilings]

    def at(self, threads: int) -> ThreadCeilings:
        """Those of the largest measured number of threads up to `threads`."""
        return self.by_threads[max((n for n in self.by_threads if n <= threads), default=min(self.by_threads))]

    def __str__(self) -> str:
        lines = [f"{self.machine}", "threads   read   copy  triad GB/s    f32    f64 GFLOP/s     i8 GOP/s"]
        for n, c in sorted(self.by_threads.items()):
            lines.append(
                f"{n:7}{c.read:7.1f}{c.copy:7.1f}{c.triad:7.1f}{c.fma_f32:12.1f}{c.fma_f64:7.1f}{c.dot_i8:15.1f}"
            )
        return "\n".join(lines)


@public
def ceilings(threads: int | None = None, *, again: bool = False) -> Ceilings:
    """The ceilings of this machine, with 1, 2, 4, … and all threads. Measured the first time, which takes some
    seconds, and `again` where that is asked for; of two measurements the larger figures count. What was measured
    while the machine was busy with more than it has cores holds for ten minutes.

    With `threads`, what so many reach at this moment: measured anew and not kept, for what is timed right before
    or after on a machine that is shared. Raises RunError where the measurement fails, ArgumentError for a number
    of threads that there cannot be."""
    if threads is not None:
        return Ceilings(
            _machine(), {row["threads"]: ThreadCeilings(**row) for row in _measured([thread_count(threads)])}
        )
    if again:
        _known.cache_clear()
    return _known(available_threads(), again)


@cache
def _known(most: int, again: bool) -> Ceilings:
    machine = _machine()
    store = Cache.default()
    key = content_key("ceilings", REVISION, machine, host().features, str(most), str(last_level_cache()))
    stored = store.get(key)
    record: dict[str, Any] = {"rows": [], "until": 0.0} if stored is None else json.loads(stored)
    if again or record["until"] < time.time():
        busy = os.getloadavg()[0] > most + 0.5
        rows = _larger(record["rows"], _measured(_counts(most)))
        record = {"rows": rows, "until": time.time() + (BUSY_SECONDS if busy else KEPT_SECONDS)}
        store.put(key, json.dumps(record).encode())
    return Ceilings(machine, {row["threads"]: ThreadCeilings(**row) for row in record["rows"]})


def _larger(old: list[dict[str, Any]], new: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """The new rows, each figure at least what it was in the old ones."""
    before = {row["threads"]: row for row in old}
    return [{name: max(value, before.get(row["threads"], row)[name]) for name, value in row.items()} for row in new]


def _machine() -> str:
    return f"{platform.node()}, {host().cpu}"


def _measured(counts: list[int]) -> list[dict[str, Any]]:
    with timing_lease():
        outcome = run_child({"kind": "ceilings", "threads": counts}, TIME_LIMIT)
    raise_reported(outcome)
    rows: list[dict[str, Any]] = [message["ceiling"] for message in outcome.messages if "ceiling" in message]
    if outcome.ended is not None or not rows:
        raise RunError(f"measuring what this machine reaches {outcome.ended or 'gave nothing'}", "no-ceilings")
    return rows


def _counts(most: int) -> list[int]:
    counts = {most}
    n = 1
    while n < most:
        counts.add(n)
        n *= 2
    return sorted(counts)


# -- in the child ------------------------------------------------------------------------------------------
def run_ceilings(job: Mapping[str, Any], report: Report) -> None:
    """Measures for each number of threads in the job."""
    size = min(max(64 << 20, 4 * last_level_cache()), 1 << 30, physical_memory() // 16)
    a, b, c = (touched(size - size % BLOCK_BYTES) for _ in range(3))
    for threads in job["threads"]:
        loops = Loops(threads)
        row = ThreadCeilings(
            threads=threads,
            read=max(_rate(partial(loops.read, way, a)) for way in WAYS if "past" not in way) * a.size / 1e9,
            copy=max(_rate(partial(loops.copy, way, a, b)) for way in WAYS) * 2 * a.size / 1e9,
            triad=max(_rate(partial(loops.triad, way, a, b, c)) for way in WAYS) * 3 * a.size / 1e9,
            fma_f32=_rate(partial(loops.multiply_add, False)) * loops.operations(False) / 1e9,
            fma_f64=_rate(partial(loops.multiply_add, True)) * loops.operations(True) / 1e9,
            dot_i8=_rate(loops.multiply_bytes) * loops.byte_operations() / 1e9,
        )
        report({"ceiling": asdict(row)})


def _rate(run: Callable[[], None]) -> float:
    """Runs a second, at best."""
    run()
    best = float("inf")
    until = perf_counter() + SECONDS
    while perf_counter() < until:
        start = perf_counter()
        run()
        best = min(best, perf_counter() - start)
    return 1 / best
