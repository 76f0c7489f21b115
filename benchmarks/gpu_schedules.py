"""What `dojoir.optimize` makes of the kernels of the GPU table, in processes side by side; no GPU is needed."""

from __future__ import annotations

import time
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from multiprocessing import get_context
from typing import Literal

from gpu_rows import ROWS

import dojoir

Variant = Literal["dojoir", "fast", "any size"]
"""For the sizes of the row, the same under `fp fast`, and for any sizes."""

VARIANTS: tuple[Variant, ...] = ("dojoir", "fast", "any size")


@dataclass(frozen=True)
class Scheduled:
    """A row's kernel after `moves` moves, which took so many seconds to choose and prove; or what went wrong."""

    text: str = ""
    moves: int = 0
    seconds: float = 0.0
    error: str = ""


def schedule(number: int, variant: Variant) -> Scheduled:
    """A variant of the kernel of a row."""
    start = time.perf_counter()
    try:
        kernel = ROWS[number].kernel(variant != "any size")
        trace = dojoir.optimize(kernel.with_fp("fast") if variant == "fast" else kernel, "cuda")
    except Exception as error:  # the other rows are wanted all the same
        return Scheduled(error=f"{type(error).__name__}: {str(error)[:300]}")
    return Scheduled(dojoir.to_text(trace.kernel), len(trace.moves), time.perf_counter() - start)


def schedules(numbers: Sequence[int], processes: int) -> dict[tuple[int, Variant], Scheduled]:
    """Every variant of some rows."""
    jobs = [(number, variant) for variant in VARIANTS for number in numbers]
    with ProcessPoolExecutor(processes, mp_context=get_context("spawn")) as pool:
        return dict(zip(jobs, pool.map(schedule, *zip(*jobs, strict=True)), strict=True))
