"""Timing a candidate beside the best so far, on the same arrays, in turn, until it is plain which is faster."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Mapping, Sequence
from random import Random
from typing import Any

import numpy as np

from dojoir.ir.nodes import Kernel
from dojoir.meaning.packed import stored_box
from dojoir.meaning.scalar_args import scalar_value
from dojoir.runtime.call.compiled import Compiled
from dojoir.runtime.call.layout import place, storage_bytes
from dojoir.runtime.call.scalars import takes_value
from dojoir.runtime.evaluation.inspection import IN_A_ROW, ElementSample, Watch
from dojoir.runtime.evaluation.pool import KnownCase, elements_of
from dojoir.runtime.measurement.clocks import Clocks, second_clock
from dojoir.runtime.measurement.spread import spread
from dojoir.runtime.verification.guard import STAGGER, Guarded, fenced
from dojoir.runtime.verification.trial import POISONS
from dojoir.support.frozen import dataclass

SAMPLE_SECONDS = 100e-6
"""A sample calls as often as it takes to last so long."""

LONG = 50 * SAMPLE_SECONDS
"""A call that takes so long is a sample, however much faster the next one is."""

MOST_CALLS = 1000
FEWEST, MOST = 6, 24
"""How many rounds a comparison has."""

CLEAR = 0.9
"""A candidate that reaches less than this of the best in each of the first SOON rounds is slower."""

SOON = 3
RACE_SECONDS = 0.25
"""How long a comparison lasts that is not decided, unless an evaluator says otherwise."""

TIE = 0.015
"""How near to one both ends of the interval of a ratio are where neither is faster."""

CONFIDENCE = 0.95
TICKS = 20
"""How many ticks of the clock a sample must have for it to be believed."""

CLOCK: Callable[[], int] = time.perf_counter_ns


@dataclass(frozen=True)
class Lap:
    """The times of a candidate at one size; `ratio` is how many times as fast as the best it is."""

    status: str
    seconds: float | None = None
    interval: tuple[float, float] = (0.0, math.inf)
    samples: tuple[float, ...] = ()
    ratio: float | None = None
    ratio_interval: tuple[float, float] = (0.0, math.inf)
    reason: str = ""


class BoundKernel:
    """A kernel bound to the arrays of one size. Candidates share them, as they take the same arguments."""

    slop, slop_of_call = 20e-6, 0.5e-6
    """By how many seconds the second clock may be ahead of the first, of one sample, and of each call in it that
    is timed by itself."""

    looks = IN_A_ROW
    """How many calls of a comparison are looked at."""

    tick = time.get_clock_info("perf_counter").resolution

    def __init__(self, reference: Kernel, sizes: Mapping[str, int]) -> None:
        self.reference, self.sizes = reference, sizes
        self.known: KnownCase | None = None
        self.compiled: Compiled | None = None
        self.call: Callable[[], object] = lambda: None
        self.make_arrays()
        arguments = [buffer for buffer in reference.arguments if not takes_value(buffer)]
        self.inouts = [buffer.name for buffer in arguments if buffer.role == "inout"]
        self.outputs = [buffer.name for buffer in arguments if buffer.role == "out"]

    def make_arrays(self) -> None:
        """Makes the arrays that candidates share."""
        self.arrays: dict[str, Any] = {}
        self.memory: dict[str, Guarded] = {}
        for buffer in self.reference.arguments:
            if not takes_value(buffer):
                block = fenced(storage_bytes(buffer, self.sizes), STAGGER * len(self.memory))
                self.memory[buffer.name] = block
                self.arrays[buffer.name] = place(block.memory, buffer, self.sizes)

    def bind(self, compiled: Compiled) -> None:
        """Takes another kernel for what is run."""
        self.compiled = compiled
        self._bind()

    def beside(self, compiled: Compiled) -> BoundKernel:
        """Another kernel on the same arrays."""
        other = type(self).__new__(type(self))
        other.__dict__.update(self.__dict__)
        other.bind(compiled)
        return other

    def load(self, known: KnownCase) -> None:
        """Fills the arrays with the inputs of a case, and the outputs with a pattern."""
        self.known = known
        self.fill(known)
        self.poison()
        self._bind()

    def fill(self, known: KnownCase) -> None:
        """Puts the inputs of a case into the arrays."""
        for buffer in self.reference.arguments:
            if buffer.role != "out" and buffer.name in self.arrays:
                self.arrays[buffer.name][...] = known.inputs[buffer.name]

    def _bind(self) -> None:
        if self.compiled is not None and self.known is not None:
            self.bind_call(self.known)

    def bind_call(self, known: KnownCase) -> None:
        """Makes the call: scalars are part of it."""
        assert self.compiled is not None
        arguments = [
            scalar_value(buffer, known.inputs[buffer.name]) if takes_value(buffer) else self.arrays[buffer.name]
            for buffer in self.reference.arguments
        ]
        self.call = self.compiled.bind(*arguments, **self.sizes)

    def follow(self, other: BoundKernel) -> None:
        """Takes the case of another runner on the same arrays, whose scalars are part of a call."""
        self.known = other.known
        self._bind()

    def poison(self) -> None:
        for name in self.outputs:
            self.memory[name].memory[:] = POISONS[0]

    def restore(self) -> None:
        """Gives arguments that are changed in place their first values again."""
        assert self.known is not None
        for name in self.inouts:
            self.arrays[name][...] = self.known.inputs[name]

    def once(self) -> tuple[float, float]:
        """Seconds of a call, by both clocks."""
        begin = second_clock()
        start = CLOCK()
        self.call()
        seconds = (CLOCK() - start) * 1e-9
        return seconds, (second_clock() - begin) * 1e-9

    def first(self) -> float:
        """Seconds of a call on fresh values."""
        self.restore()
        return self.once()[0]

    def second(self) -> float:
        """Seconds of another such call."""
        return self.first()

    @property
    def one_by_one(self) -> bool:
        """Whether each call of a sample is timed by itself."""
        return bool(self.inouts)

    def sample(self, calls: int) -> tuple[float, float]:
        """Seconds of one call, as the mean of some, by both clocks."""
        if self.one_by_one:
            own = sure = 0.0
            for _ in range(calls):
                self.restore()
                seconds, others = self.once()
                own, sure = own + seconds, sure + others
            return own / calls, sure / calls
        call = self.call
        begin = second_clock()
        start = CLOCK()
        for _ in range(calls):
            call()
        seconds = (CLOCK() - start) * 1e-9 / calls
        return seconds, (second_clock() - begin) * 1e-9 / calls

    # -- looking at calls ----------------------------------------------------------------------------------
    def spoil(self, spots: Sequence[ElementSample]) -> None:
        """Puts a pattern into spots of the outputs."""
        for name, box in spots:
            if name in self.outputs:
                array = self.arrays[name]
                array[stored_box(self.reference.buffer(name), box)] = np.full(
                    array.dtype.itemsize, POISONS[0], np.uint8
                ).view(array.dtype)[0]

    def look(self, spots: Sequence[ElementSample]) -> list[np.ndarray]:
        """Copies of the elements at spots, as `DType.stored`."""
        buffers = [self.reference.buffer(name) for name, _ in spots]
        found = [np.array(self.arrays[b.name][stored_box(b, s.box)]) for b, s in zip(buffers, spots, strict=True)]
        return [elements_of(buffer, part) for buffer, part in zip(buffers, found, strict=True)]

    def exchange(self, random: Random) -> Callable[[], None]:
        """Exchanges two elements of every array that comes in. Gives what takes that back."""
        exchanged = [
            (array, *(tuple(random.randrange(extent) for extent in array.shape) for _ in range(2)))
            for name, array in self.arrays.items()
            if name not in self.outputs and array.size
        ]

        def exchange() -> None:
            for array, one, other in exchanged:
                array[one], array[other] = array[other], array[one]

        exchange()
        return exchange

    @property
    def can_exchange(self) -> bool:
        """Whether there is an array of inputs."""
        return any(buffer.role != "out" and buffer.name in self.arrays for buffer in self.reference.arguments)

    @property
    def threads(self) -> int:
        """How many threads run the kernel."""
        return 1 if self.compiled is None else self.compiled.threads

    def fault(self, known: KnownCase) -> str | None:
        """The error in memory that calls must not change."""
        for buffer in self.reference.arguments:
            if buffer.name not in self.arrays:
                continue
            if not self.memory[buffer.name].is_intact:
                return f"it wrote outside of {buffer.name}"
            array = self.arrays[buffer.name]
            if buffer.role == "in" and not np.array_equal(_bits(array), _bits(known.inputs[buffer.name])):
                return f"it changed its input {buffer.name}"
        return None

    def complaint(self, known: KnownCase, slack: float) -> str | None:
        """The error in the arrays after a call on a case."""
        return known.complaint(self.results(), slack)

    def results(self) -> dict[str, np.ndarray]:
        """The elements that a call left, as `DType.stored`."""
        return {
            buffer.name: elements_of(buffer, self.arrays[buffer.name])
            for buffer in self.reference.arguments
            if buffer.role != "in"
        }


def alone(runner: BoundKernel, took: float, watch: Watch, most: float = RACE_SECONDS) -> Lap:
    """The times of a kernel that there is nothing to compare with, of `most` seconds."""
    return _rounds([runner], took, watch, most)


def time_in_turn(
    runner: BoundKernel, rival: BoundKernel, took: float, watch: Watch, most: float = RACE_SECONDS
) -> Lap:
    """The times of a candidate in turn with those of the best. Both use the same arrays."""
    rival.follow(runner)
    return _rounds([runner, rival], took, watch, most)


def _rounds(runners: Sequence[BoundKernel], took: float, watch: Watch, most: float) -> Lap:
    runner = runners[0]
    calls = max(1, min(MOST_CALLS, round(SAMPLE_SECONDS / max(took, 1e-9))))
    samples: list[float] = []
    others: list[float] = []
    start = time.perf_counter()
    sure: list[float] = []
    theirs: list[float] = []
    watch.begin(runner, calls, raced=len(runners) > 1)
    while True:
        for other in runners[1:]:
            other.call()  # the caches are those of the candidate
            own, second = other.sample(calls)
            others.append(own)
            theirs.append(second)
        last = _decided(samples, others, time.perf_counter() - start, most)
        watch.between(runner)
        if others:  # as before that of the other: also a GPU is busy as a sample begins
            with watch.looking(runner):
                runner.call()
            own, second = runner.sample(calls)
        else:
            with watch.looking(runner):
                own, second = runner.sample(calls)
        samples.append(own)
        sure.append(second)
        wrong = watch.wrong()
        if wrong is not None:
            return Lap("wrong", reason=wrong)
        if last:
            break
    wrong = _clock_is_wrong(samples, sure, calls, runner)
    if wrong is None and others:
        wrong = _clock_is_wrong(others, theirs, calls, runner)
    if wrong is not None:
        return Lap("lost", reason=wrong)
    median = spread(samples, CONFIDENCE)
    if not others:
        return Lap("ok", median.median, (median.low, median.high), tuple(samples))
    between = spread([b / a for a, b in zip(samples, others, strict=True)], CONFIDENCE)
    return Lap(
        "ok", median.median, (median.low, median.high), tuple(samples), between.median, (between.low, between.high)
    )  # fmt: skip


def _decided(samples: Sequence[float], others: Sequence[float], elapsed: float, most: float) -> bool:
    """Whether the next round is the last."""
    count = len(samples)
    if count >= MOST or (count >= SOON and elapsed > most):
        return True
    if not others:
        if count < FEWEST:
            return False
        return spread(samples, CONFIDENCE).uncertainty < TIE
    ratios = [b / max(a, 1e-12) for a, b in zip(samples, others, strict=False)]
    if count >= SOON and max(ratios) < CLEAR:
        return True
    if count < FEWEST:
        return False
    between = spread(ratios, CONFIDENCE)
    return between.low > 1 or between.high < 1 or (between.low > 1 - TIE and between.high < 1 + TIE)


def _clock_is_wrong(samples: Sequence[float], sure: Sequence[float], calls: int, runner: BoundKernel) -> str | None:
    """Why the clock is not to be believed: it hardly moved, or another one says something else of most samples."""
    clocks = Clocks()
    slop = runner.slop + (runner.slop_of_call * calls if runner.one_by_one else 0)
    for first, second in zip(samples, sure, strict=True):
        clocks.read(first * calls, second * calls, slop)
    if clocks.own < TICKS * max(runner.tick, 1e-9):
        return f"{len(samples)} samples took {clocks.own / 1e-9:.0f} ns, which is too short for the clock"
    return clocks.disagreement()


def _bits(array: np.ndarray) -> np.ndarray:
    """Floats as integers: NaN is equal to itself."""
    return array.view(f"u{array.dtype.itemsize}") if array.dtype.kind == "f" else array
