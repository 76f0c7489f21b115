"""Sums are carried in a wider type and rounded once, where their order is free."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

import dojoir
from dojoir.ir.dtypes import DTYPES
from dojoir.meaning.bits import from_floats, to_floats

SUM = "kernel total(N)\nfp {fp}\nin  x: {dtype}[N]\nout s: {dtype}\n\ns = 0\nN\n| s += x[{{0}}]\n"

ROWS = """
kernel rows(N, M)
in  x: f32[N, M]
out s: f32[N]
out t: f32

t = 0
N
| s[{0}] = 0
| M
| | s[{0}] += x[{0}, {1}]
| | t += x[{0}, {1}] * 2
"""

PRODUCT = """
kernel product(M, N, K)
in  a: bf16[M, K]
in  b: bf16[K, N]
out c: bf16[M, N]

M
| N
| | c[{0}, {1}] = 0
| | K
| | | c[{0}, {1}] += a[{0}, {2}] * b[{2}, {1}]
"""

TARGETS = ("llvm", "c", "avx2", "neon", "rvv")
LONG = 1 << 14


def compiled(kernel: dojoir.Kernel, target: str) -> dojoir.Compiled:
    try:
        return dojoir.compile(kernel, target)
    except dojoir.ToolchainError as error:
        pytest.skip(str(error))


def text(dtype: str = "f32", fp: str = "reassoc") -> dojoir.Kernel:
    return dojoir.parse(SUM.format(dtype=dtype, fp=fp))


def narrow(values: Any, dtype: str) -> NDArray[Any]:
    return from_floats(np.asarray(values, np.float64), DTYPES[dtype])


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("fp", ["reassoc", "fast"])
def test_a_plain_sum_is_rounded_once(target: str, fp: str) -> None:
    x = np.full(LONG, 0.7, np.float32)
    got = compiled(text(fp=fp), target).run({"x": x})["s"]
    assert got == np.float32(x.astype(np.float64).sum())


@pytest.mark.parametrize("target", ["llvm", "c"])
def test_a_strict_sum_is_rounded_at_each_step(target: str) -> None:
    x = np.full(LONG, 0.7, np.float32)
    got = compiled(text(fp="strict"), target).run({"x": x})["s"]
    assert got == np.add.accumulate(x)[-1] != np.float32(x.astype(np.float64).sum())


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("dtype", ["f16", "bf16"])
def test_narrow_sums_are_carried_in_f32(target: str, dtype: str) -> None:
    """Small whole numbers: the sum is exact in f32, and in the narrow type it would stand still."""
    x = narrow(np.arange(9000) % 5 == 0, dtype)
    got = compiled(text(dtype), target).run({"x": x})["s"]
    assert to_floats(got, DTYPES[dtype]) == to_floats(narrow(1800, dtype), DTYPES[dtype])
    assert got == dojoir.interpret(text(dtype), {"x": x})["s"]


def test_a_sum_over_all_of_a_nest_is_one() -> None:
    x = np.full((40, 900), 0.3, np.float32)
    got = dojoir.compile(dojoir.parse(ROWS)).run({"x": x})
    exact = (x.astype(np.float64)).sum(axis=1)
    assert np.array_equal(got["s"], exact.astype(np.float32))
    assert got["t"] == np.float32((2 * x).astype(np.float64).sum())
    source = dojoir.emit(dojoir.parse(ROWS), "c")
    assert source.index("double t_sum") < source.index("for") < source.index("double s_sum")


@pytest.mark.parametrize("schedule", ["as written", "by default"])
def test_products_in_bf16_are_those_of_f32_rounded(schedule: str) -> None:
    kernel = dojoir.parse(PRODUCT)
    if schedule == "by default":
        kernel = dojoir.optimize(kernel, sizes={"M": 33, "N": 40, "K": 300}).kernel
        assert any(b.role == "tmp" and b.dtype.name == "bf16" for b in kernel.buffers)
    random = np.random.default_rng(1)
    a, b = narrow(random.normal(size=(33, 300)), "bf16"), narrow(random.normal(size=(300, 40)), "bf16")
    got = to_floats(dojoir.compile(kernel).run({"a": a, "b": b})["c"], DTYPES["bf16"])
    exact = to_floats(a, DTYPES["bf16"]) @ to_floats(b, DTYPES["bf16"])
    size = np.abs(to_floats(a, DTYPES["bf16"])) @ np.abs(to_floats(b, DTYPES["bf16"]))
    assert (np.abs(got - exact) <= np.abs(exact) * 2.0**-8 + size * 300 * 2.0**-24).all()


@pytest.mark.parametrize(
    "body",
    [
        "s = 0\nN\n| s += x[{0}]\n| y[{0}] = s",  # read between: the element is rounded each time
        "s = 0\nN\n| s += x[{0}]\n| y[{0}] = 0\n| s max= x[{0}]",
        "s = 1\nN\n| s *= x[{0}]\n| y[{0}] = 0",
        "s = 0\n8\n| s += x[0]\nN\n| y[{0}] = s",  # few of them
    ],
)
def test_other_accumulations_are_as_they_were(body: str) -> None:
    kernel = dojoir.parse(f"kernel k(N)\nin x: f32[N]\nout y: f32[N]\nout s: f32\n\n{body}\n")
    assert "double" not in dojoir.emit(kernel, "c")
    assert dojoir.verify(kernel, target="llvm").ok


def test_a_scope_that_does_not_run_leaves_the_element() -> None:
    kernel = dojoir.parse("kernel k(N)\nin x: f32[N]\ninout s: f32\n\nN - 3\n| s += x[{0}]\n")
    for value in (-0.0, 1e-45, np.inf):
        s = np.array(value, np.float32)
        dojoir.compile(kernel)(np.ones(2, np.float32), s)
        assert s.tobytes() == np.array(value, np.float32).tobytes()


@pytest.mark.parametrize("target", ["llvm", "c"])
def test_verified(target: str) -> None:
    for kernel in (text(), text("f16"), dojoir.parse(ROWS), dojoir.parse(PRODUCT)):
        assert dojoir.verify(kernel, target=target).ok
        assert dojoir.verify(dojoir.optimize(kernel, target).kernel, against=kernel, target=target).ok


def test_verify_says_where_rounding_explains_much() -> None:
    long = dojoir.verify(dojoir.parse(PRODUCT), sizes={"M": 2, "N": 2, "K": 300})
    assert long.ok and long.loose is not None and long.loose.loose is not None
    assert "rounding to bf16 alone explains" in str(long) and long.loose.loose.share > 1
    short = dojoir.verify(text(), sizes={"N": 50})
    assert short.ok and short.loose is None and "explains errors" not in str(short)
