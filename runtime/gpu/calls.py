"""Calls of a kernel on a GPU: its launches with their arguments where the driver reads them."""

from __future__ import annotations

import ctypes
from collections.abc import Mapping, Sequence
from dataclasses import field
from threading import Lock, get_ident
from typing import Any, NamedTuple

from dojoir.codegen.gpu.program import GpuProgram
from dojoir.codegen.lir.outcome import OK
from dojoir.ir.dtypes import DType
from dojoir.ir.nodes import Kernel
from dojoir.runtime.call.scalars import Number
from dojoir.runtime.gpu.array import DeviceArray, bytes_on
from dojoir.runtime.gpu.driver import Driver, Stream
from dojoir.runtime.gpu.plan import HostCode, LaunchPlan, LaunchStep
from dojoir.support.frozen import dataclass

_TYPES: Mapping[tuple[str, int], Any] = {
    ("f", 8): ctypes.c_double, ("f", 4): ctypes.c_float,
    ("i", 8): ctypes.c_int64, ("i", 4): ctypes.c_int32, ("i", 2): ctypes.c_int16, ("i", 1): ctypes.c_int8,
    ("u", 8): ctypes.c_uint64, ("u", 4): ctypes.c_uint32, ("u", 2): ctypes.c_uint16, ("u", 1): ctypes.c_uint8,
    ("b", 1): ctypes.c_uint8,
}  # fmt: skip

MOST_PLANS = 64
"""How many calls of different sizes are remembered."""

MOST_STREAMS = 32
"""For how many streams memory is kept."""

PER_THREAD = 2
"""The handle that names another stream in each thread of the host."""

STATUS = " status"
"""The name of the memory for the status, beside temporaries: no name of an array."""

Memory = dict[str, DeviceArray]
"""Arrays on the device by name."""


def value_of(dtype: DType, number: Number) -> Any:
    """A number in memory, as a launch takes it."""
    return _TYPES[dtype.kind, dtype.itemsize](number)


class Packed:
    """The arguments of a launch as a driver takes them: addresses of values, side by side in memory. Keeps `kept`
    alive, the memory that it works on."""

    __slots__ = ("_kept", "_pointers", "_values", "address")

    def __init__(
        self, addresses: Sequence[int], numbers: Sequence[tuple[DType, Number]], kept: object = None
    ) -> None:
        self._kept = kept
        given: list[Any] = [ctypes.c_uint64(address) for address in addresses]
        given += [value_of(dtype, number) for dtype, number in numbers]
        self._values = given
        self._pointers = (ctypes.c_void_p * max(1, len(given)))(*map(ctypes.addressof, given))
        self.address = ctypes.addressof(self._pointers)


Launch = tuple[int, tuple[int, int, int], int, Packed]
"""A launch: the handle of its kernel, the grid, the threads of a block, its arguments."""


class Ready(NamedTuple):
    """A call that is ready to start: its launches, and where they leave a status on the device (0: nowhere)."""

    launches: tuple[Launch, ...]
    status: int


@dataclass
class Loaded:
    """A kernel on one device: the handles of what it launches, and the memory that is its own.

    The calls of a stream run one after the other, so they share memory for temporaries and the status, as large as
    the largest of them needs. A call that is recorded for a graph shares it with the others of the recording
    alone, and that stays, as code does, when this kernel is gone: who runs the graph, and when, is not known here.
    No launch of another thread of the host comes between those of a call."""

    kernel: Kernel
    host: HostCode
    driver: Driver
    functions: tuple[int, ...]
    grown: int = 0
    _memory: dict[object, Memory] = field(default_factory=dict)
    _recorded: dict[int, list[Memory]] = field(default_factory=dict)
    _plans: dict[tuple[Number, ...], LaunchPlan] = field(default_factory=dict)
    _lock: Lock = field(default_factory=Lock)

    def prepare(
        self, arrays: Mapping[str, int], values: Mapping[str, Number], stream: Stream, *, own: bool = False
    ) -> Ready:
        """The launches of a call: `arrays` are the addresses of its arrays by name, `values` its scalars and
        sizes. With `own`, on memory that is no other call's. When `grown` rises, what was made before is on memory
        that later calls have no use for."""
        plan = self.plan(values)
        needed = {**({STATUS: 4} if self.host.program.has_status else {}), **dict(plan.workspace)}
        memory: Memory = {}
        if own:
            memory = {name: bytes_on(self.driver, size) for name, size in needed.items()}
        elif needed:
            memory = self._memory_of(stream, needed)
        places = {name: array.address for name, array in memory.items()}
        status = places.get(STATUS, 0)
        launches = tuple(self._launch(step, {**places, **arrays}, status, memory) for step in plan.steps)
        return Ready(launches, status)

    def _launch(self, step: LaunchStep, places: Mapping[str, int], status: int, memory: object) -> Launch:
        entry = self.host.entries[step.entry]
        addresses = [places[name] for name in entry.arrays]
        numbers = list(zip(entry.numbers, step.numbers, strict=True))
        if entry.reports:
            numbers.append((_POINTER, status))
        return self.functions[step.entry], step.grid, entry.threads, Packed(addresses, numbers, memory)

    def plan(self, values: Mapping[str, Number]) -> LaunchPlan:
        """The launches of a call with these scalars and sizes. Raises ArgumentError for a grid that no device
        takes."""
        key = tuple(values.values())
        plan = self._plans.get(key)
        if plan is None:
            if len(self._plans) >= MOST_PLANS:
                self._plans.clear()
            plan = self._plans[key] = self.host.plan(values)
        return plan

    def _memory_of(self, stream: Stream, needed: Mapping[str, int]) -> Memory:
        """Arrays of so many bytes at least for the calls of a stream, which go on with what is there where that is
        large enough."""
        recording = self.driver.recording(stream)
        with self._lock:
            if recording:
                found = self._recorded.setdefault(recording, [{}])
                whole = {name: self._enough(found[-1], name, size) for name, size in needed.items()}
                for array in whole.values():
                    array.stay()
                found.append(whole)  # what was recorded before works on those of before
                return whole
            key = lane_of(stream)
            held = self._memory.pop(key, {})
            if len(self._memory) >= MOST_STREAMS:
                del self._memory[next(iter(self._memory))]
                self.grown += 1
            self._memory[key] = {**held, **{name: self._enough(held, name, size) for name, size in needed.items()}}
            return self._memory[key]

    def _enough(self, held: Memory, name: str, size: int) -> DeviceArray:
        """The array of a name, or a larger one in its place."""
        if name in held and held[name].size >= size:
            return held[name]
        self.grown += 1
        return bytes_on(self.driver, size)

    # -- running them ---------------------------------------------------------------------------------------
    def run(self, ready: Ready, stream: Stream) -> int:
        """Starts the launches. Where one may find an index out of bounds, waits, and gives the status; not where
        the work of the stream is recorded, as there is nothing to wait for."""
        if not needs_memory(self.host.program):
            self.start(ready, stream)
            return OK
        found = ctypes.c_int32(OK)
        with self._lock:
            if not self.host.program.has_status:
                self.start(ready, stream)
                return OK
            self.driver.fill(ready.status, 0, 4, stream)
            self.start(ready, stream)
            if self.driver.recording(stream):
                return OK
            self.driver.to_host(ctypes.addressof(found), ready.status, 4, stream)
        self.driver.wait(stream)
        return found.value

    def start(self, ready: Ready, stream: Stream) -> None:
        """Starts the launches, and looks at no status."""
        launch = self.driver.launch
        for function, grid, threads, packed in ready.launches:
            launch(function, grid, threads, packed.address, stream)


def needs_memory(program: GpuProgram) -> bool:
    """Whether calls need memory that no caller gives."""
    return bool(program.workspace) or program.has_status


def lane_of(stream: Stream) -> object:
    """The key of a stream: its handle. For a stream that is another one in each thread of the host, the thread is
    added."""
    return (stream, get_ident()) if stream == PER_THREAD else stream


_POINTER = DType("address", "u", 64)
