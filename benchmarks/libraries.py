"""The same operations in the libraries that people use today, each as a call without arguments.

`bind(peer, operation, arrays)` gets the arguments of the row's kernel by name and returns the call. A peer that can
write into given arrays does; one that cannot has its first result copied there, so that it can be compared. What a
peer does not have is not listed for it.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

import numpy as np

Arrays = Mapping[str, Any]
Call = Callable[[], object]


# -- PyTorch ---------------------------------------------------------------------------------------------------
def torch_function(operation: str) -> Callable[..., None]:
    """The operation on tensors, writing its outputs in place, as `torch.compile` can fuse it."""
    import torch
    from torch.nn import functional as F

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

    table: dict[str, Callable[..., object]] = {
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
    return table[operation]  # type: ignore[return-value]


def torch_eager(operation: str, arrays: Arrays) -> Call:
    """PyTorch with `out=` where it has it."""
    import torch
    from torch.nn import functional as F

    t = _tensors(arrays)
    writing: dict[str, Callable[[], Call]] = {
        "softmax": lambda: partial(torch.softmax, t["x"], 1, out=t["y"]),
        "relu": lambda: partial(torch.clamp_min, t["x"], 0.0, out=t["y"]),
        "add": lambda: partial(torch.add, t["a"], t["b"], out=t["y"]),
        "reduce_mean_0": lambda: partial(torch.mean, t["x"], 0, out=t["y"]),
        "reduce_mean_1": lambda: partial(torch.mean, t["x"], 1, out=t["y"]),
        "matmul": lambda: partial(torch.matmul, t["a"], t["b"], out=t["c"]),
        "bmm": lambda: partial(torch.bmm, t["a"], t["b"], out=t["c"]),
        "gemv": lambda: partial(torch.mv, t["a"], t["x"], out=t["y"]),
        "cumsum": lambda: partial(torch.cumsum, t["x"], 1, out=t["y"]),
        "gelu": lambda: partial(torch._C._nn.gelu, t["x"], out=t["y"]),
        "silu": lambda: partial(torch._C._nn.silu, t["x"], out=t["y"]),
    }
    if operation in writing:
        return writing[operation]()
    returning: dict[str, Callable[[], Any]] = {
        "layernorm": lambda: F.layer_norm(t["x"], (t["x"].shape[1],), t["g"], t["b"], t["eps"]),
        "rmsnorm": lambda: F.rms_norm(t["x"], (t["x"].shape[1],), t["g"], t["eps"]),
        "batchnorm_inference": lambda: F.batch_norm(
            t["x"], t["mean"], t["var"], t["g"], t["b"], False, 0.0, t["eps"]
        ),
        "conv2d": lambda: F.conv2d(t["x"], t["f"], padding=1),
        "attention": lambda: F.scaled_dot_product_attention(
            t["q"][None], t["k"][None], t["v"][None], is_causal=True, scale=t["scale"]
        )[0],
        "dot": lambda: torch.dot(t["a"], t["b"]),
    }
    if operation in returning:
        return _kept(returning[operation], lambda result: t["y"].copy_(result))
    return partial(torch_function(operation), *t.values())


def torch_compiled(operation: str, arrays: Arrays) -> Call:
    """`torch.compile` of the operation, which may fuse it with the copy into its output."""
    import torch

    compiled = torch.compile(torch_function(operation), dynamic=False)
    return partial(compiled, *_tensors(arrays).values())


def _tensors(arrays: Arrays) -> dict[str, Any]:
    import torch

    return {
        name: torch.from_numpy(array)
        if isinstance(array, np.ndarray) and array.shape
        else _number(array)
        if not isinstance(array, np.ndarray)
        else torch.from_numpy(array)
        for name, array in arrays.items()
    }


def _number(value: Any) -> Any:
    return float(value) if isinstance(value, float | np.floating) else value


def _kept(compute: Callable[[], Any], keep: Callable[[Any], object]) -> Call:
    """A call that computes, and keeps the result the first time."""
    first = [True]

    def call() -> None:
        result = compute()
        if first[0]:
            keep(result)
            first[0] = False

    return call


# -- JAX -------------------------------------------------------------------------------------------------------
def jax(operation: str, arrays: Arrays) -> Call:
    """JAX, jitted; a call ends when its result is there."""
    import jax as j
    import jax.numpy as jnp

    def mean_var(x: Any) -> tuple[Any, Any]:
        return x.mean((0, 2, 3)), x.var((0, 2, 3))

    def batchnorm(x: Any, mean: Any, var: Any, g: Any, b: Any, eps: float) -> Any:
        scale = (g * j.lax.rsqrt(var + eps))[:, None, None]
        return (x - mean[:, None, None]) * scale + b[:, None, None]

    def training(x: Any, g: Any, b: Any, eps: float) -> Any:
        mean, var = mean_var(x)
        return mean, var, batchnorm(x, mean, var, g, b, eps)

    def layernorm(x: Any, g: Any, b: Any, eps: float) -> Any:
        mean = x.mean(1, keepdims=True)
        return (x - mean) * j.lax.rsqrt(x.var(1, keepdims=True) + eps) * g + b

    def attention(q: Any, k: Any, v: Any, scale: float) -> Any:
        s = scale * jnp.einsum("hid,hjd->hij", q, k)
        s = jnp.where(jnp.tril(jnp.ones(s.shape[1:], bool)), s, -jnp.inf)
        return jnp.einsum("hij,hjd->hid", j.nn.softmax(s, -1), v)

    def conv2d(x: Any, f: Any) -> Any:
        return j.lax.conv_general_dilated(x, f, (1, 1), ((1, 1), (1, 1)))

    def jacobi(a: Any, b: Any) -> Any:
        inside = 0.2 * (a[1:-1, 1:-1] + a[1:-1, :-2] + a[1:-1, 2:] + a[2:, 1:-1] + a[:-2, 1:-1])
        return b.at[1:-1, 1:-1].set(inside)

    table: dict[str, Callable[..., Any]] = {
        "softmax": lambda x: j.nn.softmax(x, 1),
        "layernorm": layernorm,
        "rmsnorm": lambda x, g, eps: x * j.lax.rsqrt((x * x).mean(1, keepdims=True) + eps) * g,
        "batchnorm_training": training,
        "batchnorm_inference": batchnorm,
        "relu": lambda x: jnp.maximum(x, 0),
        "gelu": lambda x: j.nn.gelu(x, approximate=False),
        "silu": j.nn.silu,
        "swiglu_gate": lambda g, u: j.nn.silu(g) * u,
        "bias_relu": lambda x, b: jnp.maximum(x + b, 0),
        "add": lambda a, b: a + b,
        "reduce_mean_0": lambda x: x.mean(0),
        "reduce_mean_1": lambda x: x.mean(1),
        "matmul": lambda a, b: a @ b,
        "bmm": lambda a, b: a @ b,
        "conv2d": conv2d,
        "gemv": lambda a, x: a @ x,
        "attention": attention,
        "dot": jnp.dot,
        "saxpy": lambda alpha, x, y: y + alpha * x,
        "transpose": lambda x: x.T.copy(),
        "jacobi2d_sweep": jacobi,
        "cumsum": lambda x: jnp.cumsum(x, 1),
    }
    takes, gives = signature(operation, arrays)
    function = j.jit(table[operation])
    given = [j.device_put(arrays[name]) if isinstance(arrays[name], np.ndarray) else arrays[name] for name in takes]
    outputs = [arrays[name] for name in gives]

    def keep(result: Any) -> None:
        results = result if isinstance(result, tuple) else (result,)
        for output, value in zip(outputs, results, strict=True):
            output[...] = np.asarray(value)

    return _kept(lambda: j.block_until_ready(function(*given)), keep)


def signature(operation: str, arrays: Arrays) -> tuple[list[str], list[str]]:
    """The names of the arguments that an operation reads and of those that it gives, by the row's kernel."""
    from rows import ROWS

    kernel = next(row for row in ROWS if row.kernel == operation).load()
    takes = [buffer.name for buffer in kernel.arguments if buffer.role != "out"]
    gives = [buffer.name for buffer in kernel.arguments if buffer.role != "in"]
    return takes, gives


# -- ONNX Runtime ----------------------------------------------------------------------------------------------
_ONNX: dict[str, list[tuple[str, list[str], str, dict[str, Any]]]] = {
    "softmax": [("Softmax", ["x"], "y", {"axis": 1})],
    "layernorm": [("LayerNormalization", ["x", "g", "b"], "y", {"axis": 1, "epsilon": "eps"})],
    "rmsnorm": [("RMSNormalization", ["x", "g"], "y", {"axis": 1, "epsilon": "eps"})],
    "batchnorm_inference": [("BatchNormalization", ["x", "g", "b", "mean", "var"], "y", {"epsilon": "eps"})],
    "relu": [("Relu", ["x"], "y", {})],
    "gelu": [("Gelu", ["x"], "y", {})],
    "silu": [("Sigmoid", ["x"], "t", {}), ("Mul", ["x", "t"], "y", {})],
    "swiglu_gate": [("Sigmoid", ["g"], "t", {}), ("Mul", ["g", "t"], "r", {}), ("Mul", ["r", "u"], "y", {})],
    "bias_relu": [("Add", ["x", "b"], "t", {}), ("Relu", ["t"], "y", {})],
    "add": [("Add", ["a", "b"], "y", {})],
    "reduce_mean_0": [("ReduceMean", ["x", "#0"], "y", {"keepdims": 0})],
    "reduce_mean_1": [("ReduceMean", ["x", "#1"], "y", {"keepdims": 0})],
    "matmul": [("MatMul", ["a", "b"], "c", {})],
    "bmm": [("MatMul", ["a", "b"], "c", {})],
    "conv2d": [("Conv", ["x", "f"], "y", {"pads": [1, 1, 1, 1]})],
    "gemv": [("MatMul", ["a", "x"], "y", {})],
    "dot": [("MatMul", ["a", "b"], "y", {})],
    "transpose": [("Transpose", ["x"], "y", {"perm": [1, 0]})],
    "cumsum": [("CumSum", ["x", "#1"], "y", {})],
    "attention": [
        ("Transpose", ["k"], "kt", {"perm": [0, 2, 1]}),
        ("MatMul", ["q", "kt"], "s", {}),
        ("Mul", ["s", "#scale"], "s2", {}),
        ("Add", ["s2", "#mask"], "s3", {}),
        ("Softmax", ["s3"], "p", {"axis": -1}),
        ("MatMul", ["p", "v"], "y", {}),
    ],
}


def onnx_runtime(operation: str, arrays: Arrays, threads: int = 1) -> Call:
    """ONNX Runtime on a small graph, inputs and outputs bound once."""
    import onnxruntime as ort
    from onnx import TensorProto, helper, numpy_helper

    nodes = []
    constants: dict[str, np.ndarray] = {}
    for kind, inputs, output, attributes in _ONNX[operation]:
        for name in inputs:
            if name in {"#0", "#1"}:
                constants[name] = np.array([int(name[1])] if kind == "ReduceMean" else int(name[1]), np.int64)
            elif name == "#scale":
                constants[name] = np.float32(arrays["scale"]).reshape(())
            elif name == "#mask":
                size = arrays["q"].shape[1]
                constants[name] = np.triu(np.full((size, size), -math.inf, np.float32), 1)
        known = {key: float(arrays["eps"]) if value == "eps" else value for key, value in attributes.items()}
        nodes.append(helper.make_node(kind, inputs, [output], **known))
    used = {name for _, inputs, _, _ in _ONNX[operation] for name in inputs}
    takes = [n for n, a in arrays.items() if n in used and isinstance(a, np.ndarray)]
    result = _ONNX[operation][-1][2]
    declare = helper.make_tensor_value_info
    graph = helper.make_graph(
        nodes,
        operation,
        [declare(name, TensorProto.FLOAT, arrays[name].shape) for name in takes],
        [declare(result, TensorProto.FLOAT, arrays[result].shape)],
        [numpy_helper.from_array(np.asarray(value), name) for name, value in constants.items()],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 23)], ir_version=10)
    options = ort.SessionOptions()
    options.intra_op_num_threads = threads
    options.inter_op_num_threads = 1
    session = ort.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])
    binding = session.io_binding()
    for name in takes:
        binding.bind_cpu_input(name, arrays[name])
    value = ort.OrtValue.ortvalue_from_numpy(arrays[result])
    binding.bind_ortvalue_output(result, value)
    return _kept(
        lambda: session.run_with_iobinding(binding),
        lambda _: np.copyto(arrays[result], value.numpy()),
    )


# -- Numba -----------------------------------------------------------------------------------------------------
def numba(operation: str, arrays: Arrays) -> Call:
    """Numba: the loops that one would write, `fastmath`, parallel over rows."""
    import numba as nb

    jit = nb.njit(fastmath=True, parallel=True)
    prange = nb.prange

    def softmax(x, y):  # type: ignore[no-untyped-def]
        for i in prange(x.shape[0]):
            m = x[i].max()
            s = np.float32(0)
            for j in range(x.shape[1]):
                e = math.exp(x[i, j] - m)
                y[i, j] = e
                s += e
            r = np.float32(1) / s
            for j in range(x.shape[1]):
                y[i, j] *= r

    def layernorm(x, g, b, eps, y):  # type: ignore[no-untyped-def]
        for i in prange(x.shape[0]):
            s = np.float32(0)
            for j in range(x.shape[1]):
                s += x[i, j]
            mean = s / np.float32(x.shape[1])
            q = np.float32(0)
            for j in range(x.shape[1]):
                q += (x[i, j] - mean) ** 2
            inv = np.float32(1 / math.sqrt(q / x.shape[1] + eps))
            for j in range(x.shape[1]):
                y[i, j] = (x[i, j] - mean) * inv * g[j] + b[j]

    def rmsnorm(x, g, eps, y):  # type: ignore[no-untyped-def]
        for i in prange(x.shape[0]):
            q = np.float32(0)
            for j in range(x.shape[1]):
                q += x[i, j] * x[i, j]
            inv = np.float32(1 / math.sqrt(q / x.shape[1] + eps))
            for j in range(x.shape[1]):
                y[i, j] = x[i, j] * inv * g[j]

    def relu(x, y):  # type: ignore[no-untyped-def]
        for i in prange(x.shape[0]):
            y[i] = max(x[i], np.float32(0))

    def gelu(x, y):  # type: ignore[no-untyped-def]
        for i in prange(x.shape[0]):
            y[i] = np.float32(0.5) * x[i] * (np.float32(1) + math.erf(np.float32(0.70710678) * x[i]))

    def silu(x, y):  # type: ignore[no-untyped-def]
        for i in prange(x.shape[0]):
            y[i] = x[i] / (np.float32(1) + math.exp(-x[i]))

    def swiglu_gate(g, u, y):  # type: ignore[no-untyped-def]
        for i in prange(g.shape[0]):
            y[i] = g[i] / (np.float32(1) + math.exp(-g[i])) * u[i]

    def bias_relu(x, b, y):  # type: ignore[no-untyped-def]
        for i in prange(x.shape[0]):
            for j in range(x.shape[1]):
                y[i, j] = max(x[i, j] + b[j], np.float32(0))

    def add(a, b, y):  # type: ignore[no-untyped-def]
        for i in prange(a.shape[0]):
            y[i] = a[i] + b[i]

    def saxpy(alpha, x, y):  # type: ignore[no-untyped-def]
        for i in prange(x.shape[0]):
            y[i] += np.float32(alpha) * x[i]

    def reduce_mean_1(x, y):  # type: ignore[no-untyped-def]
        for i in prange(x.shape[0]):
            s = np.float32(0)
            for j in range(x.shape[1]):
                s += x[i, j]
            y[i] = s / np.float32(x.shape[1])

    def gemv(a, x, y):  # type: ignore[no-untyped-def]
        for i in prange(a.shape[0]):
            s = np.float32(0)
            for j in range(a.shape[1]):
                s += a[i, j] * x[j]
            y[i] = s

    def cumsum(x, y):  # type: ignore[no-untyped-def]
        for i in prange(x.shape[0]):
            s = np.float32(0)
            for j in range(x.shape[1]):
                s += x[i, j]
                y[i, j] = s

    def transpose(x, y):  # type: ignore[no-untyped-def]
        n, m = x.shape
        for t in prange((n + 31) // 32):
            for u in range(0, m, 32):
                for j in range(u, min(u + 32, m)):
                    for i in range(32 * t, min(32 * t + 32, n)):
                        y[j, i] = x[i, j]

    def jacobi2d_sweep(a, b):  # type: ignore[no-untyped-def]
        for i in prange(1, a.shape[0] - 1):
            for j in range(1, a.shape[1] - 1):
                b[i, j] = np.float32(0.2) * (a[i, j] + a[i, j - 1] + a[i, j + 1] + a[i + 1, j] + a[i - 1, j])

    def dot(a, b, y):  # type: ignore[no-untyped-def]
        s = np.float32(0)
        for i in prange(a.shape[0]):
            s += a[i] * b[i]
        y[()] = s

    table: dict[str, Callable[..., None]] = {
        "softmax": softmax, "layernorm": layernorm, "rmsnorm": rmsnorm, "relu": relu, "gelu": gelu, "silu": silu,
        "swiglu_gate": swiglu_gate, "bias_relu": bias_relu, "add": add, "saxpy": saxpy,
        "reduce_mean_1": reduce_mean_1, "gemv": gemv, "cumsum": cumsum, "transpose": transpose,
        "jacobi2d_sweep": jacobi2d_sweep, "dot": dot,
    }  # fmt: skip
    return partial(jit(table[operation]), *arrays.values())


# -- NumPy -----------------------------------------------------------------------------------------------------
def numpy(operation: str, arrays: Arrays) -> Call:
    """NumPy as dojoir's library has it (with OpenBLAS under its matrix products)."""
    from rows import ROWS

    import dojoir

    kernel = next(row for row in ROWS if row.kernel == operation).load()
    function = dojoir.kernels.numpy_version(kernel)
    if function is not None:
        return partial(function, *arrays.values())

    def swiglu_gate(g: Any, u: Any, y: Any) -> None:
        np.exp(-g, out=y)
        np.divide(g, 1 + y, out=y)
        np.multiply(y, u, out=y)

    def jacobi2d_sweep(a: Any, b: Any) -> None:
        inside = b[1:-1, 1:-1]
        np.add(a[1:-1, 1:-1], a[1:-1, :-2], out=inside)
        inside += a[1:-1, 2:]
        inside += a[2:, 1:-1]
        inside += a[:-2, 1:-1]
        inside *= np.float32(0.2)

    return partial({"swiglu_gate": swiglu_gate, "jacobi2d_sweep": jacobi2d_sweep}[operation], *arrays.values())


PEERS: dict[str, Callable[..., Call]] = {
    "PyTorch": torch_eager,
    "torch.compile": torch_compiled,
    "JAX": jax,
    "ONNX Runtime": onnx_runtime,
    "Numba": numba,
    "NumPy": numpy,
}
"""The peers by name."""

MODULES = {
    "PyTorch": "torch",
    "torch.compile": "torch",
    "JAX": "jax",
    "ONNX Runtime": "onnxruntime",
    "Numba": "numba",
    "NumPy": "numpy",
}
"""What has to be installed for each."""


def bind(peer: str, operation: str, arrays: Arrays, threads: int) -> Call:
    """The operation of a row by a peer, on `threads` cores, as a call. Raises KeyError where it has none."""
    if peer in {"PyTorch", "torch.compile"}:
        import torch

        torch.set_num_threads(threads)
        torch.set_grad_enabled(False)
    if peer == "Numba":
        import numba as nb

        nb.set_num_threads(min(threads, nb.config.NUMBA_NUM_THREADS))
    if peer == "ONNX Runtime":
        return onnx_runtime(operation, arrays, threads)
    return PEERS[peer](operation, arrays)
