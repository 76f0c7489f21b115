"""The tools on this machine for compiling and running kernels: `dojoir-opt --doctor`."""

from __future__ import annotations

import contextlib
import os
import platform
from collections.abc import Iterator, Mapping
from dataclasses import asdict
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from shutil import which

from dojoir.backends.backend import code
from dojoir.backends.host import machine_for
from dojoir.backends.registry import backend_named, installed
from dojoir.codegen.simd.isas import ISAS
from dojoir.errors import RunError, ToolchainError
from dojoir.runtime.build import c_toolchain, emulation, host_targets, llvm_engine
from dojoir.runtime.build.compiler import TARGETS
from dojoir.runtime.build.pool import available_threads
from dojoir.runtime.measurement.memory import physical_memory
from dojoir.runtime.measurement.roofline import Ceilings, ceilings
from dojoir.support.frozen import dataclass
from dojoir.support.public import public

_ASKED = 5.0
"""Seconds that a tool has to say its version."""


@dataclass(frozen=True)
class FoundCompiler:
    """A C compiler, and the options that it gets; or why it does not work."""

    command: str
    version: str
    options: str
    problem: str = ""


@dataclass(frozen=True)
class FoundTool:
    """An emulator, a driver, or another program: where it is and what it says of itself."""

    name: str
    path: str
    version: str


@dataclass(frozen=True)
class TargetWay:
    """How a target runs here: `in process`, `native`, `emulated`; or why it does not, with the cure."""

    target: str
    runs: str
    problem: str = ""


@dataclass(frozen=True, repr=False)
class Doctor:
    """The tools on a machine. `isas` are the instruction sets of its processor that targets use. `machine` says
    what kernels are scheduled for, `caches` the bytes of each cache of the first core, `packages` the versions of
    the Python packages that matter."""

    system: str
    python: str
    packages: Mapping[str, str]
    processor: str
    architecture: str
    machine: str
    isas: tuple[str, ...]
    cores: int
    caches: Mapping[str, int]
    memory: int
    compilers: tuple[FoundCompiler, ...]
    emulators: tuple[FoundTool, ...]
    gpus: tuple[str, ...]
    targets: tuple[TargetWay, ...]
    ceilings: Ceilings | None

    def to_json(self) -> dict[str, object]:
        """The same as data."""
        data: dict[str, object] = asdict(self)
        if self.ceilings is not None:
            data["ceilings"] = [asdict(row) for _, row in sorted(self.ceilings.by_threads.items())]
        return data

    def __str__(self) -> str:
        caches = ", ".join(f"{name} {_size(size)}" for name, size in self.caches.items())
        packages = ", ".join(f"{name} {number}" for name, number in self.packages.items())
        lines = [
            f"system     {self.system}, Python {self.python}",
            f"packages   {packages}",
            f"processor  {self.processor} ({self.architecture}), {self.cores} cores, {_size(self.memory)}",
            f"machine    {self.machine}",
            f"caches     {caches or 'unknown'}",
            f"sets       {', '.join(self.isas) or 'none that a target has intrinsics for'}",
        ]
        for compiler in self.compilers:
            lines.append(f"compiler   {compiler.command}: {compiler.problem or compiler.version}")
            lines += [f"           {compiler.options}"] if not compiler.problem else []
        lines += [f"emulator   {tool.path}: {tool.version}" for tool in self.emulators] or ["emulator   none"]
        lines += [f"gpu        {gpu}" for gpu in self.gpus] or ["gpu        none"]
        for way in self.targets:
            lines.append(f"target     {way.target}: {way.runs or f'cannot run: {way.problem}'}")
        if self.ceilings is not None:
            head, *rows = str(self.ceilings).splitlines()[1:]
            lines += [f"ceilings   {head}", *(f"           {row}" for row in rows)]
        return "\n".join(lines)

    __repr__ = __str__


@public
def doctor(*, measure: bool = True) -> Doctor:
    """The tools and properties of this machine: compilers, instruction sets, cores, caches, emulators and GPUs.
    Unless `measure` is false, its ceilings are measured too (which takes some seconds the first time)."""
    measured: Ceilings | None = None
    if measure:
        with contextlib.suppress(RunError):
            measured = ceilings()
    return Doctor(
        system=platform.platform(),
        python=platform.python_version(),
        packages=dict(_packages()),
        processor=llvm_engine.host().cpu,
        architecture=host_targets.architecture(),
        machine=str(machine_for("llvm")),
        isas=tuple(name for name, isa in ISAS.items() if host_targets.runs(isa)),
        cores=available_threads(),
        caches=dict(_caches()),
        memory=physical_memory(),
        compilers=tuple(_compilers()),
        emulators=tuple(_emulators()),
        gpus=tuple(_gpus()),
        targets=tuple(_ways()),
        ceilings=measured,
    )


def _packages() -> Iterator[tuple[str, str]]:
    for name in ("dojoir", "numpy", "llvmlite", "islpy", "ziglang"):
        with contextlib.suppress(PackageNotFoundError):
            yield name, version(name)


def _caches() -> Iterator[tuple[str, int]]:
    """The caches of the first core by level and kind, as Linux lists them."""
    for folder in sorted(Path("/sys/devices/system/cpu/cpu0/cache").glob("index*")):
        with contextlib.suppress(OSError, ValueError):
            level, kind, size = ((folder / name).read_text().strip() for name in ("level", "type", "size"))
            unit = {"K": 1 << 10, "M": 1 << 20}.get(size[-1:], 1)
            letter = {"Data": "d", "Instruction": "i"}.get(kind, "")
            yield f"L{level}{letter}", int(size.rstrip("KM")) * unit


def _compilers() -> Iterator[FoundCompiler]:
    chosen = os.environ.get("CC", "").strip()
    seen: set[str] = set()
    for name in ([chosen] if chosen else []) + list(c_toolchain.NAMES):
        path = which(name.split()[0])
        real = "" if path is None else os.path.realpath(path)
        if path is None or real in seen:
            continue
        seen.add(real)
        try:
            found = c_toolchain.probe((path, *name.split()[1:]))
        except ToolchainError as error:
            yield FoundCompiler(name, "", "", error.diagnostic.message)
        else:
            yield FoundCompiler(name, found.version, " ".join(found.options))
    for isa in ISAS.values():
        if isa.architecture != host_targets.architecture():
            with contextlib.suppress(ToolchainError):
                cross = emulation.cross_compiler(isa)
                yield FoundCompiler(f"zig cc for {isa.name}", cross.version, " ".join(cross.options))


def _emulators() -> Iterator[FoundTool]:
    for isa in ISAS.values():
        if isa.architecture != host_targets.architecture():
            with contextlib.suppress(ToolchainError):
                path = emulation.emulator(isa)[0]
                yield FoundTool(
                    f"qemu-{isa.architecture}", path, c_toolchain.first_line((path, "--version"), _ASKED)
                )


def _gpus() -> Iterator[str]:
    nvidia = which("nvidia-smi")
    if nvidia is not None:
        yield from filter(None, c_toolchain.all_lines((nvidia, "-L"), _ASKED))
    for node in sorted(Path("/sys/class/kfd/kfd/topology/nodes").glob("*/name")):
        with contextlib.suppress(OSError):
            name = node.read_text().strip()
            if name:
                yield f"AMD {name}"


def _ways() -> Iterator[TargetWay]:
    for name in TARGETS:
        backend = backend_named(name)
        try:
            yield TargetWay(name, code(backend.way)(name) if backend.way else "yes")
        except ToolchainError as error:
            yield TargetWay(name, "", error.diagnostic.message)
    for name, problem in installed().problems.items():
        yield TargetWay(name, "", problem)


def _size(count: int) -> str:
    for unit, name in ((1 << 30, "GiB"), (1 << 20, "MiB"), (1 << 10, "KiB")):
        if count >= unit:
            return f"{count / unit:.3g} {name}"
    return f"{count} B"


__all__ = ["Doctor", "FoundCompiler", "FoundTool", "TargetWay", "doctor"]
