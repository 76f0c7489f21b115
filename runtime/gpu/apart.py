"""The check of a `distinct` argument on the GPU that it is on.

Each element finds a place in a table by its remainder, and the first one there, by its number, stays. Where every
element is the first at its place, no two have a remainder in common, so no two are equal. Where one is not, nothing
is known: two may be equal, or differ by a multiple of the table's size. The check on the CPU then says which. The
table has as many places as the largest dimension of an argument, so that elements that number something have places
of their own.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from math import prod
from threading import Lock

from dojoir.grammar import parse
from dojoir.ir.nodes import Buffer, Kernel
from dojoir.runtime.call.views import View
from dojoir.runtime.gpu.array import DeviceArray, bytes_on
from dojoir.runtime.gpu.calls import Loaded, Ready, lane_of
from dojoir.runtime.gpu.driver import Driver, Stream

LEAST_PLACES, MOST_PLACES = 1 << 16, 1 << 22
"""How many places a table has at least, and at most: more takes the CPU."""

MOST_CALLS = 8
"""How many calls with other arrays are remembered."""

TEXT = """kernel apart(N)
in    x: {dtype}[N]
out   more: i64
tmp   first: i32[{places}]

{blocks} : gx
| 256 : bx
| | first[256*{{0}} + {{1}}] = 2147483647
more = 0
(N + 255) // 256 : gx
| min(256, N - 256*{{0}}) : bx
| | first[x[256*{{0}} + {{1}}] % {places}] min= i32(256*{{0}} + {{1}})
(N + 255) // 256 : gx
| min(256, N - 256*{{0}}) : bx
| | more += 1 if first[x[256*{{0}} + {{1}}] % {places}] != i32(256*{{0}} + {{1}})
"""
"""Counts the elements that are not the first at their place."""

SHORT = """kernel apart(N)
in    x: {dtype}[N]
out   more: i64
tmp   first: i32[{places}]

1 : gx
| 1024 : bx
| | {blocks}
| | | first[1024*{{2}} + {{1}}] = 2147483647
| more = 0
| 1024 : bx
| | (N - {{1}} + 1023) // 1024
| | | first[x[1024*{{2}} + {{1}}] % {places}] min= i32(1024*{{2}} + {{1}})
| 1024 : bx
| | (N - {{1}} + 1023) // 1024
| | | more += 1 if first[x[1024*{{2}} + {{1}}] % {places}] != i32(1024*{{2}} + {{1}})
"""
"""The same in one launch of one block, for few elements: starting a launch takes longer than they do."""

FEW = 1 << 15
"""How many elements are few."""


def kernel_apart(dtype: str, places: int, few: bool) -> Kernel:
    """The kernel that asks it of elements of a type, with so many places, a multiple of 1024."""
    text, threads = (SHORT, 1024) if few else (TEXT, 256)
    return parse(text.format(dtype=dtype, places=places, blocks=places // threads))


class Apart:
    """Asks it of the arguments of a kernel. `load` brings a kernel to a device, for arrays that begin anywhere."""

    def __init__(self, driver: Driver, load: Callable[[Kernel, int], Loaded]) -> None:
        self._driver, self._load = driver, load
        self._made: dict[tuple[str, int, bool, int], Loaded] = {}
        self._calls: dict[tuple[object, ...], tuple[Ready, Loaded, DeviceArray]] = {}
        self._lock = Lock()

    def knows(self, buffer: Buffer, view: View, places: int, device: int, stream: Stream) -> bool:
        """Whether it is certain that no two elements of an argument are equal. False: two may be equal or not.
        Waits until the stream has come so far. `places` is the least size of the table: an upper bound of the
        elements, where they are indices, makes the answer exact."""
        count = prod(view.shape)
        if count < 2:
            return True
        steps = [buffer.dtype.itemsize * prod(view.shape[d + 1 :]) for d in range(len(view.shape))]
        places = max(LEAST_PLACES, 1 << (max(places, count) - 1).bit_length())
        whole = all(n == 1 or step == s for n, s, step in zip(view.shape, steps, view.strides, strict=True))
        if places > MOST_PLACES or not whole or buffer.packed:
            return False
        key = (buffer.dtype.name, places, device, view.address, count, lane_of(stream))
        found = ctypes.c_int64(-1)
        with self._lock:  # another thread's call would write to the same table
            if key not in self._calls:
                if len(self._calls) >= MOST_CALLS:
                    self._calls.clear()
                self._calls[key] = self._prepared(buffer.dtype.name, places, view.address, count, device, stream)
            ready, loaded, cell = self._calls[key]
            loaded.start(ready, stream)  # a remainder is a place: the status says nothing
            self._driver.to_host(ctypes.addressof(found), cell.address, 8, stream)
        self._driver.wait(stream)
        return found.value == 0

    def _prepared(
        self, dtype: str, places: int, address: int, count: int, device: int, stream: Stream
    ) -> tuple[Ready, Loaded, DeviceArray]:
        few = count <= FEW and places <= LEAST_PLACES
        made = self._made.get((dtype, places, few, device))
        if made is None:
            made = self._load(kernel_apart(dtype, places, few), device)
            self._made[dtype, places, few, device] = made
        cell = bytes_on(self._driver, 8)
        ready = made.prepare({"x": address, "more": cell.address}, {"N": count}, stream, own=True)
        return ready, made, cell
