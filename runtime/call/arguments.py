"""The check of a call's arguments: every wrong argument is refused before anything runs."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import cached_property
from typing import cast

from dojoir.errors import ArgumentError
from dojoir.ir.buffer_rules import strided_error
from dojoir.ir.format import format_buffer
from dojoir.ir.nodes import Buffer, Kernel
from dojoir.meaning.flat import has_flat
from dojoir.meaning.sizes import solve
from dojoir.runtime.call.bound import ArgumentFit, BoundArguments
from dojoir.runtime.call.fitting import Fitting, fitting
from dojoir.runtime.call.layout import steps_of, strides_of
from dojoir.runtime.call.overlap import share_elements
from dojoir.runtime.call.scalars import Number, scalar_argument, takes_value
from dojoir.runtime.call.tensors import TORCH, of_torch
from dojoir.runtime.call.views import View, split_views, view_of
from dojoir.support.frozen import dataclass


@dataclass(frozen=True)
class Signature:
    """The arguments of a kernel, in declared order, and what holds between them."""

    kernel: Kernel
    view: Callable[[str, object], View] = view_of
    """The view of the memory of an argument, which must be where the kernel runs."""

    @cached_property
    def arguments(self) -> tuple[Buffer, ...]:
        return self.kernel.arguments

    @cached_property
    def size_names(self) -> frozenset[str]:
        return frozenset(self.kernel.runtime_sizes)

    @cached_property
    def names(self) -> frozenset[str]:
        """The names of the arguments."""
        return frozenset(buffer.name for buffer in self.arguments)

    def by_name(
        self, arguments: tuple[object, ...], named: Mapping[str, object]
    ) -> tuple[tuple[object, ...], dict[str, object]]:
        """Arguments in declared order, where some were given by name after the others, and the sizes."""
        rest = self.arguments[len(arguments) :]
        after = {buffer.name for buffer in rest}
        for name in named:
            if name in self.names and name not in after:
                raise ArgumentError(f"argument {name} is given twice: in order and by name", "argument-count")
        missing = [buffer.name for buffer in rest if buffer.name not in named]
        if missing:
            raise ArgumentError(
                f"{'arguments' if len(missing) > 1 else 'argument'} {', '.join(missing)} of kernel "
                f"{self.kernel.name} {'are' if len(missing) > 1 else 'is'} missing",
                "missing-argument",
            )
        sizes = {name: value for name, value in named.items() if name not in self.names}
        return (*arguments, *(named[buffer.name] for buffer in rest)), sizes

    def bind(
        self, arguments: Sequence[object], given: Mapping[str, object], known: Mapping[object, ArgumentFit]
    ) -> BoundArguments:
        """The call that these arguments and sizes make. `known` is what earlier calls came to, by their layouts.

        Raises ArgumentError, naming the argument, what was given and the cure."""
        if len(arguments) != len(self.arguments):
            raise self._wrong_count(len(arguments))
        if known and not self._has_flat and (not given or all(type(size) is int for size in given.values())):
            written = self._written if not given else fitting(self.kernel, frozenset(given), self.view)
            bound = written(arguments, cast("Mapping[str, int]", given), known)
            if bound is not None:
                return bound
        return self._bind(arguments, given, known)

    @cached_property
    def arrays(self) -> tuple[Buffer, ...]:
        """The arguments that are arrays: all but the scalars of role `in`."""
        return tuple(buffer for buffer in self.arguments if not takes_value(buffer))

    @cached_property
    def _has_flat(self) -> bool:
        return has_flat(self.kernel)

    @cached_property
    def _written(self) -> Fitting:
        """The checks of calls that give no sizes by name."""
        return fitting(self.kernel, frozenset(), self.view)

    def _bind(
        self, arguments: Sequence[object], given: Mapping[str, object], known: Mapping[object, ArgumentFit]
    ) -> BoundArguments:
        """The result of `bind` for the right number of arguments, one check after the other."""
        values: list[Number] = []
        views: list[View] = []
        for buffer, argument in zip(self.arguments, arguments, strict=True):
            if takes_value(buffer):
                values.append(scalar_argument(buffer, argument))
            else:
                views.append(self.view(buffer.name, argument))
                values.append(views[-1].address)
        if self._has_flat:
            named = {buffer.name: view for buffer, view in zip(self.arrays, views, strict=True)}
            views = [*split_views(self.kernel, named, given).values()]
        fit = self._fit(views, given)
        self._check_memory(views, fit.spans)
        values += map(fit.sizes.__getitem__, self.kernel.runtime_sizes)
        values += fit.steps
        return BoundArguments(tuple(values), fit, tuple(views), fit.layouts in known)

    # -- types, shapes, strides --------------------------------------------------------------------------
    def _fit(self, views: Sequence[View], given: Mapping[str, object]) -> ArgumentFit:
        for buffer, view in zip(self.arrays, views, strict=True):
            check_type(buffer, view)
        shapes = {buffer.name: view.shape for buffer, view in zip(self.arrays, views, strict=True)}
        sizes = solve(self.kernel, shapes, given)
        steps: list[int] = []
        for buffer, view in zip(self.arrays, views, strict=True):
            steps += _strides(buffer, view, sizes)
        spans = tuple(_span(view, buffer.dtype.itemsize) for buffer, view in zip(self.arrays, views, strict=True))
        layouts = (*((name, sizes[name]) for name in given), *(view[1:4] for view in views))
        return ArgumentFit(layouts, sizes, spans, tuple(steps))

    # -- memory ------------------------------------------------------------------------------------------
    def _check_memory(self, views: Sequence[View], spans: Sequence[int]) -> None:
        """Raises ArgumentError for an array that is written and may not be, is not aligned, or overlaps another
        one of which one is written."""
        for buffer, view, span in zip(self.arrays, views, spans, strict=True):
            if buffer.role != "in" and not view.writable:
                raise ArgumentError(
                    f"argument {buffer.name} is read-only, and the kernel writes it (role {buffer.role}): "
                    f"pass a writable array, such as {buffer.name}.{'clone' if of_torch(view.owner) else 'copy'}()",
                    "read-only",
                )
            align = buffer.align or buffer.dtype.itemsize
            if span and view.address % align:
                raise ArgumentError(
                    f"argument {buffer.name} starts at an address that is not a multiple of {align} bytes; "
                    f"the kernel declares '{format_buffer(buffer)}': use compiled.empty('{buffer.name}', …)",
                    "bad-alignment",
                )
        for i, (buffer, view, span) in enumerate(zip(self.arrays, views, spans, strict=True)):
            if buffer.role == "in":
                continue
            start, end = view.address, view.address + span
            for j, (other, its) in enumerate(zip(self.arrays, views, strict=True)):
                if j != i and start < its.address + spans[j] and its.address < end:
                    dense = not (buffer.strided or other.strided)
                    if not (dense or share_elements(view, its, buffer.dtype.stored, other.dtype.stored)):
                        continue
                    raise ArgumentError(
                        f"arguments {buffer.name} and {other.name} share memory, and the kernel writes "
                        f"{buffer.name}: pass a copy of one of them",
                        "overlap",
                    )

    def _wrong_count(self, count: int) -> ArgumentError:
        names = ", ".join(f"{buffer.role} {buffer.name}" for buffer in self.arguments) or "no arguments"
        return ArgumentError(
            f"kernel {self.kernel.name} takes {len(self.arguments)} arguments ({names}), not {count}; "
            f"{'results are arrays of the caller, such as np.empty(…); ' if count < len(self.arguments) else ''}"
            f"sizes are passed by name",
            "argument-count",
        )


# -- one array ---------------------------------------------------------------------------------------------
def check_type(buffer: Buffer, view: View) -> None:
    """Raises ArgumentError where the element type or the number of dimensions is another one."""
    accepted = buffer.dtype.accepted
    if view.dtype not in accepted:
        bits = f" holding the bits of {buffer.dtype}" if len(accepted) > 1 else ""
        names = reversed(accepted)
        if of_torch(view.owner):
            names = (f"{buffer.name}.to(torch.{name})" for name in names if name in TORCH)
        raise ArgumentError(
            f"argument {buffer.name} has element type {view.dtype}, and the kernel declares {buffer.dtype}: "
            f"pass {' or '.join(names)}{bits}",
            "bad-dtype",
        )
    if len(view.shape) != len(buffer.dims):
        raise wrong_rank(buffer, view.shape)


def wrong_rank(buffer: Buffer, shape: tuple[int, ...]) -> ArgumentError:
    """That an array has another number of dimensions than is declared."""
    return ArgumentError(
        f"argument {buffer.name} has {len(shape)} dimensions (shape {list(shape)}), and the kernel "
        f"declares {len(buffer.dims)}: '{format_buffer(buffer)}'",
        "bad-rank",
    )


def _strides(buffer: Buffer, view: View, sizes: Mapping[str, int]) -> tuple[int, ...]:
    """The strides that a call passes for an array. Raises ArgumentError for those that it may not have."""
    if not buffer.strided:
        _check_strides(buffer, view, sizes)
        return ()
    steps = steps_of(buffer, view.shape, view.strides)
    if steps is None:
        what = "dimensions" if buffer.order is None else f"dimensions in the order {list(buffer.order)}"
        raise ArgumentError(
            f"argument {buffer.name} has strides {list(view.strides)} in bytes; of what is declared strided, "
            f"elements of the innermost dimension lie side by side, and {what} inside of one another without "
            f"overlap: pass {_dense_copy(buffer, view)}",
            "bad-stride",
        )
    return steps


def _dense_copy(buffer: Buffer, view: View) -> str:
    """The function that makes a dense copy of an array."""
    return f"{buffer.name}.contiguous()" if of_torch(view.owner) else f"np.ascontiguousarray({buffer.name})"


def _check_strides(buffer: Buffer, view: View, sizes: Mapping[str, int]) -> None:
    if 0 in view.shape:
        return
    item = buffer.dtype.itemsize
    needed = tuple(stride * item for stride in strides_of(buffer, sizes))
    for extent, has, must in zip(view.shape, view.strides, needed, strict=True):
        if extent > 1 and has != must:
            layout = "C-contiguous" if buffer.order is None and buffer.pad is None else format_buffer(buffer)
            cure = (
                f"pass {_dense_copy(buffer, view)}"
                if layout == "C-contiguous"
                else f"copy it into compiled.empty('{buffer.name}', …)"
            )
            apart = replace(buffer, strided=True, pad=None)
            if not strided_error(apart) and steps_of(apart, view.shape, view.strides) is not None:
                cure += f", or declare '{format_buffer(apart)}', whose rows may be apart"
            raise ArgumentError(
                f"argument {buffer.name} has strides {list(view.strides)} in bytes, and must be {layout}: "
                f"strides {list(needed)}; {cure}",
                "bad-stride",
            )


def _span(view: View, item: int) -> int:
    """How many bytes an array spans from its first element, once its strides are known to fit."""
    if 0 in view.shape:
        return 0
    return item + sum((n - 1) * step for n, step in zip(view.shape, view.strides, strict=True) if n > 1)
