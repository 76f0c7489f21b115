"""Launches of CUDA and HIP kernels with no GPU, on NumPy arrays: `Harness(text, warp)`.

A text becomes a program (`toolchain`), which a child process runs. Arrays lie in memory that both processes see,
so that they stay between launches and nothing is copied. Whatever a kernel does, this process lives on: a launch
that breaks a rule of the machine raises a RunError, as does one that crashes or hangs."""

from __future__ import annotations

import contextlib
import mmap
import os
import re
import select
import struct
import subprocess
import time
from collections.abc import Mapping, Sequence
from math import prod
from pathlib import Path
from types import TracebackType
from typing import Any, Literal, Self

import numpy as np
from numpy.typing import NDArray

from dojoir.errors import ArgumentError, RunError, did_you_mean
from dojoir.runtime.simt import image, toolchain
from dojoir.runtime.simt.launch_errors import REPORT, ChildLayout, Fault, Place, decoded, error_of
from dojoir.support.frozen import dataclass
from dojoir.support.temporary import temporary_folder

TIME_LIMIT = 120.0
"""Seconds that one launch may take."""

MOST_THREADS = 1024
"""How many threads a block may have."""

MOST_SHARED = 227 << 10
"""How many bytes of dynamic shared memory a block may ask for."""

Order = Literal["forward", "backward"]

_SLOT = 1 << 21
_SLOTS = 1 << 17
_REGIONS = 4096
_COMMAND = struct.Struct("<4I3I3III3Q")
_LAUNCH, _ARRAY, _GONE, _SHARED, _HELLO = range(5)


@dataclass(frozen=True)
class Parameter:
    """The parameter of a kernel: `kind` is p for a pointer, f for a float, i and u for integers, and its bytes."""

    kind: str
    size: int


@dataclass(frozen=True, eq=False)
class GlobalArray:
    """An array in global memory: a kernel gets its address, `array` is the same memory here."""

    name: str
    array: NDArray[Any]
    offset: int
    number: int


Argument = GlobalArray | NDArray[Any] | int | float | np.generic | None
"""The arguments of a launch: an array (of a device: its buffer) for a pointer, else a number."""


@dataclass(frozen=True)
class LaunchCounts:
    """The counts of a launch: checked accesses to shared and global memory, and switches between threads."""

    accesses: int
    switches: int


class Harness:
    """The kernels of a text, compiled to run without a GPU for warps of `warp` lanes.

    Raises ToolchainError where there is no C++ compiler or it refuses the text, ArgumentError for another warp.
    """

    def __init__(self, text: str, warp: int = 32, *, compiler: toolchain.CppCompiler | None = None) -> None:
        if warp not in (32, 64):
            raise ArgumentError(f"a warp of {warp} lanes: GPUs have 32 (cuda) or 64 (hip)", "bad-warp")
        self.text = text
        self.warp = warp
        self.restricted = toolchain.restricted(text)
        self.program = toolchain.build(text, toolchain.find() if compiler is None else compiler)

    def device(self, *, order: Order = "forward", time_limit: float = TIME_LIMIT) -> HarnessProcess:
        """A device that keeps arrays between launches; a context manager. Blocks, warps and threads run one after
        the other, in their order or backward."""
        return HarnessProcess(self, order, time_limit)

    def launch(
        self,
        name: str,
        grid: Sequence[int],
        block: Sequence[int],
        arguments: Sequence[Argument],
        *,
        shared_bytes: int = 0,
        order: Order = "forward",
        names: Sequence[str] = (),
    ) -> LaunchCounts:
        """One launch on NumPy arrays, which are copied to the device and back. `names` say what errors call the
        arrays, in order. Raises as `HarnessProcess.launch` does; the arrays are then as they were."""
        with self.device(order=order) as device:
            given: list[Argument] = []
            copies: list[tuple[NDArray[Any], GlobalArray]] = []
            for number, value in enumerate(arguments):
                if isinstance(value, np.ndarray):
                    named = names[len(copies)] if len(copies) < len(names) else f"argument {number}"
                    buffer = device.array(value, named)
                    copies.append((value, buffer))
                    given.append(buffer)
                else:
                    given.append(value)
            counts = device.launch(name, grid, block, given, shared_bytes=shared_bytes)
            for value, buffer in copies:
                if value.flags.writeable:
                    value[...] = buffer.array
            return counts


class HarnessProcess:
    """A child process with the kernels of a harness, and the arrays that its launches share."""

    def __init__(self, harness: Harness, order: Order, time_limit: float) -> None:
        self.harness = harness
        self.order = order
        self.time_limit = time_limit
        self._memory = os.memfd_create("dojoir-simt")
        os.ftruncate(self._memory, _SLOT * _SLOTS)
        self._free = 1
        self._buffers: dict[int, GlobalArray] = {}
        self._process: subprocess.Popen[bytes] | None = None
        self._stack = contextlib.ExitStack()
        self._stack.callback(os.close, self._memory)
        self._start()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Ends the child process. The arrays can be read still."""
        self._end()
        self._stack.close()

    @property
    def kernels(self) -> Mapping[str, tuple[Parameter, ...]]:
        """The kernels of the text, with what they take."""
        return self._kernels

    # -- arrays ---------------------------------------------------------------------------------------------
    def array(self, value: NDArray[Any], name: str) -> GlobalArray:
        """A copy of an array in global memory, with room around it that belongs to none."""
        buffer = self.empty(value.shape, value.dtype, name)
        buffer.array[...] = value
        return buffer

    def empty(self, shape: Sequence[int], dtype: np.dtype[Any] | type, name: str) -> GlobalArray:
        """An array of zeros in global memory. Raises ArgumentError where there is no room for it."""
        kind = np.dtype(dtype)
        size = prod(shape) * kind.itemsize
        # Behind each array is as much room as it has itself, so that an index far out hits no other.
        taken = 2 * (-(-size // _SLOT)) + 1
        number = len(self._buffers) + 1
        if self._free + taken > _SLOTS or number >= _REGIONS:
            raise ArgumentError(f"there is no room for {name}, {size} bytes, beside the others", "too-large")
        offset = self._free * _SLOT
        self._free += taken
        if size:
            memory = mmap.mmap(self._memory, size, offset=offset)
            array = np.frombuffer(memory, kind).reshape(shape)
        else:
            array = np.empty(shape, kind)
        buffer = GlobalArray(name, array, offset, number)
        self._buffers[number] = buffer
        self._announce(buffer)
        return buffer

    def _announce(self, buffer: GlobalArray) -> None:
        item = min(buffer.array.itemsize, 4)
        shift = item.bit_length() - 1 if item in (1, 2, 4) else 0
        self._send(_ARRAY, count=buffer.number, address=buffer.offset, bytes_=buffer.array.nbytes, shift=shift)

    # -- launches -------------------------------------------------------------------------------------------
    def launch(
        self,
        name: str,
        grid: Sequence[int],
        block: Sequence[int],
        arguments: Sequence[Argument],
        *,
        shared_bytes: int = 0,
    ) -> LaunchCounts:
        """Runs a kernel to its end. `arguments` are buffers of this device for pointers (or None), and numbers.

        Raises RunError with a code that says what the kernel did: `race`, `broken-restrict`, `divergent-barrier`,
        `bad-shuffle`, `uninitialised-shared`, `out-of-bounds`, `misaligned`, `overflow`, `crash`, `time-limit`;
        ArgumentError for a launch that no device would take.
        """
        parameters = self._parameters(name, arguments)
        across = _extents(grid, "grid", (2**31 - 1, 65535, 65535))
        threads = _extents(block, "block", (1024, 1024, 64))
        if prod(threads) > MOST_THREADS:
            raise ArgumentError(f"a block of {prod(threads)} threads: at most {MOST_THREADS}", "too-many-threads")
        if not 0 <= shared_bytes <= MOST_SHARED:
            message = f"{shared_bytes} bytes of dynamic shared memory: a block has at most {MOST_SHARED}"
            raise ArgumentError(message, "too-much-shared")
        values = b"".join(
            self._value(name, k, value, parameter)
            for k, (value, parameter) in enumerate(zip(arguments, parameters, strict=True))
        )
        if self._process is None:
            self._start()
        head = _COMMAND.pack(
            _LAUNCH, list(self._kernels).index(name), self.harness.warp, self.order == "backward",
            *across, *threads, shared_bytes, len(parameters), 0, 0, 0,
        )  # fmt: skip
        place = Place(name, across, threads, self.harness.warp)
        fault = decoded(self._answer(head + values, place))
        if fault.kind == "crash":
            self._end()
        if fault.kind != "fine":
            raise error_of(fault, place, self._layout(), self.harness.text, self.harness.program)
        return LaunchCounts(fault.accesses, fault.switches)

    def _parameters(self, name: str, arguments: Sequence[Argument]) -> tuple[Parameter, ...]:
        if name not in self._kernels:
            known = ", ".join(self._kernels)
            message = f"there is no kernel '{name}'{did_you_mean(name, self._kernels)}; the text has {known}"
            raise ArgumentError(message, "unknown-kernel")
        parameters = self._kernels[name]
        if len(arguments) != len(parameters):
            message = f"{name} takes {len(parameters)} arguments, not {len(arguments)}"
            raise ArgumentError(message, "wrong-arguments")
        return parameters

    def _value(self, name: str, number: int, value: Argument, parameter: Parameter) -> bytes:
        """An argument as the child takes it: whether it is a place in global memory, and by a pointer that is
        `__restrict__`, and its bits."""
        wrong = ArgumentError(
            f"argument {number} of {name} is {_KINDS[parameter.kind]} of {parameter.size} bytes, "
            f"not {type(value).__name__}",
            "wrong-arguments",
        )
        if parameter.kind == "p":
            if value is None:
                return struct.pack("<QQ", 0, 0)
            if not isinstance(value, GlobalArray) or self._buffers.get(value.number) is not value:
                raise wrong
            restricted = number in self.harness.restricted.get(name, ())
            return struct.pack("<QQ", 3 if restricted else 1, value.offset)
        if parameter.kind == "?" or isinstance(value, GlobalArray | np.ndarray) or value is None:
            raise wrong
        if parameter.kind == "f":
            packed = struct.pack("<f" if parameter.size == 4 else "<d", float(value))
        else:
            if isinstance(value, float | np.floating):
                raise wrong
            bits = int(np.asarray(value)[()])
            least, most = (-1 << 8 * parameter.size - 1, (1 << 8 * parameter.size) - 1)
            if not least <= bits <= most:
                message = f"argument {number} of {name} is {bits}, which {parameter.size} bytes do not hold"
                raise ArgumentError(message, "wrong-arguments")
            packed = (bits & most).to_bytes(parameter.size, "little")
        return struct.pack("<Q", 0) + packed.ljust(8, b"\0")

    def _layout(self) -> ChildLayout:
        arrays = tuple((b.offset + self._arena, b.array, b.name) for b in self._buffers.values())
        return ChildLayout(self._bias, self._arena, _SLOT * _SLOTS, self._dynamic, arrays)

    # -- the child process ----------------------------------------------------------------------------------
    def _start(self) -> None:
        with temporary_folder() as folder:
            path = Path(folder, "kernels")
            path.write_bytes(self.harness.program)
            path.chmod(0o700)
            try:
                self._process = subprocess.Popen(
                    [str(path), str(self._memory)], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                    stderr=subprocess.DEVNULL, pass_fds=(self._memory,), bufsize=0, start_new_session=True,
                )  # fmt: skip
            except OSError as error:
                raise RunError(f"no process could be started: {error}", "no-process") from None
            self._send(_HELLO)
            lines = self._lines()
        anchor, self._arena, self._dynamic = map(int, lines[0].split())
        self._kernels = {name: _parsed(letters) for name, _, letters in (line.partition(" ") for line in lines[1:])}
        symbols = {symbol.name: symbol.address for symbol in image.symbols(self.harness.program)}
        self._bias = anchor - symbols["simt_kernel_count"]
        for array in image.shared_arrays(self.harness.program):
            self._send(_SHARED, address=array.address + self._bias, bytes_=array.size)
        for buffer in self._buffers.values():
            self._announce(buffer)

    def _lines(self) -> list[str]:
        read = b""
        while not read.endswith(b"\n\n"):
            part = self._read(1 << 12, time.monotonic() + self.time_limit)
            if not part:
                raise RunError("the program of the kernels does not start", "no-process")
            read += part
        return read.decode().splitlines()[:-1]

    def _answer(self, command: bytes, place: Place) -> bytes:
        assert self._process is not None and self._process.stdin is not None
        deadline = time.monotonic() + self.time_limit
        answer = b""
        with contextlib.suppress(BrokenPipeError):
            self._process.stdin.write(command)
        while len(answer) < REPORT.size:
            part = self._read(REPORT.size - len(answer), deadline)
            if part is None:
                self._end()
                message = f"{place.kernel} hung: it ran longer than {self.time_limit:g} s"
                raise RunError(message, "time-limit")
            if not part:
                self._end()
                raise RunError(f"{place.kernel} ended its process", "crash")
            answer += part
        return answer

    def _read(self, most: int, deadline: float) -> bytes | None:
        """The next line of the child, nothing if it ended; None at the deadline."""
        assert self._process is not None and self._process.stdout is not None
        ready, _, _ = select.select([self._process.stdout], [], [], max(0.0, deadline - time.monotonic()))
        return os.read(self._process.stdout.fileno(), most) if ready else None

    def _send(self, kind: int, *, count: int = 0, address: int = 0, bytes_: int = 0, shift: int = 0) -> None:
        if self._process is not None:
            assert self._process.stdin is not None
            nothing = (0, 0, 0, 0, 0, 0)
            self._process.stdin.write(_COMMAND.pack(kind, 0, 0, 0, *nothing, 0, count, address, bytes_, shift))

    def _end(self) -> None:
        process, self._process = self._process, None
        if process is not None:
            process.kill()
            process.wait()
            for stream in (process.stdin, process.stdout):
                if stream is not None:
                    stream.close()


_KINDS = {"p": "a pointer", "f": "a float", "i": "an integer", "u": "an unsigned integer", "?": "a struct"}


def _parsed(letters: str) -> tuple[Parameter, ...]:
    return tuple(Parameter(kind, int(size)) for kind, size in re.findall(r"(.)(\d)", letters))


def _extents(given: Sequence[int], what: str, most: tuple[int, int, int]) -> tuple[int, int, int]:
    """Three extents, those that are not given being 1."""
    if not 1 <= len(given) <= 3:
        raise ArgumentError(f"a {what} has one to three extents, not {len(given)}", "bad-launch")
    x, y, z = (*map(int, given), 1, 1)[:3]
    for axis, extent, limit in zip("xyz", (x, y, z), most, strict=True):
        if not 1 <= extent <= limit:
            raise ArgumentError(f"the {what} has {extent} in {axis}: it takes 1 to {limit}", "bad-launch")
    return x, y, z


__all__ = ["Fault", "GlobalArray", "Harness", "HarnessProcess", "LaunchCounts", "Parameter"]
