"""Random walks of moves for GPUs, their ends run on the harness; `tests/helpers/gpu_walks.py` runs more."""

from __future__ import annotations

from collections import Counter

import pytest
from gpu_walks import walk


@pytest.mark.parametrize("block", range(12))
def test_legal_moves_for_gpus_keep_the_meaning(block: int) -> None:
    counts = Counter[str]()
    for number in range(5 * block, 5 * block + 5):
        found = walk("test", number)
        assert not found.failures, "\n\n".join(found.failures)
        counts.update(found.counts)
    assert counts["runs"] >= 4
    assert counts["moves"] >= 10
