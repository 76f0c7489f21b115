"""Timing several subjects on a GPU in turn, by its events, in the child process of `measure`.

Cold, a buffer of twice the last cache is written before each call; hot, the launches of a kernel are one graph,
which is started several times between two events. The ceilings are a copy and a loop of multiply-adds of the same
run.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping, Sequence
from dataclasses import field
from importlib import import_module
from time import perf_counter
from typing import Any

import numpy as np

from dojoir.ir.dtypes import F32
from dojoir.ir.nodes import Kernel
from dojoir.meaning.bits import to_floats
from dojoir.meaning.packed import unpacked
from dojoir.meaning.scalar_args import scalar_value
from dojoir.runtime.call.scalars import takes_value
from dojoir.runtime.gpu.array import DeviceArray, array_for
from dojoir.runtime.gpu.calls import Packed
from dojoir.runtime.gpu.compiled import DeviceCompiled
from dojoir.runtime.gpu.driver import Driver
from dojoir.runtime.measurement.memory import marked
from dojoir.runtime.measurement.result_files import AMONG, FIRST, OTHER, ResultFiles
from dojoir.runtime.measurement.spread import spread
from dojoir.runtime.process.subject import KernelSubject, PythonCode
from dojoir.runtime.process.worker import Report
from dojoir.support.frozen import dataclass

Call = Callable[[], object]

SAMPLE_SECONDS = 200e-6
MOST_CALLS = 200
MOST_ROUNDS = 500
LONGEST = 5
"""A contestant whose fewest rounds would take so many times the budget is called once."""
LAST_CALLS, POISON = 3, 0xFF
"""After how many calls results are compared at the end, and what the bytes of outputs hold before each."""

COPIED = 512 << 20
"""The bytes that the copy of the ceiling reads."""

FMA = """\
extern "C" __global__ void __launch_bounds__(256) fma_ceiling(float *y, float a, float b)
{
    float t[16];
#pragma unroll
    for (int k = 0; k < 16; k++) t[k] = y[k] + threadIdx.x;
    for (int i = 0; i < 4096; i++)
#pragma unroll
        for (int k = 0; k < 16; k++) t[k] = fmaf(t[k], a, b);
    float s = 0;
#pragma unroll
    for (int k = 0; k < 16; k++) s += t[k];
    if (s == 0.12345f) y[0] = s;
}
"""
FMA_WORK = 2 * 16 * 4096 * 256
"""The operations of one block of it."""


@dataclass
class GpuContestant:
    """A subject with its arrays; `restored` are those that it changes in place, with their first values."""

    call: Call
    arrays: Mapping[str, DeviceArray]
    restored: Mapping[str, DeviceArray]
    calls: int = 1
    samples: list[float] = field(default_factory=list)
    is_slow: bool = False
    is_kernel: bool = True
    mark: int = 0
    """A digest of what its first call put out."""


class TimedGpu:
    """The device that is timed."""

    def __init__(self, driver: Driver, hot: bool) -> None:
        self.driver, self.hot = driver, hot
        self.events = driver.new_event(), driver.new_event()
        facts = driver.describe(driver.in_use())
        self.flushed = DeviceArray(driver, (2 * facts.cache_bytes,), "uint8", (1,), 2 * facts.cache_bytes)
        self.multiprocessors, self.architecture = facts.multiprocessors, facts.architecture
        self.byte = 0

    def seconds(self, call: Call, calls: int = 1) -> float:
        """Of one call, by the events around `calls` of them."""
        if not self.hot:
            self.byte = (self.byte + 1) % 251
            self.flushed.fill(self.byte)
        first, second = self.events
        self.driver.record(first, 0)
        for _ in range(calls):
            call()
        self.driver.record(second, 0)
        return self.driver.seconds(first, second) / calls

    def sample(self, contestant: GpuContestant) -> float:
        """Seconds of one call on fresh values: those that a kernel changes in place must not drift."""
        if not contestant.restored:
            return self.seconds(contestant.call, contestant.calls)
        self.restore(contestant)
        return self.seconds(contestant.call)

    def restore(self, contestant: GpuContestant) -> None:
        for name, first in contestant.restored.items():
            contestant.arrays[name].copy_from(first.address)

    def ceilings(self) -> tuple[float, float]:
        """GB/s of a copy, and GFLOP/s of multiply-adds in f32, the best of some."""
        copies = [DeviceArray(self.driver, (COPIED,), "uint8", (1,), COPIED) for _ in range(2)]
        copies[1].fill(1)
        copied = min(self.seconds(lambda: copies[0].copy_from(copies[1].address)) for _ in range(5))
        (function,) = self.driver.load(self.driver.compile(FMA, self.architecture), ["fma_ceiling"])
        values = DeviceArray(self.driver, (16,), "float32", (4,), 64)
        values.fill(0)
        packed = Packed([values.address], [(F32, 0.999), (F32, 1e-3)])
        blocks = 16 * self.multiprocessors
        launch = self.driver.launch
        added = min(
            self.seconds(lambda: launch(function, (blocks, 1, 1), 256, packed.address, 0)) for _ in range(5)
        )
        return 2 * COPIED / copied * 1e-9, blocks * FMA_WORK / added * 1e-9


def time_on_gpu(
    subjects: Sequence[KernelSubject | PythonCode],
    kernel: Kernel,
    inputs: Mapping[str, np.ndarray],
    others: Mapping[str, np.ndarray],
    job: Mapping[str, Any],
    report: Report,
) -> None:
    """Builds the subjects, warms them up, then samples them until each median is known to within
    `job["precision"]`, but at least `job["fewest"]` times, or `job["budget"]` seconds are over. `kernel` is that of
    the first."""
    sizes: dict[str, int] = job["sizes"]
    contestants: list[GpuContestant] = []
    gpu: TimedGpu | None = None
    for number, subject in enumerate(subjects):
        report({"building": number})
        if isinstance(subject, KernelSubject):
            compiled = subject.load()
            assert isinstance(compiled, DeviceCompiled)
            gpu = gpu or TimedGpu(compiled.driver, job["hot"])
            arrays, values = _arguments(compiled.kernel, compiled.driver, inputs, sizes)
            make = compiled.graph if job["hot"] else compiled.bind
            call: Call = make(*values.values(), **{name: sizes[name] for name in compiled.kernel.runtime_sizes})
        else:
            assert gpu is not None, "the first subject is a kernel"
            arrays, values = _arguments(kernel, gpu.driver, inputs, sizes)
            call = subject.bind({name: _shared(value) for name, value in values.items()})
        inouts = [buffer for buffer in kernel.arguments if buffer.role == "inout"]
        first = {buffer.name: array_for(gpu.driver, buffer, sizes) for buffer in inouts}
        for name, array in first.items():
            array.put(inputs[name])
        contestants.append(GpuContestant(call, arrays, first, is_kernel=isinstance(subject, KernelSubject)))
    assert gpu is not None
    for number, contestant in enumerate(contestants):
        report({"warming": number})
        gpu.restore(contestant)
        contestant.call()
        gpu.driver.wait(0)
    results, keep = _results(kernel, contestants[0]), ResultFiles(job.get("results"))
    keep(FIRST, results)
    differences = [_difference(kernel, results, other) for other in contestants]
    for contestant in contestants:
        contestant.mark = marked(_results(kernel, contestant).values())
    for contestant in contestants:
        best = gpu.sample(contestant)
        if best * job["fewest"] > LONGEST * job["budget"]:
            contestant.samples, contestant.is_slow = [best], True
            continue
        best = min(best, *(gpu.sample(contestant) for _ in range(2)))
        if job["hot"]:
            contestant.calls = max(1, min(MOST_CALLS, round(SAMPLE_SECONDS / max(best, 1e-9))))
    report({"sampling": True})
    rounds = _sample(gpu, [contestant for contestant in contestants if not contestant.is_slow], job)
    for number, contestant in enumerate(contestants):
        known = keep if not number else ResultFiles(None)
        differences[number] = max(differences[number], _after(gpu, kernel, results, contestant, known))
    if keep.folder is not None:
        keep(OTHER, _on_others(gpu, kernel, contestants[0], others))
    report({
        "differences": differences,
        "kept": keep.names,
        "samples": [contestant.samples for contestant in contestants],
        "calls": [contestant.calls for contestant in contestants],
        "rounds": rounds,
        "ceilings": gpu.ceilings(),
    })  # fmt: skip


def _sample(gpu: TimedGpu, contestants: Sequence[GpuContestant], job: Mapping[str, Any]) -> int:
    order = list(contestants)
    shuffle = random.Random(0).shuffle
    start = perf_counter()
    next_look = job["fewest"]
    for number in range(1, MOST_ROUNDS + 1 if order else 1):
        shuffle(order)
        for contestant in order:
            contestant.samples.append(gpu.sample(contestant))
        over = perf_counter() - start > job["budget"]
        if number >= next_look or over:
            known = max(spread(contestant.samples, job["confidence"]).uncertainty for contestant in contestants)
            if over or known <= job["precision"]:
                return number
            next_look = number + max(1, number // 4)
    return MOST_ROUNDS if order else 1


def _arguments(
    kernel: Kernel, driver: Driver, inputs: Mapping[str, np.ndarray], sizes: Mapping[str, int]
) -> tuple[dict[str, DeviceArray], dict[str, Any]]:
    """The arrays of a subject on the GPU, and all its arguments, in order."""
    arrays: dict[str, DeviceArray] = {}
    values: dict[str, Any] = {}
    for buffer in kernel.arguments:
        if takes_value(buffer):
            values[buffer.name] = scalar_value(buffer, inputs[buffer.name])
            continue
        array = array_for(driver, buffer, sizes)
        array.fill(0xFF)
        if buffer.role != "out":
            array.put(inputs[buffer.name])
        arrays[buffer.name] = values[buffer.name] = array
    return arrays, values


def _shared(value: Any) -> Any:
    """An argument as Python code gets it: a tensor of PyTorch, where there is one for GPUs."""
    if not isinstance(value, DeviceArray):
        return value
    try:
        torch: Any = import_module("torch")
    except ImportError:
        return value
    return torch.as_tensor(value, device="cuda") if torch.cuda.is_available() else value


def _results(kernel: Kernel, contestant: GpuContestant) -> dict[str, np.ndarray]:
    """The outputs of a contestant, on the CPU."""
    outputs = (buffer.name for buffer in kernel.arguments if buffer.role != "in")
    return {name: contestant.arrays[name].numpy() for name in outputs}


def _on_others(
    gpu: TimedGpu, kernel: Kernel, contestant: GpuContestant, inputs: Mapping[str, np.ndarray]
) -> dict[str, np.ndarray]:
    """The results of a call on other inputs."""
    for buffer in kernel.arguments:
        if buffer.name in contestant.arrays:
            array = contestant.arrays[buffer.name]
            array.fill(POISON) if buffer.role == "out" else array.put(inputs[buffer.name])
    contestant.call()
    gpu.driver.wait(0)
    return _results(kernel, contestant)


def _after(
    gpu: TimedGpu, kernel: Kernel, results: Mapping[str, np.ndarray], contestant: GpuContestant, keep: ResultFiles
) -> float:
    """The largest difference from the results of the first in some calls after the rounds: work that is left out
    once nobody looks any more."""
    worst = 0.0
    for _ in range(LAST_CALLS if contestant.is_kernel and not contestant.is_slow else 0):
        for buffer in kernel.arguments:
            if buffer.role == "out":
                contestant.arrays[buffer.name].fill(POISON)
        gpu.restore(contestant)
        contestant.call()
        gpu.driver.wait(0)
        if marked((outputs := _results(kernel, contestant)).values()) != contestant.mark:
            keep(AMONG, outputs)
            worst = max(worst, _difference(kernel, results, contestant))
    return worst


def _difference(kernel: Kernel, results: Mapping[str, np.ndarray], other: GpuContestant) -> float:
    """The largest difference from the results of the first, as a share of the largest value there."""
    worst = 0.0
    for buffer in kernel.arguments:
        if buffer.role == "in":
            continue
        pair = [unpacked(buffer, one) for one in (results[buffer.name], other.arrays[buffer.name].numpy())]
        a, b = (to_floats(x, buffer.dtype) if buffer.dtype.is_float else x.astype(np.float64) for x in pair)
        with np.errstate(all="ignore"):
            same = (a == b) | (np.isnan(a) & np.isnan(b))
            scale = float(np.max(np.abs(a), initial=0, where=np.isfinite(a))) or 1.0
            off = np.where(same, 0.0, np.abs(a - b) / scale)
        worst = max(worst, float(np.max(np.where(np.isnan(off), np.inf, off), initial=0)))
    return worst
