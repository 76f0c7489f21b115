"""The rows of the GPU table: a kernel as one writes it down, what it is given, and who else does the same.

What dojoir runs is what `dojoir.optimize` makes of the kernel for `cuda`, once for these sizes and once for any.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import dojoir

Torch = Any
Call = Callable[[], Any]


@dataclass(frozen=True)
class Row:
    """A row: `open_kernel` is the plain kernel, `sizes` those of the row, `inputs` and `outputs` the shapes of its
    arrays by name, in declared order, `scalars` its numbers. `function` is the work in PyTorch, of the inputs (the
    same in f64 is the reference), `jax` that in JAX, of its module and the inputs; `others` further peers by name,
    made of the module, the inputs and the first output. `tolerance` is how far off a result may be, relative to the
    norm of the reference; inputs in `positive` are no negative numbers."""

    name: str
    open_kernel: Callable[[], dojoir.Kernel]
    sizes: Mapping[str, int]
    inputs: Mapping[str, tuple[int, ...]]
    outputs: Mapping[str, tuple[int, ...]]
    function: Callable[..., Any]
    flops: float = 0.0
    scalars: Mapping[str, float] = field(default_factory=dict)
    dtype: str = "float32"
    tolerance: float = 1e-5
    positive: frozenset[str] = frozenset()
    jax: Callable[..., Any] | None = None
    others: Mapping[str, Callable[..., Call]] = field(default_factory=dict)

    def kernel(self, fixed: bool) -> dojoir.Kernel:
        """The plain kernel, for the sizes of the row alone or for any."""
        kernel = self.open_kernel()
        return kernel.specialize(**self.sizes) if fixed else kernel

    @property
    def bytes(self) -> int:
        """Each input read once, each output written once."""
        item = 2 if self.dtype == "bfloat16" else 4
        return item * sum(math.prod(shape) for shape in [*self.inputs.values(), *self.outputs.values()])


def library(name: str, **fixed: int) -> Callable[[], dojoir.Kernel]:
    return lambda: dojoir.kernels.load(name, **fixed)


def text(source: str) -> Callable[[], dojoir.Kernel]:
    return lambda: dojoir.parse(source)


SWIGLU = """kernel swiglu(N)
in  x: f32[N]
in  z: f32[N]
out y: f32[N]

N
| y[{0}] = x[{0}] * sigmoid(x[{0}]) * z[{0}]
"""

RMSNORM = """kernel rmsnorm(N, M)
in  x: bf16[N, M]
in  g: bf16[M]
out y: bf16[N, M]
tmp q: f32[N]

N
| q[{0}] = 0
| M
| | q[{0}] += f32(x[{0}, {1}]) * f32(x[{0}, {1}])
| M
| | y[{0}, {1}] = bf16(f32(x[{0}, {1}]) * rsqrt(q[{0}] / M + 1e-06) * f32(g[{1}]))
"""

JACOBI = """kernel jacobi(N)
in  a: f32[N + 2, N + 2]
out b: f32[N, N]

N
| N
| | b[{0}, {1}] = 0.2 * (a[{0} + 1, {1} + 1] + a[{0}, {1} + 1] + a[{0} + 2, {1} + 1] + WEST + EAST)
""".replace("WEST", "a[{0} + 1, {1}]").replace("EAST", "a[{0} + 1, {1} + 2]")

SUM = """kernel sum(N)
fp reassoc
in  x: f32[N]
out y: f32

y = 0
N
| y += x[{0}]
"""


def _cupy(work: Callable[..., Any]) -> Callable[..., Call]:
    """A peer of CuPy, on PyTorch's memory and stream."""

    def made(torch: Torch, inputs: Sequence[Any], output: Any) -> Call:
        import cupy

        arrays = [cupy.from_dlpack(t) for t in inputs]
        result = cupy.from_dlpack(output)
        stream = cupy.cuda.ExternalStream(torch.cuda.current_stream().cuda_stream)

        def call() -> None:
            with stream:
                work(cupy, *arrays, result)

        return call

    return made


def _triton(name: str) -> Callable[..., Call]:
    def made(torch: Torch, inputs: Sequence[Any], output: Any) -> Call:
        import gpu_triton

        call: Call = getattr(gpu_triton, name)(*inputs, output)
        return call

    return made


def _function(name: str) -> Callable[..., Any]:
    """A function of torch.nn.functional, found when it is called."""

    def call(*given: Any, **more: Any) -> Any:
        import torch.nn.functional as functions

        return getattr(functions, name)(*given, **more)

    return call


def _norm(x: Any, g: Any, b: Any) -> Any:
    return _function("layer_norm")(x, (x.shape[-1],), g, b, 1e-5)


def _norm_jax(jax: Any, x: Any, g: Any, b: Any) -> Any:
    mean = x.mean(1, keepdims=True)
    return (x - mean) * jax.lax.rsqrt(((x - mean) ** 2).mean(1, keepdims=True) + 1e-5) * g + b


def _rms(x: Any, g: Any) -> Any:
    return _function("rms_norm")(x, (x.shape[-1],), g, 1e-6)


def _rms_jax(jax: Any, x: Any, g: Any) -> Any:
    wide = x.astype(jax.numpy.float32)
    scale = jax.lax.rsqrt((wide * wide).mean(1, keepdims=True) + 1e-6)
    return (wide * scale * g.astype(jax.numpy.float32)).astype(x.dtype)


def _jacobi(a: Any) -> Any:
    return 0.2 * (a[1:-1, 1:-1] + a[:-2, 1:-1] + a[2:, 1:-1] + a[1:-1, :-2] + a[1:-1, 2:])


def _normalised(x: Any, mean: Any, var: Any, g: Any, b: Any) -> Any:
    return _function("batch_norm")(x, mean, var, g, b, False, 0.0, 1e-5)


def _normalised_jax(jax: Any, x: Any, mean: Any, var: Any, g: Any, b: Any) -> Any:
    def along(v: Any) -> Any:
        return v[None, :, None, None]

    return (x - along(mean)) * jax.lax.rsqrt(along(var) + 1e-5) * along(g) + along(b)


def _training(x: Any, g: Any, b: Any) -> tuple[Any, Any, Any]:
    import torch

    y, mean, inverse = torch.native_batch_norm(x, g, b, None, None, True, 0.0, 1e-5)
    return mean, inverse**-2 - 1e-5, y


def _attention(q: Any, k: Any, v: Any) -> Any:
    return _function("scaled_dot_product_attention")(q[None], k[None], v[None], is_causal=True)[0]


def _attention_jax(jax: Any, q: Any, k: Any, v: Any) -> Any:
    scores = q @ k.swapaxes(1, 2) / 8
    seen = jax.numpy.tril(jax.numpy.ones(scores.shape[1:], bool))
    return jax.nn.softmax(jax.numpy.where(seen, scores, -jax.numpy.inf), axis=-1) @ v


def _convolved(jax: Any, x: Any, f: Any) -> Any:
    return jax.lax.conv(x, f, (1, 1), "SAME")


N = 16384
SQUARE = {"x": (N, N)}
FLAT = {"x": (N * N,)}
IMAGES = {"N": 8, "C": 64, "H": 300, "W": 300}
CHANNELS = ("mean", "var", "g", "b")


def _softmax(rows: int, columns: int) -> Row:
    shape = (rows, columns)
    sizes = {"N": rows, "M": columns}
    return Row(f"softmax {rows}×{columns}", library("softmax"), sizes, {"x": shape}, {"y": shape},
               lambda x: x.softmax(-1), jax=lambda jax, x: jax.nn.softmax(x, axis=-1),
               others={"Triton": _triton("softmax")})  # fmt: skip


def _layernorm(rows: int, columns: int) -> Row:
    shape = (rows, columns)
    return Row(f"layernorm {rows}×{columns}", library("layernorm"), {"N": rows, "M": columns},
               {"x": shape, "g": (columns,), "b": (columns,)}, {"y": shape}, _norm, scalars={"eps": 1e-5},
               jax=_norm_jax)  # fmt: skip


def _matmul(n: int) -> Row:
    return Row(f"matmul {n}³", library("matmul"), {"N": n, "M": n, "K": n}, {"a": (n, n), "b": (n, n)},
               {"c": (n, n)}, lambda a, b: a @ b, 2.0 * n**3, jax=lambda jax, a, b: a @ b,
               others={"CuPy": _cupy(lambda cupy, a, b, c: cupy.matmul(a, b, out=c))})  # fmt: skip


ROWS: tuple[Row, ...] = (
    _softmax(N, N),
    _softmax(4096, 4096),
    _softmax(32768, 512),
    _softmax(256, 50257),
    _layernorm(N, N),
    _layernorm(4096, 4096),
    Row("rmsnorm 16384×16384", library("rmsnorm"), {"N": N, "M": N}, {**SQUARE, "g": (N,)}, {"y": (N, N)}, _rms,
        scalars={"eps": 1e-6}, jax=_rms_jax, others={"Triton": _triton("rmsnorm")}),
    Row("rmsnorm bf16 4096×4096", text(RMSNORM), {"N": 4096, "M": 4096}, {"x": (4096, 4096), "g": (4096,)},
        {"y": (4096, 4096)}, _rms, dtype="bfloat16", tolerance=5e-3, jax=_rms_jax,
        others={"Triton": _triton("rmsnorm")}),
    Row("relu 16384²", library("relu"), {"N": N * N}, FLAT, {"y": (N * N,)}, lambda x: x.relu(),
        jax=lambda jax, x: jax.nn.relu(x),
        others={"CuPy": _cupy(lambda cupy, x, y: cupy.maximum(x, 0, out=y))}),
    Row("gelu 16384²", library("gelu"), {"N": N * N}, FLAT, {"y": (N * N,)}, _function("gelu"),
        jax=lambda jax, x: jax.nn.gelu(x, approximate=False)),
    Row("swiglu 16384²", text(SWIGLU), {"N": N * N}, {**FLAT, "z": (N * N,)}, {"y": (N * N,)},
        lambda x, z: _function("silu")(x) * z, jax=lambda jax, x, z: jax.nn.silu(x) * z),
    Row("transpose 16384²", library("transpose"), {"N": N, "M": N}, SQUARE, {"y": (N, N)},
        lambda x: x.t().contiguous(), jax=lambda jax, x: x.T,
        others={"CuPy": _cupy(lambda cupy, x, y: cupy.copyto(y, x.T))}),
    Row("cumsum 16384²", library("cumsum"), {"N": N, "M": N}, SQUARE, {"y": (N, N)}, lambda x: x.cumsum(1),
        tolerance=1e-4, jax=lambda jax, x: x.cumsum(1),
        others={"CuPy": _cupy(lambda cupy, x, y: cupy.cumsum(x, axis=1, out=y))}),
    Row("jacobi 16384²", text(JACOBI), {"N": N - 2}, {"a": (N, N)}, {"b": (N - 2, N - 2)}, _jacobi,
        jax=lambda jax, a: _jacobi(a)),
    Row("sum 16384²", text(SUM), {"N": N * N}, FLAT, {"y": ()}, lambda x: x.sum(), tolerance=1e-3,
        jax=lambda jax, x: x.sum(), others={"CuPy": _cupy(lambda cupy, x, y: cupy.sum(x, out=y))}),
    Row("mean over rows 16384²", library("reduce_mean_1"), {"N": N, "M": N}, SQUARE, {"y": (N,)},
        lambda x: x.mean(1), tolerance=1e-4, jax=lambda jax, x: x.mean(1)),
    Row("mean over columns 16384²", library("reduce_mean_0"), {"N": N, "M": N}, SQUARE, {"y": (N,)},
        lambda x: x.mean(0), tolerance=1e-4, jax=lambda jax, x: x.mean(0)),
    Row("gemv 16384²", library("gemv"), {"N": N, "M": N}, {"a": (N, N), "x": (N,)}, {"y": (N,)},
        lambda a, x: a @ x, jax=lambda jax, a, x: a @ x),
    Row("batchnorm 8×64×300² inference", library("batchnorm_inference"), IMAGES,
        {"x": (8, 64, 300, 300), **dict.fromkeys(CHANNELS, (64,))}, {"y": (8, 64, 300, 300)}, _normalised,
        scalars={"eps": 1e-5}, positive=frozenset({"var"}), jax=_normalised_jax),
    Row("batchnorm 8×64×300² training", library("batchnorm_training"), IMAGES,
        {"x": (8, 64, 300, 300), "g": (64,), "b": (64,)},
        {"mean": (64,), "var": (64,), "y": (8, 64, 300, 300)}, _training, scalars={"eps": 1e-5}, tolerance=1e-3),
    Row("bmm 192×256×64×256", library("bmm"), {"B": 192, "N": 256, "M": 256, "K": 64},
        {"a": (192, 256, 64), "b": (192, 64, 256)}, {"c": (192, 256, 256)}, lambda a, b: a @ b,
        2.0 * 192 * 256 * 64 * 256, jax=lambda jax, a, b: a @ b),
    _matmul(4096),
    _matmul(2048),
    _matmul(1024),
    Row("conv2d 8×64×56², 64 3×3", library("conv2d", pad=1),
        {"N": 8, "C": 64, "O": 64, "H": 56, "W": 56, "KH": 3, "KW": 3},
        {"x": (8, 64, 56, 56), "f": (64, 64, 3, 3)}, {"y": (8, 64, 56, 56)},
        lambda x, f: _function("conv2d")(x, f, padding=1), 2.0 * 8 * 64 * 56 * 56 * 64 * 9, tolerance=1e-4,
        jax=_convolved),
    Row("causal attention 16×1024×64", library("attention"), {"H": 16, "T": 1024, "D": 64},
        dict.fromkeys("qkv", (16, 1024, 64)), {"y": (16, 1024, 64)}, _attention, 2.0 * 16 * 1024 * 1025 * 64,
        scalars={"scale": 0.125}, tolerance=1e-4, jax=_attention_jax),
)  # fmt: skip
