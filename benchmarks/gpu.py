"""Kernels on a GPU beside PyTorch, Triton, JAX and CuPy: `python benchmarks/gpu.py [--rows softmax] [--json FILE]`.

dojoir runs what `dojoir.optimize` makes of each kernel: for the sizes of the row, the same under `fp fast`, and
for any sizes. Each row
is run with its peers and a copy in one interleaved series: each call in turn, in an order that changes, a buffer of
twice the L2 cache written before it, timed by events; medians. Then the same hot: nothing is written between. JAX,
which has a stream of its own, is timed by the profiler, cold: the sum of the times of its kernels, and what events
see besides of PyTorch's call. Data are random, TF32 is off, and each result is first compared with the same work in
f64. `--resume` leaves out rows that the JSON file has; `--page FILE` writes the tables of a JSON file as Markdown
(`gpu_page.py`), which needs no GPU.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import statistics
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from gpu_jax import Jax, kernel_time
from gpu_page import page
from gpu_rows import ROWS, Row
from gpu_schedules import VARIANTS, Scheduled, Variant, schedules

import dojoir

Call = Callable[[], Any]
ROUNDS = 40
COPY_BYTES = 1 << 30
MOST_SECONDS = 2.0
HEAD_START = 3_000_000
"""Cycles that the GPU waits before a round, so that no call of it waits for the host."""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument(
        "--rows", default="", help="words of names of rows, with commas between them; all by default"
    )
    parser.add_argument("--json", default="gpu.json", metavar="FILE", help="where the figures are written")
    parser.add_argument("--resume", action="store_true", help="leave out rows that the file has")
    parser.add_argument(
        "--page", metavar="FILE", help="write the tables of the JSON file as Markdown, and run nothing"
    )
    parser.add_argument("--rounds", type=int, default=ROUNDS)
    parser.add_argument("--eager", action="store_true", help="without torch.compile")
    parser.add_argument("--no-jax", action="store_true", help="without JAX")
    parser.add_argument("--minutes", type=float, default=60, help="begin no row after so long")
    given = parser.parse_args()
    path = Path(given.json)
    found: dict[str, Any] = json.loads(path.read_text()) if (given.resume or given.page) and path.exists() else {}
    if given.page:
        Path(given.page).write_text(page(found), encoding="utf-8")
        return
    began = time.perf_counter()
    rows = found.setdefault("rows", {})
    words = [word for word in given.rows.split(",") if word]
    wanted = [n for n, row in enumerate(ROWS) if not words or any(word in row.name for word in words)]
    wanted = [n for n in wanted if not (given.resume and "dojoir" in rows.get(ROWS[n].name, {}).get("us", {}))]
    made = schedules(wanted, os.cpu_count() or 1)
    print(f"{len(made)} schedules ({time.perf_counter() - began:.0f} s)", flush=True)
    bench = Bench(given.rounds, not given.eager, None if given.no_jax else Jax.load())
    found.setdefault("machine", {}).update(bench.machine)
    for number in wanted:
        start = time.perf_counter()
        if start - began > 60 * given.minutes:
            print("no time is left for", ROWS[number].name, flush=True)
            continue
        row = ROWS[number]
        try:
            rows[row.name] = bench.row(row, {variant: made[number, variant] for variant in VARIANTS})
        except Exception as error:  # the other rows are wanted all the same
            rows[row.name] = {"error": f"{type(error).__name__}: {str(error)[:300]}"}
        print(row.name, summary(rows[row.name]), f"({time.perf_counter() - start:.0f} s)", flush=True)
        path.write_text(json.dumps(found, indent=1, ensure_ascii=False))
        bench.torch.cuda.empty_cache()
    print(page(found))


class Bench:
    """A GPU with what is needed to time calls on it."""

    def __init__(self, rounds: int, compiled: bool, jax: Jax | None) -> None:
        import torch

        self.torch: Any = torch
        self.rounds, self.compiled, self.jax = rounds, compiled, jax
        torch.backends.cuda.matmul.allow_tf32 = False
        torch.backends.cudnn.allow_tf32 = False
        torch.manual_seed(int(time.time()))
        facts = torch.cuda.get_device_properties(0)
        self.flushed = torch.empty(2 * facts.L2_cache_size, dtype=torch.uint8, device="cuda")
        self.copied = torch.rand(COPY_BYTES // 4, device="cuda"), torch.empty(COPY_BYTES // 4, device="cuda")
        kernel = dojoir.optimize(dojoir.kernels.load("relu", N=1 << 20), "cuda").kernel
        reached = dojoir.measure(kernel, "cuda", budget=0.2)
        self.machine = {
            "gpu": facts.name,
            "multiprocessors": facts.multi_processor_count,
            "L2": facts.L2_cache_size,
            "torch": torch.__version__,
            "cuda": torch.version.cuda,
            "jax": None if jax is None else jax.version,
            "GFLOP/s": reached.arithmetic_ceiling,
        }

    def row(self, row: Row, made: Mapping[Variant, Scheduled]) -> dict[str, Any]:
        """The figures of a row: `us` and `hot` by contestant, `errors`, what `failed`, and the copy's bytes."""
        torch = self.torch
        torch._dynamo.reset()
        dtype = getattr(torch, row.dtype)
        inputs = {
            name: (torch.rand if name in row.positive else torch.randn)(shape, device="cuda").to(dtype)
            for name, shape in row.inputs.items()
        }
        outputs = {name: torch.empty(shape, dtype=dtype, device="cuda") for name, shape in row.outputs.items()}
        given, first = [*inputs.values()], next(iter(outputs.values()))
        reference = _several(row.function(*(tensor.double() for tensor in given)))
        arguments = {**inputs, **row.scalars, **outputs}
        contestants: dict[str, Callable[[], tuple[Call, list[Any] | None]]] = {
            **{
                name: lambda one=one: (self.compile(one, arguments), [*outputs.values()])
                for name, one in made.items()
            },
            "eager": lambda: (lambda: row.function(*given), None),
        }
        if self.compiled:
            function = torch.compile(row.function, dynamic=False)
            contestants["compile"] = lambda: (lambda: function(*given), None)
        for name, peer in row.others.items():
            contestants[name] = lambda peer=peer: (peer(torch, given, first), [first])
        errors: dict[str, float] = {}
        failed: dict[str, str] = {}
        calls: dict[str, Call] = {}
        for name, make in contestants.items():
            try:
                call, written = make()
                for tensor in written or ():
                    tensor.fill_(float("nan"))
                result = call()
                torch.cuda.synchronize()
                self.check(name, written or _several(result), reference, row.tolerance, errors)
            except Exception as error:
                failed[name] = f"{type(error).__name__}: {str(error)[:300]}"
                continue
            calls[name] = call
        source, target = self.copied
        calls["copy"] = lambda: target.copy_(source)
        cold, hot = self.timed(calls, True), self.timed(calls, False)
        us = {name: statistics.median(samples) for name, samples in cold.items()}
        if self.jax is not None and row.jax is not None:
            try:
                time_of_kernels, result = self.jax.time(row.jax, given, self.flush)
                self.check("JAX", [result], reference, row.tolerance, errors)
                around = us["eager"] - kernel_time(calls["eager"], self.flush)
                us["JAX"] = time_of_kernels + max(0.0, around)
            except Exception as error:
                failed["JAX"] = f"{type(error).__name__}: {str(error)[:300]}"
        return {
            "us": us,
            "hot": {name: statistics.median(samples) for name, samples in hot.items()},
            "quartiles": {name: statistics.quantiles(samples, n=4)[::2] for name, samples in cold.items()},
            "rounds": len(cold["copy"]),
            "errors": errors,
            "failed": failed,
            "bytes": row.bytes,
            "flops": row.flops,
            "copy": 2 * COPY_BYTES,
            "moves": made["dojoir"].moves,
            "seconds": made["dojoir"].seconds,
        }

    def compile(self, made: Scheduled, arguments: Mapping[str, Any]) -> Call:
        """A call of a kernel with its arguments checked once."""
        if made.error:
            raise RuntimeError(made.error)
        call: Call = dojoir.compile(dojoir.parse(made.text), "cuda").bind(**arguments)
        return call

    def check(
        self, name: str, found: Sequence[Any], reference: Sequence[Any], tolerance: float, errors: dict[str, float]
    ) -> None:
        """How far off the results are, relative to the norm of each reference. Raises AssertionError for more than
        `tolerance`, NaN too."""
        norm = self.torch.linalg.vector_norm
        errors[name] = max(float(norm(f.double() - r) / norm(r)) for f, r in zip(found, reference, strict=False))
        if not errors[name] <= tolerance:
            raise AssertionError(f"the result is off by {errors[name]:.2e}, more than {tolerance:g}")

    def flush(self) -> None:
        """Writes twice what the L2 cache holds."""
        self.flushed.fill_(random.randrange(251))
        self.torch.cuda.synchronize()

    def timed(self, calls: Mapping[str, Call], cold: bool) -> dict[str, list[float]]:
        """Microseconds of each call, in rounds."""
        torch = self.torch
        events: dict[str, list[tuple[Any, Any]]] = {name: [] for name in calls}
        for call in calls.values():
            for _ in range(3):
                call()
        torch.cuda.synchronize()
        order = list(calls)
        shuffle = random.Random(0).shuffle
        started = time.perf_counter()
        for number in range(self.rounds if cold else self.rounds // 2):
            shuffle(order)
            torch.cuda._sleep(HEAD_START)
            for name in order:
                first, second = (torch.cuda.Event(enable_timing=True) for _ in range(2))
                if cold:
                    self.flushed.fill_(number % 251)
                else:
                    calls[name]()
                first.record()
                calls[name]()
                second.record()
                events[name].append((first, second))
            torch.cuda.synchronize()
            if time.perf_counter() - started > MOST_SECONDS and number >= 9:
                break
        return {name: [a.elapsed_time(b) * 1e3 for a, b in pairs] for name, pairs in events.items()}


def _several(result: Any) -> list[Any]:
    return [*result] if isinstance(result, tuple | list) else [result]


def summary(row: Mapping[str, Any]) -> str:
    if "error" in row:
        return str(row["error"])
    times = "  ".join(f"{name} {us:.1f}" for name, us in row["us"].items() if name != "copy")
    return times + "".join(f"  {name} FAILED {why}" for name, why in row["failed"].items())


if __name__ == "__main__":
    main()
