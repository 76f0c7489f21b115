"""Skewed nests and the guards that make boxes of them."""

from __future__ import annotations

import pytest

import dojoir

SWEEPS = """kernel sweeps(T, N)
inout x: f32[N + 2]

T @t
| N @i
| | x[{i} + 1] = 0.5 * x[{i}] + 0.25 * x[{i} + 2]
"""

TRIANGLE = """kernel triangle(N)
inout x: f32[N, N + 2]

N @t
| min({t} + 1, N - {t}) @i
| | x[{t}, {i} + 1] = 0.5 * x[{t}, {i}] + 0.25 * x[{t}, {i} + 2]
"""


def applied(k: dojoir.Kernel, *moves: str) -> dojoir.Kernel:
    for move in moves:
        k = dojoir.apply(k, move)
    return k


def test_what_a_skew_is_for() -> None:
    k = dojoir.parse(SWEEPS)
    assert dojoir.check(k, "swap_scopes(@t)").code in {"wrong-value", "lost-value"}
    assert dojoir.check(k, "tile(@t, @i, 8, 16)").code in {"wrong-value", "lost-value"}
    skewed = dojoir.apply(k, "skew(@t, 1)")
    assert dojoir.check(skewed, "tile(@t, @i, 8, 16)")
    assert dojoir.check(applied(skewed, "swap_scopes(@t)"), "parallelize(@t)").code == "shared-element"
    wave = applied(k, "skew(@t, 2)", "swap_scopes(@t)", "parallelize(@t)")
    assert dojoir.verify(wave, k, seeds=(0,), distributions=("normal",), threads=2).ok


def test_the_box_of_a_triangle() -> None:
    k = dojoir.parse(TRIANGLE)
    skewed = dojoir.apply(k, "skew(@t, 2)")
    assert dojoir.to_text(skewed).splitlines()[4:6] == [
        "| min(3*N - 2, 2*N - 1) @i",
        "| | if {1} >= 2*{0} and {1} < 3*{0} + 1 and {1} < N + {0}",
    ]
    assert dojoir.apply(skewed, "unskew(@t, 2)") == k
    assert dojoir.verify(skewed, k, seeds=(0,), distributions=("normal",)).ok


def test_a_guard_is_distributed_by_guards() -> None:
    k = dojoir.parse(
        "kernel f(N)\nin x: f32[N]\nout y: f32[N]\nout z: f32[N]\n"
        "N + 4 @i\n| if {0} >= 4\n| | y[{0} - 4] = x[{0} - 4]\n| | z[{0} - 4] = 1\n"
    )
    parted = applied(
        k,
        'add_guard(0.0.0, 1, "{0} >= 4")',
        'add_guard(0.0.1, 1, "{0} >= 4 and {0} < N + 4")',
        "remove_guard(0.0)",
        "split_scopes(@i, 1)",
    )
    assert dojoir.to_text(parted).partition("\n\n")[2].splitlines() == [
        "N + 4 @i",
        "| if {0} >= 4",
        "| | y[{0} - 4] = x[{0} - 4]",
        "N + 4 @i_rest",
        "| if {0} >= 4 and {0} < N + 4",
        "| | z[{0} - 4] = 1",
    ]


@pytest.mark.parametrize(
    ("move", "code"),
    [
        ("skew(@t, 0)", "bad-factor"),
        ("skew(@i, 1)", "not-nested"),
        ("unskew(@t, 1)", "not-skewed"),
        ('add_guard(@i, 1, "{0} < T - 1")', "lost-instance"),
        ('add_guard(@i, 1, "{0} < T and {1} < 3")', "bad-condition"),
        ('add_guard(@i, 1, "{0}")', "bad-condition"),
        ('add_guard(@i, 2, "{0} < T")', "bad-count"),
        ("remove_guard(@i)", "not-a-guard"),
    ],
)
def test_refusals(move: str, code: str) -> None:
    assert dojoir.check(dojoir.parse(SWEEPS), move).code == code


def test_a_guard_that_does_something_stays() -> None:
    skewed = dojoir.apply(dojoir.parse(SWEEPS), "skew(@t, 1)")
    assert dojoir.check(skewed, "remove_guard(0.0.0)").code in {"extra-instance", "out-of-bounds"}
    assert dojoir.check(skewed, "unskew(@t, 2)").code == "another-form"
