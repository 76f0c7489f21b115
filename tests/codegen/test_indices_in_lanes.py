"""A buffer that the kernel writes, read as an index: another one in each lane, at the same element."""

from __future__ import annotations

import numpy as np
import pytest
from able import runs

import dojoir

TEXT = """kernel most(N, M)
in  x: f32[N]
inout y: f32[M]
in  ids: u16[N]
tmp t: u16

N : v
| t = ids[{0}]
| y[t] max= x[{0}]
"""


@pytest.mark.parametrize("target", ["llvm", "c", "avx2", "avx512"])
def test_lanes_accumulate_where_each_of_them_says(target: str) -> None:
    """The index `t` names the same element of the same buffer in all lanes, and so they were taken for a reduction
    into one element: a miscompile."""
    runs(target)
    random = np.random.default_rng(0)
    for n, m in ((1, 1), (8, 3), (67, 5), (200, 40)):
        x, ids = random.standard_normal(n, np.float32), random.integers(0, m, n).astype(np.uint16)
        y = np.full(m, -np.inf, np.float32)
        wanted = y.copy()
        np.maximum.at(wanted, ids, x)
        dojoir.compile(dojoir.parse(TEXT), target)(x=x, y=y, ids=ids)
        assert (y == wanted).all(), (n, m)


def test_what_is_copied_into_an_index_is_drawn_within_its_range() -> None:
    """`verify` drew any numbers for `ids`, whose copy is the index: the kernel ended with index-out-of-range."""
    report = dojoir.verify(dojoir.parse(TEXT))
    assert report.ok, str(report)


FORMS = {
    "read where it is used": "N : v\n| AT ids[{0}]",
    "copied in the lane": "N : v\n| t = ids[{0}]\n| AT t",
    "copied in a scope of the lane": "N : v\n| 1\n| | own[{1}] = ids[{0} + {1}]\n| AT own[0]",
    "copied before": "N\n| all[{0}] = ids[{0}]\nN : v\n| AT all[{0}]",
    "copied around the lanes": "N\n| t = ids[{0}]\n| N : v\n| | AT t",
}
"""Ways to an index, before what is accumulated at it."""


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("target", ["llvm", "avx2", "avx512"])
def test_every_way_to_an_index_is_right_in_lanes(target: str, form: str) -> None:
    runs(target)
    wanted = {f"{op}_{dtype}": (op, dtype) for op in ("add", "max", "min") for dtype in ("f32", "i32", "f16")}
    signs = {"add": "+=", "max": "max=", "min": "min="}
    before, line = FORMS[form].rsplit("\n", 1)
    bars, index = line.split("AT ")
    lanes = "{1}" if bars.count("|") == 2 else "{0}"
    body = [f"{bars}{name}[{index}] {signs[op]} x_{dtype}[{lanes}]" for name, (op, dtype) in wanted.items()]
    declared = [f"inout {name}: {dtype}[M]" for name, (_, dtype) in wanted.items()]
    arrays = [*(f"in x_{dtype}: {dtype}[N]" for dtype in ("f32", "i32", "f16")), "in ids: u16[N]"]
    temporaries = ["tmp t: u16", "tmp own: u16[1]", "tmp all: u16[N]"]
    used = [one for one in temporaries if one.split()[1].rstrip(":") in FORMS[form].replace("[", " ").split()]
    text = "\n".join(["kernel ways(N, M)", *arrays, *declared, *used, "", before, *body]) + "\n"
    sizes = [{"N": n, "M": m} for n, m in ((1, 1), (8, 3), (67, 5))]
    report = dojoir.verify(dojoir.parse(text), target=target, sizes=sizes, distributions=("integers", "uniform"))
    assert report.ok, f"{text}\n{report}"
