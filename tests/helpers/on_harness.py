"""Kernels for GPUs on the harness: every launch of one on a CPU, its races found."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from dojoir.codegen.emission import gpu_program
from dojoir.codegen.gpu.program import STATUS, GpuProgram
from dojoir.ir.dtypes import DType
from dojoir.ir.nodes import Kernel
from dojoir.runtime.call.layout import array_shape
from dojoir.runtime.simt.harness import Harness
from dojoir.types.in_bytes import byte_buffer


def run(
    kernel: Kernel,
    arrays: Mapping[str, NDArray[Any]],
    sizes: Mapping[str, int],
    target: str = "cuda",
    order: Literal["forward", "backward"] = "forward",
    program: GpuProgram | None = None,
) -> dict[str, NDArray[Any]]:
    """What a kernel gives for `arrays` (all arguments but `out`, by name); backward, counting in 32 bits where the
    sizes let it. Raises RunError where its text breaks a rule of the machine."""
    program = program or gpu_program(kernel, target)
    if order == "backward" and program.shortened.fits(sizes):
        program = program.shortened
    by_value = {var.name for var in program.program.by_value}
    with Harness(program.source, program.warp).device(order=order) as device:
        buffers = {}
        for array in program.program.arguments:
            if array.name not in by_value:
                elements = program.elements(array, sizes)
                buffers[array.name] = device.empty((elements,), numpy_type(array.dtype), array.name)
                if array.name in arrays:
                    kind = byte_buffer(kernel.buffer(array.name)).dtype.stored
                    stored = np.asarray(arrays[array.name], kind)
                    buffers[array.name].array[...] = stored.reshape(-1).view(numpy_type(array.dtype))
        for array in program.workspace:
            elements = program.elements(array, sizes)
            buffers[array.name] = device.empty((elements,), numpy_type(array.dtype), array.name)
        status = device.array(np.zeros(1, np.int32), STATUS)
        scalars = {
            var.name: np.asarray(arrays[var.name], kernel.buffer(var.name).dtype.stored)
            .reshape(1)
            .view(numpy_type(var.type.dtype))[0]
            .item()
            for var in program.program.by_value
        }
        for launched in program.runs(sizes, scalars):
            given = [
                (status if value == STATUS else buffers[value]) if isinstance(value, str) else value
                for value in launched.arguments
            ]
            device.launch(
                launched.kernel, launched.grid, (launched.threads, 1, 1), given, shared_bytes=launched.shared_bytes
            )
        assert not status.array[0]
        outputs = [buffer for buffer in kernel.arguments if buffer.role != "in"]
        return {
            b.name: buffers[b.name].array.copy().view(byte_buffer(b).dtype.stored).reshape(array_shape(b, sizes))
            for b in outputs
        }


def numpy_type(dtype: DType) -> np.dtype[Any]:
    return np.dtype("?" if dtype.kind == "b" else f"{dtype.kind}{dtype.itemsize}")
