"""A kernel on a GPU as a function on memory of the CPU: for checking, which compares what is there."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from dojoir.errors import RunError
from dojoir.ir.nodes import Kernel
from dojoir.runtime.call.compiled import Compiled
from dojoir.runtime.call.layout import storage_bytes
from dojoir.runtime.call.scalars import Number, takes_value
from dojoir.runtime.gpu.compiled import DeviceCompiled
from dojoir.runtime.gpu.driver import Driver
from dojoir.runtime.gpu.emulated import by_name
from dojoir.support.frozen import dataclass

GUARD = 1 << 16
"""The bytes before and behind every array that belong to none."""

MARK = 0x5C
"""The value of their bytes."""


def staged(compiled: DeviceCompiled) -> Compiled:
    """The same kernel, called on arrays of the CPU: each call copies them to the GPU and back, and fails where the
    kernel wrote beside an array."""
    function = _StagedFunction(compiled.kernel, compiled)
    return Compiled(compiled.kernel, compiled.target, 1, compiled.source, function, compiled, compiled.checks)


@dataclass(frozen=True)
class _StagedFunction:
    kernel: Kernel
    compiled: DeviceCompiled

    def __call__(self, *values: Number) -> int:
        driver = self.compiled.driver
        given, sizes = by_name(self.kernel, values)
        held: dict[str, _Guarded] = {}
        try:
            for buffer in self.kernel.arguments:
                if not takes_value(buffer):
                    size = storage_bytes(buffer, sizes)
                    held[buffer.name] = _Guarded(driver, int(given[buffer.name]), size)
            addresses = {name: array.address for name, array in held.items()}
            scalars = {name: value for name, value in given.items() if name not in held}
            status = self.compiled.run_at(addresses, {**scalars, **_runtime(self.kernel, sizes)})
            driver.wait(0)
            for name, array in held.items():
                if not array.is_intact:
                    raise RunError(f"kernel {self.kernel.name} wrote outside of {name}", "out-of-bounds")
                array.back()
        finally:
            for array in held.values():
                driver.free(array.start)
        return status


def _runtime(kernel: Kernel, sizes: Mapping[str, int]) -> dict[str, int]:
    return {name: sizes[name] for name in kernel.runtime_sizes}


class _Guarded:
    """A copy on the GPU of `size` bytes at `host`, between bytes that are no one's."""

    def __init__(self, driver: Driver, host: int, size: int) -> None:
        self.driver, self.host, self.size = driver, host, size
        self.start = driver.allocate(size + 2 * GUARD)
        driver.fill(self.start, MARK, size + 2 * GUARD, 0)
        self.address = self.start + GUARD
        driver.to_device(self.address, host, size, 0)

    @property
    def is_intact(self) -> bool:
        around = np.zeros(2 * GUARD, np.uint8)
        at = around.ctypes.data
        self.driver.to_host(at, self.start, GUARD, 0)
        self.driver.to_host(at + GUARD, self.address + self.size, GUARD, 0)
        self.driver.wait(0)
        return bool((around == MARK).all())

    def back(self) -> None:
        """Copies it to where it came from."""
        self.driver.to_host(self.host, self.address, self.size, 0)
        self.driver.wait(0)
