"""Random walks of moves for GPUs, their ends run on the harness; `fuzz.py --gpu 500` runs more."""

from __future__ import annotations

from collections import Counter
from random import Random

import pytest
from gpu_walks import walk


@pytest.mark.parametrize("block", range(12))
def test_legal_moves_for_gpus_keep_the_meaning(block: int) -> None:
    """Five walks; more where the targets refuse what most of them came to."""
    counts = Counter[str]()
    for number in range(20):
        found = walk(Random(f"gpu test {block} {number}"))
        assert not found.failures, "\n\n".join(found.failures)
        counts.update(found.counts)
        if number >= 4 and counts["runs"] >= 4:
            break
    assert counts["runs"] >= 4
    assert counts["moves"] >= 10
