"""Inputs that the caller gives to `verify`, as it keeps those that it draws."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from dojoir.errors import ArgumentError, did_you_mean
from dojoir.ir.nodes import Buffer, Kernel
from dojoir.meaning.scalar_args import scalar_value
from dojoir.runtime.call.arguments import check_type
from dojoir.runtime.call.scalars import takes_value
from dojoir.runtime.call.views import as_numpy, view_of
from dojoir.types.in_bytes import byte_buffer

GIVEN = "given"
"""The name that stands for a distribution where nothing is drawn."""


def given_arrays(kernel: Kernel, inputs: Mapping[str, object]) -> dict[str, np.ndarray]:
    """Copies in C order of type `DType.stored`, by name; of a scalar argument its number, without dimensions.

    Raises ArgumentError for a name that is no input of the kernel, and for a type or rank that does not fit."""
    takes = {buffer.name: buffer for buffer in kernel.arguments if buffer.role != "out"}
    for name in inputs:
        if name not in takes:
            raise ArgumentError(
                f"kernel {kernel.name} has no input '{name}'{did_you_mean(name, takes)}; "
                f"it takes {', '.join(takes) or 'nothing'}",
                "unknown-argument",
            )
    return {name: _array(takes[name], value) for name, value in inputs.items()}


def _array(buffer: Buffer, value: object) -> np.ndarray:
    if takes_value(buffer):
        number = scalar_value(buffer, value)
        return np.asarray(number, np.float64 if buffer.dtype.is_float else buffer.dtype.stored)
    view, buffer = view_of(buffer.name, value), byte_buffer(buffer)
    check_type(buffer, view)
    return np.array(as_numpy(view, buffer.dtype.stored), order="C", copy=True)
