"""Softmax on one thread: as written, after the moves of examples/softmax.moves, in NumPy and in PyTorch.

All contenders run in turn, again and again, in one process, so that a machine that slows down slows all of
them. The bytes are those that any softmax must move: the input read once, the output written once. The ceiling
is the speed at which this thread copies as many bytes.

    python benchmarks/softmax.py [--size 4096 4096] [--rounds 30] [--json]
"""

from __future__ import annotations

import argparse
import importlib.util
import json
import sys
from collections.abc import Callable
from pathlib import Path
from statistics import median, quantiles
from time import perf_counter

import numpy as np
from numpy.typing import NDArray

import dojoir

EXAMPLES = Path(__file__).resolve().parent.parent / "examples"
Array = NDArray[np.float32]
Run = Callable[[], object]


def scheduled() -> dojoir.Kernel:
    """The library's softmax after the moves of the example."""
    trace = dojoir.Trace(dojoir.load(EXAMPLES / "softmax.dojo"))
    for line in (EXAMPLES / "softmax.moves").read_text().splitlines():
        move = line.partition("#")[0].strip()
        if move:
            trace.apply(move)
    return trace.kernel


def contenders(x: Array) -> dict[str, tuple[Run, Array]]:
    """What runs, by name, and the array it writes."""
    runs: dict[str, tuple[Run, Array]] = {}
    for name, kernel in (("dojoir, as written", dojoir.kernels.load("softmax")), ("dojoir, moves", scheduled())):
        compiled = dojoir.compile(kernel)
        y = np.empty_like(x)
        runs[name] = (lambda compiled=compiled, y=y: compiled(x, y)), y

    def numpy_softmax(y: Array) -> None:
        np.subtract(x, x.max(axis=1, keepdims=True), out=y)
        np.exp(y, out=y)
        np.divide(y, y.sum(axis=1, keepdims=True), out=y)

    y = np.empty_like(x)
    runs["NumPy"] = (lambda y=y: numpy_softmax(y)), y
    if importlib.util.find_spec("torch") is None:
        print("PyTorch is not installed (pip install 'dojoir[bench]'): left out", file=sys.stderr)
    else:
        import torch

        torch.set_num_threads(1)
        y = np.empty_like(x)
        source, target = torch.from_numpy(x), torch.from_numpy(y)
        runs["PyTorch eager"] = (lambda: torch.softmax(source, 1, out=target)), y
    y = np.empty_like(x)
    runs["copy (the ceiling)"] = (lambda y=y: np.copyto(y, x)), y
    return runs


def measure(runs: dict[str, tuple[Run, Array]], rounds: int) -> dict[str, list[float]]:
    """Seconds of each run in each round, after two rounds that do not count."""
    seconds: dict[str, list[float]] = {name: [] for name in runs}
    for number in range(rounds + 2):
        for name, (run, _) in runs.items():
            start = perf_counter()
            run()
            if number >= 2:
                seconds[name].append(perf_counter() - start)
    return seconds


def check(runs: dict[str, tuple[Run, Array]], x: Array) -> None:
    """Every contender gives softmax."""
    e = np.exp(x.astype(np.float64) - x.max(axis=1, keepdims=True))
    want = e / e.sum(axis=1, keepdims=True)
    for name, (_, y) in runs.items():
        if not name.startswith("copy"):
            np.testing.assert_allclose(y, want, rtol=2e-5, atol=1e-10, err_msg=name)


def main() -> None:
    options = argparse.ArgumentParser(description="softmax on one thread, beside its peers")
    options.add_argument("--size", nargs=2, type=int, default=(4096, 4096), metavar=("N", "M"))
    options.add_argument("--rounds", type=int, default=30)
    options.add_argument("--json", action="store_true", help="print the result as JSON")
    given = options.parse_args()
    n, m = given.size
    x = np.random.default_rng(0).standard_normal((n, m), dtype=np.float32)
    runs = contenders(x)
    seconds = measure(runs, given.rounds)
    check(runs, x)
    moved = 2 * x.nbytes
    ceiling = moved / median(seconds["copy (the ceiling)"])
    first = median(seconds["dojoir, as written"])
    table = [
        {
            "name": name,
            "median_ms": median(times) * 1e3,
            "best_ms": min(times) * 1e3,
            "quartile_ms": [quantiles(times)[0] * 1e3, quantiles(times)[2] * 1e3],
            "gb_per_s": moved / median(times) / 1e9,
            "of_ceiling": moved / median(times) / ceiling,
            "speedup": first / median(times),
        }
        for name, times in seconds.items()
    ]
    if given.json:
        print(json.dumps({"kernel": "softmax", "N": n, "M": m, "dtype": "f32", "threads": 1, "rows": table}))
        return
    print(f"softmax {n} x {m} f32, one thread, {given.rounds} rounds in turn, medians")
    print(f"{'':22}{'ms':>9}{'best':>9}{'quartiles':>20}{'GB/s':>8}{'of ceiling':>12}{'ratio':>9}")
    for row in table:
        low, high = row["quartile_ms"]
        print(
            f"{row['name']:22}{row['median_ms']:9.2f}{row['best_ms']:9.2f}{f'{low:.2f} - {high:.2f}':>20}"
            f"{row['gb_per_s']:8.2f}{row['of_ceiling']:12.0%}{row['speedup']:8.2f}x"
        )


if __name__ == "__main__":
    main()
