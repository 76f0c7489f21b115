"""Statements at indices from data that touch elements apart: for one reason together, and never for two."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from races import race

import dojoir
from dojoir.ir.nodes import Apart, Kernel
from dojoir.proof.certificate import identity
from dojoir.proof.checker_mode import by_core
from dojoir.proof.claim import Claim
from dojoir.proof.core.check import find_failure
from dojoir.sets.data_writes import without_data_writes
from dojoir.sets.distinct_writes import distinct_writes

TWO = """kernel z(N)
in p: i64[N] distinct
in q: i64[N]
inout h: f32[N]

N @i
| h[p[{i}]] = 1
| h[q[{i}]] = 2 if p[q[{i}]] == {i}
"""
"""Both statements are apart by themselves, the first as `p` is distinct, and the second as it compares `p`. The two
meet: where `p` is a permutation and `q` its inverse, everywhere."""

ADDED = TWO.replace("(N)\n", "(N)\nfp strict\n").replace("= 1", "+= 1").replace("= 2", "+= 2")
MOVES = ("split_scopes(0, 1)", "reverse_scope(0)", "parallelize(0)", "vectorize(0)")


def test_each_is_apart_for_a_reason_of_its_own() -> None:
    assert distinct_writes(dojoir.parse(TWO)) == {
        0: Apart("distinct", "p", (0,), "="),
        1: Apart("compared", "p", (0,), "="),
    }
    seen = without_data_writes(dojoir.parse(TWO))
    first, second = (site.statement.commuting for site in seen.sites)
    assert first is not None
    assert second is not None
    assert first != second


@pytest.mark.parametrize("way", ["shortcuts", "core"])
@pytest.mark.parametrize("move", MOVES)
@pytest.mark.parametrize("text", [TWO, ADDED], ids=["assigned", "added"])
def test_two_reasons_are_not_one(text: str, move: str, way: str) -> None:
    kernel = dojoir.parse(text)
    with by_core(way == "core"):
        verdict = dojoir.check(kernel, move)
    assert verdict.status == "illegal", verdict


@pytest.mark.parametrize("text", [TWO, ADDED], ids=["assigned", "added"])
@pytest.mark.parametrize("mark", ["p", "v", "gx"])
def test_a_marked_text_is_refused(text: str, mark: str) -> None:
    with pytest.raises(dojoir.KernelError) as caught:
        dojoir.prove(dojoir.parse(text.replace("N @i", f"N : {mark} @i")))
    assert caught.value.diagnostic.code == "shared-element"


@pytest.mark.parametrize("text", [TWO, ADDED], ids=["assigned", "added"])
@pytest.mark.parametrize("move", MOVES)
def test_no_certificate_says_so(text: str, move: str) -> None:
    trace = dojoir.Trace(dojoir.parse(text))
    trace.apply(move, unsafe=True)
    assert dojoir.certify(trace).status != "legal"


def given(size: int) -> dict[str, Any]:
    """A permutation and its inverse."""
    order = np.random.default_rng(3).permutation(size)
    return {"p": order, "q": np.argsort(order), "h": np.zeros(size, "f")}


def results(kernel: Kernel, size: int) -> Any:
    return dojoir.interpret(kernel, given(size), N=size)["h"]


@pytest.mark.parametrize("text", [TWO, ADDED], ids=["assigned", "added"])
def test_schedules_let_no_two_meet(text: str) -> None:
    kernel = dojoir.parse(text)
    trace = dojoir.PASSES["default_schedule"].given("cuda").on(kernel)
    assert dojoir.certify(trace)
    assert race(trace.kernel, {"N": 9}, given(9)) is None
    best = dojoir.optimize(kernel, threads=2)
    assert race(best.kernel, {"N": 9}, given(9)) is None
    assert np.array_equal(results(best.kernel, 50), results(kernel, 50))


def test_the_two_do_meet() -> None:
    kernel = dojoir.parse(TWO)
    for move in MOVES[:2]:
        wrong = dojoir.apply(kernel, move, unsafe=True)
        assert not np.array_equal(results(kernel, 50), results(wrong, 50))


@pytest.mark.parametrize(
    ("text", "count"),
    [
        (TWO.replace("h[q[{i}]] = 2 if p[q[{i}]] == {i}", "h[p[{i}]] = 3 if q[p[{i}]] == {i}"), 2),
        (TWO.replace("h[q[{i}]] = 2 if p[q[{i}]] == {i}", "h[q[{i}]] = 2"), 1),
    ],
)
def test_others_of_the_kind(text: str, count: int) -> None:
    """Statements that name one array, and are apart for other reasons, or not at all."""
    kernel = dojoir.parse(text)
    assert len(distinct_writes(kernel)) <= count
    for move in MOVES:
        assert dojoir.check(kernel, move).status == "illegal"


def test_an_assignment_that_loses_the_fact_is_ordered() -> None:
    kernel = without_data_writes(dojoir.parse(TWO))
    site = kernel.sites[0]
    lost = kernel.replace_node(site.path, replace(site.statement, apart=None))
    assert find_failure(Claim(kernel, kernel, identity(kernel))) is None
    assert find_failure(Claim(kernel, lost, identity(lost))) is not None
