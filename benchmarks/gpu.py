"""Kernels on a GPU beside PyTorch, Triton and CuPy: `python benchmarks/gpu.py [--rows softmax,relu] [--json FILE]`.

Each row is run with its peers and a copy in one interleaved series: every call in turn, in an order that changes, a
buffer of twice the L2 cache written before each, timed by events; medians. Data are random, TF32 is off, and each
result is first compared with the same work in f64. `--resume` leaves out rows that the JSON file has; `--page FILE`
writes the table of a JSON file, which needs no GPU.
"""

from __future__ import annotations

import argparse
import json
import random
import statistics
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from gpu_rows import ROWS, Row

import dojoir

Call = Callable[[], Any]
ROUNDS = 40
COPY_BYTES = 1 << 30
MOST_SECONDS = 3.0
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
        "--page", metavar="FILE", help="write the table of the JSON file as Markdown, and run nothing"
    )
    parser.add_argument("--rounds", type=int, default=ROUNDS)
    parser.add_argument("--eager", action="store_true", help="without torch.compile")
    given = parser.parse_args()
    path = Path(given.json)
    found: dict[str, Any] = json.loads(path.read_text()) if (given.resume or given.page) and path.exists() else {}
    if given.page:
        Path(given.page).write_text(page(found), encoding="utf-8")
        return
    words = [word for word in given.rows.split(",") if word]
    bench = Bench(given.rounds, not given.eager)
    found.setdefault("machine", {}).update(bench.machine)
    rows = found.setdefault("rows", {})
    for row in ROWS:
        if (words and not any(word in row.name for word in words)) or (
            given.resume and "dojoir" in rows.get(row.name, {}).get("us", {})
        ):
            continue
        start = time.perf_counter()
        try:
            rows[row.name] = bench.row(row)
        except Exception as error:  # the other rows are wanted all the same
            rows[row.name] = {"error": f"{type(error).__name__}: {str(error)[:300]}"}
        print(row.name, summary(rows[row.name]), f"({time.perf_counter() - start:.0f} s)", flush=True)
        path.write_text(json.dumps(found, indent=1, ensure_ascii=False))
    print(page(found))


class Bench:
    """A GPU with what is needed to time calls on it."""

    def __init__(self, rounds: int, compiled: bool) -> None:
        import torch

        self.torch: Any = torch
        self.rounds, self.compiled = rounds, compiled
        torch.backends.cuda.matmul.allow_tf32 = False
        torch.backends.cudnn.allow_tf32 = False
        torch.manual_seed(int(time.time()))
        facts = torch.cuda.get_device_properties(0)
        self.flushed = torch.empty(2 * facts.L2_cache_size, dtype=torch.uint8, device="cuda")
        self.copied = torch.rand(COPY_BYTES // 4, device="cuda"), torch.empty(COPY_BYTES // 4, device="cuda")
        self.machine = {
            "gpu": facts.name,
            "multiprocessors": facts.multi_processor_count,
            "L2": facts.L2_cache_size,
            "torch": torch.__version__,
            "cuda": torch.version.cuda,
        }

    def row(self, row: Row) -> dict[str, Any]:
        """The figures of a row: `us` by contestant, `errors`, and the copy's bytes a second."""
        torch = self.torch
        torch._dynamo.reset()
        dtype = getattr(torch, row.dtype)
        inputs = [
            (torch.rand if name in row.positive else torch.randn)(shape, device="cuda").to(dtype)
            for name, shape in row.inputs.items()
        ]
        output = torch.empty(row.output, dtype=dtype, device="cuda")
        reference = row.function(*(given.double() for given in inputs))
        errors: dict[str, float] = {}
        failed: dict[str, str] = {}
        calls: dict[str, Call] = {}
        start = time.perf_counter()
        compiled = dojoir.compile(dojoir.parse(row.text()), "cuda")
        built = time.perf_counter() - start
        contestants: dict[str, Callable[[], tuple[Call, Any]]] = {
            "dojoir": lambda: (compiled.bind(*inputs, output), output),
            "eager": lambda: (lambda: row.function(*inputs), None),
        }
        if self.compiled:
            function = torch.compile(row.function, dynamic=False)
            contestants["compile"] = lambda: (lambda: function(*inputs), None)
        for name, peer in row.others.items():
            contestants[name] = lambda peer=peer: (peer(torch, inputs, output), output)
        for name, make in contestants.items():
            try:
                call, where = make()
                if where is not None:
                    where.fill_(float("nan"))
                result = call()
                torch.cuda.synchronize()
                errors[name] = self.error(result if where is None else where, reference)
                if not errors[name] <= row.tolerance:
                    raise AssertionError(f"the result is off by {errors[name]:.2e}, more than {row.tolerance:g}")
            except Exception as error:
                failed[name] = f"{type(error).__name__}: {str(error)[:300]}"
                continue
            calls[name] = call
        del reference
        source, target = self.copied
        calls["copy"] = lambda: target.copy_(source)
        times = self.timed(calls)
        return {
            "us": {name: statistics.median(samples) for name, samples in times.items()},
            "quartiles": {name: statistics.quantiles(samples, n=4)[::2] for name, samples in times.items()},
            "rounds": len(times["copy"]),
            "errors": errors,
            "failed": failed,
            "bytes": row.bytes,
            "flops": row.flops,
            "copy": 2 * COPY_BYTES,
            "by": row.by,
            "built": built,
        }

    def error(self, found: Any, reference: Any) -> float:
        """How far off a result is, relative to the norm of the reference."""
        norm = self.torch.linalg.vector_norm
        return float(norm(found.double() - reference) / norm(reference))

    def timed(self, calls: Mapping[str, Call]) -> dict[str, list[float]]:
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
        for number in range(self.rounds):
            shuffle(order)
            torch.cuda._sleep(HEAD_START)
            for name in order:
                first, second = (torch.cuda.Event(enable_timing=True) for _ in range(2))
                self.flushed.fill_(number % 251)
                first.record()
                calls[name]()
                second.record()
                events[name].append((first, second))
            torch.cuda.synchronize()
            if time.perf_counter() - started > MOST_SECONDS and number >= 9:
                break
        return {name: [a.elapsed_time(b) * 1e3 for a, b in pairs] for name, pairs in events.items()}


def summary(row: Mapping[str, Any]) -> str:
    if "error" in row:
        return str(row["error"])
    times = "  ".join(f"{name} {us:.1f}" for name, us in row["us"].items() if name != "copy")
    return times + "".join(f"  {name} FAILED {why}" for name, why in row["failed"].items())


def page(found: Mapping[str, Any]) -> str:
    """The table of all rows, as Markdown."""
    machine = found["machine"]
    lines = [
        f"# dojoir on {machine['gpu']}",
        "",
        f"Medians in µs of interleaved cold calls (a buffer of twice the L2 cache is written before each), PyTorch "
        f"{machine['torch']}, TF32 off, random data, every result first held against f64. `of copy` is the share "
        f"of the bytes a second of a copy in the same run; `beside` is the best peer's time over dojoir's: above "
        f"1, dojoir is faster. Made by `benchmarks/gpu.py`.",
        "",
        "| row | dojoir | eager | compile | others | beside | of copy | TFLOP/s | how |",
        "|---|---|---|---|---|---|---|---|---|",
    ]
    ratios = []
    for name, row in found["rows"].items():
        if "error" in row or "dojoir" not in row["us"]:
            why = row.get("error") or row["failed"].get("dojoir")
            lines.append(f"| {name} | {why} | | | | | | | {row.get('by', '')} |")
            continue
        us = row["us"]
        own = us["dojoir"]
        peers = {peer: time for peer, time in us.items() if peer not in ("dojoir", "copy")}
        best = min(peers.values(), default=float("nan"))
        ratios.append((name, best / own, row["flops"] > 0))
        share = row["bytes"] / own / (row["copy"] / us["copy"])
        others = ", ".join(f"{peer} {time:.1f}" for peer, time in peers.items() if peer not in ("eager", "compile"))
        cells = [
            name,
            f"{own:.1f}",
            *(f"{peers[p]:.1f}" if p in peers else "" for p in ("eager", "compile")),
            others,
        ]
        cells += [f"{best / own:.2f}", "" if row["flops"] else f"{share:.0%}"]
        cells += [f"{row['flops'] / own * 1e-6:.1f}" if row["flops"] else "", row["by"]]
        lines.append(f"| {' | '.join(cells)} |")
    plain = [ratio for _, ratio, product in ratios if not product]
    if plain:
        faster, slow = sum(r > 1 for r in plain), sum(r < 1 / 1.05 for r in plain)
        copies = [row["copy"] / row["us"]["copy"] * 1e-6 for row in found["rows"].values() if "us" in row]
        lines += [
            "",
            f"Of {len(plain)} rows that are no products, {faster} are faster than the best peer, and {slow} "
            f"slower by more than 5%. The copy moved {statistics.median(copies):.2f} TB/s.",
        ]
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    main()
