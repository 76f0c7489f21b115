"""What a row of `modules.py` takes on a GPU: a whole call, the GPU's work alone, and its launches, beside eager
PyTorch without and with TF32.

    python benchmarks/module_work.py matmul upsampled       # some rows; all under 0.7 of eager where none is named
    python benchmarks/module_work.py --kernels matmul       # the time of each launch too
    python benchmarks/module_work.py --dry                  # without a GPU: launches, and blocks of threads

The work alone is that of a graph of CUDA which holds some calls, so that no call waits for the CPU. Launches are
counted by PyTorch's profiler; where it sees none, those of dojoir are of its text. `floor` is what the
arguments and the results take at the peak of memory, each read or written once.
"""

from __future__ import annotations

import argparse
import copy
import math
import re
import sys
import time
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from module_reasons import REASONS_ON_GPUS

import dojoir

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tests" / "pytorch"))

PEAK = 4.8e12
"""Bytes a second of an H200's memory at most; an H100 has 3.35e12 (`--peak`)."""

CALLS_OF_A_GRAPH = 20


def main() -> int:
    options = _options()
    warnings.simplefilter("ignore")
    names = options.names or slow_rows()
    for name in names:
        try:
            lines = list(dry(name) if options.dry else measured(name, options))
        except Exception as error:  # whatever a module or a device raises: the other rows are still wanted
            lines = [f"{name:24} {type(error).__name__}: {(str(error).splitlines() or ['?'])[0]}"]
        print("\n".join(lines), flush=True)
    return 0


def _options() -> argparse.Namespace:
    made = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    made.add_argument("names", nargs="*", metavar="NAME", help="the rows (all that are slow)")
    made.add_argument("--kernels", action="store_true", help="the time of each launch too")
    made.add_argument("--dry", action="store_true", help="without a GPU: launches and blocks of threads")
    made.add_argument("--peak", type=float, default=PEAK, help="bytes a second of the memory (4.8e12)")
    made.add_argument("--seconds", type=float, default=0.3, help="of each measurement (0.3)")
    return made.parse_args()


def slow_rows() -> list[str]:
    """The rows that `modules.py` has a reason for."""
    return list(REASONS_ON_GPUS)


def _module(name: str, device: str) -> tuple[Any, tuple[Any, ...]]:
    import torch
    from modules import CASES
    from modules.cases import PRACTICE

    module, given = CASES[name].make(PRACTICE, 0)
    return module.to(device), tuple(x.to(device) if isinstance(x, torch.Tensor) else x for x in given)


def dry(name: str) -> Iterator[str]:
    """The launches of a row, a line each: its blocks, the threads of one, and what it writes."""
    module, inputs = _module(name, "cpu")
    imported = dojoir.torch.from_module(module, inputs)
    kernels = imported.kernels_for("cuda")
    yield f"{name:24} {sum(map(len, map(blocks_of, kernels)))} launches, floor {_floor(kernels, PEAK):.1f} us"
    for kernel in kernels:
        for number, (blocks, threads) in enumerate(blocks_of(kernel), 1):
            yield f"    {number:3}  {blocks.replace(', ', ' x ')} blocks of {threads} threads"


LAUNCH = re.compile(r"<<<dim3\(([^()]*)\), (\d+|dim3\([^()]*\))")
"""The blocks and the threads of a launch in CUDA text."""


def blocks_of(kernel: Any) -> list[tuple[str, str]]:
    """The blocks, and the threads of one, of each launch of a kernel."""
    return LAUNCH.findall(dojoir.emit(kernel, "cuda"))


def _floor(kernels: Any, peak: float) -> float:
    """Microseconds that the arguments of the kernels take at the peak of memory."""
    total = 0
    for buffer in (buffer for kernel in kernels for buffer in kernel.buffers if buffer.role != "tmp"):
        total += math.prod(int(str(dim.extent)) for dim in buffer.dims) * buffer.dtype.bits // 8
    return total / peak * 1e6


def measured(name: str, options: argparse.Namespace) -> Iterator[str]:
    """The lines of a row."""
    import torch

    module, inputs = _module(name, "cuda")
    imported = dojoir.torch.from_module(copy.deepcopy(module), inputs)
    kernels = imported.kernels_for("cuda")
    yield f"{name:24} floor {_floor(kernels, options.peak):7.1f} us   {torch.cuda.get_device_name()}"
    yield f"    {'':16}{'call, us':>10}{'work, us':>10}{'launches':>10}"
    for which, call, is_quick in (
        ("dojoir", imported, False),
        ("eager", module, False),
        ("eager, TF32", module, True),
    ):
        with torch.no_grad(), tf32(is_quick):
            call(*inputs)
            whole, work = time_of_call(call, inputs, options.seconds), work_of(call, inputs, options.seconds)
            seen = launches(call, inputs)
        count = len(seen) or (sum(map(len, map(blocks_of, kernels))) if call is imported else 0)
        yield f"    {which:16}{whole:10.1f}{work:10.1f}{count:10}"
        if options.kernels:
            for title, took in seen:
                yield f"        {took:8.1f} us  {title[:90]}"


@contextmanager
def tf32(is_allowed: bool) -> Iterator[None]:
    """Whether products and convolutions of PyTorch may be in TF32 meanwhile."""
    import torch

    before = torch.backends.cuda.matmul.allow_tf32, torch.backends.cudnn.allow_tf32
    torch.backends.cuda.matmul.allow_tf32 = torch.backends.cudnn.allow_tf32 = is_allowed
    try:
        yield
    finally:
        torch.backends.cuda.matmul.allow_tf32, torch.backends.cudnn.allow_tf32 = before


def time_of_call(call: Callable[..., Any], inputs: tuple[Any, ...], seconds: float) -> float:
    """Microseconds of a call among many, the best of rounds of 50."""
    import torch

    best, end = float("inf"), time.perf_counter() + seconds
    while time.perf_counter() < end:
        torch.cuda.synchronize()
        start = time.perf_counter()
        for _ in range(50):
            call(*inputs)
        torch.cuda.synchronize()
        best = min(best, (time.perf_counter() - start) / 50)
    return best * 1e6


def work_of(call: Callable[..., Any], inputs: tuple[Any, ...], seconds: float) -> float:
    """Microseconds of the GPU alone for a call: the best of replays of a graph; nan where none is recorded."""
    import torch

    stream, graph = torch.cuda.Stream(), torch.cuda.CUDAGraph()
    try:
        stream.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(stream):
            call(*inputs)
        torch.cuda.current_stream().wait_stream(stream)
        with torch.cuda.graph(graph):
            for _ in range(CALLS_OF_A_GRAPH):
                call(*inputs)
    except RuntimeError:
        return float("nan")
    best, end = float("inf"), time.perf_counter() + seconds
    while time.perf_counter() < end:
        start, stop = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
        start.record()
        graph.replay()
        stop.record()
        stop.synchronize()
        best = min(best, start.elapsed_time(stop) * 1e3 / CALLS_OF_A_GRAPH)
    return best


def launches(call: Callable[..., Any], inputs: tuple[Any, ...]) -> list[tuple[str, float]]:
    """The launches and copies of a call in their order, each with its microseconds; none where the profiler sees
    none."""
    import torch
    from torch.profiler import ProfilerActivity, profile

    try:
        with profile(activities=[ProfilerActivity.CPU, ProfilerActivity.CUDA]) as profiled:
            call(*inputs)
            torch.cuda.synchronize()
    except RuntimeError:
        return []
    on_gpu = [e for e in profiled.events() if str(e.device_type).endswith("CUDA")]
    return [(e.name, float(e.time_range.elapsed_us())) for e in sorted(on_gpu, key=lambda e: e.time_range.start)]


if __name__ == "__main__":
    sys.exit(main())
