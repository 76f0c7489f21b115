"""What costs much and is the same in each iteration of a scope is computed before it."""

from __future__ import annotations

import numpy as np
import pytest

import dojoir
from dojoir.passes.engine.trace import Trace
from dojoir.passes.schedule.forms.invariants import hoist_invariants

TEXT = """kernel f(N, M)
in  x: f32[N, M]
in  s: f32[N]
in  t: f32
out y: f32[N, M]

N
| M
| | y[{0}, {1}] = VALUE
"""


def hoisted(value: str) -> list[str]:
    trace = Trace(dojoir.parse(TEXT.replace("VALUE", value)))
    hoist_invariants(trace)
    assert dojoir.certify(trace)
    return [str(move) for move in trace.moves]


@pytest.mark.parametrize(
    ("value", "moves"),
    [
        ("x[{0}, {1}] - log(s[{0}])", ["hoist(0.0, 0.0.0, 2, each)"]),
        ("x[{0}, {1}] - log(t)", ["hoist(0, 0.0.0, 2, each)"]),  # of both scopes
        ("x[{0}, {1}] * (2 + exp(s[{0}] + t))", ["hoist(0.0, 0.0.0, 2, each)"]),  # the largest part
        ("exp(t) * x[{0}, {1}] + log(s[{0}])", ["hoist(0.0, 0.0.0, 5, each)", "hoist(0, 0.1.0, 2, each2)"]),
        ("x[{0}, {1}] + exp(f32({0}))", ["hoist(0.0, 0.0.0, 2, each)"]),
        ("log(x[{0}, {1}]) + s[{0}]", []),
        ("x[{0}, {1}] * exp(f32({1}))", []),
        ("x[{0}, {1}] - (s[{0}] + t)", []),  # costs no more than a load
        ("x[{0}, {1}] / sqrt(s[{0}])", []),  # an instruction
    ],
)
def test_costly_parts_go_before_the_outermost_scope_they_are_the_same_in(value: str, moves: list[str]) -> None:
    assert hoisted(value) == moves


def test_what_is_written_inside_stays() -> None:
    text = TEXT.replace("in  s: f32[N]", "inout s: f32[N]").replace("VALUE", "x[{0}, {1}] - log(s[{0}])")
    trace = Trace(dojoir.parse(text + "| | s[{0}] = x[{0}, {1}]\n"))
    hoist_invariants(trace)
    assert not trace.moves


def test_by_rule_the_logarithm_of_a_row_is_one_register() -> None:
    kernel = dojoir.kernels.load("log_softmax")
    trace = dojoir.PASSES["default_schedule"].given("avx512").on(kernel)
    assert [b.storage for b in trace.kernel.buffers if b.name == "each"] == ["reg"]
    logarithms = [site for site in trace.kernel.sites if "log(" in str(site.statement.value)]
    x = np.random.default_rng(3).standard_normal((3, 70)).astype(np.float32)
    assert len(logarithms) <= 1
    found = dojoir.compile(trace.kernel).run({"x": x})["y"]
    np.testing.assert_allclose(found, dojoir.interpret(kernel, {"x": x})["y"], rtol=1e-5, atol=1e-5)


def test_statements_are_followed_when_one_behind_them_is_hoisted() -> None:
    text = TEXT.replace("out y: f32[N, M]", "out y: f32[N, M]\nout z: f32[N, M]").replace(
        "VALUE", "x[{0}, {1}] * exp(s[{0}])"
    )
    trace = Trace(dojoir.parse(text + "| | z[{0}, {1}] = log(t)\n"))
    hoist_invariants(trace)
    assert [str(move) for move in trace.moves] == ["hoist(0, 0.0.1, 0, each)", "hoist(1.0, 1.0.0, 2, each2)"]
