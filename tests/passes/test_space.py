"""The spaces that moves are drawn from: every stored schedule can be reached, and one's own numbers are listed."""

from __future__ import annotations

from dataclasses import replace
from itertools import islice
from random import Random
from typing import cast

import pytest
from drawing import draw
from spaces import MACHINE, in_space

import dojoir
from dojoir.backends.machine import MACHINES, Machine
from dojoir.passes.base.move import anchors
from dojoir.passes.loops.splitting import Split
from dojoir.passes.storage.dims import SplitDim
from dojoir.schedules import Schedule, schedules

STORED = [
    (name, schedule)
    for name in dojoir.kernels.names()
    for schedule in schedules(name)
    if not schedule.path.endswith(".gpu.moves")  # test_gpu_space.py
]


def begun(name: str, schedule: Schedule) -> dojoir.Trace:
    kernel = dojoir.kernels.load(name)
    return schedule.on(replace(kernel, fp=schedule.fp) if schedule.fp else kernel)


@pytest.mark.parametrize(("name", "schedule"), STORED, ids=lambda value: getattr(value, "path", value))
def test_every_move_of_a_stored_schedule_is_in_the_space_of_its_state(name: str, schedule: Schedule) -> None:
    trace = begun(name, schedule)
    kernel = trace.start
    for step in trace.steps:
        assert in_space(step.move, kernel), f"{step.move}\n{kernel}"
        kernel = step.kernel


@pytest.mark.parametrize("name", ["softmax", "matmul", "conv2d", "jacobi2d", "attention"])
def test_what_is_listed_is_in_the_space_of_its_place(name: str) -> None:
    kernel = dojoir.kernels.load(name)
    for kind in dojoir.MOVES:
        listed = list(kind.candidates(kernel))
        found = [move for place in anchors(kernel) for move in kind.space(kernel, place, MACHINE)]
        assert set(listed) <= set(found)
        assert len(set(found)) == len(found), f"{kind.name} comes twice"


def test_a_space_is_made_of_moves_that_can_be_written_and_asked() -> None:
    """None of them is an error of ours, whatever the tree says to it."""
    random = Random(14)
    kernels = [dojoir.kernels.load(name) for name in ("softmax", "matmul", "jacobi2d")]
    kernels += [draw(setting, random, small=True) for setting in ("runnable", "tangled") for _ in range(3)]
    asked = 0
    for kernel in kernels:
        for kind in dojoir.MOVES:
            for place in random.sample([*anchors(kernel)], 2):
                space = list(islice(kind.space(kernel, place, MACHINES["avx2"]), 3000))
                for move in random.sample(space, min(2, len(space))):
                    assert dojoir.parse_move(str(move)) == move
                    assert dojoir.check(kernel, move, 50_000).status in {"legal", "illegal", "unknown"}
                    asked += 1
    assert asked > 100


def test_parameters_come_from_the_extents_and_the_machine() -> None:
    kernel = dojoir.parse(
        "kernel f(N)\nin x: f32[N, 42]\nout y: f32[N, 42]\nN\n| 42\n| | y[{0}, {1}] = x[{0}, {1}]\n"
    )

    def factors(place: str, machine: Machine) -> set[int]:
        return {move.factor for move in Split.space(kernel, place, machine) if isinstance(move, Split)}

    small, large = MACHINES["avx2"], MACHINES["avx512"]
    assert {2, 3, 6, 7, 14, 21} <= factors("0.0", small)
    assert max(factors("0.0", large)) < 42
    assert {6, 48, 64, 1 << 15, 1 << 20} <= factors("0", large)
    assert 31 in factors("0", large) - factors("0", small), "a count of registers"
    assert 40 in factors("0", small) - factors("0", large), "five vectors of 32 bytes"
    assert "split_dim(t, 0, 6)" not in map(str, SplitDim.space(kernel, "x", large)), "an argument"
    with pytest.raises(dojoir.ArgumentError, match="no place 7"):
        list(Split.space(kernel, "7", large))


def test_values_of_ones_own() -> None:
    kernel = dojoir.kernels.load("transpose")
    listed, more = dojoir.moves(kernel), dojoir.moves(kernel, values=(6, 48))
    added = {str(move) for move in more} - {str(move) for move in listed}
    assert set(listed) < set(more)
    assert {"split(0, 6)", "split(0.0, 48)", "tile(0, 0.0, 6, 48)", "tile(0, 0.0, 48, 6)"} <= added
    assert {"cut(0, 6)", "cut(0, 48*(N // 48))", "prefetch(0.0, x, 48)"} <= added
    assert all("6" in text or "48" in text for text in added)
    assert dojoir.moves(kernel, values=[48, 6, 6]) == more
    for wrong in (("6",), (6.0,), (True,)):
        with pytest.raises(dojoir.ArgumentError, match="integers"):
            dojoir.candidates(kernel, values=cast(tuple[int, ...], wrong))


@pytest.mark.parametrize("value", [-1, 0, 1, 1 << 70])
def test_no_value_is_an_error(value: int) -> None:
    for name in ("softmax", "matmul"):
        for move in dojoir.candidates(dojoir.kernels.load(name), values=(value,)):
            dojoir.check(dojoir.kernels.load(name), move, 50_000)
