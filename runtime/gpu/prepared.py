"""Calls of a kernel on a GPU whose sizes are known: only addresses change, and one function starts all launches.

Every launch reads the address of an array in one cell, which all launches share. A call writes the cells, and
machine code looks at their alignment and starts the launches one after the other.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Sequence
from threading import Lock
from typing import TYPE_CHECKING, Any

from dojoir.errors import RunError
from dojoir.ir.dtypes import DType
from dojoir.runtime.call.scalars import Number
from dojoir.runtime.gpu.calls import STATUS, value_of
from dojoir.runtime.gpu.cuda import failed
from dojoir.runtime.gpu.driver import Driver, Stream
from dojoir.runtime.gpu.plan import HostCode, LaunchPlan

if TYPE_CHECKING:
    from dojoir.runtime.call.entry import Load

_WORDS = 8
"""The words of a launch in the table: function, grid (3), threads, shared bytes, arguments, one unused."""

_HEAD = 6
"""The words before: launcher, how many cells, how many launches, where cells, masks and launches lie."""

TEXT = """
define i64 @entry(ptr %table, i64 %stream) {
begin:
  %launcher = load ptr, ptr %table
  %p1 = getelementptr i64, ptr %table, i64 1
  %cells = load i64, ptr %p1
  %p2 = getelementptr i64, ptr %table, i64 2
  %count = load i64, ptr %p2
  %p3 = getelementptr i64, ptr %table, i64 3
  %cell = load ptr, ptr %p3
  %p4 = getelementptr i64, ptr %table, i64 4
  %mask = load ptr, ptr %p4
  %p5 = getelementptr i64, ptr %table, i64 5
  %launches = load ptr, ptr %p5
  br label %align
align:
  %i = phi i64 [0, %begin], [%i.next, %align.body]
  %apart = phi i64 [0, %begin], [%apart.next, %align.body]
  %more = icmp ult i64 %i, %cells
  br i1 %more, label %align.body, label %aligned
align.body:
  %pa = getelementptr i64, ptr %cell, i64 %i
  %address = load i64, ptr %pa
  %pm = getelementptr i64, ptr %mask, i64 %i
  %bits = load i64, ptr %pm
  %low = and i64 %address, %bits
  %apart.next = or i64 %apart, %low
  %i.next = add i64 %i, 1
  br label %align
aligned:
  %wrong = icmp ne i64 %apart, 0
  br i1 %wrong, label %refuse, label %launch
refuse:
  ret i64 -1
launch:
  %n = phi i64 [0, %aligned], [%n.next, %started]
  %left = icmp ult i64 %n, %count
  br i1 %left, label %launch.body, label %done
launch.body:
  %at = mul i64 %n, 8
  %one = getelementptr i64, ptr %launches, i64 %at
  %function = load ptr, ptr %one
  %q1 = getelementptr i64, ptr %one, i64 1
  %x = load i32, ptr %q1
  %q2 = getelementptr i64, ptr %one, i64 2
  %y = load i32, ptr %q2
  %q3 = getelementptr i64, ptr %one, i64 3
  %z = load i32, ptr %q3
  %q4 = getelementptr i64, ptr %one, i64 4
  %threads = load i32, ptr %q4
  %q5 = getelementptr i64, ptr %one, i64 5
  %shared = load i32, ptr %q5
  %q6 = getelementptr i64, ptr %one, i64 6
  %arguments = load ptr, ptr %q6
  %handle = inttoptr i64 %stream to ptr
  %status = call i32 %launcher(ptr %function, i32 %x, i32 %y, i32 %z, i32 %threads, i32 1, i32 1, i32 %shared,
    ptr %handle, ptr %arguments, ptr null)
  %failed = icmp ne i32 %status, 0
  br i1 %failed, label %fail, label %started
started:
  %n.next = add i64 %n, 1
  br label %launch
fail:
  %wide = zext i32 %status to i64
  %place = shl i64 %n, 32
  %code = or i64 %place, %wide
  ret i64 %code
done:
  ret i64 0
}
"""
"""Gives 0, -1 where an address is not aligned, else the status of the launch that failed, and above it (from bit
32 on) its number."""


class Prepared:
    """`prepared(addresses, stream)` starts a kernel: an address for each of `arrays`, in order. Nothing is checked
    but alignment: that arrays are on the device in use, of the declared types and of the sizes that this was
    prepared for, and that none that is written overlaps another, the caller knows.

    `arrays` are the array arguments in declared order, then the temporaries, which take `workspace` bytes each,
    and last, where `reports`, a word of 32 bits that is 0, or what an earlier call left there: a status that
    `failure` says the meaning of."""

    __slots__ = (
        "_cells", "_device", "_driver", "_entry", "_held", "_launches", "_lock", "_masks", "_table", "arrays",
        "failure", "reports", "workspace",
    )  # fmt: skip

    def __init__(
        self,
        driver: Driver,
        device: int,
        host: HostCode,
        functions: Sequence[int],
        plan: LaunchPlan,
        arguments: Sequence[str],
        failure: Callable[[int], RunError],
        start: tuple[Start, object] | None,
    ) -> None:
        """`arguments` are the names of the array arguments; `start` is the machine code, where there is any."""
        self._driver, self._device, self.failure = driver, device, failure
        self.reports = host.program.has_status
        self.workspace = tuple(size for _, size in plan.workspace)
        names = [*arguments, *(name for name, _ in plan.workspace), *([STATUS] if self.reports else [])]
        self.arrays = tuple(names)
        wide = host.program.wide
        self._cells: Any = (ctypes.c_uint64 * max(1, len(names)))()
        self._masks = (ctypes.c_uint64 * max(1, len(names)))(*(wide.get(name, 1) - 1 for name in names))
        places = {name: ctypes.addressof(self._cells) + 8 * n for n, name in enumerate(names)}
        self._held: list[Any] = []
        self._launches: list[tuple[int, tuple[int, int, int], int, int]] = []
        words: list[int] = []
        for step in plan.steps:
            entry = host.entries[step.entry]
            pointers = [places[name] for name in entry.arrays]
            pointers += [
                self._pointer_to_number(dtype, n) for dtype, n in zip(entry.numbers, step.numbers, strict=True)
            ]
            pointers += [places[STATUS]] if entry.reports else []
            packed = (ctypes.c_void_p * max(1, len(pointers)))(*pointers)
            self._held.append(packed)
            function, at = functions[step.entry], ctypes.addressof(packed)
            self._launches.append((function, step.grid, entry.threads, at))
            words += (function, *step.grid, entry.threads, entry.shared_bytes, at, 0)
        table = (ctypes.c_uint64 * max(1, len(words)))(*words)
        head = (
            driver.launcher, len(names), len(self._launches), *map(ctypes.addressof, (self._cells, self._masks)),
            ctypes.addressof(table),
        )  # fmt: skip
        self._table = (ctypes.c_uint64 * _HEAD)(*head)
        self._held.append(table)
        self._entry = start[0] if driver.launcher and start is not None else None
        self._held.append(start)
        self._lock = Lock()

    def _pointer_to_number(self, dtype: DType, number: Number) -> int:
        value = value_of(dtype, number)
        self._held.append(value)
        return ctypes.addressof(value)

    def __call__(self, addresses: Sequence[int], stream: Stream) -> bool:
        """Whether it was started: not where an address lacks the alignment that its accesses need. Raises RunError
        where the device reports an error."""
        with self._lock:  # the cells are read when a launch is asked for
            self._cells[:] = addresses
            if self._entry is None:
                return self._one_by_one(stream)
            outcome = self._entry(self._table, stream)
            if outcome == 0:
                return True
            if outcome == -1:
                return False
            if outcome >> 32:
                raise failed("the launch of a kernel", f"status {outcome & 0xFFFFFFFF}")
            self._driver.use(self._device)  # a thread of the host that has not used the device yet
            return self._one_by_one(stream)

    def _one_by_one(self, stream: Stream) -> bool:
        if any(address & mask for address, mask in zip(self._cells, self._masks, strict=True)):
            return False
        for function, grid, threads, packed in self._launches:
            self._driver.launch(function, grid, threads, packed, stream)
        return True


Start = Callable[[Any, int], int]
"""The machine code of `TEXT`: the table, and a stream."""


def starter(load: Load) -> tuple[Start, object]:
    """The machine code of `TEXT`, and what keeps it in memory. Raises ToolchainError where there is no LLVM."""
    address, owner = load(TEXT)
    return ctypes.CFUNCTYPE(ctypes.c_int64, ctypes.c_void_p, ctypes.c_uint64)(address), owner
