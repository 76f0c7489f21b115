"""Apache TVM: tensor expressions with TensorIR schedules by hand, compiled for the shapes of the row and this host.

What Halide's file says of reductions and tiles holds here too. exp and erf are those that TVM vectorises
(`topi.fast_exp`, `topi.fast_erf`). TVM has no streaming stores.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from peer_common import Arrays, Builder, Call, library

tvm: Any = library("tvm")
te: Any = library("tvm.te")
tirx: Any = library("tvm.tirx")
topi: Any = library("tvm.topi")
s_tir: Any = library("tvm.s_tir")
codegen: Any = library("tvm.target.codegen")

LANES = 16
WIDE = 4 * LANES
CHUNK = 1 << 15
Array = np.ndarray[Any, Any]
LOWEST = -3.4e38


def source(array: Array, name: str) -> Any:
    return te.placeholder(array.shape, "float32", name=name)


def real(value: float) -> Any:
    return tirx.const(value, "float32")


class Plan:
    """A schedule under way, on a number of threads."""

    def __init__(self, function: Any, threads: int) -> None:
        self.s = s_tir.Schedule(function)
        self.threads = threads

    def loops(self, name: str) -> list[Any]:
        return list(self.s.get_loops(self.s.get_sblock(name)))

    def parallel(self, loop: Any) -> None:
        if self.threads > 1:
            self.s.parallel(loop)

    def vectors(self, name: str, unroll: int = 1) -> None:
        """Vectors along the innermost loop of a stage, several at a time."""
        _, some, lanes = self.s.split(self.loops(name)[-1], [None, unroll, LANES])
        self.s.vectorize(lanes)
        if unroll > 1:
            self.s.unroll(some)

    def at(self, name: str, loop: Any) -> None:
        self.s.compute_at(self.s.get_sblock(name), loop)

    def inline(self, *names: str) -> None:
        for name in names:
            self.s.compute_inline(self.s.get_sblock(name))

    def partial(self, name: str) -> None:
        """The stage of partial results: its last loop but one reduces, its last is `WIDE` places."""
        *_, lane, block = self.loops(name)
        some, lanes = self.s.split(lane, [None, LANES])
        self.s.reorder(block, some, lanes)
        self.s.vectorize(lanes)
        self.s.unroll(some)
        self.clear(name, block)

    def clear(self, name: str, loop: Any) -> None:
        """Start values before the loop, in vectors."""
        start = self.s.decompose_reduction(self.s.get_sblock(name), loop)
        assert start is not None

    def build(self) -> Any:
        target = tvm.target.Target(
            {"kind": "llvm", "mcpu": codegen.llvm_get_system_cpu(), "num-cores": self.threads}
        )
        with tvm.ir.transform.PassContext(
            opt_level=3, config={"s_tir.LoopPartition": {"partition_const_loop": True}}
        ):
            return tirx.build(self.s.mod, target=target)["main"]


def call(
    arguments: Sequence[tuple[Any, Array]], threads: int, schedule: Callable[[Plan], None], alias: bool = False
) -> Call:
    """The function of these tensors, scheduled and compiled, on these arrays."""
    function = te.create_prim_func([tensor for tensor, _ in arguments])
    if alias:
        function = function.with_attr("tirx.noalias", False)
    return _bound(Plan(function, threads), [array for _, array in arguments], schedule)


def _bound(plan: Plan, arrays: Sequence[Array], schedule: Callable[[Plan], None]) -> Call:
    schedule(plan)
    compiled = plan.build()
    tensors = [tvm.runtime.from_dlpack(array) for array in arrays]
    return lambda: compiled(*tensors)


def along(
    name: str, shape: tuple[int, ...], length: int, term: Callable[..., Any], kind: str = "sum"
) -> tuple[Callable[..., Any], list[str], list[str]]:
    """The reduction of `term(*index, position)` at each index of `shape`: how to read it, its stages, and which of
    them have partial results."""
    reduce = te.sum if kind == "sum" else te.max
    blocks, rest = divmod(length, WIDE)
    block, lane = te.reduce_axis((0, blocks)), te.reduce_axis((0, WIDE))
    part = te.compute(
        (*shape, WIDE), lambda *at: reduce(term(*at[:-1], block * WIDE + at[-1]), axis=block), name=f"{name}_part"
    )
    total = te.compute(shape, lambda *at: reduce(part(*at, lane), axis=lane), name=f"{name}_total")
    if not rest:
        return total, [f"{name}_part", f"{name}_total"], [f"{name}_part"]
    last = te.reduce_axis((0, rest))
    tail = te.compute(shape, lambda *at: reduce(term(*at, blocks * WIDE + last), axis=last), name=f"{name}_tail")
    both = te.compute(
        shape,
        lambda *at: total(*at) + tail(*at) if kind == "sum" else te.max(total(*at), tail(*at)),
        name=f"{name}_both",
    )
    names = [f"{name}_{end}" for end in ("part", "total", "tail", "both")]
    return both, names, [f"{name}_part"]


def by_rows(plan: Plan, output: str, stages: Sequence[str], partial: Sequence[str], vectors: Sequence[str]) -> None:
    """Everything that a row needs, where it is used."""
    row = plan.loops(output)[0]
    plan.parallel(row)
    for stage in reversed(stages):
        plan.at(stage, row)
    for stage in partial:
        plan.partial(stage)
    for stage in (*vectors, output):
        plan.vectors(stage)


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
    return _bound(Plan(tvm.script.from_source(text), threads), [arrays["x"], arrays["y"]], lambda plan: None)


def jacobi2d_sweep(arrays: Arrays, threads: int) -> Call:
    def schedule(plan: Plan) -> None:
        plan.parallel(plan.loops("b")[0])
        plan.vectors("b")

    text = _JACOBI.format(size=arrays["a"].shape[0])
    return _bound(Plan(tvm.script.from_source(text), threads), [arrays["a"], arrays["b"]], schedule)


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


# -- products --------------------------------------------------------------------------------------------------
def matmul(arrays: Arrays, threads: int) -> Call:
    """Blocks of the inner axis; B packed in panels of 64 columns, 4 rows of a panel of C in registers."""
    a, b = source(arrays["a"], "a"), source(arrays["b"], "b")
    (rows, inner), columns = arrays["a"].shape, arrays["b"].shape[1]
    panel, tile, high, deep = WIDE, 4, 64, 256
    k, blocks = te.reduce_axis((0, deep), "k"), te.reduce_axis((0, inner // deep), "blocks")
    packed = te.compute((columns // panel, inner, panel), lambda o, k, v: b[k, o * panel + v], name="packed")
    prod = te.compute(
        (inner // deep, rows, columns),
        lambda s, i, j: te.sum(a[i, s * deep + k] * packed[j // panel, s * deep + k, j % panel], axis=k),
        name="prod",
    )
    c = te.compute((rows, columns), lambda i, j: te.sum(prod[blocks, i, j], axis=blocks), name="c")

    def schedule(plan: Plan) -> None:
        s, block = plan.s, plan.s.get_sblock("c")
        plan.parallel(plan.loops("packed")[0])
        plan.vectors("packed")
        i, j, over = plan.loops("c")
        io, im, ii = s.split(i, [None, high // tile, tile])
        jo, jm, lanes = s.split(j, [None, panel // LANES, LANES])
        s.reorder(over, io, jo, im, ii, jm, lanes)
        s.vectorize(lanes)
        plan.parallel(io)
        plan.at("prod", im)
        s.decompose_reduction(block, over)
        *_, row, column, k = plan.loops("prod")
        _tile(plan, "prod", row, column, [k])

    return call([(a, arrays["a"]), (b, arrays["b"]), (c, arrays["c"])], threads, schedule)


def _tile(plan: Plan, name: str, row: Any, column: Any, over: Sequence[Any]) -> None:
    """A product of few rows and columns as a tile that stays in registers while the inner axes go by. What TVM has
    on the stack may have 1024 bytes."""
    some, lanes = plan.s.split(column, [None, LANES])
    plan.s.reorder(*over, row, some, lanes)
    plan.s.vectorize(lanes)
    plan.s.unroll(some)
    plan.s.unroll(row)
    plan.s.set_scope(plan.s.get_sblock(name), 0, "local")
    plan.clear(name, over[0])


def bmm(arrays: Arrays, threads: int) -> Call:
    a, b = source(arrays["a"], "a"), source(arrays["b"], "b")
    k = te.reduce_axis((0, arrays["a"].shape[2]), "k")
    prod = te.compute(arrays["c"].shape, lambda s, i, j: te.sum(a[s, i, k] * b[s, k, j], axis=k), name="prod")
    c = te.compute(arrays["c"].shape, lambda s, i, j: prod[s, i, j], name="c")

    def schedule(plan: Plan) -> None:
        batch, i, j = plan.loops("c")
        io, ii = plan.s.split(i, [None, 4])
        jo, jm, lanes = plan.s.split(j, [None, WIDE // LANES, LANES])
        plan.s.reorder(batch, jo, io, ii, jm, lanes)
        plan.s.vectorize(lanes)
        plan.parallel(batch)
        plan.at("prod", io)
        *_, row, column, k = plan.loops("prod")
        _tile(plan, "prod", row, column, [k])

    return call([(a, arrays["a"]), (b, arrays["b"]), (c, arrays["c"])], threads, schedule)


def conv2d(arrays: Arrays, threads: int) -> Call:
    """All 64 output channels of 4 places in registers; the image padded and the filter packed before."""
    x, f = source(arrays["x"], "x"), source(arrays["f"], "f")
    outs, channels, high, wide = arrays["f"].shape
    batch, _, height, width = arrays["y"].shape
    image = topi.nn.pad(x, [0, 0, 1, 1], name="image")
    c, p, q = (te.reduce_axis((0, size)) for size in (channels, high, wide))
    packed = te.compute((channels, high, wide, outs), lambda c, p, q, o: f[o, c, p, q], name="packed")
    acc = te.compute(
        (batch, height, width, outs),
        lambda n, h, w, o: te.sum(image[n, c, h + p, w + q] * packed[c, p, q, o], axis=[c, p, q]),
        name="acc",
    )
    y = te.compute(arrays["y"].shape, lambda n, o, h, w: acc[n, h, w, o], name="y")

    def schedule(plan: Plan) -> None:
        n, o, h, w = plan.loops("y")
        plan.s.reorder(n, h, o, w)
        both = plan.s.fuse(n, h)
        plan.parallel(both)
        plan.at("acc", both)
        block = plan.s.get_sblock("acc")
        copy = plan.s.cache_write(block, 0, "local")
        w, o, c, p, q = plan.s.get_loops(block)[-5:]
        wo, wi = plan.s.split(w, [None, 4])
        oo, lanes = plan.s.split(o, [None, LANES])
        plan.s.reorder(wo, c, p, q, wi, oo, lanes)
        plan.s.vectorize(lanes)
        plan.s.unroll(oo)
        plan.s.unroll(wi)
        plan.s.reverse_compute_at(copy, wo)
        _, lanes = plan.s.split(plan.s.get_loops(copy)[-1], [None, LANES])
        plan.s.vectorize(lanes)
        plan.s.decompose_reduction(block, c)
        plan.parallel(plan.loops("image")[0])

    return call([(x, arrays["x"]), (f, arrays["f"]), (y, arrays["y"])], threads, schedule)


def attention(arrays: Arrays, threads: int) -> Call:
    """A function for each 64 queries, over the keys that the last of them attends to. TVM takes no views: what they
    give is copied to its place."""
    size = arrays["q"].shape[1]
    calls = [_attention(arrays, threads, low, min(low + 64, size)) for low in range(0, size, 64)]

    def run() -> None:
        for part in calls:
            part()

    return run


def _attention(arrays: Arrays, threads: int, low: int, high: int) -> Call:
    q, key, value = (source(arrays[name], name) for name in "qkv")
    heads, _, width = arrays["q"].shape
    count = high - low
    d, u = te.reduce_axis((0, width), "d"), te.reduce_axis((0, high), "u")
    turned = te.compute((heads, width, high), lambda h, d, j: key[h, j, d], name="turned")
    s = te.compute(
        (heads, count, high), lambda h, i, j: te.sum(q[h, i + low, d] * turned[h, d, j], axis=d), name="s"
    )
    masked = te.compute(s.shape, lambda h, i, j: tirx.Select(j <= i + low, s[h, i, j], real(LOWEST)), name="masked")
    top, first, wide = along("m", (heads, count), high, lambda h, i, p: masked[h, i, p], "max")
    scale = real(float(arrays["scale"]))
    shifted = te.compute(s.shape, lambda h, i, j: scale * (masked[h, i, j] - top(h, i)), name="shifted")
    e = topi.fast_exp(shifted)
    total, second, more = along("l", (heads, count), high, lambda h, i, p: e[h, i, p])
    inv = te.compute((heads, count), lambda h, i: real(1.0) / total(h, i), name="inv")
    acc = te.compute((heads, count, width), lambda h, i, o: te.sum(e[h, i, u] * value[h, u, o], axis=u), name="acc")
    y = te.compute((heads, count, width), lambda h, i, o: acc[h, i, o] * inv[h, i], name="y")

    def schedule(plan: Plan) -> None:
        plan.inline("shifted", "masked")
        h, i, _ = plan.loops("y")
        plan.parallel(h)
        io, _ = plan.s.split(i, [None, 4])
        for stage in reversed(["s", *first, e.op.name, *second, "inv", "acc"]):
            plan.at(stage, io)
        plan.at("turned", h)
        plan.vectors("turned")
        plan.vectors(e.op.name)
        plan.vectors("y")
        for stage in (*wide, *more):
            plan.partial(stage)
        for stage in ("s", "acc"):
            block = plan.s.get_sblock(stage)
            row, column, over = plan.s.get_loops(block)[-3:]
            outer, some, lanes = plan.s.split(column, [None, 4, LANES])
            plan.s.reorder(outer, over, row, some, lanes)
            plan.s.vectorize(lanes)
            plan.s.unroll(some)
            plan.s.unroll(row)
            copy = plan.s.cache_write(block, 0, "local")
            plan.s.reverse_compute_at(copy, outer)
            _, lanes = plan.s.split(plan.s.get_loops(copy)[-1], [None, LANES])
            plan.s.vectorize(lanes)
            plan.s.decompose_reduction(block, over)

    mine = np.from_dlpack(tvm.runtime.empty((heads, count, width), "float32"))
    compute = call([(q, arrays["q"]), (key, arrays["k"]), (value, arrays["v"]), (y, mine)], threads, schedule)

    def run() -> None:
        compute()
        arrays["y"][:, low:high] = mine

    return run


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
