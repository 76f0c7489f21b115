"""Programs on bf16 and f16: computed in f32, and rounded where a result is stored.

PyTorch rounds after every operator; here what lies between stays in f32, as in PyTorch's own compiler, temporaries
too. Those that only hold elements of narrow arrays keep their type, and so do the factors of products, which matrix
units take in it. What is compared for equality is rounded first, so that `x == x.amax()` finds the same elements
wherever x is computed again. So is a number that elements are compared with or divided by for a rest, as PyTorch
does: there a little makes another result.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace

import torch

from dojoir.torch.importer.element_values import (
    BF16,
    F16,
    F32,
    NARROW,
    Apply,
    Convert,
    DType,
    ElementValue,
    IndexAsValue,
    Number,
    Value,
    cast,
    number,
)
from dojoir.torch.importer.nests import ImportedProgram, Node, ProgramStatement, stores, with_body

_TYPES = {BF16: torch.bfloat16, F16: torch.float16}


def widen(program: ImportedProgram, outside: Collection[str]) -> None:
    """Computes narrow floats in f32; the buffers `outside` keep their types."""
    wide = {
        name
        for name, buffer in program.buffers.items()
        if buffer.dtype in NARROW and name not in outside and _is_computed(program, name)
    }
    if not wide and not any(buffer.dtype in NARROW for buffer in program.buffers.values()):
        return
    for name in wide:
        program.buffers[name] = replace(program.buffers[name], dtype=F32)
    widening = _Widening(wide)
    program.nests = [widening.node(nest) for nest in program.nests]


def _is_computed(program: ImportedProgram, buffer: str) -> bool:
    """Whether some value that is stored there is more than an element of a narrow array."""
    return any(
        store.target.buffer == buffer and not _is_exact(store.value)
        for nest in program.nests
        for store in stores(nest)
    )


def _is_exact(value: Value) -> bool:
    """Whether a narrow value is one as it stands: an element, a number, a choice of those."""
    match value:
        case ElementValue() | Number():
            return True
        case Apply(_, "select", (_, yes, no)):
            return _is_exact(yes) and _is_exact(no)
        case _:
            return False


class _Widening:
    def __init__(self, wide: Collection[str]) -> None:
        self._wide = wide

    def node(self, node: Node) -> Node:
        match node:
            case ProgramStatement(target, op, value, condition, at, place):
                to = self._load(target)
                return ProgramStatement(
                    to, op, self._stored(value, to.dtype), None if condition is None else self.value(condition), at,
                    None if place is None else self.value(place),
                )  # fmt: skip
            case _:
                return with_body(node, self.node)

    def _load(self, load: ElementValue) -> ElementValue:
        return replace(load, dtype=F32) if load.buffer in self._wide else load

    def _stored(self, value: Value, dtype: DType) -> Value:
        if value.dtype not in NARROW:
            return cast(self.value(value), dtype)
        made = self.value(value)
        if dtype not in NARROW:
            return cast(made, dtype)
        match made:
            case Convert(to, of) if to == F32 and of.dtype == dtype:
                return of
            case Apply(_, "select", (condition, yes, no)):
                return Apply(dtype, "select", (condition, _narrow(yes, dtype), _narrow(no, dtype)))
            case _:
                return _narrow(made, dtype)

    def value(self, value: Value) -> Value:
        """The value; in f32 where it is narrow."""
        is_narrow = value.dtype in NARROW
        dtype = F32 if is_narrow else value.dtype
        match value:
            case Number(_, own):
                return number(own, dtype) if is_narrow else value
            case IndexAsValue(index):
                return IndexAsValue(index, dtype)
            case ElementValue():
                made = self._load(value)
                return Convert(F32, made) if made.dtype in NARROW else made
            case Convert(_, of):
                return cast(self.value(of), dtype)
            case Apply(_, ("eq" | "ne") as name, (left, right)) if left.dtype in NARROW and right.dtype in NARROW:
                return Apply(dtype, name, (self._rounded(left), self._rounded(right)))
            case Apply(_, ("lt" | "le" | "gt" | "ge" | "fmod" | "floor_mod") as name, args):
                return Apply(dtype, name, tuple(map(self._with_rounded_numbers, args)))
            case Apply(_, name, args):
                return Apply(dtype, name, tuple(map(self.value, args)))

    def _with_rounded_numbers(self, value: Value) -> Value:
        if isinstance(value, Number) and value.dtype in NARROW:
            return number(torch.tensor(float(value.value), dtype=_TYPES[value.dtype]).item(), F32)
        return self.value(value)

    def _rounded(self, value: Value) -> Value:
        made = self._with_rounded_numbers(value)
        match made:
            case Number() | Convert(_, ElementValue(dtype=DType("bf16" | "f16"))):
                return made
            case _:
                return Convert(F32, Convert(value.dtype, made))


def _narrow(value: Value, dtype: DType) -> Value:
    match value:
        case Number(_, own):
            return number(own, dtype)
        case Convert(to, of) if to == F32 and of.dtype == dtype:
            return of
        case _:
            return Convert(dtype, value)
