"""Dimensions of a temporary that share one element of storage, and back."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import ClassVar

from dojoir.ir.nodes import Kernel
from dojoir.passes.base.move import BufferName, Move, Refusal, Rewrite
from dojoir.passes.base.reach import Reach
from dojoir.passes.storage.temporaries import check_constant, check_dim, temporary
from dojoir.proof.check import identity
from dojoir.support.frozen import dataclass


@dataclass(frozen=True)
class ReuseDims(Move):
    """Collapses dimension `dim` of a temporary (`N~`): all its indices share one element of storage.

    Legal where each value is read before another index overwrites it. The inverse is `materialize_dims`.

    >>> import dojoir
    >>> k = dojoir.parse('''kernel f(N)
    ... in  x: f32[N]
    ... out y: f32[N]
    ... tmp t: f32[N]
    ... N
    ... | t[{0}] = 2 * x[{0}]
    ... | y[{0}] = t[{0}] + 1
    ... ''')
    >>> print(dojoir.apply(k, "reuse_dims(t, 0)"))
    kernel f(N)
    in  x: f32[N]
    out y: f32[N]
    tmp t: f32[N~]
    <BLANKLINE>
    N
    | t[{0}] = 2 * x[{0}]
    | y[{0}] = t[{0}] + 1
    <BLANKLINE>
    """

    name: ClassVar[str] = "reuse_dims"
    reach: ClassVar[Reach] = Reach.PANE
    buffer: BufferName
    dim: int

    def rewrite(self, kernel: Kernel) -> Rewrite:
        buffer = temporary(kernel, self.buffer)
        if not 0 <= self.dim < len(buffer.dims):
            raise Refusal(
                "unknown-dim", f"`{buffer.name}` has dimensions 0 to {len(buffer.dims) - 1}, not {self.dim}"
            )
        if buffer.dims[self.dim].collapsed:
            raise Refusal("no-change", f"dimension {self.dim} of `{buffer.name}` is collapsed already")
        dims = tuple(replace(d, collapsed=True) if i == self.dim else d for i, d in enumerate(buffer.dims))
        return Rewrite(kernel.replace_buffer(replace(buffer, dims=dims)), identity(kernel))

    def inverse(self, before: Kernel) -> Move:
        return MaterializeDims(self.buffer, self.dim)

    @classmethod
    def candidates(cls, kernel: Kernel) -> Iterator[Move]:
        for buffer in kernel.buffers:
            if buffer.role == "tmp":
                for i, dim in enumerate(buffer.dims):
                    if not dim.collapsed:
                        yield cls(BufferName(buffer.name), i)


@dataclass(frozen=True)
class MaterializeDims(Move):
    """Gives dimension `dim` of a temporary storage of its own again. The inverse of `reuse_dims`.

    >>> import dojoir
    >>> k = dojoir.parse('''kernel f(N)
    ... in  x: f32[N]
    ... out y: f32[N]
    ... tmp t: f32[N~]
    ... N
    ... | t[{0}] = 2 * x[{0}]
    ... | y[{0}] = t[{0}] + 1
    ... ''')
    >>> print(dojoir.apply(k, "materialize_dims(t, 0)"))
    kernel f(N)
    in  x: f32[N]
    out y: f32[N]
    tmp t: f32[N]
    <BLANKLINE>
    N
    | t[{0}] = 2 * x[{0}]
    | y[{0}] = t[{0}] + 1
    <BLANKLINE>
    """

    name: ClassVar[str] = "materialize_dims"
    buffer: BufferName
    dim: int

    def rewrite(self, kernel: Kernel) -> Rewrite:
        buffer = temporary(kernel, self.buffer)
        check_dim(buffer, self.dim)
        if not buffer.dims[self.dim].collapsed:
            raise Refusal("no-change", f"dimension {self.dim} of `{buffer.name}` has storage of its own already")
        dims = tuple(replace(d, collapsed=False) if i == self.dim else d for i, d in enumerate(buffer.dims))
        changed = replace(buffer, dims=dims)
        if buffer.storage in {"stack", "reg"}:
            check_constant(changed, buffer.storage)
        return Rewrite(kernel.replace_buffer(changed), identity(kernel))

    def inverse(self, before: Kernel) -> Move:
        return ReuseDims(self.buffer, self.dim)

    @classmethod
    def candidates(cls, kernel: Kernel) -> Iterator[Move]:
        for buffer in kernel.buffers:
            for i, dim in enumerate(buffer.dims):
                if dim.collapsed:
                    yield cls(BufferName(buffer.name), i)


MOVES = (ReuseDims, MaterializeDims)
