"""Numba: the loops that one would write, `fastmath`, parallel over rows."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
from peer_common import Arrays, Call, library

nb: Any = library("numba")
prange = nb.prange


def softmax(x: Any, y: Any) -> None:
    for i in prange(x.shape[0]):
        m = np.float32(-math.inf)
        for j in range(x.shape[1]):
            m = max(m, x[i, j])
        s = np.float32(0)
        for j in range(x.shape[1]):
            e = math.exp(x[i, j] - m)
            y[i, j] = e
            s += e
        r = np.float32(1) / s
        for j in range(x.shape[1]):
            y[i, j] *= r


def layernorm(x: Any, g: Any, b: Any, eps: Any, y: Any) -> None:
    for i in prange(x.shape[0]):
        s = np.float32(0)
        for j in range(x.shape[1]):
            s += x[i, j]
        mean = s / np.float32(x.shape[1])
        q = np.float32(0)
        for j in range(x.shape[1]):
            q += (x[i, j] - mean) ** 2
        inv = np.float32(1 / math.sqrt(q / x.shape[1] + eps))
        for j in range(x.shape[1]):
            y[i, j] = (x[i, j] - mean) * inv * g[j] + b[j]


def rmsnorm(x: Any, g: Any, eps: Any, y: Any) -> None:
    for i in prange(x.shape[0]):
        q = np.float32(0)
        for j in range(x.shape[1]):
            q += x[i, j] * x[i, j]
        inv = np.float32(1 / math.sqrt(q / x.shape[1] + eps))
        for j in range(x.shape[1]):
            y[i, j] = x[i, j] * inv * g[j]


def batchnorm_training(x: Any, g: Any, b: Any, eps: Any, mean: Any, var: Any, y: Any) -> None:
    count = np.float32(x.shape[0] * x.shape[2] * x.shape[3])
    for c in prange(x.shape[1]):
        s = np.float32(0)
        q = np.float32(0)
        for n in range(x.shape[0]):
            for h in range(x.shape[2]):
                for w in range(x.shape[3]):
                    s += x[n, c, h, w]
                    q += x[n, c, h, w] * x[n, c, h, w]
        m = s / count
        v = q / count - m * m
        mean[c] = m
        var[c] = v
        scale = np.float32(g[c] / math.sqrt(v + eps))
        shift = b[c] - m * scale
        for n in range(x.shape[0]):
            for h in range(x.shape[2]):
                for w in range(x.shape[3]):
                    y[n, c, h, w] = x[n, c, h, w] * scale + shift


def batchnorm_inference(x: Any, mean: Any, var: Any, g: Any, b: Any, eps: Any, y: Any) -> None:
    for t in prange(x.shape[0] * x.shape[1]):
        n = t // x.shape[1]
        c = t % x.shape[1]
        scale = np.float32(g[c] / math.sqrt(var[c] + eps))
        shift = b[c] - mean[c] * scale
        for h in range(x.shape[2]):
            for w in range(x.shape[3]):
                y[n, c, h, w] = x[n, c, h, w] * scale + shift


def relu(x: Any, y: Any) -> None:
    for i in prange(x.shape[0]):
        y[i] = max(x[i], np.float32(0))


def gelu(x: Any, y: Any) -> None:
    for i in prange(x.shape[0]):
        y[i] = np.float32(0.5) * x[i] * (np.float32(1) + math.erf(np.float32(0.70710678) * x[i]))


def silu(x: Any, y: Any) -> None:
    for i in prange(x.shape[0]):
        y[i] = x[i] / (np.float32(1) + math.exp(-x[i]))


def swiglu_gate(g: Any, u: Any, y: Any) -> None:
    for i in prange(g.shape[0]):
        y[i] = g[i] / (np.float32(1) + math.exp(-g[i])) * u[i]


def bias_relu(x: Any, b: Any, y: Any) -> None:
    for i in prange(x.shape[0]):
        for j in range(x.shape[1]):
            y[i, j] = max(x[i, j] + b[j], np.float32(0))


def add(a: Any, b: Any, y: Any) -> None:
    for i in prange(a.shape[0]):
        y[i] = a[i] + b[i]


def saxpy(alpha: Any, x: Any, y: Any) -> None:
    for i in prange(x.shape[0]):
        y[i] += np.float32(alpha) * x[i]


def reduce_mean_0(x: Any, y: Any) -> None:
    strip = 1024
    for t in prange((x.shape[1] + strip - 1) // strip):
        first = t * strip
        last = min(first + strip, x.shape[1])
        y[first:last] = np.float32(0)
        for i in range(x.shape[0]):
            for j in range(first, last):
                y[j] += x[i, j]
        for j in range(first, last):
            y[j] /= np.float32(x.shape[0])


def reduce_mean_1(x: Any, y: Any) -> None:
    for i in prange(x.shape[0]):
        s = np.float32(0)
        for j in range(x.shape[1]):
            s += x[i, j]
        y[i] = s / np.float32(x.shape[1])


def gemv(a: Any, x: Any, y: Any) -> None:
    for i in prange(a.shape[0]):
        s = np.float32(0)
        for j in range(a.shape[1]):
            s += a[i, j] * x[j]
        y[i] = s


def cumsum(x: Any, y: Any) -> None:
    for i in prange(x.shape[0]):
        s = np.float32(0)
        for j in range(x.shape[1]):
            s += x[i, j]
            y[i, j] = s


def transpose(x: Any, y: Any) -> None:
    n, m = x.shape
    for t in prange((n + 31) // 32):
        for u in range(0, m, 32):
            for j in range(u, min(u + 32, m)):
                for i in range(32 * t, min(32 * t + 32, n)):
                    y[j, i] = x[i, j]


def jacobi2d_sweep(a: Any, b: Any) -> None:
    for i in prange(1, a.shape[0] - 1):
        for j in range(1, a.shape[1] - 1):
            b[i, j] = np.float32(0.2) * (a[i, j] + a[i, j - 1] + a[i, j + 1] + a[i + 1, j] + a[i - 1, j])


def dot(a: Any, b: Any, y: Any) -> None:
    s = np.float32(0)
    for i in prange(a.shape[0]):
        s += a[i] * b[i]
    y[()] = s


def attention(q: Any, k: Any, v: Any, scale: Any, y: Any) -> None:
    heads, size, width = q.shape
    for t in prange(heads * size):
        h = t // size
        i = t % size
        s = np.empty(i + 1, np.float32)
        m = np.float32(-math.inf)
        for j in range(i + 1):
            d = np.float32(0)
            for e in range(width):
                d += q[h, i, e] * k[h, j, e]
            s[j] = d
            m = max(m, d)
        total = np.float32(0)
        for j in range(i + 1):
            s[j] = math.exp(np.float32(scale) * (s[j] - m))
            total += s[j]
        for e in range(width):
            y[h, i, e] = np.float32(0)
        for j in range(i + 1):
            for e in range(width):
                y[h, i, e] += s[j] * v[h, j, e]
        for e in range(width):
            y[h, i, e] /= total


def conv2d(x: Any, f: Any, y: Any) -> None:
    batch, channels, height, width = x.shape
    outs = f.shape[0]
    for t in prange(batch * outs):
        n = t // outs
        o = t % outs
        for h in range(height):
            for w in range(width):
                y[n, o, h, w] = np.float32(0)
            for c in range(channels):
                for p in range(max(0, 1 - h), min(3, height + 1 - h)):
                    a = f[o, c, p, 0]
                    b = f[o, c, p, 1]
                    d = f[o, c, p, 2]
                    y[n, o, h, 0] += b * x[n, c, h + p - 1, 0] + d * x[n, c, h + p - 1, 1]
                    for w in range(1, width - 1):
                        y[n, o, h, w] += (
                            a * x[n, c, h + p - 1, w - 1]
                            + b * x[n, c, h + p - 1, w]
                            + d * x[n, c, h + p - 1, w + 1]
                        )
                    y[n, o, h, width - 1] += a * x[n, c, h + p - 1, width - 2] + b * x[n, c, h + p - 1, width - 1]


FUNCTIONS: dict[str, Callable[..., None]] = {
    function.__name__: function
    for function in (
        softmax, layernorm, rmsnorm, batchnorm_training, batchnorm_inference, relu, gelu, silu, swiglu_gate,
        bias_relu, add, saxpy, reduce_mean_0, reduce_mean_1, gemv, cumsum, transpose, jacobi2d_sweep, dot,
        attention, conv2d,
    )
}  # fmt: skip


def bind(operation: str, arrays: Arrays, threads: int) -> Call:
    """The operation by Numba, compiled at its first call."""
    nb.set_num_threads(min(threads, nb.config.NUMBA_NUM_THREADS))
    return partial(nb.njit(fastmath=True, parallel=True)(FUNCTIONS[operation]), *arrays.values())
