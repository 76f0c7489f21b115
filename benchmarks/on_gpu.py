"""Texts on a GPU of this machine, beside PyTorch: planned in processes side by side, timed one by one."""

from __future__ import annotations

import argparse
import random
import statistics
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, replace
from multiprocessing import get_context
from typing import Any

import numpy as np
from peers import as_results, function_of
from report import Row
from suites import SUITES, Text, shape_of

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
    moves: int = 0
    error: str = ""


def made(text: Text, sizes: str) -> Made:
    """The text for its sizes on a GPU: told, as constants, or any."""
    start = time.process_time()
    try:
        known = {name: size for name, size in text.gpu.items() if name in text.kernel.runtime_sizes}
        kernel = text.kernel.specialize(**known) if sizes == "fixed" else text.kernel
        trace = dojoir.optimize(kernel, "cuda", sizes=text.gpu if sizes == "told" else None)
    except Exception as error:  # the other rows are wanted all the same
        return Made(error=f"{type(error).__name__}: {str(error)[:300]}")
    return Made(dojoir.to_text(trace.kernel), time.process_time() - start, len(trace.moves))


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
        torch, given = self.torch, self.inputs(text)
        outputs = {
            b.name: given[b.name].clone()
            if b.role == "inout"
            else torch.full(shape_of(b, text.gpu), 77, device="cuda").to(getattr(torch, text.torch_type(b)))
            for b in text.kernel.arguments
            if b.role != "in"
        }
        return given, outputs, function_of(text, text.eager_gpu or text.eager, text.gpu)

    def row(self, text: Text, made: Made, peers: Sequence[str], tolerance: float) -> Row:
        """What was measured. Raises ArithmeticError where the results differ by more than rounding."""
        torch = self.torch
        given, outputs, function = self.subject(text)
        calls: dict[str, Callable[[], Any]] = {
            "ours": dojoir.compile(dojoir.parse(made.text), "cuda").bind(**{**given, **outputs}),
            "eager": lambda: function(*given.values()),
        }
        if "compiled" in peers:
            torch._dynamo.reset()
            compiled = torch.compile(function, dynamic=False)
            calls["compiled"] = lambda: compiled(*given.values())
        calls["ours"]()
        pairs = zip(outputs.items(), as_results(calls["eager"]()), strict=True)
        apart = max(self.apart(array, theirs, name in text.codes) for (name, array), theirs in pairs)
        if not apart <= tolerance:
            raise ArithmeticError(f"results are {apart:.2e} apart, as a share of the largest")
        times = {name: us * 1e-6 for name, us in self.timed(calls).items()}
        ours = times.pop("ours")
        moved = sum(t.nbytes for t in [*given.values(), *outputs.values()] if hasattr(t, "nbytes"))
        row = Row(text.name, text.group, text.written, ours, times, {}, apart, made.seconds, made.moves, moved)
        return replace(row, schedule=made.text)

    def apart(self, ours: Any, theirs: Any, codes: bool = False) -> float:
        """The largest difference, as a share of the largest value; of codes, the share of those that differ."""
        theirs = theirs.to(ours.device)
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


def on_gpu(found: Mapping[str, Text], given: argparse.Namespace, take: Callable[[Row], None]) -> str:
    """Rows of texts, each as soon as it is there; the name of the GPU."""
    end, bench, suite = time.monotonic() + 60 * given.minutes, Bench(), SUITES[given.suite]
    others = 1 if "compiled" in suite.peers else 3
    print(bench.name, len(found), "texts", file=sys.stderr, flush=True)
    with ProcessPoolExecutor(given.processes, mp_context=get_context("spawn")) as pool:
        jobs = {name: pool.submit(made, text, given.sizes) for name, text in found.items()}
        for number, (name, text) in enumerate(found.items()):
            if time.monotonic() > end:
                print("no time is left for", name, file=sys.stderr)
                break
            try:
                one = jobs[name].result(max(1.0, min(end - time.monotonic(), 3600)))
                if one.error:
                    raise ArithmeticError(one.error)
                take(bench.row(text, one, given.peers if number % others == 0 else (), suite.tolerance))
            except Exception as error:  # the other rows are wanted all the same
                take(Row(name, text.group, text.written, failed=f"{type(error).__name__}: {str(error)[:300]}"))
            bench.torch.cuda.empty_cache()
        pool.shutdown(wait=False, cancel_futures=True)
    return str(bench.name)
