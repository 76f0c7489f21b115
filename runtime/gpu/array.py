"""Arrays on a GPU that a call returns, or that hold what it is given."""

from __future__ import annotations

import weakref
from collections.abc import Mapping
from math import prod
from typing import Any

import numpy as np

from dojoir.ir.nodes import Buffer
from dojoir.runtime.call.layout import array_shape, storage_bytes, strides_of
from dojoir.runtime.gpu.driver import Driver


def array_for(driver: Driver, buffer: Buffer, sizes: Mapping[str, int]) -> DeviceArray:
    """A new array for a buffer of a kernel, in its layout, on the device in use; its contents are arbitrary."""
    item = buffer.dtype.itemsize
    strides = tuple(stride * item for stride in strides_of(buffer, sizes))
    size = storage_bytes(buffer, sizes)
    return DeviceArray(driver, array_shape(buffer, sizes), buffer.dtype.stored, strides, size)


def bytes_on(driver: Driver, size: int) -> DeviceArray:
    """New memory of so many bytes on the device in use."""
    return DeviceArray(driver, (size,), "uint8", (1,), size)


class DeviceArray:
    """Memory on a GPU. PyTorch (`torch.as_tensor`), CuPy, Numba and JAX take it without a copy; `numpy()`
    copies."""

    def __init__(
        self,
        driver: Driver,
        shape: tuple[int, ...],
        dtype: str,
        strides: tuple[int, ...],
        size: int,
        stream: int = 0,
    ) -> None:
        """`strides` are in bytes; it takes `size` bytes."""
        self.shape, self.dtype, self.strides = shape, np.dtype(dtype), strides
        self._driver, self._size, self.stream = driver, size, stream
        self.address = driver.allocate(size)
        self.device = driver.in_use()
        self._free = weakref.finalize(self, driver.free, self.address)
        self._free.atexit = False  # the context is gone by then

    def stay(self) -> None:
        """Leaves the memory where it is for as long as the process runs: a graph may have work on it."""
        self._free.detach()

    @property
    def size(self) -> int:
        """The bytes that it takes."""
        return self._size

    @property
    def __cuda_array_interface__(self) -> dict[str, Any]:
        return {
            "version": 3,
            "shape": self.shape,
            "typestr": self.dtype.str,
            "data": (self.address, False),
            "strides": self.strides,
            "stream": self.stream or 1,  # 1 is the default stream
        }

    def put(self, array: np.ndarray, stream: int = 0) -> None:
        """Copies the values of an array of the CPU of the same shape."""
        memory = np.zeros(self._size, np.uint8)
        self._on(memory)[...] = array
        self._driver.to_device(self.address, memory.ctypes.data, self._size, stream)
        self._driver.wait(stream)

    def numpy(self) -> np.ndarray:
        """A copy in the memory of the CPU, once the work on it is done."""
        memory = np.zeros(self._size, np.uint8)
        self._driver.to_host(memory.ctypes.data, self.address, self._size, self.stream)
        self._driver.wait(self.stream)
        return self._on(memory)

    def copy_from(self, address: int, stream: int = 0) -> None:
        """Copies the bytes at an address of the device."""
        self._driver.copy(self.address, address, self._size, stream)

    def fill(self, byte: int, stream: int = 0) -> None:
        """Sets every byte."""
        self._driver.fill(self.address, byte, self._size, stream)

    def _on(self, memory: np.ndarray) -> np.ndarray:
        """The array on its bytes in the memory of the CPU."""
        if not prod(self.shape):
            return np.empty(self.shape, self.dtype)
        return np.ndarray(self.shape, self.dtype, memory.data, 0, self.strides)

    def __repr__(self) -> str:
        return f"<{self.dtype} array of shape {list(self.shape)} on GPU {self.device}>"
