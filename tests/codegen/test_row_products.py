"""Rows that multiply twice, as those of an attention, on matrix units: one launch, the scores in registers, right
on the harness, taken by NVRTC."""

from __future__ import annotations

from dataclasses import replace
from functools import cache

import numpy as np
import pytest
from gpu_compile import nvrtc_error
from narrow_products import drawn, numbers
from on_harness import run

import dojoir
from dojoir.backends.machine import MACHINES, Machine
from dojoir.errors import DojoError
from dojoir.passes.schedule.gpu.tiles.row_products import row_products

CUDA = MACHINES["cuda"]

TEXT = """kernel attention(H, T, D)
in  q: TYPE[H, T, D]
in  k: TYPE[H, T, D]
in  v: TYPE[H, T, D]
out y: TYPE[H, T, D]
tmp s: f32[H, T, T]
tmp p: TYPE[H, T, T]
tmp m: f32[H, T]
tmp l: f32[H, T]
tmp o: f32[H, T, D]

H @h
| T @i
| | m[{h}, {i}] = -inf
| | END @j
| | | s[{h}, {i}, {j}] = 0
| | | D @d
| | | | s[{h}, {i}, {j}] += f32(q[{h}, {i}, {d}]) * f32(k[{h}, {j}, {d}])
| | | m[{h}, {i}] max= s[{h}, {i}, {j}]
| | l[{h}, {i}] = 0
| | END @p
| | | p[{h}, {i}, {p}] = TYPE(exp(0.125 * (s[{h}, {i}, {p}] - m[{h}, {i}])))
| | | l[{h}, {i}] += f32(p[{h}, {i}, {p}])
| | D @e
| | | o[{h}, {i}, {e}] = 0
| | | END @r
| | | | o[{h}, {i}, {e}] += f32(p[{h}, {i}, {r}]) * f32(v[{h}, {r}, {e}])
| | | y[{h}, {i}, {e}] = TYPE(o[{h}, {i}, {e}] / l[{h}, {i}])
"""

GROUPED = TEXT.replace("k: TYPE[H,", "k: TYPE[2,").replace("v: TYPE[H,", "v: TYPE[2,")
GROUPED = GROUPED.replace("k[{h},", "k[{h} // 2,").replace("v[{h},", "v[{h} // 2,")

MASKED = TEXT.replace("max= s[{h}, {i}, {j}]", "max= select({j} <= {i}, s[{h}, {i}, {j}], -inf)").replace(
    "TYPE(exp(0.125 * (s[{h}, {i}, {p}] - m[{h}, {i}])))",
    "select({p} <= {i}, TYPE(exp(0.125 * (s[{h}, {i}, {p}] - m[{h}, {i}]))), 0)",
)

DIVIDED = TEXT.replace("tmp o: f32[H, T, D]\n", "").replace("tmp p:", "tmp w: TYPE[H, T, T]\ntmp p:")
DIVIDED = DIVIDED[: DIVIDED.index("| | D @e")] + (
    """| | END @w
| | | w[{h}, {i}, {w}] = f32(p[{h}, {i}, {w}]) / l[{h}, {i}]
| | D @e
| | | y[{h}, {i}, {e}] = 0
| | | END @r
| | | | y[{h}, {i}, {e}] += w[{h}, {i}, {r}] * v[{h}, {r}, {e}]
"""
)

CASES = {
    "full": (TEXT, "bf16", "T", "", (2, 128, 64), 3),
    "f16": (TEXT, "f16", "T", "", (1, 64, 32), 3),
    "ragged": (TEXT, "bf16", "T", "", (2, 100, 64), 3),
    "ragged, several blocks": (TEXT, "f16", "T", "", (1, 150, 32), 6),
    "causal, in blocks": (MASKED, "bf16", "128*({i} // 128) + 128", "", (1, 256, 32), 3),
    "short": (TEXT, "bf16", "T", "", (1, 7, 16), 3),
    "wide": (TEXT, "bf16", "T", "", (1, 64, 128), 3),
    "causal, algebra": (TEXT, "bf16", "{i} + 1", "fp fast", (2, 128, 64), 5),
    "causal": (TEXT, "bf16", "{i} + 1", "", (2, 128, 64), 4),
    "causal, ragged": (TEXT, "bf16", "{i} + 1", "", (1, 150, 64), 4),
    "grouped heads": (GROUPED, "bf16", "T", "", (4, 64, 64), 3),
    "a mask": (MASKED, "bf16", "T", "", (2, 128, 64), 3),
    "divided first": (DIVIDED, "bf16", "T", "", (1, 128, 64), 4),
}


def kernel(name: str) -> dojoir.Kernel:
    text, dtype, end, mode, sizes, _ = CASES[name]
    text = text.replace("TYPE", dtype).replace("END", end).replace("(H, T, D)", f"(H, T, D)\n{mode}", 1)
    return dojoir.parse(text).specialize(**dict(zip("HTD", sizes, strict=True)))


SMALL = replace(CUDA, multiprocessors=1)
"""A machine for which few blocks are many: a warp has 32 rows."""


@cache
def scheduled(name: str, machine: Machine = CUDA) -> dojoir.Trace:
    trace = dojoir.Trace(kernel(name))
    assert row_products(trace, (0,), machine) == []
    return trace


@pytest.mark.parametrize("name", CASES)
def test_one_launch_with_the_scores_in_registers(name: str) -> None:
    after = scheduled(name).kernel
    assert len(after.body) == 1
    text = dojoir.to_text(after)
    assert text.count("use(mma_") == CASES[name][-1]
    assert {buffer.storage for buffer in after.buffers if buffer.role == "tmp"} == {"reg", "shared"}
    assert not nvrtc_error(dojoir.emit(after, "cuda"), "sm_90a")


def test_a_warp_has_two_tiles_of_rows_where_blocks_are_enough() -> None:
    for machine, wanted in ((CUDA, ["4", "2", "8"]), (SMALL, ["4", "2", "2", "8"])):
        dims = [str(dim.extent) for dim in scheduled("full", machine).kernel.buffer("o").dims if not dim.collapsed]
        assert [size for size in dims if size != "1"][: len(wanted)] == wanted


@pytest.mark.parametrize(
    "name, machine", [*((n, CUDA) for n in CASES), *((n, SMALL) for n in CASES if CASES[n][4][1] >= 128)]
)
def test_it_is_right_on_the_harness(name: str, machine: Machine) -> None:
    before, given = kernel(name), drawn(kernel(name))
    wanted = np.zeros([dim.extent.offset for dim in before.buffer("y").dims], given["q"].dtype)
    dojoir.compile(before, "llvm")(**given, y=wanted)
    found = run(scheduled(name, machine).kernel, given, {})["y"].reshape(wanted.shape)
    dtype = before.buffer("q").dtype.name
    assert np.allclose(numbers(found, dtype), numbers(wanted, dtype), rtol=2**-6, atol=2**-7)


def test_what_is_past_the_end_may_be_infinite() -> None:
    """A causal row reads no value beyond its own, so what stands there is nothing to it."""
    given = drawn(kernel("causal"))
    given["v"][:, 100] = 0x7F80  # infinity
    found = run(scheduled("causal").kernel, given, {})["y"].reshape(2, 128, 64)
    assert np.isfinite(numbers(found, "bf16")[:, :100]).all()


def test_strict_sums_are_left_alone() -> None:
    trace = dojoir.Trace(kernel("full").with_fp("strict"))
    with pytest.raises(DojoError, match="a sum in any order"):
        row_products(trace, (0,), CUDA)


@pytest.mark.parametrize(
    ("old", "new"),
    [
        (
            "| | l[{h}, {i}] = 0\n",
            "| | if {h} < {i}\n| | | l[{h}, {i}] = 1\n| | | m[{h}, {i}] = 0\n| | l[{h}, {i}] = 0\n",
        ),
        ("f32(k[{h}, {j}, {d}])", "f32(k[{h}, {j}, {d}]) * 2"),
        ("tmp s: f32", "tmp s: f64"),
        ("p: TYPE", "p: f32"),
    ],
)
def test_other_rows_are_refused_without_a_traceback(old: str, new: str) -> None:
    assert old in TEXT
    text = TEXT.replace(old, new).replace("TYPE", "bf16").replace("END", "T")
    trace = dojoir.Trace(dojoir.parse(text).specialize(H=2, T=64, D=64))
    with pytest.raises(DojoError):
        row_products(trace, (0,), CUDA)


def test_it_is_certified() -> None:
    assert dojoir.certify(scheduled("short"))


NESTED = """kernel rows(N)
in  x: f32[N, 8, 8]
out y: f32[N, 8]
N : gx
| 1 : by
| | 1 : u
| | | 8 : lane
| | | | y[{0}, {3}] = 0
| | 1 : u
| | | 8 : lane
| | | | 4 : lane
| | | | | 2
| | | | | | y[{0}, {3}] += x[{0}, {3}, 2*{4} + {5}]
"""


def test_two_scopes_count_the_lanes_of_a_warp() -> None:
    after = dojoir.parse(NESTED)
    with pytest.raises(DojoError, match="unequal-lanes"):  # 8 of 32 lanes may not store
        dojoir.emit(after, "cuda")
    held = dojoir.parse(
        NESTED.replace("out y: f32[N, 8]\n", "out y: f32[N, 8]\ntmp t: f32[8] reg\n")
        .replace("y[{0}, {3}] = 0", "t[{3}] = 0")
        .replace("y[{0}, {3}] +=", "t[{3}] +=")
        + "| | 1 : u\n| | | 8 : lane\n| | | | 4 : lane\n| | | | | if {4} == 0\n| | | | | | y[{0}, {3}] = t[{3}]\n"
    )
    x = np.arange(5 * 64, dtype=np.float32).reshape(5, 8, 8)
    assert np.array_equal(run(held, {"x": x}, {"N": 5})["y"].reshape(5, 8), x.sum(axis=2))


OUTER = """kernel rows(N)
in  x: f32[N, 2, 8, 4, 3]
inout y: f32[N, 2, 4]
N : gx
| 2 : by
| | 1 : u
| | | 8 : lane
| | | | 4 : lane
| | | | | 3
| | | | | | y[{0}, {1}, {4}] += x[{0}, {1}, {3}, {4}, {5}]
"""


def test_lanes_that_are_no_neighbours_put_nothing_together() -> None:
    """Found by hand: the lanes of the outer scope added up what lies beside them."""
    with pytest.raises(DojoError, match="collective-loop"):
        dojoir.emit(dojoir.parse(OUTER), "cuda")
    x = np.arange(3 * 2 * 8 * 4 * 3, dtype=np.float32).reshape(3, 2, 8, 4, 3)
    neighbours = OUTER.replace("8 : lane", "* : lane").replace("4 : lane", "8 : lane").replace("*", "4", 1)
    neighbours = neighbours.replace("y[{0}, {1}, {4}]", "y[{0}, {1}, {3}]").replace(
        "{3}, {4}, {5}]", "{4}, {3}, {5}]"
    )
    of_a_block = """kernel rows(N)
in  x: f32[N, 2, 8, 4, 3]
inout y: f32[N, 2, 4]
N : gx
| 2 : by
| | 8 : lane
| | | 4 : lane
| | | | 3
| | | | | y[{0}, {1}, {3}] += x[{0}, {1}, {2}, {3}, {4}]
"""
    for text in (neighbours, of_a_block):
        found = run(dojoir.parse(text), {"x": x, "y": np.zeros((3, 2, 4), np.float32)}, {"N": 3})
        assert np.array_equal(found["y"].reshape(3, 2, 4), x.sum(axis=(2, 4)))


OTHERS = """kernel rows(N)
in  x: f32[N, 2]
out y: f32[N, 2, 32]
out z: f32[N, 2, 32]
tmp t: f32[2] stack
N : gx
| 2 : by
| | t[{1}] = x[{0}, {1}]
| | 32 : lane
| | | z[{0}, {1}, {2}] = 1
| 2 : by
| | 1 : u
| | | 32 : lane
| | | | y[{0}, {1}, {3}] = t[1 - {1}]
"""


def test_what_a_warp_sets_another_one_has_not() -> None:
    """Found by hand: what all lanes of a warp set alike was taken for what all threads have."""
    with pytest.raises(DojoError, match="crosses-threads"):
        dojoir.emit(dojoir.parse(OTHERS), "cuda")
    own = dojoir.parse(OTHERS.replace("t[1 - {1}]", "t[{1}]"))
    x = np.arange(6, dtype=np.float32).reshape(3, 2)
    found = run(own, {"x": x}, {"N": 3})["y"].reshape(3, 2, 32)
    assert np.array_equal(found, np.broadcast_to(x[:, :, None], found.shape))


def test_a_scope_of_lanes_in_another_is_all_that_it_has() -> None:
    other = dojoir.parse(NESTED.replace("| | | | 4 : lane\n", "| | | | y[{0}, {3}] = 1\n| | | | 4 : lane\n"))
    with pytest.raises(DojoError, match="nested-mark"):
        dojoir.verify(other)
