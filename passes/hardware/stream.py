"""`stream`, `stream_large` and `unstream`: writes that bypass the caches."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import ClassVar

from dojoir.backends.machine import Machine
from dojoir.ir.buffer_rules import stream_error
from dojoir.ir.nodes import Kernel, Path
from dojoir.passes.base.move import (
    BufferName,
    Move,
    Refusal,
    Rewrite,
)
from dojoir.proof.check import identity
from dojoir.support.frozen import dataclass

LARGE = 1 << 25
"""The bytes that are listed: more than most last caches."""


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
        return _streamed(kernel, self.buffer, 1)

    def inverse(self, before: Kernel) -> Move:
        return _restoring(before, self.buffer)

    @classmethod
    def candidates(cls, kernel: Kernel) -> Iterator[Move]:
        yield from (cls(BufferName(name)) for name in _worth_it(kernel, 1))


@dataclass(frozen=True)
class StreamLarge(Move):
    """Stores to `buffer` bypass the caches where it has at least so many `bytes` (attribute `stream`): for sizes
    that the kernel does not know. Each loop that writes it is there twice, and asks which to run.

    It changes no result. The inverse is `unstream`.

    >>> import dojoir
    >>> k = dojoir.parse('''kernel f(N)
    ... in  x: f32[N]
    ... out y: f32[N]
    ... N : v
    ... | y[{0}] = 2 * x[{0}]
    ... ''')
    >>> print(dojoir.apply(k, "stream_large(y, 33554432)"))
    kernel f(N)
    in  x: f32[N]
    out y: f32[N] stream 33554432
    <BLANKLINE>
    N : v
    | y[{0}] = 2 * x[{0}]
    <BLANKLINE>
    """

    name: ClassVar[str] = "stream_large"
    buffer: BufferName
    bytes: int

    def rewrite(self, kernel: Kernel) -> Rewrite:
        if self.bytes < 2:
            raise Refusal("not-streamed", "bytes is 2 or more; `stream` is for an array of any size")
        return _streamed(kernel, self.buffer, self.bytes)

    def inverse(self, before: Kernel) -> Move:
        return _restoring(before, self.buffer)

    @classmethod
    def candidates(cls, kernel: Kernel) -> Iterator[Move]:
        for name in _worth_it(kernel, LARGE):
            if any(dim.extent.sizes for dim in kernel.buffer(name).dims):
                yield cls(BufferName(name), LARGE)

    @classmethod
    def with_numbers(cls, kernel: Kernel, place: Path | str, numbers: Sequence[int]) -> Iterator[Move]:
        if isinstance(place, str):
            yield from (cls(BufferName(place), n) for n in numbers if n > 1 and place in _worth_it(kernel, n))

    @classmethod
    def _further(cls, kernel: Kernel, place: Path | str, machine: Machine) -> Iterator[Move]:
        """The accesses that the caches of the machine cannot hold."""
        if isinstance(place, str) and machine.held > 1 and place in _worth_it(kernel, machine.held):
            yield cls(BufferName(place), machine.held)


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
        return Rewrite(kernel.replace_buffer(replace(buffer, stream=0)), identity(kernel))

    def inverse(self, before: Kernel) -> Move:
        return _restoring(before, self.buffer)

    @classmethod
    def candidates(cls, kernel: Kernel) -> Iterator[Move]:
        for buffer in kernel.buffers:
            if buffer.stream:
                yield cls(BufferName(buffer.name))


def _streamed(kernel: Kernel, name: BufferName, bytes_: int) -> Rewrite:
    """The kernel whose stores to a buffer of so many bytes or more bypass the caches. Raises Refusal where they
    cannot, or do so already."""
    buffer = kernel.buffer(name)
    if buffer.stream == bytes_:
        raise Refusal("no-change", f"the stores to `{buffer.name}` bypass the caches already")
    streamed = replace(buffer, stream=bytes_)
    wrong = stream_error(streamed)
    if wrong is not None:
        raise Refusal("not-streamed", wrong.partition(": leave")[0])
    return Rewrite(kernel.replace_buffer(streamed), identity(kernel))


def _restoring(before: Kernel, name: BufferName) -> Move:
    """The move that gives the stores to a buffer what the attribute says before."""
    bytes_ = before.buffer(name).stream
    if not bytes_:
        return Unstream(name)
    return Stream(name) if bytes_ == 1 else StreamLarge(name, bytes_)


def _worth_it(kernel: Kernel, bytes_: int) -> list[str]:
    """The results that nothing reads, and that are not streamed where they have so many bytes or more."""
    read = {access.buffer for site in kernel.sites for access in site.statement.reads}
    return [
        buffer.name
        for buffer in kernel.buffers
        if buffer.role in {"out", "inout"} and buffer.dims and buffer.stream != bytes_ and buffer.name not in read
    ]


MOVES = (
    Stream,
    StreamLarge,
    Unstream,
)
