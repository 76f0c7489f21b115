"""`versions`: all schedules of a kernel that are known for a target, each with the sizes that it is for."""

from __future__ import annotations

import itertools
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress

import dojoir
from dojoir import runtime
from dojoir.passes import Version, Versions
from dojoir.schedules.choice import SMALL, by_rank, by_rule, default_for, emitted, on_one_core
from dojoir.schedules.file import Schedule, given_schedules, own_schedules
from dojoir.support.public import public

MOST_LINES = 64
"""How many boxes of sizes the condition that a kernel is small has at most."""

FACTORS = (2, 4, 16, 256)
"""How far apart the corners of such boxes are: the first for which there are few enough."""


@public
def versions(
    kernel: dojoir.Kernel,
    target: str = "llvm",
    *,
    threads: int | None = None,
    folders: Sequence[str | os.PathLike[str]] = (),
    cpu: str | None = None,
) -> Versions:
    """The choice of `optimize` for all sizes: its stored schedules, each with its condition on sizes (`# when:`),
    and a schedule for all other sizes. One version without other threads serves sizes that have too little work
    for them. `dojoir.compile` makes one callable of them. Raises as `optimize` does."""
    machine = dojoir.machine_for(target, cpu)
    plain = target.partition("@")[0]
    fixed = {size.name: size.value for size in kernel.sizes if size.value is not None}
    known = {"threads": runtime.thread_count(threads), **fixed}
    found: list[Version | dojoir.Trace | tuple[dojoir.Trace, Sequence[str]]] = []

    taken: set[str] = set()

    def add(trace: dojoir.Trace, lines: Sequence[str]) -> bool:
        """Whether it is for all sizes that are left."""
        trace.machine = machine
        left = [line for line in lines if line not in taken]
        taken.update(left)
        if left:
            found.append(trace if "" in left else (trace, left))
        return "" in left

    def fitting(stored: Sequence[Schedule]) -> Iterator[tuple[Schedule, tuple[str, ...]]]:
        for one in by_rank(stored, plain, machine):
            lines = one.lines(known, kernel.runtime_sizes)
            if lines is not None and one.is_for(kernel, plain, machine):
                yield one, lines

    for given, lines in fitting(given_schedules(kernel.name, folders)):
        if add(given.on(kernel), lines):
            return Versions(found)
    default = default_for(machine, threads=known["threads"])
    if machine.kind == "cpu" and known["threads"] > 1 and (small := _small(kernel)):
        alone = on_one_core(default.on(kernel))
        if add(alone, small):
            return Versions(found)
    stored = own_schedules(kernel.name)
    if machine.kind == "gpu":
        stored = [one for one in stored if "gpu" in one.needs]
    for own, lines in fitting(stored):
        with suppress(dojoir.DojoError):  # sizes that are fixed may leave a place of a move without a scope
            if add(emitted(own.on(kernel), plain, machine), lines):
                return Versions(found)
    add(by_rule(kernel, plain, machine, None, known["threads"]), [""])
    return Versions(found)


def _small(kernel: dojoir.Kernel) -> tuple[str, ...]:
    """Lines of conditions at which the kernel runs fewer statements than other threads are worth: boxes of sizes
    from 1 to a power of some number, each as large as may be. One empty line where it always does, none where never
    or where too many boxes would say it."""
    names = kernel.runtime_sizes
    count = dojoir.cost(kernel).instances
    if not names:
        return ("",) if count({}) < SMALL else ()
    for factor in FACTORS:
        steps = [factor**n for n in range(64) if factor**n <= SMALL]
        if len(steps) ** (len(names) - 1) > 4 * MOST_LINES:
            continue
        corners = {
            corner: largest
            for corner in itertools.product(steps, repeat=len(names) - 1)
            if (largest := _largest(kernel, count, corner, steps))
        }
        boxes = [(*corner, last) for corner, last in corners.items()]
        lines = [box for box in boxes if not any(box != other and _within(box, other) for other in boxes)]
        if len(lines) <= MOST_LINES:
            return tuple(
                ", ".join(f"{name} <= {most}" for name, most in zip(names, line, strict=True)) for line in lines
            )
    return ()


def _largest(
    kernel: dojoir.Kernel, count: Callable[[Mapping[str, int]], int], corner: tuple[int, ...], steps: Sequence[int]
) -> int:
    """The largest step for the last size at which the kernel is small beside such others; 0: none. Sizes that the
    facts forbid have no count, and are no corner."""
    best = 0
    for step in steps:
        sizes: Mapping[str, int] = dict(zip(kernel.runtime_sizes, (*corner, step), strict=True))
        try:
            kernel.specialize(**sizes)
        except dojoir.ArgumentError:
            continue
        if count(sizes) >= SMALL:
            break
        best = step
    return best


def _within(box: tuple[int, ...], other: tuple[int, ...]) -> bool:
    return all(a <= b for a, b in zip(box, other, strict=True))
