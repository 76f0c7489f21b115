"""Questions by name that once took a second and more: each is answered within a small part of the budget.

Steps are counted, not seconds, so that it is the same on every machine.
"""

from __future__ import annotations

import pytest
from test_budget import siblings

import dojoir
from dojoir.proof.check import STEP_LIMIT, prove_rewrite
from dojoir.sets.limits import UNLIMITED, Budget, StepLimitReached
from dojoir.support.memo import charge, fresh_tables

HEAT = "cut(0, 1); vectorize(0.0.0.0); parallelize(0.0); cut(1.0.0.0, 8*((N - 2) // 8))"
POOL = (
    "cut(0.0.0.0, 64*((W - KW + 2) // 128)); stage(0.0.0.0.1.0.0, y, y_copy, inout); cut(0.0, 4*(C // 4)); "
    "remove_scope(0.0.0.0.1.0.2)"
)

JACOBI = "split(0.1.0, 8); cut(0.1.0, 8*((N + 5) // 64)); cut(0.0.0, 16*((N - 2) // 16)); bind(0.1.1, gx)"

NAMED = [
    ("heat3d", "", "to_fma(0.1.0.0.0, 24)", "legal", 20_000),
    ("heat3d", HEAT, "to_fma(1.1.0.0.0, 24)", "legal", 20_000),
    ("heat3d", HEAT, "stage(0.0.0.0, b, b_copy, out)", "illegal", 40_000),
    ("maxpool2d", POOL, "stage(0.0.0.0, y, y_copy2, inout)", "illegal", 60_000),
    ("jacobi2d", JACOBI, "stage(0.1.1.0, a, a_copy, out)", "illegal", 300_000),
    ("jacobi2d", f"{JACOBI}; shift(0.0, 1); peel(0.1.0.0)", "stage(0.1.0.1, a, a_copy, out)", "legal", 40_000),
]


def after(name: str, moves: str) -> dojoir.Kernel:
    kernel = dojoir.kernels.load(name)
    for move in moves.split("; ") if moves else ():
        kernel = dojoir.apply(kernel, move)
    return kernel


def steps_of(kernel: dojoir.Kernel, move: str) -> tuple[str, int]:
    """The verdict on a move of a kernel by which nothing is known, and the steps of it."""
    done = dojoir.parse_move(move).rewrite(kernel)
    with fresh_tables():
        verdict, steps = Budget(UNLIMITED).measure(lambda: prove_rewrite(kernel, done.kernel, done.instances))
    return verdict.status, steps


@pytest.mark.parametrize(("name", "moves", "move", "status", "most"), NAMED)
def test_a_question_that_was_long(name: str, moves: str, move: str, status: str, most: int) -> None:
    found, steps = steps_of(after(name, moves), move)
    assert found == status
    assert steps <= most


@pytest.mark.parametrize("index", ["{0}, {1}", "N - 1 - {0}, M - 1 - {1}", "{0}, M - 1 - {1}"])
def test_two_long_siblings_are_soon_joined_or_not(index: str) -> None:
    _, steps = steps_of(siblings(12, index), "join_scopes(0, 1)")
    assert steps <= 750_000


SHARED = """kernel shared(N, M, K)
in  a: f32[N, K]
in  b: f32[K, M]
out c: f32[N, M]
tmp s: f32[N~, M]

N
| M
| | s[{0}, {1}] = 0
| K
| | M
| | | s[{0}, {2}] += a[{0}, {1}] * b[{1}, {2}]
| M
| | c[{0}, {1}] = s[{0}, {1}]
"""


def test_a_copy_of_what_shares_storage_is_seen_from_the_text() -> None:
    found, steps = steps_of(dojoir.parse(SHARED), "stage(0.1.0, s, s_copy, inout)")
    assert (found, steps <= 20_000) == ("legal", True)


def test_a_copy_of_elements_that_share_storage_is_none() -> None:
    kernel = dojoir.parse(
        "kernel f(N)\nin x: f32[N]\nout y: f32[N]\ntmp s: f32[N~]\nN\n| s[{0}] = x[{0}]\n| y[{0}] = s[{0}]\n"
    )
    assert not dojoir.check(kernel, "stage(0, s, s_copy, inout)")


def test_a_mark_is_asked_of_what_is_not_seen_to_be_apart() -> None:
    """One value that crosses iterations is found among others that are seen not to."""
    kernel = dojoir.parse(
        "kernel f(N, M)\nin x: f32[N, M]\nout y: f32[N, M]\nout z: f32[N]\ntmp t: f32\ntmp u: f32\n"
        "u = 0\nN\n| t = x[{0}, 0]\n| z[{0}] = t + u\n| u = x[{0}, 0]\n| M\n| | y[{0}, {1}] = x[{0}, {1}]\n"
    )
    verdict = dojoir.check(kernel, "parallelize(1)")
    assert verdict.code == "shared-element" and "`u`" in str(verdict)
    assert dojoir.check(kernel, "parallelize(1.3)")


def test_both_tries_have_one_budget() -> None:
    """A question that is never answered takes its steps once, not once and a half."""
    taken: list[int] = []

    def endless() -> bool:
        while True:
            taken.append(1_000)
            charge(1_000)

    with pytest.raises(StepLimitReached):
        Budget(STEP_LIMIT).ask(endless)
    assert STEP_LIMIT * 0.95 <= sum(taken) <= STEP_LIMIT * 1.05
