"""A part of an expression computed once before a scope, and back."""

from __future__ import annotations

from dataclasses import replace
from random import Random

import numpy as np
import pytest
from drawing import draw
from moves_held import held

import dojoir
from dojoir.ir.nodes import Kernel
from dojoir.passes.values.hoisting import Hoist
from dojoir.proof.claim import Claim
from dojoir.proof.explain.verdicts import check

ROWS = """kernel f(N, M)
in  x: f32[N, M]
in  s: f32[N]
in  w: f32[M]
out y: f32[N, M]
tmp z: f32[N]

N @i
| z[{i}] = 2 * s[{i}]
| M @j
| | if {j} >= 1
| | | y[{i}, {j}] = x[{i}, {j}] * log(z[{i}]) + exp(w[{j}])
| | y[{i}, 0] = x[{i}, 0]
"""
INNER = "0.1.0.0"


def test_a_logarithm_is_taken_once_for_each_row_and_then_of_many_rows() -> None:
    trace = dojoir.Trace(dojoir.kernels.load("log_softmax"))
    for move in ("hoist(@l, 0.4.0, 4, t)", "split_scopes(@i, 4)", "split_scopes(1, 1)", "vectorize(1)"):
        trace.apply(move)
    assert "\nN : v @i_rest\n| t[{0}] = log(s[{0}])\nN @i_rest2\n" in dojoir.to_text(trace.kernel)
    assert dojoir.certify(trace)


def test_one_of_two_reads_of_an_array_is_packed() -> None:
    """Where a product has one array for both factors, `stage` would take both reads."""
    text = "kernel gram(N, M)\nin a: f32[N, M]\nout c: f32[M, M]\nM @i\n| M @j\n| | c[{i}, {j}] = 0\n"
    trace = dojoir.Trace(dojoir.parse(text + "| | N @k\n| | | c[{i}, {j}] += a[{k}, {i}] * a[{k}, {j}]\n"))
    for move in ("tile(@i, @j, 4, 16)", "swap_scopes(0)", "hoist(0.0, 0.0.0.0.1.0, 2, panel)"):
        trace.apply(move)
    trace.apply("reuse_dims(panel, 0)")
    assert "tmp panel: f32[(M + 15) // 16~, 16, N]" in dojoir.to_text(trace.kernel)
    assert "c[4*{1} + {2}, 16*{0} + {3}] += a[{4}, 4*{1} + {2}] * panel[{0}, {3}, {4}]" in dojoir.to_text(
        trace.kernel
    )
    assert dojoir.certify(trace)
    a = np.random.default_rng(1).standard_normal((7, 5), dtype=np.float32)
    assert abs(dojoir.interpret(trace.kernel, {"a": a})["c"] - a.T @ a).max() < 1e-5


@pytest.mark.parametrize(
    ("move", "code"),
    [
        (f"hoist(@j, {INNER}, 99, t)", "no-part"),
        (f"hoist(@j, {INNER}, 1, w)", "name-taken"),
        ("hoist(@j, 0.0, 0, t)", "not-inside"),
        (f"hoist(0.0, {INNER}, 3, t)", "not-a-scope"),
        ("hoist(@j, 0.1.0, 3, t)", "not-a-statement"),
        ("hoist(0.1, 0.0, 1, t)", "not-inside"),
        ("hoist(@i, 0.0, 1, t)", "weak-value"),
        (f"hoist(@i, {INNER}, 3, t)", "lost-value"),
        (f"unhoist({INNER}, w)", "not-a-temporary"),
        ("unhoist(0.0, z)", "another-form"),
    ],
)
def test_refused(move: str, code: str) -> None:
    assert dojoir.check(dojoir.parse(ROWS), move).code == code


def test_what_scopes_elsewhere_give_is_not_put_back() -> None:
    """The last of many values that a nest assigns, which is read outside of the scopes that it depends on."""
    text = "kernel f(N, M)\nin x: f32[N, M]\nout y: f32[N]\ntmp t: f32\n"
    kernel = dojoir.parse(text + "N\n| M\n| | t = log(x[{0}, {1}])\nN\n| y[{0}] = t\n")
    assert dojoir.check(kernel, "unhoist(1.0, t)").code == "another-form"
    assert not any(move.name == "unhoist" for move in dojoir.moves(kernel))


def test_what_the_part_depends_on_runs_before() -> None:
    kernel = dojoir.parse(ROWS)
    after = dojoir.apply(kernel, f"hoist(@i, {INNER}, 5, t)")
    assert "\nM\n| t[{0}] = exp(w[{0}])\nN @i\n" in dojoir.to_text(after)


def test_conditions_around_the_statement_do_not_hold_before() -> None:
    text = "kernel f(N)\nwhere N >= 3\nin x: f32[N]\nin v: f32[N]\nout y: f32[N]\nN\n| y[{0}] = 0\n"
    text += "N @b\n| N @i\n| | if {i} >= 1\n| | | y[{i}] += exp(x[{i} - 1]) * v[{b}]\n"
    verdict = dojoir.check(dojoir.parse(text), "hoist(@b, 1.0.0.0, 1, t)")
    assert verdict.code == "out-of-bounds"


def test_a_scope_that_depends_on_one_that_is_left_runs_in_it() -> None:
    text = "kernel f(N, M)\nin x: f32[N, N]\nin v: f32[M]\nout y: f32[N, N]\nN\n| N\n| | y[{0}, {1}] = 0\n"
    text += "M @b\n| N @i\n| | {i} + 1 @j\n| | | y[{i}, {j}] += exp(x[0, {j}]) * v[{b}]\n"
    trace = dojoir.Trace(dojoir.parse(text))
    trace.apply("hoist(@b, 1.0.0.0, 1, t)")
    assert "\nN\n| {0} + 1\n| | t[{0}, {1}] = exp(x[0, {1}])\nM @b\n" in dojoir.to_text(trace.kernel)
    assert dojoir.certify(trace)
    trace.apply("unhoist(2.0.0.0, t)")
    assert trace.kernel == trace.start


@pytest.mark.parametrize(
    "text",
    [
        "N\n| M\n| | y[{0}] += exp(y[{0}]) * x[{1}]\n",  # what it reads changes in each iteration
        "N\n| M\n| | y[{0}] += exp(z) * x[{1}]\n| | z = y[{0}]\n",  # and so, by another statement
    ],
)
def test_a_value_that_changes_is_refused(text: str) -> None:
    kernel = dojoir.parse("kernel f(N, M)\nin x: f32[M]\ninout y: f32[N]\ninout z: f32\n" + text)
    assert not dojoir.check(kernel, "hoist(0.0, 0.0.0, 1, t)")


@pytest.mark.parametrize("seed", range(8))
def test_every_part_of_random_kernels(seed: int) -> None:
    """What is legal is so by the core alone, gives the same bits, and is taken back to the letter."""
    random = Random(f"hoisted {seed}")
    setting = "runnable" if seed % 2 else "tangled"
    kernels = [draw(setting, random) for _ in range(4)]
    assert sum(held(kernel, Hoist.candidates(kernel), random, 4) for kernel in kernels)


def mutants(kernel: Kernel) -> list[str]:
    """Wrong texts for what `hoist(@i, …)` makes of exp(w[j])."""
    whole = dojoir.to_text(kernel)
    changes = [
        ("t[{0}] = exp(w[{0}])", "t[{0}] = exp(w[0])"),
        ("t[{0}] = exp(w[{0}])", "t[0] = exp(w[{0}])"),
        ("t[{0}] = exp(w[{0}])", "t[{0}] = exp(2 * w[{0}])"),
        ("t[{0}] = exp(w[{0}])", "t[M - 1 - {0}] = exp(w[{0}])"),
        ("+ t[{1}]", "+ t[0]"),
        ("+ t[{1}]", "+ t[{1} - 1]"),
        ("+ t[{1}]", "- t[{1}]"),
    ]
    assert all(old in whole for old, _ in changes)
    return [whole.replace(old, new) for old, new in changes]


def test_no_mutant_passes() -> None:
    kernel = dojoir.parse(ROWS)
    done = dojoir.parse_move(f"hoist(@i, {INNER}, 5, t)").rewrite(kernel)
    assert check(Claim(kernel, done.kernel, done.instances))
    for text in mutants(done.kernel):
        assert not check(Claim(kernel, dojoir.parse(text), done.instances)), text


def test_certificates_that_name_another_iteration_are_refused() -> None:
    kernel = dojoir.parse(ROWS)
    done = dojoir.parse_move(f"hoist(@i, {INNER}, 5, t)").rewrite(kernel)
    (step,) = done.instances.extracted
    zero = step.iterators[0] * 0
    for wrong in (
        replace(step, iterators=(zero,)),
        replace(step, ordinal=0),
        replace(step, definition=1),
    ):
        assert not check(Claim(kernel, done.kernel, replace(done.instances, extracted=(wrong,))))
