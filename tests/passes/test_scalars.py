"""Scalars that a text uses again, by the rule that gives each use one of its own."""

from __future__ import annotations

import pytest

import dojoir
from dojoir.passes.schedule.forms.scalars import own_scalars

TEXT = """kernel again(N, M)
in  x: f32[N, M]
out y: f32[N]
out z: f32[M]
tmp s: f32

N @i
| s = 0
| M @j
| | s += x[{i}, {j}]
| y[{i}] = s
M @k
| s = 1
| N @l
| | s += x[{l}, {k}]
| z[{k}] = s
"""

THREE = TEXT.replace("out z", "out w: f32[N]\nout z") + "N @m\n| s = y[{m}]\n| w[{m}] = s * s\n"


def owned(text: str) -> dojoir.Trace:
    trace = dojoir.Trace(dojoir.parse(text))
    own_scalars(trace)
    return trace


@pytest.mark.parametrize(("text", "count"), [(TEXT, 2), (THREE, 3)])
def test_each_use_has_its_own(text: str, count: int) -> None:
    trace = owned(text)
    assert [b.name for b in trace.kernel.buffers if b.role == "tmp"] == ["s", "s2", "s3"][:count]
    assert len(trace.moves) == count - 1 and dojoir.certify(trace)


def test_then_both_nests_run_in_lanes() -> None:
    written = str(dojoir.PASSES["default_schedule"].given("avx512").on(dojoir.parse(TEXT)).kernel)
    assert "M : v @j" in written and ": v @k_in" in written


@pytest.mark.parametrize(
    "text",
    [
        TEXT.replace("| s = 1\n", "| s = s + 1\n"),  # the one before is wanted
        TEXT.replace("s = 1", "z[{k}] = s\n| s = 1"),
        "kernel f(N)\nin x: f32[N]\nout y: f32\ntmp s: f32\ns = x[0]\ny = s\ns = 2 * x[0]\ny = y + s\n",  # no nest
    ],
)
def test_others_stay(text: str) -> None:
    assert owned(text).moves == ()
