"""What the shapes of a call come to, worked out by a function written for one kernel.

`solve` and the checks of `Signature` go through the kernel's expressions at every call that is new to them, and say
what is wrong. The function here has those expressions written out, and says of arrays only that they fit, with the
sizes and spans that they come to. Where it says nothing, the others decide.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping, Sequence
from typing import cast

from dojoir.ir.affine import Affine, FloorDiv, Iter, Mod, SizeVar
from dojoir.ir.nodes import Buffer, Kernel
from dojoir.runtime.call.scalars import takes_value
from dojoir.runtime.call.views import View

Found = tuple[dict[str, int], tuple[int, ...]]
"""Sizes by name, and the bytes that each array spans."""

Fitting = Callable[[Sequence[View], Mapping[str, int]], Found | None]

LARGEST = 1 << 31
"""Sizes from here on are left to the slow checks, which know what an expression can bear."""


@functools.lru_cache(256)
def fitting(kernel: Kernel, given: frozenset[str]) -> Fitting:
    """The function for calls that give these sizes by name. It has the views of the arrays, in declared order."""
    names: dict[str, object] = {}
    exec(_Writer(kernel, given).text(names), names)
    return cast("Fitting", names["fit"])


def python_of(value: Affine, number: Mapping[str, int]) -> str:
    """An expression in sizes as Python: each size is `n` and its number."""
    parts: list[str] = []
    for atom, factor in value.terms:
        match atom:
            case SizeVar(name):
                text = f"n{number[name]}"
            case FloorDiv(numerator, divisor):
                text = f"(({python_of(numerator, number)}) // {divisor})"
            case Mod(numerator, divisor):
                text = f"(({python_of(numerator, number)}) % {divisor})"
            case Iter():
                raise AssertionError("a size has no iterators")
        parts.append(text if factor == 1 else f"{factor} * {text}")
    if value.offset or not parts:
        parts.append(str(value.offset))
    return " + ".join(parts)


class _Writer:
    def __init__(self, kernel: Kernel, given: frozenset[str]) -> None:
        self.kernel = kernel
        self.given = given
        self.arrays = tuple(buffer for buffer in kernel.arguments if not takes_value(buffer))
        self.number = {name: i for i, name in enumerate(kernel.runtime_sizes)}
        self.lines: list[str] = []

    def need(self, condition: str) -> None:
        self.lines.append(f"if not ({condition}): return None")

    def affine(self, value: Affine) -> str:
        return python_of(value, self.number)

    def text(self, names: dict[str, object]) -> str:
        """The module. `names` gets what it refers to."""
        if not self.given <= self.number.keys():
            return "def fit(views, given): return None\n"
        for name in sorted(self.given, key=self.number.__getitem__):
            self.size(name, f"given[{name!r}]")
        for v, buffer in enumerate(self.arrays):
            names[f"accepted{v}"] = frozenset(buffer.dtype.accepted)
            self.lines.append(f"_, dtype, shape{v}, strides{v}, _, _ = views[{v}]")
            self.need(f"dtype in accepted{v} and len(shape{v}) == {len(buffer.dims)}")
            self.lines += [f"d{v}_{d} = shape{v}[{d}]" for d in range(len(buffer.dims))]
        self.solve()
        for fact in self.kernel.facts:
            self.need(f"{self.affine(fact.left)} {fact.relation} {self.affine(fact.right)}")
        spans = [self.memory(v, buffer) for v, buffer in enumerate(self.arrays)]
        order = [name for name in self.number if name in self.given]
        order += [name for name in self.number if name not in self.given]
        sizes = ", ".join(f"{name!r}: n{self.number[name]}" for name in order)
        self.lines.append(f"return {{{sizes}}}, ({''.join(span + ', ' for span in spans)})")
        return "def fit(views, given):\n" + "".join(f"    {line}\n" for line in self.lines)

    def size(self, name: str, value: str) -> None:
        """A size that is known now."""
        self.lines.append(f"n{self.number[name]} = {value}")
        self.need(f"1 <= n{self.number[name]} < {LARGEST}")

    def solve(self) -> None:
        """The sizes that the shapes give, as `dojoir.meaning.sizes.solve` finds them, and all extents compared."""
        known = set(self.given)
        extents = [
            (dim.extent, f"d{v}_{d}")
            for v, buffer in enumerate(self.arrays)
            for d, dim in enumerate(buffer.dims)
            if not dim.collapsed
        ]
        progress = True
        while progress:
            progress = False
            for extent, actual in extents:
                unknown = extent.sizes - known
                if len(unknown) != 1:
                    continue
                (name,) = unknown
                factor = extent.coefficient(SizeVar(name))
                rest = extent - Affine.size(name) * factor
                if factor and name not in rest.sizes:
                    self.size(name, f"({actual} - ({self.affine(rest)})) // {factor}")
                    known.add(name)
                    progress = True
        if known != self.number.keys():
            self.lines.append("return None")
            return
        for extent, actual in extents:
            self.need(f"{actual} == {self.affine(extent)}")

    def memory(self, v: int, buffer: Buffer) -> str:
        """Holds the strides of an array against those of its declaration; the expression of its span in bytes."""
        dims = range(len(buffer.dims))
        pad = buffer.pad or (0,) * len(buffer.dims)
        empty = " or ".join(f"d{v}_{d} == 0" for d in dims) or "False"
        step = str(buffer.dtype.itemsize)
        for d in reversed(buffer.order or tuple(dims)):
            self.need(f"strides{v}[{d}] == {step} or d{v}_{d} <= 1 or {empty}")
            extent = "1" if buffer.dims[d].collapsed else f"max(0, {self.affine(buffer.dims[d].extent)})"
            step += f" * ({extent} + {pad[d]})"
        reach = "".join(f" + (d{v}_{d} - 1) * strides{v}[{d}] * (d{v}_{d} > 1)" for d in dims)
        return f"0 if {empty} else {buffer.dtype.itemsize}{reach}"
