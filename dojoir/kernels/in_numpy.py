"""The kernels of the library as a NumPy user writes them: what `dojoir-opt --time` puts beside them.

Each function takes the arguments of its kernel in declared order and writes the outputs in place, without
allocating where NumPy allows it. Kernels whose sizes are not all in the shapes of their arguments (a stride, a
number of time steps), or for which NumPy has no function (erf), have none.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

Array = NDArray[Any]
Scalar = float


def softmax(x: Array, y: Array) -> None:
    np.subtract(x, x.max(axis=1, keepdims=True), out=y)
    np.exp(y, out=y)
    np.divide(y, y.sum(axis=1, keepdims=True), out=y)


def log_softmax(x: Array, y: Array) -> None:
    np.subtract(x, x.max(axis=1, keepdims=True), out=y)
    np.subtract(y, np.log(np.exp(y).sum(axis=1, keepdims=True)), out=y)


def layernorm(x: Array, g: Array, b: Array, eps: Scalar, y: Array) -> None:
    np.subtract(x, x.mean(axis=1, keepdims=True), out=y)
    np.multiply(y, 1 / np.sqrt(np.square(y).mean(axis=1, keepdims=True) + eps), out=y)
    np.multiply(y, g, out=y)
    np.add(y, b, out=y)


def rmsnorm(x: Array, g: Array, eps: Scalar, y: Array) -> None:
    np.multiply(x, 1 / np.sqrt(np.square(x).mean(axis=1, keepdims=True) + eps), out=y)
    np.multiply(y, g, out=y)


def residual_rmsnorm(x: Array, r: Array, g: Array, eps: Scalar, h: Array, y: Array) -> None:
    np.add(x, r, out=h)
    rmsnorm(h, g, eps, y)


def batchnorm_inference(x: Array, mean: Array, var: Array, g: Array, b: Array, eps: Scalar, y: Array) -> None:
    scale = g / np.sqrt(var + eps)
    np.multiply(x, scale[:, None, None], out=y)
    np.add(y, (b - mean * scale)[:, None, None], out=y)


def batchnorm_training(x: Array, g: Array, b: Array, eps: Scalar, mean: Array, var: Array, y: Array) -> None:
    x.mean(axis=(0, 2, 3), out=mean)
    x.var(axis=(0, 2, 3), out=var)
    batchnorm_inference(x, mean, var, g, b, eps, y)


def groupnorm(x: Array, w: Array, b: Array, eps: Scalar, y: Array) -> None:
    np.subtract(x, x.mean(axis=(2, 3), keepdims=True), out=y)
    np.multiply(y, 1 / np.sqrt(np.square(y).mean(axis=(2, 3), keepdims=True) + eps), out=y)
    np.multiply(y, w[:, :, None], out=y)
    np.add(y, b[:, :, None], out=y)


def relu(x: Array, y: Array) -> None:
    np.maximum(x, 0, out=y)


def silu(x: Array, y: Array) -> None:
    np.negative(x, out=y)
    np.exp(y, out=y)
    np.add(y, 1, out=y)
    np.divide(x, y, out=y)


def add(a: Array, b: Array, y: Array) -> None:
    np.add(a, b, out=y)


def mul(a: Array, b: Array, y: Array) -> None:
    np.multiply(a, b, out=y)


def bias_relu(x: Array, b: Array, y: Array) -> None:
    np.add(x, b, out=y)
    np.maximum(y, 0, out=y)


def swiglu(x: Array, w: Array, v: Array, y: Array) -> None:
    gate = x @ w
    silu(gate, y)
    np.multiply(y, x @ v, out=y)


def reduce_mean_0(x: Array, y: Array) -> None:
    x.mean(axis=0, out=y)


def reduce_mean_1(x: Array, y: Array) -> None:
    x.mean(axis=1, out=y)


def reduce_max(x: Array, y: Array) -> None:
    x.max(axis=1, out=y)


def argmax(x: Array, y: Array) -> None:
    x.argmax(axis=1, out=y)


def cumsum(x: Array, y: Array) -> None:
    x.cumsum(axis=1, out=y)


def transpose(x: Array, y: Array) -> None:
    np.copyto(y, x.T)


def dot(a: Array, b: Array, y: Array) -> None:
    np.dot(a, b, out=y)


def saxpy(alpha: Scalar, x: Array, y: Array) -> None:
    np.add(y, np.float32(alpha) * x, out=y)


def gemv(a: Array, x: Array, y: Array) -> None:
    np.matmul(a, x, out=y)


def matmul(a: Array, b: Array, c: Array) -> None:
    np.matmul(a, b, out=c)


bmm = matmul


def matmul_nt(a: Array, b: Array, c: Array) -> None:
    np.matmul(a, b.T, out=c)


def matmul_tn(a: Array, b: Array, c: Array) -> None:
    np.matmul(a.T, b, out=c)


def matmul_int8(a: Array, b: Array, sa: Array, sb: Array, y: Array) -> None:
    np.multiply(np.matmul(a, b, dtype=np.int32), sa[:, None], out=y)
    np.multiply(y, sb, out=y)


def attention(q: Array, k: Array, v: Array, scale: Scalar, y: Array) -> None:
    scores = np.float32(scale) * np.matmul(q, k.transpose(0, 2, 1))
    scores[:, ~np.tri(scores.shape[1], dtype=bool)] = -np.inf
    np.subtract(scores, scores.max(axis=-1, keepdims=True), out=scores)
    np.exp(scores, out=scores)
    np.divide(scores, scores.sum(axis=-1, keepdims=True), out=scores)
    np.matmul(scores, v, out=y)


def cross_entropy(x: Array, t: Array, nll: Array, loss: Array) -> None:
    top = x.max(axis=1)
    total = np.log(np.exp(x - top[:, None]).sum(axis=1)) + top
    np.subtract(total, x[np.arange(len(t)), t], out=nll)
    nll.mean(out=loss)


def csr(rows: Array, cols: Array, v: Array, x: Array, y: Array) -> None:
    sums = np.append(0.0, np.cumsum(v * x[cols], dtype=np.float64))
    y[...] = sums[rows[1:]] - sums[rows[:-1]]


def ell(cols: Array, v: Array, x: Array, y: Array) -> None:
    np.einsum("nm,nm->n", v, x[cols], out=y)


def bsr(rows: Array, cols: Array, v: Array, x: Array, y: Array) -> None:
    each = np.einsum("zrc,zc->zr", v, x[cols], dtype=np.float64)
    sums = np.concatenate([np.zeros((1, each.shape[1])), np.cumsum(each, axis=0)])
    y[...] = sums[rows[1:]] - sums[rows[:-1]]


def embedding(ids: Array, w: Array, y: Array) -> None:
    np.take(w, ids, axis=0, out=y)


def baseline(name: str) -> Callable[..., None] | None:
    """The function for the library kernel of that name, or None."""
    found = globals().get(name)
    return found if callable(found) and found.__module__ == __name__ and name != "baseline" else None
