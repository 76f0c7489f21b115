"""Questions by name that once took a second and more: each is answered within a small part of the budget.

Steps are counted, not seconds, so that it is the same on every machine.
"""

from __future__ import annotations

import pytest
from test_budget import siblings

import dojoir
from dojoir.proof.check import STEP_LIMIT, InstanceMap, identity, prove_rewrite
from dojoir.proof.core.written import find_unwritten
from dojoir.proof.refute.small_run import RunFinding, seen
from dojoir.sets.limits import UNLIMITED, StepBudget, StepLimitReached
from dojoir.support.memo import charge, fresh_tables

HEAT = "cut(0, 1); vectorize(0.0.0.0); parallelize(0.0); cut(1.0.0.0, 8*((N - 2) // 8))"
POOL = (
    "cut(0.0.0.0, 64*((W - KW + 2) // 128)); stage(0.0.0.0.1.0.0, y, y_copy, inout); cut(0.0, 4*(C // 4)); "
    "remove_scope(0.0.0.0.1.0.2)"
)

JACOBI = "split(0.1.0, 8); cut(0.1.0, 8*((N + 5) // 64)); cut(0.0.0, 16*((N - 2) // 16)); bind(0.1.1, gx)"

NT = (
    "split(0.0, 8); split(0.0, 16); split(0.0, 4); bind(0, gx); bind(0.0.0.0.0.1, gz); shift(0.0.0, {1}); "
    "cut(0.0, 8*((M + 511) // 4096))"
)

NAMED = [
    ("heat3d", "", "to_fma(0.1.0.0.0, 24)", "legal", 20_000),
    ("heat3d", HEAT, "to_fma(1.1.0.0.0, 24)", "legal", 20_000),
    ("heat3d", HEAT, "stage(0.0.0.0, b, b_copy, out)", "illegal", 40_000),
    ("maxpool2d", POOL, "stage(0.0.0.0, y, y_copy2, inout)", "illegal", 60_000),
    ("jacobi2d", JACOBI, "stage(0.1.1.0, a, a_copy, out)", "illegal", 300_000),
    ("jacobi2d", f"{JACOBI}; shift(0.0, 1); peel(0.1.0.0)", "stage(0.1.0.1, a, a_copy, out)", "legal", 80_000),
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
        verdict, steps = StepBudget(UNLIMITED).measure(lambda: prove_rewrite(kernel, done.kernel, done.instances))
    return verdict.status, steps


@pytest.mark.parametrize(("name", "moves", "move", "status", "most"), NAMED)
def test_a_question_that_was_long(name: str, moves: str, move: str, status: str, most: int) -> None:
    found, steps = steps_of(after(name, moves), move)
    assert found == status
    assert steps <= most


def status_within(kernel: dojoir.Kernel, move: str, budget: int) -> str:
    """The verdict on a move of a kernel by which nothing is known, within a budget."""
    done = dojoir.parse_move(move).rewrite(kernel)
    with fresh_tables():
        return prove_rewrite(kernel, done.kernel, done.instances, budget).status


@pytest.mark.parametrize("index", ["{0}, {1}", "N - 1 - {0}, M - 1 - {1}", "{0}, M - 1 - {1}"])
def test_two_long_siblings_are_soon_joined_or_not(index: str) -> None:
    assert status_within(siblings(12, index), "join_scopes(0, 1)", STEP_LIMIT // 3) != "unknown"


def test_what_a_run_shows_needs_no_other_reason() -> None:
    """isl spends the whole budget, in twice the time of other steps, on a reason why a run goes wrong."""
    assert status_within(after("matmul_nt", NT), "swap_siblings(0.1.0.0.0.0.0)", STEP_LIMIT // 5) == "illegal"
    verdict = dojoir.check(after("matmul_nt", NT), "swap_siblings(0.1.0.0.0.0.0)")
    assert verdict.code == "lost-value" and verdict.diagnostic.sizes == (("N", 2), ("M", 2), ("K", 2))
    assert verdict.reason.endswith("at N=2, M=2, K=2 an element would be read that has no value")


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
        StepBudget(STEP_LIMIT).ask(endless)
    assert STEP_LIMIT * 0.95 <= sum(taken) <= STEP_LIMIT * 1.05


def swapped(header: str, first: str, second: str) -> RunFinding | None:
    """What a run shows of two statements of a scope in the other order."""
    orders = ((first, second), (second, first))
    kernels = [dojoir.parse(f"kernel a(N)\n{header}\n\nN\n| {a}\n| {b}\n") for a, b in orders]
    return seen(*kernels, InstanceMap(identity(kernels[0]).origins[::-1]))


def test_what_a_run_shows_in_words() -> None:
    """A read of another value, a last value of another write, an instance too many and one that is lost."""
    sizes = (("N", 2),)
    header = "in x: f32[N]\nout y: f32[N]\nout z: f32[N]"
    shown = swapped(header, "y[{0}] = x[{0}]", "z[{0}] = y[{0}]")
    assert shown == RunFinding(sizes, "lost-value", "an element would be read that has no value")
    shown = swapped(header.replace("out y", "inout y"), "z[{0}] = y[{0}]", "y[{0}] = x[{0}]")
    assert shown == RunFinding(sizes, "wrong-value", "`z[{0}] = y[{0}]` at {0}=0 would read what other writes gave")
    shown = swapped("in x: f32[N]\nout y: f32[N]", "y[{0}] = x[{0}]", "y[{0}] = 2")
    assert shown == RunFinding(sizes, "wrong-value", "`y[0]` would be left with what other writes gave")
    whole, part = (dojoir.parse(f"kernel a(N)\ninout y: f32[N]\n\n{n}\n| y[{{0}}] = 1\n") for n in ("N", "N - 1"))
    shown = seen(whole, part, identity(whole))
    assert shown == RunFinding(sizes, "lost-instance", "`y[{0}] = 1` at {0}=1 would not run")
    shown = seen(part, whole, identity(part))
    assert shown == RunFinding(sizes, "extra-instance", "`y[{0}] = 1` at {0}=1 would run, which did not")
    assert seen(whole, whole, identity(whole)) is None


def test_deep_nests_are_charged_for_their_dimensions() -> None:
    """The steps were few and each was slow: an answer took half a minute."""
    depth = 63
    body = "".join("| " * d + "N\n" for d in range(depth)) + "| " * depth + "y[{0}] = x[{0}] + 1\n"
    kernel = dojoir.parse(f"kernel f(N)\nin x: f32[N]\nout y: f32[N]\n{body}")
    assert dojoir.check(kernel, "swap_scopes(0.0)").status == "unknown"
    assert dojoir.check(kernel, "sink_scope(0, 62)")


MANY_READS = """kernel f(N)
in  x: f32[N]
out y: f32[N]
tmp t: f32[2*N]

N
| t[2*{0}] = x[{0}]
N
| t[2*{0} + 1] = x[{0}]
N
| y[{0}] = t[{0}] + t[{0} + 1] * t[N] + t[2*N - 1 - {0}] + t[N - 1] * t[0] + t[2*{0}] * t[{0} + N]
"""


def test_what_was_asked_before_is_charged_once() -> None:
    """Each of several reads of one buffer is charged what it alone took: all of them together, not once a read."""
    kernel = dojoir.parse(MANY_READS)

    def question() -> bool:
        return all(find_unwritten(kernel, buffer) is None for buffer in kernel.buffers if buffer.role == "tmp")

    with fresh_tables():
        (first, found), (again, known) = (StepBudget(UNLIMITED).measure(question) for _ in range(2))
    assert first and again and found > 1_000 and known < 1.5 * found
