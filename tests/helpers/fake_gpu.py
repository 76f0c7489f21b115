"""A GPU that is none: a driver whose memory is this process's, and whose launches the CPU harness runs."""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from dojoir.runtime.gpu.driver import Gpu
from dojoir.runtime.simt.harness import Argument, Buffer, Harness

_NUMBERS = {("f", 4): ctypes.c_float, ("f", 8): ctypes.c_double}


class FakeDriver:
    """A `Driver`. `log` says what was asked of it."""

    def __init__(self, target: str = "cuda") -> None:
        self.target = target
        self.devices = 1
        self.memory: dict[int, Any] = {}
        self.functions: list[tuple[Harness, str]] = []
        self.log: list[str] = []
        self.shared: dict[int, int] = {}
        self.recording: list[Callable[[], None]] | None = None
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

    def launch(self, function: int, grid: tuple[int, int, int], threads: int, packed: int, stream: int) -> None:
        if self.recording is not None:
            self.recording.append(lambda: self._launch(function, grid, threads, packed, stream))
            return
        self._launch(function, grid, threads, packed, stream)

    def _launch(self, function: int, grid: tuple[int, int, int], threads: int, packed: int, stream: int) -> None:
        harness, name = self.functions[function]
        self.launches.append((name, grid, threads, stream))
        if name == "fma_ceiling":  # arithmetic alone, much of it
            return
        with harness.device() as device:
            given: list[Argument] = []
            copies: dict[int, tuple[np.ndarray, Buffer]] = {}
            for number, parameter in enumerate(device.kernels[name]):
                (at,) = ctypes.cast(packed + 8 * number, ctypes.POINTER(ctypes.c_uint64))[:1]
                if parameter.kind != "p":
                    kind = _NUMBERS.get((parameter.kind, parameter.size))
                    found = kind or getattr(ctypes, f"c_{'u' * (parameter.kind == 'u')}int{8 * parameter.size}")
                    given.append(found.from_address(at).value)
                    continue
                address = ctypes.c_uint64.from_address(at).value
                if address not in copies:
                    memory = np.frombuffer(self.memory[address], np.uint32)
                    copies[address] = memory, device.array(memory, f"argument {number}")
                given.append(copies[address][1])
            device.launch(name, grid, (threads,), given, shared_bytes=self.shared.get(function, 0))
            for memory, buffer in copies.values():
                memory[...] = buffer.array

    def allocate(self, size: int) -> int:
        memory = ctypes.create_string_buffer(-(-max(size, 1) // 4) * 4)
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
        ctypes.memset(to, byte, size)

    def wait(self, stream: int) -> None:
        self.log.append(f"wait for {stream}")

    def new_stream(self) -> int:
        return 77

    def is_captured(self, stream: int) -> bool:
        return self.recording is not None

    def capture(self, stream: int) -> None:
        self.recording = []

    def captured(self, stream: int) -> int:
        assert self.recording is not None
        self.graphs.append(self.recording)
        self.recording = None
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
