"""What Halide's schedules by hand share: inputs, calls, how rows are walked, and the names of variables."""

from __future__ import annotations

import operator
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from peer_common import Call, library

hl: Any = library("halide")

LANES = 16
WIDE = 4 * LANES
CHUNK = 1 << 15
"""Elements of a task, where rows are not."""

i, j, k, n, o, v = (hl.Var(name) for name in "ijknov")
io, ii, jo, ji, ko, t = (hl.Var(name) for name in ("io", "ii", "jo", "ji", "ko", "t"))


def source(array: np.ndarray[Any, Any]) -> Any:
    """An input with the shape and strides of an array as constants; the last axis of the array comes first."""
    return _fixed(hl.ImageParam(hl.Float(32), array.ndim), array)


def _fixed(image: Any, array: np.ndarray[Any, Any]) -> Any:
    for axis in range(array.ndim):
        dim = image.dim(axis)
        dim.set_bounds(0, array.shape[-1 - axis])
        dim.set_stride(array.strides[-1 - axis] // array.itemsize)
    return image


def call(
    outputs: Sequence[tuple[Any, np.ndarray[Any, Any]]], inputs: Sequence[tuple[Any, np.ndarray[Any, Any]]]
) -> Call:
    """The pipeline that computes the outputs, compiled, on these arrays."""
    for function, array in outputs:
        _fixed(function.output_buffer(), array)
    arguments = [hl.Argument(image) for image, _ in inputs]
    pipeline = hl.Pipeline([function for function, _ in outputs])
    compiled = pipeline.compile_to_callable(arguments, hl.get_host_target())
    buffers = [hl.Buffer(array) for _, array in (*inputs, *outputs)]
    return lambda: compiled(*buffers)


def parallel(stage: Any, threads: int, variable: Any, size: int | None = None) -> None:
    """Spreads a loop over the threads, `size` iterations a task."""
    if threads > 1 and size is None:
        stage.parallel(variable)
    elif threads > 1:
        stage.parallel(variable, size)


def flat(threads: int, function: Any) -> None:
    """The schedule of an elementwise function of one long axis."""
    function.split(i, io, ii, CHUNK).vectorize(ii, LANES).unroll(ii, 4)
    parallel(function, threads, io)


def along(
    name: str,
    length: int,
    rows: Sequence[Any],
    term: Callable[[Any], Any],
    combine: Callable[[Any, Any], Any],
    start: Any,
) -> tuple[Any, list[Any]]:
    """The reduction of `term` over `length` positions for each of `rows`, and the functions that it is made of."""
    part, total = hl.Func(f"{name}_part"), hl.Func(name)
    blocks, rest = divmod(length, WIDE)
    part[(v, *rows)] = start
    block = hl.RDom([(0, blocks)])
    part[(v, *rows)] = combine(part[(v, *rows)], term(block.x * WIDE + v))
    part.vectorize(v, LANES).unroll(v).bound(v, 0, WIDE).store_in(hl.MemoryType.Stack)
    update = part.update(0)
    update.reorder(v, block.x).vectorize(v, LANES).unroll(v)
    if rest:
        last = hl.RDom([(0, rest)])
        part[(last.x, *rows)] = combine(part[(last.x, *rows)], term(blocks * WIDE + last.x))
        part.update(1).allow_race_conditions().vectorize(last.x, LANES, hl.TailStrategy.GuardWithIf)
    lane = hl.RDom([(0, WIDE)])
    total[tuple(rows)] = start
    total[tuple(rows)] = combine(total[tuple(rows)], part[(lane.x, *rows)])
    total.update().atomic().vectorize(lane.x)
    return total, [part, total]


def row_sum(name: str, length: int, term: Callable[[Any], Any]) -> tuple[Any, list[Any]]:
    return along(name, length, [i], term, operator.add, hl.f32(0))


def by_rows(threads: int, y: Any, length: int, inner: Sequence[Any]) -> None:
    """The schedule of a function of rows: what they need is computed for each of them, where it is used."""
    y.vectorize(j, LANES, hl.TailStrategy.ShiftInwards).unroll(j, 4) if length % WIDE == 0 else y.vectorize(
        j, LANES, hl.TailStrategy.ShiftInwards
    )
    parallel(y, threads, i, max(1, CHUNK // length))
    for function in inner:
        function.compute_at(y, i)
