"""Texts of practice on a GPU, beside PyTorch eager: `python benchmarks/practice_gpu.py [--rows R] [--json FILE]`.

The texts are those of `practice.py`, of the folder `practice` or of the one that `--folder` names (`unseen`), at
the sizes that the comment `gpu` of each file says: 64 MB to 1 GB of data, or as models have them. What
`dojoir.optimize` makes of each for these sizes (`--open`: for any sizes) is run with PyTorch's expression in one
interleaved series, in an order that changes: a buffer of twice the L2 cache is written before each call, which
events time; medians. TF32 is off, and each result is first compared with eager's. A ratio above 1 says that dojoir
is faster. `--compile` adds torch.compile to every third text. `--from FILE` prints what was measured.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import statistics
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import asdict, dataclass, field
from functools import reduce
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import numpy as np
from practice import TOLERANCE, Text, folder_options, mean, shape_of, texts

import dojoir

ROUNDS, LEAST = 20, 5
MOST_SECONDS = 0.6
"""How long the series of one text may take, once each call was made LEAST times."""

HEAD_START = 1_000_000
"""Cycles that the GPU waits before a round, so that no call of it waits for the host."""


@dataclass(frozen=True)
class Made:
    """A text after `optimize`, which took `seconds` of the processor; or what went wrong."""

    text: str = ""
    seconds: float = 0.0
    error: str = ""


@dataclass(frozen=True)
class Row:
    """Microseconds of a text and of its peers, and what it took to schedule it."""

    group: str
    ours: float = 0.0
    eager: float = 0.0
    peers: dict[str, float] = field(default_factory=dict)
    error: str = ""
    seconds: float = 0.0
    bytes: int = 0
    schedule: str = ""

    @property
    def ratio(self) -> float:
        return self.eager / self.ours


def made(job: tuple[str, str, bool]) -> Made:
    """The text of a folder and a name for its sizes, or for any."""
    folder, name, is_open = job
    text = texts(folder)[name]
    start = time.process_time()
    try:
        if is_open:
            kernel = dojoir.optimize(text.kernel, "cuda", sizes=text.gpu).kernel
        else:
            kernel = dojoir.optimize(text.kernel.specialize(**text.gpu), "cuda").kernel
    except Exception as error:  # the other rows are wanted all the same
        return Made(error=f"{type(error).__name__}: {str(error)[:300]}")
    return Made(dojoir.to_text(kernel), time.process_time() - start)


class Bench:
    """A GPU with what is needed to time calls on it."""

    def __init__(self) -> None:
        import torch

        self.torch: Any = torch
        torch.backends.cuda.matmul.allow_tf32 = False
        torch.backends.cudnn.allow_tf32 = False
        torch.set_grad_enabled(False)
        facts = torch.cuda.get_device_properties(0)
        self.name = facts.name
        self.flushed = torch.empty(2 * facts.L2_cache_size, dtype=torch.uint8, device="cuda")

    def inputs(self, text: Text) -> dict[str, Any]:
        """The inputs of a text at its sizes for a GPU."""
        torch, found = self.torch, dict[str, Any]()
        torch.manual_seed(len(text.name))
        draw = np.random.default_rng(len(text.name))
        for buffer in text.kernel.arguments:
            if buffer.role == "out":
                continue
            shape, dtype = shape_of(buffer, text.gpu), getattr(torch, text.torch_type(buffer))
            if buffer.name in text.made:
                value = torch.from_numpy(text.input(buffer, text.gpu, draw)).cuda()
            elif buffer.name in text.bounds:
                high = text.gpu.get(text.bounds[buffer.name]) or int(text.bounds[buffer.name])
                value = torch.randint(0, high, shape, device="cuda").to(dtype)
            elif dtype == torch.bool:
                value = torch.randint(0, 2, shape, device="cuda").to(dtype)
            elif not dtype.is_floating_point:
                limits = torch.iinfo(dtype)
                value = torch.randint(limits.min, limits.max + 1, shape, device="cuda").to(dtype)
            else:
                value = torch.randn(shape, device="cuda", dtype=dtype) * text.scales.get(buffer.name, 1.0)
                value = value.abs() + 1e-3 if buffer.name in text.positive else value
            found[buffer.name] = value if shape else value.item()
        return found

    def subject(self, text: Text) -> tuple[dict[str, Any], dict[str, Any], Callable[..., Any]]:
        """The inputs of a text, its outputs before it runs, and its expression as a function of the inputs."""
        import torch.nn.functional as functional

        torch, given = self.torch, self.inputs(text)
        outputs = {
            b.name: given[b.name].clone()
            if b.role == "inout"
            else torch.full(shape_of(b, text.gpu), 77, device="cuda").to(getattr(torch, text.torch_type(b)))
            for b in text.kernel.arguments
            if b.role != "in"
        }
        names = {"torch": torch, "F": functional, "reduce": reduce, **text.gpu}
        return given, outputs, eval(f"lambda {', '.join(given)}: {text.eager_gpu or text.eager}", names)

    def row(self, text: Text, made: Made, peers: Sequence[str]) -> Row:
        """What was measured. Raises ArithmeticError where the results differ by more than rounding."""
        torch = self.torch
        given, outputs, function = self.subject(text)
        calls: dict[str, Callable[[], Any]] = {
            "ours": dojoir.compile(dojoir.parse(made.text), "cuda").bind(**{**given, **outputs}),
            "eager": lambda: function(*given.values()),
        }
        if "compile" in peers:
            torch._dynamo.reset()
            compiled = torch.compile(function, dynamic=False)
            calls["compile"] = lambda: compiled(*given.values())
        calls["ours"]()
        results = as_results(calls["eager"]())
        pairs = zip(outputs.items(), results, strict=True)
        apart = max(self.apart(array, theirs, name in text.codes) for (name, array), theirs in pairs)
        if not apart <= TOLERANCE:
            raise ArithmeticError(f"results are {apart:.2e} apart, as a share of the largest")
        del results
        times = self.timed(calls)
        ours, eager = times.pop("ours"), times.pop("eager")
        moved = sum(t.nbytes for t in [*given.values(), *outputs.values()] if hasattr(t, "nbytes"))
        return Row(text.group, ours, eager, times, "", made.seconds, moved, made.text)

    def apart(self, ours: Any, theirs: Any, codes: bool) -> float:
        """The largest difference, as a share of the largest value; of codes, the share of those that differ."""
        if tuple(ours.shape) != tuple(theirs.shape):
            raise ArithmeticError(f"a result of shape {tuple(ours.shape)} beside one of {tuple(theirs.shape)}")
        if codes:
            return float((ours != theirs).double().mean())
        a, b = ours.double(), theirs.double()
        return float((a - b).abs().max() / b.abs().max().clamp(min=1e-30))

    def timed(self, calls: Mapping[str, Callable[[], Any]]) -> dict[str, float]:
        """The median of the microseconds of each call."""
        torch = self.torch
        found: dict[str, list[float]] = {name: [] for name in calls}
        order, shuffle = list(calls), random.Random(0).shuffle
        torch.cuda.synchronize()
        began = time.perf_counter()
        for number in range(ROUNDS):
            shuffle(order)
            events = {}
            torch.cuda._sleep(HEAD_START)
            for name in order:
                first, second = (torch.cuda.Event(enable_timing=True) for _ in range(2))
                self.flushed.fill_(number % 251)
                first.record()
                calls[name]()
                second.record()
                events[name] = first, second
            torch.cuda.synchronize()
            for name, (first, second) in events.items():
                found[name].append(first.elapsed_time(second) * 1e3)
            if time.perf_counter() - began > MOST_SECONDS and number + 1 >= LEAST:
                break
        return {name: statistics.median(samples[1:]) for name, samples in found.items()}


def as_results(found: Any) -> tuple[Any, ...]:
    """What an expression gives, one or several."""
    return found if isinstance(found, tuple) else (found,)


def report(rows: Mapping[str, Row]) -> str:
    """The rows from the worst to the best, and the means."""
    right = {name: row for name, row in rows.items() if not row.error}
    lines = [f"{'text':26}{'group':20}{'ours us':>11}{'eager us':>11}{'ratio':>7}{'GB/s':>7}{'opt s':>7}"]
    for name, row in sorted(right.items(), key=lambda pair: pair[1].ratio):
        lines.append(
            f"{name:26}{row.group:20}{row.ours:11.1f}{row.eager:11.1f}{row.ratio:7.2f}"
            f"{row.bytes / row.ours / 1e3:7.0f}{row.seconds:7.1f}"
            + "".join(f"  {peer} {us / row.ours:.2f}" for peer, us in row.peers.items())
        )
    lines += [f"{name:26}{row.group:20}FAILED {row.error}" for name, row in rows.items() if row.error]
    if right:
        ratios = [row.ratio for row in right.values()]
        lines.append(
            f"{len(ratios)} rows, geometric mean {mean(ratios):.2f}; {sum(r >= 0.97 for r in ratios)} at 0.97 or "
            f"more, {sum(r < 0.7 for r in ratios)} under 0.7, {sum(r < 0.4 for r in ratios)} under 0.4"
        )
    return "\n".join(lines)


def main() -> None:
    folder = folder_options()
    known = texts(folder.parse_known_args()[0].folder)
    options = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter, parents=[folder]
    )
    options.add_argument("--rows", nargs="+", choices=[*known], metavar="ROW", help="only these texts")
    options.add_argument("--without", nargs="+", default=[], choices=[*known], metavar="ROW", help="not these")
    options.add_argument("--open", action="store_true", help="schedules for any sizes")
    options.add_argument("--compile", action="store_true", help="torch.compile beside every third text")
    options.add_argument("--json", type=Path, help="write the results there after each row")
    options.add_argument("--resume", action="store_true", help="leave out what that file has")
    options.add_argument("--minutes", type=float, default=60, help="begin no row after so long")
    options.add_argument("--processes", type=int, default=os.cpu_count() or 1, help="that schedule side by side")
    options.add_argument("--from", dest="made", type=Path, help="print what that file has")
    given = options.parse_args()
    rows: dict[str, Row] = {}
    source = given.made or (given.json if given.resume and given.json.exists() else None)
    if source:
        rows = {name: Row(**row) for name, row in json.loads(source.read_text()).items()}
    if not given.made:
        _measure(given, known, rows)
    print(report(rows))


def _measure(given: argparse.Namespace, known: Mapping[str, Text], rows: dict[str, Row]) -> None:
    began, bench = time.perf_counter(), Bench()
    wanted = [name for name in given.rows or known if name not in rows and name not in given.without]
    print(bench.name, len(wanted), "texts", file=sys.stderr, flush=True)
    with ProcessPoolExecutor(given.processes, mp_context=get_context("spawn")) as pool:
        jobs = {name: pool.submit(made, (given.folder, name, given.open)) for name in wanted}
        for number, name in enumerate(wanted):
            if time.perf_counter() - began > 60 * given.minutes:
                print("no time is left for", name, file=sys.stderr)
                break
            try:
                found = jobs[name].result(max(1.0, 60 * given.minutes - (time.perf_counter() - began)))
                if found.error:
                    raise ArithmeticError(found.error)
                rows[name] = bench.row(
                    known[name], found, ("compile",) if given.compile and number % 3 == 0 else ()
                )
            except Exception as error:  # the other rows are wanted all the same
                why = f"{type(error).__name__}: {str(error)[:300]}"
                rows[name] = Row(known[name].group, error=why)
            bench.torch.cuda.empty_cache()
            if given.json:
                given.json.write_text(json.dumps({name: asdict(row) for name, row in rows.items()}, indent=1))
        pool.shutdown(wait=False, cancel_futures=True)


if __name__ == "__main__":
    main()
