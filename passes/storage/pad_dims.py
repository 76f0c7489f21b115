"""`pad_dims`: elements of storage added to dimensions. It is its own inverse."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import ClassVar

from dojoir.ir.nodes import Kernel, Path
from dojoir.passes.base.move import BufferName, Move, Refusal, Rewrite
from dojoir.passes.base.reach import Reach
from dojoir.passes.storage.temporaries import temporary
from dojoir.proof.check import identity
from dojoir.support.frozen import dataclass


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
    reach: ClassVar[Reach] = Reach.PANE
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

    @classmethod
    def with_numbers(cls, kernel: Kernel, place: Path | str, numbers: Sequence[int]) -> Iterator[Move]:
        if isinstance(place, str) and kernel.buffer(place).role == "tmp":
            dims = range(len(kernel.buffer(place).dims))
            yield from (cls(BufferName(place), d, n) for d in dims for n in (1, *numbers) if n > 0)


MOVES = (PadDims,)
