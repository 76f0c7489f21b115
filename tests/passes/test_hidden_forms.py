"""Texts whose form a structure sees only after another step: a factor twice, a result that is converted, rows that
are computed in place, a running value that is rounded."""

from __future__ import annotations

import random

import numpy as np
import pytest
from narrow_products import drawn, numbers
from on_harness import run

import dojoir
from dojoir.backends.machine import MACHINES
from dojoir.passes.schedule.forms.running_values import store_running
from dojoir.passes.schedule.gpu.rows.reductions import partial_products, rows_of_warps, sum_across
from dojoir.passes.schedule.gpu.tiles.matrix_units import small_matrix_tiles
from dojoir.passes.schedule.plan.planner import Planner
from dojoir.passes.schedule.plan.structures import Structure, open_matrix_tiles

CUDA = MACHINES["cuda"]

GRAM = """kernel gram(N = 96, K = 64)
fp reassoc
in  a: bf16[N, K]
out c: f32[N, N]

N @i
| N @j
| | c[{i}, {j}] = 0
| | K @k
| | | c[{i}, {j}] += f32(a[{i}, {k}]) * f32(a[{j}, {k}])
"""


def test_a_matrix_times_its_own_transpose_is_on_units() -> None:
    before = dojoir.parse(GRAM)
    trace = dojoir.Trace(before)
    assert small_matrix_tiles(trace, (0,), CUDA) == [] and "use(mma_" in dojoir.to_text(trace.kernel)
    given = drawn(before, 1)
    wanted = np.zeros((96, 96), np.float32)
    dojoir.compile(before, "llvm")(**given, c=wanted)
    assert np.allclose(run(trace.kernel, given, {})["c"].reshape(96, 96), wanted, rtol=1e-4, atol=1e-3)


OPEN = """kernel open_sizes(N, M, K)
fp reassoc
in  a: f16[N, K]
in  b: f16[K, M]
out c: f32[N, M]

N @i
| M @j
| | c[{i}, {j}] = 0
| | K @k
| | | c[{i}, {j}] += f32(a[{i}, {k}]) * f32(b[{k}, {j}])
"""


def test_a_product_of_open_sizes_is_on_units_where_rows_are_whole_words() -> None:
    before = dojoir.parse(OPEN)
    trace = dojoir.Trace(before)
    open_matrix_tiles(trace, (0,), CUDA)
    assert "use(mma_" in dojoir.to_text(trace.kernel) and "uint4" in dojoir.emit(trace.kernel, "cuda")
    for n, m, k in ((130, 72, 128), (33, 72, 64), (20, 30, 64), (17, 16, 40)):
        given = drawn(before.specialize(N=n, M=m, K=k), n)
        wanted = np.zeros((n, m), np.float32)
        dojoir.compile(before, "llvm")(**given, c=wanted)
        found = run(trace.kernel, given, {"N": n, "M": m, "K": k})["c"].reshape(n, m)
        assert np.allclose(found, wanted, rtol=1e-4, atol=1e-3)


LONG = """kernel long(N = 24, M = 40, K = TERMS)
fp reassoc
in  a: f16[N, K]
in  b: f16[K, M]
out c: f16[N, M]
tmp t: f32[N, M]

N @i
| M @j
| | t[{i}, {j}] = 0
| | K @k
| | | t[{i}, {j}] += f32(a[{i}, {k}]) * f32(b[{k}, {j}])
| | c[{i}, {j}] = f16(2 * t[{i}, {j}])
"""


@pytest.mark.parametrize("terms, even", [(2048, True), (3 * 1001, False)])
def test_a_product_in_parts_whose_result_is_converted(terms: int, even: bool) -> None:
    before = dojoir.parse(LONG.replace("TERMS", str(terms)))
    trace = dojoir.Trace(before)
    assert [len(nest.path) for nest in partial_products(trace, (0,), CUDA)] == [1] * 4
    text = dojoir.to_text(trace.kernel)
    assert "t_part" in text and ("min(" not in text) == even and dojoir.certify(trace)
    found, given = [], drawn(before, terms)
    for kernel in (before, trace.kernel):
        found.append(np.zeros((24, 40), np.float16))
        dojoir.compile(kernel, "llvm")(**given, c=found[-1])
    assert np.allclose(*(numbers(one, "f16") for one in found), rtol=2**-9, atol=2**-7)


def few_rows_of(draw: random.Random) -> str:
    """Weights times values of a few queries that share a head: a dimension of the result goes along two scopes."""
    heads, rows, columns, terms = draw.randint(1, 3), draw.choice((2, 4, 5)), draw.choice((32, 40)), 512
    parted = "p[{h}, {i}, {k}]" if draw.random() < 0.5 else f"p[{rows}*{{h}} + {{i}}, {{k}}]"
    shape = f"{heads}, {rows}, {terms}" if parted.startswith("p[{h}") else f"{heads * rows}, {terms}"
    result = f"y[{rows}*{{h}} + {{i}}, {{j}}]"
    return (
        f"kernel few()\nin  p: bf16[{shape}]\nin  v: bf16[{heads}, {terms}, {columns}]\n"
        f"out y: f32[{heads * rows}, {columns}]\n\n{heads} @h\n| {rows} @i\n| | {columns} @j\n| | | {result} = 0\n"
        f"| | | {terms} @k\n| | | | {result} += f32({parted}) * f32(v[{{h}}, {{k}}, {{j}}])\n"
    )


@pytest.mark.parametrize("seed", range(8))
@pytest.mark.parametrize("structure", [partial_products, sum_across])
def test_few_rows_times_columns_that_lie_side_by_side(structure: Structure, seed: int) -> None:
    before = dojoir.parse(few_rows_of(random.Random(seed)))
    trace = dojoir.Trace(before)
    parts = structure(trace, (0,), CUDA) or ()
    for part in sorted(parts, key=lambda part: part.path, reverse=True):
        Planner(CUDA, {}).nest(trace, part.path)
    assert trace.is_safe and dojoir.certify(trace)
    given = drawn(before, seed)
    wanted = np.zeros([dim.extent.offset for dim in before.buffer("y").dims], np.float32)
    dojoir.compile(before, "llvm")(**given, y=wanted)
    assert np.allclose(run(trace.kernel, given, {})["y"].reshape(wanted.shape), wanted, rtol=1e-4, atol=1e-4)


def tokens_of(draw: random.Random) -> str:
    """A few rows times weights whose terms lie side by side: alone or one of a batch, the result in either layout,
    and something made of it or not."""
    dtype = draw.choice(("bf16", "f16", "f32"))
    rows, columns = draw.randint(2, 8), draw.choice((16, 24, 40))
    batch, terms = draw.choice((0, 2)), draw.choice((1, 2)) * (128 if dtype == "f32" else 256)
    turned, begins = draw.random() < 0.3, draw.choice(("0", "f32(x[AT{i}, 0])"))
    after = draw.random() < 0.4
    around, at, lead = ([f"{batch} @b"], "{b}, ", f"{batch}, ") if batch else ([], "", "")
    result, shape = ("{j}, {i}", f"{columns}, {rows}") if turned else ("{i}, {j}", f"{rows}, {columns}")
    kept = [f"{rows} @i", f"{columns} @j"][:: draw.choice((1, -1))]
    value = f"f32(x[{at}{{i}}, {{k}}]) * f32(w[{at}{{j}}, {{k}}])"
    target = f"{'t' if after else 'y'}[{at}{result}]"
    scopes = [*around, *kept]
    lines = [f"{'| ' * n}{scope}" for n, scope in enumerate(scopes)]
    bars = "| " * len(scopes)
    lines += [f"{bars}{target} = {begins.replace('AT', at)}", f"{bars}{terms} @k", f"{bars}| {target} += {value}"]
    lines += [f"{bars}y[{at}{result}] = max({target}, 0)"] if after else []
    return (
        f"kernel tokens()\nin  x: {dtype}[{lead}{rows}, {terms}]\nin  w: {dtype}[{lead}{columns}, {terms}]\n"
        f"out y: f32[{lead}{shape}]\n" + (f"tmp t: f32[{lead}{shape}]\n" if after else "") + "\n"
        + "\n".join(lines) + "\n"
    )  # fmt: skip


@pytest.mark.parametrize("seed", range(16))
def test_a_warp_has_a_few_rows_at_once(seed: int) -> None:
    before = dojoir.parse(tokens_of(random.Random(seed)))
    trace = dojoir.Trace(before)
    for part in sorted(rows_of_warps(trace, (0,), CUDA), key=lambda part: part.path, reverse=True):
        Planner(CUDA, {}).nest(trace, part.path)
    assert trace.is_safe and dojoir.certify(trace) and "lane" in str(trace.kernel)
    given = drawn(before, seed)
    wanted = np.zeros([dim.extent.offset for dim in before.buffer("y").dims], np.float32)
    dojoir.compile(before, "llvm")(**given, y=wanted)
    assert np.allclose(run(trace.kernel, given, {})["y"].reshape(wanted.shape), wanted, rtol=1e-4, atol=1e-3)


RUNNING = """kernel running(N = 5, M = 33)
in  x: f16[N, M]
out y: f16[N, M]
tmp t: f32

N @i
| t = 0
| M @j
| | t OP f32(x[{i}, {j}])
| | y[{i}, {j}] = VALUE
"""


@pytest.mark.parametrize("op", ["+=", "max="])
@pytest.mark.parametrize("value", ["f16(t)", "f16(2 * t + 1)", "f16(t * f32(x[{i}, {j}]))"])
def test_a_running_value_that_is_rounded_is_a_scan_and_a_scope_behind_it(op: str, value: str) -> None:
    before = dojoir.parse(RUNNING.replace("OP", op).replace("VALUE", value))
    trace = dojoir.Trace(before)
    store_running(trace)
    assert dojoir.to_text(trace.kernel).count("| 33 @") == 2 and dojoir.certify(trace)
    found, given = [], drawn(before, 3)
    for kernel in (before, trace.kernel):
        found.append(np.zeros((5, 33), np.float16))
        dojoir.compile(kernel, "llvm")(**given, y=found[-1])
    assert np.array_equal(*(numbers(one, "f16") for one in found))


@pytest.mark.parametrize("value", ["t", "f16(x[{i}, {j}])"])
def test_other_running_values_stay(value: str) -> None:
    trace = dojoir.Trace(
        dojoir.parse(RUNNING.replace("OP", "+=").replace("VALUE", value).replace("y: f16", "y: f32"))
    )
    store_running(trace)
    assert trace.moves == ()


ROWS = """kernel rows(T = 4096, D = 4)
in  q: f32[T, D]
out y: f32[T, D]
tmp s: f32[T]
tmp m: f32

T @i
| m = -inf
| T @j
| | s[{j}] = 0
| | D @d
| | | s[{j}] += q[{i}, {d}] * q[{j}, {d}]
| | m max= s[{j}]
| D @e
| | y[{i}, {e}] = 0
| | T @r
| | | y[{i}, {e}] += exp(s[{r}] - m) * q[{r}, {e}]
"""


def test_no_loop_is_left_to_the_host_where_temporaries_are_large() -> None:
    """The scores of all rows are 256 times what the arguments are: much, but a plan without them never ends."""
    kernel = dojoir.optimize(dojoir.parse(ROWS), "cuda").kernel
    assert all(node.marks for node in kernel.body)
