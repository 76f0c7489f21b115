"""Whole models by `torch.compile(backend="dojoir")`: how long they take to compile, whether they are right, and how
long a step takes, beside eager PyTorch and inductor.

    python benchmarks/models.py                      # inference by all of `networks`, on one thread
    python benchmarks/models.py bert gpt2 --training # a step: forward, backward
    python benchmarks/models.py --json rows.json     # a line for each row; rows that are there are not made again
    python benchmarks/models.py --page RESULTS.md    # the rows as a page
    python benchmarks/models.py --cuda --type bf16 --jobs 8   # those of `networks.wide`, on a GPU

Every compile is a process of its own with empty caches: seconds of CPU, its workers' included, up to the first
result; `again` is the next process with the caches of the first. Steps are timed in turn in one process. Results
and gradients are compared with f64, or with eager where dropout draws. On a GPU a row is one process, with the
caches that there are. A ratio above 1 says that dojoir is faster.
"""

from __future__ import annotations

import argparse
import copy
import fcntl
import json
import math
import os
import resource
import statistics
import subprocess
import sys
import tempfile
import time
import warnings
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor, as_completed
from contextlib import suppress
from pathlib import Path
from typing import Any

from module_workers import read_rows, write_row

from dojoir.runtime import processor
from dojoir.support.files import write_file

APART = {"f32": 1e-3, "bf16": 3e-2, "f16": 5e-3}
"""How far results and gradients may be from f64, of the largest number of each tensor; or twice as far as eager."""

SLOW = 0.6


def main() -> int:
    options = _options()
    warnings.simplefilter("ignore")
    if options.worker:
        print(json.dumps(_worked(options)))
        return 0
    from networks import MODELS, PROBLEMS, WIDE

    kept = Path(options.json) if options.json else None
    rows: list[dict[str, Any]] = [] if kept is None else read_rows(kept)
    there = {row["name"] for row in rows}
    names = options.names or (WIDE if options.cuda else MODELS | PROBLEMS)
    unknown = [name for name in names if name not in MODELS | PROBLEMS | WIDE]
    if unknown:
        print(
            f"models.py: there is no row {unknown[0]}: they are {', '.join(MODELS | PROBLEMS | WIDE)}",
            file=sys.stderr,
        )
        return 2
    with ThreadPoolExecutor(options.jobs) as pool, tempfile.NamedTemporaryFile(prefix="models-lock-") as lock:
        options.lock = lock.name
        asked = {pool.submit(_row, name, options): name for name in names if name not in there}
        for done in as_completed(asked):
            row = {"name": asked[done]} | done.result()
            rows.append(row)
            print(_line(row), flush=True)
            if kept is not None:
                write_row(kept, row)
    print("\n".join(_means(rows)))
    if options.page:
        write_file(options.page, page(rows, options))
    return 0


def _options() -> argparse.Namespace:
    made = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    made.add_argument("names", nargs="*", metavar="NAME", help="the rows (all)")
    made.add_argument("--training", action="store_true", help="steps with gradients, in training mode")
    made.add_argument("--alone", action="store_true", help="one process a row, beside eager only")
    made.add_argument("--cuda", action="store_true", help="on a GPU")
    made.add_argument("--type", choices=list(APART), default="f32", help="of parameters and inputs (f32)")
    made.add_argument("--profile", action="store_true", help="on a GPU: the kernels that take longest, in ms")
    made.add_argument("--jobs", type=int, default=1, help="processes side by side; one at a time is timed (1)")
    made.add_argument("--threads", type=int, default=1)
    made.add_argument("--limit", type=float, default=600.0, help="seconds of a process at most (600)")
    made.add_argument("--seconds", type=float, default=3.0, help="of the rounds of a row (3)")
    made.add_argument("--json", metavar="FILE", help="add a line for each row there, and go on from what is there")
    made.add_argument("--page", metavar="FILE", help="write the rows as a page")
    made.add_argument("--worker", choices=["dojoir", "inductor", "both"], help=argparse.SUPPRESS)
    made.add_argument("--lock", help=argparse.SUPPRESS)
    return made.parse_args()


def _row(name: str, options: argparse.Namespace) -> dict[str, Any]:
    """A row: compiled by each, again by dojoir, then timed side by side."""
    row: dict[str, Any] = {}
    with tempfile.TemporaryDirectory(prefix="models-") as folder:
        compiles = (("dojoir", "compile"), ("dojoir", "again"), ("inductor", "inductor compile"))
        for by, key in (*(() if options.alone or options.cuda else compiles), ("both", "")):
            found = _asked(name, by, folder, options)
            if "error" in found:
                return row | {"error": f"{by}: {found['error']}"}
            row |= {key: found["cpu"]} if key else found
    return row


def _asked(name: str, by: str, folder: str, options: argparse.Namespace) -> dict[str, Any]:
    command = [sys.executable, __file__, name, "--worker", by, "--threads", str(options.threads)]
    command += ["--seconds", str(options.seconds), *["--training"] * options.training, *["--alone"] * options.alone]
    command += ["--type", options.type, "--lock", options.lock, *["--cuda"] * options.cuda]
    command += ["--profile"] * options.profile
    kept = {"DOJOIR_CACHE": f"{folder}/dojoir", "TORCHINDUCTOR_CACHE_DIR": f"{folder}/inductor"}
    if options.cuda:
        kept = {}
    try:
        done = subprocess.run(
            command, env=os.environ | kept, capture_output=True, text=True, timeout=options.limit, check=False
        )
    except subprocess.TimeoutExpired:
        return {"error": f"not ready in {options.limit:.0f} s"}
    if done.returncode:
        return {"error": (done.stderr.strip().splitlines() or ["?"])[-1][:200]}
    answer: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return answer


def _worked(options: argparse.Namespace) -> dict[str, Any]:
    """In a process of its own: one compile by one of the two, or both with what they kept, timed."""
    import torch
    from networks import ALL

    import dojoir
    from dojoir.torch.compiler import CompileBackend

    torch.set_num_threads(options.threads)
    torch.manual_seed(0)
    module, inputs = ALL[options.names[0]]()
    if _is_model(options.names[0]) and not options.training:
        module.eval()
    device = torch.device("cuda" if options.cuda else "cpu")
    dtype = {"f32": torch.float32, "bf16": torch.bfloat16, "f16": torch.float16}[options.type]
    module = module.to(device, dtype)
    inputs = tuple(x.to(device, dtype if x.is_floating_point() else None) for x in inputs)
    backend = CompileBackend()
    made = {"dojoir": lambda m: torch.compile(m, backend=backend), "inductor": torch.compile}
    if any(isinstance(part, torch.nn.RNNBase) for part in module.modules()):  # which torch.compile does not trace
        made["dojoir"] = lambda m: dojoir.torch.from_module(m, inputs, threads=options.threads)
    if options.worker != "both":
        start = _cpu()
        call = _step(made[options.worker](module), inputs, options.training)
        call()
        answer: dict[str, Any] = {"cpu": round(_cpu() - start, 2)}
        return answer
    row: dict[str, Any] = {}
    if options.alone:
        del made["inductor"]
    modules = {which: copy.deepcopy(module) for which in made}
    steps: dict[str, Callable[[], Any]] = {"eager": _step(module, inputs, options.training)}
    found = {"eager": _seeded(steps["eager"])}
    for which, of in made.items():
        start = _cpu()
        steps[which] = _step(of(modules[which]), inputs, options.training)
        found[which] = _seeded(steps[which])
        if which == "dojoir":
            row["compile"] = round(_cpu() - start, 2)
    row |= {"type": options.type, "kernels": sum(len(r.parts) for r in backend.report.runners)}
    row |= {"left": [str(one) for one in backend.report.left]}
    right = found["eager"]
    drawn = any(isinstance(part, torch.nn.Dropout) and part.training and part.p for part in module.modules())
    wide = copy.deepcopy(module).double()
    with suppress(RuntimeError):  # of a module that says f32 in its code: eager's results stand for its
        given = [x.double() if x.is_floating_point() else x for x in inputs]
        right = right if drawn else _seeded(_step(wide, given, options.training))
    row["apart"] = max(_difference(a, b) for a, b in zip(found["dojoir"], right, strict=True))
    row["eager apart"] = max(_difference(a, b) for a, b in zip(found["eager"], right, strict=True))
    row |= {"device": torch.cuda.get_device_name()} if options.cuda else {}
    with open(options.lock, "rb") as lock:  # no other worker is timed meanwhile
        fcntl.flock(lock, fcntl.LOCK_EX)
        row |= _rounds(steps, options)
        if options.profile and options.cuda:
            row["longest"] = {name: _longest(step) for name, step in steps.items()}
    return row


def _is_model(name: str) -> bool:
    from networks import MODELS, WIDE

    return name in MODELS or name in WIDE


def _longest(step: Callable[[], Any]) -> list[tuple[str, int, float]]:
    """The kernels of a step on a GPU that take longest: a name, how often it runs, milliseconds of all of it."""
    import torch
    from torch.profiler import ProfilerActivity, profile

    step()
    with profile(activities=[ProfilerActivity.CUDA]) as seen:
        step()
        torch.cuda.synchronize()
    kernels = [(e.key[:90], e.count, e.device_time_total / 1e3) for e in seen.key_averages()]
    return sorted(kernels, key=lambda one: -one[2])[:12]


def _cpu() -> float:
    """Seconds of CPU of this process and of those that it waited for."""
    used = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(one.ru_utime + one.ru_stime for one in used)


def _tensors(given: Any) -> list[Any]:
    import torch
    from torch.utils import _pytree as pytree

    return [t for t in pytree.tree_leaves(given) if isinstance(t, torch.Tensor)]


def _step(module: Any, inputs: Any, training: bool) -> Callable[[], list[Any]]:
    """A step: the results, or the results and the gradients of their sum of products with themselves."""
    import torch

    def infer() -> list[Any]:
        with torch.no_grad():
            return _tensors(module(*inputs))

    def train() -> list[Any]:
        module.zero_grad(set_to_none=True)
        results = _tensors(module(*inputs))
        floats = [r for r in results if r.is_floating_point()]
        sum((r * r).mean() if r.dim() else r for r in floats).backward()
        return [r.detach() for r in results] + [p.grad for p in module.parameters() if p.grad is not None]

    return train if training else infer


def _seeded(step: Callable[[], list[Any]]) -> list[Any]:
    import torch

    torch.manual_seed(1)
    return [t.detach().clone() for t in step()]


def _difference(found: Any, right: Any) -> float:
    if not right.dtype.is_floating_point:
        return float((found != right).sum())
    found, right = found.double(), right.double()
    apart = (found - right).abs()
    apart[found == right] = 0
    limit = right[right.isfinite()].abs().max() if right.isfinite().any() else 0.0
    return float((apart.max() / (limit + 1e-6)).nan_to_num(1e9)) if apart.numel() else 0.0


def _rounds(steps: dict[str, Callable[[], Any]], options: argparse.Namespace) -> dict[str, float]:
    """Seconds of a step of each, in turn: on one thread the least of CPU, as what else runs disturbs the clock; the
    median by the clock on several."""
    import torch

    cpu = options.threads == 1 and not options.cuda
    clock, of = (time.process_time, min) if cpu else (time.perf_counter, statistics.median)
    wait = torch.cuda.synchronize if options.cuda else lambda: None
    counts = {}
    for name, step in steps.items():
        start = clock()
        step()
        wait()
        counts[name] = max(1, int(5e-3 / max(clock() - start, 1e-7)))
    found: dict[str, list[float]] = {name: [] for name in steps}
    end = time.perf_counter() + options.seconds
    while time.perf_counter() < end or len(found["eager"]) < 7:
        for name, step in steps.items():
            start = clock()
            for _ in range(counts[name]):
                step()
            wait()
            found[name].append((clock() - start) / counts[name])
    return {name: of(samples) for name, samples in found.items()}


def _is_wrong(row: dict[str, Any]) -> bool:
    return row["apart"] > max(APART[row.get("type", "f32")], 2 * row["eager apart"])


def _line(row: dict[str, Any]) -> str:
    if "error" in row:
        return f"{row['name']:32} {row['error']}"
    wrong = f"  APART {row['apart']:.1e} (eager {row['eager apart']:.1e})" if _is_wrong(row) else ""
    left = f"  left {len(row['left'])}" if row["left"] else ""
    line = f"{row['name']:32} compile {row['compile']:6.1f} s"
    if "again" in row:
        line += f" again {row['again']:5.1f} inductor {row['inductor compile']:6.1f} s"
    line += f"  step {row['dojoir'] * 1e3:8.2f} ms, eager {row['eager'] / row['dojoir']:5.2f}"
    line += f", inductor {row['inductor'] / row['dojoir']:5.2f}" if "inductor" in row else ""
    return line + left + wrong


def _means(rows: list[dict[str, Any]]) -> list[str]:
    timed = [row for row in rows if "error" not in row]
    lines = []
    for what, by in (("eager", "dojoir"), ("inductor", "dojoir"), ("inductor compile", "compile")):
        ratios = [row[what] / row[by] for row in timed if what in row and by in row]
        if ratios:
            mean = math.exp(sum(map(math.log, ratios)) / len(ratios))
            slow = sum(ratio < SLOW for ratio in ratios)
            lines.append(f"beside {what}: geometric mean {mean:.2f} of {len(ratios)}, {slow} under {SLOW}")
    wrong = [row["name"] for row in timed if _is_wrong(row)]
    failed = [row["name"] for row in rows if "error" in row]
    lines += [f"apart from PyTorch: {', '.join(wrong)}"] if wrong else []
    return lines + ([f"failed: {', '.join(failed)}"] if failed else [])


def page(rows: list[dict[str, Any]], options: argparse.Namespace) -> str:
    """The rows as a page, the slow ones first. What was not measured is left out."""
    what = "a forward and a backward pass, in training mode" if options.training else "a forward pass"
    flags = " --training" * options.training + " --alone" * options.alone
    flags += f" --cuda --type {options.type}" if options.cuda else ""
    again = "" if options.cuda else ", with empty caches; *again* is the next process"
    on_gpu = [row["device"] for row in rows if "device" in row]
    device = on_gpu[0] if on_gpu else f"{processor()}, {options.threads} thread(s)"
    lines = [
        "# Models beside PyTorch", "",
        f'By `torch.compile(model, backend="dojoir")` on {device}: '
        f"`python benchmarks/models.py{flags}`. A step is {what}, in ms. Compiles are in seconds of "
        f"CPU{again}. A ratio above 1 says that dojoir is faster.", "",
        "; ".join(_means(rows)) + ".", "",
        "| model | kernels | compile | again | inductor's | a step | eager | inductor |",
        "|---|---:|---:|---:|---:|---:|---:|---:|",
    ]  # fmt: skip
    for row in sorted(rows, key=lambda r: r["eager"] / r["dojoir"] if "error" not in r else 0.0):
        if "error" in row:
            lines.append(f"| {row['name']}: {row['error']} | | | | | | | |")
            continue
        cells = [row["name"], row["kernels"], f"{row['compile']:.1f}"]
        cells += [f"{row[key]:.1f}" if key in row else "" for key in ("again", "inductor compile")]
        cells += [f"{row['dojoir'] * 1e3:.2f}"]
        cells += [f"{row[key] / row['dojoir']:.2f}" if key in row else "" for key in ("eager", "inductor")]
        lines.append(f"| {' | '.join(map(str, cells))} |")
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    sys.exit(main())
