"""Texts for a GPU as they are written, and the structure that each must have: sums that something before has begun,
results that lie apart, triangles with a mirror, histograms of several scopes, rows that iterations share, steps."""

from __future__ import annotations

import re
from typing import Literal

import numpy as np
import pytest
from on_harness import run

import dojoir
from dojoir.backends.host import machine_named
from dojoir.passes.schedule.forms.packed import pack_factors
from dojoir.passes.schedule.forms.parting import part_shared
from dojoir.passes.schedule.gpu.nest_rules import elements_in_threads
from dojoir.passes.schedule.gpu.rows.reductions import few_rows
from dojoir.passes.schedule.gpu.tiles.contractions import large_tiles
from dojoir.passes.schedule.gpu.tiles.product_tiles import product_by_size
from dojoir.runtime.verification.random_inputs import random_inputs

GOES_ON = """kernel goes_on(B, T, D)              # what another nest has begun
in  p: f32[B, T, D]
in  v: f32[B, D, T]
inout y: f32[B, T, T]

B @b
| T @i
| | T @j
| | | D @k
| | | | y[{b}, {i}, {j}] += p[{b}, {i}, {k}] * v[{b}, {k}, {j}]
"""
PARTS = """kernel parts(T, D)                     # the real part of results that have another one as well
in  a: f32[T, D, 2]
in  b: f32[D, T, 2]
inout y: f32[T, T, 2]

T @i
| T @j
| | D @k
| | | y[{i}, {j}, 0] += a[{i}, {k}, 0] * b[{k}, {j}, 1]
"""
BY_PIXEL = """kernel by_pixel(B, T, D)            # neither rows nor columns of the result lie side by side
in  x: f32[T, D, B]
in  w: f32[B, T, D]
out y: f32[T, T, B]

T @n
| T @k
| | B @p
| | | y[{n}, {k}, {p}] = 0
| | | D @c
| | | | y[{n}, {k}, {p}] += x[{n}, {c}, {p}] * w[{p}, {k}, {c}]
"""
MIRRORED = """kernel mirrored(T, D)               # sums that begin in a triangle, which then is mirrored
in  a: f32[T, D]
out y: f32[T, T]

T @i
| {i} + 1 @j
| | y[{i}, {j}] = 0
| | D @k
| | | y[{i}, {j}] += a[{i}, {k}] * a[{j}, {k}]
T @m
| {m} + 1 @n
| | y[{n}, {m}] = y[{m}, {n}]
"""


@pytest.mark.parametrize("target", ["cuda", "hip"])
@pytest.mark.parametrize("size", [64, 72])
@pytest.mark.parametrize("text", [GOES_ON, PARTS, BY_PIXEL, MIRRORED], ids=lambda text: text.split("(")[0][7:])
def test_products_have_tiles_in_shared_memory(text: str, size: int, target: str) -> None:
    kernel, machine = dojoir.parse(text), machine_named(target)
    trace = dojoir.Trace(
        kernel.specialize(
            **{name: n for name, n in {"B": 2, "T": size, "D": 32}.items() if name in kernel.runtime_sizes}
        )
    )
    if text == PARTS and size == 64:
        product_by_size(trace, (0,), False, machine, elements_in_threads)
    elif parts := large_tiles(trace, (0,), machine):
        large_tiles(trace, parts[1].path, machine)
    for nest in range(len(trace.kernel.body)):
        if not trace.kernel.body[nest].marks:
            elements_in_threads(trace, (nest,), machine)
    assert {buffer.storage for buffer in trace.kernel.buffers} >= {"shared", "reg"}
    if (size, target) == (72, "cuda"):
        assert dojoir.certify(trace).status == "legal"
    _is_right(kernel, trace, {"B": 2, "T": size, "D": 32}, target)


SHARED_NEST = """kernel shared_nest(B, T, D)     # a product beside what begins it, in one nest of other scopes
in  x: f32[B, D, T]
in  w: f32[D, T]
in  c: f32[T]
out y: f32[B, T, T]

B @b
| T @i
| | T @j
| | | y[{b}, {i}, {j}] = c[{j}]
| T @m
| | T @n
| | | D @k
| | | | y[{b}, {m}, {n}] += x[{b}, {k}, {m}] * w[{k}, {n}]
"""


def test_a_product_is_parted_from_what_begins_it() -> None:
    trace = dojoir.Trace(dojoir.parse(SHARED_NEST))
    part_shared(trace)
    assert [len(list(site.scopes)) for site in trace.kernel.sites] == [3, 4]
    assert len(trace.kernel.body) == 2


FILTERS = """kernel filters(N, C, O, H, W)       # the gradient of filters: what is multiplied are windows
where H >= 3, W >= 3
in  x: f32[N, C, H, W]
in  g: f32[N, O, H - 2, W - 2]
out y: f32[O, C, 3, 3]

O @o
| C @c
| | 3 @p
| | | 3 @q
| | | | y[{o}, {c}, {p}, {q}] = 0
| | | | N @n
| | | | | H - 2 @h
| | | | | | W - 2 @w
| | | | | | | y[{o}, {c}, {p}, {q}] += x[{n}, {c}, {h} + {p}, {w} + {q}] * g[{n}, {o}, {h}, {w}]
"""


@pytest.mark.parametrize("target", ["cuda", "hip"])
def test_windows_are_matrices_where_there_is_memory(target: str) -> None:
    kernel, sizes = dojoir.parse(FILTERS), {"N": 2, "C": 4, "O": 8, "H": 10, "W": 12}
    trace = dojoir.Trace(kernel.specialize(**sizes))
    assert pack_factors(trace)
    (product,) = (site for site in trace.kernel.sites if site.statement.accumulation)
    assert len(product.scopes) == 3 and all(len(access.indices) == 2 for access in product.statement.accesses)
    for nest in reversed(range(len(trace.kernel.body))):
        elements_in_threads(trace, (nest,), machine_named(target))
    _is_right(kernel, trace, sizes, target)
    assert not pack_factors(dojoir.Trace(kernel.specialize(N=1, C=64, O=1, H=64, W=64))), "nine images of one"


HISTOGRAM = """kernel colours(H, W)
in  x: u8[H, W, 3]
out h: i32[3, 256]

3 @a
| 256 @b
| | h[{a}, {b}] = 0
H @i
| W @j
| | 3 @c
| | | h[{c}, x[{i}, {j}, {c}]] += 1
"""


@pytest.mark.parametrize("target", ["cuda", "hip"])
def test_each_block_has_a_histogram_of_its_own(target: str) -> None:
    kernel = dojoir.parse(HISTOGRAM)
    trace = dojoir.optimize(kernel.specialize(H=1024, W=512), target)
    assert any(buffer.storage == "shared" for buffer in trace.kernel.buffers)
    _is_right(kernel, trace, {"H": 1024, "W": 512}, target)


POOL = """kernel pool(H, W)
where H % 2 == 0, W % 3 == 0
in  x: f32[H, W]
out y: f32[H // 2, W // 3]

H // 2 @a
| W // 3 @b
| | y[{a}, {b}] = 0
H @i
| W @j
| | y[{i} // 2, {j} // 3] += x[{i}, {j}]
"""
ZEBRA = """kernel zebra(H, W)
where H >= 4, W >= 3, H % 2 == 0
inout y: f32[H, W]
tmp r: f32[W]

10 @t
| H // 2 - 1 @i
| | W - 2 @j
| | | r[{j}] = 0.5 * (y[2*{i}, {j} + 1] + y[2*{i} + 2, {j} + 1] + y[2*{i} + 1, {j}])
| | W - 2 @k
| | | y[2*{i} + 1, {k} + 1] = r[{k}]
| H // 2 - 1 @a
| | W - 2 @b
| | | r[{b}] = 0.5 * (y[2*{a} + 1, {b} + 1] + y[2*{a} + 3, {b} + 1] + y[2*{a} + 2, {b}])
| | W - 2 @c
| | | y[2*{a} + 2, {c} + 1] = r[{c}]
"""
SO_FAR = """kernel so_far(H, W)
in  x: f32[H, W]
out y: f32[H, W]

H @t
| W @d
| | y[{t}, {d}] = x[{t}, {d}]
| if {t} > 0
| | W @e
| | | y[{t}, {e}] += y[{t} - 1, {e}]
"""


@pytest.mark.parametrize("target", ["cuda", "hip"])
@pytest.mark.parametrize(
    ("text", "inside"),
    [
        (POOL, r"\n(\| )+2 @i_in\n(\| )+3 @j_in\n(\| )+y\["),
        (ZEBRA, r"tmp r2?: f32\[\d+, \d+\]"),
        (SO_FAR, r" : bx @e_in\n(\| )+\d+ @t_rest\n"),
    ],
    ids=["pool", "zebra", "so_far"],
)
def test_nothing_waits_that_need_not(text: str, inside: str, target: str) -> None:
    kernel, sizes = dojoir.parse(text), {"H": 128, "W": 192}
    trace = dojoir.optimize(kernel.specialize(**sizes), target)
    assert re.search(inside, str(trace.kernel)), str(trace.kernel)
    _is_right(kernel, trace, sizes, target)


TWO_LOSSES = """kernel two_losses(N)            # a sum over rows between what is done with rows and with columns
in  x: f32[N, N]
out a: f32[1]
out b: f32[1]
tmp top: f32[N]
tmp low: f32[N]

N @i
| top[{i}] = -inf
| N @j
| | top[{i}] max= x[{i}, {j}]
a[0] = 0
N @i
| a[0] += top[{i}] * x[{i}, 0]
N @i
| low[{i}] = inf
| N @j
| | low[{i}] min= x[{j}, {i}]
b[0] = 0
N @i
| b[0] += low[{i}]
"""
IMAGES = """kernel images(B, C, N)               # of few images what is done by channel and what by pixel
in  x: f32[B, C, N]
out y: f32[B, N]
tmp c: f32[B, C, N]

B @i
| C @j
| | N @k
| | | c[{i}, {j}, {k}] = 0
| | | 5 @m
| | | | if {k} + {m} >= 2 and {k} + {m} < N + 2
| | | | | c[{i}, {j}, {k}] += x[{i}, {j}, {k} + {m} - 2]
B @i
| N @k
| | y[{i}, {k}] = 0
| | C @j
| | | y[{i}, {k}] += c[{i}, {j}, {k}] * c[{i}, {j}, {k}]
"""


def test_a_sum_over_rows_is_not_fused_with_rows() -> None:
    kernel, sizes = dojoir.parse(TWO_LOSSES), {"N": 320}
    trace = dojoir.PASSES["arrange"].given("products").on(kernel)
    assert not re.search(r"\n\| [ab]\[0\] \+= .*\n\| (top|low)", str(trace.kernel)), str(trace.kernel)
    planned = dojoir.optimize(kernel.specialize(**sizes), "cuda")
    assert not re.search(r"\n\d+ @", str(planned.kernel)), str(planned.kernel)  # no loop is left to the host
    _is_right(kernel, planned, sizes, "cuda")


def test_what_is_done_with_each_of_few_rows_is_a_launch_of_its_own() -> None:
    kernel, sizes = dojoir.parse(IMAGES), {"B": 4, "C": 24, "N": 96}
    joined = dojoir.PASSES["join_all"].on(kernel.specialize(**sizes))
    assert len(joined.kernel.body) == 1
    trace = joined.copy()
    few_rows(trace, (0,), machine_named("cuda"))
    assert len(trace.kernel.body) == 2
    planned = dojoir.optimize(joined.kernel, "cuda")
    assert re.search(r"\n4 : gx @i\n\| \d+ : gy @j\n", str(planned.kernel)), str(planned.kernel)
    _is_right(kernel, planned, sizes, "cuda")
    many = dojoir.PASSES["join_all"].on(kernel.specialize(B=4096, C=24, N=96))
    with pytest.raises(dojoir.ArgumentError, match="not a nest of few rows"):
        few_rows(many, (0,), machine_named("cuda"))


CHOLESKY = """kernel small(B, N)
inout y: f32[B, N, N]

B @b
| N @i
| | {i} @j
| | | {j} @k
| | | | y[{b}, {i}, {j}] += -y[{b}, {i}, {k}] * y[{b}, {j}, {k}]
| | | y[{b}, {i}, {j}] = y[{b}, {i}, {j}] / y[{b}, {j}, {j}]
| | {i} @m
| | | y[{b}, {i}, {i}] += -y[{b}, {i}, {m}] * y[{b}, {i}, {m}]
| | y[{b}, {i}, {i}] = sqrt(y[{b}, {i}, {i}])
"""


@pytest.mark.parametrize("target", ["cuda", "hip"])
def test_a_block_has_a_matrix_that_is_decomposed(target: str) -> None:
    kernel, sizes = dojoir.parse(CHOLESKY), {"B": 256, "N": 40}
    trace = dojoir.optimize(kernel.specialize(**sizes), target)
    assert re.search(r"\n256 : gx @b\n\| 40 @i\n\| \| \{i\} @j\n\| \| \| 64 : bx @k_in\n", str(trace.kernel))
    given = np.random.default_rng(1).standard_normal((256, 40, 40)).astype(np.float32)
    inputs = {"y": given @ given.transpose(0, 2, 1) / 40 + np.eye(40, dtype=np.float32)}
    expected = np.linalg.cholesky(inputs["y"].astype(np.float64))
    for order in ("forward", "backward"):
        found = run(trace.kernel, inputs, {}, target, order)["y"]
        assert np.allclose(np.tril(found), expected, rtol=1e-3, atol=1e-4), order


def _is_right(kernel: dojoir.Kernel, trace: dojoir.Trace, sizes: dict[str, int], target: str) -> None:
    """Whether a schedule gives what the text does, in both orders of threads."""
    inputs = random_inputs(kernel, sizes={name: sizes[name] for name in kernel.runtime_sizes})
    expected = dojoir.compile(kernel).run({name: value.copy() for name, value in inputs.items()})
    orders: tuple[Literal["forward", "backward"], ...] = ("forward", "backward")
    for order in orders:
        found = run(trace.kernel, inputs, {}, target, order)
        for name, values in expected.items():
            assert np.allclose(found[name], values, rtol=1e-3, atol=1e-3), (name, order)
