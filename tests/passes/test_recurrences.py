"""Recurrences along a row, by the rule that lets each element give its share to those behind it."""

from __future__ import annotations

import re

import numpy as np
import pytest

import dojoir
from dojoir.passes.schedule.cpu.structures import use

LU = """kernel lu(N)
inout a: f64[N, N]
N @i
| {i} @j
| | {j} @k
| | | a[{i}, {j}] += -a[{i}, {k}] * a[{k}, {j}]
| | a[{i}, {j}] = a[{i}, {j}] / a[{j}, {j}]
| N - {i} @l
| | {i} @m
| | | a[{i}, {i} + {l}] += -a[{i}, {m}] * a[{m}, {i} + {l}]
"""

TURNED = """N // 8
| 8*{0}
| | 8
| | | a[8*{0} + {2}, {1}] = a[8*{0} + {2}, {1}] / a[{1}, {1}]
| | N - {1} - 1 : v
| | | 8 : u
| | | | a[8*{0} + {3}, {1} + {2} + 1] += -a[8*{0} + {3}, {1}] * a[{1}, {1} + {2} + 1]
| 8
| | {1}
| | | a[8*{0} + {1}, 8*{0} + {2}] = a[8*{0} + {1}, 8*{0} + {2}] / a[8*{0} + {2}, 8*{0} + {2}]
"""

LOWER = LU[: LU.index("| N - {i}")]

PATHS = """kernel paths(N)
in  w: f64[N, N]
inout t: f64[N, N]
N @i
| N @j
| | t[{i}, {j}] max= w[{i}, {j}]
| | if {j} >= 1
| | | t[{i}, {j}] max= t[{i}, {j} - 1]
| | {j} @k
| | | t[{i}, {j}] max= t[{i}, {k}] + w[{k}, {j}]
"""
"""A recurrence with work before it, under a guard too."""

ALONE = """kernel alone(N)
in  w: f64[N, N]
inout y: f64[N]
N @j
| {j} @k
| | y[{j}] += y[{k}] * w[{k}, {j}]
"""
"""A triangle is solved, with nothing else to do for an element."""


def plain(text: str) -> str:
    """A text without its labels."""
    return re.sub(r" @\w+\n", "\n", text)


def turned(text: str) -> dojoir.Trace:
    trace = dojoir.Trace(dojoir.parse(text))
    use(trace, "turned_recurrences", dojoir.machine_for("avx512"), {})
    return trace


def test_each_element_gives_its_share_to_those_behind_it() -> None:
    assert plain(dojoir.to_text(turned(LU).kernel)).count(TURNED) == 1
    strict = turned(LU.replace("\ninout", "\nfp strict\ninout"))  # in the order in which it had them
    assert plain(dojoir.to_text(strict.kernel)).count(TURNED) == 1


@pytest.mark.parametrize("text", [LU, LOWER, PATHS, ALONE], ids=["lu", "lower", "paths", "alone"])
def test_it_is_certified_and_right_in_lanes(text: str) -> None:
    trace = turned(text)
    assert trace.moves and dojoir.certify(trace)
    kernel = dojoir.PASSES["default_schedule"].given("avx512").on(dojoir.parse(text)).kernel
    assert " : v" in dojoir.to_text(kernel)
    run, random = dojoir.compile(kernel), np.random.default_rng(5)
    for n in (1, 2, 3, 8, 9, 31, 40):
        inputs = {}
        for b in kernel.arguments:
            inputs[b.name] = random.integers(1, 3, [n] * len(b.dims)) / 64
            if len(b.dims) == 2:
                inputs[b.name] += np.eye(n)
        expected, found = dojoir.interpret(dojoir.parse(text), inputs), run.run(inputs)
        assert all(np.allclose(found[name], expected[name], rtol=1e-12) for name in expected), n


@pytest.mark.parametrize(
    "text",
    [
        LOWER.replace("* a[{k}, {j}]", "* a[{j}, {k}]"),  # along the row already
        LOWER.replace("a[{i}, {k}] *", "a[{k}, {i}] *"),  # of other rows alone: no recurrence
        LOWER.replace("{j} @k", "{i} @k"),  # not of those before
        LOWER.replace("+= -a", "= -a"),  # no sum
        PATHS.replace("max= w[{i}, {j}]", "= w[{i}, {j}]"),  # a first value, which is no share
        LOWER.replace("a[{i}, {j}] /", "a[{i}, {i} - 1] /"),  # what is behind is wanted as it was
    ],
)
def test_others_stay(text: str) -> None:
    assert turned(text).moves == ()
