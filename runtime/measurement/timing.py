"""Timing several subjects in turn, in the child process of `measure`.

Every round times each subject once, in an order that changes, so that whatever the machine does in the meantime
does it to all of them.
"""

from __future__ import annotations

import os
import random
from collections.abc import Callable, Mapping, Sequence
from dataclasses import field
from itertools import cycle, islice
from pathlib import Path
from threading import get_native_id
from time import perf_counter, perf_counter_ns, sleep
from typing import Any

import numpy as np
import numpy.typing as npt

from dojoir.backends.registry import is_device
from dojoir.errors import RunError
from dojoir.ir.nodes import Buffer, Kernel
from dojoir.meaning.bits import to_floats
from dojoir.meaning.packed import unpacked
from dojoir.meaning.scalar_args import scalar_value
from dojoir.runtime.call.layout import place, storage_bytes
from dojoir.runtime.call.scalars import takes_value
from dojoir.runtime.measurement.gpu_timing import time_on_gpu
from dojoir.runtime.measurement.memory import last_level_cache, physical_memory, touched
from dojoir.runtime.measurement.spread import spread
from dojoir.runtime.process.subject import KernelSubject, PythonCode, subject_from_json
from dojoir.runtime.process.worker import Report
from dojoir.runtime.verification.inputs import make_inputs
from dojoir.support.frozen import dataclass

SAMPLE_SECONDS = 100e-6
"""A sample calls as often as it takes to last so long: the clock reads to some tens of nanoseconds."""

MOST_CALLS = 1000
WARM_SECONDS = 0.03
FEWEST_ROUNDS, MOST_ROUNDS = 7, 2000
MOST_SETS = 4096
LONGEST = 5
"""Contestants wait for each other's threads; with that, the sampling lasts at most so many times its budget."""

LOOK_SECONDS, REST_SECONDS = 0.2e-3, 0.25

Call = Callable[[], object]
Arguments = dict[str, np.ndarray | int | float]


@dataclass
class Contestant:
    """A subject with its arrays. A sample makes `calls` of the next `sets` of arrays."""

    sets: Sequence[Arguments]
    bound: Sequence[Call]
    inouts: Mapping[str, np.ndarray]
    calls: int = 1
    samples: list[float] = field(default_factory=list)
    position: int = 0

    def sample(self) -> float:
        """Seconds of one call, as the mean of a sample."""
        batch = [*islice(cycle(range(len(self.sets))), self.position, self.position + self.calls)]
        self.position = (self.position + self.calls) % len(self.sets)
        if self.inouts:
            return sum(self.single(number) for number in batch) * 1e-9 / self.calls
        bound = [self.bound[number] for number in batch]
        start = perf_counter_ns()
        for call in bound:
            call()
        return (perf_counter_ns() - start) * 1e-9 / self.calls

    def single(self, number: int) -> int:
        """Nanoseconds of one call on fresh values: those that a kernel changes in place must not drift."""
        for name, values in self.inouts.items():
            array = self.sets[number][name]
            assert isinstance(array, np.ndarray)
            array[...] = values
        call = self.bound[number]
        start = perf_counter_ns()
        call()
        return perf_counter_ns() - start


def run_timing(job: Mapping[str, Any], report: Report) -> None:
    """Builds the subjects, warms them up, then samples them until each median is known to within
    `job["precision"]`, or `job["budget"]` seconds are over."""
    subjects = [subject_from_json(subject) for subject in job["subjects"]]
    first = next(subject for subject in subjects if isinstance(subject, KernelSubject))
    sizes: dict[str, int] = job["sizes"]
    inputs = make_inputs(first.kernel, sizes, job["seed"], "uniform")
    if is_device(first.target):
        time_on_gpu(subjects, first.kernel, inputs, job, report)
        return
    contestants: list[Contestant] = []
    for number, subject in enumerate(subjects):
        report({"building": number})
        contestants.append(_contestant(subject, first.kernel, sizes, inputs, job["hot"]))
    for number, contestant in enumerate(contestants):
        report({"warming": number})
        _warm(contestant)
    report({"differences": [_difference(first.kernel, contestants[0], other) for other in contestants]})
    report({"sampling": True})
    rounds = _sample(contestants, job["precision"], job["confidence"], job["budget"], job["hot"])
    report({
        "samples": [contestant.samples for contestant in contestants],
        "calls": [contestant.calls for contestant in contestants],
        "sets": [len(contestant.sets) for contestant in contestants],
        "rounds": rounds,
    })  # fmt: skip


def _contestant(
    subject: KernelSubject | PythonCode,
    kernel: Kernel,
    sizes: Mapping[str, int],
    inputs: Mapping[str, np.ndarray],
    hot: bool,
) -> Contestant:
    compiled = subject.load() if isinstance(subject, KernelSubject) else None
    own = compiled.kernel if compiled is not None else kernel
    size = sum(storage_bytes(buffer, sizes) for buffer in own.arguments if not takes_value(buffer))
    count = 1 if hot else _sets(size)
    sets = [_arguments(own, sizes, inputs) for _ in range(count)]
    bound: list[Call]
    if compiled is not None:
        bound = [compiled.bind(*arguments.values(), **sizes) for arguments in sets]
    else:
        assert isinstance(subject, PythonCode)
        bound = [subject.bind(arguments) for arguments in sets]
    inouts = {buffer.name: inputs[buffer.name] for buffer in own.arguments if buffer.role == "inout"}
    return Contestant(sets, bound, inouts)


def _sets(size: int) -> int:
    """How many sets of arrays of `size` bytes it takes for none to be in a cache when its turn comes."""
    wanted = 2 * last_level_cache() // max(size, 1) + 2
    affordable = physical_memory() // 4 // max(size, 1)
    return max(1, min(wanted, affordable, MOST_SETS))


def _arguments(kernel: Kernel, sizes: Mapping[str, int], inputs: Mapping[str, np.ndarray]) -> Arguments:
    arguments: Arguments = {}
    for buffer in kernel.arguments:
        if takes_value(buffer):
            arguments[buffer.name] = scalar_value(buffer, inputs[buffer.name])
            continue
        array = place(touched(storage_bytes(buffer, sizes)), buffer, sizes)
        if buffer.role != "out":
            array[...] = inputs[buffer.name]
        arguments[buffer.name] = array
    return arguments


def _warm(contestant: Contestant) -> None:
    """Calls until the code and the clock of the core are warm, and decides how many calls make a sample."""
    best = contestant.sample()
    start = perf_counter()
    while perf_counter() - start < WARM_SECONDS:
        best = min(best, contestant.sample())
    contestant.calls = max(1, min(MOST_CALLS, round(SAMPLE_SECONDS / max(best, 1e-9))))


def _sample(
    contestants: Sequence[Contestant], precision: float, confidence: float, budget: float, hot: bool
) -> int:
    order = list(contestants)
    shuffle = random.Random(0).shuffle
    start = perf_counter()
    rested = 0.0
    next_look = FEWEST_ROUNDS
    for number in range(1, MOST_ROUNDS + 1):
        shuffle(order)
        for contestant in order:
            if len(order) > 1:
                rested += _let_rest()
                if hot:
                    contestant.single(0)  # the others had the caches since
            contestant.samples.append(contestant.sample())
        elapsed = perf_counter() - start
        over = elapsed - rested > budget or elapsed > LONGEST * budget
        if number >= next_look or over:
            known = max(spread(contestant.samples, confidence).uncertainty for contestant in contestants)
            if over or known <= precision:
                return number
            next_look = number + max(1, number // 4)
    return MOST_ROUNDS


def _let_rest() -> float:
    """Waits, though not for ever, until no other thread of this process works. Pools of threads spin for
    milliseconds after their loops (PyTorch's 7, ONNX Runtime's 60, TVM's 120), to be quick at the next one; until
    they sleep, the next contestant has not all its cores. Gives the seconds that it waited."""
    start = perf_counter()
    while perf_counter() - start < REST_SECONDS:
        sleep(LOOK_SECONDS)
        if not _others_work():
            break
    return perf_counter() - start


def _others_work() -> bool:
    """Whether a thread beside this one runs or could; where the system does not tell, it is assumed."""
    try:
        others = [thread for thread in os.listdir("/proc/self/task") if int(thread) != get_native_id()]
        texts = [Path(f"/proc/self/task/{thread}/stat").read_text() for thread in others]
    except OSError:
        return True
    return any(text.rpartition(")")[2].split()[0] == "R" for text in texts)


def _difference(kernel: Kernel, first: Contestant, other: Contestant) -> float:
    """The largest difference between results, as a share of the largest value there. An `inout` array that a
    contestant has left as it was holds no result: it has put it elsewhere, as libraries without operations in
    place do."""
    worst = 0.0
    for buffer in kernel.arguments:
        if buffer.role == "in":
            continue
        a, b = (_numbers(contestant.sets[0][buffer.name], buffer) for contestant in (first, other))
        if a.shape != b.shape:
            raise RunError(f"a contestant changed the shape of {buffer.name}", "other-arguments")
        if buffer.name in other.inouts and np.array_equal(b, _numbers(other.inouts[buffer.name], buffer)):
            continue
        with np.errstate(all="ignore"):
            same = (a == b) | (np.isnan(a) & np.isnan(b))
            scale = float(np.max(np.abs(a), initial=0, where=np.isfinite(a))) or 1.0
            off = np.where(same, 0.0, np.abs(a - b) / scale)
        worst = max(worst, float(np.max(np.where(np.isnan(off), np.inf, off), initial=0)))
    return worst


def _numbers(array: np.ndarray | int | float, buffer: Buffer) -> npt.NDArray[np.float64]:
    assert isinstance(array, np.ndarray)
    array, dtype = unpacked(buffer, array), buffer.dtype
    return to_floats(array, dtype) if dtype.is_float else array.astype(np.float64)
