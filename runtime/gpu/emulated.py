"""GPU programs run without a GPU, every access checked: a compiled function on memory of the CPU."""

from __future__ import annotations

import ctypes
from collections.abc import Mapping
from dataclasses import field

import numpy as np

from dojoir.ir.nodes import Kernel
from dojoir.runtime.call.layout import storage_bytes
from dojoir.runtime.call.scalars import Number, takes_value
from dojoir.runtime.gpu.plan import HostCode, LaunchPlan
from dojoir.runtime.simt.harness import Argument, GlobalArray, Harness, HarnessProcess
from dojoir.support.frozen import dataclass

UNSET = 0xFF
"""The initial value of every byte of a temporary: NaN as a float."""


@dataclass(frozen=True)
class EmulatedGpuFunction:
    """A kernel as the compiled function is called: addresses as numbers, scalars, sizes; it gives a status. What
    the launches must not do (a race, an access out of bounds) is a RunError."""

    kernel: Kernel
    host: HostCode
    built: dict[bool, Harness] = field(default_factory=dict)

    @property
    def harness(self) -> Harness:
        """The version of most calls, built."""
        return self._built(self.host.shortened is not self.host)

    def _built(self, short: bool) -> Harness:
        """The source as it counts in 32 bits, or in 64."""
        if short not in self.built:
            program = self.host.shortened.program if short else self.host.program
            self.built[short] = Harness(program.source, program.warp)
        return self.built[short]

    def __call__(self, *values: Number) -> int:
        given, sizes = by_name(self.kernel, values)
        short = self.host.is_short({name: sizes[name] for name in self.kernel.runtime_sizes})
        host = self.host.shortened if short else self.host
        with self._built(short).device() as device:
            plan = host.plan({**given, **sizes})
            buffers, copies = self._arrays(device, given, sizes)
            status = self._run(device, host, plan, buffers)
            for memory, buffer in copies:
                memory[...] = buffer.array
        return status

    def _arrays(
        self, device: HarnessProcess, given: Mapping[str, Number], sizes: Mapping[str, int]
    ) -> tuple[dict[str, GlobalArray], list[tuple[np.ndarray, GlobalArray]]]:
        """A copy of each array on the device, and those that go back with the memory they came from."""
        buffers: dict[str, GlobalArray] = {}
        copies: list[tuple[np.ndarray, GlobalArray]] = []
        for argument in self.kernel.arguments:
            if takes_value(argument):
                continue
            size = storage_bytes(argument, sizes)
            memory = (ctypes.c_char * size).from_address(int(given[argument.name]))
            array = np.frombuffer(memoryview(memory).cast("B"), argument.dtype.stored)
            buffers[argument.name] = device.array(array, argument.name)
            if argument.role != "in":
                copies.append((array, buffers[argument.name]))
        return buffers, copies

    def _run(
        self, device: HarnessProcess, host: HostCode, plan: LaunchPlan, buffers: dict[str, GlobalArray]
    ) -> int:
        for name, size in plan.workspace:
            buffers[name] = device.empty((size,), np.uint8, name)
            buffers[name].array[...] = UNSET
        status = device.array(np.zeros(1, np.int32), "status")
        for step in plan.steps:
            entry = host.entries[step.entry]
            arguments: list[Argument] = [buffers[name] for name in entry.arrays]
            arguments += step.numbers
            if entry.reports:
                arguments.append(status)
            device.launch(entry.name, step.grid, (entry.threads,), arguments, shared_bytes=entry.shared_bytes)
        return int(status.array[0])


def by_name(kernel: Kernel, values: tuple[Number, ...]) -> tuple[dict[str, Number], dict[str, int]]:
    """The arguments of a compiled function by name: its arguments, and all sizes of the kernel."""
    arguments = kernel.arguments
    given = {argument.name: value for argument, value in zip(arguments, values, strict=False)}
    sizes = {name: int(value) for name, value in zip(kernel.runtime_sizes, values[len(arguments) :], strict=True)}
    return given, sizes | {size.name: size.value for size in kernel.sizes if size.value is not None}
