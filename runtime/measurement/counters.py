"""Counters of the processor around calls of a kernel, where Linux lets this user read them.

In a child process: its calls run as in `measure`, and nothing else of it is counted.
"""

from __future__ import annotations

import ctypes
import fcntl
import os
import platform
import struct
import sys
from collections.abc import Mapping, Sequence
from time import perf_counter
from typing import Any

from dojoir.backends.registry import is_device
from dojoir.errors import DojoError
from dojoir.ir.nodes import Kernel
from dojoir.runtime.measurement.lease import timing_lease
from dojoir.runtime.process.child import raise_reported, run_child
from dojoir.runtime.process.subject import KernelSubject, subject_from_json
from dojoir.runtime.process.worker import Report
from dojoir.runtime.verification.inputs import make_inputs
from dojoir.support.frozen import dataclass

EVENTS: Mapping[str, tuple[int, int]] = {
    "cycles": (0, 0), "instructions": (0, 1), "cache misses": (0, 3), "branch misses": (0, 5),
    "L1 misses": (3, 0x10000), "page faults": (1, 2),
}  # fmt: skip
"""The counters by name: type and number of Linux's perf events. L1 is that of the data, its loads."""

CALLS_SECONDS = 0.2
"""How long the kernel is called."""

TIME_LIMIT = 60.0
_NUMBERS = {"x86_64": 298, "aarch64": 241, "riscv64": 241}
_ENABLE, _DISABLE, _RESET = 0x2400, 0x2401, 0x2403
_SIZE = 112
_FLAGS = 1 | 1 << 1 | 1 << 5 | 1 << 6
"""Off at first, of threads started later as well, without the kernel of the system, without a hypervisor."""


@dataclass(frozen=True)
class Counters:
    """The processor's counts for one call, by name; or the reason why there are none."""

    values: Mapping[str, float]
    reason: str = ""

    @property
    def status(self) -> str:
        """`measured`, or `unavailable`."""
        return "measured" if self.values else "unavailable"


def counters(kernel: Kernel, target: str, threads: int, sizes: Mapping[str, int]) -> Counters:
    """The counters of a call. Never raises for what a system does not give: the answer says why it is not
    there."""
    if is_device(target):
        return Counters(
            {}, "the counters of a GPU are those of ncu, nsys or rocprof: give a file of one, or run under it"
        )
    job = {"kind": "counting", "subject": KernelSubject(kernel, target, threads).to_json(), "sizes": dict(sizes)}
    try:
        with timing_lease():
            outcome = run_child(job, TIME_LIMIT, threads=threads)
        raise_reported(outcome)
    except DojoError as error:
        return Counters({}, error.diagnostic.message)
    merged: dict[str, Any] = {key: value for message in outcome.messages for key, value in message.items()}
    if "counted" not in merged:
        return Counters({}, f"the process that counted {outcome.ended or 'ended early'}")
    return Counters(merged["counted"], merged["reason"])


# -- in the child ------------------------------------------------------------------------------------------
def run_counting(job: Mapping[str, Any], report: Report) -> None:
    """Calls the kernel for a while with the counters on."""
    subject = subject_from_json(job["subject"])
    assert isinstance(subject, KernelSubject)
    opened, reason = open_counters()
    if not opened:
        report({"counted": {}, "reason": reason})
        return
    compiled, sizes = subject.load(), job["sizes"]
    inputs = make_inputs(subject.kernel, sizes, 0, "uniform")
    compiled.run(inputs, **sizes)
    outputs = compiled.run(inputs, **sizes)
    arguments = [inputs[b.name] if b.role != "out" else outputs[b.name] for b in subject.kernel.arguments]
    call = compiled.bind(*arguments, **sizes)
    call()
    count, until = 0, perf_counter() + CALLS_SECONDS
    each(opened.values(), _RESET)
    each(opened.values(), _ENABLE)
    while not count or perf_counter() < until:
        call()
        count += 1
    each(opened.values(), _DISABLE)
    found = {name: struct.unpack("Q", os.read(handle, 8))[0] / count for name, handle in opened.items()}
    report({"counted": found, "reason": ""})


def each(handles: Any, request: int) -> None:
    """Asks something of all counters."""
    for handle in handles:
        fcntl.ioctl(handle, request, 0)


def open_counters(events: Sequence[str] = tuple(EVENTS)) -> tuple[dict[str, int], str]:
    """The counters that this system gives, as files to read, and why there is none, if there is none. Software
    counts alone are none."""
    number = _NUMBERS.get(platform.machine())
    if sys.platform != "linux" or number is None:
        return {}, f"the counters of {platform.system()} on {platform.machine()} are not read"
    libc = ctypes.CDLL(None, use_errno=True)
    opened: dict[str, int] = {}
    reason = ""
    for name in events:
        kind, config = EVENTS[name]
        attributes = struct.pack("IIQQQQQ", kind, _SIZE, config, 0, 0, 0, _FLAGS).ljust(_SIZE, b"\0")
        handle = libc.syscall(number, attributes, 0, -1, -1, 0)
        if handle >= 0:
            opened[name] = handle
        elif kind == 0:
            reason = f"Linux gives no counters here: {os.strerror(ctypes.get_errno())}"
    if all(EVENTS[name][0] == 1 for name in opened):
        for handle in opened.values():
            os.close(handle)
        return {}, reason
    return opened, ""
