"""Arrays of other libraries, seen through DLPack without a copy.

The capsule is read here with ctypes rather than by NumPy, which knows neither bfloat16 nor the 8-bit floats.
Layout of the structures: https://dmlc.github.io/dlpack/latest/c_api.html (versions 0.x and 1.x).
"""

from __future__ import annotations

import ctypes
from collections.abc import Mapping
from typing import Protocol, TypeGuard

from dojoir.errors import ArgumentError, repr_of
from dojoir.support.frozen import dataclass

CPU_DEVICES = {1: "CPU", 3: "CUDA host", 11: "ROCm host"}
"""The device types whose memory the CPU may use."""

_DEVICES = {
    2: "CUDA", 4: "OpenCL", 7: "Vulkan", 8: "Metal", 10: "ROCm", 13: "CUDA managed", 14: "oneAPI", 15: "WebGPU",
}  # fmt: skip

_READ_ONLY = 1

_INT, _UINT, _FLOAT, _BFLOAT, _COMPLEX, _BOOL = 0, 1, 2, 4, 5, 6
_NAMES = {
    (_INT, 8): "int8", (_INT, 16): "int16", (_INT, 32): "int32", (_INT, 64): "int64",
    (_UINT, 8): "uint8", (_UINT, 16): "uint16", (_UINT, 32): "uint32", (_UINT, 64): "uint64",
    (_FLOAT, 16): "float16", (_FLOAT, 32): "float32", (_FLOAT, 64): "float64", (_BFLOAT, 16): "bfloat16",
    (_COMPLEX, 64): "complex64", (_COMPLEX, 128): "complex128", (_BOOL, 8): "bool",
    (8, 8): "float8_e4m3", (10, 8): "float8_e4m3fn", (11, 8): "float8_e4m3fnuz", (12, 8): "float8_e5m2",
    (13, 8): "float8_e5m2fnuz", (14, 8): "float8_e8m0fnu", (17, 4): "float4_e2m1fn",
}  # fmt: skip


CODES = {name: code for code, name in _NAMES.items()}
"""The code and the bits of each element type by name."""


class HasDLPack(Protocol):
    """The protocol of an array-like object: the standard's two methods."""

    def __dlpack__(self, *, stream: int | None = None, max_version: tuple[int, int] | None = None) -> object: ...

    def __dlpack_device__(self) -> tuple[int, int]: ...


def has_dlpack(value: object) -> TypeGuard[HasDLPack]:
    return hasattr(value, "__dlpack__") and hasattr(value, "__dlpack_device__")


@dataclass(frozen=True)
class SharedTensor:
    """Memory behind a capsule; `strides` are in elements. It is there as long as `owner` is."""

    address: int
    dtype: str
    shape: tuple[int, ...]
    strides: tuple[int, ...]
    writable: bool
    owner: object


class _Device(ctypes.Structure):
    _fields_ = (("type", ctypes.c_int32), ("id", ctypes.c_int32))


class _DataType(ctypes.Structure):
    _fields_ = (("code", ctypes.c_uint8), ("bits", ctypes.c_uint8), ("lanes", ctypes.c_uint16))


class _DLTensor(ctypes.Structure):
    _fields_ = (
        ("data", ctypes.c_void_p),
        ("device", _Device),
        ("ndim", ctypes.c_int32),
        ("dtype", _DataType),
        ("shape", ctypes.POINTER(ctypes.c_int64)),
        ("strides", ctypes.POINTER(ctypes.c_int64)),
        ("byte_offset", ctypes.c_uint64),
    )


class _Versioned(ctypes.Structure):
    _fields_ = (
        ("major", ctypes.c_uint32),
        ("minor", ctypes.c_uint32),
        ("context", ctypes.c_void_p),
        ("deleter", ctypes.c_void_p),
        ("flags", ctypes.c_uint64),
        ("tensor", _DLTensor),
    )


def borrow(
    name: str,
    value: HasDLPack,
    devices: Mapping[int, str] = CPU_DEVICES,
    runs: str = "on the CPU",
    stream: int | None = None,
) -> SharedTensor:
    """The tensor of the argument `name`. The capsule stays unconsumed: its producer frees it when `owner` goes.
    With `stream` -1 the producer does not wait for what it is still to do: the caller's work comes behind it.
    Raises ArgumentError where the memory is of none of `devices`, or its library will not hand it over."""
    try:
        device = int(value.__dlpack_device__()[0])
    except Exception as error:
        raise _refused(name, value, error) from None
    if device not in devices:
        where = (CPU_DEVICES | _DEVICES).get(device, f"device type {device}")
        raise ArgumentError(
            f"argument {name} is in {where} memory; this kernel runs {runs}: copy it there first", "bad-device"
        )
    try:
        capsule = value.__dlpack__() if stream is None else value.__dlpack__(stream=stream)
    except Exception as error:
        capsule = _versioned_capsule(name, value, error)
    return _tensor_of(name, capsule)


def _versioned_capsule(name: str, value: HasDLPack, first: Exception) -> object:
    """Asked for after a plain request failed: only version 1 can say that memory is read-only."""
    try:
        return value.__dlpack__(max_version=(1, 0))
    except Exception:
        raise _refused(name, value, first) from None


def _refused(name: str, value: object, error: Exception) -> ArgumentError:
    return ArgumentError(f"argument {name} ({type(value).__name__}) cannot be shared: {error}", "no-dlpack")


def _tensor_of(name: str, capsule: object) -> SharedTensor:
    writable = True
    try:
        tensor = _DLTensor.from_address(_pointer(capsule, b"dltensor"))
    except ValueError:
        versioned = _versioned(name, capsule)
        writable = not versioned.flags & _READ_ONLY
        tensor = versioned.tensor
    dtype = tensor.dtype
    dtype_name = _NAMES.get((dtype.code, dtype.bits), f"DLPack type {dtype.code} of {dtype.bits} bits")
    if dtype.lanes != 1:
        dtype_name += f" in groups of {dtype.lanes}"
    shape = tuple(tensor.shape[: tensor.ndim]) if tensor.ndim else ()
    if not tensor.ndim:
        strides: tuple[int, ...] = ()
    elif tensor.strides:
        strides = tuple(tensor.strides[: tensor.ndim])
    else:
        strides = contiguous(shape)
    return SharedTensor((tensor.data or 0) + tensor.byte_offset, dtype_name, shape, strides, writable, capsule)


def _versioned(name: str, capsule: object) -> _Versioned:
    try:
        versioned = _Versioned.from_address(_pointer(capsule, b"dltensor_versioned"))
    except ValueError:
        raise ArgumentError(
            f"argument {name} gave no DLPack capsule, but {repr_of(capsule)}", "no-dlpack"
        ) from None
    if versioned.major != 1:
        raise ArgumentError(
            f"argument {name} comes with DLPack version {versioned.major}, which is not known here", "no-dlpack"
        )
    return versioned


def contiguous(shape: tuple[int, ...]) -> tuple[int, ...]:
    """The strides, in elements, of an array whose last dimension is innermost and that has no gaps."""
    strides = []
    step = 1
    for extent in reversed(shape):
        strides.append(step)
        step *= extent
    return tuple(reversed(strides))


_pointer = ctypes.PYFUNCTYPE(ctypes.c_void_p, ctypes.py_object, ctypes.c_char_p)(
    ("PyCapsule_GetPointer", ctypes.pythonapi)
)
