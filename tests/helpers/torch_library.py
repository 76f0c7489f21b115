"""The kernels of the library as functions of PyTorch, with tiny arguments in f64."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

import dojoir

F: Any = torch.nn.functional
Reference = Callable[..., Any]


def rand(*shape: int) -> Any:
    return torch.randn(*shape, dtype=torch.float64)


ROWS = torch.tensor([0, 2, 2, 6, 7], dtype=torch.int32)
COLUMNS = torch.tensor([4, 0, 1, 2, 3, 4, 2], dtype=torch.int32)
"""Rows of a sparse matrix of five columns: two elements, none, four and one."""


def in_rows(rows: Any, terms: Any) -> Any:
    """The sums of terms that belong to rows, where these begin."""
    number = torch.repeat_interleave(torch.arange(len(rows) - 1), rows.diff().long())
    return torch.zeros(len(rows) - 1, *terms.shape[1:], dtype=terms.dtype).index_add(0, number, terms)


def attention(q: Any, k: Any, v: Any, scale: float) -> Any:
    return F.scaled_dot_product_attention(q, k, v, is_causal=True, scale=scale)


def batchnorm_inference(x: Any, mean: Any, var: Any, g: Any, b: Any, eps: float) -> Any:
    mean, var, g, b = (v[:, None, None] for v in (mean, var, g, b))
    return (x - mean) / (var + eps).sqrt() * g + b


def batchnorm(x: Any, g: Any, b: Any, eps: float) -> Any:
    var, mean = torch.var_mean(x, (0, 2, 3), correction=0)
    return mean, var, batchnorm_inference(x, mean, var, g, b, eps)


def groupnorm(x: Any, w: Any, b: Any, eps: float) -> Any:
    n, g, c, length = x.shape
    return F.group_norm(x.reshape(n, g * c, length), g, w.reshape(-1), b.reshape(-1), eps).reshape(x.shape)


def grouped(x: Any, f: Any) -> Any:
    n, g, c, h, w = x.shape
    y = F.conv2d(x.reshape(n, g * c, h, w), f.reshape(-1, *f.shape[2:]), groups=g)
    return y.reshape(n, g, -1, *y.shape[2:])


def rms(x: Any, g: Any, eps: float) -> Any:
    return F.rms_norm(x, (x.shape[1],), g, eps)


def steps(a: Any, b: Any, T: int) -> Any:
    for _ in range(T):
        b = torch.cat([b[:1], torch.cat([b[1:-1, :1], inner(a), b[1:-1, -1:]], 1), b[-1:]])
        a = torch.cat([a[:1], torch.cat([a[1:-1, :1], inner(b), a[1:-1, -1:]], 1), a[-1:]])
    return a, b


def inner(a: Any) -> Any:
    return 0.2 * (a[1:-1, 1:-1] + a[1:-1, :-2] + a[1:-1, 2:] + a[2:, 1:-1] + a[:-2, 1:-1])


def cubes(a: Any, b: Any, T: int) -> Any:
    for _ in range(T):
        b = with_inside(b, heated(a))
        a = with_inside(a, heated(b))
    return a, b


def heated(a: Any) -> Any:
    inside = a[1:-1, 1:-1, 1:-1]
    pairs = (
        a[2:, 1:-1, 1:-1] + a[:-2, 1:-1, 1:-1], a[1:-1, 2:, 1:-1] + a[1:-1, :-2, 1:-1],
        a[1:-1, 1:-1, 2:] + a[1:-1, 1:-1, :-2],
    )  # fmt: skip
    return inside + sum(0.125 * (pair - 2 * inside) for pair in pairs)


def with_inside(whole: Any, inside: Any) -> Any:
    made = whole.clone()
    made[1:-1, 1:-1, 1:-1] = inside
    return made


IDS = torch.tensor([1, 0, 1, 2])

LIBRARY: dict[str, tuple[Reference, tuple[Any, ...], dict[str, int]]] = {
    "add": (torch.add, (rand(5), rand(5)), {}),
    "attention": (attention, (rand(2, 5, 3), rand(2, 5, 3), rand(2, 5, 3), 0.5), {}),
    "avgpool2d": (lambda x, **_: F.avg_pool2d(x, 2), (rand(1, 2, 5, 6),), {"KH": 2, "KW": 2}),
    "batchnorm_inference": (
        batchnorm_inference, (rand(2, 3, 2, 4), rand(3), rand(3).exp(), rand(3), rand(3), 1e-3), {},
    ),
    "batchnorm_training": (batchnorm, (rand(2, 3, 2, 4), rand(3), rand(3), 1e-3), {}),
    "bias_relu": (lambda x, b: F.relu(x + b), (rand(3, 4), rand(4)), {}),
    "bmm": (torch.bmm, (rand(2, 3, 4), rand(2, 4, 5)), {}),
    "conv2d": (F.conv2d, (rand(1, 2, 5, 6), rand(3, 2, 2, 3)), {}),
    "cross_entropy": (
        lambda x, t: (F.cross_entropy(x, t, reduction="none"), F.cross_entropy(x, t)), (rand(4, 3), IDS), {},
    ),
    "cumsum": (lambda x: x.cumsum(1), (rand(3, 5),), {}),
    "depthwise_conv2d": (
        lambda x, f: F.conv2d(x, f[:, None], groups=f.shape[0]), (rand(1, 2, 5, 6), rand(2, 2, 3)), {},
    ),
    "dot": (torch.dot, (rand(7), rand(7)), {}),
    "embedding": (F.embedding, (IDS, rand(3, 4)), {}),
    "gelu": (F.gelu, (rand(9),), {}),
    "gemv": (torch.mv, (rand(3, 4), rand(4)), {}),
    "grouped_conv2d": (grouped, (rand(1, 2, 2, 4, 5), rand(2, 3, 2, 2, 3)), {}),
    "groupnorm": (groupnorm, (rand(2, 2, 3, 4), rand(2, 3), rand(2, 3), 1e-3), {}),
    "heat3d": (cubes, (rand(4, 4, 4), rand(4, 4, 4)), {"T": 2}),
    "jacobi2d": (steps, (rand(5, 5), rand(5, 5)), {"T": 2}),
    "layernorm": (lambda x, g, b, eps: F.layer_norm(x, (4,), g, b, eps), (rand(3, 4), rand(4), rand(4), 1e-3), {}),
    "log_softmax": (lambda x: F.log_softmax(x, 1), (rand(3, 4),), {}),
    "matmul": (torch.matmul, (rand(3, 4), rand(4, 5)), {}),
    "matmul_int8": (
        lambda a, b, sa, sb: sa[:, None] * sb * (a.double() @ b.double()),
        (torch.ones(3, 4, dtype=torch.int8), torch.ones(4, 2, dtype=torch.int8), rand(3), rand(2)), {},
    ),
    "matmul_nt": (lambda a, b: a @ b.T, (rand(3, 4), rand(5, 4)), {}),
    "matmul_tn": (lambda a, b: a.T @ b, (rand(4, 3), rand(4, 5)), {}),
    "maxpool2d": (lambda x, **_: F.max_pool2d(x, 2), (rand(1, 2, 5, 6),), {"KH": 2, "KW": 2}),
    "mul": (torch.mul, (rand(5), rand(5)), {}),
    "reduce_max": (lambda x: x.amax(1), (rand(3, 4),), {}),
    "reduce_mean_0": (lambda x: x.mean(0), (rand(3, 4),), {}),
    "reduce_mean_1": (lambda x: x.mean(1), (rand(3, 4),), {}),
    "relu": (F.relu, (rand(9),), {}),
    "residual_rmsnorm": (
        lambda x, r, g, eps: (x + r, rms(x + r, g, eps)), (rand(3, 4), rand(3, 4), rand(4), 1e-3), {},
    ),
    "rmsnorm": (rms, (rand(3, 4), rand(4), 1e-3), {}),
    "saxpy": (lambda alpha, x, y: y + alpha * x, (2.0, rand(5), rand(5)), {}),
    "silu": (F.silu, (rand(9),), {}),
    "softmax": (lambda x: F.softmax(x, 1), (rand(3, 4),), {}),
    "swiglu": (lambda x, w, v: F.silu(x @ w) * (x @ v), (rand(3, 4), rand(4, 5), rand(4, 5)), {}),
    "transpose": (lambda x: x.T.contiguous(), (rand(3, 4),), {}),
    "ell": (lambda cols, v, x, **_: (v * x[cols.long()]).sum(1), (COLUMNS[:6].view(3, 2), rand(3, 2), rand(5)), {}),
    "csr": (
        lambda rows, cols, v, x, **_: in_rows(rows, v * x[cols.long()]),
        (ROWS, COLUMNS, rand(7), rand(5)), {"M": 4},
    ),
    "bsr": (
        lambda rows, cols, v, x, **_: in_rows(rows, (v * x[cols.long()][:, None]).sum(2)),
        (ROWS, COLUMNS, rand(7, 2, 3), rand(5, 3)), {"M": 4},
    ),
}  # fmt: skip

NOT_HERE = {"argmax": "its result is an integer"}
"""The kernels of the library whose gradient is not held against PyTorch's, and why."""


def made(name: str) -> Any:
    """The operator of a kernel in f64, with the gradients of its text."""
    kernel = dojoir.kernels.load(name, dtype="f64")
    return dojoir.torch.op(kernel, f"dojoir_auto::{name}", "auto")


def numbers_of(op: Any, sizes: dict[str, int]) -> dict[str, int]:
    """Those of the sizes that an operator takes by name."""
    taken = {argument.name for argument in op._schema.arguments}
    return {name: value for name, value in sizes.items() if name in taken}


def tensors(given: tuple[Any, ...]) -> list[Any]:
    return [
        a.detach().clone().requires_grad_() if isinstance(a, torch.Tensor) and a.is_floating_point() else a
        for a in given
    ]
