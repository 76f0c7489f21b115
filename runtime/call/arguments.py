"""What a call must be given, and whether it was: every wrong argument is refused before anything runs."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import cached_property
from typing import NamedTuple

from dojoir.errors import ArgumentError
from dojoir.ir.nodes import Buffer, Kernel
from dojoir.ir.text import format_buffer
from dojoir.meaning.bearable import check_bearable
from dojoir.meaning.sizes import solve
from dojoir.runtime.call.fitting import Fitting, fitting
from dojoir.runtime.call.layout import strides_of
from dojoir.runtime.call.scalars import Number, scalar_argument, takes_value
from dojoir.runtime.call.tensors import TORCH, of_torch
from dojoir.runtime.call.views import View, view_of
from dojoir.support.frozen import dataclass


class Fit(NamedTuple):
    """What layouts (type, shape and strides of every array) and given sizes come to: the sizes of the call, and
    the bytes that each array spans. Of two calls alike in these, the second needs no more checks of them."""

    layouts: tuple[object, ...]
    sizes: dict[str, int]
    spans: tuple[int, ...]


class Bound(NamedTuple):
    """Arguments that fit: the `values` that the compiled function takes (addresses, scalars, sizes), and the
    `views` of the arrays, which own the memory behind them. `is_known` says that their layouts were known."""

    values: tuple[Number, ...]
    fit: Fit
    views: tuple[View, ...]
    is_known: bool


@dataclass(frozen=True)
class Signature:
    """The arguments of a kernel, in declared order, and what holds between them."""

    kernel: Kernel
    view: Callable[[str, object], View] = view_of
    """What the memory of an argument is, which must be where the kernel runs."""

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

    def bind(self, arguments: Sequence[object], given: Mapping[str, object], known: Mapping[object, Fit]) -> Bound:
        """The call that these arguments and sizes make. `known` is what earlier calls came to, by their layouts.

        Raises ArgumentError, naming the argument, what was given and the cure."""
        if len(arguments) != len(self.arguments):
            raise self._wrong_count(len(arguments))
        values: list[Number]
        if self._array_names is not None:
            views = list(map(self.view, self._array_names, arguments))
            values = [view[0] for view in views]
        else:
            views, values = [], []
            for (buffer, by_value), argument in zip(self._kinds, arguments, strict=True):
                if by_value:
                    values.append(scalar_argument(buffer, argument))
                else:
                    view = self.view(buffer.name, argument)
                    views.append(view)
                    values.append(view[0])
        key = (*given.items(), *[view[1:4] for view in views])
        fit = known.get(key) if not given or all(type(size) is int for size in given.values()) else None
        is_known = fit is not None
        if fit is None:
            fit = self._quick_fit(key, views, given) if known else None
        if fit is None:
            fit = self._fit(key, views, given)
        self._check_memory(views, fit.spans)
        values += map(fit.sizes.__getitem__, self.kernel.runtime_sizes)
        return Bound(tuple(values), fit, tuple(views), is_known)

    @cached_property
    def arrays(self) -> tuple[Buffer, ...]:
        """The arguments that are arrays: all but the scalars of role `in`."""
        return tuple(buffer for buffer in self.arguments if not takes_value(buffer))

    def _quick_fit(
        self, layouts: tuple[object, ...], views: Sequence[View], given: Mapping[str, object]
    ) -> Fit | None:
        """What `_fit` gives where all is well, by a function written for this kernel."""
        if given:
            numbers = {name: size for name, size in given.items() if type(size) is int}
            if len(numbers) != len(given):
                return None
            found = fitting(self.kernel, frozenset(numbers))(views, numbers)
        else:
            found = self._fitting(views, {})
        if found is None:
            return None
        check_bearable(self.kernel, found[0])
        return Fit(layouts, *found)

    @cached_property
    def _fitting(self) -> Fitting:
        """`fitting` of calls that give no sizes by name."""
        return fitting(self.kernel, frozenset())

    # -- types, shapes, strides --------------------------------------------------------------------------
    def _fit(self, layouts: tuple[object, ...], views: Sequence[View], given: Mapping[str, object]) -> Fit:
        for buffer, view in zip(self.arrays, views, strict=True):
            check_type(buffer, view)
        shapes = {buffer.name: view.shape for buffer, view in zip(self.arrays, views, strict=True)}
        sizes = solve(self.kernel, shapes, given)
        for buffer, view in zip(self.arrays, views, strict=True):
            _check_strides(buffer, view, sizes)
        spans = tuple(_span(view, buffer.dtype.itemsize) for buffer, view in zip(self.arrays, views, strict=True))
        return Fit(layouts, sizes, spans)

    @cached_property
    def _kinds(self) -> tuple[tuple[Buffer, bool], ...]:
        """Every argument, and whether it is passed by value."""
        return tuple((buffer, takes_value(buffer)) for buffer in self.arguments)

    @cached_property
    def _array_names(self) -> tuple[str, ...] | None:
        """The names of all arguments, where all are arrays."""
        return tuple(b.name for b in self.arguments) if len(self.arrays) == len(self.arguments) else None

    @cached_property
    def _memory(self) -> tuple[tuple[bool, int], ...]:
        """Of every array whether it is written, and how it is aligned."""
        return tuple((buffer.role != "in", buffer.align or buffer.dtype.itemsize) for buffer in self.arrays)

    # -- memory ------------------------------------------------------------------------------------------
    def _check_memory(self, views: Sequence[View], spans: Sequence[int]) -> None:
        """Raises ArgumentError for an array that is written and may not be, is not aligned, or overlaps another one
        of which one is written."""
        read: list[tuple[int, int]] = []
        changed: list[tuple[int, int]] = []
        for (written, align), (start, _, _, _, writable, _), span in zip(self._memory, views, spans, strict=True):
            end = start + span
            if (span and start % align) or (written and not writable):
                self._refuse_memory(views, spans)
            for low, high in changed:
                if start < high and low < end:
                    self._refuse_memory(views, spans)
            if written:
                for low, high in read:
                    if start < high and low < end:
                        self._refuse_memory(views, spans)
                changed.append((start, end))
            else:
                read.append((start, end))

    def _refuse_memory(self, views: Sequence[View], spans: Sequence[int]) -> None:
        """Says what is wrong with the memory of the arrays."""
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
                    f"the kernel declares '{format_buffer(buffer)}': use compiled.empty({buffer.name!r}, …)",
                    "bad-alignment",
                )
        for i, (buffer, view, span) in enumerate(zip(self.arrays, views, spans, strict=True)):
            if buffer.role == "in":
                continue
            start, end = view.address, view.address + span
            for j, (other, its) in enumerate(zip(self.arrays, views, strict=True)):
                if j != i and start < its.address + spans[j] and its.address < end:
                    raise ArgumentError(
                        f"arguments {buffer.name} and {other.name} share memory, and the kernel writes "
                        f"{buffer.name}: pass a copy of one of them",
                        "overlap",
                    )

    def _wrong_count(self, count: int) -> ArgumentError:
        names = ", ".join(f"{buffer.role} {buffer.name}" for buffer in self.arguments) or "no arguments"
        return ArgumentError(
            f"kernel {self.kernel.name} takes {len(self.arguments)} arguments ({names}), not {count}; "
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


def _check_strides(buffer: Buffer, view: View, sizes: Mapping[str, int]) -> None:
    if 0 in view.shape:
        return
    item = buffer.dtype.itemsize
    needed = tuple(stride * item for stride in strides_of(buffer, sizes))
    for extent, has, must in zip(view.shape, view.strides, needed, strict=True):
        if extent > 1 and has != must:
            layout = "C-contiguous" if buffer.order is None and buffer.pad is None else format_buffer(buffer)
            plain = (
                f"{buffer.name}.contiguous()" if of_torch(view.owner) else f"np.ascontiguousarray({buffer.name})"
            )
            cure = (
                f"pass {plain}" if layout == "C-contiguous" else f"copy it into compiled.empty({buffer.name!r}, …)"
            )
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
