"""Products of matrices after `block_products`, and the direct convolution of examples/conv2d.moves, on one thread,
beside PyTorch and the arithmetic ceiling of a core.

What is counted is the time of the processor, not of the clock, and the contenders run in turn: other work on the
machine then matters little. The best of all rounds is shown.

    python benchmarks/products.py [--size 1024] [--rounds 10] [--json]
"""

from __future__ import annotations

import argparse
import importlib.util
import json
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from time import process_time
from typing import Any

import numpy as np
from numpy.typing import NDArray

import dojoir

EXAMPLES = Path(__file__).resolve().parent.parent / "examples"
Array = NDArray[np.float32]


@dataclass(frozen=True)
class Row:
    """A product: the trace that made its kernel, the shapes of its inputs, and what PyTorch computes."""

    name: str
    trace: dojoir.Trace
    shapes: tuple[tuple[int, ...], ...]
    flops: int
    torch: Callable[..., Any]


def rows(size: int) -> list[Row]:
    n, few = size, max(size // 2, 1)
    square, batch = ((n, n), (n, n)), ((4, few, few), (4, few, few))
    found = [
        Row(name, dojoir.PASSES["block_products"].on(dojoir.kernels.load(name)), shapes, flops, torch)
        for name, shapes, flops, torch in (
            ("matmul", square, 2 * n**3, lambda a, b: a @ b),
            ("matmul_nt", square, 2 * n**3, lambda a, b: a @ b.T),
            ("matmul_tn", square, 2 * n**3, lambda a, b: a.T @ b),
            ("bmm", batch, 8 * few**3, lambda a, b: a @ b),
        )
    ]
    for channels, side in ((64, 56), (128, 28), (256, 14)):
        shapes = ((1, channels, side, side), (channels, channels, 3, 3))
        flops = 2 * channels * channels * side * side * 9
        found.append(Row(f"conv2d {channels} x {side} x {side}", convolution(), shapes, flops, padded))
    return found


def convolution() -> dojoir.Trace:
    """The example after its moves."""
    trace = dojoir.Trace(dojoir.load(EXAMPLES / "conv2d.dojo"))
    for element in dojoir.parse_pipeline((EXAMPLES / "conv2d.moves").read_text(encoding="utf-8")):
        if isinstance(element, dojoir.Pass):
            element(trace)
        else:
            trace.apply(element)
    return trace


def padded(x: Any, f: Any) -> Any:
    import torch

    return torch.conv2d(x, f, padding=1)


def best(calls: dict[str, Callable[[], object]], rounds: int) -> dict[str, float]:
    """The least seconds of processor time of each call, all in turn."""
    seconds = dict.fromkeys(calls, float("inf"))
    for _ in range(rounds + 1):  # the first is a warm-up that hardly ever is the best
        for name, call in calls.items():
            start = process_time()
            call()
            seconds[name] = min(seconds[name], process_time() - start)
    return seconds


def measured(row: Row, rounds: int, with_torch: bool) -> dict[str, object]:
    rng = np.random.default_rng(0)
    inputs = [rng.standard_normal(shape, dtype=np.float32) for shape in row.shapes]
    compiled = dojoir.compile(row.trace.kernel, threads=1)
    names = [buffer.name for buffer in row.trace.kernel.arguments if buffer.role == "in"]
    (out,) = compiled.run(dict(zip(names, inputs, strict=True))).values()
    calls: dict[str, Callable[[], object]] = {"dojoir": lambda: compiled(*inputs, out)}
    if with_torch:
        import torch

        torch.set_num_threads(1)
        tensors = [torch.from_numpy(array) for array in inputs]
        np.testing.assert_allclose(out, row.torch(*tensors).numpy(), rtol=1e-3, atol=1e-2)
        calls["PyTorch"] = lambda: row.torch(*tensors)
    seconds = best(calls, rounds)
    rates = {name: row.flops / time / 1e9 for name, time in seconds.items()}
    return {"name": row.name, "moves": len(row.trace.moves), "gflops": rates}


def main() -> None:
    options = argparse.ArgumentParser(description="products of matrices and convolutions beside PyTorch")
    options.add_argument("--size", type=int, default=1024)
    options.add_argument("--rounds", type=int, default=10)
    options.add_argument("--json", action="store_true")
    given = options.parse_args()
    with_torch = importlib.util.find_spec("torch") is not None
    if not with_torch:
        print("PyTorch is not installed (pip install 'dojoir[bench]'): left out", file=sys.stderr)
    peak = dojoir.ceilings().at(1).fma_f32
    table = [measured(row, given.rounds, with_torch) for row in rows(given.size)]
    if given.json:
        print(json.dumps({"size": given.size, "threads": 1, "ceiling_gflops": peak, "rows": table}))
        return
    print(f"f32, one thread, best of {given.rounds} rounds in processor time; the ceiling is {peak:.1f} GFLOP/s")
    for row in table:
        rates = row["gflops"]
        assert isinstance(rates, dict)
        shown = "".join(f"{name:>10}{rate:8.1f} GFLOP/s {rate / peak:4.0%}" for name, rate in rates.items())
        print(f"{row['name']!s:22}{row['moves']!s:>3} moves{shown}")


if __name__ == "__main__":
    main()
