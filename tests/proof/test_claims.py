"""Random claims and random certificates, the interpreter as judge; `tests/helpers/fuzz.py` asks any number."""

from __future__ import annotations

from collections import Counter
from random import Random

import blurred
import claims
import pytest

from dojoir.sets.distinct_writes import distinct_writes


@pytest.mark.parametrize("block", range(4))
def test_no_false_claim_is_legal(block: int) -> None:
    counts: Counter[str] = Counter()
    for number in range(100):
        assert not claims.examine(Random(f"claims {block} {number}"), counts)
    assert counts["legal, right"] >= 20
    assert counts["illegal, wrong"] >= 15
    assert counts["legal, right"] > counts["illegal, right"]


def test_statements_apart_for_two_reasons_are_drawn() -> None:
    """One array is distinct and says so, and is compared by another statement of the same buffer."""
    found, numbers = 0, iter(range(600))
    while found < 3:
        number = next(numbers)
        claim = claims.Maker(Random(f"v {number}")).claim()
        told = (
            [] if claim is None else {(a.array, a.operator, a.kind) for a in distinct_writes(claim.before).values()}
        )
        found += any((array, op, "compared") in told for array, op, kind in told if kind == "distinct")


@pytest.mark.parametrize("block", range(2))
def test_no_trace_with_a_blurred_unsafe_move_is_certified_that_computes_something_else(block: int) -> None:
    counts: Counter[str] = Counter()
    for number in range(12):
        assert not blurred.examine(Random(f"blurred {block} {number}"), counts)
    assert counts["illegal, wrong"] > 0
