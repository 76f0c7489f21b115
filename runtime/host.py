"""What this machine's processor is and has."""

from __future__ import annotations

import platform
from collections.abc import Mapping
from functools import cache
from importlib import import_module

from dojoir.codegen.isa import Isa
from dojoir.errors import ToolchainError

_ALIASES = {"amd64": "x86_64", "x64": "x86_64", "arm64": "aarch64"}


@cache
def architecture() -> str:
    """The architecture by LLVM's name: `x86_64`, `aarch64`, `riscv64`."""
    name = platform.machine().lower()
    return _ALIASES.get(name, name)


@cache
def processor() -> str:
    """The processor of this machine by LLVM's name, which is that of its design: `znver4`, `icelake-server`."""
    return str(import_module("llvmlite.binding").get_host_cpu_name())


@cache
def features() -> frozenset[str]:
    """What the processor has, by LLVM's names."""
    binding = import_module("llvmlite.binding")
    found: Mapping[str, bool] = binding.get_host_cpu_features()
    return frozenset(name for name, present in found.items() if present)


def missing_features(isa: Isa) -> tuple[str, ...]:
    """What the processor lacks of an instruction set of its architecture."""
    return tuple(sorted(isa.features - features()))


def runs(isa: Isa) -> bool:
    """Whether the processor runs code for an instruction set."""
    return architecture() == isa.architecture and not missing_features(isa)


def check_features(isa: Isa) -> None:
    """Raises ToolchainError where the processor lacks something, before code that would crash is run."""
    missing = missing_features(isa)
    if missing:
        message = (
            f"this processor cannot run target {isa.name}: it has no {', '.join(missing)}; "
            f"use target llvm or c, which fit any processor, or a machine that has it"
        )
        raise ToolchainError(message, "no-instruction-set")
