"""Calls of a kernel on a GPU: its launches with their arguments where the driver reads them."""

from __future__ import annotations

import ctypes
from collections.abc import Mapping, Sequence
from dataclasses import field
from typing import Any

from dojoir.codegen.lir.outcome import OK
from dojoir.ir.dtypes import DType
from dojoir.ir.nodes import Kernel
from dojoir.runtime.call.scalars import Number
from dojoir.runtime.gpu.array import DeviceArray, bytes_on
from dojoir.runtime.gpu.driver import Driver, Stream
from dojoir.runtime.gpu.plan import HostCode, Plan, Step
from dojoir.support.frozen import dataclass

_TYPES: Mapping[tuple[str, int], Any] = {
    ("f", 8): ctypes.c_double, ("f", 4): ctypes.c_float,
    ("i", 8): ctypes.c_int64, ("i", 4): ctypes.c_int32, ("i", 2): ctypes.c_int16, ("i", 1): ctypes.c_int8,
    ("u", 8): ctypes.c_uint64, ("u", 4): ctypes.c_uint32, ("u", 2): ctypes.c_uint16, ("u", 1): ctypes.c_uint8,
    ("b", 1): ctypes.c_uint8,
}  # fmt: skip

MOST_PLANS = 64
"""How many calls of different sizes, and workspaces, are remembered."""


class Packed:
    """The arguments of a launch as a driver takes them: addresses of values, side by side in memory."""

    __slots__ = ("_pointers", "_values", "address")

    def __init__(self, addresses: Sequence[int], numbers: Sequence[tuple[DType, Number]]) -> None:
        given: list[Any] = [ctypes.c_uint64(address) for address in addresses]
        given += [_TYPES[dtype.kind, dtype.itemsize](number) for dtype, number in numbers]
        self._values = given
        self._pointers = (ctypes.c_void_p * max(1, len(given)))(*map(ctypes.addressof, given))
        self.address = ctypes.addressof(self._pointers)


Ready = tuple[int, tuple[int, int, int], int, Packed]
"""A launch: the handle of its kernel, the grid, the threads of a block, its arguments."""


@dataclass
class Loaded:
    """A kernel on one device: the handles of what it launches, and the memory that is its own. A workspace serves
    all calls of one size on one stream, which run one after the other."""

    kernel: Kernel
    host: HostCode
    driver: Driver
    functions: tuple[int, ...]
    _workspaces: dict[tuple[tuple[int, ...], Stream], dict[str, DeviceArray]] = field(default_factory=dict)
    _plans: dict[tuple[Number, ...], Plan] = field(default_factory=dict)
    _status: DeviceArray | None = None

    def prepare(self, arrays: Mapping[str, int], values: Mapping[str, Number], stream: Stream) -> tuple[Ready, ...]:
        """The launches of a call: `arrays` are the addresses of its arrays by name, `values` its scalars and
        sizes."""
        plan = self._plan(values)
        places = {**arrays, **self._workspace(plan, stream)}
        return tuple(self._ready(step, places) for step in plan.steps)

    def _ready(self, step: Step, places: Mapping[str, int]) -> Ready:
        entry = self.host.entries[step.entry]
        addresses = [places[name] for name in entry.arrays]
        if not entry.reports:
            packed = Packed(addresses, list(zip(entry.numbers, step.numbers, strict=True)))
        else:
            numbers = [*zip(entry.numbers, step.numbers, strict=True), (_POINTER, self.status)]
            packed = Packed(addresses, numbers)
        return self.functions[step.entry], step.grid, entry.threads, packed

    def _plan(self, values: Mapping[str, Number]) -> Plan:
        key = tuple(values.values())
        plan = self._plans.get(key)
        if plan is None:
            if len(self._plans) >= MOST_PLANS:
                self._plans.clear()
            plan = self._plans[key] = self.host.plan(values)
        return plan

    def _workspace(self, plan: Plan, stream: Stream) -> Mapping[str, int]:
        if not plan.workspace:
            return {}
        key = tuple(size for _, size in plan.workspace), stream
        if key not in self._workspaces:
            self._workspaces[key] = {name: bytes_on(self.driver, size) for name, size in plan.workspace}
        return {name: array.address for name, array in self._workspaces[key].items()}

    @property
    def status(self) -> int:
        """Where the launches leave a status, on the device."""
        if self._status is None:
            self._status = bytes_on(self.driver, 4)
        return self._status.address

    # -- running them ---------------------------------------------------------------------------------------
    def run(self, launches: Sequence[Ready], stream: Stream) -> int:
        """Starts the launches. Where one may find an index out of bounds, waits, and gives the status; not where
        the work of the stream is recorded, as there is nothing to wait for."""
        launch = self.driver.launch
        if not self.host.program.has_status:
            for function, grid, threads, packed in launches:
                launch(function, grid, threads, packed.address, stream)
            return OK
        self.driver.fill(self.status, 0, 4, stream)
        for function, grid, threads, packed in launches:
            launch(function, grid, threads, packed.address, stream)
        if self.driver.is_captured(stream):
            return OK
        found = ctypes.c_int32(0)
        self.driver.to_host(ctypes.addressof(found), self.status, 4, stream)
        self.driver.wait(stream)
        return found.value


_POINTER = DType("address", "u", 64)
