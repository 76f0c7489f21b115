"""How long a person or a search waits: from text to a callable, by phase, and for the check of one move.

    python benchmarks/latency.py [--json]

Cold is a new process with an empty cache; warm is a process that has compiled another kernel before, with the
text new to it.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Callable
from statistics import median
from time import perf_counter, process_time
from typing import TypeVar

import dojoir

T = TypeVar("T")


def timed(run: Callable[[], T], clock: Callable[[], float] = perf_counter) -> tuple[T, float]:
    """What `run` gives, and the milliseconds it took."""
    start = clock()
    result = run()
    return result, (clock() - start) * 1e3


def phases(text: str) -> dict[str, float]:
    """Milliseconds from a text to a callable, by phase."""
    taken: dict[str, float] = {}
    kernel, taken["parse"] = timed(lambda: dojoir.parse(text))
    _, taken["prove"] = timed(lambda: dojoir.prove(kernel))
    _, taken["compile"] = timed(lambda: dojoir.compile(kernel))
    taken["total"] = sum(taken.values())
    return taken


def cold() -> dict[str, float]:
    """The phases for softmax in a new process with an empty cache."""
    with tempfile.TemporaryDirectory() as folder:
        run = subprocess.run(
            [sys.executable, __file__, "--phases"],
            env=os.environ | {"DOJOIR_CACHE": folder},
            check=True,
            capture_output=True,
            text=True,
        )
    result: dict[str, float] = json.loads(run.stdout)
    return result


def warm(repeats: int = 7) -> dict[str, float]:
    """The median phases for softmax, each time under another name, in a process that is warm."""
    text = dojoir.to_text(dojoir.kernels.load("softmax"))
    phases(dojoir.to_text(dojoir.kernels.load("rmsnorm")))
    new = f"_{os.getpid()}_"  # so that no cache knows the text
    runs = [phases(text.replace("softmax", f"softmax{new}{i}")) for i in range(repeats)]
    return {phase: median(run[phase] for run in runs) for phase in runs[0]}


def checks() -> dict[str, list[float]]:
    """Milliseconds of CPU time of `check` for every candidate move on every library kernel, the first of each not
    counted (it proves the kernel, which is remembered)."""
    taken: dict[str, list[float]] = {}
    for name in dojoir.kernels.names():
        kernel = dojoir.kernels.load(name)
        moves = dojoir.candidates(kernel)
        dojoir.check(kernel, moves[0])
        taken[name] = [timed(lambda m=move, k=kernel: dojoir.check(k, m), process_time)[1] for move in moves]
    return taken


def main() -> None:
    options = argparse.ArgumentParser(description="latency of compilation and of the check of one move")
    options.add_argument("--json", action="store_true", help="print the result as JSON")
    options.add_argument("--phases", action="store_true", help=argparse.SUPPRESS)
    given = options.parse_args()
    if given.phases:
        print(json.dumps(phases(dojoir.to_text(dojoir.kernels.load("softmax")))))
        return
    first, again, moves = cold(), warm(), checks()
    every = sorted(t for times in moves.values() for t in times)
    result = {
        "text_to_callable_ms": {"cold": first, "warm": again},
        "check_ms": {
            "moves": len(every),
            "median": median(every),
            "p90": every[int(0.9 * len(every))],
            "largest": every[-1],
            "median_by_kernel": {name: median(times) for name, times in moves.items()},
        },
    }
    if given.json:
        print(json.dumps(result))
        return
    print("softmax, from text to callable through llvm, ms")
    print(f"{'':8}" + "".join(f"{phase:>10}" for phase in first))
    for label, run in (("cold", first), ("warm", again)):
        print(f"{label:8}" + "".join(f"{ms:10.1f}" for ms in run.values()))
    print(f"\ncheck of one move, {len(every)} candidates on {len(moves)} kernels, ms of CPU time")
    print(f"median {median(every):.2f}, 90% under {every[int(0.9 * len(every))]:.2f}, largest {every[-1]:.1f}")
    for name, times in sorted(moves.items(), key=lambda item: -median(item[1]))[:5]:
        print(f"  {name:22}{median(times):8.2f}  of {len(times)} moves")


if __name__ == "__main__":
    main()
