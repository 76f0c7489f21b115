"""Where a temporary lives, and how it lies there: moves that change its declaration and nothing else."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import permutations
from typing import ClassVar

from dojoir.backends.machine import Machine
from dojoir.ir.buffer_rules import SWIZZLES, stream_error, swizzle_error
from dojoir.ir.nodes import Buffer, Kernel
from dojoir.passes.base.about import AboutTemporary, Arguments, Declared
from dojoir.passes.base.alternatives import Alternative, adjacent_scopes, join
from dojoir.passes.base.move import Move, Refusal, Rewrite, Word
from dojoir.passes.base.reach import Reach
from dojoir.passes.storage.temporaries import check_constant, check_dim
from dojoir.proof.verdict import Verdict
from dojoir.support.frozen import dataclass


@dataclass(frozen=True)
class PlaceBuffer(AboutTemporary, name="place"):
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

    storage: Word

    WORDS: ClassVar[tuple[str, ...]] = ("heap", "stack", "reg", "shared")

    def rewritten(self, at: Declared) -> Rewrite:
        buffer, storage = at.buffer, self.storage
        if storage not in self.WORDS:
            raise Refusal("unknown-storage", f"'{storage}' is no place for a buffer: {', '.join(self.WORDS)}")
        if storage == buffer.storage:
            raise Refusal("no-change", f"`{buffer.name}` lives in {buffer.storage} already")
        if storage in {"stack", "reg"}:
            check_constant(buffer, storage)
        moved = replace(buffer, storage=storage)
        streamed = stream_error(moved)
        if streamed is not None:
            raise Refusal("streamed", streamed.partition(": leave")[0], None, f"unstream({buffer.name}) first")
        if swizzle_error(moved) is not None:
            why = f"`{buffer.name}` is swizzled, which only what lives in shared can be, not in {storage}"
            raise Refusal("swizzled", why, None, f"swizzle({buffer.name}, 0) first")
        return at.replaced(moved)

    def back(self, at: Declared) -> Move:
        return PlaceBuffer(self.buffer, Word(at.buffer.storage))

    def alternatives(self, kernel: Kernel, verdict: Verdict) -> Iterator[Alternative]:
        """A place of constant size: the dimensions of open extent collapsed."""
        dims = kernel.buffer(self.buffer).dims
        open_dims = [d for d, dim in enumerate(dims) if not dim.collapsed and not dim.extent.is_constant]
        collapse = tuple(f"reuse_dims({self.buffer}, {d})" for d in open_dims)
        yield Alternative(collapse, str(self))
        for pair in adjacent_scopes(kernel):
            yield Alternative((join(pair), *collapse), str(self))

    @classmethod
    def listed(cls, at: Declared) -> Arguments:
        return ((Word(word),) for word in cls.WORDS if word not in {at.buffer.storage, "shared"})

    @classmethod
    def more(cls, at: Declared, machine: Machine) -> Arguments:
        meant = [word for word in cls.WORDS if word != "shared" or machine.kind == "gpu"]
        return ((Word(word),) for word in meant if word != at.buffer.storage)


@dataclass(frozen=True)
class ReorderDims(AboutTemporary, name="reorder_dims", reach=Reach.PANE):
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

    order: tuple[int, ...]

    def rewritten(self, at: Declared) -> Rewrite:
        natural = range(len(at.buffer.dims))
        if sorted(self.order) != [*natural]:
            raise Refusal("bad-order", f"the order must name each of the dimensions {[*natural]} once")
        if self.order == _order(at.buffer):
            raise Refusal("no-change", f"`{at.buffer.name}` has this order already")
        return at.replaced(replace(at.buffer, order=self.order))

    def back(self, at: Declared) -> Move:
        return ReorderDims(self.buffer, _order(at.buffer))

    @classmethod
    def listed(cls, at: Declared) -> Arguments:
        now = _order(at.buffer)
        return (((*now[:i], now[i + 1], now[i], *now[i + 2 :]),) for i in range(len(now) - 1))

    @classmethod
    def more(cls, at: Declared, machine: Machine) -> Arguments:
        now = _order(at.buffer)
        return ((order,) for order in permutations(range(len(now))) if order != now)


def _order(buffer: Buffer) -> tuple[int, ...]:
    """The order in which the dimensions of a buffer lie in memory."""
    return buffer.order or tuple(range(len(buffer.dims)))


@dataclass(frozen=True)
class PadDims(AboutTemporary, name="pad_dims", reach=Reach.PANE):
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

    dim: int
    elements: int

    def rewritten(self, at: Declared) -> Rewrite:
        name, count = at.buffer.name, len(at.buffer.dims)
        if not 0 <= self.dim < count or self.elements < 0:
            raise Refusal("bad-padding", f"`{name}` has no dimension {self.dim} to pad with {self.elements}")
        now = list(at.buffer.pad or (0,) * count)
        if now[self.dim] == self.elements:
            raise Refusal("no-change", f"dimension {self.dim} of `{name}` is padded so already")
        now[self.dim] = self.elements
        return at.replaced(replace(at.buffer, pad=tuple(now)))

    def back(self, at: Declared) -> Move:
        pad = at.buffer.pad
        return PadDims(self.buffer, self.dim, pad[self.dim] if pad else 0)

    @classmethod
    def listed(cls, at: Declared) -> Arguments:
        count = len(at.buffer.dims)
        return [(count - 1, 16)] if count > 1 else []

    @classmethod
    def numbered(cls, at: Declared, numbers: Sequence[int]) -> Arguments:
        return ((d, n) for d in range(len(at.buffer.dims)) for n in (1, *numbers) if n > 0)


@dataclass(frozen=True)
class Swizzle(AboutTemporary, name="swizzle", reach=Reach.PANE):
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

    row: int

    def rewritten(self, at: Declared) -> Rewrite:
        buffer = at.buffer
        if buffer.swizzle == self.row:
            raise Refusal("no-change", f"`{buffer.name}` is swizzled so already")
        made = replace(buffer, swizzle=self.row)
        error = swizzle_error(made)
        if error is not None:
            cure = f"place({buffer.name}, shared) first" if buffer.storage != "shared" else None
            raise Refusal("bad-swizzle", error.partition(": leave")[0], None, cure)
        return at.replaced(made)

    def back(self, at: Declared) -> Move:
        return Swizzle(self.buffer, at.buffer.swizzle)

    @classmethod
    def listed(cls, at: Declared) -> Arguments:
        shared = at.buffer.storage == "shared" and not at.buffer.packed
        return [(0 if at.buffer.swizzle else SWIZZLES[-1],)] if shared else []

    @classmethod
    def numbered(cls, at: Declared, numbers: Sequence[int]) -> Arguments:
        return ((row,) for row in SWIZZLES if at.buffer.storage == "shared")


@dataclass(frozen=True)
class ReuseDims(AboutTemporary, name="reuse_dims", reach=Reach.PANE):
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

    dim: int

    def rewritten(self, at: Declared) -> Rewrite:
        name, dims = at.buffer.name, at.buffer.dims
        if not 0 <= self.dim < len(dims):
            raise Refusal("unknown-dim", f"`{name}` has dimensions 0 to {len(dims) - 1}, not {self.dim}")
        if dims[self.dim].collapsed:
            raise Refusal("no-change", f"dimension {self.dim} of `{name}` is collapsed already")
        return at.replaced(_collapsed(at.buffer, self.dim, True))

    def back(self, at: Declared) -> Move:
        return MaterializeDims(self.buffer, self.dim)

    @classmethod
    def listed(cls, at: Declared) -> Arguments:
        return ((d,) for d, dim in enumerate(at.buffer.dims) if not dim.collapsed)


@dataclass(frozen=True)
class MaterializeDims(AboutTemporary, name="materialize_dims"):
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

    dim: int

    def rewritten(self, at: Declared) -> Rewrite:
        buffer = at.buffer
        check_dim(buffer, self.dim)
        if not buffer.dims[self.dim].collapsed:
            raise Refusal("no-change", f"dimension {self.dim} of `{buffer.name}` has storage of its own already")
        changed = _collapsed(buffer, self.dim, False)
        if buffer.storage in {"stack", "reg"}:
            check_constant(changed, buffer.storage)
        return at.replaced(changed)

    def back(self, at: Declared) -> Move:
        return ReuseDims(self.buffer, self.dim)

    @classmethod
    def listed(cls, at: Declared) -> Arguments:
        return ((d,) for d, dim in enumerate(at.buffer.dims) if dim.collapsed)


def _collapsed(buffer: Buffer, number: int, collapsed: bool) -> Buffer:
    dims = list(buffer.dims)
    dims[number] = replace(dims[number], collapsed=collapsed)
    return replace(buffer, dims=tuple(dims))
