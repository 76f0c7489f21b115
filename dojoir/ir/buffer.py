"""The declarations of a kernel: its sizes and its arrays, with the facts on their data."""

from __future__ import annotations

from dataclasses import field, replace

from dojoir.errors import Span
from dojoir.ir.affine import Affine
from dojoir.ir.dtypes import DType
from dojoir.ir.rewriting.substitution import Replace
from dojoir.ir.words import DATA_FACTS
from dojoir.support.derived import cached_property
from dojoir.support.frozen import dataclass, hash_once

LARGEST_SIZE = 2**31 - 1
"""The largest value of a fixed size."""


@dataclass(frozen=True)
class Size:
    """A size of the kernel: a runtime integer ≥ 1, or fixed. A fixed size is folded wherever it is used."""

    name: str
    value: int | None = None
    loc: Span | None = field(default=None, compare=False, repr=False)


@dataclass(frozen=True)
class Dim:
    """One dimension of a buffer. A collapsed one (`~`) has no storage of its own: all indices share it."""

    extent: Affine
    collapsed: bool = False
    loc: Span | None = field(default=None, compare=False, repr=False)


@hash_once
@dataclass(frozen=True)
class DataFact:
    """A fact on the data of an argument: one of `DATA_FACTS`, with its bound where it has one."""

    word: str
    most: Affine | None = None

    def __str__(self) -> str:
        return self.word if self.most is None else f"{self.word}({self.most})"

    def with_sizes(self, new: Replace) -> DataFact:
        """The fact with other sizes in its bound."""
        return self if self.most is None else DataFact(self.word, self.most.substitute(new))


@hash_once
@dataclass(frozen=True)
class Buffer:
    """An array. `role` is in, out, inout or tmp; `order` lists the dimensions from outermost to innermost in
    memory; `pad` adds elements to the storage of each dimension. Chunks of 16 bytes are exchanged within blocks of
    eight rows of `swizzle` bytes (0: they are not). `align` is in bytes (0: the natural one); where it has `stream`
    bytes or more (0: nowhere), stores to it bypass the caches. `strided` says that neighbours of all dimensions but
    the innermost are as far apart as the call says. `flat` says how many of the dimensions, one after another, are
    one dimension of the array that a call gives. Of a `packed` one, two elements share a byte
    (`dojoir.ir.packing`). `facts` are what is said of the data of an argument, in the order of `DATA_FACTS`.

    An order that is the natural one, a padding of nothing, and a `flat` that joins nothing, are None."""

    role: str
    name: str
    dtype: DType
    dims: tuple[Dim, ...] = ()
    storage: str = "heap"
    order: tuple[int, ...] | None = None
    pad: tuple[int, ...] | None = None
    align: int = 0
    stream: int = 0
    strided: bool = False
    flat: tuple[int, ...] | None = None
    packed: bool = False
    facts: tuple[DataFact, ...] = ()
    swizzle: int = 0
    loc: Span | None = field(default=None, compare=False, repr=False)

    def __post_init__(self) -> None:
        if self.dims and self.order == tuple(range(len(self.dims))):
            object.__setattr__(self, "order", None)
        if self.dims and self.pad == (0,) * len(self.dims):
            object.__setattr__(self, "pad", None)
        if self.flat is not None and set(self.flat) == {1}:
            object.__setattr__(self, "flat", None)
        if len(self.facts) > 1:
            object.__setattr__(self, "facts", tuple(sorted(self.facts, key=lambda f: [*DATA_FACTS].index(f.word))))

    @cached_property
    def form(self) -> tuple[object, ...]:
        """Its declaration without its name."""
        layout = self.storage, self.order, self.pad, self.align, self.stream, self.strided, self.flat, self.packed
        return self.role, self.dtype, self.dims, *layout, self.facts, self.swizzle

    @cached_property
    def distinct(self) -> bool:
        """Whether no two of its elements are equal."""
        return any(fact.word == "distinct" for fact in self.facts)

    def with_sizes(self, new: Replace) -> Buffer:
        """The buffer with other sizes in its dimensions and in the facts on its data."""
        dims = tuple(replace(dim, extent=dim.extent.substitute(new)) for dim in self.dims)
        return replace(self, dims=dims, facts=tuple(fact.with_sizes(new) for fact in self.facts))

    @property
    def steps(self) -> tuple[int, ...]:
        """The dimensions whose strides a call gives, from the outermost in memory on: none if it is not strided."""
        return (self.order or tuple(range(len(self.dims))))[:-1] if self.strided else ()
