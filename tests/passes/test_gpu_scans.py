"""Running values on a GPU by rule: of every kind, in a block and in chunks, right on the harness, without races."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from agreement import agree
from gpu_rules import by_rules_alone
from on_harness import run

import dojoir

HEAD = "kernel scan(N, M)\nin  x: f32[N, M]\nin  a: f32[N, M]\nin  ok: bool[N, M]\nout y: f32[N, M]\n"
ROWS = "tmp s: f32[N]\nN\n| s[{0}] = %s\n| M\n| | "
GIVE = "y[{0}, {1}] = s[{0}]\n"

KINDS = {
    "sum": HEAD + ROWS % "0" + "s[{0}] += x[{0}, {1}]\n| | " + GIVE,
    "product": HEAD + ROWS % "1" + "s[{0}] *= a[{0}, {1}]\n| | " + GIVE,
    "maximum": HEAD + ROWS % "-inf" + "s[{0}] max= x[{0}, {1}]\n| | " + GIVE,
    "before": HEAD + ROWS % "0" + GIVE + "| | s[{0}] += x[{0}, {1}]\n",
    "masked": HEAD + ROWS % "0" + "s[{0}] += select(ok[{0}, {1}], x[{0}, {1}], 0)\n| | " + GIVE,
    "under a condition": HEAD + ROWS % "0" + "s[{0}] += x[{0}, {1}] if ok[{0}, {1}]\n| | " + GIVE,
    "linear": HEAD + ROWS % "0" + "s[{0}] = a[{0}, {1}]*s[{0}] + x[{0}, {1}]\n| | " + GIVE,
}
NEXT = HEAD + "N\n| y[{0}, 0] = x[{0}, 0]\n| M - 1\n| | y[{0}, {1} + 1] = max(y[{0}, {1}], x[{0}, {1} + 1])\n"
ONE = "kernel one(M)\nin  x: f32[M]\nout y: f32[M]\ntmp s: f32\ns = 0\nM\n| s += x[{0}]\n| y[{0}] = s\n"


def by_rule(text: str, target: str, **sizes: int) -> dojoir.Trace:
    return by_rules_alone(dojoir.parse(text).specialize(**sizes), target)


def is_right(kernel: dojoir.Kernel, trace: dojoir.Trace, target: str, order: Any, **sizes: int) -> None:
    random = np.random.default_rng(sum(sizes.values()))
    shape = tuple(sizes.values())
    given = {
        "x": random.integers(-3, 4, shape).astype(np.float32),
        "a": random.choice([-1.0, 1.0, 0.5, 2.0], shape).astype(np.float32),
        "ok": random.random(shape) < 0.6,
    }
    given = {name: given[name] for name in given if any(b.name == name for b in kernel.arguments)}
    expected = dojoir.compile(kernel).run(given)
    found = run(trace.kernel, given, sizes, target, order)
    assert agree(kernel, expected, found, exact=False) is None, sizes


@pytest.mark.parametrize(("target", "order"), [("cuda", "forward"), ("hip", "backward")])
@pytest.mark.parametrize("kind", KINDS)
def test_rows_of_constant_length_are_blocks(kind: str, target: str, order: Any) -> None:
    trace = by_rule(KINDS[kind], target, M=512)
    assert any("blocked_" in str(move) for move in trace.moves)
    assert "shared" in dojoir.to_text(trace.kernel)
    is_right(dojoir.parse(KINDS[kind]), trace, target, order, N=3, M=512)


@pytest.mark.parametrize(("target", "order"), [("cuda", "backward"), ("hip", "forward")])
@pytest.mark.parametrize("kind", ["maximum", "before", "linear"])
def test_long_rows_are_chunks(kind: str, target: str, order: Any) -> None:
    length = 20484
    trace = by_rule(KINDS[kind], target, M=length)
    assert dojoir.to_text(trace.kernel).count(": gx") >= 3
    is_right(dojoir.parse(KINDS[kind]), trace, target, order, N=2, M=length)


@pytest.mark.parametrize("text", [KINDS["sum"], NEXT], ids=["sum", "next"])
def test_rows_of_open_length_have_a_version_for_each(text: str) -> None:
    trace = by_rule(text, "cuda")
    assert "M > 4096" in dojoir.to_text(trace.kernel) or "M <= 4096" in dojoir.to_text(trace.kernel)
    for size in (1, 2, 8, 4095, 4096, 4097, 4100, 12289):
        is_right(dojoir.parse(text), trace, "cuda", "forward", N=2, M=size)


def test_one_row_is_shared_out_too() -> None:
    trace = by_rule(ONE, "cuda")
    assert ": gx" in dojoir.to_text(trace.kernel)
    for size in (1, 5, 4096, 9000):
        is_right(dojoir.parse(ONE), trace, "cuda", "backward", M=size)


def test_a_chain_of_blocks_is_certified() -> None:
    assert dojoir.certify(by_rule(KINDS["linear"], "cuda", M=512))
