"""Products of matrices among the statements of a gradient: in nests of their own where that may be."""

from __future__ import annotations

import numpy as np
from derivatives import check_slope, in_f64

import dojoir

GATED = """kernel gated(N, M, K)
in x: f64[N, K]
in w: f64[K, M]
out y: f64[N, M]
tmp g: f64[N, M]

N
| M
| | g[{0}, {1}] = 0
| | K
| | | g[{0}, {1}] += x[{0}, {2}] * w[{2}, {1}]
| | y[{0}, {1}] = g[{0}, {1}] * sigmoid(g[{0}, {1}])
"""
STEPS = """kernel steps(T, N, K)
in w: f64[N, K]
in u: f64[K, N]
inout h: f64[N]
tmp s: f64[T, K]
tmp r: f64[T, N]

T
| K
| | s[{0}, {1}] = 0
| | N
| | | s[{0}, {1}] += u[{1}, {2}] * h[{2}]
| N
| | r[{0}, {1}] = 0
| | K
| | | r[{0}, {1}] += w[{1}, {2}] * tanh(s[{0}, {2}])
| N
| | h[{1}] = r[{0}, {1}]
"""


def test_each_product_stands_in_a_nest_of_its_own() -> None:
    for kernel in (dojoir.parse(GATED), in_f64(dojoir.kernels.load("swiglu"))):
        made = dojoir.gradient(kernel)
        for target in ("d_x", "d_w"):
            for site in made.sites:
                statement = site.statement
                if statement.target.buffer == target and statement.op == "+=":
                    beside = [s for s in made.sites if s.path[0] == site.path[0] and s.statement.op != "="]
                    assert len(beside) == 1 and len(site.scopes) == 3, target
        rng = np.random.default_rng(0)
        sizes = {"N": 3, "M": 4, "K": 5}
        shapes = {"x": (3, 5), "w": (5, 4), "v": (5, 4)}
        names = [b.name for b in kernel.arguments if b.role == "in"]
        check_slope(kernel, {name: rng.standard_normal(shapes[name]) for name in names}, sizes)


def test_steps_that_need_each_other_stay_together() -> None:
    kernel = dojoir.parse(STEPS)
    rng = np.random.default_rng(0)
    inputs = {"w": rng.standard_normal((3, 4)), "u": rng.standard_normal((4, 3)), "h": rng.standard_normal(3)}
    check_slope(kernel, inputs, {"T": 3, "N": 3, "K": 4})
