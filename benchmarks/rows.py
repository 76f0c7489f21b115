"""The rows of the CPU table: kernels at the shapes that people run, and their work."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import dojoir

GATE = """\
# swiglu's elementwise half: y = silu(g) * u
kernel swiglu_gate(N)
in  g: f32[N]
in  u: f32[N]
out y: f32[N]

N @i
| y[{i}] = g[{i}] * sigmoid(g[{i}]) * u[{i}]
"""

JACOBI = """\
# One sweep of the five-point stencil over the inside of a square.
kernel jacobi2d_sweep(N)
where N >= 3
in    a: f32[N, N]
inout b: f32[N, N]

N - 2 @i
| N - 2 @j
| | b[{i} + 1, {j} + 1] = 0.2 * (a[{i} + 1, {j} + 1] + a[{i} + 1, {j}] + a[{i} + 1, {j} + 2] \
+ a[{i} + 2, {j} + 1] + a[{i}, {j} + 1])
"""

FAST = {"attention", "batchnorm_training", "softmax"}
"""Kernels that may use algebra here (`fp fast`), as their fastest peers do."""

PRODUCTS = {"matmul", "bmm", "conv2d", "attention"}
"""Kernels whose operations take longer than their bytes."""

_STREAM = "memory: every element is read once and written once"
_READ = "memory: every element is read once, next to nothing is written"
_FMA = "the two units for fused multiply-adds"

LIMITS: Mapping[str, str] = {
    "softmax": "memory where a row stays in the cache; on one thread exp, some 20 operations an element",
    "layernorm": "memory: a row is read three times, twice from the cache",
    "rmsnorm": "memory: a row is read twice, once from the cache",
    "batchnorm_training": "memory: a channel is read for its moments, and again for y, from the last cache at best",
    "batchnorm_inference": _STREAM,
    "relu": _STREAM,
    "gelu": "memory; on one thread erf, some 22 operations an element",
    "silu": "memory; on one thread sigmoid, some 20 operations an element",
    "swiglu_gate": "memory: two elements are read for one that is written",
    "bias_relu": _STREAM,
    "add": "memory: two elements are read for one that is written",
    "reduce_mean_0": _READ + "; columns are summed in the cache while rows stream by",
    "reduce_mean_1": _READ,
    "matmul": _FMA + ", and below 1024 packing and the start of threads",
    "bmm": _FMA + "; with 64 products an element, the loads and stores of results as well",
    "conv2d": _FMA + "; 56 columns are three and a half vectors",
    "gemv": "memory: every element of the matrix is read once",
    "attention": "two products, in whose last tiles half is masked, one row at a time, and exp between them",
    "dot": "memory: two arrays are read once",
    "saxpy": "memory: two elements are read and one of them written again",
    "transpose": "memory: one side is not read or written in order, so lines and pages are visited again",
    "jacobi2d_sweep": "memory: three rows stay in the cache; b is inout, its borders are kept",
    "cumsum": "memory; one element at a time is added, four rows side by side",
}
"""What limits each kernel, apart from what this project does not do well yet."""

_TEXTS = {"swiglu_gate": GATE, "jacobi2d_sweep": JACOBI}


@dataclass(frozen=True)
class Row:
    """A kernel at sizes. `fixed` are sizes fixed in the header. At the sizes `small` it does the same to arrays
    that stay in a cache; there are none where its operations take longer than its bytes."""

    kernel: str
    sizes: Mapping[str, int]
    fixed: Mapping[str, int] = field(default_factory=dict)
    small: Mapping[str, int] = field(default_factory=dict)

    @property
    def title(self) -> str:
        shape = "×".join(str(value) for value in self.sizes.values())
        return f"{self.kernel} {shape}"

    @property
    def limits(self) -> str:
        """What limits it on such a machine."""
        return LIMITS[self.kernel]

    def load(self) -> dojoir.Kernel:
        """The kernel as written."""
        if self.kernel in _TEXTS:
            return dojoir.parse(_TEXTS[self.kernel])
        kernel = dojoir.kernels.load(self.kernel, **self.fixed)
        return kernel.with_fp("fast") if self.kernel in FAST else kernel


def _matrix(kernel: str, n: int, m: int, rows: int, columns: int = 0) -> Row:
    """A kernel on n rows of m elements, or `rows` in a cache, of `columns` elements if these are fewer."""
    return Row(kernel, {"N": n, "M": m}, small={"N": rows, "M": columns or m})


def _images(kernel: str) -> Row:
    return Row(
        kernel, {"N": 8, "C": 64, "H": 300, "W": 300}, small={"N": 8, "C": 4, "H": 8, "W": 300}
    )  # fmt: skip


def _elements(kernel: str) -> Row:
    return Row(kernel, {"N": 4096 * 4096}, small={"N": 65536})


ROWS: tuple[Row, ...] = (
    _matrix("softmax", 4096, 4096, 16),
    _matrix("softmax", 32768, 512, 128),
    _matrix("softmax", 256, 50257, 4),
    _matrix("layernorm", 4096, 4096, 64),
    _matrix("layernorm", 16384, 768, 64),
    _matrix("rmsnorm", 4096, 4096, 64),
    _matrix("rmsnorm", 16384, 768, 64),
    _images("batchnorm_training"),
    _images("batchnorm_inference"),
    *map(_elements, ("relu", "gelu", "silu", "swiglu_gate")),
    _matrix("bias_relu", 4096, 4096, 64, 1024),
    _elements("add"),
    _matrix("reduce_mean_0", 4096, 4096, 32),
    _matrix("reduce_mean_1", 4096, 4096, 32),
    *(Row("matmul", {"N": n, "M": n, "K": n}) for n in (512, 1024, 2048)),
    Row("matmul", {"N": 768, "M": 4096, "K": 1024}),
    Row("bmm", {"B": 192, "N": 256, "M": 256, "K": 64}),
    Row("conv2d", {"N": 8, "C": 64, "O": 64, "H": 56, "W": 56, "KH": 3, "KW": 3}, {"pad": 1}),
    _matrix("gemv", 4096, 4096, 32),
    _matrix("gemv", 8192, 8192, 16),
    Row("attention", {"H": 8, "T": 512, "D": 64}),
    _elements("dot"),
    _elements("saxpy"),
    _matrix("transpose", 4096, 4096, 256, 512),
    Row("jacobi2d_sweep", {"N": 4096}, small={"N": 256}),
    _matrix("cumsum", 4096, 4096, 16),
)
