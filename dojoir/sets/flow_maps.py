"""The flow of a kernel as two maps: what `dojoir.sets.flow` computes and `KernelSets` keeps."""

from __future__ import annotations

from typing import ClassVar

import islpy as isl

from dojoir.support.frozen import dataclass


@dataclass(frozen=True)
class Flow:
    """Where each value that a kernel reads comes from.

    `sources` maps each write to the reads that get a value from it. `initial` maps each read to the elements of
    which it may see the value at the start of the call. What a call returns is read at its end, by
    `out_x[element]`.
    """

    held_bytes: ClassVar[int] = 6000
    """About what one holds: two isl objects."""

    sources: isl.UnionMap
    initial: isl.UnionMap

    def is_same(self, other: Flow) -> bool:
        """Whether each read gets its value from the same writes in the other flow."""
        return self.sources.is_equal(other.sources) and self.initial.is_equal(other.initial)
