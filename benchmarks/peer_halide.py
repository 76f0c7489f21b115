"""Halide: algorithms with schedules by hand, compiled for the shapes of the row and for this host.

A reduction along the innermost axis keeps `WIDE` partial results (four vectors of 16 lanes) that are combined at
the end; products keep a tile of the result in registers. Halide has no streaming stores. `hl.exp` and `hl.erf` are
its accurate ones; batch statistics take one pass, from the sums of values and of squares.
"""

from __future__ import annotations

import operator
import os
from collections.abc import Callable
from typing import Any

import numpy as np
from peer_common import Arrays, Builder, Call, fastest, library
from peer_halide_plan import (
    CHUNK,
    LANES,
    WIDE,
    along,
    by_rows,
    call,
    flat,
    i,
    ii,
    io,
    j,
    ji,
    jo,
    n,
    parallel,
    row_sum,
    source,
    v,
)
from peer_halide_products import attention, bmm, conv2d, matmul

hl: Any = library("halide")


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
