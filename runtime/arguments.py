"""What a call must be given, and whether it was: every wrong argument is refused before anything runs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

from dojoir.errors import ArgumentError
from dojoir.ir import Buffer, Kernel
from dojoir.printer import format_buffer
from dojoir.runtime.layout import strides_of
from dojoir.runtime.scalars import Number, scalar_argument, takes_value
from dojoir.runtime.views import View, view_of
from dojoir.sizes import solve


@dataclass(frozen=True, slots=True)
class Bound:
    """Arguments that fit: the `values` that the compiled function takes (addresses, scalars, sizes), and the
    `owners` of the memory behind them."""

    values: tuple[Number, ...]
    sizes: Mapping[str, int]
    owners: tuple[object, ...]


@dataclass(frozen=True, slots=True)
class Fit:
    """What layouts (type, shape and strides of every array) and given sizes come to: the sizes of the call, and
    the bytes that each array spans. Of two calls alike in these, the second needs no more checks of them."""

    layouts: tuple[object, ...]
    sizes: dict[str, int]
    spans: tuple[int, ...]


@dataclass(frozen=True)
class Signature:
    """The arguments of a kernel, in declared order, and what holds between them."""

    kernel: Kernel

    @cached_property
    def arguments(self) -> tuple[Buffer, ...]:
        return self.kernel.arguments

    def bind(
        self, arguments: Sequence[object], given: Mapping[str, object], known: Fit | None
    ) -> tuple[Bound, Fit]:
        """The call that these arguments and sizes make. `known` is what an earlier call came to, or None.

        Raises ArgumentError, naming the argument, what was given and the cure."""
        if len(arguments) != len(self.arguments):
            raise self._wrong_count(len(arguments))
        views: list[View] = []
        values: list[Number] = []
        layouts: list[object] = [*given.items()]
        for buffer, argument in zip(self.arguments, arguments, strict=True):
            if takes_value(buffer):
                values.append(scalar_argument(buffer, argument))
            else:
                view = view_of(buffer.name, argument)
                views.append(view)
                values.append(view.address)
                layouts.append((view.dtype, view.shape, view.strides))
        key = tuple(layouts)
        alike = known is not None and all(type(size) is int for size in given.values()) and known.layouts == key
        fit = known if known is not None and alike else self._fit(key, views, given)
        self._check_memory(views, fit.spans)
        values.extend(fit.sizes[name] for name in self.kernel.runtime_sizes)
        return Bound(tuple(values), fit.sizes, tuple(view.owner for view in views)), fit

    @cached_property
    def arrays(self) -> tuple[Buffer, ...]:
        """The arguments that are arrays: all but the scalars of role `in`."""
        return tuple(buffer for buffer in self.arguments if not takes_value(buffer))

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

    # -- memory ------------------------------------------------------------------------------------------
    def _check_memory(self, views: Sequence[View], spans: Sequence[int]) -> None:
        for buffer, view, span in zip(self.arrays, views, spans, strict=True):
            if buffer.role != "in" and not view.writable:
                raise ArgumentError(
                    f"argument {buffer.name} is read-only, and the kernel writes it (role {buffer.role}): "
                    f"pass a writable array, such as {buffer.name}.copy()",
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
        raise ArgumentError(
            f"argument {buffer.name} has element type {view.dtype}, and the kernel declares {buffer.dtype}: "
            f"pass {' or '.join(reversed(accepted))}{bits}",
            "bad-dtype",
        )
    if len(view.shape) != len(buffer.dims):
        raise ArgumentError(
            f"argument {buffer.name} has {len(view.shape)} dimensions (shape {list(view.shape)}), and the kernel "
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
            cure = (
                f"pass np.ascontiguousarray({buffer.name})"
                if layout == "C-contiguous"
                else f"copy it into compiled.empty({buffer.name!r}, …)"
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
