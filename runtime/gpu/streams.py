"""The stream that a call is part of: that of the library whose arrays it is given, or one that is named."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable
from contextlib import suppress
from typing import Any

from dojoir.errors import ArgumentError, repr_of

StreamNow = Callable[[], int]
"""Gives the handle of the stream that is current when it is called."""


def current_stream(arrays: Iterable[object], device: int) -> StreamNow:
    """That of PyTorch where an array is a tensor of it, of CuPy for one of its arrays; else the default stream."""
    for array in arrays:
        owner = array[0] if isinstance(array, tuple) and array else array
        library = type(owner).__module__.partition(".")[0]
        if library == "torch":
            return _torch(device)
        if library == "cupy":
            return _cupy
    return _default


def _default() -> int:
    return 0


def _cupy() -> int:
    return int(sys.modules["cupy"].cuda.get_current_stream().ptr)


def _torch(device: int) -> StreamNow:
    torch: Any = sys.modules["torch"]
    quick: Callable[[int], int] | None = getattr(torch._C, "_cuda_getCurrentRawStream", None)
    if quick is not None:  # what PyTorch's own generated code asks; the public function makes an object first
        return lambda: quick(device)
    return lambda: int(torch.cuda.current_stream(device).cuda_stream)


def handle_of(stream: object) -> int:
    """The handle of a stream: a number, or an object of PyTorch, CuPy, Numba or cuda.core. Raises
    ArgumentError."""
    found: Any = stream
    protocol = getattr(stream, "__cuda_stream__", None)
    if protocol is not None:
        found = (protocol() if callable(protocol) else protocol)[1]
    elif not isinstance(stream, int):
        named = (getattr(stream, name, None) for name in ("cuda_stream", "ptr", "handle"))
        found = next((value for value in named if value is not None), None)
    with suppress(TypeError, ValueError, OverflowError):
        handle = -1 if isinstance(found, bool) or found is None else int(found)
        if 0 <= handle < 2**64:
            return handle
    raise ArgumentError(
        f"stream must be a stream of PyTorch, CuPy, Numba or cuda.core, or its handle, an address: "
        f"not {repr_of(stream)}",
        "bad-stream",
    )
