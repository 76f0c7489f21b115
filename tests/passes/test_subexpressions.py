"""A part of an expression into a temporary of its own, and back."""

from __future__ import annotations

from random import Random

import pytest
from drawing import draw
from moves_held import held

import dojoir
from dojoir.passes.values.subexpressions import ExtractSubexpression
from dojoir.proof.claim import Claim
from dojoir.proof.explain.verdicts import check

TWICE = """kernel f(N, M)
in  x: f32[M]
in  w: f32[N, M]
out y: f32[N, M]
out z: f32[N, M]

N @i
| M @j
| | y[{i}, {j}] = exp(2 * x[{j}]) + w[{i}, {j}]
| | z[{i}, {j}] = exp(2 * x[{j}]) * w[{i}, {j}]
"""


def test_what_is_computed_twice_is_computed_once_and_before() -> None:
    kernel = dojoir.parse(TWICE)
    trace = dojoir.Trace(kernel)
    for move in (
        "extract_subexpression(0.0.0, 1, e)",
        "extract(0.0.2, 1, e[{0}, {1}])",
        "split_scopes(@j, 1)",
        "reuse_dims(e, 0)",
    ):
        trace.apply(move)
    assert dojoir.to_text(trace.kernel).count("exp(") == 1
    assert "tmp e: f32[N~, M]" in dojoir.to_text(trace.kernel)
    assert dojoir.certify(trace)


@pytest.mark.parametrize(
    ("move", "code"),
    [
        ("extract_subexpression(0.0.0, 9, e)", "no-part"),
        ("extract_subexpression(0.0.0, 3, e)", "weak-value"),
        ("extract_subexpression(0.0.0, 1, w)", "name-taken"),
        ("extract_subexpression(0.0, 1, e)", "not-a-statement"),
        ("inline_subexpression(0.0.1, w)", "not-a-temporary"),
        ("inline_subexpression(0.0.9, w)", "unknown-place"),
    ],
)
def test_refused(move: str, code: str) -> None:
    assert dojoir.check(dojoir.parse(TWICE), move).code == code


@pytest.mark.parametrize(
    ("extent", "dim"),
    [
        ("N", "N"),
        ("N - 2", "N"),
        ("{0} + 1", "N"),
        ("N - {0} - 1", "N"),
        ("min(8, N - 8*{0})", "8"),
        ("N // 4", "N // 4 + 1"),
    ],
)
def test_a_dimension_holds_each_iteration(extent: str, dim: str) -> None:
    body = f"N\n| {extent}\n| | y[0] += 2 * x[{{0}}]\n"
    kernel = dojoir.parse(f"kernel f(N)\nin x: f32[N]\ninout y: f32[1]\n{body}")
    after = dojoir.apply(kernel, "extract_subexpression(0.0.0, 0, e)")
    assert f"tmp e: f32[N, {dim}]" in dojoir.to_text(after)


@pytest.mark.parametrize("seed", range(8))
def test_every_part_of_random_kernels(seed: int) -> None:
    random = Random(f"parts {seed}")
    setting = "runnable" if seed % 2 else "tangled"
    kernels = (draw(setting, random) for _ in range(20))
    assert any(held(kernel, ExtractSubexpression.candidates(kernel), random, 6) for kernel in kernels)


def test_a_value_that_changes_in_between_is_refused() -> None:
    """The certificate says that the read is the value of the statement before; the core finds that it is not."""
    kernel = dojoir.parse("kernel f(N)\ninout x: f32[N]\nN\n| x[{0}] = 2 * x[{0}] + 1\n")
    done = dojoir.parse_move("extract_subexpression(0.0, 1, t)").rewrite(kernel)
    wrong = dojoir.parse(
        dojoir.to_text(done.kernel).replace("| t[{0}] =", "| t[0] =").replace("+ t[{0}]", "+ t[0]")
    )
    assert check(Claim(kernel, done.kernel, done.instances))
    assert not check(Claim(kernel, wrong, done.instances))
