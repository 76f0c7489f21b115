"""PyTorch's tensors, seen without a capsule. Nothing is imported here: who passes a tensor has imported torch."""

from __future__ import annotations

import ctypes
import sys
from collections.abc import Collection
from functools import cache
from typing import Any

import numpy as np

from dojoir.support.frozen import dataclass

_EXCHANGE = "__dlpack_c_exchange_api__"
"""Where a tensor's type keeps DLPack's table of C functions (DLPack 1.3)."""

_FROM_TENSOR = 40
"""Where in that table stands `dltensor_from_py_object_no_sync`, which fills in a DLTensor that owns nothing."""


@dataclass(frozen=True)
class Torch:
    """The part of the module that is used here. `types` are those whose methods are PyTorch's own."""

    tensor: type
    types: frozenset[type]
    strided: object
    is_grad_enabled: Any
    is_neg: Any
    from_tensor: int
    """The address of the C function that fills in a DLTensor; 0 where there is none."""
    requires_grad: str
    """The name of that attribute, as one object."""


def torch_now() -> Torch | None:
    """PyTorch, where it is imported, whole."""
    torch = sys.modules.get("torch")
    return None if torch is None or not hasattr(torch, "nn") else _torch()


@cache
def _torch() -> Torch:
    torch: Any = sys.modules["torch"]
    return Torch(
        torch.Tensor,
        frozenset({torch.Tensor, torch.nn.Parameter}),
        torch.strided,
        torch.is_grad_enabled,
        torch.Tensor.is_neg,
        _from_tensor(torch.Tensor),
        sys.intern("requires_grad"),
    )


@cache
def element_type(dtype: object) -> str:
    """The name of one of PyTorch's element types: `float32`."""
    return str(dtype).removeprefix("torch.")


def of_torch(owner: object) -> bool:
    """Whether the memory of a view is that of a tensor of PyTorch."""
    torch = torch_now()
    first = owner[0] if isinstance(owner, tuple) else owner
    return torch is not None and isinstance(first, torch.tensor)


def as_tensor(array: np.ndarray, names: Collection[str]) -> Any:
    """The memory of an array as a tensor. `names` are those of the types that its elements may have."""
    torch: Any = sys.modules["torch"]
    own = [getattr(torch, name) for name in reversed([*names]) if name in TORCH and hasattr(torch, name)]
    if not own or own[0] == torch.bool:
        return torch.from_numpy(array)
    return torch.from_numpy(array.view(f"i{array.itemsize}")).view(own[0])  # both have these in every width


TORCH = frozenset(
    {
        "float64", "float32", "float16", "bfloat16", "float8_e4m3fn", "float8_e5m2", "float8_e8m0fnu", "int64",
        "int32", "int16", "int8", "uint64", "uint32", "uint16", "uint8", "bool",
    }
)  # fmt: skip
"""The element types that PyTorch has, as it calls them."""


def _from_tensor(tensor: type) -> int:
    """The address of the C function that fills in a DLTensor from a tensor, or 0."""
    capsule = getattr(tensor, _EXCHANGE, None)
    if capsule is None:
        return 0
    try:
        table = _pointer(capsule, b"dlpack_exchange_api")
    except ValueError:
        return 0
    major = ctypes.c_uint32.from_address(table).value
    return int(ctypes.c_void_p.from_address(table + _FROM_TENSOR).value or 0) if major == 1 else 0


_pointer = ctypes.PYFUNCTYPE(ctypes.c_void_p, ctypes.py_object, ctypes.c_char_p)(
    ("PyCapsule_GetPointer", ctypes.pythonapi)
)
