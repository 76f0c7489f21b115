"""Moves on storage: fold dimensions of temporaries, choose where they live."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import ClassVar

from dojoir.backends.machine import Machine
from dojoir.ir.buffer_rules import stream_error
from dojoir.ir.nodes import Buffer, Kernel, Path
from dojoir.passes.base.alternatives import Alternative, adjacent_scopes, join
from dojoir.passes.base.move import BufferName, Move, Refusal, Rewrite, Word
from dojoir.passes.base.reach import Reach
from dojoir.proof.check import identity
from dojoir.proof.verdict import Verdict
from dojoir.support.frozen import dataclass

MAX_STACK_BYTES = 64 * 1024
"""The largest buffer that may live on the stack."""

MAX_REGISTER_ELEMENTS = 1024
"""The most elements that a buffer in registers may have for each index of its longest dimension, if it has several:
the threads of a GPU may share that one."""


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
        _check_dim(buffer, self.dim)
        if not buffer.dims[self.dim].collapsed:
            raise Refusal("no-change", f"dimension {self.dim} of `{buffer.name}` has storage of its own already")
        dims = tuple(replace(d, collapsed=False) if i == self.dim else d for i, d in enumerate(buffer.dims))
        changed = replace(buffer, dims=dims)
        if buffer.storage in {"stack", "reg"}:
            _check_constant(changed, buffer.storage)
        return Rewrite(kernel.replace_buffer(changed), identity(kernel))

    def inverse(self, before: Kernel) -> Move:
        return ReuseDims(self.buffer, self.dim)

    @classmethod
    def candidates(cls, kernel: Kernel) -> Iterator[Move]:
        for buffer in kernel.buffers:
            for i, dim in enumerate(buffer.dims):
                if dim.collapsed:
                    yield cls(BufferName(buffer.name), i)


@dataclass(frozen=True)
class PlaceBuffer(Move):
    """Chooses where a temporary lives: `heap`, `stack`, `reg` (registers) or `shared` (of a GPU's block).

    What lives on the stack or in registers must have constant extents, collapsed dimensions aside. The inverse is
    the same move, back to where it lived.

    >>> import dojoir
    >>> k = dojoir.parse('''kernel f(N)
    ... in  x: f32[N]
    ... out y: f32[N]
    ... tmp t: f32[N~]
    ... N
    ... | t[{0}] = 2 * x[{0}]
    ... | y[{0}] = t[{0}] + 1
    ... ''')
    >>> print(dojoir.apply(k, "place(t, reg)"))
    kernel f(N)
    in  x: f32[N]
    out y: f32[N]
    tmp t: f32[N~] reg
    <BLANKLINE>
    N
    | t[{0}] = 2 * x[{0}]
    | y[{0}] = t[{0}] + 1
    <BLANKLINE>
    """

    name: ClassVar[str] = "place"
    buffer: BufferName
    storage: Word

    WORDS: ClassVar[tuple[str, ...]] = ("heap", "stack", "reg", "shared")

    def rewrite(self, kernel: Kernel) -> Rewrite:
        buffer = temporary(kernel, self.buffer)
        if self.storage not in self.WORDS:
            raise Refusal("unknown-storage", f"'{self.storage}' is no place for a buffer: {', '.join(self.WORDS)}")
        if self.storage == buffer.storage:
            raise Refusal("no-change", f"`{buffer.name}` lives in {buffer.storage} already")
        if self.storage in {"stack", "reg"}:
            _check_constant(buffer, self.storage)
        moved = replace(buffer, storage=self.storage)
        streamed = stream_error(moved)
        if streamed is not None:
            raise Refusal("streamed", streamed.partition(": leave")[0], None, f"unstream({buffer.name}) first")
        return Rewrite(kernel.replace_buffer(moved), identity(kernel))

    def inverse(self, before: Kernel) -> Move:
        return PlaceBuffer(self.buffer, Word(before.buffer(self.buffer).storage))

    def alternatives(self, kernel: Kernel, verdict: Verdict) -> Iterator[Alternative]:
        """A place of constant size: the dimensions of open extent collapsed."""
        dims = kernel.buffer(self.buffer).dims
        open_dims = [d for d, dim in enumerate(dims) if not dim.collapsed and not dim.extent.is_constant]
        collapse = tuple(f"reuse_dims({self.buffer}, {d})" for d in open_dims)
        yield Alternative(collapse, str(self))
        for pair in adjacent_scopes(kernel):
            yield Alternative((join(pair), *collapse), str(self))

    @classmethod
    def candidates(cls, kernel: Kernel) -> Iterator[Move]:
        for buffer in kernel.buffers:
            if buffer.role == "tmp":
                for word in cls.WORDS:
                    if word not in {buffer.storage, "shared"}:
                        yield cls(BufferName(buffer.name), Word(word))

    @classmethod
    def further(cls, kernel: Kernel, place: Path | str, machine: Machine) -> Iterator[Move]:
        if isinstance(place, str) and kernel.buffer(place).role == "tmp":
            others = (word for word in cls.WORDS if word != kernel.buffer(place).storage)
            yield from (cls(BufferName(place), Word(word)) for word in others)


def temporary(kernel: Kernel, name: str) -> Buffer:
    """The temporary of that name. Raises Refusal for an argument of the kernel."""
    buffer = kernel.buffer(name)
    if buffer.role != "tmp":
        raise Refusal(
            "not-a-temporary", f"`{name}` is an argument of the kernel; only a tmp has storage of its own"
        )
    return buffer


def _check_dim(buffer: Buffer, dim: int) -> None:
    if not 0 <= dim < len(buffer.dims):
        has = f"dimensions 0 to {len(buffer.dims) - 1}" if buffer.dims else "no dimensions"
        raise Refusal("unknown-dim", f"`{buffer.name}` has {has}, not {dim}")


def _check_constant(buffer: Buffer, storage: str) -> None:
    elements = 1
    for i, dim in enumerate(buffer.dims):
        if not dim.collapsed:
            if not dim.extent.is_constant:
                raise Refusal(
                    "open-extent",
                    f"`{buffer.name}` has extent {dim.extent} in dimension {i}; in {storage} it must be a constant",
                    hint=f"reuse_dims({buffer.name}, {i}) or a fixed size makes it one",
                )
            elements *= dim.extent.offset
    kept = [dim.extent.offset for dim in buffer.dims if not dim.collapsed]
    each = elements // max(kept) if len(kept) > 1 else elements
    if storage == "reg" and each > MAX_REGISTER_ELEMENTS:
        beside = f" for each of {max(kept)}" if len(kept) > 1 else ""
        raise Refusal(
            "too-large", f"`{buffer.name}` has {each} elements{beside}, more than {MAX_REGISTER_ELEMENTS}"
        )
    if elements * buffer.dtype.itemsize > MAX_STACK_BYTES:
        size = elements * buffer.dtype.itemsize
        raise Refusal("too-large", f"`{buffer.name}` has {size} bytes, more than {MAX_STACK_BYTES}")


MOVES = (ReuseDims, MaterializeDims, PlaceBuffer)
