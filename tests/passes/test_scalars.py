"""Scalars that a text uses again, by the rule that gives each use one of its own."""

from __future__ import annotations

import pytest

import dojoir
from dojoir.passes.schedule.forms.temporaries import expand_sums, expand_temporaries, own_scalars

TEXT = """kernel again(N, M)
in  x: f32[N, M]
out y: f32[N]
out z: f32[M]
tmp s: f32

N @i
| s = 0
| M @j
| | s += x[{i}, {j}]
| y[{i}] = s
M @k
| s = 1
| N @l
| | s += x[{l}, {k}]
| z[{k}] = s
"""

THREE = TEXT.replace("out z", "out w: f32[N]\nout z") + "N @m\n| s = y[{m}]\n| w[{m}] = s * s\n"


def owned(text: str) -> dojoir.Trace:
    trace = dojoir.Trace(dojoir.parse(text))
    own_scalars(trace)
    return trace


@pytest.mark.parametrize(("text", "count"), [(TEXT, 2), (THREE, 3)])
def test_each_use_has_its_own(text: str, count: int) -> None:
    trace = owned(text)
    assert [b.name for b in trace.kernel.buffers if b.role == "tmp"] == ["s", "s2", "s3"][:count]
    assert len(trace.moves) == count - 1 and dojoir.certify(trace)


def test_then_both_nests_run_in_lanes() -> None:
    written = str(dojoir.PASSES["default_schedule"].given("avx512").on(dojoir.parse(TEXT)).kernel)
    assert "M : v @j" in written and ": v @k_in" in written


@pytest.mark.parametrize(
    "text",
    [
        TEXT.replace("| s = 1\n", "| s = s + 1\n"),  # the one before is wanted
        TEXT.replace("s = 1", "z[{k}] = s\n| s = 1"),
        "kernel f(N)\nin x: f32[N]\nout y: f32\ntmp s: f32\ns = x[0]\ny = s\ns = 2 * x[0]\ny = y + s\n",  # no nest
    ],
)
def test_others_stay(text: str) -> None:
    assert owned(text).moves == ()


HIDDEN = """kernel product(N, M, K)
in  a: f32[N, K]
in  b: f32[K, M]
out c: f32[N, M]
out r: f32[N]
tmp t: f32
tmp s: f32
tmp row: f32[K]

N @i
| s = 0
| K @l
| | row[{l}] = 2 * a[{i}, {l}]
| | s += row[{l}]
| r[{i}] = s
| M @j
| | t = 0
| | K @k
| | | t += row[{k}] * b[{k}, {j}]
| | c[{i}, {j}] = max(t, 0)
"""


def test_what_hides_a_product_becomes_an_array() -> None:
    trace = dojoir.Trace(dojoir.parse(HIDDEN))
    assert expand_temporaries(trace)
    shapes = {b.name: len(b.dims) for b in trace.kernel.buffers if b.role == "tmp"}
    assert shapes == {"t": 2, "s": 1, "row": 2} and dojoir.certify(trace)


def test_a_cpu_expands_sums_of_products_alone() -> None:
    trace = dojoir.Trace(dojoir.parse(HIDDEN.replace("row[{k}] *", "a[{i}, {k}] *")))
    expand_sums(trace, {})
    shapes = {b.name: len(b.dims) for b in trace.kernel.buffers if b.role == "tmp"}
    assert shapes == {"t": 2, "s": 0, "row": 1} and dojoir.certify(trace)


@pytest.mark.parametrize("target", ["avx2", "cuda"])
def test_a_plan_has_the_tiles_of_a_product(target: str) -> None:
    rows = HIDDEN[HIDDEN.index("| s = 0") : HIDDEN.index("| M @j")]
    text = HIDDEN.replace(rows, "").replace("out r: f32[N]\n", "").replace("row[{k}] *", "a[{i}, {k}] *")
    kernel = dojoir.parse(text).specialize(N=256, M=256, K=256)
    planned = dojoir.to_text(dojoir.optimize(kernel, target).kernel)
    assert "_tile" in planned and "tmp t: " not in planned  # the tile has the sums; nothing reads the array


def test_no_product_needs_no_arrays() -> None:
    trace = dojoir.Trace(dojoir.parse(TEXT))
    expand_sums(trace, {})
    assert not trace.moves


SCORES = """kernel scores(T, D)
in  q: f32[T, D]
in  k: f32[T, D]
out y: f32[T]
tmp s: f32[T]
tmp m: f32

T @i
| m = -inf
| T @j
| | s[{j}] = 0
| | D @d
| | | s[{j}] += q[{i}, {d}] * k[{j}, {d}]
| | m max= s[{j}]
| y[{i}] = 0
| T @u
| | y[{i}] += exp(s[{u}] - m)
"""


@pytest.mark.parametrize("sizes", [{}, {"T": 512, "D": 64}])
def test_an_array_beyond_all_arguments_is_not_of_open_sizes(sizes: dict[str, int]) -> None:
    kernel = dojoir.parse(SCORES).specialize(**sizes)
    scores = dojoir.optimize(kernel, "cuda").kernel.buffer("s")
    assert scores.storage == "heap" and len(scores.dims) == 1 + bool(sizes)
