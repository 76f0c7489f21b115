"""A function of PyTorch as a call on the arrays of a kernel, in the process that times it."""

from __future__ import annotations

import runpy
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import dojoir


def bound(
    path: str, name: str, given: Mapping[str, Any], taken: Sequence[str], put_out: Sequence[str], compiled: bool
) -> Callable[[], object]:
    """The function `name` of the file at `path` (or of the library, for ""), on the arguments `taken`, as tensors
    that share the arrays: no copies. The results of its first call are put into the arrays `put_out`, where they
    are compared; later calls leave theirs where PyTorch does. Raises ArgumentError, ToolchainError."""
    try:
        import torch
    except ImportError:
        raise dojoir.ToolchainError("PyTorch is not installed: pip install 'dojoir[bench]'", "no-torch") from None
    function = _function(path, name)
    if compiled:
        function = torch.compile(function)
    values = [_tensor(torch, given[one]) for one in taken]
    results = [_tensor(torch, given[one]) for one in put_out]
    is_first = True

    def call() -> object:
        nonlocal is_first
        with torch.no_grad():
            if not is_first:
                return function(*values)
            is_first = False
            found = _first(function, values)
            _put(name, found, results)
            return found

    return call


def _function(path: str, name: str) -> Callable[..., Any]:
    try:
        names = dojoir.kernels.torch_versions() if not path else runpy.run_path(path)
    except Exception as error:
        reason = f"{type(error).__name__}: {error}"
        raise dojoir.ArgumentError(f"cannot load {path}: {reason}", "cannot-read") from None
    found = names.get(name)
    if not callable(found):
        raise dojoir.ArgumentError(f"{path} has no function {name}", "unknown-function")
    made: Callable[..., Any] = found
    return made


def _first(function: Callable[..., Any], values: Sequence[Any]) -> Any:
    """The first call, in which PyTorch compiles. Raises RunError, `crash`, with what it raises."""
    try:
        return function(*values)
    except Exception as error:
        words = f"{type(error).__name__}: {error}".strip().splitlines()[0]
        raise dojoir.RunError(f"PyTorch failed: {words}", "crash") from None


def _tensor(torch: Any, value: Any) -> Any:
    return torch.from_numpy(value) if type(value).__module__ == "numpy" and value.ndim else value


def _put(name: str, found: Any, results: Sequence[Any]) -> None:
    """Puts what a function gave into the outputs of the kernel."""
    given = list(found) if isinstance(found, list | tuple) else [found]
    if len(given) != len(results):
        message = f"{name} gives {len(given)} results, and the kernel {len(results)}"
        raise dojoir.ArgumentError(message, "other-arguments")
    for one, result in zip(given, results, strict=True):
        if tuple(one.shape) != tuple(result.shape):
            message = f"{name} gives the shape {tuple(one.shape)}, and the kernel {tuple(result.shape)}"
            raise dojoir.ArgumentError(message, "other-arguments")
        result.copy_(one)
