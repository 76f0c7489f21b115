"""Extremes that results do not depend on: which are seen, and which are not; gradients stay right."""

from __future__ import annotations

import numpy as np
import pytest
from derivatives import check_slope

import dojoir

HEAD = "kernel k(N, M)\nin x: f64[N, M]\n"
MAX = "tmp m: f64[N]\n{tmp}\nN\n| m[{{0}}] = -inf\n| M\n| | m[{{0}}] max= x[{{0}}, {{1}}]\n"


def kernel(out: str, tmp: str, body: str) -> dojoir.Kernel:
    return dojoir.parse(HEAD + f"out {out}\n" + MAX.format(tmp=tmp) + body)


FREE = {
    "log of sum of exp": kernel(
        "y: f64[N]", "tmp s: f64[N]\n",
        "| s[{0}] = 0\n| M\n| | s[{0}] += exp(x[{0}, {1}] - m[{0}])\n| y[{0}] = m[{0}] + log(s[{0}])\n",
    ),
    "a sum of squares": kernel(
        "y: f64[N, M]", "tmp s: f64[N]\n",
        "| s[{0}] = 0\n| M\n| | s[{0}] += exp(2 * x[{0}, {1}] - 2 * m[{0}])\n"
        "| M\n| | y[{0}, {1}] = exp(x[{0}, {1}] - m[{0}]) * rsqrt(s[{0}])\n",
    ),
    "a difference": kernel(
        "y: f64[N, M]", "tmp t: f64[N, M]\n",
        "| M\n| | t[{0}, {1}] = x[{0}, {1}] - m[{0}]\n"
        "| M\n| | y[{0}, {1}] = (t[{0}, {1}] - t[{0}, 0]) * x[{0}, {1}]\n",
    ),
}  # fmt: skip
BOUND = {
    "the extreme itself": kernel("y: f64[N]", "", "| y[{0}] = 2 * m[{0}]\n"),
    "another power": kernel(
        "y: f64[N, M]", "tmp s: f64[N]\n",
        "| s[{0}] = 0\n| M\n| | s[{0}] += exp(2 * x[{0}, {1}] - m[{0}])\n"
        "| M\n| | y[{0}, {1}] = exp(x[{0}, {1}] - 2 * m[{0}]) / s[{0}]\n",
    ),
    "sums of several rows": kernel(
        "y: f64[N, M]", "tmp s: f64[M]\n",
        "M\n| s[{0}] = 0\nN\n| M\n| | s[{1}] += exp(x[{0}, {1}] - m[{0}])\n"
        "N\n| M\n| | y[{0}, {1}] = exp(x[{0}, {1}] - m[{0}]) / s[{1}]\n",
    ),
    "a sum of what is shifted": kernel(
        "y: f64[N, M]", "tmp s: f64[N]\n",
        "| s[{0}] = 0\n| M\n| | s[{0}] += x[{0}, {1}] - m[{0}]\n"
        "| M\n| | y[{0}, {1}] = x[{0}, {1}] - m[{0}] - s[{0}]\n",
    ),
    "a number beside": kernel(
        "y: f64[N, M]", "tmp s: f64[N]\n",
        "| s[{0}] = 1\n| M\n| | s[{0}] += exp(x[{0}, {1}] - m[{0}])\n"
        "| M\n| | y[{0}, {1}] = exp(x[{0}, {1}] - m[{0}]) / s[{0}]\n",
    ),
    "of another row": kernel(
        "y: f64[N, M]", "tmp s: f64[N]\n",
        "| s[{0}] = 0\n| M\n| | s[{0}] += exp(x[{0}, {1}] - m[{0}])\n"
        "N\n| M\n| | y[{0}, {1}] = exp(x[{0}, {1}] - m[{0}]) / s[N - 1 - {0}]\n",
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", [*FREE, *BOUND])
def test_an_extreme_that_results_do_not_depend_on_has_no_gradient(name: str) -> None:
    made = (FREE | BOUND)[name]
    text = dojoir.to_text(dojoir.gradient(made))
    assert ("d_m" in text) == (name in BOUND)
    assert ("m_at" in text) == (name in BOUND)
    rng = np.random.default_rng(0)
    check_slope(made, {"x": rng.standard_normal((3, 4))}, {"N": 3, "M": 4})


@pytest.mark.parametrize("name", ["softmax", "log_softmax", "cross_entropy", "attention"])
def test_kernels_of_the_library(name: str) -> None:
    assert "m_at" not in dojoir.to_text(dojoir.gradient(dojoir.kernels.load(name)))
