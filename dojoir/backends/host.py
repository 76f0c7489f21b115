"""The machine that this process runs on, and the one that code is made for where a processor is named."""

from __future__ import annotations

import contextlib
import os
import platform
from collections.abc import Mapping
from dataclasses import replace
from functools import cache
from importlib import import_module
from pathlib import Path

from dojoir.backends.machine import MACHINES, Machine, machine_with, typical
from dojoir.backends.processors import PROCESSORS
from dojoir.backends.registry import backend_or_none
from dojoir.errors import ArgumentError
from dojoir.support.public import public

VARIABLE = "DOJOIR_CPU"
"""The processor that code is made for where none is named, by LLVM's name. This one by default."""

HOST = "DOJOIR_HOST"
"""A processor, by LLVM's name, that this machine passes for: code for that one alone is made and run here. It has
nothing that this machine lacks."""

_ALIASES = {"amd64": "x86_64", "x64": "x86_64", "arm64": "aarch64"}
_DEFAULT_CACHES = (32 << 10, 1 << 20)


@cache
def architecture() -> str:
    """The architecture by LLVM's name: `x86_64`, `aarch64`, `riscv64`."""
    name = platform.machine().lower()
    return _ALIASES.get(name, name)


@cache
def detected() -> Machine:
    """This machine: what LLVM finds of its processor, and the system of its caches and cores."""
    name, found = processor_here()
    features = frozenset(name for name, present in found.items() if present)
    machine = machine_with(name, architecture(), features)
    known = PROCESSORS.get(machine.name)
    found_caches = _caches()
    caches = tuple(size for level, size in found_caches.items() if level <= OWN)
    caches = caches or (known.caches if known is not None else _DEFAULT_CACHES)
    line = known.line if known is not None else 64
    last = max((size for level, size in found_caches.items() if level > OWN), default=0)
    return replace(machine, caches=caches, cores=_cores(), line=line, last_cache=last)


@cache
def processor_here() -> tuple[str, Mapping[str, bool]]:
    """The name of the processor by LLVM, and of each feature that LLVM knows whether it has it. Of the one that
    DOJOIR_HOST names, its features in `PROCESSORS` and those that this machine lacks: of others its name says it.
    Raises ArgumentError for one that is not known, or that has what this machine lacks."""
    llvm = import_module("llvmlite.binding")
    found: Mapping[str, bool] = llvm.get_host_cpu_features()
    name = os.environ.get(HOST, "").strip()
    if not name:
        return str(llvm.get_host_cpu_name()), found
    try:
        wanted = typical(name, PROCESSORS)
    except ArgumentError as error:
        raise ArgumentError(f"{HOST}: {error.diagnostic.message}", "unknown-machine") from None
    present = frozenset(feature for feature, is_there in found.items() if is_there)
    lacking = sorted(wanted.features - machine_with(name, architecture(), present).features)
    same = wanted.architecture == architecture()
    if lacking or not same:
        lack = f"has no {', '.join(lacking)}" if same else f"is no {wanted.architecture}"
        here = sorted(known for known, one in PROCESSORS.items() if not one.features - present)
        raise ArgumentError(f"{HOST}={name}: this machine {lack}; it passes for {', '.join(here)}", "bad-target")
    told = {feature: feature in wanted.features for feature in found}
    return name, {feature: has for feature, has in told.items() if has or not found[feature]}


def llvm_features() -> str:
    """The features of the processor as LLVM takes them beside its name, each with `+` or `-`."""
    return ",".join(
        f"{'+' if present else '-'}{feature}" for feature, present in sorted(processor_here()[1].items())
    )


def native() -> str:
    """The name that a C compiler has for the processor: `native`, or the one that DOJOIR_HOST names."""
    return os.environ.get(HOST, "").strip() or "native"


def chosen_cpu(cpu: str | None = None) -> str | None:
    """The processor that code is made for by name: `cpu`, else what DOJOIR_CPU says, if either does. `host` and the
    name of this one are no choice."""
    name = os.environ.get(VARIABLE, "").strip() if cpu is None else cpu
    return None if name in ("", "host") or (name not in PROCESSORS and name == detected().name) else name


def host() -> Machine:
    """The machine that code is made for where none is named: this one, or the processor that DOJOIR_CPU names, with
    the cores of this one. Raises ArgumentError for a processor that is not known."""
    chosen = chosen_cpu()
    return detected() if chosen is None else replace(processor_named(chosen), cores=detected().cores)


def processor_named(name: str) -> Machine:
    """A processor by LLVM's name; `host` or the name of that of this machine is this machine. Raises ArgumentError
    with the nearest name."""
    if name == "host" or (name not in PROCESSORS and name == detected().name):
        return detected()
    return typical(name, PROCESSORS)


def machine_named(name: str) -> Machine:
    """The machine for a word of a schedule: a target's, a processor's, `host` for this one. Raises
    ArgumentError."""
    backend = backend_or_none(name)
    if backend is not None and backend.machine is not None:
        return backend.machine
    if name == "host" or backend is not None:
        return host()
    return typical(name, {**MACHINES, **PROCESSORS})


def split_target(target: str, cpu: str | None = None) -> tuple[str, str | None]:
    """A target and the processor it is for, of `llvm`, or of `llvm@znver3`, which names both. Raises ArgumentError
    where two are named."""
    name, at, inside = target.partition("@")
    if at and cpu is not None and inside != cpu:
        raise ArgumentError(f"'{target}' names another processor than cpu='{cpu}'", "bad-target")
    return name, inside if at else cpu


@public
def machine_for(target: str, cpu: str | None = None) -> Machine:
    """The machine that kernels for a target are scheduled for: the processor that is named, else this machine for
    `llvm` and `c`, else a typical one of the instruction set. Raises ArgumentError for a target or processor that
    is not known, or a processor without the instructions of the target."""
    name, cpu = split_target(target, cpu)
    machine = _machine_for(name, cpu)
    return replace(machine, quads=False) if name == "c" else machine


def _machine_for(name: str, cpu: str | None) -> Machine:
    """The same, whatever the target can spell."""
    if cpu is None:
        return machine_named(name)
    chosen = replace(processor_named(cpu), cores=0) if cpu != "host" else detected()
    backend = backend_or_none(name)
    if backend is not None and backend.machine is None:
        return chosen
    wanted = machine_named(name) if backend is not None else typical(name)
    narrow = wanted.architecture != chosen.architecture or wanted.vector_bytes > chosen.vector_bytes
    if narrow or not wanted.features <= chosen.features:
        raise ArgumentError(f"{cpu} has no {name}: name another processor or target", "bad-target")
    return replace(chosen, vector_bytes=wanted.vector_bytes, registers=wanted.registers, masks=wanted.masks)


def _cores() -> int:
    """How many cores this process may run on."""
    try:
        return len(os.sched_getaffinity(0))
    except AttributeError:  # the system has no affinity
        return os.cpu_count() or 0


OWN = 2
"""Up to which level a core has a cache of its own."""


def _caches() -> dict[int, int]:
    """The bytes of the data caches that the first core uses, by level, the nearest first, as Linux lists them."""
    found: dict[int, int] = {}
    for folder in sorted(Path("/sys/devices/system/cpu/cpu0/cache").glob("index*")):
        with contextlib.suppress(OSError, ValueError):
            level, kind, size = ((folder / name).read_text().strip() for name in ("level", "type", "size"))
            unit = {"K": 1 << 10, "M": 1 << 20}.get(size[-1:], 1)
            if kind != "Instruction":
                found[int(level)] = int(size.rstrip("KM")) * unit
    return dict(sorted(found.items()))
