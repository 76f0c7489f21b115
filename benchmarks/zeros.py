"""What the zeros cost: minima and maxima of IEEE 754-2019 (−0 below +0, a NaN stays one) beside bare comparisons.

    python benchmarks/zeros.py [--rows NAME …] [--targets llvm c avx2] [--rounds N] [--write]

Every row is optimised for its sizes and compiled twice, on one thread: as it is, and with `a > b ? a : b` in place
of each minimum and maximum of floats, as `fp fast` has them, but nothing else of it. The two are called in turn;
the ratio is the median over the rounds of one call beside the next, in CPU time. `--write` puts the table into
RESULTS_zeros.md, below what it says of the rows over 2%.
"""

from __future__ import annotations

import argparse
import importlib
import os
import platform
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from statistics import median
from time import thread_time
from typing import Any
from unittest.mock import patch

import numpy as np

import dojoir

LOGSUMEXP = """kernel logsumexp(N, M)
in  x: f32[N, M]
out y: f32[N]
tmp m: f32[N]
tmp s: f32[N]

N @i
| m[{i}] = -inf
| M @j
| | m[{i}] max= x[{i}, {j}]
| s[{i}] = 0
| M @k
| | s[{i}] += exp(x[{i}, {k}] - m[{i}])
| y[{i}] = m[{i}] + log(s[{i}])
"""

CLAMP = """kernel clamp(N)
in  x: f32[N]
in  low: f32
in  high: f32
out y: f32[N]

N @i
| y[{i}] = min(max(x[{i}], low), high)
"""

ROWS: dict[str, tuple[str, list[dict[str, int]]]] = {
    "reduce_max": ("", [{"N": 64, "M": 4096}, {"N": 1024, "M": 1024}, {"N": 4096, "M": 4096}]),
    "softmax": ("", [{"N": 64, "M": 4096}, {"N": 1024, "M": 1024}, {"N": 4096, "M": 4096}]),
    "log_softmax": ("", [{"N": 1024, "M": 1024}]),
    "logsumexp": (LOGSUMEXP, [{"N": 1024, "M": 1024}, {"N": 4096, "M": 4096}]),
    "relu": ("", [{"N": 1 << 14}, {"N": 1 << 20}, {"N": 1 << 24}]),
    "bias_relu": ("", [{"N": 1024, "M": 1024}]),
    "clamp": (CLAMP, [{"N": 1 << 14}, {"N": 1 << 20}]),
    "maxpool2d": ("", [{"N": 2, "C": 32, "H": 112, "W": 112, "KH": 2, "KW": 2}]),
    "attention": ("", [{"H": 8, "T": 256, "D": 64}]),
}
"""Texts (none: the library's) and sizes."""

USERS = ("access.expr", "sums.collectives", "sums.reductions", "nests.scopes", "nests.lanes")
"""The modules of the lowering that choose an operation."""


def _bare_word(_unit: object, name: str, dtype: Any) -> str:
    return f"{name}_fast" if name in ("min", "max") and dtype.is_float else name


def _bare(kind: Any, op: str, left: Any, right: Any) -> Any:
    return importlib.import_module("dojoir.codegen.lir.program").Binary(kind, f"{op}_fast", left, right)


@contextmanager
def bare() -> Iterator[None]:
    """Kernels are lowered with comparisons for minima and maxima."""
    with ExitStack() as stack:
        for user in USERS:
            stack.enter_context(patch(f"dojoir.codegen.lower.{user}.combination", _bare_word))
        stack.enter_context(patch("dojoir.codegen.lower.access.expr.extreme", _bare))
        yield


def calls(name: str, sizes: dict[str, int], target: str) -> tuple[Callable[[], None], Callable[[], None]]:
    """Two calls of a row on the same arrays: as it is, and bare."""
    text = ROWS[name][0]
    kernel = dojoir.parse(text) if text else dojoir.kernels.load(name)
    scheduled = dojoir.optimize(kernel, target, sizes=sizes, threads=1).kernel
    exact = dojoir.compile(scheduled, target, threads=1)
    with bare():
        compared = dojoir.compile(scheduled, target, threads=1)
    if exact.source == compared.source:
        raise SystemExit(f"{name} has no minimum or maximum")
    rng = np.random.default_rng(0)
    given: list[object] = []
    for buffer in kernel.arguments:
        if buffer.role == "in" and not buffer.dims:
            given.append(-0.5 if buffer.name == "low" else 0.5)
            continue
        array = exact.empty(buffer.name, **sizes)
        array[...] = rng.standard_normal(array.shape)
        given.append(array)
    open_sizes = {name: sizes[name] for name in exact.open_sizes if name in sizes}
    return exact.bind(*given, **open_sizes), compared.bind(*given, **open_sizes)


def ratio(first: Callable[[], None], second: Callable[[], None], rounds: int) -> tuple[float, float]:
    """Milliseconds of the first, and how many times those of the second they are."""
    first(), second()

    def timed(call: Callable[[], None], times: int) -> float:
        start = thread_time()
        for _ in range(times):
            call()
        return (thread_time() - start) / times

    times = max(1, int(2e-3 / max(timed(first, 1), 1e-7)))
    pairs = [(timed(first, times), timed(second, times)) for _ in range(rounds)]
    return median(a for a, _ in pairs) * 1e3, median(a / b for a, b in pairs)


def table(rows: dict[str, tuple[str, list[dict[str, int]]]], targets: list[str], rounds: int) -> str:
    lines = ["| row | " + " | ".join(f"{target}, ms | ×" for target in targets) + " |"]
    lines.append("|---|" + "---:|---:|" * len(targets))
    for name, (_, shapes) in rows.items():
        for sizes in shapes:
            cells = []
            for target in targets:
                taken, times = ratio(*calls(name, sizes, target), rounds)
                cells += [f"{taken:.3f}", f"**{times:.2f}**" if times > 1.02 else f"{times:.2f}"]
            lines.append(f"| {name} {' × '.join(map(str, sizes.values()))} | {' | '.join(cells)} |")
            print(lines[-1], flush=True)
    return "\n".join(lines) + "\n"


def main() -> None:
    options = argparse.ArgumentParser(description="the cost of zeros")
    options.add_argument("--targets", nargs="+", default=["llvm", "c", "avx2"])
    options.add_argument("--rounds", type=int, default=41)
    options.add_argument("--rows", nargs="+", default=list(ROWS))
    options.add_argument("--write", action="store_true", help="put the table into RESULTS_zeros.md")
    given = options.parse_args()
    os.environ["DOJOIR_CACHE"] = ""  # what was kept of a row is how it is, not how it would be
    found = table({name: ROWS[name] for name in given.rows}, given.targets, given.rounds)
    if given.write:
        page = Path(__file__).with_name("RESULTS_zeros.md")
        text = page.read_text(encoding="utf-8").partition("| row |")[0]
        page.write_text(f"{text}{found}", encoding="utf-8")
    else:
        print(platform.processor())


if __name__ == "__main__":
    main()
