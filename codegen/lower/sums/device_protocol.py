"""The lowering for a GPU as it is asked by the code that puts sums of threads together, which it calls."""

from __future__ import annotations

from typing import Protocol

from dojoir.codegen.lir.program import Value
from dojoir.codegen.lower.access.state import Block, Device, Place, State, Unit
from dojoir.codegen.lower.gpu.threads import Nest, Phase
from dojoir.ir.nodes import Path


class DeviceLowering(Protocol):
    """The lowering of one kernel for a GPU (`dojoir.codegen.lower.nests.device`)."""

    unit: Unit

    def is_atomic(self, path: Path) -> bool:
        """Whether other threads may do to the element what the statement at a path does."""

    def by_one(self, buffer: str, state: State, code: Block, block: Block) -> None:
        """Code that writes to a buffer, for one thread where all run it alike."""

    def is_memory(self, place: Place) -> bool:
        """Whether a place is an array that other threads see."""

    def own_number(self, device: Device) -> Value:
        """The number of a thread among those that run the same."""

    def thread_iterators(
        self, nest: Nest, phase: Phase, state: State, block: Block
    ) -> tuple[tuple[Value, ...], Value | None]:
        """The iterators of a nest, and where this thread has an iteration."""
