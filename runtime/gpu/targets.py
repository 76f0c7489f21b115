"""The GPU targets: how a kernel becomes a source, and who runs it here."""

from __future__ import annotations

from dataclasses import replace

from dojoir.codegen.gpu.shared import shared_offsets
from dojoir.codegen.gpu.source import gpu_program
from dojoir.errors import ToolchainError
from dojoir.ir.nodes import Kernel, Node, Scope, Statement
from dojoir.runtime.call.compiled import Compiled
from dojoir.runtime.gpu import devices
from dojoir.runtime.gpu.calls import Loaded
from dojoir.runtime.gpu.compiled import BuildVersion, DeviceCompiled
from dojoir.runtime.gpu.data_facts import DataFacts
from dojoir.runtime.gpu.emulated import EmulatedGpuFunction
from dojoir.runtime.gpu.plan import DeviceKernel, HostCode
from dojoir.runtime.gpu.staged import staged
from dojoir.support.frozen import dataclass


@dataclass(frozen=True)
class GpuSource:
    """A kernel as text for a GPU, with its host code."""

    kernel: Kernel
    target: str
    text: str
    host: HostCode

    @property
    def shortened(self) -> GpuSource:
        """The same, counting in 32 bits: for sizes that its program fits."""
        host = self.host.shortened
        return GpuSource(self.kernel, self.target, host.program.source, host)


def source_of(kernel: Kernel, target: str, narrow: bool = False) -> GpuSource:
    """The text of a kernel that is proved; where `narrow`, one element at a time is moved. Raises KernelError
    where the target cannot take it."""
    if narrow:
        kernel = _without_vectors(kernel)
    program = gpu_program(kernel, target)
    return GpuSource(kernel, target, program.source, HostCode(program))


def _without_vectors(kernel: Kernel) -> Kernel:
    """The kernel with its vector scopes unrolled: a thread moves one element at a time."""

    def change(node: Node) -> Node:
        if isinstance(node, Statement):
            return node
        body = tuple(map(change, node.body))
        if isinstance(node, Scope):
            return replace(node, body=body, marks=tuple("u" if mark == "v" else mark for mark in node.marks))
        return replace(node, body=body)

    return replace(kernel, body=tuple(map(change, kernel.body)))


def through_device(kernel: Kernel, target: str, threads: int = 1, cpu: str | None = None) -> DeviceCompiled:
    """The callable of a kernel that is proved, for arrays on a GPU. Raises ToolchainError where there is none, or
    the compiler fails."""
    driver = devices.find(target)
    source = source_of(kernel, target)

    def variant(device: int, version: BuildVersion) -> tuple[HostCode, tuple[int, ...]]:
        chosen = source_of(kernel, target, version.narrow) if version.narrow else source
        if version.short:
            chosen = chosen.shortened
        driver.use(device)
        code = driver.compile(chosen.text, driver.describe(device).architecture)
        functions = driver.load(code, [entry.name for entry in chosen.host.entries])
        most = driver.describe(device).shared_bytes
        for function, entry in zip(functions, chosen.host.entries, strict=True):
            if entry.shared_bytes > most:
                raise _no_room(chosen.host, entry, most, driver.describe(device).name)
            if entry.shared_bytes:
                driver.reserve(function, entry.shared_bytes)
        return chosen.host, functions

    def load(counts: Kernel, device: int) -> Loaded:
        return through_device(counts, target).loaded_on(device)

    asked = DataFacts(driver, load) if kernel.data_facts else None
    return DeviceCompiled(kernel, target, source.text, driver, source.host, variant, asked)


def _no_room(host: HostCode, entry: DeviceKernel, most: int, device: str) -> ToolchainError:
    launch = host.program.launches[host.entries.index(entry)]
    sizes = zip(launch.shared, shared_offsets(launch), shared_offsets(launch)[1:], strict=False)
    arrays = ", ".join(f"{array.name} {end - begin}" for array, begin, end in sizes)
    message = (
        f"{entry.name} takes {entry.shared_bytes} bytes of shared memory for a block ({arrays}), and {device} has "
        f"{most}: stage smaller tiles"
    )
    return ToolchainError(message, "shared-size")


def through_harness(kernel: Kernel, target: str) -> Compiled:
    """The callable of a kernel that runs its GPU text on the CPU, checked. Raises ToolchainError where there is no
    C++ compiler."""
    source = source_of(kernel, target)
    function = EmulatedGpuFunction(kernel, source.host)
    return Compiled(kernel, target, 1, source.text, function, function.harness, source.host.program.program.checks)


def way(target: str) -> str:
    """How a GPU runs here. Raises ToolchainError where there is none."""
    devices.find(target)
    return "on the GPU"


def on_host(compiled: Compiled) -> Compiled:
    """The callable that runs on a GPU, on arrays of the CPU."""
    return staged(compiled) if isinstance(compiled, DeviceCompiled) else compiled
