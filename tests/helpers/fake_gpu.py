"""A GPU that is none: a driver whose memory is this process's, and whose launches the CPU harness runs."""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Sequence
from functools import cached_property, partial
from typing import Any

import numpy as np

from dojoir.runtime.gpu.array import DeviceArray
from dojoir.runtime.gpu.driver import Gpu, Resources
from dojoir.runtime.simt.harness import Argument, GlobalArray, Harness

_NUMBERS = {("f", 4): ctypes.c_float, ("f", 8): ctypes.c_double}

ALIGNMENT = 256
"""What the addresses of arrays are multiples of."""


def _given(at: int, kind: str, size: int) -> float:
    """The argument that the address at `at` is of, as a driver copies it when a launch is asked for."""
    (address,) = ctypes.cast(at, ctypes.POINTER(ctypes.c_uint64))[:1]
    if kind == "p":
        return ctypes.c_uint64.from_address(address).value
    found = _NUMBERS.get((kind, size)) or getattr(ctypes, f"c_{'u' * (kind == 'u')}int{8 * size}")
    value: float = found.from_address(address).value
    return value


def _fill(to: int, byte: int, size: int) -> None:
    ctypes.memset(to, byte, size)


class FakeDriver:
    """A `Driver`. `log` says what was asked of it."""

    def __init__(self, target: str = "cuda") -> None:
        self.target = target
        self.devices = 1
        self.memory: dict[int, Any] = {}
        self.functions: list[tuple[Harness, str]] = []
        self.log: list[str] = []
        self.refused = 0
        """How many launches fail from now on, as without a context."""
        self.shared: dict[int, int] = {}
        self.recorded: list[Callable[[], None]] | None = None
        self.recorded_stream: int | None = None
        self.graphs: list[list[Callable[[], None]]] = []
        self.launches: list[tuple[str, tuple[int, int, int], int, int]] = []

    def use(self, device: int) -> None:
        assert device == 0

    def in_use(self) -> int:
        return 0

    def device_of(self, address: int) -> int:
        return 0

    def describe(self, device: int) -> Gpu:
        return Gpu("none", "sm_90", 1, 32 if self.target == "cuda" else 64, 100 << 10, 1 << 20, 1 << 30)

    def compile(self, text: str, architecture: str) -> bytes:
        self.log.append(f"compile for {architecture}")
        return text.encode()

    def load(self, code: bytes, names: Sequence[str]) -> tuple[int, ...]:
        harness = Harness(code.decode(), 32 if self.target == "cuda" else 64)
        self.functions += [(harness, name) for name in names]
        return tuple(range(len(self.functions) - len(names), len(self.functions)))

    def reserve(self, function: int, shared_bytes: int) -> None:
        self.shared[function] = shared_bytes

    def resources(self, function: int, name: str, threads: int, shared_bytes: int) -> Resources:
        return Resources(name, threads, 32, 0, shared_bytes, min(1.0, threads / 2048))

    def launch(self, function: int, grid: tuple[int, int, int], threads: int, packed: int, stream: int) -> None:
        harness, name = self.functions[function]
        with harness.device() as device:
            given = [_given(packed + 8 * n, p.kind, p.size) for n, p in enumerate(device.kernels[name])]
        self._do(partial(self._launch, function, grid, threads, given, stream), stream)

    @cached_property
    def launcher(self) -> int:
        """`launch` as a function of C."""
        kinds = [ctypes.c_uint64, *[ctypes.c_uint32] * 7, ctypes.c_uint64, ctypes.c_uint64, ctypes.c_uint64]

        def start(function: int, x: int, y: int, z: int, threads: int, *rest: int) -> int:
            _, _, shared, stream, packed, _ = rest
            assert shared == self.shared.get(function, 0)
            if self.refused:
                self.refused -= 1
                return 201
            self.launch(function, (x, y, z), threads, packed, stream)
            return 0

        self.started = ctypes.CFUNCTYPE(ctypes.c_int32, *kinds)(start)
        return ctypes.cast(self.started, ctypes.c_void_p).value or 0

    def _do(self, work: Callable[[], None], stream: int) -> None:
        """Records the work of a stream, or does it."""
        if self.recording(stream):
            assert self.recorded is not None
            self.recorded.append(work)
        else:
            work()

    def _launch(
        self, function: int, grid: tuple[int, int, int], threads: int, given: Sequence[float], stream: int
    ) -> None:
        harness, name = self.functions[function]
        self.launches.append((name, grid, threads, stream))
        if name == "fma_ceiling":  # arithmetic alone, much of it
            return
        with harness.device() as device:
            arguments: list[Argument] = []
            copies: dict[float, tuple[np.ndarray, GlobalArray]] = {}
            for number, (parameter, value) in enumerate(zip(device.kernels[name], given, strict=True)):
                if parameter.kind != "p":
                    arguments.append(value)
                    continue
                if value not in copies:
                    memory = self._from(int(value))
                    copies[value] = memory, device.array(memory, f"argument {number}")
                arguments.append(copies[value][1])
            device.launch(name, grid, (threads,), arguments, shared_bytes=self.shared.get(function, 0))
            for memory, buffer in copies.values():
                memory[...] = buffer.array

    def _from(self, address: int) -> np.ndarray:
        """What lies from an address on, in the memory that it is of."""
        start = max(one for one in self.memory if one <= address)
        found: np.ndarray = np.frombuffer(self.memory[start], np.uint8)[address - start :].view(np.uint32)
        return found

    def allocate(self, size: int) -> int:
        whole = ctypes.create_string_buffer(-(-max(size, 1) // 4) * 4 + ALIGNMENT)
        skipped = -ctypes.addressof(whole) % ALIGNMENT
        memory = (ctypes.c_char * (len(whole) - ALIGNMENT)).from_buffer(whole, skipped)
        address = ctypes.addressof(memory)
        self.memory[address] = memory
        return address

    def free(self, address: int) -> None:
        del self.memory[address]

    def to_device(self, to: int, host: int, size: int, stream: int) -> None:
        ctypes.memmove(to, host, size)

    def to_host(self, host: int, source: int, size: int, stream: int) -> None:
        ctypes.memmove(host, source, size)

    def copy(self, to: int, source: int, size: int, stream: int) -> None:
        ctypes.memmove(to, source, size)

    def fill(self, to: int, byte: int, size: int, stream: int) -> None:
        self._do(lambda: _fill(to, byte, size), stream)

    def wait(self, stream: int) -> None:
        self.log.append(f"wait for {stream}")

    def new_stream(self) -> int:
        return 77

    def recording(self, stream: int) -> int:
        recorded = self.recorded is not None and stream == self.recorded_stream
        return len(self.graphs) + 1 if recorded else 0

    @property
    def loads_while_recording(self) -> bool:
        return self.target == "cuda"

    def capture(self, stream: int) -> None:
        self.recorded, self.recorded_stream = [], stream

    def captured(self, stream: int) -> int:
        assert self.recorded is not None
        self.graphs.append(self.recorded)
        self.recorded = None
        return len(self.graphs) - 1

    def replay(self, graph: int, stream: int) -> None:
        for work in self.graphs[graph]:
            work()

    def new_event(self) -> int:
        return 0

    def record(self, event: int, stream: int) -> None:
        self.log.append("event")

    def seconds(self, first: int, second: int) -> float:
        return 1e-6


def on_gpu(driver: FakeDriver, array: np.ndarray) -> DeviceArray:
    """An array in the memory of the driver."""
    made = DeviceArray(driver, array.shape, str(array.dtype), array.strides, array.nbytes)
    made.put(array)
    return made
