"""TVM's products by hand: matmul, batches of them, a convolution, attention."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from peer_common import Arrays, Call, library
from peer_tvm_plan import LANES, LOWEST, WIDE, Plan, along, call, real, source

tvm: Any = library("tvm")
te: Any = library("tvm.te")
tirx: Any = library("tvm.tirx")
topi: Any = library("tvm.topi")


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
