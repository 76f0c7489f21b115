"""How each output of a kernel is compared: to the bit, a code at most a step off, or within what rounding
explains.

Under `fp strict` the text fixes every operation that is rounded once: what comes of these alone has one right
value. A narrow float that is stored by one conversion is the nearest of few numbers to a value that is known up to
a bound. Which one it is stands fixed, but where that value is as near to the middle of two as it may be off
(`discrete`)."""

from __future__ import annotations

from collections.abc import Iterator
from enum import Enum

from dojoir.ir.dtypes import DType
from dojoir.ir.nodes import Access, Kernel
from dojoir.ir.operations import ELEMENTARY
from dojoir.types.elaborate import check
from dojoir.types.typed import Apply, Convert, Load, Typed, TypedStatement

CODE_BITS = 8
"""Floats of so many bits or fewer are codes: of numbers that far apart, no result may be off by more than a
step."""


class ComparisonRule(Enum):
    """`EXACT`: the text fixes each bit. `CODES`: the nearest code, or where rounding may decide between two,
    either. `SETTLED`: the same of f16 and bf16, where it may be among more. `BOUNDED`: within the bound on
    errors."""

    EXACT = "exact"
    CODES = "codes"
    SETTLED = "settled"
    BOUNDED = "bounded"


def rules_of(kernel: Kernel) -> dict[str, ComparisonRule]:
    """The rule for each output of a kernel, by name."""
    typed = check(kernel)
    fixed, settled = fixed_buffers(kernel, typed), settled_buffers(kernel, typed)
    found: dict[str, ComparisonRule] = {}
    for buffer in kernel.arguments:
        if buffer.role == "in":
            continue
        if buffer.name in fixed:
            found[buffer.name] = ComparisonRule.EXACT
        elif buffer.name in settled:
            found[buffer.name] = ComparisonRule.CODES if buffer.dtype.bits <= CODE_BITS else ComparisonRule.SETTLED
        else:
            found[buffer.name] = ComparisonRule.BOUNDED
    return found


def rounds_to_codes(kernel: Kernel, dtype: DType) -> bool:
    """Whether a conversion to a type is one to the nearest of its numbers, and stays that: under `fp fast` small
    ones of bf16 may be taken for zero."""
    return dtype.is_float and dtype.bits < 32 and (dtype.bits <= CODE_BITS or kernel.fp != "fast")


def fixed_buffers(kernel: Kernel, typed: tuple[TypedStatement, ...]) -> frozenset[str]:
    """The buffers of whose elements the text fixes each bit: under `fp strict` those that depend on nothing that
    may be rounded in more than one way."""
    if kernel.fp != "strict":
        return frozenset()
    names = {buffer.name for buffer in kernel.buffers}
    open_: set[str] = set()
    while True:
        more = {
            one.target.buffer
            for one in typed
            if one.target.buffer not in open_ and any(_is_open(part, open_) for part in _parts_of(one))
        }
        if not more:
            return frozenset(names - open_)
        open_ |= more


def settled_buffers(kernel: Kernel, typed: tuple[TypedStatement, ...]) -> frozenset[str]:
    """The buffers of narrow floats in which every element is one conversion of a wider value, or a copy of
    such."""
    names = {buffer.name for buffer in kernel.buffers if rounds_to_codes(kernel, buffer.dtype)}
    while True:
        less = {
            one.target.buffer
            for one in typed
            if one.target.buffer in names
            and (
                one.op in ("add", "mul") or (isinstance(one.value, Load) and _is_other(one.value, names, one.dtype))
            )
        }
        if not less:
            return frozenset(names)
        names -= less


def _is_other(value: Load, names: set[str], dtype: DType) -> bool:
    return value.dtype == dtype and value.access.buffer not in names


def _parts_of(statement: TypedStatement) -> Iterator[Typed | Access]:
    yield statement.value
    yield statement.target
    if statement.condition is not None:
        yield statement.condition


def _is_open(part: Typed | Access, buffers: set[str]) -> bool:
    """Whether a value may be rounded in more than one way, or is read where one of these buffers says."""
    match part:
        case Access(_, indices):
            return any(isinstance(i, Access) and (i.buffer in buffers or _is_open(i, buffers)) for i in indices)
        case Load(_, access):
            return access.buffer in buffers or _is_open(access, buffers)
        case Convert(_, arg):
            return _is_open(arg, buffers)
        case Apply(_, name, args):
            return name in ELEMENTARY or any(_is_open(arg, buffers) for arg in args)
        case _:
            return False
