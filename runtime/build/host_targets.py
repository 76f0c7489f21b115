"""The properties of this machine's processor, and the targets that it can run."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dojoir.backends import host
from dojoir.backends.machine import Machine
from dojoir.errors import ToolchainError

if TYPE_CHECKING:
    from dojoir.codegen.simd.isa_table import Isa

architecture = host.architecture


def processor() -> str:
    """The processor that code is made for where none is named, by LLVM's name, which is that of its design:
    `znver4`, `icelake-server`. It is that of this machine, unless DOJOIR_CPU says another."""
    return host.host().name


def features() -> frozenset[str]:
    """The features of the processor, by LLVM's names, as far as the system permits their use."""
    return host.detected().features & host.host().features


def missing_features(isa: Isa) -> tuple[str, ...]:
    """The features of an instruction set of the processor's architecture that the processor lacks."""
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


def check_machine(machine: Machine) -> None:
    """Raises ToolchainError where this machine cannot run code for another one."""
    here = host.detected()
    missing = sorted(machine.features - here.features)
    if machine.architecture != here.architecture or missing:
        same = machine.architecture == here.architecture
        lack = f"it has no {', '.join(missing)}" if same else f"it is no {machine.architecture}"
        message = f"this processor, {here.name}, cannot run code for {machine.name}: {lack}; --emit shows the code"
        raise ToolchainError(message, "no-instruction-set")
