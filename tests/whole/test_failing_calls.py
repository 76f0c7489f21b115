"""Kernels of which some parts fail for some data, most of them where nothing reaches these: every target, what
`optimize` makes and what moves leave end as the text does."""

from __future__ import annotations

from collections import Counter
from random import Random

import pytest
from failing_calls import examine, failing_calls
from runnable import runnable_kernel

import dojoir


@pytest.mark.parametrize("seed", range(12))
def test_they_end_as_the_text_does(seed: int) -> None:
    counts: Counter[str] = Counter()
    kernel, wrong = examine(Random(f"failing:{seed}"), counts)
    assert wrong is None, f"{wrong}\n{kernel}"
    assert counts["compared llvm"] + counts["compared c"] + counts["compared avx512"] + counts["compared avx2"]


def test_calls_fail_and_hide_what_would() -> None:
    """Of the calls that are drawn, many have elements that nothing reaches, and some end in each of the errors."""
    found: Counter[str] = Counter()
    for seed in range(60):
        random = Random(f"calls:{seed}")
        kernel = runnable_kernel(random, small=True, failing=True)
        dojoir.prove(kernel)
        for call in failing_calls(kernel, random, count=1):
            found[call.text.code or f"results, {call.hidden > 0}"] += 1
    assert found["results, True"] > 40
    assert all(found[code] for code in ("division-by-zero", "shift-out-of-range", "index-out-of-range")), found
