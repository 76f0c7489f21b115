"""A PyTorch expression in JAX: the graph that `torch.export` makes of it, operation by operation, under `jax.jit`.

The graph consists of the core operations of ATen; each has a line here that says it as a user of JAX would.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

import numpy as np

Array = Any
Lines = Mapping[str, Callable[..., Any]]


def call_of(module: Any, given: Sequence[Any]) -> tuple[Callable[[], Any], Callable[[], Any]]:
    """A module of PyTorch on some tensors as a call of JAX that waits for its result, and one that gives the
    results as NumPy's arrays. Raises NotImplementedError with the name of an operation that has no line."""
    import jax
    import torch

    jax.config.update("jax_enable_x64", True)
    program = torch.export.export(module, tuple(given)).run_decompositions()
    nodes = list(program.graph.nodes)
    lines = operations()
    unknown = sorted({str(n.target) for n in nodes if n.op == "call_function" and _name(n) not in lines})
    if unknown:
        raise NotImplementedError(", ".join(unknown))

    def run(*arguments: Array) -> Any:
        values: dict[Any, Any] = {}
        inputs = iter(arguments)
        for node in nodes:
            if node.op == "placeholder":
                values[node] = next(inputs)
            elif node.op == "output":
                return torch.fx.node.map_arg(node.args[0], values.__getitem__)
            else:
                arguments_, named = torch.fx.node.map_arg((node.args, node.kwargs), values.__getitem__)
                values[node] = lines[_name(node)](*arguments_, **named)
        raise AssertionError("a graph without results")

    arrays = [jax.device_put(value.numpy()) for value in given]
    made = jax.jit(run)
    made(*arrays)
    return lambda: jax.block_until_ready(made(*arrays)), lambda: tuple(map(np.asarray, made(*arrays)))


def _name(node: Any) -> str:
    """`add.Tensor` of an operation of ATen, and `getitem`."""
    return str(node.target).removeprefix("aten.") if "aten" in str(node.target) else node.target.__name__


def operations() -> Lines:
    """Each operation of ATen that the texts use, in JAX."""
    import jax
    import jax.numpy as jnp
    from jax import lax
    from jax.scipy.linalg import solve_triangular

    def dims(x: Array, axes: Any) -> Any:
        return tuple(axes) if axes is not None and len(axes) else tuple(range(x.ndim))

    def kind(dtype: Any) -> Any:
        return None if dtype is None else np.dtype(str(dtype).removeprefix("torch."))

    def cut(x: Array, axis: int = 0, start: Any = None, end: Any = None, step: int = 1) -> Array:
        length = x.shape[axis]
        last = length if end is None else min(end, length) if end >= 0 else length + end
        first = 0 if start is None else start if start >= 0 else length + start
        return lax.slice_in_dim(x, first, last, step, axis)

    def conv(
        x: Array,
        f: Array,
        bias: Any,
        stride: Any,
        padding: Any,
        dilation: Any,
        transposed: bool,
        extra: Any,
        groups: int,
    ) -> Array:
        rank = x.ndim - 2
        stride, padding, dilation = (list(v) * (rank if len(v) == 1 else 1) for v in (stride, padding, dilation))
        if not transposed:
            pads = [(p, p) for p in padding]
            y = lax.conv_general_dilated(x, f, stride, pads, rhs_dilation=dilation, feature_group_count=groups)
        else:
            turned = jnp.flip(jnp.swapaxes(f, 0, 1), tuple(range(2, f.ndim)))
            reach = [d * (n - 1) for d, n in zip(dilation, f.shape[2:], strict=True)]
            pads = [(r - p, r - p + e) for r, p, e in zip(reach, padding, extra, strict=True)]
            y = lax.conv_general_dilated(x, turned, [1] * rank, pads, lhs_dilation=stride, rhs_dilation=dilation)
        return y if bias is None else y + bias.reshape(1, -1, *[1] * rank)

    def window(x: Array, start: Any, put: Any, size: Any, stride: Any, padding: Any) -> Array:
        rank, front = len(size), x.ndim - len(size)
        stride, padding = (list(v) * (rank if len(v) == 1 else 1) for v in (stride or size, padding))
        pads = [(0, 0)] * front + [(p, p) for p in padding]
        return lax.reduce_window(x, start, put, (*[1] * front, *size), (*[1] * front, *stride), pads)

    def averages(x: Array, size: Any, stride: Any = (), padding: Any = (0,), *rest: Any) -> Array:
        return window(x, np.asarray(0, x.dtype)[()], lax.add, size, stride, padding) / np.float32(np.prod(size))

    def greatest(x: Array, size: Any, stride: Any = (), padding: Any = (0,), *rest: Any) -> Any:
        return (window(x, -np.inf, lax.max, size, stride, padding),)

    def moments(x: Array, axes: Any, eps: float) -> Array:
        mean = x.mean(axes, keepdims=True)
        return (x - mean) * lax.rsqrt(jnp.square(x - mean).mean(axes, keepdims=True) + np.float32(eps))

    def scaled(x: Array, w: Any, b: Any, shape: Any) -> Array:
        x = x if w is None else x * w.reshape(shape)
        return x if b is None else x + b.reshape(shape)

    def batch(x: Array, w: Any, b: Any, training: bool, momentum: float, eps: float) -> Any:
        return (scaled(moments(x, (0, *range(2, x.ndim)), eps), w, b, (1, -1, *[1] * (x.ndim - 2))),)

    def layer(x: Array, shape: Any, w: Any, b: Any, eps: float) -> Any:
        return (scaled(moments(x, tuple(range(x.ndim - len(shape), x.ndim)), eps), w, b, shape),)

    def group(x: Array, w: Any, b: Any, n: int, c: int, area: int, groups: int, eps: float) -> Any:
        y = moments(x.reshape(n, groups, -1), (2,), eps).reshape(x.shape)
        return (scaled(y, w, b, (1, c, *[1] * (x.ndim - 2))),)

    def clamp(x: Array, low: Any = None, high: Any = None) -> Array:
        return jnp.clip(x, low, high)

    def power(x: Array, exponent: float) -> Array:
        return jnp.square(x) if exponent == 2 else jnp.power(x, exponent)

    def gelu(x: Array, approximate: str = "none") -> Array:
        return jax.nn.gelu(x, approximate=approximate == "tanh")

    def solve(a: Array, b: Array, upper: bool, left: bool = True, unitriangular: bool = False) -> Array:
        return solve_triangular(a, b, lower=not upper, unit_diagonal=unitriangular)

    def total(x: Array, axes: Any = None, keepdim: bool = False, dtype: Any = None) -> Array:
        return x.sum(dims(x, axes), keepdims=keepdim, dtype=kind(dtype))

    def average(x: Array, axes: Any = None, keepdim: bool = False, dtype: Any = None) -> Array:
        return x.mean(dims(x, axes), keepdims=keepdim)

    def variance(x: Array, axes: Any = None, correction: float = 1, keepdim: bool = False) -> Array:
        return x.var(dims(x, axes), ddof=int(correction), keepdims=keepdim)

    def alongside(put: Callable[..., Any], x: Array, other: Any, alpha: Any = 1) -> Array:
        return put(x, other if alpha == 1 else other * alpha)

    def same(x: Array, *rest: Any, **named: Any) -> Array:
        return x

    def expand(x: Array, shape: Any) -> Array:
        front = len(shape) - x.ndim
        return jnp.broadcast_to(x, [x.shape[d - front] if n == -1 else n for d, n in enumerate(shape)])

    def picked(x: Array, indices: Any) -> Array:
        return x[tuple(slice(None) if index is None else index for index in indices)]

    def norm(x: Array, order: float = 2, axes: Any = None, keepdim: bool = False, dtype: Any = None) -> Array:
        if order == 2:
            return jnp.sqrt(jnp.square(x).sum(dims(x, axes), keepdims=keepdim))
        return jnp.linalg.norm(x, order, axes, keepdims=keepdim)

    def padded(x: Array, pads: Any, value: float = 0) -> Array:
        pairs = [(before, after) for before, after in zip(pads[::2], pads[1::2], strict=True)]
        return jnp.pad(x, [(0, 0)] * (x.ndim - len(pairs)) + pairs[::-1], constant_values=value)

    def batch_given(x: Array, w: Any, b: Any, mean: Array, var: Array, momentum: float, eps: float) -> Any:
        shape = (1, -1, *[1] * (x.ndim - 2))
        y = (x - mean.reshape(shape)) * lax.rsqrt(var.reshape(shape) + np.float32(eps))
        return (scaled(y, w, b, shape),)

    def elu(x: Array, alpha: float = 1, scale: float = 1, input_scale: float = 1) -> Array:
        return scale * jnp.where(x > 0, x, alpha * jnp.expm1(input_scale * x))

    def narrow(x: Array, w: Array) -> Array:
        return lax.dot(x, w, preferred_element_type=jnp.int32)

    return {
        "_log_softmax.default": lambda x, axis, half: jax.nn.log_softmax(x, axis),
        "_softmax.default": lambda x, axis, half: jax.nn.softmax(x, axis),
        "_native_batch_norm_legit.no_stats": batch,
        "_int_mm.default": narrow,
        "_to_copy.default": lambda x, dtype=None, **rest: x if dtype is None else x.astype(kind(dtype)),
        "_assert_tensor_metadata.default": same,
        "add.Tensor": partial(alongside, jnp.add),
        "add.Scalar": partial(alongside, jnp.add),
        "sub.Tensor": partial(alongside, jnp.subtract),
        "sub.Scalar": partial(alongside, jnp.subtract),
        "mul.Tensor": jnp.multiply,
        "mul.Scalar": jnp.multiply,
        "div.Tensor": jnp.true_divide,
        "div.Scalar": jnp.true_divide,
        "addmm.default": lambda b, x, w: x @ w + b,
        "mm.default": jnp.matmul,
        "bmm.default": jnp.matmul,
        "amax.default": lambda x, axes=(), keepdim=False: x.max(dims(x, axes), keepdims=keepdim),
        "amin.default": lambda x, axes=(), keepdim=False: x.min(dims(x, axes), keepdims=keepdim),
        "argmax.default": lambda x, axis=None, keepdim=False: x.argmax(axis, keepdims=keepdim),
        "argmin.default": lambda x, axis=None, keepdim=False: x.argmin(axis, keepdims=keepdim),
        "arange.start_step": lambda start, stop, step=1, dtype=None, **rest: jnp.arange(
            start, stop, step, kind(dtype)
        ),
        "avg_pool2d.default": averages,
        "avg_pool3d.default": averages,
        "max_pool2d_with_indices.default": greatest,
        "cat.default": lambda parts, axis=0: jnp.concatenate(parts, axis),
        "clamp.default": clamp,
        "clamp.Tensor": clamp,
        "hardtanh.default": clamp,
        "clone.default": same,
        "convolution.default": conv,
        "cummax.default": lambda x, axis: (lax.cummax(x, axis % x.ndim),),
        "cumprod.default": lambda x, axis: jnp.cumprod(x, axis),
        "cumsum.default": lambda x, axis: jnp.cumsum(x, axis),
        "elu.default": elu,
        "linalg_vector_norm.default": norm,
        "constant_pad_nd.default": padded,
        "_native_batch_norm_legit_no_training.default": batch_given,
        "any.dim": lambda x, axis, keepdim=False: x.any(axis, keepdims=keepdim),
        "full_like.default": lambda x, value, **rest: jnp.full_like(x, value),
        "logical_and.default": jnp.logical_and,
        "logical_not.default": jnp.logical_not,
        "embedding.default": lambda w, ids, *rest: w[ids],
        "eq.Scalar": jnp.equal,
        "eq.Tensor": jnp.equal,
        "ge.Scalar": jnp.greater_equal,
        "gt.Scalar": jnp.greater,
        "le.Scalar": jnp.less_equal,
        "lt.Scalar": jnp.less,
        "ne.Scalar": jnp.not_equal,
        "expand.default": expand,
        "full.default": lambda shape, value, dtype=None, **rest: jnp.full(shape, value, kind(dtype)),
        "gather.default": lambda x, axis, index: jnp.take_along_axis(x, index, axis),
        "gelu.default": gelu,
        "getitem": lambda parts, number: parts[number],
        "index.Tensor": picked,
        "isnan.default": jnp.isnan,
        "leaky_relu.default": lambda x, slope=0.01: jax.nn.leaky_relu(x, slope),
        "linalg_solve_triangular.default": solve,
        "log.default": jnp.log,
        "log1p.default": jnp.log1p,
        "exp.default": jnp.exp,
        "abs.default": jnp.abs,
        "neg.default": jnp.negative,
        "sqrt.default": jnp.sqrt,
        "rsqrt.default": lax.rsqrt,
        "tanh.default": jnp.tanh,
        "sigmoid.default": jax.nn.sigmoid,
        "relu.default": jax.nn.relu,
        "minimum.default": jnp.minimum,
        "mean.default": average,
        "mean.dim": average,
        "sum.dim_IntList": total,
        "var.correction": variance,
        "native_group_norm.default": group,
        "native_layer_norm.default": layer,
        "permute.default": jnp.transpose,
        "pow.Tensor_Scalar": power,
        "scalar_tensor.default": lambda value, dtype=None, **rest: jnp.asarray(value, kind(dtype)),
        "select.int": lambda x, axis, index: lax.index_in_dim(x, index % x.shape[axis], axis, keepdims=False),
        "slice.Tensor": cut,
        "squeeze.dims": lambda x, axes: x.reshape(
            [n for d, n in enumerate(x.shape) if n != 1 or d not in {a % x.ndim for a in axes}]
        ),
        "unsqueeze.default": jnp.expand_dims,
        "view.default": lambda x, shape: x.reshape(shape),
        "where.self": jnp.where,
    }
