"""A question has one budget of steps, and its answer depends on nothing but the two; what is kept is bounded."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from random import Random
from threading import Thread

import pytest

import dojoir
from dojoir.passes.engine.engine import asked, made
from dojoir.proof.check import answer, compare, prove_by_core, prove_rewrite
from dojoir.sets.kernel_sets import sets_of, workspace
from dojoir.sets.limits import StepBudget, StepLimitReached, aside, limited, limited_in_part
from dojoir.support import memo
from dojoir.support.memo import Memo, bounded_to, charge, clear_caches, fresh_tables, spent, tables

MIRRORED = """kernel mirrored(N, M)
in    x: f32[N, M]
{declared}
{nests}
"""


def siblings(count: int, index: str) -> dojoir.Kernel:
    """Two nests of so many statements together, each of which reads what the one before wrote, at an index."""
    half = count // 2
    nests = []
    for numbers in (range(half), range(half, count)):
        lines = (
            f"| | y{n}[{{0}}, {{1}}] = x[{{0}}, {{1}}] * {n + 1}" + (f" + y{n - 1}[{index}]" if n else "")
            for n in numbers
        )
        nests.append("N\n| M\n" + "\n".join(lines))
    declared = "\n".join(f"inout y{n}: f32[N, M]" for n in range(count))
    return dojoir.parse(MIRRORED.format(declared=declared, nests="\n".join(nests)))


QUESTIONS = [
    ("layernorm", "stage(0.3, x, x_copy, in)"),
    ("softmax", "join_scopes(0, 1)"),
    ("jacobi2d", "join_scopes(0.0, 0.1)"),
    ("jacobi2d", "swap_scopes(0.0)"),
    ("conv2d", "swap_scopes(0)"),
    ("avgpool2d", "tile(0.0, 0.0.0, 0.0.0.0, 64, 64, 64)"),
    ("heat3d", "swap_scopes(0.0)"),
    ("transpose", "tile(0, 0.0, 8, 8)"),
]
LIMITS = [1, 50, 1_000, 4_000, 20_000, 100_000]


def status(name: str, move: str, steps: int) -> str:
    return dojoir.check(dojoir.kernels.load(name), move, steps).status


def alone(name: str, move: str, steps: int) -> str:
    """The answer of a thread that has kept nothing."""
    with fresh_tables():
        return status(name, move, steps)


@pytest.mark.parametrize(("name", "move"), QUESTIONS)
def test_a_verdict_depends_on_the_question_and_the_budget_alone(name: str, move: str) -> None:
    """Whatever was asked before: the same with more steps, all other moves of the kernel, or nothing."""
    expected = {steps: alone(name, move, steps) for steps in LIMITS}
    with fresh_tables():
        assert {steps: status(name, move, steps) for steps in LIMITS} == expected
    with fresh_tables():
        assert {steps: status(name, move, steps) for steps in reversed(LIMITS)} == expected
    with fresh_tables():
        dojoir.moves(dojoir.kernels.load(name), seconds=1)
        assert {steps: status(name, move, steps) for steps in LIMITS} == expected


def test_more_steps_do_not_turn_a_later_unknown_into_an_answer() -> None:
    for steps in LIMITS:
        with fresh_tables():
            kernel = siblings(8, "{0}, M - 1 - {1}")
            first = dojoir.check(kernel, "join_scopes(0, 1)", steps).status
            dojoir.check(kernel, "join_scopes(0, 1)", 10_000_000)
            assert dojoir.check(kernel, "join_scopes(0, 1)", steps).status == first


def test_listed_moves_are_those_that_are_legal_alone() -> None:
    kernel = dojoir.kernels.load("softmax")
    for steps in (300, 3_000, 30_000):
        with fresh_tables():
            dojoir.moves(kernel)
            warm = list(dojoir.moves(kernel, step_limit=steps))
        with fresh_tables():
            assert list(dojoir.moves(kernel, step_limit=steps)) == warm


def test_one_budget_over_all_stages() -> None:
    """The quick answer and the full comparison share it, and what does without isl is charged."""
    calls: list[int] = []

    def question() -> int:
        for _ in range(100):
            with limited(1 << 40):  # inside of another, that one holds
                charge(1_000)
            calls.append(spent())
        return 1

    with pytest.raises(StepLimitReached):
        StepBudget(50_000).ask(question)
    assert max(calls) <= 51_000
    assert StepBudget(500_000).ask(question) == 1


def test_behind_a_part_there_is_the_rest() -> None:
    left: list[int] = []

    def question() -> int:
        try:
            with limited_in_part(10_000):
                while True:
                    charge(1_000)
        except StepLimitReached:
            left.append(spent())
        charge(5_000)
        return spent()

    assert StepBudget(100_000).ask(question) >= left[-1] + 5_000
    assert 9_000 <= left[-1] <= 14_000


def test_what_is_tried_aside_is_free() -> None:
    """Also past the end of the budget, and whether it comes to its own end or not."""
    seen: list[tuple[int | None, int, int]] = []

    def works(steps: int) -> int:
        for _ in range(steps // 1_000):
            charge(1_000)
        return steps

    def question() -> int:
        for steps in (20_000, 2_000_000):
            before = spent()
            found = aside(lambda steps=steps: works(steps), 100_000)
            seen.append((found, before, spent()))
        charge(1_000)
        return spent()

    assert StepBudget(40_000).ask(question) <= 10_000
    assert [found for found, _, _ in seen] == [20_000, None]
    assert all(abs(after - before) <= 1_000 for _, before, after in seen)
    assert aside(lambda: works(20_000), 100_000) == 20_000  # outside of any question as well
    assert aside(lambda: works(2_000_000), 100_000) is None


def test_what_is_kept_costs_what_it_cost() -> None:
    kept: Memo[str, int] = Memo(8)

    def found() -> int:
        value = kept.get("answer")
        if value is None:
            charge(30_000)
            value = kept.put("answer", 42)
        return value

    def question() -> int:
        found()
        return spent()

    first, again = StepBudget(1_000_000).ask(question), StepBudget(1_000_000).ask(question)
    assert kept.get("answer") == 42
    assert first >= 30_000 and abs(first - again) < 1_000


def test_isl_is_counted() -> None:
    def question() -> int:
        sets = sets_of(siblings(6, "N - 1 - {0}, {1}"))
        assert not sets.domains.is_empty()
        return spent()

    with fresh_tables():
        cold = StepBudget(10_000_000).ask(question)
        warm = StepBudget(10_000_000).ask(question)
    assert cold > 1_000 and 0.5 * cold < warm < 1.5 * cold
    assert workspace().context.get_max_operations() == 0


def test_an_endless_guard_is_left_alone() -> None:
    """A small run that has nothing to run goes through a bounded number of iterations."""
    kernel = dojoir.parse(
        "kernel f(N)\nwhere N >= 4000\ninout x: f32[N]\nN\n| N\n| | N\n| | | if {0} >= N + 5 - {1}\n"
        "| | | | if {1} < 5\n| | | | | x[{2}] = 1\nN\n| x[{0}] = 2\n"
    )
    assert dojoir.check(kernel, "swap_siblings(0)", 1_000_000).status == "legal"


def test_two_long_siblings_are_refused_within_a_third_of_the_budget() -> None:
    kernel = siblings(12, "N - 1 - {0}, M - 1 - {1}")
    assert dojoir.check(kernel, "join_scopes(0, 1)", 1_000_000).status == "illegal"


# -- lists --------------------------------------------------------------------------------------------------------
def test_a_list_within_seconds_says_that_there_may_be_more() -> None:
    kernel = dojoir.kernels.load("attention")
    none = dojoir.moves(kernel, seconds=0)
    assert list(none) == [] and not none.complete
    whole = dojoir.moves(kernel)
    assert whole.complete and len(whole) > 10
    some = dojoir.moves(kernel, seconds=1e-3)
    assert list(some) == whole[: len(some)]
    assert dojoir.moves(kernel, seconds=600).complete
    assert [move for move, legal in asked(kernel) if legal] == whole


@pytest.mark.parametrize("seconds", [-1, "2"])
def test_seconds_are_a_number(seconds: float) -> None:
    with pytest.raises(dojoir.ArgumentError, match="seconds"):
        dojoir.moves(dojoir.kernels.load("relu"), seconds=seconds)


# -- what is kept -------------------------------------------------------------------------------------------------
def test_clear_caches_forgets_everything_in_every_thread() -> None:
    kernel = dojoir.kernels.load("softmax")
    listed = dojoir.moves(kernel)
    assert tables().bytes > 0
    found: list[int] = []

    def other() -> None:
        dojoir.moves(kernel)
        found.append(tables().bytes)
        clear_caches()
        found.append(tables().bytes)

    thread = Thread(target=other)
    thread.start()
    thread.join()
    assert found[0] > 0 and found[1] == 0
    assert tables().bytes == 0
    assert dojoir.moves(kernel) == listed


def test_clearing_amid_a_question_does_no_harm() -> None:
    def question() -> bool:
        clear_caches()
        return bool(sets_of(dojoir.kernels.load("softmax")).domains.is_empty())

    assert StepBudget(1_000_000).ask(question) is False


def test_tables_are_bounded_by_bytes() -> None:
    kept: Memo[str, str] = Memo(1_000_000)
    with fresh_tables(), bounded_to(100_000):
        for n in range(1_000):
            kept.put(f"{n}", "x" * 1_000)
            assert tables().bytes <= 100_000
        assert kept.get("999") is not None and kept.get("0") is None


def resident() -> int:
    """The bytes of memory that this process has."""
    return int(Path("/proc/self/statm").read_text().split()[1]) * 4096


def random_moves(random: Random) -> Iterator[int]:
    """The tables' bytes after each of endless random moves."""
    names = ["softmax", "matmul", "relu", "gemv", "swiglu"]
    while True:
        kernel = dojoir.kernels.load(random.choice(names))
        for _ in range(4):
            legal = dojoir.moves(kernel)
            if not legal or len(kernel.sites) > 12:
                break
            kernel = dojoir.apply(kernel, random.choice(legal))
            yield tables().bytes


@pytest.mark.skipif(not Path("/proc/self/statm").exists(), reason="asks Linux for the memory of a process")
def test_random_moves_come_to_a_plateau() -> None:
    bound = 1 << 20
    with fresh_tables(), bounded_to(bound):
        walk = random_moves(Random(5))
        held = [next(walk) for _ in range(10)]
        assert max(held) <= bound and max(held) > bound // 2  # it is full, and stays so
        before = resident()
        held = [next(walk) for _ in range(10)]
        assert max(held) <= bound
        assert resident() - before < 40 << 20
    assert memo.tables().meter is None


def test_the_three_questions_agree() -> None:
    kernel = siblings(6, "{0}, {1}")
    move = dojoir.parse_move("join_scopes(0, 1)")
    done = move.rewrite(kernel)
    assert answer(kernel, done.kernel, done.instances).legal
    assert compare(kernel, done.kernel, done.instances) and prove_rewrite(kernel, done.kernel, done.instances)
    assert answer(kernel, done.kernel, done.instances, 1).legal == bool(
        prove_rewrite(kernel, done.kernel, done.instances, 1)
    )


@pytest.mark.parametrize(("name", "move"), [("jacobi2d", "swap_scopes(0.0)"), ("softmax", "join_scopes(0, 1)")])
def test_the_core_says_no_of_no_legal_move_whatever_its_budget(name: str, move: str) -> None:
    """Where the first try is not enough and the second is, which has an isl context of its own."""
    kernel = dojoir.kernels.load(name)
    done = made(kernel, dojoir.parse_move(move))
    said = set()
    for limit in (2**n for n in range(8, 24)):
        with fresh_tables():
            said.add(prove_by_core(kernel, done.kernel, done.instances, limit).status)
    assert said == {"unknown", "legal"}
