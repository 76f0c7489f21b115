"""What the core takes to be unchanged: it says of every claim what it says with everything asked anew."""

from __future__ import annotations

from random import Random

import pytest
from faults import FAULTS
from walks import draw_moves, start_kernel

import dojoir
from dojoir.passes.base.move import Refusal
from dojoir.proof.certificate import InstanceMap, identity
from dojoir.proof.claim import Claim
from dojoir.proof.core import check, compare, unchanged
from dojoir.proof.core.check import find_failure
from dojoir.sets.limits import StepLimitReached, limited

ASKED = (
    (compare, "alone", lambda claim: frozenset()),
    (compare, "same_operations", lambda claim: frozenset()),
    (compare, "settled", lambda claim, alike: frozenset()),
    (compare, "alike", lambda claim, strict: frozenset()),
    (check, "same_operations", lambda claim: frozenset()),
    (check, "children", lambda claim: frozenset()),
)
"""Where the core asks what is unchanged, each with the answer that nothing is."""


def said(claim: Claim) -> str | None:
    """What fails of a claim, None if nothing does. Two theorems may name other obligations first."""
    failure = find_failure(claim)
    return None if failure is None else type(failure).__name__


def claims(seed: str) -> list[Claim]:
    """What moves make of a kernel some steps into a walk, legal or not, and mutants of that."""
    random = Random(seed)
    kernel, _ = start_kernel(random, 0.9)
    for move in draw_moves(kernel, random, random.choice((1, 3, 5))):
        kernel = dojoir.apply(kernel, move) if dojoir.check(kernel, move) else kernel
    found = []
    for move in draw_moves(kernel, random, 8):
        try:
            done = move.rewrite(kernel)
        except (Refusal, dojoir.DojoError):
            continue
        wrong = (fault(done, random) for fault in random.sample(FAULTS, 4)) if done.instances.rule is None else ()
        found += [Claim(kernel, one.kernel, one.instances) for one in (done, *wrong) if one is not None]
    return found


@pytest.mark.parametrize("block", range(4))
def test_the_core_says_the_same_with_everything_asked_anew(block: int, monkeypatch: pytest.MonkeyPatch) -> None:
    legal = illegal = 0
    for number in range(5):
        for claim in claims(f"unchanged {block} {number}"):
            try:
                with limited(400_000):
                    soon = said(claim)
                    with monkeypatch.context() as patch:
                        for module, name, nothing in ASKED:
                            patch.setattr(module, name, nothing)
                        full = said(Claim(*claim.parts))
            except StepLimitReached:
                continue
            assert soon == full, f"{soon} {full} {claim.certificate}\n{claim.before}\n{claim.after}"
            legal, illegal = legal + (full is None), illegal + (full is not None)
    assert min(legal, illegal) > 10, (legal, illegal)


PRIVATE = """kernel private(N)
in  x: f32[N]
tmp t: f32
tmp u: f32[N]
out y: f32[N]

N : p
| t = x[{0}] * 2
| y[{0}] = t + 1
N
| u[{0}] = x[{0}]
"""


def claimed(before: str, after: str, *origins: int | None) -> Claim:
    """A claim by which statements stand for those of these numbers in the same iterations."""
    old, new = dojoir.parse(before), dojoir.parse(after)
    same = identity(old).origins
    return Claim(old, new, InstanceMap(tuple(None if k is None else same[k] for k in origins)))


def test_a_marked_scope_that_is_the_same_is_asked_again_where_its_temporary_is_used_elsewhere() -> None:
    """It was private to each iteration, and is none's own any more."""
    assert (
        find_failure(Claim(dojoir.parse(PRIVATE), dojoir.parse(PRIVATE), identity(dojoir.parse(PRIVATE)))) is None
    )
    leaks = claimed(PRIVATE, PRIVATE + "u[0] = t\n", 0, 1, 2, None)
    assert 0 not in unchanged.children(leaks)
    assert said(leaks) == "Dependent"


def test_a_marked_scope_that_is_the_same_is_asked_again_where_its_storage_is_another() -> None:
    scattered = PRIVATE.replace("tmp u: f32[N]", "tmp u: f32[N~]").replace("N\n| u", "N : p\n| u")
    apart = scattered.replace("[N~]", "[N]")
    joined = claimed(apart, scattered, 0, 1, 2)
    assert unchanged.children(joined) == {0}
    assert said(claimed(apart, apart, 0, 1, 2)) is None


@pytest.mark.parametrize(("shared", "other"), [("*=", "+="), ("+=", "*=")])
def test_what_lanes_share_is_asked_again_where_it_is_used_elsewhere(shared: str, other: str) -> None:
    """Lanes may share what they accumulate, whatever another operator does there outside of their scope."""
    text = f"kernel sums(N)\nin  x: f32[N]\ntmp s: f32\nout y: f32\n\ns = 1\nN : v\n| s {shared} x[{{0}}]\ny = s\n"
    assert find_failure(claimed(text, text, 0, 1, 2)) is None
    mixed = claimed(text, text.replace("y = s\n", f"y = s\ns {other} 2\n"), 0, 1, 2, None)
    assert said(mixed) is None
    within = f"| s {shared} x[{{0}}]\n| s {other} 2\n"
    beside = claimed(text, text.replace(f"| s {shared} x[{{0}}]\n", within), 0, 1, None, 2)
    assert said(beside) is not None


@pytest.mark.parametrize(
    ("after", "origins"),
    [
        ("N\n| y[{0}] = x[{0}]\nN\n| y[{0}] = x[{0}]\n", (0, 0)),
        ("N - 1\n| y[{0}] = x[{0}]\n", (0,)),
        ("N\n| if {0} >= 1\n| | y[{0}] = x[{0}]\n", (0,)),
    ],
)
def test_a_statement_stands_for_all_of_another_only_alone_and_between_the_same_bounds(
    after: str, origins: tuple[int, ...]
) -> None:
    head = "kernel copy(N)\nwhere N >= 2\nin  x: f32[N]\nout y: f32[N]\n\n"
    claim = claimed(head + "N\n| y[{0}] = x[{0}]\n", head + after, *origins)
    assert not unchanged.alone(claim)
    assert (said(claim) is None) == (origins == (0, 0)), "an assignment may be repeated, and none may be lost"


def test_a_buffer_is_not_alike_where_what_touches_it_is_in_another_order() -> None:
    head = "kernel order(N)\nin  x: f32[N]\ninout y: f32[N]\n\n"
    first, second = "N\n| y[{0}] = x[{0}]\n", "N\n| y[{0}] = x[{0}] + 1\n"
    claim = claimed(head + first + second, head + second + first, 1, 0)
    assert unchanged.alike(claim, strict=False) == frozenset()
    assert said(claim) == "WrongFlow"
