"""Moves on how a temporary lies in memory: the order of its dimensions, and padding."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import ClassVar

from dojoir.dataflow import identity
from dojoir.ir import Kernel
from dojoir.passes.move import BufferName, Move, Refusal, Rewrite
from dojoir.passes.storage import temporary


@dataclass(frozen=True)
class ReorderDims(Move):
    """Lays a temporary out with its dimensions in the given order, outermost first. The inverse is the same move,
    back to the order that it had.

    >>> import dojoir
    >>> k = dojoir.parse('''kernel f(N, M)
    ... in  x: f32[N, M]
    ... out y: f32[M, N]
    ... tmp t: f32[N, M]
    ... N
    ... | M
    ... | | t[{0}, {1}] = x[{0}, {1}]
    ... M
    ... | N
    ... | | y[{0}, {1}] = t[{1}, {0}]
    ... ''')
    >>> print(dojoir.apply(k, "reorder_dims(t, 1, 0)"))
    kernel f(N, M)
    in  x: f32[N, M]
    out y: f32[M, N]
    tmp t: f32[N, M] order(1, 0)
    <BLANKLINE>
    N
    | M
    | | t[{0}, {1}] = x[{0}, {1}]
    M
    | N
    | | y[{0}, {1}] = t[{1}, {0}]
    <BLANKLINE>
    """

    name: ClassVar[str] = "reorder_dims"
    buffer: BufferName
    order: tuple[int, ...]

    def rewrite(self, kernel: Kernel) -> Rewrite:
        buffer = temporary(kernel, self.buffer)
        natural = tuple(range(len(buffer.dims)))
        if tuple(sorted(self.order)) != natural:
            raise Refusal("bad-order", f"the order must name each of the dimensions {list(natural)} once")
        if self.order == (buffer.order or natural):
            raise Refusal("no-change", f"`{buffer.name}` has this order already")
        return Rewrite(kernel.replace_buffer(replace(buffer, order=self.order)), identity(kernel))

    def inverse(self, before: Kernel) -> Move:
        buffer = before.buffer(self.buffer)
        return ReorderDims(self.buffer, buffer.order or tuple(range(len(buffer.dims))))

    @classmethod
    def candidates(cls, kernel: Kernel) -> Iterator[Move]:
        for buffer in kernel.buffers:
            if buffer.role == "tmp":
                now = buffer.order or tuple(range(len(buffer.dims)))
                for i in range(len(now) - 1):
                    yield cls(BufferName(buffer.name), (*now[:i], now[i + 1], now[i], *now[i + 2 :]))


@dataclass(frozen=True)
class PadDims(Move):
    """Adds `elements` of storage to dimension `dim` of a temporary; 0 takes the padding away. The inverse is the
    same move, with the padding that was there.

    >>> import dojoir
    >>> k = dojoir.parse('''kernel f(N)
    ... in  x: f32[N, 64]
    ... out y: f32[N, 64]
    ... tmp t: f32[N, 64]
    ... N
    ... | 64
    ... | | t[{0}, {1}] = x[{0}, {1}]
    ... | | y[{0}, {1}] = t[{0}, {1}]
    ... ''')
    >>> print(dojoir.apply(k, "pad_dims(t, 1, 8)"))
    kernel f(N)
    in  x: f32[N, 64]
    out y: f32[N, 64]
    tmp t: f32[N, 64] pad(0, 8)
    <BLANKLINE>
    N
    | 64
    | | t[{0}, {1}] = x[{0}, {1}]
    | | y[{0}, {1}] = t[{0}, {1}]
    <BLANKLINE>
    """

    name: ClassVar[str] = "pad_dims"
    buffer: BufferName
    dim: int
    elements: int

    def rewrite(self, kernel: Kernel) -> Rewrite:
        buffer = temporary(kernel, self.buffer)
        if not 0 <= self.dim < len(buffer.dims) or self.elements < 0:
            raise Refusal("bad-padding", f"`{buffer.name}` has no dimension {self.dim} to pad with {self.elements}")
        now = list(buffer.pad or (0,) * len(buffer.dims))
        if now[self.dim] == self.elements:
            raise Refusal("no-change", f"dimension {self.dim} of `{buffer.name}` is padded so already")
        now[self.dim] = self.elements
        return Rewrite(kernel.replace_buffer(replace(buffer, pad=tuple(now))), identity(kernel))

    def inverse(self, before: Kernel) -> Move:
        pad = before.buffer(self.buffer).pad
        return PadDims(self.buffer, self.dim, pad[self.dim] if pad else 0)

    @classmethod
    def candidates(cls, kernel: Kernel) -> Iterator[Move]:
        for buffer in kernel.buffers:
            if buffer.role == "tmp" and len(buffer.dims) > 1:
                yield cls(BufferName(buffer.name), len(buffer.dims) - 1, 16)
