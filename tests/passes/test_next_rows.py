"""The next row is fetched while an `exp` is taken of each element of this one."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

import dojoir
from dojoir.backends.machine import MACHINES
from dojoir.ir.hints import Prefetch
from dojoir.ir.nodes import Scope
from dojoir.passes.engine.trace import Trace
from dojoir.passes.schedule.default_schedule import default_schedule

MACHINE = replace(MACHINES["avx512"], cores=1, last_cache=1 << 25)

TEXT = """kernel passes(N, M)
in  x: f32[N, M]
out y: f32[N, M]
tmp m: f32[N]
tmp s: f32[N]

N
| m[{0}] = -inf
| M
| | m[{0}] max= x[{0}, {1}]
| s[{0}] = 0
| M
| | s[{0}] += exp(x[{0}, {1}] - m[{0}])
| M
| | y[{0}, {1}] = x[{0}, {1}] - s[{0}]
"""


def scheduled(text: str, **sizes: int) -> dojoir.Trace:
    trace = Trace(dojoir.parse(text))
    default_schedule(trace, MACHINE, sizes=sizes)
    return trace


def fetched(trace: dojoir.Trace) -> list[tuple[str, int]]:
    """What is fetched, and how far ahead."""
    scopes = [node for _, node in trace.kernel.walk() if isinstance(node, Scope)]
    return [(hint.buffer, hint.distance) for scope in scopes for hint in scope.hints if isinstance(hint, Prefetch)]


@pytest.mark.parametrize(
    ("sizes", "ahead"),
    [
        ({}, [("x", 4096)]),
        ({"N": 4000, "M": 4000}, [("x", 4000)]),
        ({"M": 8192}, [("x", 8192)]),
        ({"N": 4000}, [("x", 4096)]),
        ({"N": 1000, "M": 4000}, []),  # the last cache holds all rows
        ({"N": 16000, "M": 2048}, []),  # short rows
        ({"N": 1600, "M": 10000}, []),  # the first cache holds no two
    ],
)
def test_a_row_ahead_by_the_sizes_that_are_known(sizes: dict[str, int], ahead: list[tuple[str, int]]) -> None:
    assert fetched(scheduled(TEXT, **sizes)) == ahead


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("exp(x[{0}, {1}] - m[{0}])", "abs(x[{0}, {1}] - m[{0}])"),  # waits for memory itself
        ("| | m[{0}] max= x[{0}, {1}]", "| | m[{0}] max= 2"),  # the row was not read before
        ("exp(x[{0}, {1}]", "exp(x[0, {1}]"),  # another row
        ("in  x: f32[N, M]", "inout x: f32[N, M]"),
    ],
)
def test_others_are_left_to_what_fetches_by_itself(old: str, new: str) -> None:
    assert old in TEXT
    assert not fetched(scheduled(TEXT.replace(old, new)))


def test_short_vectors_take_long_enough() -> None:
    trace = Trace(dojoir.parse(TEXT))
    default_schedule(trace, MACHINES["neon"])
    assert not fetched(trace)


def test_results_stay() -> None:
    trace = scheduled(TEXT)
    assert dojoir.certify(trace)
    x = np.random.default_rng(2).standard_normal((3, 70)).astype(np.float32)
    found = dojoir.compile(trace.kernel).run({"x": x})["y"]
    np.testing.assert_allclose(found, dojoir.interpret(trace.start, {"x": x})["y"], rtol=1e-5)
