"""Apache TVM: tensor expressions with TensorIR schedules by hand, compiled for the shapes of the row and this host.

What Halide's file says of reductions and tiles holds here too. exp and erf are those that TVM vectorises
(`topi.fast_exp`, `topi.fast_erf`). TVM has no streaming stores.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any

from peer_common import Arrays, Builder, Call, library
from peer_tvm_plan import CHUNK, LANES, WIDE, Array, Plan, along, bound, by_rows, call, real, source
from peer_tvm_products import attention, bmm, conv2d, matmul

tvm: Any = library("tvm")
te: Any = library("tvm.te")
tirx: Any = library("tvm.tirx")
topi: Any = library("tvm.topi")


# -- rows ------------------------------------------------------------------------------------------------------
def softmax(arrays: Arrays, threads: int) -> Call:
    x = source(arrays["x"], "x")
    rows, length = arrays["x"].shape
    top, first, wide = along("m", (rows,), length, lambda i, p: x[i, p], "max")
    shifted = te.compute((rows, length), lambda i, j: x[i, j] - top(i), name="shifted")
    e = topi.fast_exp(shifted)
    stage = e.op.name
    total, second, more = along("s", (rows,), length, lambda i, p: e[i, p])
    r = te.compute((rows,), lambda i: real(1.0) / total(i), name="r")
    y = te.compute((rows, length), lambda i, j: e[i, j] * r[i], name="y")

    def schedule(plan: Plan) -> None:
        plan.inline("shifted")
        by_rows(plan, "y", [*first, stage, *second, "r"], [*wide, *more], [stage])

    return call([(x, arrays["x"]), (y, arrays["y"])], threads, schedule)


def layernorm(arrays: Arrays, threads: int) -> Call:
    x, g, b = (source(arrays[name], name) for name in "xgb")
    rows, length = arrays["x"].shape
    total, first, wide = along("s", (rows,), length, lambda i, p: x[i, p])
    mean = te.compute((rows,), lambda i: total(i) / real(length), name="mean")
    squares, second, more = along("q", (rows,), length, lambda i, p: (x[i, p] - mean[i]) * (x[i, p] - mean[i]))
    eps = real(float(arrays["eps"]))
    inv = te.compute((rows,), lambda i: real(1.0) / te.sqrt(squares(i) / real(length) + eps), name="inv")
    y = te.compute((rows, length), lambda i, j: (x[i, j] - mean[i]) * inv[i] * g[j] + b[j], name="y")
    given = [(tensor, arrays[name]) for tensor, name in zip((x, g, b, y), "xgby", strict=True)]
    stages = [*first, "mean", *second, "inv"]
    return call(given, threads, lambda plan: by_rows(plan, "y", stages, [*wide, *more], []))


def rmsnorm(arrays: Arrays, threads: int) -> Call:
    x, g = source(arrays["x"], "x"), source(arrays["g"], "g")
    rows, length = arrays["x"].shape
    squares, stages, wide = along("q", (rows,), length, lambda i, p: x[i, p] * x[i, p])
    eps = real(float(arrays["eps"]))
    inv = te.compute((rows,), lambda i: real(1.0) / te.sqrt(squares(i) / real(length) + eps), name="inv")
    y = te.compute((rows, length), lambda i, j: x[i, j] * inv[i] * g[j], name="y")
    given = [(tensor, arrays[name]) for tensor, name in zip((x, g, y), "xgy", strict=True)]
    return call(given, threads, lambda plan: by_rows(plan, "y", [*stages, "inv"], wide, []))


def reduce_mean_1(arrays: Arrays, threads: int) -> Call:
    x = source(arrays["x"], "x")
    rows, length = arrays["x"].shape
    total, stages, wide = along("s", (rows,), length, lambda i, p: x[i, p])
    y = te.compute((rows,), lambda i: total(i) / real(length), name="y")

    def schedule(plan: Plan) -> None:
        row = plan.loops("y")[0]
        plan.parallel(row)
        for stage in reversed(stages):
            plan.at(stage, row)
        plan.partial(wide[0])

    return call([(x, arrays["x"]), (y, arrays["y"])], threads, schedule)


def reduce_mean_0(arrays: Arrays, threads: int) -> Call:
    x = source(arrays["x"], "x")
    rows, length = arrays["x"].shape
    r = te.reduce_axis((0, rows), "r")
    s = te.compute((length,), lambda j: te.sum(x[r, j], axis=r), name="s")
    y = te.compute((length,), lambda j: s[j] / real(rows), name="y")

    def schedule(plan: Plan) -> None:
        strip, _, lanes = plan.s.split(plan.loops("y")[0], [threads, None, LANES])
        plan.s.vectorize(lanes)
        plan.parallel(strip)
        plan.at("s", strip)
        *_, j, r = plan.loops("s")
        some, lanes = plan.s.split(j, [None, LANES])
        outer, inner = plan.s.split(r, [None, 8])
        plan.s.reorder(outer, some, inner, lanes)
        plan.s.vectorize(lanes)
        plan.s.unroll(inner)
        plan.clear("s", outer)

    return call([(x, arrays["x"]), (y, arrays["y"])], threads, schedule)


_CUMSUM = """\
@T.prim_func(s_tir=True)
def main(x: T.Buffer(({rows}, {length}), "float32"), y: T.Buffer(({rows}, {length}), "float32")):
    for o in T.{kind}({rows} // 4):
        with T.sblock("rows"):
            v = T.axis.spatial({rows} // 4, o)
            s = T.sblock_alloc_buffer((4,), scope="local")
            for i in T.unroll(4):
                s[i] = T.float32(0)
            for j in range({length}):
                for i in T.unroll(4):
                    s[i] = s[i] + x[v * 4 + i, j]
                    y[v * 4 + i, j] = s[i]
"""

_JACOBI = """\
@T.prim_func(s_tir=True)
def main(a: T.Buffer(({size}, {size}), "float32"), b: T.Buffer(({size}, {size}), "float32")):
    for i, j in T.grid({size} - 2, {size} - 2):
        with T.sblock("b"):
            p, q = T.axis.remap("SS", [i, j])
            b[p + 1, q + 1] = T.float32(0.2) * (
                a[p + 1, q + 1] + a[p + 1, q] + a[p + 1, q + 2] + a[p + 2, q + 1] + a[p, q + 1]
            )
"""


def cumsum(arrays: Arrays, threads: int) -> Call:
    """Four rows side by side (more share too few sets of the cache), so that no sum waits for another."""
    rows, length = arrays["x"].shape
    text = _CUMSUM.format(rows=rows, length=length, kind="parallel" if threads > 1 else "serial")
    return bound(Plan(tvm.script.from_source(text), threads), [arrays["x"], arrays["y"]], lambda plan: None)


def jacobi2d_sweep(arrays: Arrays, threads: int) -> Call:
    def schedule(plan: Plan) -> None:
        plan.parallel(plan.loops("b")[0])
        plan.vectors("b")

    text = _JACOBI.format(size=arrays["a"].shape[0])
    return bound(Plan(tvm.script.from_source(text), threads), [arrays["a"], arrays["b"]], schedule)


def transpose(arrays: Arrays, threads: int) -> Call:
    x = source(arrays["x"], "x")
    y = te.compute(arrays["y"].shape, lambda j, i: x[i, j], name="y")

    def schedule(plan: Plan) -> None:
        j, i = plan.loops("y")
        jo, ji = plan.s.split(j, [None, 64])
        io, ii, lanes = plan.s.split(i, [None, 4, LANES])
        plan.s.reorder(jo, io, ji, ii, lanes)
        plan.s.vectorize(lanes)
        plan.parallel(jo)

    return call([(x, arrays["x"]), (y, arrays["y"])], threads, schedule)


# -- elementwise and vectors -----------------------------------------------------------------------------------
def flat(plan: Plan) -> None:
    outer, _, some, lanes = plan.s.split(plan.loops("y")[0], [None, CHUNK // WIDE, 4, LANES])
    plan.s.vectorize(lanes)
    plan.s.unroll(some)
    plan.parallel(outer)


def elementwise(names: str, expression: Callable[..., Any]) -> Builder:
    """An expression of the elements of one-dimensional arrays, the last of which is written."""
    *inputs, output = list(names)

    def build(arrays: Arrays, threads: int) -> Call:
        tensors = [source(arrays[name], name) for name in inputs]
        y = te.compute(arrays[output].shape, lambda i: expression(*(tensor[i] for tensor in tensors)), name="y")
        given = [(tensor, arrays[name]) for tensor, name in zip(tensors, inputs, strict=True)]
        return call([*given, (y, arrays[output])], threads, flat, alias=output in inputs)

    return build


def saxpy(arrays: Arrays, threads: int) -> Call:
    alpha = real(float(arrays["alpha"]))
    return elementwise("xyy", lambda x, y: y + alpha * x)(arrays, threads)


def _with(
    stage: Callable[[Any], Any], names: str, before: Callable[[Any], Any], after: Callable[..., Any]
) -> Builder:
    """An expression `after(stage(before(x)), *inputs)` of one-dimensional arrays, where TVM has the stage for whole
    tensors."""
    *inputs, output = list(names)

    def build(arrays: Arrays, threads: int) -> Call:
        tensors = [source(arrays[name], name) for name in inputs]
        shape = arrays[output].shape
        first = te.compute(shape, lambda i: before(tensors[0][i]), name="before")
        middle = stage(first)
        y = te.compute(shape, lambda i: after(middle[i], *(tensor[i] for tensor in tensors)), name="y")

        def schedule(plan: Plan) -> None:
            plan.inline("before", middle.op.name)
            flat(plan)

        given = [(tensor, arrays[name]) for tensor, name in zip(tensors, inputs, strict=True)]
        return call([*given, (y, arrays[output])], threads, schedule)

    return build


def bias_relu(arrays: Arrays, threads: int) -> Call:
    x, b = source(arrays["x"], "x"), source(arrays["b"], "b")
    y = te.compute(arrays["x"].shape, lambda i, j: te.max(x[i, j] + b[j], real(0.0)), name="y")

    def schedule(plan: Plan) -> None:
        plan.parallel(plan.loops("y")[0])
        plan.vectors("y", 4)

    return call([(x, arrays["x"]), (b, arrays["b"]), (y, arrays["y"])], threads, schedule)


def dot(arrays: Arrays, threads: int) -> Call:
    a, b = source(arrays["a"], "a"), source(arrays["b"], "b")
    tasks = len(arrays["a"]) // CHUNK
    total, stages, wide = along("s", (tasks,), CHUNK, lambda t, p: a[t * CHUNK + p] * b[t * CHUNK + p])
    some = te.compute((tasks,), lambda t: total(t), name="some")
    r = te.reduce_axis((0, tasks))
    y = te.compute((), lambda: te.sum(some[r], axis=r), name="y")

    def schedule(plan: Plan) -> None:
        task = plan.loops("some")[0]
        plan.parallel(task)
        for stage in reversed(stages):
            plan.at(stage, task)
        plan.partial(wide[0])

    return call([(a, arrays["a"]), (b, arrays["b"]), (y, arrays["y"])], threads, schedule)


def gemv(arrays: Arrays, threads: int) -> Call:
    a, x = source(arrays["a"], "a"), source(arrays["x"], "x")
    rows, length = arrays["a"].shape
    total, stages, wide = along("s", (rows,), length, lambda i, p: a[i, p] * x[p])
    y = te.compute((rows,), lambda i: total(i), name="y")

    def schedule(plan: Plan) -> None:
        row = plan.loops("y")[0]
        plan.parallel(row)
        for stage in reversed(stages):
            plan.at(stage, row)
        plan.partial(wide[0])

    return call([(a, arrays["a"]), (x, arrays["x"]), (y, arrays["y"])], threads, schedule)


# -- batch normalisation ---------------------------------------------------------------------------------------
def _planes(array: Array) -> Array:
    batch, channels, height, width = array.shape
    return array.reshape(batch, channels, height * width)


def batchnorm_inference(arrays: Arrays, threads: int) -> Call:
    data, result = _planes(arrays["x"]), _planes(arrays["y"])
    x, mean, var, g, b = source(data, "x"), *(source(arrays[name], name) for name in ("mean", "var", "g", "b"))
    eps = real(float(arrays["eps"]))
    scale = te.compute(mean.shape, lambda c: g[c] / te.sqrt(var[c] + eps), name="scale")
    y = te.compute(data.shape, lambda n, c, j: (x[n, c, j] - mean[c]) * scale[c] + b[c], name="y")

    def schedule(plan: Plan) -> None:
        image, channel, _ = plan.loops("y")
        plan.at("scale", channel)
        plan.parallel(image)
        plan.vectors("y")

    named = [(mean, "mean"), (var, "var"), (g, "g"), (b, "b")]
    return call([(x, data), *((tensor, arrays[name]) for tensor, name in named), (y, result)], threads, schedule)


def batchnorm_training(arrays: Arrays, threads: int) -> Call:
    data, result = _planes(arrays["x"]), _planes(arrays["y"])
    x, g, b = source(data, "x"), source(arrays["g"], "g"), source(arrays["b"], "b")
    batch, channels, length = data.shape
    lanes = next(size for size in (WIDE, 3 * LANES, 2 * LANES, LANES) if length % size == 0)
    image, block = te.reduce_axis((0, batch)), te.reduce_axis((0, length // lanes))
    lane, lane2 = te.reduce_axis((0, lanes)), te.reduce_axis((0, lanes))

    def pair(first: Any, second: Any) -> Any:
        return first[0] + second[0], first[1] + second[1]

    both = te.comm_reducer(pair, lambda *types: tuple(tirx.const(0, kind) for kind in types), name="both")
    part = te.compute(
        (channels, lanes),
        lambda c, v: both(
            (x[image, c, block * lanes + v], x[image, c, block * lanes + v] * x[image, c, block * lanes + v]),
            axis=[image, block],
        ),
        name="part",
    )
    count = real(batch * length)
    sums = te.compute((channels,), lambda c: te.sum(part[0][c, lane], axis=lane), name="sums")
    squares = te.compute((channels,), lambda c: te.sum(part[1][c, lane2], axis=lane2), name="squares")
    mean = te.compute((channels,), lambda c: sums[c] / count, name="mean")
    var = te.compute((channels,), lambda c: squares[c] / count - mean[c] * mean[c], name="var")
    eps = real(float(arrays["eps"]))
    scale = te.compute((channels,), lambda c: g[c] / te.sqrt(var[c] + eps), name="scale")
    y = te.compute(data.shape, lambda n, c, j: (x[n, c, j] - mean[c]) * scale[c] + b[c], name="y")

    def schedule(plan: Plan) -> None:
        channel, lane, image, block = plan.loops("part")
        some, vector = plan.s.split(lane, [None, LANES])
        plan.s.reorder(channel, image, block, some, vector)
        plan.s.vectorize(vector)
        plan.s.unroll(some)
        plan.parallel(channel)
        plan.clear("part", image)
        image, channel, _ = plan.loops("y")
        plan.s.reorder(channel, image)
        plan.parallel(channel)
        plan.vectors("y")

    outputs = [(mean, arrays["mean"]), (var, arrays["var"]), (y, result)]
    return call([(x, data), (g, arrays["g"]), (b, arrays["b"]), *outputs], threads, schedule)


BUILDERS: dict[str, Builder] = {
    "softmax": softmax,
    "layernorm": layernorm,
    "rmsnorm": rmsnorm,
    "batchnorm_training": batchnorm_training,
    "batchnorm_inference": batchnorm_inference,
    "relu": elementwise("xy", lambda x: te.max(x, real(0.0))),
    "gelu": _with(
        topi.fast_erf, "xy", lambda x: real(0.70710678) * x, lambda e, x: real(0.5) * x * (real(1.0) + e)
    ),
    "silu": _with(topi.fast_exp, "xy", lambda x: -x, lambda e, x: x / (real(1.0) + e)),
    "swiglu_gate": _with(topi.fast_exp, "guy", lambda g: -g, lambda e, g, u: g / (real(1.0) + e) * u),
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
    os.environ["TVM_NUM_THREADS"] = str(threads)
    return BUILDERS[operation](arrays, threads)
