"""What `dojoir.optimize` makes of the kernels of the GPU table, in processes side by side; no GPU is needed."""

from __future__ import annotations

import time
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from multiprocessing import get_context

from gpu_rows import ROWS

import dojoir


@dataclass(frozen=True)
class Scheduled:
    """A row's kernel after `moves` moves, which took so many seconds to choose and prove; or what went wrong."""

    text: str = ""
    moves: int = 0
    seconds: float = 0.0
    error: str = ""


def schedule(number: int, fixed: bool) -> Scheduled:
    """The kernel of a row for its sizes, or for any."""
    start = time.perf_counter()
    try:
        trace = dojoir.optimize(ROWS[number].kernel(fixed), "cuda")
    except Exception as error:  # the other rows are wanted all the same
        return Scheduled(error=f"{type(error).__name__}: {str(error)[:300]}")
    return Scheduled(dojoir.to_text(trace.kernel), len(trace.moves), time.perf_counter() - start)


def schedules(numbers: Sequence[int], processes: int) -> dict[tuple[int, bool], Scheduled]:
    """Those of some rows, each for its sizes (True) and for any."""
    jobs = [(number, fixed) for fixed in (True, False) for number in numbers]
    with ProcessPoolExecutor(processes, mp_context=get_context("spawn")) as pool:
        return dict(zip(jobs, pool.map(schedule, *zip(*jobs, strict=True)), strict=True))
