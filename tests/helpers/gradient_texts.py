"""Kernels whose gradients are out of the ordinary, with sizes: each is held against differences of its results."""

from __future__ import annotations

TEXTS: dict[str, tuple[str, dict[str, int]]] = {
    "a recurrent network, of which each step writes over the state": (
        """
kernel recurrent(N, M)
in  x: f64[N, M]
in  w: f64[M, M]
out y: f64[N]
tmp h: f64[M]
tmp z: f64[M]

M
| h[{0}] = 0
N
| M
| | z[{1}] = x[{0}, {1}]
| | M
| | | z[{1}] += w[{1}, {2}] * h[{2}]
| M
| | h[{1}] = tanh(z[{1}])
| y[{0}] = 0
| M
| | y[{0}] += h[{1}]
""",
        {"N": 4, "M": 3},
    ),
    "products": (
        """
kernel products(N, M)
in  x: f64[N, M]
out y: f64[N]

N
| y[{0}] = 1
| M
| | y[{0}] *= x[{0}, {1}]
""",
        {"N": 3, "M": 4},
    ),
    "the largest so far, read in each step": (
        """
kernel cummax(N, M)
in  x: f64[N, M]
out y: f64[N, M]
tmp m: f64

N
| m = -inf
| M
| | m max= x[{0}, {1}]
| | y[{0}, {1}] = m * m
""",
        {"N": 3, "M": 6},
    ),
    "conditions on data, and an inout that is written more than once": (
        """
kernel gated(N, M)
in    x: f64[N, M]
in    ok: bool[N, M]
inout y: f64[N]
tmp   t: f64

N
| M
| | t = x[{0}, {1}] * y[{0}]
| | y[{0}] += exp(t) if ok[{0}, {1}]
| | y[{0}] = y[{0}] * x[{0}, {1}] if not ok[{0}, {1}]
""",
        {"N": 3, "M": 3},
    ),
    "assignments at indices from data, of which the last stays": (
        """
kernel scattered(N, K, D)
in    at: i64[N]
in    v: f64[N, D]
inout cache: f64[K, D]
out   z: f64[K]

N
| D
| | cache[at[{0}], {1}] = sin(v[{0}, {1}]) * cache[at[{0}], {1}]
K
| z[{0}] = 0
| D
| | z[{0}] += cache[{0}, {1}] * cache[{0}, {1}]
""",
        {"N": 5, "K": 3, "D": 2},
    ),
    "lengths from data": (
        """
kernel ragged_max(N, M)
in  rows: i32[N]
in  x: f64[N, M]
out y: f64[N]

N
| y[{0}] = 0
| min(rows[{0}], M)
| | y[{0}] max= x[{0}, {1}]
""",
        {"N": 4, "M": 5},
    ),
    "a sweep in place": (
        """
kernel sweep(T, N)
inout a: f64[N]

T
| N - 2
| | a[{1} + 1] = sin(a[{1}]) * a[{1} + 1] + 0.1 * a[{1} + 2] * a[{1} + 2]
""",
        {"T": 3, "N": 6},
    ),
    "the smallest of a triangle": (
        """
kernel triangle(N, M)
in  x: f64[N, M]
in  w: f64[M]
out y: f64[N]
tmp s: f64[N]

N
| s[{0}] = inf
| M
| | {1} + 1
| | | s[{0}] min= x[{0}, {2}] * w[{1}]
| y[{0}] = exp(s[{0}]) + s[{0}]
""",
        {"N": 3, "M": 4},
    ),
    "the functions": (
        """
kernel functions(N)
in  x: f64[N]
in  w: f64[N]
out y: f64[N]
tmp t: f64

N
| t = select(x[{0}] > w[{0}], log1p(exp(x[{0}])), min(x[{0}], 0.5 * w[{0}])) + fma(x[{0}], w[{0}], atan(x[{0}]))
| t = t + pow(abs(x[{0}]), w[{0}]) + max(0.1, x[{0}]) * pow(x[{0}], 3) + exp2(x[{0}]) + expm1(w[{0}])
| t = t + log2(abs(x[{0}]) + 1) + tan(0.3 * x[{0}]) + erf(x[{0}]) + cos(w[{0}]) - rsqrt(1 + w[{0}] * w[{0}])
| t = t * log(2 + x[{0}] * x[{0}]) + x[{0}] / (2 + sin(w[{0}])) + f64(f64(sigmoid(x[{0}]))) - floor(x[{0}])
| y[{0}] = t * sqrt(1 + x[{0}] * x[{0}]) + tanh(t) + f64(x[{0}] > w[{0}]) * w[{0}]
""",
        {"N": 9},
    ),
}
