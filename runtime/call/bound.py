"""A call whose arguments fit, and what is remembered of it for calls like it."""

from __future__ import annotations

from typing import NamedTuple

from dojoir.runtime.call.scalars import Number
from dojoir.runtime.call.views import View


class ArgumentFit(NamedTuple):
    """The result of fitting layouts (type, shape and strides of every array) and given sizes to a kernel: the
    sizes of the call, the bytes that each array spans, and the strides. Arrays that may be strided have theirs in
    elements, one array after the other. Of two calls alike in these, the second needs no more checks of them."""

    layouts: tuple[object, ...]
    sizes: dict[str, int]
    spans: tuple[int, ...]
    steps: tuple[int, ...] = ()


class BoundArguments(NamedTuple):
    """Arguments that fit: the `values` that the compiled function takes (addresses, scalars, sizes, strides), and
    the `views` of the arrays, which own the memory behind them. `is_known` says that their layouts were known."""

    values: tuple[Number, ...]
    fit: ArgumentFit
    views: tuple[View, ...]
    is_known: bool
