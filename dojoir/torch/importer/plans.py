"""Calls of a program whose sizes are known: shapes, results and the order of arguments, worked out once."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from operator import itemgetter
from typing import Any

import torch

from dojoir.torch.importer.element_values import DType
from dojoir.torch.importer.index import Data, Divided, IndexSum, IteratorAtom, MinMaxAtom, SizeAtom
from dojoir.torch.importer.results import GivenInput, KnownResult, Lowered, Result, Stored, Viewed, buffers_of

Tensors = Sequence[torch.Tensor]

Make = Callable[[Tensors, Sequence[Any]], Any]
"""A result, of the tensors of a call by their slots and its inputs."""

_guards: Any = getattr(torch._C, "_dynamo", None)
_new: Any = getattr(getattr(_guards, "guards", None), "_empty_strided_cpu", None)


def empty_on_cpu(shape: Sequence[int], strides: Sequence[int], dtype: torch.dtype) -> torch.Tensor:
    """A new tensor."""
    return torch.empty_strided(shape, strides, dtype=dtype)


if _new is not None:  # what PyTorch's own generated code calls: a third of the time
    empty_on_cpu = _new


def evaluate(index: IndexSum, sizes: Mapping[str, int]) -> int:
    """The number that an index of sizes is."""
    total = 0
    for monomial, factor in index.terms.items():
        for atom in monomial:
            match atom:
                case SizeAtom(name):
                    factor *= sizes[name]
                case Divided(of, by, rest):
                    left, right = evaluate(of, sizes), evaluate(by, sizes)
                    factor *= left % right if rest else left // right
                case MinMaxAtom(first, second, largest):
                    pair = evaluate(first, sizes), evaluate(second, sizes)
                    factor *= max(pair) if largest else min(pair)
                case IteratorAtom() | Data():
                    raise AssertionError(f"{atom.key} is no size")
        total += factor
    return total


def strides_of(shape: Sequence[int], order: Sequence[int] | None = None) -> tuple[int, ...]:
    """The strides of a dense tensor whose dimensions lie in an order, from outermost to innermost."""
    made = [1] * len(shape)
    step = 1
    for d in reversed(order or range(len(shape))):
        made[d] = step
        step *= max(shape[d], 1)
    return tuple(made)


def picker(slots: Sequence[int]) -> Callable[[Sequence[Any]], Sequence[Any]]:
    """The function that picks the arguments of a kernel out of all."""
    if len(slots) == 1:
        only = slots[0]
        return lambda all_of_them: (all_of_them[only],)
    picked: Callable[[Sequence[Any]], Sequence[Any]] = itemgetter(*slots)
    return picked


@dataclass(frozen=True)
class Taken:
    """An input that kernels take: its number, and the shape and the order of dimensions that they take it in."""

    number: int
    shape: tuple[int, ...]
    order: tuple[int, ...] | None

    def fitted(self, tensor: torch.Tensor) -> torch.Tensor:
        """The tensor in this layout: itself, or a copy."""
        return fitted(tensor, self.shape, self.order)


@dataclass(frozen=True)
class AllocatedBuffer:
    """A buffer that a call allocates."""

    buffer: str
    shape: tuple[int, ...]
    strides: tuple[int, ...]
    dtype: torch.dtype
    is_result: bool
    shown: tuple[int, ...] | None = None
    """The shape of the one result that it is, where that is another."""

    @property
    def as_shown(self) -> AllocatedBuffer:
        """The same memory in the shape of the result."""
        return self if self.shown is None else replace(self, shape=self.shown, strides=strides_of(self.shown))

    @property
    def nbytes(self) -> int:
        count = self.dtype.itemsize
        for extent in self.shape:
            count *= extent
        return count


@dataclass(frozen=True)
class CallPlan:
    """All that a call of some sizes needs. The slots of its tensors are the inputs, the constants, and what it
    allocates, in this order."""

    sizes: dict[str, int]
    taken: tuple[Taken, ...]
    constants: tuple[tuple[torch.Tensor, tuple[int, ...]], ...]
    made: tuple[AllocatedBuffer, ...]
    slots: dict[str, int]
    results: tuple[Make, ...]
    first: int
    """The number of the first input that kernels take; -1 where they take none."""
    direct: tuple[str, ...] | None = None
    """The buffers of the results, where each is one in the shape that it is shown in."""


def planned(
    lowered: Lowered,
    arguments: Sequence[tuple[str, str]],
    dtypes: Mapping[DType, torch.dtype],
    sizes: dict[str, int],
) -> CallPlan:
    """The plan for some sizes; `arguments` are the buffers of all kernels with their roles."""
    buffers = lowered.program.buffers

    def shape(buffer: str) -> tuple[int, ...]:
        return tuple(evaluate(extent, sizes) for extent in buffers[buffer].shape)

    used = {buffer for buffer, _ in arguments}
    taken: list[Taken] = []
    slots: dict[str, int] = {}
    for number, one in enumerate(lowered.inputs):
        if one.buffer is not None and one.buffer in used:
            slots[one.buffer] = len(slots)
            taken.append(Taken(number, shape(one.buffer), buffers[one.buffer].order))
    constants = []
    for buffer, tensor in lowered.constants.items():
        slots[buffer] = len(slots)
        constants.append((tensor, shape(buffer)))
    wanted = [buffer for one in lowered.results for buffer in buffers_of([one])]
    shown = {
        one.buffer: tuple(evaluate(extent, sizes) for extent in one.shape)
        for one in lowered.results
        if isinstance(one, Stored) and wanted.count(one.buffer) == 1 and buffers[one.buffer].order is None
    }
    made = []
    for buffer in dict.fromkeys(buffer for buffer, role in arguments if role == "out"):
        slots[buffer] = len(slots)
        extents = shape(buffer)
        dtype = dtypes[buffers[buffer].dtype]
        seen = shown.get(buffer, extents)
        own = None if seen == extents else seen
        strides = strides_of(extents, buffers[buffer].order)
        made.append(AllocatedBuffer(buffer, extents, strides, dtype, buffer in wanted, own))
    results = tuple(_result(one, shape, slots, sizes) for one in lowered.results)
    first = taken[0].number if taken else -1
    return CallPlan(
        sizes, tuple(taken), tuple(constants), tuple(made), slots, results, first, _direct(lowered.results, shown)
    )


def _direct(results: Sequence[Result], shown: Mapping[str, tuple[int, ...]]) -> tuple[str, ...] | None:
    buffers = tuple(one.buffer for one in results if isinstance(one, Stored) and one.buffer in shown)
    return buffers if len(buffers) == len(results) else None


def _result(
    result: Result, shape: Callable[[str], tuple[int, ...]], slots: Mapping[str, int], sizes: Mapping[str, int]
) -> Make:
    match result:
        case KnownResult(value):
            known = evaluate(value, sizes) if isinstance(value, IndexSum) else value
            return lambda tensors, inputs: known
        case GivenInput(number):
            return lambda tensors, inputs: inputs[number]
        case Stored(buffer, of):
            slot, own = slots[buffer], tuple(evaluate(extent, sizes) for extent in of)
            if own == shape(buffer):
                return lambda tensors, inputs: tensors[slot]

            def stored(tensors: Tensors, inputs: Sequence[Any]) -> torch.Tensor:
                tensor = tensors[slot]
                return tensor if tensor.shape == own else tensor.view(own)

            return stored
        case Viewed(inner, steps):
            make = _result(inner, shape, slots, sizes)
            known_steps = [(target, [_numbers(a, sizes) for a in args], kwargs) for target, args, kwargs in steps]

            def viewed(tensors: Tensors, inputs: Sequence[Any]) -> Any:
                made = make(tensors, inputs)
                for target, args, kwargs in known_steps:
                    made = target(made, *args, **kwargs)
                return made

            return viewed


def _numbers(given: Any, sizes: Mapping[str, int]) -> Any:
    if isinstance(given, IndexSum):
        return evaluate(given, sizes)
    if isinstance(given, list):
        return [_numbers(one, sizes) for one in given]
    return given


def fitted(tensor: torch.Tensor, shape: tuple[int, ...], order: tuple[int, ...] | None) -> torch.Tensor:
    """The tensor in the layout that the kernels take: itself, or a copy."""
    if tensor.requires_grad:
        tensor = tensor.detach()
    if order is None:
        made = tensor if tensor.is_contiguous() else tensor.contiguous()
        return made if made.shape == shape else made.view(shape)
    if tensor.permute(order).is_contiguous():
        return tensor
    back = sorted(range(len(order)), key=lambda d: order[d])
    return tensor.permute(order).contiguous().permute(back)
