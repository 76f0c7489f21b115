"""Halide's products by hand: matmul, batches of them, a convolution, attention."""

from __future__ import annotations

import operator
from typing import Any

from peer_common import Arrays, Call, library
from peer_halide_plan import LANES, WIDE, along, call, i, ii, io, j, ji, jo, k, ko, n, o, parallel, source, t

hl: Any = library("halide")


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
