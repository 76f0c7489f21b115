"""Timing several subjects in turn, in the child process of `measure`.

Every round times each subject once, in an order that changes, so that whatever the machine does in the meantime
does it to all of them. Those that take the same arguments take the same arrays. One of which a few rounds would
take longer than there is time for is called once, and takes no part in the rounds.
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
from dojoir.runtime.measurement.clocks import Clocks, second_clock
from dojoir.runtime.measurement.gpu_timing import time_on_gpu
from dojoir.runtime.measurement.memory import last_level_cache, marked, physical_memory, touched
from dojoir.runtime.measurement.result_files import AMONG, FIRST, OTHER, ResultFiles, inputs_of
from dojoir.runtime.measurement.spread import spread
from dojoir.runtime.process.offspring import Cores, crowd
from dojoir.runtime.process.subject import KernelSubject, PythonCode, subject_from_json
from dojoir.runtime.process.worker import Report
from dojoir.runtime.verification.guard import STAGGER, Guarded, fenced
from dojoir.support.frozen import dataclass

SAMPLE_SECONDS = 100e-6
"""A sample calls as often as it takes to last so long: the clock reads to some tens of nanoseconds."""

MOST_CALLS = 1000
WARM_SECONDS = 0.03
MOST_ROUNDS = 2000
MOST_SETS = 4096
LONGEST = 5
"""Contestants wait for each other's threads; with that, the sampling lasts at most so many times its budget."""

LOOK_SECONDS, REST_SECONDS = 0.2e-3, 0.25

LAST_CALLS = 3
"""After how many calls, one after another, results are compared at the end."""

LOOKS, SPOTS, LONGEST_SPOT = 6, 4, 64
"""In how many rounds results are compared, how many spots of each output hold a pattern before the sample of such a
round, and how many elements a spot has at most."""

POISON = 0xFF
"""The value of the bytes of outputs before the first call of each: one that writes nothing is seen."""

Call = Callable[[], object]
Arguments = dict[str, np.ndarray | int | float]


@dataclass
class CpuContestant:
    """A subject with its arrays. A sample makes `calls` of the next `sets` of arrays, with `flush` before each."""

    sets: Sequence[Arguments]
    bound: Sequence[Call]
    inouts: Mapping[str, np.ndarray]
    flush: Call | None = None
    calls: int = 1
    samples: list[float] = field(default_factory=list)
    position: int = 0
    is_slow: bool = False
    is_kernel: bool = True
    """False for code that may store its results anywhere after its first call."""

    mark: int = 0
    """A digest of what its first call put out."""

    off: float = 0.0
    """How far results are at most from those of the first call of the first contestant."""

    cores: Cores = field(default_factory=Cores)

    clocks: Clocks = field(default_factory=Clocks)
    """All that was timed, by both clocks."""

    def sample(self) -> float:
        """Seconds of one call, as the mean of a sample."""
        with self.cores.used():
            return self._sample()

    def _sample(self) -> float:
        batch = [*islice(cycle(range(len(self.sets))), self.position, self.position + self.calls)]
        self.position = (self.position + self.calls) % len(self.sets)
        if self.inouts or self.flush is not None:
            return sum(self.single(number) for number in batch) * 1e-9 / self.calls
        bound = [self.bound[number] for number in batch]
        begin = second_clock()
        start = perf_counter_ns()
        for call in bound:
            call()
        return self._read(perf_counter_ns() - start, begin) * 1e-9 / self.calls

    def single(self, number: int) -> int:
        """Nanoseconds of one call on fresh values: those that a kernel changes in place must not drift."""
        for name, values in self.inouts.items():
            array = self.sets[number][name]
            assert isinstance(array, np.ndarray)
            array[...] = values
        if self.flush is not None:
            self.flush()
        call = self.bound[number]
        begin = second_clock()
        start = perf_counter_ns()
        call()
        return self._read(perf_counter_ns() - start, begin)

    def _read(self, took: int, begin: int) -> int:
        """Records the time `took`, with the time since `begin` by the second clock. Returns `took`."""
        self.clocks.read(took * 1e-9, (second_clock() - begin) * 1e-9)
        return took


def run_timing(job: Mapping[str, Any], report: Report) -> None:
    """Builds the subjects, warms them up, then samples them until each median is known to within
    `job["precision"]`, but at least `job["fewest"]` times, or `job["budget"]` seconds are over."""
    subjects = [subject_from_json(subject) for subject in job["subjects"]]
    first = next(subject for subject in subjects if isinstance(subject, KernelSubject))
    sizes: dict[str, int] = job["sizes"]
    inputs, others = (inputs_of(first.kernel, sizes, job["seed"])[kind] for kind in (FIRST, OTHER))
    if is_device(first.target):
        time_on_gpu(subjects, first.kernel, inputs, others, job, report)
        return
    arena = SharedArrays(sizes, inputs, job["caches"])
    keep = ResultFiles(job.get("results"))
    contestants: list[CpuContestant] = []
    for number, subject in enumerate(subjects):
        report({"building": number})
        contestants.append(arena.contestant(subject, first.kernel))
    results: dict[str, np.ndarray] = {}
    for number, contestant in enumerate(contestants):
        report({"warming": number})
        _poison(first.kernel, contestant)
        _warm(contestant, job["budget"], job["fewest"])
        if not number:
            results = {name: np.array(value) for name, value in _outputs(first.kernel, contestant).items()}
        contestant.off = _difference(first.kernel, results, contestant)
        contestant.mark = marked(_outputs(first.kernel, contestant).values())
    keep(FIRST, results)
    look = _Look(first.kernel, results, contestants[0], keep)
    report({"sampling": True})
    rounds = _sample(contestants, job, look)
    for contestant in contestants:
        if (wrong := contestant.clocks.disagreement()) is not None:
            raise RunError(wrong, "bad-clock")
        for _ in range(LAST_CALLS if contestant.is_kernel and not contestant.is_slow else 0):
            _poison(first.kernel, contestant)
            contestant.single(0)
            look.compare(contestant, 0)
    if keep.folder is not None:
        arena.check(inputs)
        own = contestants[0]
        if wrong := crowd(own.cores.all, own.cores.others, job["threads"]):
            raise RunError(wrong, "more-threads")
        keep(OTHER, _on_others(first.kernel, own, others))
    report({
        "differences": [contestant.off for contestant in contestants],
        "kept": keep.names,
        "samples": [contestant.samples for contestant in contestants],
        "calls": [contestant.calls for contestant in contestants],
        "sets": [len(contestant.sets) for contestant in contestants],
        "rounds": rounds,
    })  # fmt: skip


class SharedArrays:
    """The arrays of a run: those who take the same arguments share them."""

    def __init__(self, sizes: Mapping[str, int], inputs: Mapping[str, np.ndarray], caches: str) -> None:
        self.sizes, self.inputs, self.caches = sizes, inputs, caches
        self.shared: dict[tuple[Buffer, ...], list[Arguments]] = {}
        self.fences: list[tuple[Buffer, Guarded]] = []
        self.flushed = touched(2 * last_level_cache() if caches == "flushed" else 0)
        self.byte = 0

    def contestant(self, subject: KernelSubject | PythonCode, kernel: Kernel) -> CpuContestant:
        compiled = subject.load() if isinstance(subject, KernelSubject) else None
        own = compiled.kernel if compiled is not None else kernel
        sets = self.sets(own)
        bound: list[Call]
        if compiled is not None:
            bound = [compiled.bind(*arguments.values(), **self.sizes) for arguments in sets]
        else:
            assert isinstance(subject, PythonCode)
            bound = [subject.bind(arguments) for arguments in sets]
        inouts = {buffer.name: self.inputs[buffer.name] for buffer in own.arguments if buffer.role == "inout"}
        flush = self.flush if self.caches == "flushed" else None
        return CpuContestant(sets, bound, inouts, flush, is_kernel=compiled is not None)

    def sets(self, kernel: Kernel) -> list[Arguments]:
        """The arrays of what takes the arguments of a kernel."""
        key = tuple(kernel.arguments)
        if key not in self.shared:
            size = sum(storage_bytes(buffer, self.sizes) for buffer in key if not takes_value(buffer))
            count = _sets(size) if self.caches == "rotated" else 1
            self.shared[key] = [{} for _ in range(count)]
            for buffer in key:
                self._place(buffer, self.shared[key])
        return self.shared[key]

    def _place(self, buffer: Buffer, sets: Sequence[Arguments]) -> None:
        """Adds an argument to each set of arrays: between fences, as in all that are timed."""
        if takes_value(buffer):
            for one in sets:
                one[buffer.name] = scalar_value(buffer, self.inputs[buffer.name])
            return
        size = storage_bytes(buffer, self.sizes)
        step = size if len(sets) == 1 else -(-size // 64) * 64
        block = fenced(step * len(sets), STAGGER * len(self.fences))
        self.fences.append((buffer, block))
        for number, one in enumerate(sets):
            array = place(block.memory[number * step : number * step + size], buffer, self.sizes)
            if buffer.role != "out":
                array[...] = self.inputs[buffer.name]
            one[buffer.name] = array

    def check(self, inputs: Mapping[str, np.ndarray]) -> None:
        """Raises RunError where calls wrote outside of the arrays, or into inputs."""
        for buffer, block in self.fences:
            if not block.is_intact:
                raise RunError(f"it wrote outside of {buffer.name} while it was timed", "wrong-result")
        for sets in self.shared.values():
            for name, array in sets[0].items():
                is_input = isinstance(array, np.ndarray) and any(
                    b.name == name and b.role == "in" for b, _ in self.fences
                )
                if is_input and np.asarray(array).tobytes() != inputs[name].tobytes():
                    raise RunError(f"it changed its input {name} while it was timed", "wrong-result")

    def flush(self) -> None:
        """Writes a buffer of twice the last cache, in which nothing else is then."""
        self.byte = (self.byte + 1) % 251
        self.flushed[:] = self.byte


def _on_others(
    kernel: Kernel, contestant: CpuContestant, inputs: Mapping[str, np.ndarray]
) -> dict[str, np.ndarray]:
    """The results of a call on other inputs."""
    for buffer in kernel.arguments:
        array = contestant.sets[0][buffer.name]
        if buffer.role == "in" and isinstance(array, np.ndarray) and not takes_value(buffer):
            array[...] = inputs[buffer.name]
    contestant.inouts = {name: inputs[name] for name in contestant.inouts}
    _poison(kernel, contestant)
    contestant.single(0)
    return _outputs(kernel, contestant)


def _outputs(kernel: Kernel, contestant: CpuContestant, number: int = 0) -> dict[str, np.ndarray]:
    names = (buffer.name for buffer in kernel.arguments if buffer.role != "in")
    return {name: np.asarray(contestant.sets[number][name]) for name in names}


@dataclass
class _Look:
    """Looks at calls among the samples, of nobody knows which: spots of their outputs hold a pattern before, and
    what is there afterwards is compared with the `results` of the first call of all."""

    kernel: Kernel
    results: Mapping[str, np.ndarray]
    own: CpuContestant
    keep: ResultFiles
    draw: random.Random = field(default_factory=random.Random)

    def rounds(self, fewest: int) -> frozenset[int]:
        """The rounds in which calls are looked at."""
        return frozenset(self.draw.sample(range(1, fewest + 1), min(LOOKS, fewest)))

    def spoil(self, contestant: CpuContestant, number: int) -> None:
        """Puts the pattern into some spots of a set of arrays."""
        for name, array in _outputs(self.kernel, contestant, number).items():
            for _ in range(SPOTS if self.kernel.buffer(name).role == "out" and array.size else 0):
                at = [slice(n, n + 1) for n in map(self.draw.randrange, array.shape)]
                at[-1:] = [slice(one.start, one.start + LONGEST_SPOT) for one in at[-1:]]
                array[tuple(at)] = _pattern(array.dtype)

    def compare(self, contestant: CpuContestant, number: int) -> None:
        """Compares the results in a set of arrays."""
        outputs = _outputs(self.kernel, contestant, number)
        if marked(outputs.values()) != contestant.mark:
            contestant.off = max(contestant.off, _difference(self.kernel, self.results, contestant, number))
            if contestant is self.own:
                self.keep(AMONG, outputs)


def _pattern(dtype: np.dtype[Any]) -> Any:
    return np.full(dtype.itemsize, POISON, np.uint8).view(dtype)[0]


def _poison(kernel: Kernel, contestant: CpuContestant) -> None:
    for buffer in kernel.arguments:
        array = contestant.sets[0].get(buffer.name)
        if buffer.role == "out" and isinstance(array, np.ndarray):
            array[...] = _pattern(array.dtype)


def _sets(size: int) -> int:
    """How many sets of arrays of `size` bytes it takes for none to be in a cache when its turn comes."""
    wanted = 2 * last_level_cache() // max(size, 1) + 2
    affordable = physical_memory() // 4 // max(size, 1)
    return max(1, min(wanted, affordable, MOST_SETS))


def _warm(contestant: CpuContestant, budget: float, fewest: int) -> None:
    """Calls until the code and the clock of the core are warm, and decides how many calls make a sample; what is
    too slow for that is called once, which is its sample. The first call of a library may compile, and is no
    sample."""
    best = contestant.sample()
    if best * fewest > LONGEST * budget and not contestant.is_kernel:
        best = contestant.sample()
    if best * fewest > LONGEST * budget:
        contestant.samples, contestant.is_slow = [best], True
        return
    start = perf_counter()
    while perf_counter() - start < WARM_SECONDS:
        best = min(best, contestant.sample())
    if contestant.flush is None:
        contestant.calls = max(1, min(MOST_CALLS, round(SAMPLE_SECONDS / max(best, 1e-9))))


def _sample(contestants: Sequence[CpuContestant], job: Mapping[str, Any], look: _Look | None = None) -> int:
    """Samples in rounds, and gives how many there were."""
    looked = look.rounds(job["fewest"]) if look is not None else frozenset()
    precision, confidence, budget = job["precision"], job["confidence"], job["budget"]
    order = [contestant for contestant in contestants if not contestant.is_slow]
    shuffle = random.Random(0).shuffle
    start = perf_counter()
    rested = 0.0
    next_look = job["fewest"]
    for number in range(1, MOST_ROUNDS + 1 if order else 1):
        shuffle(order)
        for contestant in order:
            if len(order) > 1:
                rested += _let_rest()
                if job["caches"] == "warm":
                    contestant.single(0)  # the others had the caches since
            at, is_looked = contestant.position, number in looked and contestant.is_kernel
            if look is not None and is_looked:
                look.spoil(contestant, at)
            contestant.samples.append(contestant.sample())
            if look is not None and is_looked:
                look.compare(contestant, at)
        elapsed = perf_counter() - start
        over = elapsed - rested > budget or elapsed > LONGEST * budget
        if number >= next_look or over:
            known = max(spread(contestant.samples, confidence).uncertainty for contestant in order)
            if over or known <= precision:
                return number
            next_look = number + max(1, number // 4)
    return MOST_ROUNDS if order else 1


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


def _difference(kernel: Kernel, results: Mapping[str, np.ndarray], other: CpuContestant, number: int = 0) -> float:
    """The largest difference from the results of the first, as a share of the largest value there. An `inout`
    array that a contestant has left as it was holds no result: it has put it elsewhere, as libraries without
    operations in place do."""
    worst = 0.0
    for buffer in kernel.arguments:
        if buffer.role == "in":
            continue
        a, b = (_numbers(values[buffer.name], buffer) for values in (results, other.sets[number]))
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
