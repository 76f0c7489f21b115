"""JAX, jitted. A call ends when its result is there. Its outputs take the place of the arrays that it gave before,
which are donated to it, so that it gets the same pages again."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from peer_common import Arrays, Call, fastest, kept, library, signature

jax: Any = library("jax")
jnp: Any = library("jax.numpy")


def batchnorm(x: Any, mean: Any, var: Any, g: Any, b: Any, eps: float) -> Any:
    scale = (g * jax.lax.rsqrt(var + eps))[:, None, None]
    return (x - mean[:, None, None]) * scale + b[:, None, None]


def training(x: Any, g: Any, b: Any, eps: float) -> Any:
    mean, var = x.mean((0, 2, 3)), x.var((0, 2, 3))
    return mean, var, batchnorm(x, mean, var, g, b, eps)


def layernorm(x: Any, g: Any, b: Any, eps: float) -> Any:
    mean = x.mean(1, keepdims=True)
    return (x - mean) * jax.lax.rsqrt(x.var(1, keepdims=True) + eps) * g + b


def attention(q: Any, k: Any, v: Any, scale: float) -> Any:
    s = scale * jnp.einsum("hid,hjd->hij", q, k)
    s = jnp.where(jnp.tril(jnp.ones(s.shape[1:], bool)), s, -jnp.inf)
    return jnp.einsum("hij,hjd->hid", jax.nn.softmax(s, -1), v)


def conv2d(x: Any, f: Any) -> Any:
    return jax.lax.conv_general_dilated(x, f, (1, 1), ((1, 1), (1, 1)))


def jacobi(a: Any, b: Any) -> Any:
    inside = 0.2 * (a[1:-1, 1:-1] + a[1:-1, :-2] + a[1:-1, 2:] + a[2:, 1:-1] + a[:-2, 1:-1])
    return b.at[1:-1, 1:-1].set(inside)


FUNCTIONS: dict[str, Callable[..., Any]] = {
    "softmax": lambda x: jax.nn.softmax(x, 1),
    "layernorm": layernorm,
    "rmsnorm": lambda x, g, eps: x * jax.lax.rsqrt((x * x).mean(1, keepdims=True) + eps) * g,
    "batchnorm_training": training,
    "batchnorm_inference": batchnorm,
    "relu": lambda x: jnp.maximum(x, 0),
    "gelu": lambda x: jax.nn.gelu(x, approximate=False),
    "silu": lambda x: jax.nn.silu(x),
    "swiglu_gate": lambda g, u: jax.nn.silu(g) * u,
    "bias_relu": lambda x, b: jnp.maximum(x + b, 0),
    "add": lambda a, b: a + b,
    "reduce_mean_0": lambda x: x.mean(0),
    "reduce_mean_1": lambda x: x.mean(1),
    "matmul": lambda a, b: a @ b,
    "bmm": lambda a, b: a @ b,
    "conv2d": conv2d,
    "gemv": lambda a, x: a @ x,
    "attention": attention,
    "dot": lambda a, b: jnp.dot(a, b),
    "saxpy": lambda alpha, x, y: y + alpha * x,
    "transpose": lambda x: x.T.copy(),
    "jacobi2d_sweep": jacobi,
    "cumsum": lambda x: jnp.cumsum(x, 1),
}


def bind(operation: str, arrays: Arrays, threads: int) -> Call:
    """The operation by JAX, whose threads are as many as the cores that the process may use: `threads` of them."""
    takes, gives = signature(operation)
    function = FUNCTIONS[operation]
    given = [
        jax.device_put(arrays[name]) if isinstance(arrays[name], np.ndarray) else arrays[name] for name in takes
    ]
    outputs = [arrays[name] for name in gives]

    def keep(result: Any) -> None:
        for output, value in zip(outputs, result if isinstance(result, tuple) else (result,), strict=True):
            output[...] = np.asarray(value)

    plain = jax.jit(function)
    fresh = kept(lambda: jax.block_until_ready(plain(*given)), keep)
    last = [tuple(jnp.zeros(output.shape, jnp.float32) for output in outputs)]
    again = jax.jit(lambda before, *values: function(*values), donate_argnums=0, keep_unused=True)

    def reuse() -> Any:
        result = jax.block_until_ready(again(last[0], *given))
        last[0] = result if isinstance(result, tuple) else (result,)
        return result

    return fastest(fresh, kept(reuse, keep))
