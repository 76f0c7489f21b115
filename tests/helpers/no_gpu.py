"""Imported modules called as on a GPU where there is none: to see what a call costs beside its launches."""

from __future__ import annotations

from typing import Any

import torch

from dojoir.runtime.build.llvm_engine import load_entry
from dojoir.runtime.gpu import devices
from dojoir.runtime.gpu.driver import Gpu
from dojoir.torch.importer import plans, program_runner

NOTHING = "define i32 @entry() {\n  ret i32 0\n}\n"


def without_a_gpu() -> None:
    """A driver whose launcher does nothing, and tensors of the CPU that say they are on a GPU."""
    address, owner = load_entry(NOTHING)

    class Driver:
        target, devices, launcher, loads_while_recording, held = "cuda", 1, address, True, owner

        def use(self, device: int) -> None: ...

        def in_use(self) -> int:
            return 0

        def describe(self, device: int) -> Gpu:
            return Gpu("none", "sm_90", 132, 32, 200 << 10, 50 << 20, 1 << 36)

        def compile(self, text: str, architecture: str) -> bytes:
            return b""

        def load(self, code: bytes, names: list[str]) -> tuple[int, ...]:
            return tuple(range(len(names)))

        def reserve(self, function: int, shared_bytes: int) -> None: ...

    class Places:
        empty = staticmethod(plans.empty_on_cpu)

        def stream(self, device: int) -> int:
            return 0

        def current(self) -> int:
            return 0

        def words(self, count: int) -> Any:
            return torch.zeros(count, dtype=torch.int32)

    own: Any = torch.Tensor
    vars(devices)["find"] = lambda target: Driver()
    vars(program_runner)["places"] = Places()
    own.get_device, own.is_cpu = lambda tensor: 0, False
