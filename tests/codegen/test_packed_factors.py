"""Factors of contractions as matrices: windows, values that are computed, and bytes that lie in rows become arrays
for matrix units. Drawn ones compute what their texts say."""

from __future__ import annotations

import random

import numpy as np
import pytest
from narrow_products import drawn, numbers

import dojoir
from dojoir.backends.machine import MACHINES
from dojoir.costs.launches import floor_seconds
from dojoir.passes.schedule.forms.packed import pack_factors
from dojoir.passes.schedule.forms.temporaries import expand_temporaries

WINDOW = """kernel convolution(N = 2, C = 3, D = 4, H = 5, W = 6)
in  x: f16[N, C, H + 2, W + 2]
in  w: f16[D, C, 3, 3]
out y: f16[N, D, H, W]
tmp t: f32

N @n
| D @d
| | H @i
| | | W @j
| | | | t = 0
| | | | C @c
| | | | | 3 @u
| | | | | | 3 @v
| | | | | | | t += f32(x[{n}, {c}, {i} + {u}, {j} + {v}]) * f32(w[{d}, {c}, {u}, {v}])
| | | | y[{n}, {d}, {i}, {j}] = f16(t)
"""


def packed(text: str) -> dojoir.Trace:
    trace = dojoir.Trace(dojoir.parse(text))
    expand_temporaries(trace)
    pack_factors(trace)
    return trace


def test_a_convolution_is_a_product() -> None:
    trace = packed(WINDOW.replace("in  x", "fp strict\nin  x"))
    assert dojoir.certify(trace)
    for array in ("factor: f16[4, 27]", "factor2: f16[2, 27, 30]", "t: f32[2, 4, 30]"):
        assert f"tmp {array}\n" in dojoir.to_text(trace.kernel)
    assert "y[{0}, {1}, {2} // 6, {2} % 6] = f16(t[{0}, {1}, {2}])" in dojoir.to_text(trace.kernel)
    assert "t[{0}, {1}, {2}] += f32(factor2[{0}, {3}, {2}]) * f32(factor[{1}, {3}])" in dojoir.to_text(trace.kernel)


def test_few_channels_are_filled_up_in_both_factors() -> None:
    trace = packed(WINDOW)
    text = dojoir.to_text(trace.kernel)
    assert dojoir.certify(trace) and "tmp x2: f16[2, 7, 8, 8]\n" in text and "tmp factor: f16[4, 72]\n" in text


@pytest.mark.parametrize(
    "text",
    [
        WINDOW.replace("f16", "i32").replace("t: f32", "t: i32").replace("f32(", "(").replace("i32(", "("),
        WINDOW.replace("{i} + {u}, {j} + {v}", "{i} + {u} - 1, {j}").replace(
            "t += f32(x", "if {i} + {u} > 0\n| | | | | | | | t += f32(x"
        ),  # where nothing is
    ],
)
def test_others_stay(text: str) -> None:
    trace = packed(text)
    assert "factor" not in str(trace.kernel)


@pytest.mark.parametrize("dtype", ["f32", "f64"])
def test_wide_floats_are_products_as_well(dtype: str) -> None:
    wide = WINDOW.replace("f16", dtype).replace("t: f32", f"t: {dtype}").replace("f32(", "(").replace("f64(", "(")
    assert "factor" in str(packed(wide).kernel)


def text_of(draw: random.Random) -> str:
    """A sum over windows, or of values that are computed, in some order of dimensions, types and spellings."""
    kind = draw.choice(("window", "window", "codes", "bytes", "gradient"))
    n, rows, columns, terms = (draw.randint(2, 6) for _ in range(4))
    terms = draw.choice((terms, terms, 8, 16))
    stride, taps, dtype = draw.choice((1, 1, 2)), draw.randint(1, 4), draw.choice(("f16", "bf16"))
    scalar, begins = draw.random() < 0.5, draw.choice(("0", "b[{d}]"))
    target = "t" if scalar else "y[{n}, {d}, {p}]"
    if kind == "window":
        arrays = (
            f"in  x: {dtype}[{n}, {terms}, {stride * columns + taps}]\nin  w: {dtype}[{rows}, {terms}, {taps}]\n"
        )
        at = f"{stride} * {{p}} + {{v}}"
        value = f"f32(x[{{n}}, {{c}}, {at}]) * f32(w[{{d}}, {{c}}, {{v}}])"
        if draw.random() < 0.3:
            arrays = f"in  x: {dtype}[{n}, {stride * columns + taps}, {terms}]\n" + arrays[arrays.index("in  w") :]
            value = value.replace(f"{{c}}, {at}", f"{at}, {{c}}")
        if draw.random() < 0.3:
            arrays = arrays.replace(f"w: {dtype}[{rows}, {terms}, {taps}]", f"w: {dtype}[{taps}, {terms}, {rows}]")
            value = value.replace("w[{d}, {c}, {v}]", "w[{v}, {c}, {d}]")
    elif kind == "gradient":  # of the weights of a window: a sum over all places
        arrays = f"in  x: {dtype}[{terms}, {columns}, {n + taps}]\nin  w: {dtype}[{terms}, {rows}, {taps}]\n"
        value = "f32(x[{c}, {p}, {n} + {v}]) * f32(w[{c}, {d}, {v}])"
    elif kind == "codes":
        arrays = f"in  x: {dtype}[{n}, {columns}, {terms * taps}]\nin  w: u8[{rows}, {terms * taps}]\n"
        arrays += f"in  s: f32[{rows}, {terms}]\n"
        at = f"{taps} * {{c}} + {{v}}"
        value = f"f32(x[{{n}}, {{p}}, {at}]) * f32({dtype}((f32(w[{{d}}, {at}]) - 8) * s[{{d}}, {{c}}]))"
    else:
        arrays = f"in  x: i8[{n}, {columns}, {terms}, {taps}]\nin  w: i8[{terms}, {taps}, {rows}]\n"
        value = "i32(x[{n}, {p}, {c}, {v}]) * i32(w[{c}, {v}, {d}])"
    out = "i32" if kind == "bytes" else "f32"
    kept = [f"{n} @n", f"{rows} @d", f"{columns} @p"]
    if draw.random() < 0.3:
        kept = [kept[0], kept[2], kept[1]]
    sums = [f"{terms} @c", f"{taps} @v"][:: draw.choice((1, -1))]
    lines = [kept[0], f"| {kept[1]}", f"| | {kept[2]}", f"| | | {target} = {begins}", f"| | | {sums[0]}"]
    lines += [f"| | | | {sums[1]}", f"| | | | | {target} += {value}"]
    lines += ["| | | y[{n}, {d}, {p}] = 2 * t"] if scalar else []
    arrays += f"in  b: {out}[{rows}]\nout y: {out}[{n}, {rows}, {columns}]\n" + (
        f"tmp t: {out}\n" if scalar else ""
    )
    return f"kernel sums()\nfp {draw.choice(('strict', 'reassoc'))}\n{arrays}\n" + "\n".join(lines) + "\n"


def asks_for_packing(kernel: dojoir.Kernel) -> bool:
    """Whether a factor is no matrix: it is computed, it is of bytes, or a window has several taps or steps."""
    text = dojoir.to_text(kernel)
    return "i8" in text or "u8" in text or "1 @v" not in text or "2*{p}" in text or "2*{2}" in text


@pytest.mark.parametrize("seed", range(32))
def test_drawn_sums_are_what_they_were(seed: int) -> None:
    before = dojoir.parse(text_of(random.Random(seed)))
    trace = packed(dojoir.to_text(before))
    assert ("factor" in dojoir.to_text(trace.kernel)) == asks_for_packing(before) and dojoir.certify(trace)
    given = drawn(before, seed)
    found = []
    for kernel in (before, trace.kernel):
        shape = [dim.extent.offset for dim in before.buffer("y").dims]
        found.append(np.zeros(shape, np.int32 if before.buffer("y").dtype.name == "i32" else np.float32))
        dojoir.compile(kernel, "llvm")(**given, y=found[-1])
    left, right = (numbers(values, "") for values in found)
    assert np.array_equal(left, right) if before.fp == "strict" else np.allclose(left, right, rtol=1e-5, atol=1e-5)


CODES = """kernel codes(M = 64, N = 2048, K = 2048)
fp reassoc
in  x: bf16[M, K]
in  q: u8[N, K]
in  s: f32[N]
out y: f32[M, N]

M @m
| N @n
| | y[{m}, {n}] = 0
| | K @k
| | | y[{m}, {n}] += f32(x[{m}, {k}]) * f32(bf16((f32(q[{n}, {k}]) - 8) * s[{n}]))
"""


def test_no_schedule_is_faster_says_what_units_can_do_with_factors_that_are_stored() -> None:
    """A plan that is near to it ends the search for others, and packing would never be tried."""
    exact = dojoir.parse(CODES.replace("bf16(", "(").replace("bf16[", "f32["))
    least = [floor_seconds(kernel, MACHINES["cuda"], {}) for kernel in (dojoir.parse(CODES), exact)]
    assert 3 * least[0] < least[1]


TURNS = """kernel turns()
in  x: f16[64, 64]
in  w: f16[64, 64]
out y: f32[64, 64]
tmp z: f16[64, 64]

4 @i
| 64 @j
| | 16 @k
| | | z[16*{i} + {k}, {j}] = x[16*{i} + {k}, {j}]
64 @m
| 64 @n
| | y[{m}, {n}] = 0
| | 64 @l
| | | y[{m}, {n}] += f32(z[{m}, {l}]) * f32(w[{l}, {n}])
"""


def test_a_copy_whose_rows_are_two_scopes_apart_is_read_as_it_is() -> None:
    assert dojoir.plan(dojoir.parse(TURNS), "cuda").best.trace.moves


def test_a_copy_whose_columns_come_before_its_rows_is_read_where_it_is_from() -> None:
    fill = TURNS[TURNS.index("4 @i") : TURNS.index("64 @m")]
    turned = (
        "8 @a\n| 8 @b\n| | 4 @i\n| | | 16 @k\n| | | | z[16*{i} + {k}, 8*{a} + {b}] = x[16*{i} + {k}, 8*{a} + {b}]\n"
    )
    kernel = dojoir.parse(TURNS.replace(fill, turned))
    trace = dojoir.plan(kernel, "cuda").best.trace
    assert trace.moves and dojoir.certify(trace)
