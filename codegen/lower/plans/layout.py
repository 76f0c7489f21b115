"""Where the elements of a buffer are: one flat offset for each tuple of indices, in elements."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property

from dojoir.codegen.lir.arith import add, affine_value, integer, mul
from dojoir.codegen.lir.program import Value
from dojoir.ir.affine import Affine, Mod
from dojoir.ir.buffer_rules import SWIZZLED_ROWS
from dojoir.ir.nodes import Access, Buffer
from dojoir.support.frozen import dataclass


@dataclass(frozen=True)
class SizeProduct:
    """`constant * factors[0] * …`, the factors affine in sizes and not constant."""

    constant: int = 1
    factors: tuple[Affine, ...] = ()

    def times(self, factor: Affine) -> SizeProduct:
        if factor.is_constant:
            return SizeProduct(self.constant * factor.offset, self.factors)
        return SizeProduct(self.constant, (*self.factors, factor))

    @property
    def text(self) -> str:
        """The product in the words of the language."""
        parts = [str(f) if len(f.terms) == 1 and not f.offset else f"({f})" for f in self.factors]
        return "*".join([str(self.constant), *parts] if self.constant != 1 else parts)

    @property
    def value(self) -> Value:
        """The product of the sizes as they are."""
        total: Value = integer(self.constant)
        for factor in self.factors:
            total = mul(total, affine_value(factor, ()))
        return total


@dataclass(frozen=True)
class Layout:
    """The memory of a buffer: dimensions in the order given, each with its padding, collapsed ones left out.

    The strides of a `strided` argument are the values of the variables called `steps`, one for each of
    `buffer.steps`. A call gives such that no two elements share memory."""

    buffer: Buffer
    steps: tuple[str, ...] = ()

    @cached_property
    def stored(self) -> tuple[tuple[int, Affine], ...]:
        """The dimensions that have storage, from outermost to innermost in memory, with padded extents."""
        dims = self.buffer.dims
        order = self.buffer.order or tuple(range(len(dims)))
        pad = self.buffer.pad or (0,) * len(dims)
        return tuple((d, dims[d].extent + pad[d]) for d in order if not dims[d].collapsed)

    @cached_property
    def elements(self) -> SizeProduct:
        """How many elements the buffer takes."""
        total = SizeProduct()
        for _, extent in self.stored:
            total = total.times(extent)
        if self.buffer.swizzle and not total.factors:  # whole blocks, within which chunks are exchanged
            block = SWIZZLED_ROWS * self.buffer.swizzle // self.buffer.dtype.itemsize
            total = SizeProduct(-(-total.constant // block) * block)
        return total

    @property
    def is_single(self) -> bool:
        """Whether the buffer has exactly one element."""
        return not self.elements.factors and self.elements.constant == 1

    def stride(self, dim: int) -> SizeProduct:
        """How far apart in memory neighbours along `dim`, a dimension with storage, are."""
        total = SizeProduct()
        if dim in self.buffer.steps:
            return total.times(Affine.size(self.steps[self.buffer.steps.index(dim)]))
        if self.steps:
            return total
        for d, extent in reversed(self.stored):
            if d == dim:
                return total
            total = total.times(extent)
        raise AssertionError(f"dimension {dim} of {self.buffer.name} has no storage")

    def joined(self, indices: Sequence[Affine | Access]) -> tuple[Affine | Access, ...]:
        """Equivalent indices without the divisions that cancel, which may exceed their dimensions but have the
        same offset: of rows of 300, `[i // 300, i % 300]`, which a collapsed scope leaves, is `[0, i]`."""
        found = list(indices)
        if self.steps:
            return tuple(found)
        for (outer, _), (inner, extent) in zip(self.stored, self.stored[1:], strict=False):
            high, low = found[outer], found[inner]
            if isinstance(high, Affine) and isinstance(low, Affine) and extent.is_constant:
                found[outer], found[inner] = _joined(high, low, extent.offset)
        return tuple(found)

    def offset(self, indices: Sequence[Value]) -> Value:
        """The offset of the element at `indices`, one for each dimension of the buffer: `(i*M + j)*K + k`, or
        `i*x_stride + j` where a call gives strides."""
        total: Value = integer(0)
        if self.steps:
            for d, _ in self.stored:
                total = add(total, mul(indices[d], self.stride(d).value))
            return total
        for d, extent in self.stored:
            total = add(mul(total, affine_value(extent, ())), indices[d])
        return total


def _joined(high: Affine, low: Affine, extent: int) -> tuple[Affine, Affine]:
    """Two indices of the same `high * extent + low`: of i // extent and i % extent, 0 and i; of (i // extent) % n
    and i % extent, 0 and i % (extent * n)."""
    for atom, coefficient in low.terms:
        if isinstance(atom, Mod) and atom.divisor == extent and coefficient == 1:
            whole, rest = atom.numerator // extent, low - Affine.atom(atom)
            if len((high - whole).terms) < len(high.terms):
                return high - whole, rest + atom.numerator
            for part, times in high.terms:
                if isinstance(part, Mod) and part.numerator == whole and times == 1:
                    return high - Affine.atom(part), rest + atom.numerator % (extent * part.divisor)
    return high, low
