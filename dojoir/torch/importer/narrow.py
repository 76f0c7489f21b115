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
    NARROW,
    AppliedValue,
    CastValue,
    ElementValue,
    IndexAsValue,
    NumberValue,
    Value,
    cast,
    number,
)
from dojoir.torch.importer.nests import ImportedProgram, Node, ProgramStatement, stores, with_body

_TYPES = {"bf16": torch.bfloat16, "f16": torch.float16}


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
        program.buffers[name] = replace(program.buffers[name], dtype="f32")
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
        case ElementValue() | NumberValue():
            return True
        case AppliedValue("select", (_, yes, no)):
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
        return replace(load, dtype="f32") if load.buffer in self._wide else load

    def _stored(self, value: Value, dtype: str) -> Value:
        if value.dtype not in NARROW:
            return cast(self.value(value), dtype)
        made = self.value(value)
        if dtype not in NARROW:
            return cast(made, dtype)
        match made:
            case CastValue(of, "f32") if of.dtype == dtype:
                return of
            case AppliedValue("select", (condition, yes, no)):
                return AppliedValue("select", (condition, _narrow(yes, dtype), _narrow(no, dtype)), dtype)
            case _:
                return _narrow(made, dtype)

    def value(self, value: Value) -> Value:
        """The value; in f32 where it is narrow."""
        is_narrow = value.dtype in NARROW
        dtype = "f32" if is_narrow else value.dtype
        match value:
            case NumberValue(own):
                return number(own, dtype) if is_narrow else value
            case IndexAsValue(index):
                return IndexAsValue(index, dtype)
            case ElementValue():
                made = self._load(value)
                return CastValue(made, "f32") if made.dtype in NARROW else made
            case CastValue(of):
                return cast(self.value(of), dtype)
            case AppliedValue(("==" | "!=") as name, (left, right)) if (
                left.dtype in NARROW and right.dtype in NARROW
            ):
                return AppliedValue(name, (self._rounded(left), self._rounded(right)), dtype)
            case AppliedValue(("<" | "<=" | ">" | ">=" | "fmod" | "floor_mod") as name, args):
                return AppliedValue(name, tuple(map(self._with_rounded_numbers, args)), dtype)
            case AppliedValue(name, args):
                return AppliedValue(name, tuple(map(self.value, args)), dtype)

    def _with_rounded_numbers(self, value: Value) -> Value:
        if isinstance(value, NumberValue) and value.dtype in NARROW:
            return number(torch.tensor(float(value.value), dtype=_TYPES[value.dtype]).item(), "f32")
        return self.value(value)

    def _rounded(self, value: Value) -> Value:
        made = self._with_rounded_numbers(value)
        match made:
            case NumberValue() | CastValue(ElementValue(dtype="bf16" | "f16")):
                return made
            case _:
                return CastValue(CastValue(made, value.dtype), "f32")


def _narrow(value: Value, dtype: str) -> Value:
    match value:
        case NumberValue(own):
            return number(own, dtype)
        case CastValue(of, "f32") if of.dtype == dtype:
            return of
        case _:
            return CastValue(value, dtype)
