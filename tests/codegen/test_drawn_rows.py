"""Rows that multiply twice, drawn: type, end, mask, groups, scale, order of the text and sizes, each with each: the
structure takes them all, and they are right on the harness."""

from __future__ import annotations

import random

import numpy as np
import pytest
from narrow_products import drawn, numbers
from on_harness import run
from test_row_products import CUDA

import dojoir
from dojoir.passes.schedule.gpu.tiles.row_products import row_products

BLOCKS = "128*({i} // 128) + 128"
"""Where the rows of a block end, as PyTorch's causal attention is imported."""


def text_of(draw: random.Random) -> str:
    """A kernel as a person, or an importer, may write it: nests joined along rows, or one for each statement."""
    apart, divided = draw.random() < 0.5, draw.random() < 0.4
    end = draw.choice(("T", "T", "{i} + 1", BLOCKS))
    mask = "{j} <= {i}" if end == BLOCKS or (end == "T" and draw.random() < 0.3) else ""
    masked = f"select({mask}, VALUE, -inf)" if mask else "VALUE"
    score = draw.choice(("s[{h}, {i}, {j}]", "s[{h}, {i}, {j}] * 0.125", "0.3 * s[{h}, {i}, {j}]"))
    biased, in_place = draw.random() < 0.3, draw.random() < 0.4
    stored = f"s[{{h}}, {{i}}, {{j}}] = {score}" + (" + f32(b[{h}, {i}, {j}])" if biased else "")
    score = "s[{h}, {i}, {j}]" if biased or in_place else score
    weight = f"exp({masked.replace('VALUE', score)} - m[{{h}}, {{i}}])"
    rounded = f"TYPE({weight} / l[{{h}}, {{i}}])" if divided else f"TYPE({weight})"
    share = draw.choice((1, 1, 2))
    head = "{h} // 2" if share == 2 else "{h}"
    columns = f"{end} @j"
    most = ["m[{h}, {i}] = -inf", f"{columns}|m[{{h}}, {{i}}] max= {masked.replace('VALUE', score)}"]
    scores = [
        "END|s[{h}, {i}, {j}] = 0",
        "END|D @d|s[{h}, {i}, {j}] += f32(q[{h}, {i}, {d}]) * f32(k[HEAD, {j}, {d}])",
    ]
    scores += [f"{columns}|{stored}"] if biased or in_place else []
    total = ["l[{h}, {i}] = 0", f"{columns}|l[{{h}}, {{i}}] += {weight}"]
    weights = [f"{columns}|p[{{h}}, {{i}}, {{j}}] = {rounded}"]
    factor = "p[{h}, {i}, {r}]"
    if in_place:  # weights over the scores, rounded where they are multiplied
        total = ["l[{h}, {i}] = 0", f"{columns}|l[{{h}}, {{i}}] += s[{{h}}, {{i}}, {{j}}]"]
        weights = [f"{columns}|s[{{h}}, {{i}}, {{j}}] = {weight}"]
        factor, divided = "TYPE(s[{h}, {i}, {r}])", False
    last = "o[{h}, {i}, {e}]" if divided else "o[{h}, {i}, {e}] / l[{h}, {i}]"
    products = [
        "D @e|o[{h}, {i}, {e}] = 0",
        f"D @e|{end} @r|o[{{h}}, {{i}}, {{e}}] += f32({factor}) * f32(v[HEAD, {{r}}, {{e}}])",
        f"D @e|y[{{h}}, {{i}}, {{e}}] = TYPE({last})",
    ]
    order = [
        *scores,
        *most,
        *([*weights, *total] if in_place or (draw.random() < 0.3 and not divided) else [*total, *weights]),
        *products,
    ]
    lines: list[str] = []
    for number, statement in enumerate(order):
        if apart or not number:
            lines += ["H @h", "| T @i"]
        *scopes, body = statement.replace("END", columns).replace("HEAD", head).split("|")
        lines += ["| " * (2 + depth) + scope for depth, scope in enumerate((*scopes, body))]
    dtype, heads = draw.choice(("bf16", "f16")), share * draw.randint(1, 2)
    length = 256 if end == BLOCKS else draw.choice((64, 128, draw.randint(5, 150)))
    depth = draw.choice((16, 32, 64, 128))
    arrays = [f"in  {name}: TYPE[{heads if name == 'q' else heads // share}, T, D]" for name in "qkv"]
    arrays += [
        *(["in  b: TYPE[H, T, T]"] if biased else []),
        "out y: TYPE[H, T, D]",
        "tmp s: f32[H, T, T]",
        "tmp p: TYPE[H, T, T]",
        "tmp m: f32[H, T]",
    ]
    arrays += ["tmp l: f32[H, T]", "tmp o: f32[H, T, D]"]
    fp = draw.choice(("", "", "fp fast\n"))
    text = f"kernel rows(H={heads}, T={length}, D={depth})\n{fp}" + "\n".join([*arrays, "", *lines]) + "\n"
    return text.replace("TYPE", dtype)


@pytest.mark.parametrize("seed", range(32))
def test_drawn_rows_are_right_on_the_harness(seed: int) -> None:
    before = dojoir.parse(text_of(random.Random(seed)))
    given = drawn(before, seed)
    wanted = np.zeros_like(given["q"])
    dojoir.compile(before, "llvm")(**given, y=wanted)
    trace = dojoir.PASSES["arrange"].given("joined").on(before)
    assert row_products(trace, (0,), CUDA) == []
    assert dojoir.to_text(trace.kernel).count("use(mma_") > 1
    found = run(trace.kernel, given, {})["y"].reshape(wanted.shape)
    dtype = before.buffer("q").dtype.name
    assert np.allclose(numbers(found, dtype), numbers(wanted, dtype), rtol=2**-6, atol=2**-7)
