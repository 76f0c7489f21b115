"""The view of a caller's array on a GPU: where its memory lies, its type and its layout. Nothing is copied."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from typing import Any

import numpy as np

from dojoir.errors import ArgumentError
from dojoir.ir.dtypes import DTYPES
from dojoir.runtime.call.dlpack import borrow, contiguous, has_dlpack
from dojoir.runtime.call.tensors import element_type, torch_now
from dojoir.runtime.call.views import View

DEVICES: Mapping[str, Mapping[int, str]] = {"cuda": {2: "CUDA", 13: "CUDA managed"}, "hip": {10: "ROCm"}}
"""The device types of DLPack whose memory a target uses."""

_ITEM_BYTES = {name: dtype.itemsize for dtype in DTYPES.values() for name in dtype.accepted}


class Viewer:
    """Views of arrays for a target."""

    def __init__(self, target: str) -> None:
        self.target = target

    def __call__(self, name: str, value: object) -> View:
        """The memory of the argument `name`. Raises ArgumentError where `value` is no array on such a GPU."""
        if isinstance(value, np.ndarray):
            raise ArgumentError(
                f"argument {name} is in the memory of the CPU, and this kernel runs on a GPU: pass an array that "
                f"is there, such as torch.from_numpy({name}).cuda(), or call compiled.run, which copies",
                "bad-device",
            )
        torch = torch_now()
        if torch is not None and isinstance(value, torch.tensor):
            seen = self._tensor(name, value, torch)
            if seen is not None:
                return seen
        if has_dlpack(value):
            tensor = borrow(name, value, DEVICES[self.target], f"on target {self.target}", -1)
            item = _ITEM_BYTES.get(tensor.dtype, 1)
            strides = tuple(stride * item for stride in tensor.strides)
            return View(tensor.address, tensor.dtype, tensor.shape, strides, tensor.writable, (value, tensor.owner))
        interface = getattr(value, "__cuda_array_interface__", None)
        if isinstance(interface, dict):
            return _described(name, value, interface)
        raise ArgumentError(
            f"argument {name} must be an array on the GPU: a tensor of PyTorch, an array of CuPy, or anything with "
            f"__dlpack__ or __cuda_array_interface__, not {type(value).__name__}",
            "not-an-array",
        )

    def _tensor(self, name: str, value: Any, torch: Any) -> View | None:
        """The memory of a tensor of PyTorch, or None where DLPack has to say what is wrong with it."""
        if not value.is_cuda or type(value) not in torch.types or value.layout is not torch.strided:
            return None
        if value.is_neg() or (value.requires_grad and torch.is_grad_enabled()):
            return None
        dtype = element_type(value.dtype)
        item = _ITEM_BYTES.get(dtype, 1)
        return View(
            value.data_ptr(), dtype, tuple(value.shape), tuple([s * item for s in value.stride()]), True, value
        )


@cache
def _type_of(typestr: str) -> str:
    return np.dtype(typestr).name


def _described(name: str, value: object, interface: Mapping[str, Any]) -> View:
    """By `__cuda_array_interface__` (version 2 and 3)."""
    try:
        address, read_only = interface["data"]
        shape = tuple(map(int, interface["shape"]))
        dtype = _type_of(interface["typestr"])
    except (KeyError, TypeError, ValueError) as error:
        message = f"argument {name} has a __cuda_array_interface__ that is not understood: {error}"
        raise ArgumentError(message, "not-an-array") from None
    if interface.get("mask") is not None:
        raise ArgumentError(f"argument {name} is a masked array: pass its data and its mask apart", "not-an-array")
    item = np.dtype(interface["typestr"]).itemsize
    strides = interface.get("strides") or tuple(stride * item for stride in contiguous(shape))
    return View(int(address or 0), dtype, shape, tuple(map(int, strides)), not read_only, value)
