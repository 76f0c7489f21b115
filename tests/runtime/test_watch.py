"""Which calls of a race are looked at."""

from __future__ import annotations

from random import Random
from typing import Any

import numpy as np
import pytest

from dojoir.runtime.evaluation.inspection import IN_A_ROW, Watch
from dojoir.runtime.evaluation.pool import KnownCase


class Calls:
    """A runner whose calls are counted; those that are looked at are noted."""

    looks = IN_A_ROW

    def __init__(self) -> None:
        self.count = 0
        self.looked: list[int] = []

    def call(self) -> None:
        self.count += 1

    def restore(self) -> None:
        pass

    def spoil(self, spots: Any) -> None:
        self.looked.append(self.count + 1)

    def look(self, spots: Any) -> list[np.ndarray]:
        return []


def race(seed: int, calls: int, raced: bool) -> Calls:
    """Eight rounds, in which the call that may be looked at is one of two if another kernel runs as well."""
    runner: Any = Calls()
    watch = Watch(Random(seed), KnownCase({}, {}), 1.0)
    watch.begin(runner, calls, raced)
    for _ in range(8):
        watch.between(runner)
        with watch.looking(runner):
            runner.call()
        if raced:
            runner.call()
    made: Calls = runner
    return made


@pytest.mark.parametrize("raced", [False, True])
def test_long_calls(raced: bool) -> None:
    runs = [race(seed, 1, raced) for seed in range(40)]
    more = {run.count - (16 if raced else 8) for run in runs}
    assert more == ({1} if raced else {0, 1})
    assert all(len(run.looked) == IN_A_ROW for run in runs)
    for each in range(2, IN_A_ROW // (2 if raced else 1)):  # what works on each second call, say, is seen to
        assert all({at % each for at in run.looked} == set(range(each)) for run in runs)


def test_short_calls() -> None:
    runs = [race(seed, 100, False) for seed in range(200)]
    assert {run.count - 8 - IN_A_ROW for run in runs} == set(range(IN_A_ROW))
    assert all(run.looked == [*range(run.looked[0], run.looked[0] + IN_A_ROW)] for run in runs)
