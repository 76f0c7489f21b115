"""Timing candidates on a GPU: their arrays stay there, and its events are the clock.

Warm, the launches of a call are one graph, which is started several times between two events; cold, twice the last
cache is written before each call. Both are as `measure` does it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from dojoir.ir.nodes import Kernel
from dojoir.meaning.scalar_args import scalar_value
from dojoir.runtime.call.scalars import takes_value
from dojoir.runtime.evaluation.inspection import ElementSample
from dojoir.runtime.evaluation.paired_timing import BoundKernel
from dojoir.runtime.evaluation.pool import KnownCase, elements_of
from dojoir.runtime.gpu.array import DeviceArray, array_for
from dojoir.runtime.gpu.compiled import DeviceCompiled
from dojoir.runtime.gpu.driver import Driver
from dojoir.runtime.measurement.clocks import second_clock
from dojoir.runtime.measurement.gpu_timing import TimedGpu
from dojoir.runtime.verification.trial import POISONS

HOST_SECONDS = 2e-3
"""By how much the clock of the CPU may be ahead of the GPU's: it starts it, waits for it, and writes its cache."""


class DeviceRunner(BoundKernel):
    """A kernel bound to arrays of one size on a GPU."""

    slop = slop_of_call = HOST_SECONDS
    looks = 2  # all that was written is copied for each
    can_exchange = False  # what runs is launches alone, which keep nothing
    tick = 0.5e-6  # the resolution of events

    def __init__(self, reference: Kernel, sizes: Mapping[str, int], driver: Driver, cold: bool) -> None:
        self.driver, self.cold = driver, cold
        self.gpu = TimedGpu(driver, hot=not cold)
        self.firsts: dict[str, DeviceArray] = {}
        super().__init__(reference, sizes)

    def make_arrays(self) -> None:
        self.arrays: dict[str, DeviceArray] = {}
        for buffer in self.reference.arguments:
            if not takes_value(buffer):
                self.arrays[buffer.name] = array_for(self.driver, buffer, self.sizes)
                if buffer.role == "inout":
                    self.firsts[buffer.name] = array_for(self.driver, buffer, self.sizes)

    def fill(self, known: KnownCase) -> None:
        for buffer in self.reference.arguments:
            if buffer.role != "out" and buffer.name in self.arrays:
                self.arrays[buffer.name].put(known.inputs[buffer.name])
        for name, first in self.firsts.items():
            first.put(known.inputs[name])

    def bind_call(self, known: KnownCase) -> None:
        assert isinstance(self.compiled, DeviceCompiled)
        arguments = [
            scalar_value(buffer, known.inputs[buffer.name]) if takes_value(buffer) else self.arrays[buffer.name]
            for buffer in self.reference.arguments
        ]
        runtime = {name: self.sizes[name] for name in self.reference.runtime_sizes}
        make = self.compiled.bind if self.cold else self.compiled.graph
        self.call = make(*arguments, **runtime)

    def poison(self) -> None:
        for name in self.outputs:
            self.arrays[name].fill(POISONS[0])

    def restore(self) -> None:
        for name, first in self.firsts.items():
            self.arrays[name].copy_from(first.address)

    def once(self) -> tuple[float, float]:
        begin = second_clock()
        seconds = self.gpu.seconds(self.call)
        return seconds, (second_clock() - begin) * 1e-9

    @property
    def one_by_one(self) -> bool:
        return bool(self.inouts) or self.cold

    def sample(self, calls: int) -> tuple[float, float]:
        if self.one_by_one:
            return super().sample(calls)
        begin = second_clock()
        seconds = self.gpu.seconds(self.call, calls)
        return seconds, (second_clock() - begin) * 1e-9 / calls

    def spoil(self, spots: Sequence[ElementSample]) -> None:
        self.poison()

    def look(self, spots: Sequence[ElementSample]) -> list[np.ndarray]:
        results = self.results()
        return [results[name][box] for name, box in spots]

    def fault(self, known: KnownCase) -> str | None:
        """Nothing is known of the memory around arrays of a GPU."""
        return None

    def results(self) -> dict[str, np.ndarray]:
        return {
            buffer.name: elements_of(buffer, self.arrays[buffer.name].numpy())
            for buffer in self.reference.arguments
            if buffer.role != "in"
        }
