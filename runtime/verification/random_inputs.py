"""Random arguments for a call of a kernel."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from dojoir.ir.nodes import Kernel
from dojoir.meaning.packed import unpacked_shape
from dojoir.meaning.sizes import solve
from dojoir.runtime.call.needs import check_memory
from dojoir.runtime.verification.inputs import make_inputs
from dojoir.support.public import public


@public
def random_inputs(
    kernel: Kernel,
    given: Mapping[str, np.ndarray] | None = None,
    *,
    seed: int = 0,
    sizes: Mapping[str, int] | None = None,
    **named_sizes: int,
) -> dict[str, np.ndarray]:
    """Arrays for every `in` and `inout` of a kernel: those in `given`, and uniform random ones, the same for the
    same seed. Sizes are given by name (`N=4096`), or in `sizes`; those that the given arrays show may be left out.

    Raises ArgumentError for a size that is missing, unknown or in conflict, and for an unknown array; RunError
    where a call at these sizes takes more memory than there is.
    """
    given = dict(given or {})
    for name in given:
        kernel.buffer(name)
    shapes = {name: unpacked_shape(kernel.buffer(name), array.shape) for name, array in given.items()}
    known = solve(kernel, shapes, {**(sizes or {}), **named_sizes})
    check_memory(kernel, known)
    return {**make_inputs(kernel, known, seed, "uniform"), **given}
