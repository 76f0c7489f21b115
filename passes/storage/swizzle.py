"""`swizzle`: chunks of shared memory exchanged, so that those of neighbouring rows lie in different banks. It is
its own inverse."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import ClassVar

from dojoir.ir.buffer_rules import SWIZZLES, swizzle_error
from dojoir.ir.nodes import Kernel, Path
from dojoir.passes.base.move import BufferName, Move, Refusal, Rewrite
from dojoir.passes.base.reach import Reach
from dojoir.passes.storage.temporaries import temporary
from dojoir.proof.check import identity
from dojoir.support.frozen import dataclass


@dataclass(frozen=True)
class Swizzle(Move):
    """Swizzles a temporary in `shared`: permutes chunks of 16 bytes, in blocks of eight rows of `row` bytes, by an
    XOR with the number of the row. Of rows of 128 bytes chunk q of row r lies at q ^ r % 8; of 64 and of 32, at
    q ^ r / 2 % 4 and q ^ r / 4 % 2. Eight rows are then read at one column without bank conflicts and without
    padding, and a copy of 16 bytes a thread keeps to lines of the memory. A row of 0 takes the swizzle away.
    The inverse is the same move, with what was there. Source: PTX ISA, "Swizzling modes".

    >>> import dojoir
    >>> k = dojoir.parse('''kernel f()
    ... in  x: f32[64, 32]
    ... out y: f32[64, 32]
    ... tmp t: f32[64, 32] shared
    ... 64
    ... | 32
    ... | | t[{0}, {1}] = x[{0}, {1}]
    ... | | y[{0}, {1}] = t[{0}, {1}]
    ... ''')
    >>> print(dojoir.apply(k, "swizzle(t, 128)"))
    kernel f()
    in  x: f32[64, 32]
    out y: f32[64, 32]
    tmp t: f32[64, 32] shared swizzle(128)
    <BLANKLINE>
    64
    | 32
    | | t[{0}, {1}] = x[{0}, {1}]
    | | y[{0}, {1}] = t[{0}, {1}]
    <BLANKLINE>
    """

    name: ClassVar[str] = "swizzle"
    reach: ClassVar[Reach] = Reach.PANE
    buffer: BufferName
    row: int

    def rewrite(self, kernel: Kernel) -> Rewrite:
        buffer = temporary(kernel, self.buffer)
        if buffer.swizzle == self.row:
            raise Refusal("no-change", f"`{buffer.name}` is swizzled so already")
        made = replace(buffer, swizzle=self.row)
        error = swizzle_error(made)
        if error is not None:
            cure = f"place({buffer.name}, shared) first" if buffer.storage != "shared" else None
            raise Refusal("bad-swizzle", error.partition(": leave")[0], None, cure)
        return Rewrite(kernel.replace_buffer(made), identity(kernel))

    def inverse(self, before: Kernel) -> Move:
        return Swizzle(self.buffer, before.buffer(self.buffer).swizzle)

    @classmethod
    def candidates(cls, kernel: Kernel) -> Iterator[Move]:
        for buffer in kernel.buffers:
            if buffer.storage == "shared" and not buffer.packed:
                yield cls(BufferName(buffer.name), 0 if buffer.swizzle else SWIZZLES[-1])

    @classmethod
    def with_numbers(cls, kernel: Kernel, place: Path | str, numbers: Sequence[int]) -> Iterator[Move]:
        if isinstance(place, str) and kernel.buffer(place).storage == "shared":
            yield from (cls(BufferName(place), row) for row in SWIZZLES)


MOVES = (Swizzle,)
