"""NVIDIA's driver, through cuda.bindings, and NVRTC."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from functools import cached_property
from importlib import import_module
from typing import Any

from dojoir.errors import RunError, ToolchainError
from dojoir.runtime.gpu import nvrtc
from dojoir.runtime.gpu.driver import Gpu, Resources

OWN = {"sm_90": "sm_90a"}
"""The architectures with instructions that no later one has: code for one device may use them."""


class Cuda:
    """A `Driver`. Contexts are the primary ones of the devices, which PyTorch and CuPy use too."""

    target = "cuda"
    loads_while_recording = True

    def __init__(self, binding: Any = None) -> None:
        """Raises ToolchainError where there is no driver or no device."""
        self.cu = _binding() if binding is None else binding
        try:
            status, *_ = self.cu.cuInit(0)
        except RuntimeError:  # the library of the driver is not there
            raise _none("no driver is installed") from None
        if int(status):
            raise _none(f"the driver says {_word(status)}")
        self.devices: int = self._ask("cuDeviceGetCount")
        if not self.devices:
            raise _none("the driver knows none")
        self._contexts: dict[int, Any] = {}
        self._shared: dict[int, int] = {}
        self._launch: Any = self.cu.cuLaunchKernel
        if int(self._ask("cuCtxGetCurrent") or 0) == 0:
            self.use(0)

    def _ask(self, name: str, *arguments: object) -> Any:
        """The result of a call. Raises RunError where it fails."""
        status, *results = getattr(self.cu, name)(*arguments)
        if int(status):
            raise failed(name, _word(status))
        return results[0] if len(results) == 1 else tuple(results)

    # -- devices --------------------------------------------------------------------------------------------
    def use(self, device: int) -> None:
        if device not in self._contexts:
            self._contexts[device] = self._ask("cuDevicePrimaryCtxRetain", device)
        self._ask("cuCtxSetCurrent", self._contexts[device])

    def in_use(self) -> int:
        if int(self._ask("cuCtxGetCurrent") or 0) == 0:
            self.use(0)
        return int(self._ask("cuCtxGetDevice"))

    def device_of(self, address: int) -> int:
        which = self.cu.CUpointer_attribute.CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL
        return int(self._ask("cuPointerGetAttribute", which, address))

    def describe(self, device: int) -> Gpu:
        def fact(name: str) -> int:
            which = getattr(self.cu.CUdevice_attribute, f"CU_DEVICE_ATTRIBUTE_{name}")
            return int(self._ask("cuDeviceGetAttribute", which, device))

        name = self._ask("cuDeviceGetName", 256, device)
        capability = fact("COMPUTE_CAPABILITY_MAJOR"), fact("COMPUTE_CAPABILITY_MINOR")
        return Gpu(
            (name.decode() if isinstance(name, bytes) else str(name)).rstrip("\0 "),
            f"sm_{capability[0]}{capability[1]}",
            fact("MULTIPROCESSOR_COUNT"),
            fact("WARP_SIZE"),
            fact("MAX_SHARED_MEMORY_PER_BLOCK_OPTIN"),
            fact("L2_CACHE_SIZE"),
            int(self._ask("cuDeviceTotalMem", device)),
        )

    # -- kernels --------------------------------------------------------------------------------------------
    def compile(self, text: str, architecture: str) -> bytes:
        return nvrtc.cubin(text, OWN.get(architecture, architecture))

    def load(self, code: bytes, names: Sequence[str]) -> tuple[int, ...]:
        with self._while_recording():
            module = self._ask("cuModuleLoadData", code)
        return tuple(int(self._ask("cuModuleGetFunction", module, name.encode())) for name in names)

    def _attribute(self, word: str) -> Any:
        return getattr(self.cu.CUfunction_attribute, f"CU_FUNC_ATTRIBUTE_{word}")

    def reserve(self, function: int, shared_bytes: int) -> None:
        self._ask("cuFuncSetAttribute", function, self._attribute("MAX_DYNAMIC_SHARED_SIZE_BYTES"), shared_bytes)
        self._shared[function] = shared_bytes

    def resources(self, function: int, name: str, threads: int, shared_bytes: int) -> Resources:
        def fact(word: str) -> int:
            return int(self._ask("cuFuncGetAttribute", self._attribute(word), function))

        ask = "cuOccupancyMaxActiveBlocksPerMultiprocessor"
        blocks = int(self._ask(ask, function, threads, shared_bytes))
        which = self.cu.CUdevice_attribute.CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_MULTIPROCESSOR
        most = int(self._ask("cuDeviceGetAttribute", which, self.in_use()))
        shared = fact("SHARED_SIZE_BYTES") + shared_bytes
        return Resources(
            name, threads, fact("NUM_REGS"), fact("LOCAL_SIZE_BYTES"), shared, min(1.0, blocks * threads / most)
        )  # fmt: skip

    def launch(self, function: int, grid: tuple[int, int, int], threads: int, packed: int, stream: int) -> None:
        (status,) = self._launch(function, *grid, threads, 1, 1, self._shared.get(function, 0), stream, packed, 0)
        if status:
            raise failed("cuLaunchKernel", _word(status))

    @cached_property
    def launcher(self) -> int:
        try:
            flags = self.cu.CUdriverProcAddress_flags.CU_GET_PROC_ADDRESS_DEFAULT
            found = self._ask("cuGetProcAddress", b"cuLaunchKernel", 12000, flags)
        except (AttributeError, TypeError, RunError):  # an older binding, or none of the driver's
            return 0
        return int(found[0] if isinstance(found, tuple) else found)

    # -- memory ---------------------------------------------------------------------------------------------
    @cached_property
    def _relaxed(self) -> Any:
        return self.cu.CUstreamCaptureMode.CU_STREAM_CAPTURE_MODE_RELAXED

    @contextmanager
    def _while_recording(self) -> Iterator[None]:
        """While a stream is recorded, the driver refuses memory and kernels, unless it is told that they are
        meant."""
        before = self._ask("cuThreadExchangeStreamCaptureMode", self._relaxed)
        try:
            yield
        finally:
            self._ask("cuThreadExchangeStreamCaptureMode", before)

    def allocate(self, size: int) -> int:
        with self._while_recording():
            return int(self._ask("cuMemAlloc", max(size, 1)))

    def free(self, address: int) -> None:
        with suppress(RunError), self._while_recording():
            self.cu.cuMemFree(address)

    def to_device(self, to: int, host: int, size: int, stream: int) -> None:
        if size:
            self._ask("cuMemcpyHtoDAsync", to, host, size, stream)

    def to_host(self, host: int, source: int, size: int, stream: int) -> None:
        if size:
            self._ask("cuMemcpyDtoHAsync", host, source, size, stream)

    def copy(self, to: int, source: int, size: int, stream: int) -> None:
        if size:
            self._ask("cuMemcpyDtoDAsync", to, source, size, stream)

    def fill(self, to: int, byte: int, size: int, stream: int) -> None:
        if size:
            self._ask("cuMemsetD8Async", to, byte, size, stream)

    # -- streams, graphs, events ----------------------------------------------------------------------------
    def wait(self, stream: int) -> None:
        self._ask("cuStreamSynchronize", stream)

    def new_stream(self) -> int:
        return int(self._ask("cuStreamCreate", 1))  # it does not wait for the default stream

    def recording(self, stream: int) -> int:
        if not int(self._ask("cuStreamIsCapturing", stream)):
            return 0
        _, number, *_ = self._ask("cuStreamGetCaptureInfo", stream)
        return int(number) + 1

    def capture(self, stream: int) -> None:
        self._ask("cuStreamBeginCapture", stream, self._relaxed)

    def captured(self, stream: int) -> int:
        graph = self._ask("cuStreamEndCapture", stream)
        return int(self._ask("cuGraphInstantiate", graph, 0))

    def replay(self, graph: int, stream: int) -> None:
        self._ask("cuGraphLaunch", graph, stream)

    def new_event(self) -> int:
        return int(self._ask("cuEventCreate", 0))

    def record(self, event: int, stream: int) -> None:
        self._ask("cuEventRecord", event, stream)

    def seconds(self, first: int, second: int) -> float:
        self._ask("cuEventSynchronize", second)
        return float(self._ask("cuEventElapsedTime", first, second)) * 1e-3


def failed(call: str, word: str) -> RunError:
    """The exception for an error of the device."""
    if "OUT_OF_MEMORY" in word.upper():
        return RunError(f"the GPU has no memory left ({call}: {word})", "out-of-memory")
    return RunError(
        f"the GPU reported {word} ({call}): a kernel before this did something illegal, and no more work can be "
        f"done on the device in this process; emulated=True finds what and where",
        "device-error",
    )


def _word(status: Any) -> str:
    return str(getattr(status, "name", status))


def _binding() -> Any:
    try:
        return import_module("cuda.bindings.driver")
    except (ImportError, RuntimeError, OSError) as error:
        raise _none(
            f"cuda.bindings cannot be loaded ({type(error).__name__}): pip install 'dojoir[cuda]'"
        ) from None


def _none(reason: str) -> ToolchainError:
    return no_device("cuda", "NVIDIA", reason)


def no_device(target: str, vendor: str, reason: str) -> ToolchainError:
    """Says that there is no GPU, and what can be done without."""
    return ToolchainError(
        f"target {target} needs a GPU of {vendor}, and there is none here: {reason}; emulated=True (--emulated) "
        f"runs the same code on the CPU, slowly and checked, and --emit {target} writes it",
        "no-device",
    )
