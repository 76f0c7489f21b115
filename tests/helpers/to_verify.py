"""The kernels that verification is tried on."""

from __future__ import annotations

import dojoir

SOFTMAX = dojoir.kernels.load("softmax")


MATMUL = """
kernel matmul(N, M, K)
in  a: f32[N, K]
in  b: f32[K, M]
out c: f32[N, M]

N
| M
| | c[{0}, {1}] = 0
| | K
| | | c[{0}, {1}] += a[{0}, {2}] * b[{2}, {1}]
"""
