"""Kernels of the library as a user of PyTorch writes them: what `dojoir bench` puts beside them.

Each function takes the `in` and `inout` arguments of its kernel in declared order, as tensors and numbers, and
gives what the kernel puts out.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

Tensor = Any


def _functional() -> Any:
    import torch

    return torch.nn.functional


def softmax(x: Tensor) -> Tensor:
    return _functional().softmax(x, dim=1)


def log_softmax(x: Tensor) -> Tensor:
    return _functional().log_softmax(x, dim=1)


def layernorm(x: Tensor, g: Tensor, b: Tensor, eps: float) -> Tensor:
    return _functional().layer_norm(x, (x.shape[1],), g, b, float(eps))


def rmsnorm(x: Tensor, g: Tensor, eps: float) -> Tensor:
    return _functional().rms_norm(x, (x.shape[1],), g, float(eps))


def matmul(a: Tensor, b: Tensor) -> Tensor:
    return a @ b


def gemv(a: Tensor, x: Tensor) -> Tensor:
    return a @ x


def relu(x: Tensor) -> Tensor:
    return _functional().relu(x)


def gelu(x: Tensor) -> Tensor:
    return _functional().gelu(x)


def silu(x: Tensor) -> Tensor:
    return _functional().silu(x)


def add(a: Tensor, b: Tensor) -> Tensor:
    return a + b


def mul(a: Tensor, b: Tensor) -> Tensor:
    return a * b


def transpose(x: Tensor) -> Tensor:
    return x.t().contiguous()


def reduce_mean_1(x: Tensor) -> Tensor:
    return x.mean(dim=1)


def reduce_mean_0(x: Tensor) -> Tensor:
    return x.mean(dim=0)


VERSIONS: dict[str, Callable[..., Any]] = {
    function.__name__: function
    for function in (
        softmax, log_softmax, layernorm, rmsnorm, matmul, gemv, relu, gelu, silu, add, mul, transpose,
        reduce_mean_0, reduce_mean_1,
    )
}  # fmt: skip
