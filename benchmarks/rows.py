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

FAST = {"attention"}
"""Kernels that may use algebra here, as their peers do."""

_TEXTS = {"swiglu_gate": GATE, "jacobi2d_sweep": JACOBI}


@dataclass(frozen=True)
class Row:
    """A kernel at sizes. `operation` names what peers have to compute, `fixed` are sizes fixed in the header."""

    kernel: str
    sizes: Mapping[str, int]
    fixed: Mapping[str, int] = field(default_factory=dict)

    @property
    def title(self) -> str:
        shape = "×".join(str(value) for value in self.sizes.values())
        return f"{self.kernel} {shape}"

    def load(self) -> dojoir.Kernel:
        """The kernel as written."""
        if self.kernel in _TEXTS:
            return dojoir.parse(_TEXTS[self.kernel])
        kernel = dojoir.kernels.load(self.kernel, **self.fixed)
        return kernel.with_fp("fast") if self.kernel in FAST else kernel


def _matrix(kernel: str, *shapes: tuple[int, int]) -> list[Row]:
    return [Row(kernel, {"N": n, "M": m}) for n, m in shapes]


ROWS: tuple[Row, ...] = (
    *_matrix("softmax", (4096, 4096), (32768, 512), (256, 50257)),
    *_matrix("layernorm", (4096, 4096), (16384, 768)),
    *_matrix("rmsnorm", (4096, 4096), (16384, 768)),
    Row("batchnorm_training", {"N": 8, "C": 64, "H": 300, "W": 300}),
    Row("batchnorm_inference", {"N": 8, "C": 64, "H": 300, "W": 300}),
    *(Row(name, {"N": 4096 * 4096}) for name in ("relu", "gelu", "silu", "swiglu_gate")),
    *_matrix("bias_relu", (4096, 4096)),
    Row("add", {"N": 4096 * 4096}),
    *_matrix("reduce_mean_0", (4096, 4096)),
    *_matrix("reduce_mean_1", (4096, 4096)),
    *(Row("matmul", {"N": n, "M": n, "K": n}) for n in (512, 1024, 2048)),
    Row("matmul", {"N": 768, "M": 4096, "K": 1024}),
    Row("bmm", {"B": 192, "N": 256, "M": 256, "K": 64}),
    Row("conv2d", {"N": 8, "C": 64, "O": 64, "H": 56, "W": 56, "KH": 3, "KW": 3}, {"pad": 1}),
    *_matrix("gemv", (4096, 4096), (8192, 8192)),
    Row("attention", {"H": 8, "T": 512, "D": 64}),
    Row("dot", {"N": 1 << 24}),
    Row("saxpy", {"N": 1 << 24}),
    *_matrix("transpose", (4096, 4096)),
    Row("jacobi2d_sweep", {"N": 4096}),
    *_matrix("cumsum", (4096, 4096)),
)
