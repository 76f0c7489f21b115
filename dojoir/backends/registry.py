"""All targets by name: those of dojoir, and those of packages that are installed beside it.

A package adds one by an entry point of the group `dojoir.backends` that names a `Backend`:

    [project.entry-points."dojoir.backends"]
    name = "module:BACKEND"
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from functools import cache
from types import MappingProxyType

from dojoir.backends.backend import CPU_STORAGE, GPU_MARKS, Backend
from dojoir.backends.machine import MACHINES
from dojoir.errors import ArgumentError, did_you_mean
from dojoir.support.frozen import dataclass

GROUP = "dojoir.backends"
"""The group of entry points."""


def _intrinsics(name: str, about: str) -> Backend:
    return Backend(
        name,
        about,
        emit="dojoir.codegen.simd.source:emit",
        target="dojoir.codegen.simd.source:target",
        compile="dojoir.runtime.build.native:through_intrinsics",
        way="dojoir.runtime.build.native:way_of_intrinsics",
        machine=MACHINES[name],
    )


def _gpu(name: str, about: str) -> Backend:
    return Backend(
        name,
        about,
        emit="dojoir.codegen.gpu.source:emit",
        target="dojoir.codegen.gpu.source:target",
        compile="dojoir.runtime.gpu.targets:through_device",
        emulate="dojoir.runtime.gpu.targets:through_harness",
        way="dojoir.runtime.gpu.targets:way",
        on_host="dojoir.runtime.gpu.targets:on_host",
        machine=MACHINES[name],
        marks=GPU_MARKS,
        storage=CPU_STORAGE | {"shared"},
    )


OURS: Mapping[str, Backend] = MappingProxyType(
    {
        backend.name: backend
        for backend in (
            Backend(
                "llvm",
                "LLVM IR for this machine, compiled in process; needs no toolchain",
                emit="dojoir.codegen.llvm.source:emit",
                target="dojoir.codegen.llvm.source:target",
                compile="dojoir.runtime.build.compiler:through_llvm",
                way="dojoir.runtime.build.compiler:way_of_llvm",
            ),
            Backend(
                "c",
                "C11 without intrinsics, for any compiler",
                emit="dojoir.codegen.c.source:emit",
                target="dojoir.codegen.c.source:target",
                compile="dojoir.runtime.build.native:through_c",
                way="dojoir.runtime.build.native:way_of_c",
            ),
            _intrinsics("avx512", "C11 with the intrinsics of AVX-512 (F, VL, BW, DQ)"),
            _intrinsics("avx2", "C11 with the intrinsics of AVX2, FMA and F16C"),
            _intrinsics("neon", "C11 with the intrinsics of 64-bit Arm's NEON"),
            _intrinsics("sve", "C11 with the intrinsics of Arm's SVE, for vectors of 128 bits or more"),
            _intrinsics("rvv", "C11 with the intrinsics of RISC-V's V 1.0, for vectors of 128 bits or more"),
            _gpu("cuda", "CUDA C++ for GPUs of NVIDIA"),
            _gpu("hip", "HIP C++ for GPUs of AMD"),
        )
    }
)
"""The targets of dojoir, in the order in which they are listed."""


@dataclass(frozen=True)
class Installed:
    """The backends of other packages by name, and the reason for each that cannot be loaded."""

    backends: Mapping[str, Backend]
    problems: Mapping[str, str]


@cache
def installed() -> Installed:
    """The backends of other packages. One that is broken is known by its name, and told of when it is used."""
    from importlib.metadata import entry_points

    backends: dict[str, Backend] = {}
    problems: dict[str, str] = {}
    for entry in entry_points(group=GROUP):
        where = f"{entry.value} of {entry.dist.name if entry.dist is not None else 'a package'}"
        if entry.name in OURS or entry.name in backends:
            problems.setdefault(f"{entry.name}@{where}", f"there is a target '{entry.name}' already")
            continue
        try:
            found = entry.load()
        except Exception as error:  # whatever another package does when it is imported
            problems[entry.name] = f"{where} cannot be loaded: {type(error).__name__}: {error}"
            continue
        if not isinstance(found, Backend) or found.name != entry.name:
            problems[entry.name] = f"{where} must be a Backend with the name '{entry.name}', not {found!r:.80}"
        else:
            backends[entry.name] = found
    return Installed(backends, problems)


def backend_or_none(name: str) -> Backend | None:
    """The target of a name, if there is one. Raises ArgumentError where a package has it and it is broken."""
    if name in OURS:
        return OURS[name]
    if name in installed().problems:
        raise ArgumentError(f"target '{name}': {installed().problems[name]}", "bad-backend")
    return installed().backends.get(name)


def backend_named(name: str) -> Backend:
    """The target of a name. Raises ArgumentError with the nearest one."""
    found = backend_or_none(name)
    if found is None:
        known = f"the targets are {', '.join(TARGETS)}"
        raise ArgumentError(f"there is no target '{name}'{did_you_mean(name, TARGETS)}; {known}", "unknown-target")
    return found


def is_device(target: str) -> bool:
    """Whether the arrays of a target, given as `name` or `name@cpu`, are in another memory than the CPU's."""
    found = backend_or_none(target.partition("@")[0])
    return found is not None and found.is_device


@dataclass(frozen=True)
class Targets(Mapping[str, str]):
    """The targets that are wanted by name, each with what it gives. Other packages are looked for when those of
    dojoir are not all that is asked for."""

    wanted: Callable[[Backend], bool]

    def __getitem__(self, name: str) -> str:
        found = OURS.get(name) or installed().backends.get(name)
        if found is None or not self.wanted(found):
            raise KeyError(name)
        return found.about

    def __iter__(self) -> Iterator[str]:
        everything = (*OURS.values(), *installed().backends.values())
        return (backend.name for backend in everything if self.wanted(backend))

    def __len__(self) -> int:
        return sum(1 for _ in self)


TARGETS = Targets(lambda _: True)
"""The targets by name, each with what it gives."""

RUNNABLE = Targets(lambda backend: backend.compile != "")
"""Those that kernels can be compiled for and run, here or on a machine that has what they need."""
