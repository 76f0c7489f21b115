"""One callable of several versions of a kernel: each call's sizes pick the one that runs.

The choice is a function in machine code that takes what the kernel takes, compares sizes and calls on. So a call
is checked once, by the checks of the kernel that all versions begin from, whichever version it goes to."""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Mapping, Sequence
from itertools import accumulate
from typing import Any, Protocol, cast

from dojoir.codegen.lir.outcome import FIRST_CHECK
from dojoir.errors import RunError
from dojoir.ir.nodes import Buffer, Kernel
from dojoir.ir.size_condition import SizeCondition
from dojoir.meaning.bearable import bears, check_bearable
from dojoir.runtime.call.bound import BoundArguments
from dojoir.runtime.call.compiled import Compiled
from dojoir.runtime.call.entry import Load
from dojoir.runtime.call.scalars import Number, takes_value

When = tuple[tuple[SizeCondition, ...], ...]
"""Lines of conditions, of which one has to hold; none: always."""


class OfSizes(Protocol):
    """A kernel for calls of some sizes."""

    @property
    def kernel(self) -> Kernel: ...
    @property
    def when(self) -> When: ...


class Versioned(Protocol):
    """The versions of a kernel, such as `dojoir.passes.Versions`: the first that fits is taken, and the last fits
    all."""

    @property
    def start(self) -> Kernel: ...
    @property
    def versions(self) -> Sequence[OfSizes]: ...


Link = Callable[[str, Mapping[str, int]], tuple[int, object]]
"""From the text of an LLVM module, and the addresses of functions that it calls by name, to the address of its
function `entry`, and what keeps it there."""

_SOME_FUNCTION = ctypes.CFUNCTYPE(None)
"""A type of functions of C: all have one metaclass."""

_RELATION = {"==": "eq", "!=": "ne", "<=": "sle", ">=": "sge", "<": "slt", ">": "sgt"}


def fitting_version(given: Versioned, sizes: Mapping[str, int]) -> OfSizes:
    """The version that a call of such sizes takes."""
    return next(one for one in given.versions if _holds_at(one.when, sizes))


def _holds_at(when: When, sizes: Mapping[str, int]) -> bool:
    return not when or any(all(one.holds(sizes) for one in line) for line in when)


class VersionedCall(Compiled):
    """A kernel that runs as one of several, by the sizes of each call."""

    __slots__ = ("_bears", "_offsets", "_versions")

    def __init__(self, start: Kernel, versions: Sequence[tuple[Compiled, When]], load: Load, link: Link) -> None:
        """`versions` are compiled for one target and number of threads, the last without conditions; the statuses
        of their runtime checks follow each other."""
        made = [compiled for compiled, _ in versions]
        counts = [len(compiled._checks) for compiled in made]
        self._versions = tuple(made)
        self._offsets = tuple(accumulate(counts, initial=0))[:-1]
        self._bears = min(bears(compiled.kernel) for compiled in made)
        whens = [when for _, when in versions]
        address: int | Callable[..., int]
        addresses = [_address(compiled) for compiled in made]
        owner: object
        if all(addresses):
            called = {f"version{n}": number for n, number in enumerate(addresses) if number}
            address, owner = link(choice_text(start, list(zip(whens, self._offsets, strict=True))), called)
        else:
            address, owner = _chosen(start, made, whens, self._offsets), None
        source = "\n".join(compiled.source for compiled in made)
        before = next((compiled._before for compiled in made if compiled._before is not None), None)
        super().__init__(
            start, made[0].target, made[0].threads, source, address, (made, owner), before=before, load=load
        )

    def _bound(self, arguments: tuple[object, ...], sizes: Mapping[str, object]) -> BoundArguments:
        bound = super()._bound(arguments, sizes)
        if max(bound.fit.sizes.values(), default=0) > self._bears:
            for compiled in self._versions:
                check_bearable(compiled.kernel, bound.fit.sizes)
        return bound

    def _failure(self, status: int) -> RunError:
        number = status - FIRST_CHECK
        for compiled, offset in zip(reversed(self._versions), reversed(self._offsets), strict=True):
            if number >= offset:
                return compiled._failure(status - offset)
        return self._versions[-1]._failure(status)

    def __repr__(self) -> str:
        return (
            f"<compiled kernel {self.kernel.name} for {self.target}, {len(self._versions)} versions by size, "
            f"{self.threads} thread(s)>"
        )


def _address(compiled: Compiled) -> int | None:
    """Where the function of a kernel is; None where it is one of Python."""
    if not isinstance(type(compiled._function), type(_SOME_FUNCTION)):
        return None
    return ctypes.cast(cast("Any", compiled._function), ctypes.c_void_p).value


def _chosen(
    start: Kernel, made: Sequence[Compiled], whens: Sequence[When], offsets: Sequence[int]
) -> Callable[..., int]:
    """The same choice for functions of Python, such as those that run in an emulator."""
    names, first = start.runtime_sizes, len(start.arguments)

    def choose(*values: Number) -> int:
        sizes = {name: int(value) for name, value in zip(names, values[first:], strict=False)}
        for compiled, when, offset in zip(made, whens, offsets, strict=True):
            if _holds_at(when, sizes):
                status: int = cast("Any", compiled._function)(*values)
                return status + offset if status >= FIRST_CHECK else status
        raise AssertionError("the last version has no condition")

    return choose


# -- machine code ------------------------------------------------------------------------------------------
def choice_text(start: Kernel, versions: Sequence[tuple[When, int]]) -> str:
    """An LLVM module whose function `entry` is called as the kernel is, and calls the first of the functions
    `version0`, `version1`, … whose conditions hold. Each given by these, and by what is added to the statuses of
    its runtime checks."""
    size = {name: f"%size.{n}" for n, name in enumerate(start.runtime_sizes)}
    values = [f"{_passed(buffer)} %a.{n}" for n, buffer in enumerate(start.arguments)]
    values += [f"i64 {name}" for name in size.values()]
    values += [f"i64 %step.{n}" for n in range(sum(len(buffer.steps) for buffer in start.arguments))]
    types = ", ".join(value.rpartition(" ")[0] for value in values)
    lines = [f"declare i32 @version{v}({types})" for v in range(len(versions))]
    lines.append(f"define i32 @entry({', '.join(values)}) {{")
    number = 0
    for v, (when, offset) in enumerate(versions):
        for n, line in enumerate(when):
            other = f"v{v}.{n + 1}" if n + 1 < len(when) else f"v{v + 1}.0"
            if n or v:
                lines.append(f"v{v}.{n}:")
            for condition in line:
                value = size[condition.name]
                if condition.divisor:
                    lines.append(f"  %r{number} = urem i64 {value}, {condition.divisor}")
                    value = f"%r{number}"
                lines.append(f"  %c{number} = icmp {_RELATION[condition.relation]} i64 {value}, {condition.number}")
                lines.append(f"  br i1 %c{number}, label %ok{number}, label %{other}")
                lines.append(f"ok{number}:")
                number += 1
            lines.append(f"  br label %run{v}")
        if not when and v:
            lines.append(f"v{v}.0:")
        if when:
            lines.append(f"run{v}:")
        lines.append(f"  %status{v} = call i32 @version{v}({', '.join(values)})")
        if offset:
            lines += [
                f"  %fault{v} = icmp sge i32 %status{v}, {FIRST_CHECK}",
                f"  %more{v} = select i1 %fault{v}, i32 {offset}, i32 0",
                f"  %sum{v} = add i32 %status{v}, %more{v}",
                f"  ret i32 %sum{v}",
            ]
        else:
            lines.append(f"  ret i32 %status{v}")
    return "\n".join([*lines, "}", ""])


def _passed(buffer: Buffer) -> str:
    """The type in which an argument is passed, as `entry_text` has it."""
    if not takes_value(buffer):
        return "ptr"
    if buffer.dtype.is_float and buffer.dtype.bits >= 32:
        return "double" if buffer.dtype.bits == 64 else "float"
    width = 8 * buffer.dtype.itemsize
    return f"i{width}" + ("" if width == 64 else " signext" if buffer.dtype.kind == "i" else " zeroext")
