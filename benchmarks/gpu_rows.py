"""The rows of the GPU table: a kernel, what it is given, what it must give, and who else does the same."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import gpu_texts as texts

Torch = Any
Call = Callable[[], Any]


@dataclass(frozen=True)
class Row:
    """A row: `text` is the kernel, `inputs` and `outputs` the shapes of its arguments by name, in declared order.
    `function` is the work in PyTorch, of the inputs (`wide`: the same in f64 is the reference); `others` further
    peers by name, made of the module, the inputs and the output. `by` says how the kernel is scheduled, `tolerance`
    how far off its result may be, relative to the norm of the reference."""

    name: str
    text: Callable[[], str]
    inputs: Mapping[str, tuple[int, ...]]
    output: tuple[int, ...]
    function: Callable[..., Any]
    by: str
    flops: float = 0.0
    dtype: str = "float32"
    tolerance: float = 1e-5
    positive: frozenset[str] = frozenset()
    others: Mapping[str, Callable[..., Call]] = field(default_factory=dict)

    @property
    def bytes(self) -> int:
        """Each input read once, the output written once."""
        item = 2 if self.dtype == "bfloat16" else 4
        return item * sum(math.prod(shape) for shape in [*self.inputs.values(), self.output])


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


def _triton_softmax(torch: Torch, inputs: Sequence[Any], output: Any) -> Call:
    import gpu_triton

    return gpu_triton.softmax(inputs[0], output)


def _function(name: str) -> Callable[..., Any]:
    """A function of torch.nn.functional, found when it is called."""

    def call(*given: Any, **more: Any) -> Any:
        import torch.nn.functional as functions

        return getattr(functions, name)(*given, **more)

    return call


def _norm(x: Any, g: Any, b: Any) -> Any:
    return _function("layer_norm")(x, (x.shape[-1],), g, b, 1e-5)


def _rms(x: Any, g: Any) -> Any:
    return _function("rms_norm")(x, (x.shape[-1],), g, 1e-6)


def _jacobi(a: Any) -> Any:
    return 0.2 * (a[1:-1, 1:-1] + a[:-2, 1:-1] + a[2:, 1:-1] + a[1:-1, :-2] + a[1:-1, 2:])


def _batchnorm(x: Any, mean: Any, var: Any, g: Any, b: Any) -> Any:
    return _function("batch_norm")(x, mean, var, g, b, False, 0.0, 1e-5)


N = 16384
SQUARE = {"x": (N, N)}
FLAT = {"x": (N * N,)}


def _softmax(rows: int, columns: int, threads: int) -> Row:
    return Row(
        f"softmax {rows}×{columns}",
        lambda: texts.softmax(columns, threads),
        {"x": (rows, columns)},
        (rows, columns),
        lambda x: x.softmax(-1),
        f"a row a block of {threads} threads, in registers",
        others={"Triton": _triton_softmax},
    )


def _layernorm(rows: int, columns: int, threads: int) -> Row:
    return Row(
        f"layernorm {rows}×{columns}",
        lambda: texts.layernorm(columns, threads),
        {"x": (rows, columns), "g": (columns,), "b": (columns,)},
        (rows, columns),
        _norm,
        f"a row a block of {threads} threads, in registers",
    )


def _matmul(n: int, tile: int, high: int, broad: int) -> Row:
    return Row(
        f"matmul {n}³",
        lambda: texts.matmul(n, n, n, tile, high, broad),
        {"a": (n, n), "b": (n, n)},
        (n, n),
        lambda a, b: a @ b,
        f"{tile}×{tile}×8 tiles in shared memory, {high}×{broad} a thread",
        2.0 * n**3,
        others={"CuPy": _cupy(lambda cupy, a, b, c: cupy.matmul(a, b, out=c))},
    )


ROWS: tuple[Row, ...] = (
    _softmax(N, N, 1024),
    _softmax(4096, 4096, 256),
    _softmax(32768, 512, 64),
    _softmax(256, 50257, 1024),
    _layernorm(N, N, 512),
    _layernorm(4096, 4096, 512),
    Row("rmsnorm 16384×16384", lambda: texts.rmsnorm(N, 512), {**SQUARE, "g": (N,)}, (N, N), _rms,
        "a row a block of 512 threads, in registers"),
    Row("rmsnorm bf16 4096×4096", lambda: texts.rmsnorm(4096, 512, "bf16"), {"x": (4096, 4096), "g": (4096,)},
        (4096, 4096), _rms, "a row a block of 512 threads, in registers", dtype="bfloat16", tolerance=5e-3),
    Row("relu 16384²", lambda: texts.elementwise("relu", "x", "max($x, 0)", N * N), FLAT, (N * N,),
        lambda x: x.relu(), "one 16-byte access a thread",
        others={"CuPy": _cupy(lambda cupy, x, y: cupy.maximum(x, 0, out=y))}),
    Row("gelu 16384²", lambda: texts.elementwise(
            "gelu", "x", "0.5 * $x * (1 + erf($x * 0.7071067811865476))", N * N),
        FLAT, (N * N,), _function("gelu"), "one 16-byte access a thread"),
    Row("swiglu 16384²", lambda: texts.elementwise("swiglu", "xz", "$x * sigmoid($x) * $z", N * N),
        {**FLAT, "z": (N * N,)}, (N * N,), lambda x, z: _function("silu")(x) * z, "one 16-byte access a thread"),
    Row("transpose 16384²", texts.transpose, SQUARE, (N, N), lambda x: x.t().contiguous(),
        "64×64 tile, pad 1, 512 threads",
        others={"CuPy": _cupy(lambda cupy, x, y: cupy.copyto(y, x.T))}),
    Row("cumsum 16384²", lambda: texts.cumsum(N), SQUARE, (N, N), lambda x: x.cumsum(1),
        "scan in thread, warp, block", tolerance=1e-4),
    Row("jacobi 16384²", lambda: texts.jacobi(N - 2), SQUARE, (N - 2, N - 2), _jacobi, "8 rows a thread"),
    Row("sum 16384²", lambda: texts.total(N * N), FLAT, (), lambda x: x.sum(), "two launches", tolerance=1e-3,
        others={"CuPy": _cupy(lambda cupy, x, y: cupy.sum(x, out=y))}),
    Row("mean over rows 16384²", lambda: texts.row_mean(N), SQUARE, (N,), lambda x: x.mean(1), "a row a block",
        tolerance=1e-4),
    Row("mean over columns 16384²", lambda: texts.column_mean(N), SQUARE, (N,), lambda x: x.mean(0),
        "two launches", tolerance=1e-4),
    Row("gemv 16384²", lambda: texts.gemv(N), {"a": (N, N), "x": (N,)}, (N,), lambda a, x: a @ x, "a row a block"),
    Row("batchnorm 8×64×300² inference", lambda: texts.batchnorm(8, 64, 90000),
        {"x": (8, 64, 90000), "mean": (64,), "var": (64,), "g": (64,), "b": (64,)}, (8, 64, 90000), _batchnorm,
        "one 16-byte access a thread", positive=frozenset({"var"})),
    Row("bmm 192×256×64×256", lambda: texts.matmul(256, 256, 64, 128, 8, 16, 192),
        {"a": (192, 256, 64), "b": (192, 64, 256)}, (192, 256, 256), lambda a, b: a @ b,
        "128×128×8 tiles in shared memory, 8×16 a thread", 2.0 * 192 * 256 * 64 * 256),
    _matmul(4096, 128, 8, 16),
    _matmul(2048, 128, 8, 16),
    _matmul(1024, 64, 4, 8),
)  # fmt: skip
