"""Sums on GPUs: narrow elements are rounded once, long sums of one thread are as near as sums in parts."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest
from on_harness import run

import dojoir
from dojoir.ir.dtypes import DTYPES

ONES: dict[str, Any] = {"bf16": 0x3F80, "f16": np.float16(1), "f32": np.float32(1)}

FORMS = {
    "alone": "kernel sum(N)\nin x: {t}[N]\nout y: {t}\n\ny = 0\nN\n| y += x[{{0}}]\n",
    "column": """kernel sum(N, M)
in  x: {t}[N, M]
out y: {t}[M]

M // 32 + 1 : gx
| min(32, M - 32*{{0}}) : bx
| | y[32*{{0}} + {{1}}] = 0
| | N
| | | y[32*{{0}} + {{1}}] += x[{{2}}, 32*{{0}} + {{1}}]
""",
    "register": "kernel sum(N)\nin x: {t}[N]\nout y: {t}\ntmp s: {t} reg\n\ns = 0\nN\n| s += x[{{0}}]\ny = s\n",
    "guarded": """kernel sum(N)
in  x: {t}[N]
out y: {t}[8]

1 : gx
| 8 : bx
| | y[{{1}}] = 0
| | N // 8 + 1
| | | 8 : u
| | | | if 8*{{2}} + {{3}} < N
| | | | | y[{{1}}] += x[8*{{2}} + {{3}}]
""",
    "registers": """kernel sum(N)
in  x: {t}[N]
out y: {t}[4]

1 : gx
| 4 : u
| | y[{{1}}] = 0
| N
| | 4 : u
| | | y[{{2}}] += x[{{1}}]
""",
    "together": """kernel sum(N)
in  x: {t}[N]
out y: {t}

1 : gx
| y = 0
| 64 : bx
| | N // 64 + 1
| | | if 64*{{2}} + {{1}} < N
| | | | y += x[64*{{2}} + {{1}}]
""",
    "tiles": """kernel sum(N)
in  x: {t}[N]
out y: {t}[64]
tmp a: {t}[64] shared
tmp s: {t}[64] reg

1 : gx
| 64 : bx
| | s[{{1}}] = 0
| N // 64
| | 64 : bx
| | | a[{{2}}] = x[64*{{1}} + {{2}}]
| | 64 : bx
| | | 64
| | | | s[{{2}}] += a[{{3}}]
| 64 : bx
| | y[{{1}}] = s[{{1}}]
""",
}


def ones(kernel: dojoir.Kernel, sizes: dict[str, int]) -> dict[str, Any]:
    given = dojoir.testing.random_inputs(kernel, {}, seed=1, **sizes)
    return {name: np.full_like(array, ONES[kernel.buffer(name).dtype.name]) for name, array in given.items()}


def numbers(kernel: dojoir.Kernel, name: str, array: np.ndarray) -> np.ndarray:
    if kernel.buffer(name).dtype.name == "bf16":
        return (array.astype(np.uint32) << 16).view(np.float32)
    return array.astype(np.float64)


@pytest.mark.parametrize("target", ["cuda", "hip"])
@pytest.mark.parametrize("dtype", ["bf16", "f16"])
@pytest.mark.parametrize("form", FORMS)
def test_a_sum_of_narrow_elements_is_rounded_once(form: str, dtype: str, target: str) -> None:
    """4,096 ones, of which a bf16 that is rounded at each step has 256, and an f16 2,048."""
    kernel = dojoir.parse(FORMS[form].format(t=dtype))
    dojoir.prove(kernel)
    sizes = {name: {"N": 4096, "M": 33}[name] for name in kernel.runtime_sizes}
    found = run(kernel, ones(kernel, sizes), sizes, target, "backward")["y"]
    assert (numbers(kernel, "y", found) == 4096).all()


@pytest.mark.parametrize("form", ["alone", "register", "together"])
def test_an_f32_goes_on_beyond_what_one_holds(form: str) -> None:
    """Ones beyond 2^24, by one thread and by each of several."""
    kernel = dojoir.parse(FORMS[form].format(t="f32"))
    size = (1 << 24) + (1 << 20)
    found = run(kernel, ones(kernel, {"N": size}), {"N": size})["y"]
    assert found == size


def test_a_nest_of_loops_is_as_near_as_its_parts() -> None:
    text = "kernel norm(A, B)\nin x: f32[A, B, 700]\nout y: f32\n\ny = 0\nA\n| B\n| | 700\n"
    kernel = dojoir.parse(f"{text}| | | y += x[{{0}}, {{1}}, {{2}}]\n")
    x = np.random.default_rng(3).random((50, 60, 700), np.float32)
    found = run(kernel, {"x": x}, {"A": 50, "B": 60})["y"]
    expected = x.sum(dtype=np.float64)
    assert abs(found - expected) < 2.0**-21 * expected
    loops = re.findall(r"for \(", dojoir.emit(kernel, "cuda").partition("_kernel(")[2].partition("#if")[0])
    assert len(loops) == 4


def test_parts_are_as_long_as_short_loops_inside_leave_them() -> None:
    text = "kernel s(N)\nin x: f32[N, 3, 3]\nout y: f32\n\ny = 0\nN\n| 3\n| | 3\n| | | y += x[{0}, {1}, {2}]\n"
    assert " += 56)" in dojoir.emit(dojoir.parse(text), "cuda")


def test_two_sums_of_one_loop_share_their_parts() -> None:
    text = """kernel two(N, M)
in  x: f32[N, M]
out y: f32
out z: f32

y = 0
z = 0
N
| z += x[{0}, 0]
| M
| | y += x[{0}, {1}]
"""
    kernel = dojoir.parse(text)
    x = np.random.default_rng(3).random((1200, 1500), np.float32)
    found = run(kernel, {"x": x}, {"N": 1200, "M": 1500})
    np.testing.assert_allclose(found["y"], x.sum(dtype=np.float64), rtol=2.0**-20)
    np.testing.assert_allclose(found["z"], x[:, 0].sum(dtype=np.float64), rtol=2.0**-20)


@pytest.mark.parametrize("form", ["alone", "column", "register"])
def test_under_strict_the_order_stays(form: str) -> None:
    """Each sum is rounded at each step, in the order of the text."""
    text = FORMS[form].format(t="f32").replace("\nin ", "\nfp strict\nin ", 1)
    kernel = dojoir.parse(text)
    sizes = {name: {"N": 3000, "M": 3}[name] for name in kernel.runtime_sizes}
    given = dojoir.testing.random_inputs(kernel, {}, seed=1, **sizes)
    expected = dojoir.interpret(kernel, given, **sizes)["y"]
    np.testing.assert_array_equal(run(kernel, given, sizes)["y"], expected)
    assert "double" not in dojoir.emit(kernel, "cuda").partition("_kernel(")[2]


def test_an_assignment_by_itself_keeps_its_order() -> None:
    text = "kernel s(N)\nin x: f32[N]\nout y: f32\ntmp s: f32 reg\n\ns = 0\nN\n| s = s + x[{0}]\n| s += 1\ny = s\n"
    assert "double" not in dojoir.emit(dojoir.parse(text), "cuda").partition("_kernel(")[2]


UNTOUCHED = {
    "no iteration": "N : gx\n| {0}\n| | y[{0} - 1] += x[{1}]\n",
    "a guard": "N : gx\n| N\n| | if {0} >= 1 and {1} >= 0\n| | | y[{0} - 1] += x[{1}]\n",
    "threads": "1 : gx\n| 64 : bx\n| | N\n| | | if {1} == 1\n| | | | y[0] += x[{2}]\n",
    "an atomic": "N : gx\n| N\n| | if {0} >= 3 and {1} == 2*{0}\n| | | y[5] += x[{1}]\n",
    "never": "N : gx\n| N\n| | if {1} >= 100\n| | | y[0] += x[{1}]\n",
    "elements side by side": "N // 4 : gx\n| N\n| | 4 : u\n| | | if {1} >= 39\n| | | | y[4*{0} + {2}] += x[{1}]\n",
}

NO_ATOMIC = {("an atomic", "bf16"), ("never", "bf16")}


@pytest.mark.parametrize("order", ["forward", "backward"])
@pytest.mark.parametrize(
    ("name", "dtype"), [(n, t) for n in UNTOUCHED for t in ("f32", "bf16") if (n, t) not in NO_ATOMIC]
)
def test_an_element_that_nothing_is_added_to_is_not_touched(name: str, dtype: str, order: Any) -> None:
    kernel = dojoir.parse(f"kernel s(N)\nin x: {dtype}[N]\ninout y: {dtype}[N]\n\n{UNTOUCHED[name]}")
    dojoir.prove(kernel)
    given = ones(kernel, {"N": 40})
    found = run(kernel, given, {"N": 40}, order=order)["y"]
    np.testing.assert_array_equal(found, dojoir.interpret(kernel, given, N=40)["y"])


def test_blocks_add_what_each_has_by_one_atomic() -> None:
    kernel = dojoir.parse("kernel s(N, M)\nin x: f32[N, M]\ninout y: f32\n\nN : gx\n| M\n| | y += x[{0}, {1}]\n")
    dojoir.prove(kernel)
    assert "atomicAdd(&y[0], y_sum)" in dojoir.emit(kernel, "cuda")
    given = ones(kernel, {"N": 5, "M": 300})
    assert run(kernel, given, {"N": 5, "M": 300})["y"] == 1501


def test_an_atomic_asks_of_sizes_whether_anything_was_added() -> None:
    text = "kernel s(N, M)\nin x: f32[N, M]\ninout y: f32\n\nN : gx\n| M\n| | if {1} >= 5\n| | | y += x[{0}, {1}]\n"
    source = dojoir.emit(dojoir.parse(text), "cuda")
    assert re.search(r"if \(M >= 6\) \{\s*atomicAdd\(&y\[0\], y_sum\);", source)
    sure = dojoir.emit(dojoir.parse(text.replace("if {1} >= 5\n| | | y", "if {1} >= 0\n| | | y")), "cuda")
    assert re.search(r"\n    atomicAdd", sure)


@pytest.mark.parametrize("dtype", ["f16", "bf16", "f8e4m3"])
def test_narrow_totals_by_rule_leave_no_narrow_partial_results(dtype: str) -> None:
    text = f"kernel total(N)\nin x: {dtype}[N]\nout y: {dtype}\n\ny = 0\nN\n| y += x[{{0}}]\n"
    kernel = dojoir.optimize(dojoir.parse(text), "cuda").kernel
    parts = [buffer for buffer in kernel.buffers if buffer.role == "tmp"]
    assert parts and all(buffer.dtype == DTYPES[dtype] for buffer in parts)
    source = dojoir.emit(kernel, "cuda")
    assert all(re.search(rf"float \*(__restrict__ )?{buffer.name}\b", source) for buffer in parts)
    if dtype != "f8e4m3":
        given = ones(kernel, {"N": 60_000})
        found = numbers(kernel, "y", run(kernel, given, {"N": 60_000})["y"])
        assert found == {"f16": 60_000, "bf16": 59_904}[dtype]
