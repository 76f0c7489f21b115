"""Is a time that of the work? What an evaluator sees among the calls that it times, what inputs do to the outputs,
and what the machine can do at most."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import dojoir
from dojoir.evidence.figures import sizes_in_words
from dojoir.support.seconds import format_seconds

Honesty = Callable[[dojoir.Trace, str, Sequence[Mapping[str, int]], int, int], tuple[str | None, tuple[str, ...]]]
"""Why a kernel is not honest, None if nothing was found, and what else is to be told."""

TIME_LIMIT = 120.0
SLACK = 1.5
"""How many times as fast as the ceilings say nobody is: they are measured, and a machine has better moments."""

OUT_OF_CACHE = 2
"""Arrays of so many times the last cache are read from memory."""

PORTS = 3
"""How many vectors go between registers and the nearest cache in the time of two multiply-adds of vectors."""

SMALL = 512
"""The most elements of the sizes at which inputs are changed one by one: the reference is interpreted."""


def honesty(
    trace: dojoir.Trace, target: str, shapes: Sequence[Mapping[str, int]], threads: int, seed: int
) -> tuple[str | None, tuple[str, ...]]:
    """Raises as `Evaluator` does."""
    sizes = small_sizes(trace.start)
    if sizes is not None:
        ignored = dojoir.testing.ignored_inputs(
            trace.kernel, trace.start, target, sizes=sizes, seed=seed % (1 << 31)
        )
        for name, outputs in ignored.items():
            return f"{', '.join(outputs)} should follow {name}, and does not", ()
    notes: list[str] = []
    for each in shapes:
        with dojoir.Evaluator(
            trace.start, target, each, threads=threads, seed=seed, time_limit=TIME_LIMIT, code_limit=10**9
        ) as evaluator:
            (found,) = evaluator.evaluate([trace.kernel])
        where = sizes_in_words(each)
        if not dojoir.machine_for(target).warp:
            spent = dojoir.testing.spending(
                trace.kernel, target, sizes=each, threads=threads, seed=seed % (1 << 31), time_limit=TIME_LIMIT
            )
            if complaint := spent.complaint(threads):
                return f"{complaint} ({where})", tuple(notes)
        if not found.ok or found.seconds is None:
            return f"{found.status}: {found.reason} ({where})", tuple(notes)
        why = too_fast(trace.kernel, each, found.seconds, target, threads, notes)
        if why is not None:
            return f"{why} ({where})", tuple(notes)
    return None, tuple(notes)


def small_sizes(kernel: dojoir.Kernel) -> dict[str, int] | None:
    """Small sizes that the facts of a kernel allow, the first of some; None where none is found."""
    for value in (5, 6, 7, 8, 12, 16, 32, 64):
        sizes = dict.fromkeys(kernel.runtime_sizes, value)
        try:
            kernel.specialize(**sizes)
        except dojoir.DojoError:
            continue
        if dojoir.cost(kernel).instances(sizes) <= SMALL * SMALL:
            return sizes
    return None


def too_fast(
    kernel: dojoir.Kernel, sizes: Mapping[str, int], seconds: float, target: str, threads: int, notes: list[str]
) -> str | None:
    """Why a time is not to be believed: its bytes and operations take longer on this machine. None where it is, or
    where nothing is known (`notes` says so)."""
    if dojoir.machine_for(target).warp:
        notes.append("the ceilings of a GPU are those of the bench")
        return None
    if re.search(r" if .*\[|min\(\w+\[", dojoir.to_text(kernel)):
        notes.append("how much it works follows from the data: its time is not held to the ceilings")
        return None
    work, ceiling = dojoir.cost(kernel), dojoir.runtime.ceilings().at(threads)
    full, machine = dict(sizes), dojoir.machine_for("llvm")
    flops = int(work.flops(full) * once_share(kernel))
    return faster_than(
        seconds, work.bytes(full), flops, ceiling.memory, max(ceiling.fma_f32, ceiling.fma_f64),
        max(machine.last_cache, *machine.caches),
    )  # fmt: skip


def once_share(kernel: dojoir.Kernel) -> float:
    """The share of the operations of a text that is left where each statement computes equal parts once, as
    compilers do: the smallest of all statements."""
    shares = [1.0]
    for site in kernel.sites:
        every = [part for part in _values_inside(site.statement.value) if getattr(part, "args", ())]
        shares += [len(set(every)) / len(every)] if every else []
    return min(shares)


def _values_inside(value: Any) -> Iterator[Any]:
    yield value
    for part in getattr(value, "args", ()):
        yield from _values_inside(part)


def faster_than(seconds: float, moved: int, flops: int, memory: float, arithmetic: float, cache: int) -> str | None:
    """Why `seconds` are too few to move so many bytes and do so many operations, where memory gives GB/s and
    arithmetic GFLOP/s, and the last cache holds `cache` bytes."""
    nearest = max(memory, PORTS * arithmetic)
    rate, of = (memory, "memory") if moved > OUT_OF_CACHE * cache else (nearest, "the nearest cache")
    if seconds * SLACK * rate * 1e9 < moved:
        gbytes = moved / seconds / 1e9
        return f"{moved} bytes in {format_seconds(seconds)} are {gbytes:.0f} GB/s, and {of} gives {rate:.0f}"
    if seconds * SLACK * arithmetic * 1e9 < flops:
        reached = flops / seconds / 1e9
        return f"{flops} operations in {format_seconds(seconds)} are {reached:.0f} GFLOP/s of {arithmetic:.0f}"
    return None
