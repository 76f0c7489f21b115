"""The check of facts on data on the GPU that the data are on: a kernel counts what may break one.

For `lengths` and `offsets` it counts what does. For `distinct` each element finds a place in a table by its
remainder, and the first one there, by its number, stays. Where every element is the first at its place, no two have
a remainder in common, so no two are equal. Where one is not, nothing is known: two may be equal, or differ by a
multiple of the table's size. The table has as many places as the largest dimension of an argument, so that elements
that number something have places of their own.

Where anything was counted, the check on the CPU then says what is wrong.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Mapping
from math import prod
from threading import Lock
from typing import NamedTuple

from dojoir.grammar import parse
from dojoir.ir.nodes import Buffer, DataFact, Kernel
from dojoir.runtime.call.views import View
from dojoir.runtime.gpu.array import DeviceArray, bytes_on
from dojoir.runtime.gpu.calls import Loaded, Ready, lane_of
from dojoir.runtime.gpu.driver import Driver, Stream

LEAST_PLACES, MOST_PLACES = 1 << 16, 1 << 22
"""How many places a table has at least, and at most: more takes the CPU."""

MOST_CALLS = 8
"""How many calls with other arrays are remembered."""

DISTINCT = """kernel apart(N)
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

SHORT_DISTINCT = """kernel apart(N)
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

BEYOND = """kernel beyond(N, C)
in    x: {dtype}[N]
in    most: i64
out   more: i64

more = 0
({count} + 255) // 256 : gx
| min(256, {count} - 256*{{0}}) : bx
| | more += 1 if {wrong}
"""
"""Counts what breaks a bound, in rows of C elements."""

SHORT_BEYOND = """kernel beyond(N, C)
in    x: {dtype}[N]
in    most: i64
out   more: i64

1 : gx
| more = 0
| 1024 : bx
| | ({count} - {{1}} + 1023) // 1024
| | | more += 1 if {wrong}
"""
"""The same in one launch, for few elements."""

WRONG = {
    "lengths": ("N", "i64(x[{at}]) < 0 or i64(x[{at}]) > most"),
    "offsets": (
        "N - 1",
        "({at} + 1) % C != 0 and (x[{at} + 1] < x[{at}] or u64(x[{at} + 1]) - u64(x[{at}]) > u64(most))",
    ),
}
"""For each fact with a bound, from 0 on, how many elements are asked, and what is wrong with one."""

FEW = 1 << 15
"""How many elements are few."""


class DataQuestion(NamedTuple):
    """What is asked of all elements of a type, few or not: of `distinct` ones with a table of so many places, of
    others by their bound at the call."""

    word: str
    places: int
    most: int


def kernel_of(word: str, dtype: str, places: int, few: bool) -> Kernel:
    """The kernel that counts the elements of a type that may break a fact; of `distinct` ones with so many places,
    a multiple of 1024."""
    if word == "distinct":
        text, threads = (SHORT_DISTINCT, 1024) if few else (DISTINCT, 256)
        return parse(text.format(dtype=dtype, places=places, blocks=places // threads))
    text, at = (SHORT_BEYOND, "1024*{2} + {1}") if few else (BEYOND, "256*{0} + {1}")
    count, wrong = WRONG[word]
    return parse(text.format(dtype=dtype, count=count, wrong=wrong.format(at=at)))


class DataFacts:
    """Asks it of the arguments of a kernel. `load` brings a kernel to a device, for arrays that begin anywhere."""

    def __init__(self, driver: Driver, load: Callable[[Kernel, int], Loaded]) -> None:
        self._driver, self._load = driver, load
        self._made: dict[tuple[str, str, int, bool, int], Loaded] = {}
        self._calls: dict[tuple[object, ...], tuple[Ready, Loaded, DeviceArray]] = {}
        self._lock = Lock()

    def knows(
        self,
        buffer: Buffer,
        fact: DataFact,
        view: View,
        sizes: Mapping[str, int],
        places: int,
        device: int,
        stream: Stream,
    ) -> bool:
        """Whether it is certain that a fact holds for the data of an argument. False: it may or not. Waits until
        the stream has come so far. `places` is the least size of a table for `distinct`: an upper bound of the
        elements, where they are indices, makes the answer exact."""
        count = prod(view.shape)
        if count == 0 or (count == 1 and fact.word != "lengths"):
            return True
        steps = [buffer.dtype.itemsize * prod(view.shape[d + 1 :]) for d in range(len(view.shape))]
        whole = all(n == 1 or step == s for n, s, step in zip(view.shape, steps, view.strides, strict=True))
        question = self._question(fact, sizes, max(places, count))
        if not whole or buffer.packed or question.most < 0 or question.places > MOST_PLACES:
            return False
        key = (question, buffer.dtype.name, device, view.address, view.shape, lane_of(stream))
        found = ctypes.c_int64(-1)
        with self._lock:  # another thread's call would write to the same table
            if key not in self._calls:
                if len(self._calls) >= MOST_CALLS:
                    self._calls.clear()
                self._calls[key] = self._prepared(question, buffer.dtype.name, view, device, stream)
            ready, loaded, cell = self._calls[key]
            loaded.start(ready, stream)  # no index and no divisor is wrong: the status says nothing
            self._driver.to_host(ctypes.addressof(found), cell.address, 8, stream)
        self._driver.wait(stream)
        return found.value == 0

    @staticmethod
    def _question(fact: DataFact, sizes: Mapping[str, int], places: int) -> DataQuestion:
        if fact.most is None:
            return DataQuestion(fact.word, max(LEAST_PLACES, 1 << (places - 1).bit_length()), 0)
        return DataQuestion(fact.word, 0, min(fact.most.evaluate(sizes), (1 << 63) - 1))

    def _prepared(
        self, question: DataQuestion, dtype: str, view: View, device: int, stream: Stream
    ) -> tuple[Ready, Loaded, DeviceArray]:
        count = prod(view.shape)
        few = count <= FEW and question.places <= LEAST_PLACES
        key = (question.word, dtype, question.places, few, device)
        made = self._made.get(key)
        if made is None:
            made = self._made[key] = self._load(kernel_of(question.word, dtype, question.places, few), device)
        cell = bytes_on(self._driver, 8)
        values = {"N": count, "C": view.shape[-1], "most": question.most}
        named = {*made.kernel.runtime_sizes, *(buffer.name for buffer in made.kernel.arguments)}
        given = {name: value for name, value in values.items() if name in named}
        ready = made.prepare({"x": view.address, "more": cell.address}, given, stream, own=True)
        return ready, made, cell
