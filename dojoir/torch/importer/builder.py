"""The tools of the operators: tensors as functions of an index, and the nests that store them."""

from __future__ import annotations

import itertools
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch

from dojoir.ir.dtypes import BF16, BOOL, F16, F32, F64, I8, I16, I32, I64, U8, DType
from dojoir.ir.operations import CONVERSIONS
from dojoir.ir.words import KEYWORDS, RESERVED
from dojoir.torch.importer.element_values import (
    Convert,
    ElementValue,
    IndexAsValue,
    Number,
    Value,
    ValueCost,
    cast,
    cost,
    number,
)
from dojoir.torch.importer.index import (
    Divided,
    IndexSum,
    IteratorAtom,
    SizeAtom,
    as_index,
    divide,
    most,
    of_atom,
    product,
    recombine,
)
from dojoir.torch.importer.nests import ImportedProgram, Node, ProgramBuffer, ProgramStatement, loops

DTYPES = {
    torch.float64: F64, torch.float32: F32, torch.bfloat16: BF16, torch.float16: F16, torch.int64: I64,
    torch.int32: I32, torch.int16: I16, torch.int8: I8, torch.uint8: U8, torch.bool: BOOL,
}  # fmt: skip
"""The type of a buffer for each type of a tensor."""

TORCH = {name: dtype for dtype, name in DTYPES.items()}

_WORDS = RESERVED | {*KEYWORDS, *CONVERSIONS, "clamp", "isnan", "signbit"}
"""The words of the language, which no buffer is called."""


class Unsupported(Exception):
    """An operator, or a form of it, that there is no text for; `str` says why."""


Place = tuple[IndexSum, ...]


@dataclass(frozen=True)
class Tensor:
    """A tensor of some shape: the value at each index, and the buffer that it is, if it is one as it stands."""

    shape: Place
    dtype: DType
    at: Callable[[Place], Value]
    buffer: str | None = None
    label: str | None = None
    """The name of its buffer."""

    @property
    def rank(self) -> int:
        return len(self.shape)


Operand = Tensor | int | float | bool | IndexSum
"""The types of an elementwise operator's operand."""


class ProgramBuilder:
    """A program that grows: `program` has its buffers and nests; `node` is the operator that is being read."""

    def __init__(self, size_names: Mapping[str, str] | None = None) -> None:
        """`size_names` are the user's names of symbols of PyTorch."""
        self.program = ImportedProgram()
        self.size_names = {
            symbol: name
            for symbol, name in (size_names or {}).items()
            if name not in _WORDS and name.isidentifier()
        }
        self.node: Any = None
        self.parted: list[tuple[str, int, IndexSum]] = []
        """Dimensions of buffers that are to be two: the buffer, the dimension, the extent of the inner one."""
        self.origins: dict[str, Any] = {}
        """The operator that each buffer was made for."""
        self._count = 0

    # -- of the operator at hand ----------------------------------------------------------------------------
    def shape(self, of: Any = None) -> Place:
        """The shape of the operator's result (or of another fake tensor)."""
        value = self.node.meta["val"] if of is None else of
        return tuple(self.size(s) for s in value.shape)

    def dtype(self, of: Any = None) -> DType:
        """The element type of the operator's result."""
        value = self.node.meta["val"] if of is None else of
        return self.named(value.dtype)

    def named(self, dtype: Any) -> DType:
        """The element type of a type of PyTorch. Raises Unsupported."""
        if dtype not in DTYPES:
            raise Unsupported(f"elements of {dtype} have no type in a kernel")
        return DTYPES[dtype]

    def size(self, value: Any) -> IndexSum:
        """A size of PyTorch as an index."""
        if isinstance(value, IndexSum):
            return value
        return as_index(value) if isinstance(value, int) else self.of_sympy(value.node.expr)

    def of_sympy(self, expression: Any) -> IndexSum:
        """A size of PyTorch, which it keeps as an expression of sympy. Raises Unsupported."""
        return of_sympy(expression, self.size_name)

    def size_name(self, symbol: str) -> str:
        """The name of a size: the user's, or N0, N1, … in the order in which they come."""
        name = self.size_names.get(symbol)
        if name is None:
            used = {*self.size_names.values(), *self.program.buffers}
            name = next(n for n in map("N{}".format, itertools.count()) if n not in used)
            self.size_names[symbol] = name
        return name

    # -- buffers and nests -----------------------------------------------------------------------------------
    def var(self, extent: IndexSum) -> IteratorAtom:
        """A new iterator."""
        self._count += 1
        return IteratorAtom(self._count, extent)

    def iterate(self, shape: Sequence[IndexSum]) -> tuple[list[IteratorAtom], Place]:
        """Iterators over a shape, and the index that they make; there is none for an extent of 1."""
        made: list[IteratorAtom] = []
        index: list[IndexSum] = []
        for extent in shape:
            if extent.constant == 0:
                raise Unsupported("a tensor without elements")
            if extent.constant == 1:
                index.append(as_index(0))
            else:
                made.append(self.var(extent))
                index.append(of_atom(made[-1]))
        return made, tuple(index)

    def declare(self, shape: Place, dtype: DType, name: str | None = None, order: Any = None) -> ProgramBuffer:
        """A new buffer, called as the operator is; one without dimensions has a single element."""
        wanted = re.sub(r"\W", "_", name or self.node.name)
        wanted = f"{wanted}_" if wanted in _WORDS else f"p_{wanted}" if wanted[0].isdigit() else wanted
        taken, number_ = wanted, 2
        while taken in self.program.buffers or taken in self.size_names.values():
            taken, number_ = f"{wanted}_{number_}", number_ + 1
        buffer = ProgramBuffer(taken, shape or (as_index(1),), dtype, order)
        self.program.buffers[taken], self.origins[taken] = buffer, self.node
        return buffer

    def emit(self, variables: Sequence[IteratorAtom], *body: Node) -> None:
        """Adds a nest."""
        self.program.nests += loops(variables, body)

    def tensor(self, buffer: ProgramBuffer, shape: Place | None = None, dtype: DType | None = None) -> Tensor:
        """The tensor that a buffer is; `dtype` what it is read as."""
        own = buffer.shape if shape is None else shape
        kind = dtype or buffer.dtype

        def at(index: Place) -> Value:
            return cast(element(buffer, index), kind)

        return Tensor(own, kind, at, buffer.name if kind == buffer.dtype else None)

    def realize(self, tensor: Tensor, name: str | None = None) -> Tensor:
        """The tensor as a buffer: its own, or a new one that a nest fills."""
        if tensor.buffer is not None:
            return tensor
        return self.tensor(self.filled(tensor, name=name or tensor.label), tensor.shape)

    def filled(self, tensor: Tensor, dtype: DType | None = None, name: str | None = None) -> ProgramBuffer:
        """A new buffer, of the tensor's type or another, that a nest fills with the tensor."""
        buffer = self.declare(tensor.shape, dtype or tensor.dtype, name)
        variables, index = self.iterate(tensor.shape)
        self.emit(variables, ProgramStatement(element(buffer, index), "=", cast(tensor.at(index), buffer.dtype)))
        return buffer

    def zeros(self, shape: Place, dtype: DType) -> ProgramBuffer:
        """A new buffer that a nest fills with 0."""
        return self.filled(self.full(shape, 0, dtype))

    def joined(
        self, tensors: Sequence[Tensor], dim: int, shape: Place, dtype: DType, name: str | None = None
    ) -> Tensor:
        """Tensors behind each other along a dimension, in one new buffer."""
        buffer = self.declare(shape, dtype, name)
        first = as_index(0)
        for tensor in tensors:
            variables, index = self.iterate(tensor.shape)
            to = (*index[:dim], index[dim] + first, *index[dim + 1 :])
            self.emit(variables, ProgramStatement(element(buffer, to), "=", cast(tensor.at(index), dtype)))
            first = first + tensor.shape[dim]
        return self.tensor(buffer, shape)

    def cost(self, tensor: Tensor) -> ValueCost:
        """The cost of an element."""
        return cost(tensor.at(self.iterate(tensor.shape)[1])) if tensor.buffer is None else ValueCost(0, 0, 1)

    def stored(self, tensor: Tensor) -> Tensor:
        """The tensor, computed once where its elements are more than plain elements: for what reads each of them
        often."""
        value = tensor.at(self.iterate(tensor.shape)[1])
        while isinstance(value, Convert):
            value = value.arg
        if isinstance(value, Number) or (isinstance(value, ElementValue) and self._is_simple(value)):
            return tensor
        return self.realize(tensor, tensor.label or f"{self.node.name}_of")

    def _is_simple(self, load: ElementValue) -> bool:
        """Whether the indices are affine, but for dimensions that may be one."""
        index = list(load.index)
        extents = list(self.program.buffers[load.buffer].shape)
        for d in range(len(index) - 2, -1, -1):
            made = recombine(index[d], index[d + 1], extents[d + 1])
            if made is not None:
                index[d : d + 2], extents[d : d + 2] = [made], [extents[d] * extents[d + 1]]
        return all(isinstance(atom, SizeAtom | IteratorAtom) for one in index for atom in one.atoms)

    # -- tensors ----------------------------------------------------------------------------------------------
    def full(self, shape: Place, value: float | int | bool, dtype: DType) -> Tensor:
        """A number everywhere."""
        return Tensor(shape, dtype, lambda index: number(value, dtype))

    def broadcast(self, tensor: Tensor, shape: Place) -> Tensor:
        """The tensor in a larger shape; what takes long is computed once, before."""
        if tensor.shape == shape:
            return tensor
        missing = len(shape) - tensor.rank
        grows = [d for d in range(tensor.rank) if tensor.shape[d] != shape[d + missing]]
        if any(tensor.shape[d].constant != 1 for d in grows):
            raise Unsupported(f"a broadcast of {_shown(tensor.shape)} to {_shown(shape)}")
        is_larger = bool(grows) or any(s.constant != 1 for s in shape[:missing])
        if is_larger and tensor.buffer is None and self.cost(tensor).costly:
            tensor = self.realize(tensor)
        at = tensor.at

        def inside(index: Place) -> Value:
            return at(tuple(as_index(0) if d in grows else i for d, i in enumerate(index[missing:])))

        return Tensor(shape, tensor.dtype, inside)

    def pointwise(self, shape: Place, dtype: DType, make: Callable[..., Value], *args: Tensor) -> Tensor:
        """A tensor whose elements are made of those of others, broadcast."""
        wide = [self.broadcast(a, shape) for a in args]
        return Tensor(shape, dtype, lambda index: make(*(a.at(index) for a in wide)))

    def as_tensor(self, operand: Operand, dtype: DType | None = None) -> Tensor:
        """An operand of elements as a tensor of a type."""
        if isinstance(operand, Tensor):
            if dtype is None or operand.dtype == dtype:
                return operand
            at = operand.at
            return Tensor(operand.shape, dtype, lambda index: cast(at(index), dtype))
        if isinstance(operand, IndexSum):
            value, kind = operand, dtype or I64
            return Tensor((), kind, lambda index: cast(IndexAsValue(value, I64), kind))
        kind = dtype or (BOOL if isinstance(operand, bool) else I64 if isinstance(operand, int) else F32)
        return self.full((), operand, kind)

    def reduce(
        self,
        shape: Place,
        over: Sequence[IndexSum],
        value: Callable[[Place, Place], Value],
        op: str,
        start: float | int | bool,
        dtype: DType,
        name: str | None = None,
    ) -> Tensor:
        """Accumulates `value(index, index over)` by `op`, from `start` on. Narrow floats are carried in f32."""
        carried = dtype.compute
        buffer = self.declare(shape, carried, name)
        outer, index = self.iterate(shape)
        inner, below = self.iterate(over)
        target = element(buffer, index)
        first = ProgramStatement(target, "=", number(start, carried))
        added = ProgramStatement(target, op, cast(value(index, below), carried))
        self.emit(outer, first, *loops(inner, (added,)))
        return self.tensor(buffer, shape, dtype)


def element(buffer: ProgramBuffer, index: Place) -> ElementValue:
    """An element of a buffer."""
    return ElementValue(buffer.name, index or (as_index(0),), buffer.dtype)


def _shown(shape: Place) -> str:
    return f"[{', '.join(s.key for s in shape)}]"


def of_sympy(expression: Any, name: Callable[[str], str]) -> IndexSum:
    """An expression of sympy as an index; `name` gives the sizes of symbols. Raises Unsupported."""
    kind = type(expression).__name__
    if expression.is_Integer:
        return as_index(int(expression))
    if expression.is_Symbol:
        return of_atom(SizeAtom(name(str(expression))))
    args = [of_sympy(a, name) for a in expression.args if not (kind == "Pow" and a is expression.args[1])]
    match kind:
        case "Add":
            return sum(args[1:], args[0])
        case "Mul":
            return product(tuple(args))
        case "Pow" if expression.args[1].is_Integer and expression.args[1] > 0:
            return product((args[0],) * int(expression.args[1]))
        case "FloorDiv" | "CleanDiv":
            return divide(args[0], args[1])[0]
        case "Mod" | "PythonMod":
            return divide(args[0], args[1])[1]
        case "Max" if len(args) == 2:
            return most(args[0], args[1])
        case _:
            raise Unsupported(f"the size {expression}")


def is_plain(index: IndexSum) -> bool:
    """Whether it has no quotient in it."""
    return not any(isinstance(atom, Divided) for atom in index.atoms)
