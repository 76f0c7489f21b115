"""AMD's driver and compiler, through hip-python. Written from its documentation; it has not run on hardware.

https://rocm.docs.amd.com/projects/hip-python/
"""

from __future__ import annotations

from collections.abc import Sequence
from importlib import import_module
from typing import Any

from dojoir.errors import Diagnostic, Note, ToolchainError
from dojoir.runtime.gpu.cuda import failed, no_device
from dojoir.runtime.gpu.driver import Gpu, Resources
from dojoir.support.cache import Cache, content_key

OPTIONS = ("-O3", "-ffp-contract=off", "-std=c++17")
"""The options of every compilation: products and sums are fused where the kernel says so, and nowhere else."""

_NON_BLOCKING = 1


class Hip:
    """A `Driver`."""

    target = "hip"
    loads_while_recording = False
    launcher = 0

    def __init__(self, hip: Any = None, hiprtc: Any = None) -> None:
        """Raises ToolchainError where there is no runtime or no device."""
        if hip is None or hiprtc is None:
            try:
                hip, hiprtc = import_module("hip.hip"), import_module("hip.hiprtc")
            except (ImportError, RuntimeError, OSError) as error:
                reason = f"hip-python cannot be loaded ({type(error).__name__}): pip install 'dojoir[hip]'"
                raise no_device("hip", "AMD", reason) from None
        self.hip, self.rtc = hip, hiprtc
        status, count = hip.hipGetDeviceCount()
        if int(status) or not count:
            raise no_device("hip", "AMD", f"the runtime says {_word(status)}")
        self.devices: int = count
        self._kept: list[Any] = []
        self._shared: dict[int, int] = {}

    def _ask(self, name: str, *arguments: object) -> Any:
        """The result of a call. Raises RunError where it fails."""
        answer = getattr(self.hip, name)(*arguments)
        status, *results = answer if isinstance(answer, tuple) else (answer,)
        if int(status):
            raise failed(name, _word(status))
        return results[0] if len(results) == 1 else tuple(results)

    # -- devices --------------------------------------------------------------------------------------------
    def use(self, device: int) -> None:
        self._ask("hipSetDevice", device)

    def in_use(self) -> int:
        return int(self._ask("hipGetDevice"))

    def device_of(self, address: int) -> int:
        attributes = self.hip.hipPointerAttribute_t()
        self._ask("hipPointerGetAttributes", attributes, address)
        return int(attributes.device)

    def describe(self, device: int) -> Gpu:
        facts = self.hip.hipDeviceProp_t()
        self._ask("hipGetDeviceProperties", facts, device)
        architecture = facts.gcnArchName.decode()
        return Gpu(
            facts.name.decode(),
            architecture.partition(":")[0],
            int(facts.multiProcessorCount),
            int(facts.warpSize),
            int(facts.sharedMemPerBlock),
            int(facts.l2CacheSize),
            int(facts.totalGlobalMem),
        )

    # -- kernels --------------------------------------------------------------------------------------------
    def compile(self, text: str, architecture: str) -> bytes:
        _status, major, minor = self.rtc.hiprtcVersion()
        store = Cache.default()
        key = content_key("hip", f"{major}.{minor}", architecture, *OPTIONS, text)
        code = store.get(key)
        if code is None:
            code = self._compile(text, architecture)
            store.put(key, code)
        return code

    def _compile(self, text: str, architecture: str) -> bytes:
        rtc = self.rtc
        program = self._made(rtc.hiprtcCreateProgram(text.encode(), b"kernel.hip", 0, None, None))
        options = [f"--offload-arch={architecture}".encode(), *(option.encode() for option in OPTIONS)]
        (status,) = rtc.hiprtcCompileProgram(program, len(options), options)
        if int(status):
            log = bytearray(self._made(rtc.hiprtcGetProgramLogSize(program)))
            self._made(rtc.hiprtcGetProgramLog(program, log))
            lines = log.decode(errors="replace").rstrip("\0").splitlines()
            message = f"hiprtc failed to compile the kernel for {architecture}"
            raise ToolchainError(Diagnostic("compiler-failed", message, notes=tuple(map(Note, lines[:12]))))
        code = bytearray(self._made(rtc.hiprtcGetCodeSize(program)))
        self._made(rtc.hiprtcGetCode(program, code))
        self._made(rtc.hiprtcDestroyProgram(program.createRef()))
        return bytes(code)

    def _made(self, answer: tuple[Any, ...]) -> Any:
        status, *results = answer
        if int(status):
            raise ToolchainError(f"hiprtc reported {_word(status)}", "compiler-failed")
        return results[0] if results else None

    def load(self, code: bytes, names: Sequence[str]) -> tuple[int, ...]:
        module = self._ask("hipModuleLoadData", code)
        functions = [self._ask("hipModuleGetFunction", module, name.encode()) for name in names]
        self._kept += [module, *functions]
        return tuple(map(int, functions))

    def reserve(self, function: int, shared_bytes: int) -> None:
        self._shared[function] = shared_bytes

    def resources(self, function: int, name: str, threads: int, shared_bytes: int) -> Resources:
        def fact(word: str) -> int:
            which = getattr(self.hip.hipFunction_attribute, f"HIP_FUNC_ATTRIBUTE_{word}")
            return int(self._ask("hipFuncGetAttribute", which, function))

        ask = "hipModuleOccupancyMaxActiveBlocksPerMultiprocessor"
        blocks = int(self._ask(ask, function, threads, shared_bytes))
        facts = self.hip.hipDeviceProp_t()
        self._ask("hipGetDeviceProperties", facts, self.in_use())
        share = blocks * threads / int(facts.maxThreadsPerMultiProcessor)
        shared = fact("SHARED_SIZE_BYTES") + shared_bytes
        return Resources(name, threads, fact("NUM_REGS"), fact("LOCAL_SIZE_BYTES"), shared, min(1.0, share))

    def launch(self, function: int, grid: tuple[int, int, int], threads: int, packed: int, stream: int) -> None:
        self._ask(
            "hipModuleLaunchKernel",
            function,
            *grid,
            threads,
            1,
            1,
            self._shared.get(function, 0),
            stream,
            packed,
            None,
        )

    # -- memory ---------------------------------------------------------------------------------------------
    def allocate(self, size: int) -> int:
        memory = self._ask("hipMalloc", max(size, 1))
        self._kept.append(memory)
        return int(memory)

    def free(self, address: int) -> None:
        self.hip.hipFree(address)

    def to_device(self, to: int, host: int, size: int, stream: int) -> None:
        self._move(to, host, size, "hipMemcpyHostToDevice", stream)

    def to_host(self, host: int, source: int, size: int, stream: int) -> None:
        self._move(host, source, size, "hipMemcpyDeviceToHost", stream)

    def copy(self, to: int, source: int, size: int, stream: int) -> None:
        self._move(to, source, size, "hipMemcpyDeviceToDevice", stream)

    def _move(self, to: int, source: int, size: int, kind: str, stream: int) -> None:
        if size:
            self._ask("hipMemcpyAsync", to, source, size, getattr(self.hip.hipMemcpyKind, kind), stream)

    def fill(self, to: int, byte: int, size: int, stream: int) -> None:
        if size:
            self._ask("hipMemsetAsync", to, byte, size, stream)

    # -- streams, graphs, events ----------------------------------------------------------------------------
    def wait(self, stream: int) -> None:
        self._ask("hipStreamSynchronize", stream)

    def new_stream(self) -> int:
        return self._handle(self._ask("hipStreamCreateWithFlags", _NON_BLOCKING))

    def recording(self, stream: int) -> int:
        if not int(self._ask("hipStreamIsCapturing", stream)):
            return 0
        _, number, *_ = self._ask("hipStreamGetCaptureInfo", stream)
        return int(number) + 1

    def capture(self, stream: int) -> None:
        mode = self.hip.hipStreamCaptureMode.hipStreamCaptureModeRelaxed
        self._ask("hipStreamBeginCapture", stream, mode)

    def captured(self, stream: int) -> int:
        graph = self._ask("hipStreamEndCapture", stream)
        self._kept.append(graph)
        return self._handle(self._ask("hipGraphInstantiateWithFlags", graph, 0))

    def replay(self, graph: int, stream: int) -> None:
        self._ask("hipGraphLaunch", graph, stream)

    def new_event(self) -> int:
        return self._handle(self._ask("hipEventCreate"))

    def record(self, event: int, stream: int) -> None:
        self._ask("hipEventRecord", event, stream)

    def seconds(self, first: int, second: int) -> float:
        self._ask("hipEventSynchronize", second)
        return float(self._ask("hipEventElapsedTime", first, second)) * 1e-3

    def _handle(self, made: Any) -> int:
        """The number of an object, which is kept: hip-python frees some with their last reference."""
        self._kept.append(made)
        return int(made)


def _word(status: Any) -> str:
    return str(getattr(status, "name", status))
