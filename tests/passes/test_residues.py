"""Residue classes: scopes by the rest that their iterators leave, and the rule that gives each a nest of its
own."""

from __future__ import annotations

from random import Random

import pytest
from drawing import draw
from moves_held import held

import dojoir
from dojoir.passes.loops.cyclic import SplitCyclic
from dojoir.passes.loops.guards import DropCondition

UPSAMPLED = """kernel upsampled(N, C)
in  x: f32[C, N]
in  f: f32[C, 3]
out y: f32[2*N + 1]

2*N + 1 @i
| y[{i}] = 0
| C @c
| | 3 @k
| | | if ({i} - {k}) % 2 == 0 and {i} >= {k} and {i} - {k} < 2*N
| | | | y[{i}] += x[{c}, ({i} - {k}) // 2] * f[{c}, {k}]
"""

PADDED = """kernel padded(N, C)
in  x: f32[C, N]
in  f: f32[C, 4]
out y: f32[2*N]

2*N @i
| y[{i}] = 0
| C @c
| | 4 @k
| | | if ({i} + 1 - {k}) % 2 == 0 and {i} + 1 >= {k} and {i} + 1 - {k} < 2*N
| | | | y[{i}] += x[{c}, ({i} + 1 - {k}) // 2] * f[{c}, {k}]
"""

EVERY_THIRD = """kernel every_third(N)
in  x: f32[N]
out y: f32[N]

N @i
| y[{i}] = x[{i}]
| if {i} % 3 == 1
| | y[{i}] += 1
"""


def by_rule(text: str, machine: str = "avx2") -> dojoir.Trace:
    return dojoir.PASSES["default_schedule"].given(machine).on(dojoir.parse(text))


# -- the moves -------------------------------------------------------------------------------------------------
def test_a_residue_is_split_off_peeled_and_put_back() -> None:
    kernel = dojoir.parse(EVERY_THIRD)
    trace = dojoir.Trace(kernel)
    for move in ("split_cyclic(@i, 3)", "peel(0)", "peel(1)", "remove_scope(2)"):
        trace.apply(move)
    assert dojoir.to_text(trace.kernel).count("% 3 == 1") == 0, "each condition is between numbers"
    for move in ("delete_node(2.1)", "remove_guard(1.1)", "delete_node(0.1)"):
        trace.apply(move)
    assert "if " not in dojoir.to_text(trace.kernel)
    assert dojoir.certify(trace)
    while trace.moves:
        trace.undo()
    assert trace.kernel == kernel


def test_the_inverses_are_moves() -> None:
    trace = dojoir.Trace(dojoir.parse(EVERY_THIRD))
    for move in ("split_cyclic(@i, 3)", "unsplit_cyclic(0, N)"):
        trace.apply(move)
    assert trace.kernel == trace.start
    assert dojoir.certify(trace)


def test_a_quotient_that_is_rounded_up_is_peeled_and_put_back() -> None:
    kernel = dojoir.parse("kernel f()\nin  x: f32[3]\nout y: f32[4]\n\n4 @i\n| y[{i}] = x[({i} + 1) // 2]\n")
    trace = dojoir.Trace(kernel)
    trace.apply("peel(@i)")
    assert "x[{0} // 2 + 1]" in dojoir.to_text(trace.kernel)
    trace.apply("unpeel(1)")
    assert trace.kernel == kernel
    assert dojoir.certify(trace)


@pytest.mark.parametrize(
    ("move", "code"),
    [
        ("split_cyclic(0, 0)", "bad-factor"),
        ("split_cyclic(0.0, 2)", "not-a-scope"),
        ("split_cyclic(0, 2) of a marked scope", "marked"),
        ("unsplit_cyclic(0, N)", "not-nested"),
        ("drop_condition(0.1, 0)", "only-condition"),
        ("drop_condition(0.0, 0)", "not-a-guard"),
        ('add_condition(0.1, 2, "{0} < N")', "bad-count"),
        ('add_condition(0.1, 0, "{0} < ")', "bad-condition"),
    ],
)
def test_refused(move: str, code: str) -> None:
    move, _, marked = move.partition(" of ")
    text = EVERY_THIRD.replace("N @i", "N : p @i") if marked else EVERY_THIRD
    assert dojoir.check(dojoir.parse(text), move).code == code


def test_a_nest_that_is_not_cyclic_is_not_joined() -> None:
    kernel = dojoir.parse("kernel f(N)\nout y: f32[N, 4]\n\nN\n| 4\n| | y[{0}, {1}] = 0\n")
    assert dojoir.check(kernel, "unsplit_cyclic(0, 4*N)").code == "not-cyclic"


def test_a_condition_that_says_something_stays() -> None:
    kernel = dojoir.parse(UPSAMPLED)
    for number in range(3):
        assert not dojoir.check(kernel, f"drop_condition(0.1.0.0, {number})"), number


def test_what_is_decided_wrong_is_refused() -> None:
    text = "kernel f(N)\nin  x: f32[N]\nout y: f32[N]\n\nN @i\n| y[{i}] = 0\n| if 1 == 0\n| | y[{i}] = x[{i}]\n"
    kernel = dojoir.parse(text)
    assert dojoir.check(kernel, "delete_node(0.1)")
    assert not dojoir.check(kernel, "remove_guard(0.1)")
    holds = dojoir.parse(text.replace("1 == 0", "1 == 1"))
    assert dojoir.check(holds, "remove_guard(0.1)")
    assert not dojoir.check(holds, "delete_node(0.1)")


@pytest.mark.parametrize("seed", range(8))
def test_random_kernels(seed: int) -> None:
    random = Random(f"residues {seed}")
    for _ in range(20):
        kernel = draw("tangled", random) if seed % 2 else draw("runnable", random, marks=False)
        families = [SplitCyclic.with_numbers(kernel, path, (2, 3)) for path, _ in kernel.walk()]
        moves = [move for family in families for move in family] + list(DropCondition.candidates(kernel))
        if held(kernel, moves, random, 4, exact=False, listed=False):
            return
    pytest.fail("no move was legal")


# -- copies of elements that are a step apart ------------------------------------------------------------------
def test_elements_a_step_apart_are_copied_side_by_side() -> None:
    text = """kernel f(N)
in  x: f32[2*N]
out y: f32[3*N + 1]

3*N + 1 @z
| y[{z}] = 0
N @b
| 4 @i
| | if 4*{b} + {i} < N
| | | y[12*{b} + 3*{i} + 1] = x[8*{b} + 2*{i}]
"""
    trace = dojoir.Trace(dojoir.parse(text))
    trace.apply("stage(1.0, x, xs, in)")
    assert "tmp xs: f32[4]" in dojoir.to_text(trace.kernel)
    assert "xs[{1}] = x[8*{0} + 2*{1}]" in dojoir.to_text(trace.kernel)
    assert dojoir.certify(trace)
    trace.undo()
    assert trace.kernel == trace.start


def test_a_step_that_is_not_of_all_is_no_step() -> None:
    text = "kernel f(N)\nin  x: f32[2*N + 1]\nout y: f32[N]\n\nN\n| y[{0}] = x[2*{0}] + x[2*{0} + 1]\n"
    assert "tmp xs: f32[2*N]" in dojoir.to_text(dojoir.apply(dojoir.parse(text), "stage(0, x, xs, in)"))


# -- the rule --------------------------------------------------------------------------------------------------
@pytest.mark.parametrize("machine", ["avx2", "avx512"])
def test_each_residue_of_a_result_is_a_convolution_of_its_own(machine: str) -> None:
    trace = by_rule(UPSAMPLED, machine)
    assert "%" not in dojoir.to_text(trace.kernel), "no condition on a rest is left"
    assert "2 @i_of" in dojoir.to_text(trace.kernel)
    assert dojoir.certify(trace)
    assert dojoir.verify(trace.kernel, against=dojoir.parse(UPSAMPLED), seeds=1).ok


def test_what_follows_from_a_rest_of_the_result_is_written_out() -> None:
    """`{k}` is odd where `{i}` is even: only a number for the residue of `{i}` tells which `{k}` count."""
    trace = by_rule(PADDED)
    written = dojoir.to_text(trace.kernel)
    assert "%" not in written.partition("\n\n")[2] and "_of" not in written
    assert "f[{1}, 2*{2} + 1]" in written and "f[{1}, 2*{2}]" in written, written
    assert dojoir.certify(trace)
    assert dojoir.verify(trace.kernel, against=dojoir.parse(PADDED), seeds=1).ok


IN_THREE = """kernel in_three(C, D, H, W)
in  x: f32[C, D, H, W]
in  f: f32[C, 2, 2, 2]
out y: f32[2*D, 2*H, 2*W]

2*D @d
| 2*H @h
| | 2*W @w
| | | y[{d}, {h}, {w}] = 0
| | | C @c
| | | | 2 @r
| | | | | 2 @p
| | | | | | 2 @q
| | | | | | | if ({d} - {r}) % 2 == 0 and {d} >= {r} and ({h} - {p}) % 2 == 0 and {h} >= {p}
| | | | | | | | if ({w} - {q}) % 2 == 0 and {w} >= {q}
| | | | | | | | | y[{d}, {h}, {w}] += f[{c}, {r}, {p}, {q}] * x[ROWS]
"""
IN_THREE = IN_THREE.replace("ROWS", "{c}, ({d} - {r}) // 2, ({h} - {p}) // 2, ({w} - {q}) // 2")


def test_what_is_summed_over_does_not_follow_from_a_rest_that_is_still_to_be_split() -> None:
    """As many terms as residues: a rest of the second dimension is no number yet when the first one is."""
    trace = by_rule(IN_THREE, "avx2")
    assert " // 2, ({" not in dojoir.to_text(trace.kernel) and "% 2) // 2" not in dojoir.to_text(trace.kernel)
    assert dojoir.verify(trace.kernel, against=dojoir.parse(IN_THREE), seeds=1).ok


IN_TURN = """kernel in_turn(C, H, W)
in  x: f32[C, H, W]
in  f: f32[C, 3, 3]
out y: f32[2*H + 1, 2*W + 1]

2*H + 1 @i
| 2*W + 1 @j
| | y[{i}, {j}] = 0
| | C @c
| | | 3 @p
| | | | if ({i} - {p}) % 2 == 0 and {i} >= {p} and {i} - {p} < 2*H
| | | | | 3 @q
| | | | | | if ({j} - {q}) % 2 == 0 and {j} >= {q} and {j} - {q} < 2*W
| | | | | | | y[{i}, {j}] += x[{c}, ({i} - {p}) // 2, ({j} - {q}) // 2] * f[{c}, {p}, {q}]
"""


def test_conditions_around_one_another_are_split_together() -> None:
    """A window between two conditions is no scope over residues, and is not written out."""
    trace = by_rule(IN_TURN)
    assert "%" not in dojoir.to_text(trace.kernel), "no condition on a rest is left"
    assert dojoir.certify(trace)
    assert dojoir.verify(trace.kernel, against=dojoir.parse(IN_TURN), seeds=1).ok


def test_a_condition_on_the_result_alone_is_written_out() -> None:
    trace = by_rule(EVERY_THIRD)
    written = dojoir.to_text(trace.kernel)
    assert "if " not in written and written.count(" += 1") == 1
    assert dojoir.verify(trace.kernel, against=dojoir.parse(EVERY_THIRD), seeds=1).ok


def test_many_residues_stay_as_they_are() -> None:
    text = EVERY_THIRD.replace("% 3", "% 300")
    assert "% 300 == 1" in str(by_rule(text).kernel)
