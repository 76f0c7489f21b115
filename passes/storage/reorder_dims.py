"""`reorder_dims`: the order of dimensions in memory. It is its own inverse."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from itertools import permutations
from typing import ClassVar

from dojoir.backends.machine import Machine
from dojoir.ir.nodes import Kernel, Path
from dojoir.passes.base.move import BufferName, Move, Refusal, Rewrite
from dojoir.passes.base.reach import Reach
from dojoir.passes.storage.temporaries import temporary
from dojoir.proof.check import identity
from dojoir.support.frozen import dataclass


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
    reach: ClassVar[Reach] = Reach.PANE
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

    @classmethod
    def _further(cls, kernel: Kernel, place: Path | str, machine: Machine) -> Iterator[Move]:
        if isinstance(place, str) and kernel.buffer(place).role == "tmp":
            buffer = kernel.buffer(place)
            natural = tuple(range(len(buffer.dims)))
            now = buffer.order or natural
            yield from (cls(BufferName(place), order) for order in permutations(natural) if order != now)


MOVES = (ReorderDims,)
