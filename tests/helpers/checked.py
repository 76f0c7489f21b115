"""Random kernels as the checker sees them, without writes that data decide."""

from __future__ import annotations

from random import Random

from walks import start_kernel

from dojoir.ir.nodes import Kernel
from dojoir.sets.data_writes import without_data_writes
from dojoir.sets.distinct_writes import distinct_writes


def checked_kernel(random: Random, small: float = 0.0) -> Kernel:
    """A kernel to walk from, one of which the checker knows nothing that the language has no words for, as that
    data keep its writes apart."""
    while distinct_writes(kernel := start_kernel(random, small)[0]):
        pass
    return without_data_writes(kernel)
