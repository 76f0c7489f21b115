"""Moves that are supposed to be legal: such a step is not safe until it is proved, and nothing of it is kept."""

from __future__ import annotations

import pytest

import dojoir
from dojoir.backends.host import machine_named
from dojoir.ir.nodes import Path
from dojoir.passes.engine.supposing import proved, supposing
from dojoir.passes.schedule.plan.planner import Planner
from dojoir.passes.schedule.plan.structures import STRUCTURES
from dojoir.support.memo import Tables

RUNNING = """kernel running(N = 64)
in  x: f32[N + 1]
out y: f32[N + 1]

y[0] = x[0]
N
| y[{0} + 1] = y[{0}] + x[{0} + 1]
"""


def test_what_is_supposed_is_unsafe_until_it_is_proved() -> None:
    trace = dojoir.Trace(dojoir.kernels.load("relu"))
    with supposing(trace.kernel, Tables(0)):
        trace.apply("split(0, 16)")
        trace.apply("bind(0, gx)")
    assert not trace.is_safe
    sure = proved(trace, 0)
    assert sure.is_safe
    assert sure.kernel == trace.kernel
    assert sure.moves == trace.moves
    assert sure.replay() == trace.kernel


def test_an_illegal_move_is_supposed_refused_and_forgotten() -> None:
    kernel = dojoir.parse(RUNNING)
    trace = dojoir.Trace(kernel)
    with supposing(kernel, Tables(0)):
        trace.apply("reverse_scope(1)")
    with pytest.raises(dojoir.IllegalMove):
        proved(trace, 0)
    assert not dojoir.check(kernel, "reverse_scope(1)")
    with pytest.raises(dojoir.IllegalMove):
        dojoir.Trace(kernel).apply("reverse_scope(1)")


def test_marks_are_asked_all_the_same() -> None:
    kernel = dojoir.parse(RUNNING)
    trace = dojoir.Trace(kernel)
    with supposing(kernel, Tables(0)), pytest.raises(dojoir.IllegalMove):
        trace.apply("parallelize(1)")
    assert trace.moves == ()


def test_a_plan_hides_refusals_of_what_is_supposed_and_nothing_else() -> None:
    """An error of a structure is one of dojoir's: to make the plan again with each move proved would hide it."""
    machine, trace = machine_named("cuda"), dojoir.Trace(dojoir.kernels.load("relu", N=4096))
    asked = []

    def wrong_at_first(trace: dojoir.Trace, path: Path, machine: dojoir.Machine) -> None:
        asked.append(path)
        if len(asked) == 1:
            raise ValueError("a bug")
        raise dojoir.ArgumentError("not of this form", "bad-arguments")

    structures = (wrong_at_first, *STRUCTURES)
    with pytest.raises(ValueError, match="a bug"):
        Planner(machine, {}, structures=structures).plans(trace)
    assert Planner(machine, {}, structures=structures).plans(trace)
