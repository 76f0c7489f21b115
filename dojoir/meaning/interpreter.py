"""The meaning of a kernel: statements in the order of the text, iterations in rising order, one at a time.

The tree is written out as plain Python (`dojoir.meaning.to_python`) and run. It shares nothing with the lowering
but the typed tree.
"""

from __future__ import annotations

import math
import sys
from array import array
from collections.abc import Mapping
from dataclasses import field
from functools import cached_property, partial
from typing import Literal

import numpy as np
import numpy.typing as npt

from dojoir.errors import ArgumentError, Diagnostic, DojoError, KernelError, RunError, did_you_mean, repr_of
from dojoir.ir.affine import Affine, Iter, SizeVar
from dojoir.ir.dtypes import DTYPES
from dojoir.ir.format import format_access, format_buffer, format_statement
from dojoir.ir.nodes import Access, Buffer, Kernel, given_kernel, substitute_access
from dojoir.ir.where import place
from dojoir.meaning.bits import code_of, coded, from_floats, to_floats
from dojoir.meaning.data_facts import check_data
from dojoir.meaning.flat import flattened, has_flat, split_shapes
from dojoir.meaning.packed import packed, unpacked, unpacked_shape
from dojoir.meaning.scalar_args import scalar_value
from dojoir.meaning.scalar_ops import (
    FUNCTIONS,
    OF_TWO,
    away,
    clamp,
    divide_by_zero,
    fma,
    fma_f32,
    lower_zero,
    saturate,
    upper_zero,
)
from dojoir.meaning.sizes import given_inputs, solve
from dojoir.meaning.to_python import Script, transcribe
from dojoir.support.frozen import dataclass
from dojoir.support.public import public_with
from dojoir.types.elaborate import check
from dojoir.types.rounding import in_range, nearest, round_integer, rounder
from dojoir.types.typed import TypedStatement

Elements = list[int | float | bool | None]
"""A buffer: Python numbers in row-major order, None for an element that was never written."""

Array = npt.NDArray[np.generic]


@public_with(inputs="bad-inputs", precision="bad-precision")
def interpret(
    kernel: Kernel,
    inputs: Mapping[str, object],
    /,
    *,
    precision: Literal["declared", "f64"] = "declared",
    **sizes: int,
) -> dict[str, Array]:
    """Runs the kernel on arrays, and returns every `out` and `inout` as a new array, by name.

    `inputs` holds each `in` and `inout`. A NumPy array of the declared shape in any memory layout, whose type is
    one of `DType.accepted` (what the kernel says of order, padding and alignment is for compiled code), or a
    number for one without dimensions. Sizes that follow from the shapes may be left out. What is returned has the
    declared shape and the type `DType.stored`; an array of a packed buffer has bytes, half as many in the innermost
    dimension as are declared.

    With `precision="f64"` no float is rounded to a narrower type than f64, by a store or by a cast, and the float
    arrays that are returned are f64. The reference that rounding errors are measured against. Numbers in the text
    are values of their type all the same, and integers are what they are.

    Raises ArgumentError for arguments that do not fit. KernelError for types that do not, for an index out of
    bounds, an element read before it is written and one that is returned without being written. RunError for an
    index read from data or a shift that is out of range, a divisor that is 0, and where memory is exhausted.
    """
    if precision not in ("declared", "f64"):
        raise ArgumentError(f"precision is 'declared' or 'f64', not {repr_of(precision)}", "bad-precision")
    given_kernel(kernel)
    given_inputs(inputs)
    return Interpreter(kernel, precision == "f64").run(inputs, sizes)


@dataclass(frozen=True)
class Interpreter:
    """A kernel to be run several times, with floats in f64 or not: what its sizes alone decide is worked out once
    for each."""

    kernel: Kernel
    exact_floats: bool = False
    scripts: dict[tuple[int, ...], Script] = field(default_factory=dict, compare=False, repr=False)

    @cached_property
    def _typed(self) -> tuple[TypedStatement, ...]:
        return check(self.kernel)

    def run(self, inputs: Mapping[str, object], given_sizes: Mapping[str, int]) -> dict[str, Array]:
        """As `interpret` does, for a kernel and a mapping that are such."""
        kernel, typed = self.kernel, self._typed
        given = _arguments(kernel, inputs)
        arrays = {name: value for name, value in given.items() if isinstance(value, np.ndarray)}
        shapes = {name: unpacked_shape(kernel.buffer(name), value.shape) for name, value in arrays.items()}
        if has_flat(kernel):
            shapes = split_shapes(kernel, shapes, given_sizes)
            flat = {name: array.reshape(shapes[name]) for name, array in arrays.items() if kernel.buffer(name).flat}
            given = {**given, **flat}
        sizes = _all_sizes(kernel, solve(kernel, shapes, given_sizes))
        check_data(kernel.data_facts, lambda name: np.asarray(given[name]), sizes)
        call = _KernelRun(kernel, sizes, self.exact_floats)
        try:
            buffers = [call.elements(buffer, given.get(buffer.name)) for buffer in kernel.buffers]
            script = self.scripts.get(tuple(sizes.values()))
            if script is None:
                script = transcribe(kernel, typed, sizes, self.exact_floats)
                self.scripts[tuple(sizes.values())] = script
            call.run(script, buffers)
        except MemoryError:
            raise RunError(f"kernel {kernel.name} needs more memory than there is", "out-of-memory") from None
        return {
            buffer.name: flattened(buffer, call.result(buffer, elements))
            for buffer, elements in zip(kernel.buffers, buffers, strict=True)
            if buffer.role in ("out", "inout")
        }


_LIBRARY: Mapping[str, object] = {
    **FUNCTIONS,
    **OF_TWO,
    "lower_zero": lower_zero,
    "upper_zero": upper_zero,
    **{f"to_{dtype}": rounder(dtype) for dtype in DTYPES.values() if dtype.is_float},
    **{f"integer_to_{dtype}": partial(nearest, dtype=dtype) for dtype in DTYPES.values() if dtype.is_float},
    **{
        f"{way}_to_{dtype}": rounder(dtype, way)
        for dtype in DTYPES.values()
        if dtype.is_float
        for way in ("sat", "round_away", "round_to_zero")
    },
    **{
        f"integer_{way}_to_{dtype}": partial(round_integer, dtype=dtype, way=way)
        for dtype in DTYPES.values()
        if dtype.is_float
        for way in ("sat", "round_away", "round_to_zero")
    },
    **{f"in_range_{dtype}": partial(in_range, dtype) for dtype in DTYPES.values() if dtype.is_float},
    **{f"code_of_{dtype}": partial(code_of, dtype) for dtype in DTYPES.values() if dtype.is_float},
    **{f"coded_{dtype}": partial(coded, dtype) for dtype in DTYPES.values() if dtype.is_float},
    "away": away,
    "clamp": clamp,
    "divide_by_zero": divide_by_zero,
    "fma": fma,
    "fma_f32": fma_f32,
    "saturate": saturate,
    "inf": math.inf,
    "nan": math.nan,
}
"""The functions that the text of a kernel calls."""


# -- arguments ---------------------------------------------------------------------------------------------
def _arguments(kernel: Kernel, inputs: Mapping[str, object]) -> dict[str, Array | int | float]:
    """The arrays and numbers given, of the right type and rank; every one that is needed."""
    takes = [buffer.name for buffer in kernel.arguments if buffer.role != "out"]
    for name in inputs:
        if name in takes:
            continue
        if any(buffer.name == name for buffer in kernel.arguments):
            raise ArgumentError(f"{name} is an output: it is returned, do not pass it", "unknown-argument")
        raise ArgumentError(
            f"kernel {kernel.name} has no argument '{name}'{did_you_mean(name, takes)}; "
            f"it takes {', '.join(takes) or 'none'}",
            "unknown-argument",
        )
    missing = [name for name in takes if name not in inputs]
    if missing:
        role = kernel.buffer(missing[0]).role
        message = f"argument {missing[0]} is missing: kernel {kernel.name} declares it {role}"
        raise ArgumentError(message, "missing-argument")
    return {name: _argument(kernel.buffer(name), inputs[name]) for name in takes}


def _argument(buffer: Buffer, value: object) -> Array | int | float:
    accepted = buffer.dtype.accepted
    if not buffer.dims and not (buffer.role == "inout" and isinstance(value, np.ndarray)):
        return scalar_value(buffer, value)
    if not isinstance(value, np.ndarray):
        raise ArgumentError(
            f"argument {buffer.name} is of type {type(value).__name__}, not an array: "
            f"pass np.asarray(…, np.{buffer.dtype.stored})",
            "not-an-array",
        )
    if buffer.packed:
        accepted = ("uint8",)
    if value.dtype.name not in accepted:
        bits = f", which holds the bits of {buffer.dtype}" if len(accepted) > 1 else ""
        raise ArgumentError(
            f"argument {buffer.name} has element type {value.dtype.name}, and the kernel declares {buffer.dtype}: "
            f"pass {' or '.join(reversed(accepted))}{bits}{' (packed: two in a byte)' if buffer.packed else ''}",
            "bad-dtype",
        )
    if value.ndim not in {len(buffer.dims), len(buffer.flat or buffer.dims)}:
        raise ArgumentError(
            f"argument {buffer.name} has {value.ndim} dimensions (shape {list(value.shape)}), and the kernel "
            f"declares {len(buffer.dims)}: '{format_buffer(buffer)}'",
            "bad-rank",
        )
    return value


def _all_sizes(kernel: Kernel, solved: Mapping[str, int]) -> dict[str, int]:
    return {size.name: solved[size.name] if size.value is None else size.value for size in kernel.sizes}


@dataclass(frozen=True)
class _KernelRun:
    """A kernel at its sizes."""

    kernel: Kernel
    sizes: Mapping[str, int]
    exact_floats: bool

    def shape(self, buffer: Buffer) -> tuple[int, ...]:
        """The elements of a buffer that have storage of their own."""
        return tuple(1 if dim.collapsed else max(dim.extent.evaluate(self.sizes), 0) for dim in buffer.dims)

    def elements(self, buffer: Buffer, value: Array | int | float | None) -> Elements:
        """The contents of a buffer before the kernel runs."""
        if value is None:
            count = math.prod(self.shape(buffer))
            if count > sys.maxsize:
                raise MemoryError
            return [None] * count
        if not isinstance(value, np.ndarray):
            return [bool(value) if buffer.dtype.kind == "b" else value]
        value = unpacked(buffer, value)
        return list((to_floats(value, buffer.dtype) if buffer.dtype.is_float else value).ravel().tolist())

    def run(self, script: Script, buffers: list[Elements]) -> None:
        """Runs the kernel on its buffers, in declared order."""
        faults = _Faults(self.kernel, self.sizes, script.accesses)
        names: dict[str, object] = dict(_LIBRARY)
        names |= {f"b{position}": elements for position, elements in enumerate(buffers)}
        names |= {"f32": array("f", [0.0]), "outside": faults.outside, "unwritten": faults.unwritten}
        names |= {"shifted": faults.shifted, "divided": faults.divided}
        names |= {f"w{position}": list(buffers[position]) for position in script.sums}
        exec(script.code, names)
        entry = names["kernel"]
        assert callable(entry)
        entry()

    def result(self, buffer: Buffer, elements: Elements) -> Array:
        """The contents of a buffer after the kernel has run, as an array."""
        shape = self.shape(buffer)
        if None in elements:
            index = ", ".join(str(int(i)) for i in np.unravel_index(elements.index(None), shape))
            element = f"{buffer.name}[{index}]" if shape else buffer.name
            source, span = place(self.kernel, (), buffer)
            message = f"{element} is an output, and nothing writes it: assign every element"
            raise KernelError(Diagnostic("unwritten-output", message, span, source))
        if not buffer.dtype.is_float:
            return packed(buffer, np.array(elements, buffer.dtype.stored).reshape(shape))
        values = np.array(elements, np.float64).reshape(shape)
        return values if self.exact_floats else packed(buffer, from_floats(values, buffer.dtype))


@dataclass(frozen=True)
class _Faults:
    """The errors that a run may end with, from the numbers of `Script.accesses`."""

    kernel: Kernel
    sizes: Mapping[str, int]
    accesses: tuple[tuple[int, Access], ...]

    def outside(self, number: int, dim: int, value: int, iterators: tuple[int, ...]) -> DojoError:
        """Index `dim` of an access is `value`, which is no element of that dimension."""
        access = self.accesses[number][1]
        index = access.indices[dim]
        text = format_access(index) if isinstance(index, Access) else str(index)
        equals = "" if text == str(value) else f" = {value}"
        extent = self.kernel.buffer(access.buffer).dims[dim].extent.evaluate(self.sizes)
        message = f"index {text}{equals} of {access.buffer} is outside 0..{extent - 1}"
        if isinstance(index, Access):
            return RunError(self._diagnostic("index-out-of-range", message, number, iterators))
        return KernelError(self._diagnostic("out-of-bounds", message, number, iterators))

    def shifted(self, number: int, bits: int, count: int, iterators: tuple[int, ...]) -> DojoError:
        """A value of `bits` bits is shifted by `count`."""
        message = f"a shift by {count} is outside 0..{bits - 1}"
        return RunError(self._diagnostic("shift-out-of-range", message, number, iterators))

    def divided(self, number: int, iterators: tuple[int, ...]) -> DojoError:
        """A statement divides an integer by 0."""
        text = format_statement(self.kernel.sites[self.accesses[number][0]].statement)
        return RunError(self._diagnostic("division-by-zero", f"a divisor is 0: {text}", number, iterators))

    def unwritten(self, number: int, iterators: tuple[int, ...]) -> DojoError:
        """An access reads an element that was never written."""

        def value(atom: SizeVar | Iter) -> Affine:
            return Affine.constant(self.sizes[atom.name] if isinstance(atom, SizeVar) else iterators[atom.depth])

        element = format_access(substitute_access(self.accesses[number][1], value))
        message = f"{element} is read before it is written"
        return KernelError(self._diagnostic("read-before-write", message, number, iterators))

    def _diagnostic(self, code: str, message: str, number: int, iterators: tuple[int, ...]) -> Diagnostic:
        statement, access = self.accesses[number]
        when = [f"{name}={self.sizes[name]}" for name in self.kernel.runtime_sizes]
        when += [f"{{{depth}}}={value}" for depth, value in enumerate(iterators)]
        source, span = place(self.kernel, self.kernel.sites[statement].path, access)
        return Diagnostic(code, f"at {', '.join(when)}: {message}" if when else message, span, source)
