"""Kernels of which some parts fail for some data, most of them where nothing reaches these: every target, what
`optimize` makes and what moves leave end as the text does."""

from __future__ import annotations

from collections import Counter
from random import Random

import numpy as np
import pytest
from able import can_run
from drawing import draw
from failing_calls import examine, failing_calls

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
        kernel = draw("runnable", random, small=True, failing=True)
        dojoir.prove(kernel)
        for call in failing_calls(kernel, random, count=1):
            found[call.text.code or f"results, {call.hidden > 0}"] += 1
    assert found["results, True"] > 40
    assert all(found[code] for code in ("division-by-zero", "shift-out-of-range", "index-out-of-range")), found


def test_an_error_of_a_sum_by_blocks_names_its_line() -> None:
    """Blocks of a long sum in lanes are no places of the text."""
    text = """kernel sums(N)
in x: f32[N]
in d: i32[N]
out y: f32[N]

N : v
| y[{0}] = 0.0
| N
| | y[{0}] += x[{1}] + f32(7 // d[{1}])
"""
    x, d = np.ones(70, np.float32), np.ones(70, np.int32)
    d[69] = 0
    for target in filter(can_run, ("llvm", "c", "avx512", "avx2")):
        with pytest.raises(dojoir.RunError, match=r"a divisor is 0: y.* \+= x") as caught:
            dojoir.compile(dojoir.parse(text), target=target).run({"x": x, "d": d})
        assert caught.value.diagnostic.span.line == 9


def test_a_rewrite_where_nothing_runs_makes_no_errors() -> None:
    """The facts leave no iteration to a scan by blocks of as many elements as divide N + 1."""
    text = """kernel scan(N)
where N % 4 == 0
in  d: i16[4]
out y: u8[N + 1]
tmp s: u8 stack

s = 1
N + 1
| s *= -(u8({0}) >> d[{0} % 4]) if d[{0} % 4] >= 0 and d[{0} % 4] < 8
| y[{0}] = s
"""
    assert dojoir.optimize(dojoir.parse(text), "cuda").kernel.fp == "reassoc"
