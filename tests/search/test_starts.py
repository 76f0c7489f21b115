"""The traces that a search begins with when none are given."""

from __future__ import annotations

import pytest
from able import can_run

import dojoir

SIZES = {"N": 512, "M": 512, "K": 512}


@pytest.mark.parametrize("target", ["avx512", "llvm"])
def test_a_search_begins_with_what_may_be_as_fast_as_the_rules(target: str) -> None:
    """Those without one structure, at most two, that the estimate says take at most 1.3 times as long."""
    if not can_run(target):
        pytest.skip(f"this machine runs no {target}")
    kernel = dojoir.kernels.load("matmul")
    options = dojoir.plan(kernel, target, sizes=SIZES, threads=1).options
    rules = next(one for one in options if one.name == "default_schedule")
    most = 1.3 * (rules.seconds or 0.0)
    near = {one.trace.kernel.hash for one in options if one.without and (one.seconds or 0.0) <= most}
    tuned = dojoir.tune(kernel, target, sizes=SIZES, timer="static", budget=dojoir.Budget(seconds=0))
    seen = [state.hash for state in tuned.states]
    assert seen[0] == kernel.hash and len(seen) == len(set(seen)) == 2 + min(len(near), 2)
    assert set(seen[2:]) <= near
    assert near or target != "avx512"  # of a product, without lanes: a tile has its own
