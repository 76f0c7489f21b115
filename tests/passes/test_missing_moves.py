"""Deleting what never runs, running backwards, and partial maxima of integers: what is legal, and what is told."""

from __future__ import annotations

import numpy as np
import pytest

import dojoir
from dojoir.ir.text import canonical_text

GUARDED = """kernel f(N, M)
where N >= 2, M <= N
in  x: f32[N]
out y: f32[N]
tmp t: f32[N]

N @i
| y[{i}] = 2 * x[{i}]
| if {i} >= N
| | y[{i}] = 0
| t[{i}] = y[{i}] + 1
M - N @j
| y[{j}] = 3
if M >= 5 and N < 5
| y[0] = 4
"""


@pytest.mark.parametrize(
    ("move", "gone"),
    [("delete_node(0.1)", "if {0} >= N"), ("delete_node(@j)", "M - N"), ("delete_node(2)", "if M >= 5 and N < 5"),
     ("delete_node(0.2)", "t[{0}] = y[{0}] + 1")],
)  # fmt: skip
def test_what_has_no_effect_is_deleted_and_put_back(move: str, gone: str) -> None:
    kernel = dojoir.parse(GUARDED)
    trace = dojoir.Trace(kernel)
    trace.apply(move)
    assert gone in canonical_text(kernel)
    assert gone not in canonical_text(trace.kernel)
    trace.apply(trace.moves[-1].inverse(kernel))
    assert dojoir.to_text(trace.kernel) == dojoir.to_text(kernel), "labels too"
    assert dojoir.certify(trace)
    assert dojoir.Trace.from_json(trace.to_json()).kernel == kernel


def test_what_never_runs_is_listed() -> None:
    kernel = dojoir.parse(GUARDED)
    listed = [str(move) for move in dojoir.moves(kernel) if move.name == "delete_node"]
    assert listed == ["delete_node(0.1)", "delete_node(1)", "delete_node(2)"]
    assert not [m for m in dojoir.candidates(dojoir.kernels.load("conv2d")) if m.name == "delete_node"]


@pytest.mark.parametrize(
    ("body", "move", "code"),
    [
        ("N\n| y[{0}] = x[{0}]\nN\n| y[{0}] = 1\n", "delete_node(1)", "wrong-value"),
        ("N\n| y[{0}] = x[{0}]\n| if {0} >= N - 1\n| | y[{0}] = 1\n", "delete_node(0.1)", "wrong-value"),
        ("N\n| y[{0}] = x[{0}]\nN - 2\n| y[{0}] = 1\n", "delete_node(1)", "wrong-value"),
        ("N\n| y[{0}] = x[{0}]\n", "delete_node(0)", "nothing-left"),
        ("N\n| y[{0}] = x[{0}]\n", "delete_node(0.0)", "nothing-left"),
        ("N\n| y[{0}] = x[{0}]\n", 'restore_node(1, "y[0] = 1")', "wrong-value"),
        ("N\n| y[{0}] = x[{0}]\n", 'restore_node(1, "N; | y[{0}] = x[0]")', "wrong-value"),
        ("N\n| y[{0}] = x[{0}]\n", 'restore_node(1, "if N < 1; | y[N] = x[0]")', "legal"),
        ("N\n| y[{0}] = x[{0}]\n", 'restore_node(3, "y[0] = 1")', "bad-position"),
        ("N\n| y[{0}] = x[{0}]\n", 'restore_node(1, "q[0] = 1")', "bad-text"),
        ("N\n| y[{0}] = x[{0}]\n", "restore_node(0, \"if N < 1; | y[0] = 1; y[0] = 2\")", "bad-text"),
    ],
)  # fmt: skip
def test_what_has_an_effect_stays(body: str, move: str, code: str) -> None:
    kernel = dojoir.parse(f"kernel f(N)\nwhere N >= 2\nin x: f32[N]\nout y: f32[N]\n{body}")
    assert dojoir.check(kernel, move).code == code, str(dojoir.check(kernel, move))


@pytest.mark.parametrize(
    ("body", "code"),
    [
        ("N @i\n| y[{i}] = x[{i}]\n", "legal"),
        ("y[0] = x[0]\nN - 1 @i\n| y[{i} + 1] = y[{i}] + x[{i} + 1]\n", "lost-value"),
        ("y[0] = 0\nN - 1 @i\n| y[{i} + 1] = 0\n| y[0] += x[{i}]\n", "legal"),
        ("N\n| y[{0}] = 0\n| {0} + 1 @i\n| | y[{0}] += x[{i}]\n", "legal"),
        ("N\n| y[{0}] = 0\nN @i\n| if {i} // 4 < 2\n| | y[{i} // 4] += x[{i}]\n", "legal"),
        ("(N + 3) // 4\n| min(4, N - 4*{0}) @i\n| | y[4*{0} + {i}] = x[4*{0} + {i}]\n", "several-bounds"),
        ("N : v, prefetch(x, 64) @i\n| y[{i}] = x[{i}]\n", "hinted-scope"),
    ],
)
def test_running_backwards(body: str, code: str) -> None:
    kernel = dojoir.parse(f"kernel f(N)\nwhere N >= 8\nin x: f32[N]\nout y: f32[N]\n{body}")
    verdict = dojoir.check(kernel, "reverse_scope(@i)")
    assert verdict.code == code, str(verdict)
    if verdict:
        after = dojoir.apply(kernel, "reverse_scope(@i)")
        assert after != kernel
        assert dojoir.apply(after, "reverse_scope(@i)") == kernel
        x = np.arange(9, dtype=np.float32)
        assert np.array_equal(dojoir.compile(after).run({"x": x})["y"], dojoir.interpret(kernel, {"x": x})["y"])


def test_an_order_that_counts_is_not_reversed_under_strict() -> None:
    text = "kernel f(N)\nfp strict\nin x: f32[N]\nout s: f32\ns = 0\nN @i\n| s += x[{i}]\n"
    assert not dojoir.check(dojoir.parse(text), "reverse_scope(@i)")
    assert dojoir.check(dojoir.parse(text.replace("fp strict\n", "")), "reverse_scope(@i)")
