"""Where a temporary lives; that taken back is the same move."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import ClassVar

from dojoir.backends.machine import Machine
from dojoir.ir.buffer_rules import stream_error, swizzle_error
from dojoir.ir.nodes import Kernel, Path
from dojoir.passes.base.alternatives import Alternative, adjacent_scopes, join
from dojoir.passes.base.move import BufferName, Move, Refusal, Rewrite, Word
from dojoir.passes.storage.temporaries import check_constant, temporary
from dojoir.proof.check import identity
from dojoir.proof.verdict import Verdict
from dojoir.support.frozen import dataclass


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
            check_constant(buffer, self.storage)
        moved = replace(buffer, storage=self.storage)
        streamed = stream_error(moved)
        if streamed is not None:
            raise Refusal("streamed", streamed.partition(": leave")[0], None, f"unstream({buffer.name}) first")
        if swizzle_error(moved) is not None:
            why = f"`{buffer.name}` is swizzled, which only what lives in shared can be, not in {self.storage}"
            raise Refusal("swizzled", why, None, f"swizzle({buffer.name}, 0) first")
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
    def _further(cls, kernel: Kernel, place: Path | str, machine: Machine) -> Iterator[Move]:
        if isinstance(place, str) and kernel.buffer(place).role == "tmp":
            meant = [word for word in cls.WORDS if word != "shared" or machine.kind == "gpu"]
            others = (word for word in meant if word != kernel.buffer(place).storage)
            yield from (cls(BufferName(place), Word(word)) for word in others)


MOVES = (PlaceBuffer,)
