"""The interface of a GPU: the few calls that CUDA and HIP have alike."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from dojoir.support.frozen import dataclass

Address = int
Stream = int
"""The handle of a stream; 0 is the default one."""


@dataclass(frozen=True)
class Gpu:
    """The properties of a device. `architecture` is what its compiler calls it: `sm_90`, `gfx942`."""

    name: str
    architecture: str
    multiprocessors: int
    warp: int
    shared_bytes: int
    cache_bytes: int
    memory: int


@dataclass(frozen=True)
class Resources:
    """The resources of a kernel of the device: registers of a thread, bytes of local memory of one (what does not
    fit into registers), bytes of shared memory of a block. Also the share of the threads of a multiprocessor that
    blocks of its size fill, from 0 to 1."""

    name: str
    threads: int
    registers: int
    local_bytes: int
    shared_bytes: int
    occupancy: float


class Driver(Protocol):
    """A vendor's driver, on the device that is in use by this thread. Every call raises RunError where the device
    reports an error, also one of an earlier launch."""

    @property
    def target(self) -> str: ...

    @property
    def devices(self) -> int:
        """How many devices there are."""
        ...

    def use(self, device: int) -> None:
        """Makes a device the one in use."""
        ...

    def in_use(self) -> int: ...

    def device_of(self, address: Address) -> int:
        """The device whose memory an address is in."""
        ...

    def describe(self, device: int) -> Gpu: ...

    def compile(self, text: str, architecture: str) -> bytes:
        """The machine code of a text. Raises ToolchainError with what the compiler says."""
        ...

    def load(self, code: bytes, names: Sequence[str]) -> tuple[int, ...]:
        """The handles of the kernels of machine code, by their names."""
        ...

    def reserve(self, function: int, shared_bytes: int) -> None:
        """Has every launch of a kernel ask for so much shared memory of a block, beside what it declares."""
        ...

    def resources(self, function: int, name: str, threads: int, shared_bytes: int) -> Resources:
        """Registers, local memory and occupancy of a loaded kernel, for a number of threads a block and of bytes of
        dynamic shared memory."""
        ...

    def launch(
        self, function: int, grid: tuple[int, int, int], threads: int, packed: Address, stream: Stream
    ) -> None:
        """Starts a kernel. At `packed` lie the addresses of its arguments."""
        ...

    @property
    def launcher(self) -> Address:
        """The function of C that starts a kernel, with the arguments of `cuLaunchKernel`; 0 where it is not
        known."""
        ...

    def allocate(self, size: int) -> Address: ...

    def free(self, address: Address) -> None: ...

    def to_device(self, to: Address, host: Address, size: int, stream: Stream) -> None: ...

    def to_host(self, host: Address, source: Address, size: int, stream: Stream) -> None: ...

    def copy(self, to: Address, source: Address, size: int, stream: Stream) -> None: ...

    def fill(self, to: Address, byte: int, size: int, stream: Stream) -> None: ...

    def wait(self, stream: Stream) -> None:
        """Blocks until the stream is idle."""
        ...

    def new_stream(self) -> Stream: ...

    def recording(self, stream: Stream) -> int:
        """The number of the recording that the work of a stream goes into, 1 or more; 0 where it is done."""
        ...

    @property
    def loads_while_recording(self) -> bool:
        """Whether memory is had and kernels are loaded while a stream is recorded."""
        ...

    def capture(self, stream: Stream) -> None:
        """Records the work of a stream from now on."""
        ...

    def captured(self, stream: Stream) -> int:
        """Ends the recording; gives the graph, ready to run."""
        ...

    def replay(self, graph: int, stream: Stream) -> None: ...

    def new_event(self) -> int: ...

    def record(self, event: int, stream: Stream) -> None: ...

    def seconds(self, first: int, second: int) -> float:
        """From one recorded event to another, once both are reached."""
        ...
