"""PyTorch, eager and compiled. Where it can write into given arrays (`out=`) it does; of several ways the fastest
on this machine is taken."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
from peer_common import Arrays, Call, fastest, kept, library, number

torch: Any = library("torch")
F: Any = library("torch.nn.functional")
aten: Any = torch.ops.aten


# -- the operations on tensors, writing their outputs in place, as `torch.compile` can fuse them ---------------
def attention(q: Any, k: Any, v: Any, scale: float, y: Any) -> None:
    y.copy_(F.scaled_dot_product_attention(q[None], k[None], v[None], is_causal=True, scale=scale)[0])


def batchnorm_training(x: Any, g: Any, b: Any, eps: float, mean: Any, var: Any, y: Any) -> None:
    v, m = torch.var_mean(x, (0, 2, 3), correction=0)
    mean.copy_(m)
    var.copy_(v)
    scale = (g * torch.rsqrt(v + eps))[:, None, None]
    y.copy_((x - m[:, None, None]) * scale + b[:, None, None])


def batchnorm_inference(x: Any, mean: Any, var: Any, g: Any, b: Any, eps: float, y: Any) -> None:
    y.copy_(F.batch_norm(x, mean, var, g, b, False, 0.0, eps))


def jacobi(a: Any, b: Any) -> None:
    b[1:-1, 1:-1] = 0.2 * (a[1:-1, 1:-1] + a[1:-1, :-2] + a[1:-1, 2:] + a[2:, 1:-1] + a[:-2, 1:-1])


def add_scaled(alpha: float, x: Any, y: Any) -> None:
    y.add_(x, alpha=alpha)


FUNCTIONS: dict[str, Callable[..., object]] = {
    "softmax": lambda x, y: y.copy_(torch.softmax(x, 1)),
    "layernorm": lambda x, g, b, eps, y: y.copy_(F.layer_norm(x, (x.shape[1],), g, b, eps)),
    "rmsnorm": lambda x, g, eps, y: y.copy_(F.rms_norm(x, (x.shape[1],), g, eps)),
    "batchnorm_training": batchnorm_training,
    "batchnorm_inference": batchnorm_inference,
    "relu": lambda x, y: y.copy_(torch.relu(x)),
    "gelu": lambda x, y: y.copy_(F.gelu(x)),
    "silu": lambda x, y: y.copy_(F.silu(x)),
    "swiglu_gate": lambda g, u, y: y.copy_(F.silu(g) * u),
    "bias_relu": lambda x, b, y: y.copy_(torch.relu(x + b)),
    "add": lambda a, b, y: y.copy_(a + b),
    "reduce_mean_0": lambda x, y: y.copy_(x.mean(0)),
    "reduce_mean_1": lambda x, y: y.copy_(x.mean(1)),
    "matmul": lambda a, b, c: c.copy_(a @ b),
    "bmm": lambda a, b, c: c.copy_(a @ b),
    "conv2d": lambda x, f, y: y.copy_(F.conv2d(x, f, padding=1)),
    "gemv": lambda a, x, y: y.copy_(a @ x),
    "attention": attention,
    "dot": lambda a, b, y: y.copy_(torch.dot(a, b)),
    "saxpy": add_scaled,
    "transpose": lambda x, y: y.copy_(x.T),
    "jacobi2d_sweep": jacobi,
    "cumsum": lambda x, y: y.copy_(torch.cumsum(x, 1)),
}


# -- eager: the ways to compute each ---------------------------------------------------------------------------
Ways = Callable[[dict[str, Any]], list[Call]]


def _softmax(t: dict[str, Any]) -> list[Call]:
    return [partial(torch.softmax, t["x"], 1, out=t["y"])]


def _layernorm(t: dict[str, Any]) -> list[Call]:
    x, rows = t["x"], (t["x"].shape[0], 1)
    given = (x, (x.shape[1],), t["g"], t["b"], t["eps"])
    statistics = {"out1": torch.empty(rows), "out2": torch.empty(rows)}
    return [
        partial(aten.native_layer_norm.out, *given, out0=t["y"], **statistics),
        kept(partial(F.layer_norm, *given), t["y"].copy_),
    ]


def _rmsnorm(t: dict[str, Any]) -> list[Call]:
    x, g, eps, y = (t[name] for name in ("x", "g", "eps", "y"))

    def composed() -> None:
        inverse = torch.linalg.vector_norm(x, dim=1, keepdim=True).square_().div_(x.shape[1]).add_(eps).rsqrt_()
        torch.mul(x, inverse, out=y).mul_(g)

    return [kept(partial(F.rms_norm, x, (x.shape[1],), g, eps), y.copy_), composed]


def _batchnorm_training(t: dict[str, Any]) -> list[Call]:
    x, g, b, eps, mean, var, y = (t[name] for name in ("x", "g", "b", "eps", "mean", "var", "y"))
    count = x.numel() // x.shape[1]

    def native() -> None:
        inverse = torch.empty_like(var)
        torch.native_batch_norm(x, g, b, None, None, True, 0.0, eps, out=(y, mean, inverse))
        torch.pow(inverse, -2, out=var).sub_(eps)

    def running() -> Any:
        result = F.batch_norm(x, mean, var, g, b, True, 1.0, eps)
        var.mul_((count - 1) / count)
        return result

    def composed() -> None:
        v, m = torch.var_mean(x, (0, 2, 3), correction=0)
        mean.copy_(m)
        var.copy_(v)
        scale = g * torch.rsqrt(var + eps)
        torch.mul(x, scale[:, None, None], out=y).add_((b - mean * scale)[:, None, None])

    return [native, kept(running, y.copy_), composed]


def _batchnorm_inference(t: dict[str, Any]) -> list[Call]:
    x, mean, var, g, b, eps, y = (t[name] for name in ("x", "mean", "var", "g", "b", "eps", "y"))
    none = (torch.empty(0), torch.empty(0))
    return [
        partial(torch.native_batch_norm, x, g, b, mean, var, False, 0.0, eps, out=(y, *none)),
        kept(partial(F.batch_norm, x, mean, var, g, b, False, 0.0, eps), y.copy_),
    ]


def _swiglu_gate(t: dict[str, Any]) -> list[Call]:
    return [lambda: torch._C._nn.silu(t["g"], out=t["y"]).mul_(t["u"])]


def _bias_relu(t: dict[str, Any]) -> list[Call]:
    return [lambda: torch.add(t["x"], t["b"], out=t["y"]).relu_()]


def _gemv(t: dict[str, Any]) -> list[Call]:
    return [partial(torch.mv, t["a"], t["x"], out=t["y"])]


def _conv2d(t: dict[str, Any]) -> list[Call]:
    return [kept(partial(F.conv2d, t["x"], t["f"], padding=1), t["y"].copy_)]


def _attention(t: dict[str, Any]) -> list[Call]:
    given = (t["q"][None], t["k"][None], t["v"][None])
    compute = partial(F.scaled_dot_product_attention, *given, is_causal=True, scale=t["scale"])
    return [kept(compute, lambda result: t["y"].copy_(result[0]))]


def _jacobi2d_sweep(t: dict[str, Any]) -> list[Call]:
    a, inside = t["a"], t["b"][1:-1, 1:-1]

    def in_place() -> None:
        torch.add(a[1:-1, 1:-1], a[1:-1, :-2], out=inside)
        inside.add_(a[1:-1, 2:]).add_(a[2:, 1:-1]).add_(a[:-2, 1:-1]).mul_(0.2)

    return [in_place, partial(jacobi, a, t["b"])]


EAGER: dict[str, Ways] = {
    "softmax": _softmax,
    "layernorm": _layernorm,
    "rmsnorm": _rmsnorm,
    "batchnorm_training": _batchnorm_training,
    "batchnorm_inference": _batchnorm_inference,
    "relu": lambda t: [partial(torch.clamp_min, t["x"], 0.0, out=t["y"])],
    "gelu": lambda t: [partial(torch._C._nn.gelu, t["x"], out=t["y"])],
    "silu": lambda t: [partial(torch._C._nn.silu, t["x"], out=t["y"])],
    "swiglu_gate": _swiglu_gate,
    "bias_relu": _bias_relu,
    "add": lambda t: [partial(torch.add, t["a"], t["b"], out=t["y"])],
    "reduce_mean_0": lambda t: [partial(torch.mean, t["x"], 0, out=t["y"])],
    "reduce_mean_1": lambda t: [partial(torch.mean, t["x"], 1, out=t["y"])],
    "matmul": lambda t: [partial(torch.matmul, t["a"], t["b"], out=t["c"])],
    "bmm": lambda t: [partial(torch.bmm, t["a"], t["b"], out=t["c"])],
    "conv2d": _conv2d,
    "gemv": _gemv,
    "attention": _attention,
    "dot": lambda t: [partial(torch.dot, t["a"], t["b"], out=t["y"])],
    "saxpy": lambda t: [partial(t["y"].add_, t["x"], alpha=t["alpha"])],
    "transpose": lambda t: [partial(t["y"].copy_, t["x"].T)],
    "jacobi2d_sweep": _jacobi2d_sweep,
    "cumsum": lambda t: [partial(torch.cumsum, t["x"], 1, out=t["y"])],
}


def _tensors(arrays: Arrays, threads: int) -> dict[str, Any]:
    torch.set_num_threads(threads)
    torch.set_grad_enabled(False)
    return {
        name: torch.from_numpy(value) if isinstance(value, np.ndarray) else number(value)
        for name, value in arrays.items()
    }


def bind(operation: str, arrays: Arrays, threads: int) -> Call:
    """The operation by eager PyTorch."""
    ways = EAGER[operation](_tensors(arrays, threads))
    return ways[0] if len(ways) == 1 else fastest(*ways)


def bind_compiled(operation: str, arrays: Arrays, threads: int) -> Call:
    """`torch.compile` of the operation, which may fuse it with the copy into its output."""
    tensors = _tensors(arrays, threads)
    return partial(torch.compile(FUNCTIONS[operation], dynamic=False), *tensors.values())
