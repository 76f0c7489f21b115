"""`stream` and `unstream`: writes that bypass the caches."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import ClassVar

from dojoir.ir.buffer_rules import stream_error
from dojoir.ir.nodes import Kernel
from dojoir.passes.base.move import (
    BufferName,
    Move,
    Refusal,
    Rewrite,
)
from dojoir.proof.check import identity
from dojoir.support.frozen import dataclass


@dataclass(frozen=True)
class Stream(Move):
    """Stores to `buffer` bypass the caches (attribute `stream`): for what is written once and not read soon.

    It changes no result. Contiguous vectors are streamed; the lowering brings the loop to their alignment. The
    inverse is `unstream`.

    >>> import dojoir
    >>> k = dojoir.parse('''kernel f(N)
    ... in  x: f32[N]
    ... out y: f32[N]
    ... N : v
    ... | y[{0}] = 2 * x[{0}]
    ... ''')
    >>> print(dojoir.apply(k, "stream(y)"))
    kernel f(N)
    in  x: f32[N]
    out y: f32[N] stream
    <BLANKLINE>
    N : v
    | y[{0}] = 2 * x[{0}]
    <BLANKLINE>
    """

    name: ClassVar[str] = "stream"
    buffer: BufferName

    def rewrite(self, kernel: Kernel) -> Rewrite:
        buffer = kernel.buffer(self.buffer)
        if buffer.stream:
            raise Refusal("no-change", f"the stores to `{buffer.name}` bypass the caches already")
        streamed = replace(buffer, stream=True)
        wrong = stream_error(streamed)
        if wrong is not None:
            raise Refusal("not-streamed", wrong.partition(": leave")[0])
        return Rewrite(kernel.replace_buffer(streamed), identity(kernel))

    def inverse(self, before: Kernel) -> Move:
        return Unstream(self.buffer)

    @classmethod
    def candidates(cls, kernel: Kernel) -> Iterator[Move]:
        read = {access.buffer for site in kernel.sites for access in site.statement.reads}
        for buffer in kernel.buffers:
            if buffer.role in {"out", "inout"} and buffer.dims and not buffer.stream and buffer.name not in read:
                yield cls(BufferName(buffer.name))


@dataclass(frozen=True)
class Unstream(Move):
    """Stores to `buffer` go through the caches again. The inverse of `stream`.

    >>> import dojoir
    >>> k = dojoir.parse('''kernel f(N)
    ... in  x: f32[N]
    ... out y: f32[N] stream
    ... N : v
    ... | y[{0}] = 2 * x[{0}]
    ... ''')
    >>> print(dojoir.apply(k, "unstream(y)"))
    kernel f(N)
    in  x: f32[N]
    out y: f32[N]
    <BLANKLINE>
    N : v
    | y[{0}] = 2 * x[{0}]
    <BLANKLINE>
    """

    name: ClassVar[str] = "unstream"
    buffer: BufferName

    def rewrite(self, kernel: Kernel) -> Rewrite:
        buffer = kernel.buffer(self.buffer)
        if not buffer.stream:
            raise Refusal("no-change", f"the stores to `{buffer.name}` do not bypass the caches")
        return Rewrite(kernel.replace_buffer(replace(buffer, stream=False)), identity(kernel))

    def inverse(self, before: Kernel) -> Move:
        return Stream(self.buffer)

    @classmethod
    def candidates(cls, kernel: Kernel) -> Iterator[Move]:
        for buffer in kernel.buffers:
            if buffer.stream:
                yield cls(BufferName(buffer.name))


MOVES = (
    Stream,
    Unstream,
)
