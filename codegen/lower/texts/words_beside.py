"""Accumulations of several GPU threads into elements narrower than a word: they are made in words beside these.

A GPU reads and changes a word of 4 or 8 bytes in one step. An element of 1 or 2 bytes shares its word with others,
which are not to be touched, and sums of narrow floats are made in f32 and rounded once. So the accumulations are
made in an array of words around the launch, and go from there into the elements, each by one thread:

    N : gx                          (B + 255) // 256 : gx
    | h[ids[{0}]] += x[{0}]         | min(256, B - 256*{0}) : bx
                                    | | h_words[256*{0} + {1}] = -0.0
                                    N : gx
                                    | h_words[ids[{0}]] += x[{0}]
                                    (B + 255) // 256 : gx
                                    | min(256, B - 256*{0}) : bx
                                    | | h[256*{0} + {1}] += h_words[256*{0} + {1}] if it is not -0.0

Each word begins with the identity of the operator. Where it still has that, the element is left alone: nothing was
accumulated, or nothing that changes it.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import replace

from dojoir.codegen.lower.texts.beside import (
    ON_DEVICE,
    AccumulatingPart,
    TextBeside,
    fresh,
    held_in,
    is_around,
    parted,
    parts_of,
    where,
)
from dojoir.ir.affine import Affine
from dojoir.ir.dtypes import DTYPES, DType
from dojoir.ir.nodes import (
    MAY_ASSIGN,
    Access,
    Buffer,
    Cast,
    Const,
    Expr,
    Extent,
    Kernel,
    Node,
    Op,
    Path,
    Scope,
    Site,
    Statement,
)
from dojoir.ir.words import GRID
from dojoir.support.frozen import dataclass
from dojoir.types.identities import neutral

WORD = 32
"""The bits of the narrowest element that threads change in one step."""

THREADS = 256
"""How many threads a block has that goes through all of an array."""

Met = Callable[[Kernel], Collection[Path]]
"""The statements of a kernel that write to elements which other threads write to as well."""


def with_words_beside(kernel: Kernel, met: Met) -> TextBeside:
    """The kernel with arrays of words for the elements narrower than these that several threads accumulate into."""
    beside = TextBeside.of(kernel)
    for buffer in kernel.buffers:
        if buffer.dtype.bits < WORD and any(_is_of(site, buffer) for site in kernel.sites):
            now = beside.kernel
            shared = {site.path for site in now.sites if _is_of(site, buffer)}.intersection(met(now))
            for part in reversed([*parts_of(now, buffer, shared)]):  # what is before stays in its place
                if any(map(part.holds, shared)) and is_around(now, part, buffer):
                    beside = _in_words(beside, buffer, part)
    return beside


def accumulating(kernel: Kernel) -> Collection[Path]:
    """All statements that blocks and threads of a GPU run."""
    return [site.path for site in kernel.sites if any(ON_DEVICE.intersection(s.marks) for s in site.scopes)]


def _is_of(site: Site, buffer: Buffer) -> bool:
    """Whether a statement accumulates into a buffer."""
    statement = site.statement
    return statement.target.buffer == buffer.name and statement.accumulation not in (None, MAY_ASSIGN)


def _in_words(beside: TextBeside, buffer: Buffer, part: AccumulatingPart) -> TextBeside:
    kernel, inside = beside.kernel, beside.sites(part)
    adding = {number: site for number, site in inside if site.statement.target.buffer == buffer.name}
    dtype = _word(kernel, buffer, [*adding.values()])
    words = _Words(buffer, fresh(kernel, f"{buffer.name}_words"), part.operator, dtype)
    depth = kernel.depth_of((*part.parent, part.first))
    by_grid = any(not _GRID.isdisjoint(s.marks) for _, site in inside for s in site.scopes[depth:])
    every = _Every(buffer, depth, by_grid)
    before, behind = ([(min(adding), (every.element(done),))] for done in (words.begun, words.ended))
    return beside.instead(part, buffer, words.instead, before, behind, {words.name: words.dtype})


def _word(kernel: Kernel, buffer: Buffer, sites: Sequence[Site]) -> DType:
    """The type of the words: that which the values have, or 4 bytes."""
    if not buffer.dtype.is_float:
        return DTYPES["u32" if buffer.dtype.kind == "u" else "i32"]
    return held_in(kernel, sites)


@dataclass(frozen=True)
class _Words:
    """The array `name` of words for the elements of a buffer, into which an operator accumulates."""

    buffer: Buffer
    name: str
    op: str
    dtype: DType

    @property
    def identity(self) -> Const:
        """The value that leaves every element alone."""
        if self.op == "+=" and self.dtype.is_float:
            return Const(-0.0)
        value = neutral(self.op, self.dtype)
        assert value is not None
        return Const(value)

    def instead(self, site: Site) -> tuple[Statement]:
        """A statement, that accumulates into the words."""
        node = site.statement
        condition, value = parted(node)
        if not self.dtype.is_float:
            value = Cast(self.dtype, Cast(self.buffer.dtype, value))
        return (Statement(replace(node.target, buffer=self.name), self.op, where(condition, value), node.loc),)

    def begun(self, element: Access) -> Statement:
        """Nothing is accumulated yet."""
        return Statement(replace(element, buffer=self.name), "=", self.identity)

    def ended(self, element: Access) -> Statement:
        """The accumulation of a word into its element, where there is anything in it."""
        word: Expr = replace(element, buffer=self.name)
        some = Op("ne", (word, self.identity))
        if self.identity.value == 0 and self.dtype.is_float:  # 0 is equal, and other bits
            bits = DTYPES[f"i{self.dtype.bits}"]
            some = Op("ne", (Cast(bits, word, way="bitcast"), Const(-(1 << (bits.bits - 1)))))
        return Statement(element, self.op, Op("when", (some, self._back(word))))

    def _back(self, word: Expr) -> Expr:
        return word if self.dtype.is_float else Cast(self.buffer.dtype, word)


_GRID = frozenset(GRID)


@dataclass(frozen=True)
class _Every:
    """Scopes through all elements of a buffer, inside of `depth` others: the blocks of a launch of their own, or
    the threads of one block."""

    buffer: Buffer
    depth: int
    by_grid: bool

    def element(self, done: Callable[[Access], Statement]) -> Node:
        """The scopes, with what is done to each element."""
        scopes, indices = list[tuple[Extent, tuple[str, ...]]](), dict[int, Affine]()

        def scope(mark: str, *bounds: Affine) -> Affine:
            scopes.append((Extent(bounds), (mark,) if mark else ()))
            return Affine.iterator(self.depth + len(scopes) - 1)

        left = [d for d, dim in enumerate(self.buffer.dims) if not dim.collapsed]
        if left:
            self._in_blocks(left, indices, scope) if self.by_grid else self._in_a_block(left, indices, scope)
        at = (indices.get(d, Affine.constant(0)) for d in range(len(self.buffer.dims)))
        node: Node = done(Access(self.buffer.name, tuple(at)))
        for extent, marks in reversed(scopes):
            node = Scope(extent, (node,), marks)
        return node

    def _in_blocks(self, left: list[int], indices: dict[int, Affine], scope: _NewScope) -> None:
        """Threads along the last dimension, and along the one before where the last is short."""
        last, axes = left.pop(), iter(GRID)
        width = self._extent(last)
        short = bool(left) and width.is_constant and width.offset <= THREADS // 2
        tiled = left.pop() if short else last
        tile = THREADS // max(width.offset, 1) if short else self._threads(last)
        blocks = [scope(next(axes), -(-self._extent(tiled) // tile))] if short else []
        for d in left[-2:][::-1]:
            indices[d] = scope(next(axes), self._extent(d))
        (block,) = blocks or [scope(next(axes), -(-width // tile))]
        inside = scope("by" if short else "bx", Affine.constant(tile), self._extent(tiled) - tile * block)
        indices[tiled] = tile * block + inside
        if short:
            indices[last] = scope("bx", width)
        self._along_each(left[:-2], indices, scope)

    def _in_a_block(self, left: list[int], indices: dict[int, Affine], scope: _NewScope) -> None:
        """The threads of a block along the last dimension."""
        last = left.pop()
        tile = self._threads(last)
        thread = scope("bx", Affine.constant(tile))
        self._along_each(left, indices, scope)
        indices[last] = tile * scope("", (self._extent(last) + (tile - 1) - thread) // tile) + thread

    def _along_each(self, dims: Sequence[int], indices: dict[int, Affine], scope: _NewScope) -> None:
        for d in dims:
            indices[d] = scope("", self._extent(d))

    def _extent(self, d: int) -> Affine:
        return self.buffer.dims[d].extent

    def _threads(self, d: int) -> int:
        extent = self._extent(d)
        return max(min(THREADS, extent.offset), 1) if extent.is_constant else THREADS


_NewScope = Callable[..., Affine]
"""Opens a scope, given its mark and bounds; gives its iterator."""
