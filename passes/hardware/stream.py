"""`stream`, `stream_large` and `unstream`: writes that bypass the caches."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from dojoir.backends.machine import Machine
from dojoir.ir.buffer_rules import stream_error
from dojoir.ir.nodes import Kernel
from dojoir.passes.base.about import AboutBuffer, Arguments, Declared
from dojoir.passes.base.move import Move, Refusal, Rewrite
from dojoir.support.frozen import dataclass

LARGE = 1 << 25
"""The bytes that are listed: more than most last caches."""


@dataclass(frozen=True)
class _Streaming(AboutBuffer):
    """A move on the attribute `stream` of a buffer."""

    def back(self, at: Declared) -> Move:
        bytes_ = at.buffer.stream
        if not bytes_:
            return Unstream(self.buffer)
        return Stream(self.buffer) if bytes_ == 1 else StreamLarge(self.buffer, bytes_)


@dataclass(frozen=True)
class Stream(_Streaming, name="stream"):
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

    def rewritten(self, at: Declared) -> Rewrite:
        return _streamed(at, 1)

    @classmethod
    def listed(cls, at: Declared) -> Arguments:
        return [()] if _is_worth_it(at, 1) else []


@dataclass(frozen=True)
class StreamLarge(_Streaming, name="stream_large"):
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

    bytes: int

    def rewrite(self, kernel: Kernel) -> Rewrite:
        if self.bytes < 2:
            raise Refusal("not-streamed", "bytes is 2 or more; `stream` is for an array of any size")
        return _streamed(self.found(kernel), self.bytes)

    @classmethod
    def listed(cls, at: Declared) -> Arguments:
        is_open = any(dim.extent.sizes for dim in at.buffer.dims)
        return [(LARGE,)] if is_open and _is_worth_it(at, LARGE) else []

    @classmethod
    def numbered(cls, at: Declared, numbers: Sequence[int]) -> Arguments:
        return ((n,) for n in numbers if n > 1 and _is_worth_it(at, n))

    @classmethod
    def more(cls, at: Declared, machine: Machine) -> Arguments:
        """The accesses that the caches of the machine cannot hold."""
        return [(machine.held,)] if machine.held > 1 and _is_worth_it(at, machine.held) else []


@dataclass(frozen=True)
class Unstream(_Streaming, name="unstream"):
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

    def rewritten(self, at: Declared) -> Rewrite:
        if not at.buffer.stream:
            raise Refusal("no-change", f"the stores to `{at.buffer.name}` do not bypass the caches")
        return at.replaced(replace(at.buffer, stream=0))

    @classmethod
    def listed(cls, at: Declared) -> Arguments:
        return [()] if at.buffer.stream else []


def _streamed(at: Declared, bytes_: int) -> Rewrite:
    """The kernel whose stores to a buffer of so many bytes or more bypass the caches. Raises Refusal where they
    cannot, or do so already."""
    if at.buffer.stream == bytes_:
        raise Refusal("no-change", f"the stores to `{at.buffer.name}` bypass the caches already")
    streamed = replace(at.buffer, stream=bytes_)
    wrong = stream_error(streamed)
    if wrong is not None:
        raise Refusal("not-streamed", wrong.partition(": leave")[0])
    return at.replaced(streamed)


def _is_worth_it(at: Declared, bytes_: int) -> bool:
    """Whether a buffer is a result that nothing reads, and that is not streamed where it has so many bytes."""
    if at.buffer.role not in {"out", "inout"} or not at.buffer.dims or at.buffer.stream == bytes_:
        return False
    return not any(access.buffer == at.place for site in at.kernel.sites for access in site.statement.reads)
