"""Halide: algorithms with schedules by hand, compiled for the shapes of the row and for this host.

A reduction along the innermost axis keeps `WIDE` partial results (four vectors of 16 lanes) that are combined at
the end; products keep a tile of the result in registers. Halide has no streaming stores. `hl.exp` and `hl.erf` are
its accurate ones; batch statistics take one pass, from the sums of values and of squares.
"""

from __future__ import annotations

import operator
import os
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from peer_common import Arrays, Builder, Call, fastest, library

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


# -- rows ------------------------------------------------------------------------------------------------------
def softmax(arrays: Arrays, threads: int) -> Call:
    x = source(arrays["x"])
    length = arrays["x"].shape[1]
    e, r, y = hl.Func("e"), hl.Func("r"), hl.Func("y")
    top, first = along("m", length, [i], lambda p: x[p, i], hl.max, hl.f32(-3.4e38))
    e[j, i] = hl.exp(x[j, i] - top[i])
    total, second = row_sum("s", length, lambda p: e[p, i])
    r[i] = 1 / total[i]
    y[j, i] = e[j, i] * r[i]
    e.vectorize(j, LANES, hl.TailStrategy.ShiftInwards)
    by_rows(threads, y, length, [*first, e, *second, r])
    return call([(y, arrays["y"])], [(x, arrays["x"])])


def layernorm(arrays: Arrays, threads: int) -> Call:
    x, g, b = (source(arrays[name]) for name in "xgb")
    length = arrays["x"].shape[1]
    mean, inv, y = hl.Func("mean"), hl.Func("inv"), hl.Func("y")
    total, first = row_sum("s", length, lambda p: x[p, i])
    mean[i] = total[i] / length
    squares, second = row_sum("q", length, lambda p: (x[p, i] - mean[i]) * (x[p, i] - mean[i]))
    inv[i] = 1 / hl.sqrt(squares[i] / length + float(arrays["eps"]))
    y[j, i] = (x[j, i] - mean[i]) * inv[i] * g[j] + b[j]
    by_rows(threads, y, length, [*first, mean, *second, inv])
    return call([(y, arrays["y"])], [(x, arrays["x"]), (g, arrays["g"]), (b, arrays["b"])])


def rmsnorm(arrays: Arrays, threads: int) -> Call:
    x, g = source(arrays["x"]), source(arrays["g"])
    length = arrays["x"].shape[1]
    inv, y = hl.Func("inv"), hl.Func("y")
    squares, inner = row_sum("q", length, lambda p: x[p, i] * x[p, i])
    inv[i] = 1 / hl.sqrt(squares[i] / length + float(arrays["eps"]))
    y[j, i] = x[j, i] * inv[i] * g[j]
    by_rows(threads, y, length, [*inner, inv])
    return call([(y, arrays["y"])], [(x, arrays["x"]), (g, arrays["g"])])


def reduce_mean_1(arrays: Arrays, threads: int) -> Call:
    x = source(arrays["x"])
    _count, length = arrays["x"].shape
    y = hl.Func("y")
    total, inner = row_sum("s", length, lambda p: x[p, i])
    y[i] = total[i] / length
    parallel(y, threads, i, 64)
    for function in inner:
        function.compute_at(y, i)
    return call([(y, arrays["y"])], [(x, arrays["x"])])


def reduce_mean_0(arrays: Arrays, threads: int) -> Call:
    x = source(arrays["x"])
    count, length = arrays["x"].shape
    s, y = hl.Func("s"), hl.Func("y")
    r = hl.RDom([(0, count)])
    ro, ri = hl.RVar("ro"), hl.RVar("ri")
    s[j] = hl.f32(0)
    s[j] += x[j, r.x]
    y[j] = s[j] / count
    y.split(j, jo, ji, length // threads).vectorize(ji, LANES)
    parallel(y, threads, jo)
    s.compute_at(y, jo).vectorize(j, LANES)
    s.update().split(r.x, ro, ri, 8).reorder(ri, j, ro).vectorize(j, LANES).unroll(ri)
    return call([(y, arrays["y"])], [(x, arrays["x"])])


def cumsum(arrays: Arrays, threads: int) -> Call:
    """Four rows side by side (more share too few sets of the cache), so that no sum waits for another."""
    x = source(arrays["x"])
    _count, length = arrays["x"].shape
    y = hl.Func("y")
    r = hl.RDom([(1, length - 1)])
    y[j, i] = hl.undef(hl.Float(32))
    y[0, i] = x[0, i]
    y[r.x, i] = y[r.x - 1, i] + x[r.x, i]
    y.update(0).unscheduled()
    y.update(1).split(i, io, ii, 4).reorder(ii, r.x, io).unroll(ii)
    parallel(y.update(1), threads, io, 8)
    return call([(y, arrays["y"])], [(x, arrays["x"])])


def transpose(arrays: Arrays, threads: int) -> Call:
    """The faster of blocks through registers, and vectors gathered from tiles whose lines stay in the cache."""

    def build(blocks: bool, high: int, wide: int) -> Call:
        x = source(arrays["x"])
        block, y = hl.Func("block"), hl.Func("y")
        block[j, i] = x[j, i]
        y[i, j] = block[j, i]
        y.tile(i, j, io, jo, ii, ji, high, wide)
        if blocks:
            inner_i, inner_j = hl.Var("inner_i"), hl.Var("inner_j")
            y.tile(ii, ji, inner_i, inner_j, 8, 8).vectorize(inner_i).unroll(inner_j)
            block.compute_at(y, ii).vectorize(j).unroll(i)
        else:
            y.vectorize(ii, LANES)
        parallel(y, threads, jo)
        return call([(y, arrays["y"])], [(x, arrays["x"])])

    return fastest(build(True, 16, 64), build(True, 32, 32), build(False, 64, 64), build(False, 32, 32))


def jacobi2d_sweep(arrays: Arrays, threads: int) -> Call:
    a, inside = source(arrays["a"]), arrays["b"][1:-1, 1:-1]
    b = hl.Func("b")
    around = a[j + 1, i + 1] + a[j, i + 1] + a[j + 2, i + 1] + a[j + 1, i + 2] + a[j + 1, i]
    b[j, i] = hl.f32(0.2) * around
    b.vectorize(j, LANES, hl.TailStrategy.ShiftInwards)
    parallel(b, threads, i, 32)
    return call([(b, inside)], [(a, arrays["a"])])


# -- elementwise and vectors -----------------------------------------------------------------------------------
def elementwise(names: str, expression: Callable[..., Any]) -> Builder:
    """An expression of the elements of one-dimensional arrays, the last of which is written."""
    *inputs, output = list(names)

    def build(arrays: Arrays, threads: int) -> Call:
        images = [source(arrays[name]) for name in inputs]
        y = hl.Func("y")
        y[i] = expression(*(image[i] for image in images))
        flat(threads, y)
        return call([(y, arrays[output])], [(m, arrays[name]) for m, name in zip(images, inputs, strict=True)])

    return build


def gelu(x: Any) -> Any:
    return hl.f32(0.5) * x * (1 + hl.erf(hl.f32(0.70710678) * x))


def saxpy(arrays: Arrays, threads: int) -> Call:
    return elementwise("xyy", lambda x, y: y + hl.f32(float(arrays["alpha"])) * x)(arrays, threads)


def bias_relu(arrays: Arrays, threads: int) -> Call:
    x, b = source(arrays["x"]), source(arrays["b"])
    y = hl.Func("y")
    y[j, i] = hl.max(x[j, i] + b[j], hl.f32(0))
    by_rows(threads, y, arrays["x"].shape[1], [])
    return call([(y, arrays["y"])], [(x, arrays["x"]), (b, arrays["b"])])


def dot(arrays: Arrays, threads: int) -> Call:
    a, b = source(arrays["a"]), source(arrays["b"])
    tasks = len(arrays["a"]) // CHUNK
    some, y = hl.Func("some"), hl.Func("y")
    total, inner = along("s", CHUNK, [i], lambda p: a[i * CHUNK + p] * b[i * CHUNK + p], operator.add, hl.f32(0))
    some[i] = total[i]
    r = hl.RDom([(0, tasks)])
    y[()] = hl.f32(0)
    y[()] += some[r.x]
    some.compute_root()
    parallel(some, threads, i, 8)
    for function in inner:
        function.compute_at(some, i)
    return call([(y, arrays["y"])], [(a, arrays["a"]), (b, arrays["b"])])


def gemv(arrays: Arrays, threads: int) -> Call:
    """Four rows at once, which share what they read of the vector."""
    a, x = source(arrays["a"]), source(arrays["x"])
    _count, length = arrays["a"].shape
    part, total, y = hl.Func("part"), hl.Func("total"), hl.Func("y")
    wide, rows = 2 * LANES, 4
    r, lane = hl.RDom([(0, length // wide)]), hl.RDom([(0, wide)])
    part[v, i] = hl.f32(0)
    part[v, i] += a[r.x * wide + v, i] * x[r.x * wide + v]
    total[i] = hl.f32(0)
    total[i] += part[lane.x, i]
    y[i] = total[i]
    y.split(i, io, ii, rows).unroll(ii)
    parallel(y, threads, io, 64)
    part.bound(v, 0, wide).compute_at(y, io).vectorize(v, LANES).unroll(v).unroll(i)
    part.update().reorder(v, i, r.x).vectorize(v, LANES).unroll(v).unroll(i)
    total.compute_at(y, io).unroll(i).update().atomic().vectorize(lane.x).unroll(i)
    return call([(y, arrays["y"])], [(a, arrays["a"]), (x, arrays["x"])])


# -- batch normalisation ---------------------------------------------------------------------------------------
def _planes(array: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    batch, channels, height, width = array.shape
    return array.reshape(batch, channels, height * width)


def batchnorm_inference(arrays: Arrays, threads: int) -> Call:
    data, result = _planes(arrays["x"]), _planes(arrays["y"])
    x, mean, var, g, b = source(data), *(source(arrays[name]) for name in ("mean", "var", "g", "b"))
    scale, y = hl.Func("scale"), hl.Func("y")
    scale[i] = g[i] / hl.sqrt(var[i] + float(arrays["eps"]))
    y[j, i, n] = (x[j, i, n] - mean[i]) * scale[i] + b[i]
    scale.compute_at(y, i)
    y.vectorize(j, LANES, hl.TailStrategy.ShiftInwards)
    parallel(y, threads, i, 8)
    named = [(mean, "mean"), (var, "var"), (g, "g"), (b, "b")]
    return call([(y, result)], [(x, data), *((image, arrays[name]) for image, name in named)])


def batchnorm_training(arrays: Arrays, threads: int) -> Call:
    data, result = _planes(arrays["x"]), _planes(arrays["y"])
    x, g, b = source(data), source(arrays["g"]), source(arrays["b"])
    batch, _channels, length = data.shape
    blocks, rest = divmod(length, WIDE)
    sums, mean, var, y = hl.Func("sums"), hl.Func("mean"), hl.Func("var"), hl.Func("y")
    part, scale = hl.Func("part"), hl.Func("scale")
    zero = hl.f32(0)

    def more(position: Any, lane: Any, image: Any) -> Any:
        value = x[position, i, image]
        return hl.Tuple([part[lane, i][0] + value, part[lane, i][1] + value * value])

    part[v, i] = hl.Tuple([zero, zero])
    r = hl.RDom([(0, blocks), (0, batch)])
    part[v, i] = more(r.x * WIDE + v, v, r.y)
    part.bound(v, 0, WIDE).vectorize(v, LANES).unroll(v).store_in(hl.MemoryType.Stack)
    part.update(0).reorder(v, r.x, r.y, i).vectorize(v, LANES).unroll(v)
    if rest:
        last = hl.RDom([(0, rest), (0, batch)])
        part[last.x, i] = more(blocks * WIDE + last.x, last.x, last.y)
        part.update(1).allow_race_conditions().vectorize(last.x, LANES, hl.TailStrategy.GuardWithIf)
    lane = hl.RDom([(0, WIDE)])
    sums[i] = hl.Tuple([zero, zero])
    sums[i] = hl.Tuple([sums[i][0] + part[lane.x, i][0], sums[i][1] + part[lane.x, i][1]])
    count = float(batch * length)
    mean[i] = sums[i][0] / count
    var[i] = sums[i][1] / count - mean[i] * mean[i]
    scale[i] = g[i] / hl.sqrt(var[i] + float(arrays["eps"]))
    y[j, i, n] = (x[j, i, n] - mean[i]) * scale[i] + b[i]
    sums.compute_root()
    parallel(sums.update(), threads, i)
    part.compute_at(sums, i)
    mean.compute_root()
    var.compute_root()
    scale.compute_root()
    y.reorder(j, n, i).vectorize(j, LANES, hl.TailStrategy.ShiftInwards)
    parallel(y, threads, i)
    outputs = [(mean, arrays["mean"]), (var, arrays["var"]), (y, result)]
    return call(outputs, [(x, data), (g, arrays["g"]), (b, arrays["b"])])


# -- products --------------------------------------------------------------------------------------------------
def matmul(arrays: Arrays, threads: int) -> Call:
    """Blocks of the inner axis; B packed in panels of 64 columns, 6 rows of a panel of C in registers."""
    a, b = source(arrays["a"]), source(arrays["b"])
    _rows, inner = arrays["a"].shape
    block, panel, tile, high = 256, 64, 6, 96
    packed, prod, c = hl.Func("packed"), hl.Func("prod"), hl.Func("c")
    packed[ji, k, jo] = b[jo * panel + ji, k]
    r, blocks = hl.RDom([(0, block)]), hl.RDom([(0, inner // block)])
    prod[j, i, ko] = hl.f32(0)
    prod[j, i, ko] += a[ko * block + r.x, i] * packed[j % panel, ko * block + r.x, j // panel]
    c[j, i] = hl.f32(0)
    c[j, i] += prod[j, i, blocks.x]
    c.vectorize(j, LANES)
    parallel(c, threads, i, 64)
    it, im = hl.Var("it"), hl.Var("im")
    update = c.update()
    update.split(j, jo, ji, panel).split(i, io, im, high, hl.TailStrategy.GuardWithIf)
    update.split(im, it, ii, tile, hl.TailStrategy.GuardWithIf)
    update.reorder(ji, ii, it, jo, io, blocks.x).vectorize(ji, LANES).unroll(ji).unroll(ii)
    parallel(update, threads, io)
    prod.compute_at(c, it).bound_extent(j, panel).vectorize(j, LANES).unroll(j).unroll(i)
    prod.update().reorder(j, i, r.x).vectorize(j, LANES).unroll(j).unroll(i)
    packed.compute_root().bound(ji, 0, panel).reorder(ji, jo, k).vectorize(ji, LANES).unroll(ji)
    parallel(packed, threads, k, 64)
    return call([(c, arrays["c"])], [(a, arrays["a"]), (b, arrays["b"])])


def bmm(arrays: Arrays, threads: int) -> Call:
    a, b = source(arrays["a"]), source(arrays["b"])
    inner = arrays["a"].shape[2]
    prod, c = hl.Func("prod"), hl.Func("c")
    r = hl.RDom([(0, inner)])
    prod[j, i, n] = hl.f32(0)
    prod[j, i, n] += a[r.x, i, n] * b[j, r.x, n]
    c[j, i, n] = prod[j, i, n]
    c.tile(j, i, jo, io, ji, ii, WIDE, 4).reorder(ji, ii, io, jo, n).vectorize(ji, LANES).unroll(ji).unroll(ii)
    parallel(c, threads, n)
    prod.compute_at(c, io).vectorize(j, LANES).unroll(j).unroll(i)
    prod.update().reorder(j, i, r.x).vectorize(j, LANES).unroll(j).unroll(i)
    return call([(c, arrays["c"])], [(a, arrays["a"]), (b, arrays["b"])])


def conv2d(arrays: Arrays, threads: int) -> Call:
    """All 64 output channels of 7 places in registers; the image padded and the filter packed before."""
    x, f = source(arrays["x"]), source(arrays["f"])
    outs, channels, high, wide = arrays["f"].shape
    width = arrays["y"].shape[3]
    w, h, c = hl.Var("w"), hl.Var("h"), hl.Var("c")
    wo, wi = hl.Var("wo"), hl.Var("wi")
    packed, acc, row, y = hl.Func("packed"), hl.Func("acc"), hl.Func("row"), hl.Func("y")
    batch, _, height, _ = arrays["x"].shape
    padded = hl.BoundaryConditions.constant_exterior(
        x, hl.f32(0), [(0, width), (0, height), (0, channels), (0, batch)]
    )
    image = hl.Func("image")
    image[w, h, c, n] = padded[w - 1, h - 1, c, n]
    packed[o, i, j, c] = f[i, j, c, o]
    r = hl.RDom([(0, wide), (0, high), (0, channels)])
    acc[o, w, h, n] = hl.f32(0)
    acc[o, w, h, n] += packed[o, r.x, r.y, r.z] * image[w + r.x, h + r.y, r.z, n]
    row[o, w, h, n] = acc[o, w, h, n]
    y[w, h, o, n] = row[o, w, h, n]
    y.reorder(w, o, h, n).vectorize(w, 8)
    y.fuse(h, n, t)
    parallel(y, threads, t, 8)
    row.compute_at(y, t).split(w, wo, wi, 7).bound(o, 0, outs).reorder(o, wi, wo).vectorize(o, LANES)
    row.unroll(o).unroll(wi)
    acc.compute_at(row, wo).vectorize(o, LANES).unroll(o).unroll(w)
    acc.update().reorder(o, w, r.x, r.y, r.z).vectorize(o, LANES).unroll(o).unroll(w)
    packed.compute_root().bound(o, 0, outs)
    image.compute_root()
    parallel(image, threads, c)
    return call([(y, arrays["y"])], [(x, arrays["x"]), (f, arrays["f"])])


def attention(arrays: Arrays, threads: int) -> Call:
    """A pipeline for each 64 queries, over the keys that the last of them attends to."""
    size = arrays["q"].shape[1]
    calls = [_attention(arrays, threads, low, min(low + 64, size)) for low in range(0, size, 64)]

    def run() -> None:
        for part in calls:
            part()

    return run


def _attention(arrays: Arrays, threads: int, low: int, high: int) -> Call:
    given = [arrays["q"][:, low:high], arrays["k"][:, :high], arrays["v"][:, :high]]
    q, key, value = (source(array) for array in given)
    _heads, _, width = arrays["q"].shape
    scale = float(arrays["scale"])
    turned, s, scores, p, inv = (hl.Func(name) for name in ("turned", "s", "scores", "p", "inv"))
    acc, y = hl.Func("acc"), hl.Func("y")
    d, u = hl.RDom([(0, width)]), hl.RDom([(0, high)])
    turned[j, o, n] = key[o, j, n]
    s[j, i, n] = hl.f32(0)
    s[j, i, n] += q[d.x, i, n] * turned[j, d.x, n]
    scores[j, i, n] = hl.select(j <= i + low, s[j, i, n], hl.f32(-3.4e38))
    top, first = along("m", high, [i, n], lambda at: scores[at, i, n], hl.max, hl.f32(-3.4e38))
    p[j, i, n] = hl.exp(hl.f32(scale) * (scores[j, i, n] - top[i, n]))
    total, second = along("l", high, [i, n], lambda at: p[at, i, n], operator.add, hl.f32(0))
    inv[i, n] = 1 / total[i, n]
    acc[o, i, n] = hl.f32(0)
    acc[o, i, n] += p[u.x, i, n] * value[o, u.x, n]
    y[o, i, n] = acc[o, i, n] * inv[i, n]
    y.bound(o, 0, width).split(i, io, ii, 4).vectorize(o, LANES).unroll(o).unroll(ii)
    parallel(y, threads, n)
    turned.compute_at(y, n).vectorize(j, LANES)
    acc.compute_at(y, io).vectorize(o, LANES).unroll(o).unroll(i)
    acc.update().reorder(o, i, u.x).vectorize(o, LANES).unroll(o).unroll(i)
    scores.compute_at(y, io).split(j, jo, ji, WIDE).reorder(ji, i, jo).vectorize(ji, LANES).unroll(ji).unroll(i)
    s.compute_at(scores, jo).bound_extent(j, WIDE).vectorize(j, LANES).unroll(j).unroll(i)
    s.update().reorder(j, i, d.x).vectorize(j, LANES).unroll(j).unroll(i)
    p.compute_at(y, io).vectorize(j, LANES)
    for function in (*first, *second, inv):
        function.compute_at(y, io)
    return call([(y, arrays["y"][:, low:high])], [*zip((q, key, value), given, strict=True)])


BUILDERS: dict[str, Builder] = {
    "softmax": softmax,
    "layernorm": layernorm,
    "rmsnorm": rmsnorm,
    "batchnorm_training": batchnorm_training,
    "batchnorm_inference": batchnorm_inference,
    "relu": elementwise("xy", lambda x: hl.max(x, hl.f32(0))),
    "gelu": elementwise("xy", gelu),
    "silu": elementwise("xy", lambda x: x / (1 + hl.exp(-x))),
    "swiglu_gate": elementwise("guy", lambda g, u: g / (1 + hl.exp(-g)) * u),
    "bias_relu": bias_relu,
    "add": elementwise("aby", lambda a, b: a + b),
    "reduce_mean_0": reduce_mean_0,
    "reduce_mean_1": reduce_mean_1,
    "matmul": matmul,
    "bmm": bmm,
    "conv2d": conv2d,
    "gemv": gemv,
    "attention": attention,
    "dot": dot,
    "saxpy": saxpy,
    "transpose": transpose,
    "jacobi2d_sweep": jacobi2d_sweep,
    "cumsum": cumsum,
}


def bind(operation: str, arrays: Arrays, threads: int) -> Call:
    """The operation as a call, on `threads` threads."""
    os.environ["HL_NUM_THREADS"] = str(threads)
    return BUILDERS[operation](arrays, threads)
