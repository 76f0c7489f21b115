"""The checks of a call, written out as one function for one kernel.

`solve` and the checks of `Signature` go through the kernel's expressions at every call, and say what is wrong. The
function here has those expressions written out, with what NumPy says of an array and the overlaps of each pair,
and says of arguments only that they fit and what they come to. Where it says nothing, the others decide."""

from __future__ import annotations

import ctypes
import functools
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import cast

import numpy as np

from dojoir.ir.affine import Affine, Extremum, FloorDiv, Iter, Mod, SizeVar
from dojoir.ir.nodes import Buffer, Kernel
from dojoir.meaning.bearable import bears
from dojoir.meaning.sizes import undivided
from dojoir.runtime.call.bound import ArgumentFit, BoundArguments
from dojoir.runtime.call.overlap import are_beside, rows_of
from dojoir.runtime.call.scalars import scalar_argument, takes_value
from dojoir.runtime.call.views import DIRECT, POINTER, View, view_of

Fitting = Callable[[Sequence[object], Mapping[str, int], Mapping[object, ArgumentFit]], BoundArguments | None]
"""From arguments in declared order (as many as there are), sizes by name, and what is known of earlier calls."""

LARGEST = (1 << 31) - 1
"""Sizes above it are left to the slow checks, which know what an expression can bear."""

MOST_PAIRS = 64
"""How many pairs of arrays are compared by a line each."""


@functools.lru_cache(256)
def fitting(kernel: Kernel, given: frozenset[str], view: Callable[[str, object], View] = view_of) -> Fitting:
    """The function for calls that give these sizes by name. `view` is how an argument is looked at.

    It raises what `view` and `scalar_argument` raise of an argument, in declared order."""
    names: dict[str, object] = {
        "BoundArguments": BoundArguments, "ArgumentFit": ArgumentFit, "View": View, "ndarray": np.ndarray,
        "new": tuple.__new__, "pointer": ctypes.c_void_p.from_address, "scalar": scalar_argument, "view": view,
    }  # fmt: skip
    exec(_FittingWriter(kernel, given, direct=DIRECT and view is view_of).text(names), names)
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
            case Extremum(word, some):
                text = f"{word}({', '.join(python_of(part, number) for part in some)})"
            case Iter():
                raise AssertionError("a size has no iterators")
        parts.append(text if factor == 1 else f"{factor} * {text}")
    if value.offset or not parts:
        parts.append(str(value.offset))
    return " + ".join(parts)


class _FittingWriter:
    def __init__(self, kernel: Kernel, given: frozenset[str], *, direct: bool) -> None:
        self.kernel = kernel
        self.given = given
        self.direct = direct
        self.arrays = tuple(buffer for buffer in kernel.arguments if not takes_value(buffer))
        self.number = {name: i for i, name in enumerate(kernel.runtime_sizes)}
        self.largest = min(LARGEST, bears(kernel))
        self.lines: list[str] = []

    def need(self, condition: str) -> None:
        self.lines.append(f"if not ({condition}): return None")

    def affine(self, value: Affine) -> str:
        return python_of(value, self.number)

    def text(self, names: dict[str, object]) -> str:
        """The module. `names` gets what it refers to."""
        if not self.given <= self.number.keys():
            return "def fit(arguments, given, known): return None\n"
        values = self.look(names)
        for name in sorted(self.given, key=self.number.__getitem__):
            self.size(name, f"given[{name!r}]")
        self.solve()
        for fact in self.kernel.facts:
            self.need(f"{self.affine(fact.left)} {fact.relation} {self.affine(fact.right)}")
        for v, buffer in enumerate(self.arrays):
            self.memory(v, buffer)
        self.check_overlap(names)
        arrays = range(len(self.arrays))
        order = [name for name in self.number if name in self.given]
        order += [name for name in self.number if name not in self.given]
        sizes = ", ".join(f"{name!r}: n{self.number[name]}" for name in order)
        values += [f"n{self.number[name]}" for name in self.kernel.runtime_sizes]
        steps = [f"s{v}_{d}" for v, buffer in enumerate(self.arrays) for d in buffer.steps]
        values += steps
        layouts = ["*given.items()"] if self.given else []
        self.lines += [
            f"layouts = {_tuple(layouts + [f'v{v}[1:4]' for v in arrays])}",
            "fit = known.get(layouts)",
            f"found = fit or new(ArgumentFit, (layouts, {{{sizes}}}, {_tuple(f'span{v}' for v in arrays)}, "
            f"{_tuple(steps)}))",
            f"return new(BoundArguments, ({_tuple(values)}, found, {_tuple(f'v{v}' for v in arrays)}, "
            "fit is not None))",
        ]
        return "def fit(arguments, given, known):\n" + "".join(f"    {line}\n" for line in self.lines)

    def look(self, names: dict[str, object]) -> list[str]:
        """Takes every argument, in declared order, and holds types against the declared ones. What the compiled
        function takes for each."""
        values: list[str] = []
        v = 0
        self.lines.append(f"{_tuple(f'a{i}' for i in range(len(self.kernel.arguments)))} = arguments")
        for i, buffer in enumerate(self.kernel.arguments):
            if takes_value(buffer):
                names[f"buffer{i}"] = buffer
                self.lines.append(f"s{i} = scalar(buffer{i}, a{i})")
                values.append(f"s{i}")
                continue
            look = f"view({buffer.name!r}, a{i})"
            if self.direct:
                names[f"type{v}"] = np.dtype(buffer.dtype.stored)
                asked = (
                    f"pointer(id(a{i}) + {POINTER}).value or 0, {buffer.dtype.stored!r}, a{i}.shape, a{i}.strides, "
                    f"a{i}.flags.writeable, a{i}"
                )
                look = f"new(View, ({asked})) if type(a{i}) is ndarray and a{i}.dtype is type{v} else {look}"
            self.lines += [f"v{v} = {look}", f"start{v}, dtype{v}, shape{v}, strides{v}, writable{v}, _ = v{v}"]
            values.append(f"start{v}")
            v += 1
        for v, buffer in enumerate(self.arrays):
            names[f"accepted{v}"] = frozenset(buffer.dtype.accepted)
            written = "" if buffer.role == "in" else f" and writable{v}"
            self.need(f"dtype{v} in accepted{v} and len(shape{v}) == {len(buffer.dims)}{written}")
            if buffer.dims:
                self.lines.append(f"{_tuple(f'd{v}_{d}' for d in range(len(buffer.dims)))} = shape{v}")
        return values

    def size(self, name: str, value: str) -> None:
        """A size that is known now."""
        self.lines.append(f"n{self.number[name]} = {value}")
        self.need(f"1 <= n{self.number[name]} <= {self.largest}")

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
                whole, times = undivided(extent, self.kernel.facts)
                unknown = whole.sizes - known
                if len(unknown) != 1:
                    continue
                (name,) = unknown
                factor = whole.coefficient(SizeVar(name))
                rest = whole - Affine.size(name) * factor
                if factor and name not in rest.sizes:
                    given = actual if times == 1 else f"{times} * {actual}"
                    self.size(name, f"({given} - ({self.affine(rest)})) // {factor}")
                    known.add(name)
                    progress = True
        if known != self.number.keys():
            self.lines.append("return None")
            return
        for extent, actual in extents:
            self.need(f"{actual} == {self.affine(extent)}")

    def memory(self, v: int, buffer: Buffer) -> None:
        """Holds the strides of an array against those of its declaration, and its address against its
        alignment."""
        dims = range(len(buffer.dims))
        pad = buffer.pad or (0,) * len(buffer.dims)
        empty = " or ".join(f"d{v}_{d} == 0" for d in dims) or "False"
        step = str(buffer.dtype.itemsize)
        if buffer.strided:
            self.steps(v, buffer, empty)
        for d in () if buffer.strided else reversed(buffer.order or tuple(dims)):
            self.need(f"strides{v}[{d}] == {step} or d{v}_{d} <= 1 or {empty}")
            extent = "1" if buffer.dims[d].collapsed else f"max(0, {self.affine(buffer.dims[d].extent)})"
            step += f" * ({extent} + {pad[d]})"
        reach = "".join(f" + (d{v}_{d} - 1) * strides{v}[{d}] * (d{v}_{d} > 1)" for d in dims)
        self.lines += [
            f"span{v} = 0 if {empty} else {buffer.dtype.itemsize}{reach}",
            f"end{v} = start{v} + span{v}",
        ]
        self.need(f"start{v} % {buffer.align or buffer.dtype.itemsize} == 0 or not span{v}")

    def steps(self, v: int, buffer: Buffer, empty: str) -> None:
        """Holds the strides of an array that are its own against what `layout.steps_of` asks, and names them."""
        item = buffer.dtype.itemsize
        (inner,) = set(range(len(buffer.dims))) - set(buffer.steps)
        self.need(f"strides{v}[{inner}] == {item} or d{v}_{inner} <= 1 or {empty}")
        self.lines.append(f"reach{v} = {item} * (d{v}_{inner} or 1)")
        for d in reversed(buffer.steps):
            self.lines.append(f"step = reach{v} if d{v}_{d} <= 1 or {empty} else strides{v}[{d}]")
            self.need(f"step >= reach{v}" + (f" and step % {item} == 0" if item > 1 else ""))
            self.lines += [f"s{v}_{d} = step // {item}", f"reach{v} = step * (d{v}_{d} or 1)"]

    def _item(self, v: int) -> str:
        """The bytes of an element of an array, and the dimensions that may have gaps."""
        return f"{self.arrays[v].dtype.itemsize}, {self.arrays[v].steps}"

    def check_overlap(self, names: dict[str, object]) -> None:
        """Holds arrays that are written apart from all others."""
        arrays = range(len(self.arrays))
        pairs = [(v, w) for v in arrays for w in range(v) if {self.arrays[v].role, self.arrays[w].role} != {"in"}]
        if len(pairs) <= MOST_PAIRS:
            for v, w in pairs:
                beside = ""
                if self.arrays[v].strided or self.arrays[w].strided:
                    names |= {"beside": are_beside, "rows": rows_of}
                    rows = (f"start{x}, rows(shape{x}, strides{x}, {self._item(x)})" for x in (v, w))
                    beside = f" or beside({', '.join(rows)})"
                self.need(f"start{v} >= end{w} or start{w} >= end{v}{beside}")
            return
        names["no_overlap"] = no_overlap
        spans = _tuple(f"(start{v}, end{v}, {buffer.role != 'in'})" for v, buffer in enumerate(self.arrays))
        self.need(f"no_overlap({spans})")


def no_overlap(spans: Sequence[tuple[int, int, bool]]) -> bool:
    """Whether no array that is written overlaps another one. An array is its first byte, its end, and whether it
    is written."""
    return not any(
        start < high and low < end
        for i, (start, end, written) in enumerate(spans)
        for low, high, other in spans[:i]
        if written or other
    )


def _tuple(items: Iterable[str]) -> str:
    """A tuple as Python writes it, of one item too."""
    return f"({''.join(item + ', ' for item in items)})"
