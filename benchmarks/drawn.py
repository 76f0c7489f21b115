"""Shapes drawn by seed: library kernels at sizes that nobody tuned, bound calls, beside PyTorch eager.

    python benchmarks/drawn.py [--count 300] [--seed 22] [--json FILE [--resume]] [--kernels matmul softmax]
    python benchmarks/drawn.py --from FILE           # what was measured before; runs nothing

A size is any number from 1 to 5,000 half of the time, else a power of two or a neighbour of one; shapes whose
arrays or operations would be too many are drawn again. Both run on one thread in one process, in turn, on its
clock; the time is the best of some turns, and a ratio above 1 says that dojoir is faster. Results are compared. The
ten worst rows are shown with their sizes; the file of `--json` is written after every row.
"""

from __future__ import annotations

import argparse
import json
import math
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from random import Random
from time import process_time
from typing import Any

import numpy as np

import dojoir

LARGEST = 5000
ELEMENTS = 1 << 22
"""The most elements of an array."""

INSTANCES = 1 << 28
"""The most statements that a row runs."""

TOLERANCE = 2e-3

SCALARS = {"eps": 1e-5, "alpha": 1.5}


@dataclass(frozen=True)
class Row:
    """What was measured: the sizes, seconds of both, and how far apart they are."""

    kernel: str
    sizes: dict[str, int]
    ours: float
    eager: float
    error: float

    @property
    def ratio(self) -> float:
        return self.eager / self.ours


def eager(torch: Any) -> dict[str, Callable[..., Any]]:
    """The same mathematics in PyTorch, of the inputs in the order in which the kernel declares them."""
    f = torch.nn.functional
    return {
        "matmul": lambda a, b: a @ b,
        "matmul_nt": lambda a, b: a @ b.T,
        "matmul_tn": lambda a, b: a.T @ b,
        "gemv": lambda a, x: a @ x,
        "transpose": lambda x: x.T.contiguous(),
        "softmax": lambda x: torch.softmax(x, 1),
        "log_softmax": lambda x: torch.log_softmax(x, 1),
        "layernorm": lambda x, g, b, eps: f.layer_norm(x, (x.shape[1],), g, b, eps),
        "rmsnorm": lambda x, g, eps: f.rms_norm(x, (x.shape[1],), g, eps),
        "relu": lambda x: torch.relu(x),
        "gelu": lambda x: f.gelu(x),
        "add": lambda a, b: a + b,
        "bias_relu": lambda x, b: torch.relu(x + b),
        "reduce_mean_0": lambda x: x.mean(0),
        "reduce_mean_1": lambda x: x.mean(1),
    }


def drawn(random: Random, kernel: dojoir.Kernel) -> dict[str, int]:
    """Sizes for a kernel."""
    while True:
        sizes = {name: _size(random) for name in kernel.runtime_sizes}
        shapes = [[dim.extent.evaluate(sizes) for dim in buffer.dims] for buffer in kernel.arguments]
        small = all(math.prod(shape) <= ELEMENTS for shape in shapes)
        if small and dojoir.cost(kernel).instances(sizes) <= INSTANCES:
            return sizes


def _size(random: Random) -> int:
    if random.random() < 0.5:
        return random.randint(1, LARGEST)
    return min(max((1 << random.randint(0, 12)) + random.randint(-1, 1), 1), LARGEST)


def measured(name: str, sizes: dict[str, int], torch: Any, budget: float) -> Row:
    """Both in turn. Raises ArithmeticError where the results differ by more than rounding."""
    kernel = dojoir.kernels.load(name)
    draw = np.random.default_rng(1)
    arrays: list[Any] = []
    for buffer in kernel.arguments:
        shape = tuple(dim.extent.evaluate(sizes) for dim in buffer.dims)
        given = draw.standard_normal(shape).astype(np.float32) if shape else SCALARS[buffer.name]
        arrays.append(given if buffer.role == "in" else np.empty(shape, np.float32))
    inputs = [a for a, b in zip(arrays, kernel.arguments, strict=True) if b.role == "in"]
    (output,) = (a for a, b in zip(arrays, kernel.arguments, strict=True) if b.role == "out")
    scheduled = dojoir.optimize(kernel, sizes=sizes, threads=1).kernel
    ours = dojoir.compile(scheduled, threads=1).bind(*arrays)
    tensors = [torch.from_numpy(a) if isinstance(a, np.ndarray) else a for a in inputs]
    function = eager(torch)[name]
    ours()
    theirs = function(*tensors).numpy()
    error = float(np.abs(output - theirs).max() / max(np.abs(theirs).max(), 1e-30))
    if not error <= TOLERANCE:
        raise ArithmeticError(f"{name} {sizes}: results are {error:.2e} apart, as a share of the largest")
    best = in_turn(ours, lambda: function(*tensors), budget)
    return Row(name, sizes, *best, error)


def in_turn(ours: Callable[[], object], theirs: Callable[[], object], budget: float) -> tuple[float, float]:
    """The least seconds of each; a turn of a fast one is many calls."""
    best = [math.inf, math.inf]
    counts = [0, 0]
    for n, call in enumerate((ours, theirs)):
        start = process_time()
        call()
        counts[n] = max(1, int(0.001 / max(process_time() - start, 1e-7)))
    begun, turns = process_time(), 0
    while turns < 5 or process_time() - begun < budget:
        for n, call in enumerate((ours, theirs)):
            start = process_time()
            for _ in range(counts[n]):
                call()
            best[n] = min(best[n], (process_time() - start) / counts[n])
        turns += 1
    return best[0], best[1]


def report(rows: list[Row], failed: list[str]) -> str:
    """The means, and the ten worst rows."""
    ratios = [row.ratio for row in rows]
    lines = [
        f"{len(rows)} rows, geometric mean {math.exp(sum(map(math.log, ratios)) / len(ratios)):.2f}, "
        f"{sum(r < 1 for r in ratios)} under 1, {sum(r < 0.7 for r in ratios)} under 0.7",
        "the ten worst:",
    ]
    for row in sorted(rows, key=lambda row: row.ratio)[:10]:
        sizes = " ".join(f"{name}={size}" for name, size in row.sizes.items())
        lines.append(
            f"{row.kernel:16}{sizes:32}{row.ours * 1e6:10.1f} us{row.eager * 1e6:10.1f} us{row.ratio:7.2f}"
        )
    return "\n".join(lines + [f"FAILED: {why}" for why in failed])


def main() -> None:
    options = argparse.ArgumentParser(description="library kernels at shapes drawn by seed, beside PyTorch eager")
    options.add_argument("--count", type=int, default=300)
    options.add_argument("--seed", type=int, default=22)
    options.add_argument("--kernels", nargs="+")
    options.add_argument("--budget", type=float, default=0.05, help="seconds of the timing of a row")
    options.add_argument("--json", type=Path, help="write the results there after each row")
    options.add_argument("--resume", action="store_true", help="leave out what that file has")
    options.add_argument("--from", dest="made", type=Path, help="print what that file has")
    given = options.parse_args()
    source = given.made or (given.json if given.resume and given.json.exists() else None)
    rows = [Row(**row) for row in json.loads(source.read_text())] if source else []
    failed: list[str] = []
    if not given.made:
        import torch

        torch.set_num_threads(1)
        torch.set_grad_enabled(False)
        names = given.kernels or list(eager(torch))
        random = Random(given.seed)
        wanted = [(name, drawn(random, dojoir.kernels.load(name))) for name in names * (given.count // len(names))]
        for name, sizes in wanted[len(rows) :]:
            try:
                rows.append(measured(name, sizes, torch, given.budget))
            except (dojoir.DojoError, ArithmeticError) as error:
                failed.append(f"{name} {sizes}: {str(error).splitlines()[0]}")
            if given.json:
                given.json.write_text(json.dumps([asdict(row) for row in rows], indent=1))
    print(report(rows, failed))


if __name__ == "__main__":
    main()
