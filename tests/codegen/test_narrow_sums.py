"""Sums into several narrow elements are made in f32 and rounded once, as those into one element are."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from able import runs
from everywhere import runs_here
from footprints import strays
from numpy.typing import NDArray
from on_harness import run

import dojoir
from dojoir.ir.dtypes import DTYPES
from dojoir.meaning.bits import from_floats, to_floats

HEAD = """kernel sums(N, B)
where B >= 3
in  x: {t}[N]
in  at: i32[N]
inout y: {t}[B]

"""

FORMS = {
    "scatter": "N\n| y[at[{0}]] += x[{0}]\n",
    "column": "N\n| B\n| | y[{1}] += x[{0}]\n",
    "lanes": "N\n| B : v\n| | y[{1}] += x[{0}]\n",
    "blocks of one": "N // 8\n| B\n| | 8\n| | | y[{1}] += x[8*{0} + {2}]\n",
    "a condition": "N\n| B\n| | y[{1}] += x[{0}] if at[{0}] == i32({1})\n",
    "scatter under a condition": "N\n| y[at[{0}]] += x[{0}] if at[{0}] >= 0\n",
    "two elements": "N\n| y[0] += x[{0}]\n| y[1] += x[{0}]\n",
    "a guard": "N\n| B\n| | if {1} < {0}\n| | | y[{1}] += 1\n",
    "one after another": "N // 2\n| y[0] += x[{0}]\nN - N // 2\n| y[0] += x[{0}]\n",
    "on cores": "B : p\n| N\n| | 2\n| | | y[{0}] += x[{1}] / 2\n| N\n| | y[{0}] += x[{1}]\n",
    "lanes on cores": "1 : p\n| N\n| | B : v\n| | | y[{2}] += x[{1}]\n",
    "a product": "N\n| B\n| | y[{1}] = fma(x[{0}], 1, y[{1}])\n",
    "an index made inside": "N\n| k = at[{0}]\n| y[k] += x[{0}]\n",
    "a condition made inside": "N\n| k = at[{0}] + 1\n| y[at[{0}]] += x[{0}] if k >= 1\n",
}

ON_DEVICE = {
    "one thread": "N\n| y[at[{0}]] += x[{0}]\n",
    "columns": """1 : gx
| 2 : bx
| | N
| | | 2
| | | | if 2*{1} + {3} < B
| | | | | y[2*{1} + {3}] += x[{2}]
""",
    "steps of a block": """1 : gx
| N // 4
| | 3 : bx
| | | 4
| | | | y[{2}] += x[4*{1} + {3}]
| 3 : bx
| | y[{1}] += 1
""",
    "together": "1 : gx\n| N // 64\n| | 64 : bx\n| | | y[0] += x[64*{1} + {2}]\n",
    "launches": "N // 4\n| 1 : gx\n| | 3 : bx\n| | | 4\n| | | | y[{2}] += x[4*{0} + {3}]\n",
}

NATIVE = ("llvm", "c", "avx2", "avx512")
ONES = 4096


def kernel_of(body: str, dtype: str) -> dojoir.Kernel:
    tmp = "tmp k: i32\n" if " k = " in body else ""
    return dojoir.parse(HEAD.format(t=dtype).rstrip("\n") + f"\n{tmp}\n{body}")


def ones(dtype: str) -> dict[str, NDArray[Any]]:
    x, y = (from_floats(np.full(size, value, np.float64), DTYPES[dtype]) for size, value in ((ONES, 1), (3, 0)))
    return {"x": x, "at": np.arange(ONES, dtype=np.int32) // (ONES - 1), "y": y}


@pytest.mark.parametrize("target", NATIVE)
@pytest.mark.parametrize("dtype", ["f16", "bf16"])
@pytest.mark.parametrize("form", FORMS)
def test_each_sum_is_rounded_once(form: str, dtype: str, target: str) -> None:
    """4,096 ones, of which an f16 that is rounded at each step has 2,048, and a bf16 256."""
    runs(target)
    kernel, given = kernel_of(FORMS[form], dtype), ones(dtype)
    expected = dojoir.interpret(kernel, given)["y"]
    assert to_floats(expected, DTYPES[dtype])[0] >= 4080
    assert np.array_equal(dojoir.compile(kernel, target).run(given)["y"], expected)


@pytest.mark.parametrize("target", ["neon", "sve", "rvv"])
@pytest.mark.parametrize("form", ["scatter", "lanes", "a condition", "on cores"])
def test_and_elsewhere(form: str, target: str) -> None:
    if not runs_here(target):
        pytest.skip(f"{target} is not emulated here")
    kernel, given = kernel_of(FORMS[form], "f16"), ones("f16")
    expected = dojoir.interpret(kernel, given)["y"]
    assert np.array_equal(dojoir.compile(kernel, target).run(given)["y"], expected)


@pytest.mark.parametrize("target", ["cuda", "hip"])
@pytest.mark.parametrize("dtype", ["f16", "bf16"])
@pytest.mark.parametrize("form", ON_DEVICE)
def test_each_sum_of_threads_is_rounded_once(form: str, dtype: str, target: str) -> None:
    kernel, given = kernel_of(ON_DEVICE[form], dtype), ones(dtype)
    dojoir.prove(kernel)
    expected = dojoir.interpret(kernel, given)["y"]
    assert to_floats(expected, DTYPES[dtype])[0] >= 4080
    found = run(kernel, given, {"N": ONES, "B": 3}, target, "backward")["y"]
    assert np.array_equal(found, expected)


@pytest.mark.parametrize("target", NATIVE)
def test_an_element_that_nothing_is_added_to_keeps_its_bits(target: str) -> None:
    """-0.0 and a NaN with bits of its own, before and behind the element that has sums; and -0.0 added to it."""
    runs(target)
    kernel = kernel_of(FORMS["scatter"], "f16")
    y = np.array([0x8000, 0x8000, 0x7E55], np.uint16).view(np.float16)
    for value, expected in ((-0.0, 0x8000), (0.0, 0x0000)):
        given = {"x": np.full(4, value, np.float16), "at": np.full(4, 1, np.int32), "y": y}
        found = dojoir.compile(kernel, target).run(given)["y"].view(np.uint16)
        assert list(found) == [0x8000, expected, 0x7E55]


@pytest.mark.parametrize("target", ["llvm", "avx512", "neon", "rvv", "sve", "cuda", "hip"])
@pytest.mark.parametrize("form", FORMS)
def test_only_elements_that_are_added_to_are_touched(form: str, target: str) -> None:
    kernel, sizes = kernel_of(FORMS[form], "f16"), {"N": 5, "B": 4}
    given = {**ones("f16"), "y": np.ones(4, np.float16)}
    given = {name: array[:5] for name, array in given.items()}
    assert not list(strays(kernel, sizes, given, [target]))


@pytest.mark.parametrize("target", NATIVE)
def test_an_index_out_of_range_is_said_of_the_line(target: str) -> None:
    runs(target)
    kernel, given = kernel_of(FORMS["scatter"], "f16"), ones("f16")
    given["at"][7] = 3
    with pytest.raises(dojoir.RunError, match=r":\d+:3: .*y\[at\[\{0\}\]\]\n  \| y\[at\[\{0\}\]\] \+= x"):
        dojoir.compile(kernel, target).run(given)


@pytest.mark.parametrize(
    "body",
    [
        "N\n| B\n| | y[{1}] += x[{0}]\n",  # under strict each step is rounded
        "B\n| y[{0}] += x[0]\n",  # each element is added to once
        "B\n| N\n| | y[{0}] += x[{1}]\n",  # a variable carries the sum
        "N\n| B\n| | y[{1}] *= x[{0}]\n",
        "N\n| B\n| | y[{1}] = y[{1}] + x[{0}]\n",  # a text that rounds at each step
    ],
)
def test_other_texts_are_as_they_were(body: str) -> None:
    kernel = kernel_of(body, "f16")
    kernel = kernel.with_fp("strict") if body.startswith("N\n| B\n| | y[{1}] +=") else kernel
    assert "y_sum[" not in dojoir.emit(kernel, "c")


def test_threads_whose_element_a_condition_hides_are_refused() -> None:
    body = "1 : gx\n| N\n| | 4 : bx\n| | | if {2} < {1}\n| | | | y[0] += x[{1}]\n"
    with pytest.raises(dojoir.KernelError, match=r"narrow-sum.*\n?.*tmp of f32"):
        dojoir.emit(kernel_of(body, "f16"), "cuda")
