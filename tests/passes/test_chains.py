"""Two products with rows between them, as the scores and the weighted values of an attention in nests of their own:
in one nest, on matrix units, and what their text says."""

from __future__ import annotations

import random

import numpy as np
import pytest
from narrow_products import drawn, numbers
from on_harness import run

import dojoir
from dojoir.backends.host import machine_named
from dojoir.ir.dtypes import DTYPES
from dojoir.passes.schedule.plan.kernel_forms import chained
from dojoir.passes.schedule.plan.planner import Planner


def text_of(draw: random.Random, rows: int = 0, terms: int = 0) -> tuple[str, bool]:
    """An attention in nests, and whether its rows can be a chain: batches of one scope or of two, a mask, a bias,
    values that are copied between its nests, the division before or after the second product, scores that others
    read as well."""
    outer, heads = draw.choice(((1, 2), (2, 1), (2, 3)))
    rows, terms = rows or draw.choice((8, 24, 32)), terms or draw.choice((16, 32))
    keys, columns = draw.choice((rows, 40)), draw.choice((16, 32))
    dtype, parted = draw.choice(("f16", "bf16")), draw.random() < 0.5
    mask = draw.choice(("none", "none", "lower", "array", "bias"))
    copied, late, seen = draw.random() < 0.5, draw.random() < 0.5, draw.random() < 0.2
    batch = outer * heads
    arrays = [f"in  q: {dtype}[{batch}, {rows}, {terms}]", f"in  k: {dtype}[{batch}, {keys}, {terms}]"]
    arrays += [
        f"in  u: f32[{batch}, {keys}, {columns}]" if copied else f"in  v: {dtype}[{batch}, {keys}, {columns}]"
    ]
    arrays += [f"in  c: f32[{rows}, {keys}]"] if mask in ("array", "bias") else []
    arrays += [f"out y: f32[{batch}, {rows}, {columns}]"]
    arrays += [f"{'out' if seen else 'tmp'} s: f32[{batch}, {rows}, {keys}]"]
    arrays += [
        f"tmp m: f32[{batch}, {rows}]",
        f"tmp l: f32[{batch}, {rows}]",
        f"tmp e: f32[{batch}, {rows}, {keys}]",
    ]
    arrays += [f"tmp p: {dtype}[{batch}, {rows}, {keys}]", f"tmp o: f32[{batch}, {rows}, {columns}]"]
    arrays += [f"tmp v: {dtype}[{batch}, {keys}, {columns}]"] if copied else []
    values = [
        f"{batch} @b",
        f"| {keys} @j",
        f"| | {columns} @d",
        "| | | v[{b}, {j}, {d}] = DTYPE(u[{b}, {j}, {d}])",
    ]
    around = [f"{outer} @a", f"| {heads} @h", f"| | {rows} @i"] if parted else [f"{batch} @h", f"| {rows} @i"]
    at, bars = (f"{heads}*{{a}} + {{h}}" if parted else "{h}"), "| " * len(around)
    score = f"s[{at}, {{i}}, {{j}}] * 0.25"
    score = {
        "lower": f"select({{j}} <= {{i}}, {score}, -inf)", "array": f"select(c[{{i}}, {{j}}] > -1, {score}, -100)",
        "bias": f"({score} + c[{{i}}, {{j}}])", "none": score,
    }[mask]  # fmt: skip
    most, total, weight = f"m[{at}, {{i}}]", f"l[{at}, {{i}}]", f"e[{at}, {{i}}, {{j}}]"
    divided = weight if late else f"{weight} / {total}"
    nests = [
        [f"{batch} @b", f"| {rows} @i", f"| | {keys} @j", "| | | s[{b}, {i}, {j}] = 0", f"| | | {terms} @t",
         "| | | | s[{b}, {i}, {j}] += f32(q[{b}, {i}, {t}]) * f32(k[{b}, {j}, {t}])"],
        [*around, f"{bars}{most} = -inf", f"{bars}{keys} @j", f"{bars}| {most} max= {score}"],
        [*around, f"{bars}{keys} @j", f"{bars}| {weight} = exp({score} - {most})"],
        [*around, f"{bars}{total} = 0", f"{bars}{keys} @j", f"{bars}| {total} += {weight}"],
        [*around, f"{bars}{keys} @j", f"{bars}| p[{at}, {{i}}, {{j}}] = {dtype}({divided})"],
        [f"{batch} @b", f"| {rows} @i", f"| | {columns} @d", "| | | o[{b}, {i}, {d}] = 0", f"| | | {keys} @j",
         "| | | | o[{b}, {i}, {d}] += f32(p[{b}, {i}, {j}]) * f32(v[{b}, {j}, {d}])"],
        [f"{batch} @b", f"| {rows} @i", f"| | {columns} @d",
         f"| | | y[{{b}}, {{i}}, {{d}}] = o[{{b}}, {{i}}, {{d}}]{' / l[{b}, {i}]' if late else ''}"],
    ]  # fmt: skip
    if copied:
        nests.insert(draw.randint(0, 5), [line.replace("DTYPE", dtype) for line in values])
    lines = "\n".join(line for nest in nests for line in nest)
    return "kernel attention()\nfp fast\n" + "\n".join(arrays) + f"\n\n{lines}\n", not seen


def wanted(kernel: dojoir.Kernel, given: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
    made = {
        b.name: np.zeros([d.extent.offset for d in b.dims], DTYPES[b.dtype.name].stored)
        for b in kernel.arguments if b.role == "out"
    }  # fmt: skip
    dojoir.compile(kernel, "llvm")(**given, **made)
    return made


@pytest.mark.parametrize("seed", range(40))
def test_a_chain_is_one_nest(seed: int) -> None:
    text, fits = text_of(random.Random(seed))
    trace = dojoir.Trace(dojoir.parse(text))
    if not fits:  # what is read elsewhere is no temporary
        with pytest.raises(dojoir.ArgumentError, match="no two products"):
            chained(trace)
        return
    chained(trace)
    assert trace.is_safe and dojoir.certify(trace)
    products = {site.path[0] for site in trace.kernel.sites if site.statement.target.buffer in "so"}
    assert len(products) == 1
    given = drawn(trace.start, seed)
    for name, made in wanted(trace.start, given).items():
        assert np.allclose(wanted(trace.kernel, given)[name], made, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("seed", range(8))
def test_a_chain_is_planned_on_units_and_right(seed: int) -> None:
    text, _ = text_of(random.Random(1000 + seed), rows=64, terms=32)
    trace = dojoir.Trace(dojoir.parse(text))
    planner = Planner(machine_named("cuda"), {})
    made = (
        planner.scheduled(_in_form(trace), chained).proved() if "tmp s" in text else planner.plans(trace)[0].trace
    )
    assert made.is_safe
    given = drawn(trace.start, seed)
    found, right = run(made.kernel, given, {}), wanted(trace.start, given)
    assert np.allclose(found["y"].reshape(right["y"].shape), right["y"], rtol=2e-2, atol=2e-3)
    assert np.isfinite(numbers(found["y"], "f32")).all()


def _in_form(trace: dojoir.Trace) -> dojoir.Trace:
    chained(trace)
    return trace


def test_a_plan_takes_the_chain_where_it_is_faster() -> None:
    text, _ = text_of(random.Random(4), rows=512, terms=64)
    found = Planner(machine_named("cuda"), {}).plans(dojoir.Trace(dojoir.parse(text)))
    assert [one.form for one in found][:2] == ["chained", "products"]
    assert dojoir.to_text(found[0].trace.kernel).count("use(mma") == 3  # the scores twice: no sum is rescaled


def test_others_stay_apart() -> None:
    """A product whose factor is no row of another one, and a first product of many terms."""
    square, long = text_of(random.Random(3), rows=40)[0], text_of(random.Random(3), terms=272)[0]
    for text, other in ((square, square.replace("p[{b}, {i}, {j}]", "p[{b}, {j}, {i}]")), (None, long)):
        trace = dojoir.Trace(dojoir.parse(other))
        with pytest.raises(dojoir.ArgumentError, match="no two products"):
            chained(trace)
        chained(dojoir.Trace(dojoir.parse(text or text_of(random.Random(3), terms=256)[0])))


SELF = """kernel self_attention()                # values are a product over as many rows as the scores have
fp fast
in  x: f16[32, 32]
in  w: f16[32, 32]
out y: f32[32, 32]
tmp v: f32[32, 32]
tmp u: f16[32, 32]
tmp s: f32[32, 32]
tmp m: f32[32]
tmp p: f16[32, 32]

32 @i
| 32 @d
| | v[{i}, {d}] = 0
| | 32 @k
| | | v[{i}, {d}] += f32(x[{i}, {k}]) * f32(w[{k}, {d}])
32 @i2
| 32 @d2
| | u[{i2}, {d2}] = f16(v[{i2}, {d2}])
32 @i3
| 32 @j3
| | s[{i3}, {j3}] = 0
| | 32 @k3
| | | s[{i3}, {j3}] += f32(x[{i3}, {k3}]) * f32(x[{j3}, {k3}])
32 @i4
| m[{i4}] = -inf
| 32 @j4
| | m[{i4}] max= s[{i4}, {j4}]
32 @i5
| 32 @j5
| | p[{i5}, {j5}] = f16(exp(s[{i5}, {j5}] - m[{i5}]))
32 @i6
| 32 @d6
| | y[{i6}, {d6}] = 0
| | 32 @j6
| | | y[{i6}, {d6}] += f32(p[{i6}, {j6}]) * f32(u[{j6}, {d6}])
"""


def test_values_that_are_a_product_are_no_part_of_a_chain() -> None:
    trace = dojoir.Trace(dojoir.parse(SELF))
    chained(trace)
    of = {site.statement.target.buffer: site.path[0] for site in trace.kernel.sites}
    assert of["s"] == of["m"] == of["p"] == of["y"] != of["v"]
    assert dojoir.certify(trace)
