"""Moves that only count a range in another way: one answer for every scope that has the range."""

from __future__ import annotations

from random import Random

import pytest
from walks import start_kernel

import dojoir
from dojoir.ir.nodes import Kernel
from dojoir.passes.base.move import Move, Refusal
from dojoir.passes.engine.counting import counted
from dojoir.passes.engine.engine import is_legal, made
from dojoir.proof.check import STEP_LIMIT, AnswerReach, answer, prove_by_core
from dojoir.support.memo import fresh_tables


def kernel_of(body: str, declared: str = "", where: str = "") -> Kernel:
    return dojoir.parse(
        f"kernel f(N, M)\n{where}in  x: f32[N, M]\nout y: f32[N, M]\nout z: i64[N]\n{declared}\n"
        f"{body}\nN\n| z[{{0}}] = 0\nN\n| M\n| | y[{{0}}, {{1}}] = x[{{0}}, {{1}}]\n"
    )


PLAIN = "N\n| M\n| | y[{0}, {1}] = x[{0}, {1}]"
OTHER = "N\n| M\n| | t[{0}] = x[{0}, {1}] * 2\n| | t[{0}] += 1"
SHARED = [
    ("cut(0, 4*(N // 4))", "cut(0, 16*(N // 16))"),
    ("cut(0.0, M - 1)", "cut(0.0, M - 1)"),
    ("split(0.0, 8)", "split(0.0, 32)"),
    ("shift(0.0, {0})", "shift(0.0, {0})"),
    ("peel(0)", "peel(0)"),
]
APART = [
    ("cut(0, 4*(N // 4))", "cut(0, N - 1)"),
    ("split(0.0, 8)", "split(0.0, 3)"),
    ("shift(0.0, {0})", "shift(0.0, 1)"),
    ("split(0, 8)", "split(0.0, 8)"),
]


@pytest.mark.parametrize("shared", [True, False])
def test_a_range_is_one_question_whatever_it_runs(shared: bool) -> None:
    one, other = (
        kernel_of(PLAIN, where="where M % 32 == 0\n"),
        kernel_of(OTHER, "tmp t: f32[N]", "where M % 32 == 0\n"),
    )
    for some, others in SHARED if shared else APART:
        asked = counted(one, dojoir.parse_move(some)), counted(other, dojoir.parse_move(others))
        assert None not in asked and (asked[0] == asked[1]) == shared, (some, others)
        assert dojoir.check(one, some) and dojoir.check(other, others), (some, others)


@pytest.mark.parametrize(
    ("body", "declared", "move"),
    [
        ("N : p\n| M\n| | t = x[{0}, {1}]\n| | y[{0}, {1}] = t", "tmp t: f32", "cut(0, 1)"),
        ("N : p\n| M\n| | t = x[{0}, {1}]\n| | y[{0}, {1}] = t", "tmp t: f32", "peel(0)"),
        ("N\n| M : v\n| | t = x[{0}, {1}]\n| | y[{0}, {1}] = t", "tmp t: f32", "cut(0, 1)"),
        ("N : v\n| M\n| | y[{0}, {1}] = x[{0}, {1}]", "", "shift(0.0, {0})"),
        ("N\n| 8 : u\n| | y[{0}, 0] = x[{0}, 0]", "", "split(0.0, 2)"),
        ("N\n| M : prefetch(x, 16)\n| | y[{0}, {1}] = x[{0}, {1}]", "", "split(0.0, 2)"),
        ("N\n| M\n| | y[{0}, {1} // 2] = x[{0}, {1}]", "", "split(0.0, 2)"),
        ("N\n| z[{0}] = {0}", "", "peel(0)"),
        ("N\n| if {0} >= 1\n| | z[{0}] = 1", "", "shift(0, 1)"),
        ("N\n| z[{0}] = 1", "", f"cut(0, {2**31})"),
        ("N\n| z[{0}] = 1", "", f"split(0, {2**31})"),
        ("N\n| z[{0}] = 1", "", "label(0, i)"),
        ("N\n| z[{0}] = 1", "", "cut(0.0, 1)"),
        ("N\n| z[{0}] = 1", "", "cut(7, 1)"),
    ],
)
def test_where_what_it_runs_may_tell_nothing_is_shared(body: str, declared: str, move: str) -> None:
    assert counted(kernel_of(body, declared), dojoir.parse_move(move)) is None


def test_a_temporary_of_a_marked_scope_tells_two_cuts_apart() -> None:
    """A list that knows the cut of the plain scope says no of the marked one: two scopes would use its tmp."""
    plain = kernel_of("N\n| M\n| | t = x[{0}, {1}]\n| | y[{0}, {1}] = t", "tmp t: f32")
    marked = kernel_of("N : p\n| M\n| | t = x[{0}, {1}]\n| | y[{0}, {1}] = t", "tmp t: f32")
    cut = dojoir.parse_move("cut(0, 1)")
    assert cut in dojoir.moves(plain) and cut not in dojoir.moves(marked)


FAMILIES = ("split", "cut", "peel", "shift")


@pytest.mark.parametrize("seed", range(2))
def test_the_core_refuses_no_scope_of_a_range_that_is_counted(seed: int) -> None:
    """What is legal for one scope is so for all that are the same question, on kernels that are walked to."""
    random, seen, shared = Random(f"counted {seed}"), dict[object, bool](), 0
    for _ in range(6):
        kernel = dojoir.parse(dojoir.to_text(start_kernel(random, 0.7)[0]))
        for _ in range(3):
            listed = dojoir.candidates(kernel)
            for move in [move for move in random.sample(listed, len(listed)) if move.name in FAMILIES][:8]:
                question = counted(kernel, move)
                if question is not None and seen.get(question):
                    assert not refused_by_core(kernel, move), (str(move), dojoir.to_text(kernel))
                    shared += 1
                elif question is not None:
                    seen[question] = in_order(kernel, move)
            ways = [move for move in listed if move.name in {"vectorize", "parallelize", "prefetch", "split"}]
            legal = [move for move in random.sample(ways, min(6, len(ways))) if is_legal(kernel, move)]
            kernel = dojoir.apply(kernel, legal[0]) if legal else kernel
    assert shared > 8


def in_order(kernel: Kernel, move: Move) -> bool:
    """Whether a move is legal, and that was seen from how ranges are counted alone."""
    try:
        done = made(kernel, move)
    except Refusal:
        return False
    with fresh_tables():
        found = answer(kernel, done.kernel, done.instances)
    return found.legal and AnswerReach.ORDER in found.kept


def refused_by_core(kernel: Kernel, move: Move) -> bool:
    """Whether the core says no; what it does not come to within the usual budget is no answer."""
    done = made(kernel, move)
    return prove_by_core(kernel, done.kernel, done.instances, STEP_LIMIT).status == "illegal"
