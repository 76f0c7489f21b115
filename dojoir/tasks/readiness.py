"""The uses that a task is ready for, by rules that are listed: each is computed from the task, none is typed in."""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping

import dojoir
from dojoir.tasks.task import TIMED, Task

Rule = Callable[[Task], bool]


def _has_sizes(task: Task) -> bool:
    return all(name in task.given.sizes for name in task.kernel.runtime_sizes)


def _has_choices(task: Task) -> bool:
    """Whether at least two moves are legal at its start, so that there is something to decide."""
    drawn = dojoir.search.draw(task.trace.kernel, random.Random(0), 2, task.given.target)
    return len(drawn) == 2


def _is_estimated(task: Task) -> bool:
    if not _has_sizes(task):
        return False
    seconds = dojoir.search.estimate(task.kernel, task.given.sizes, task.given.target, task.given.threads)
    return seconds > 0


def _is_limited(task: Task) -> bool:
    return task.budget.states is not None or task.budget.seconds is not None


SIZED, LIMITED, OPEN = "every size is given", "states or seconds are limited", "two moves are legal at the start"

RULES: Mapping[str, Mapping[str, Rule]] = {
    "benchmark-ready": {
        SIZED: _has_sizes,
        LIMITED: _is_limited,
        "a measurement decides": lambda task: any(gate in TIMED or gate == "gain" for gate in task.goal.gates),
    },
    "rl-ready": {
        SIZED: _has_sizes,
        LIMITED: _is_limited,
        "the answer is a list of moves": lambda task: task.kind in ("optimise", "reformulate"),
        OPEN: _has_choices,
        "the static timer has seconds for it": _is_estimated,
    },
    "sft-ready": {
        SIZED: _has_sizes,
        "it may be trained on": lambda task: task.split == "train",
        OPEN: _has_choices,
    },
}
"""What each use asks of a task, in words, with what finds it out."""


def readiness(task: Task) -> dict[str, tuple[str, ...]]:
    """For each use the rules that a task breaks: it is ready where there are none. Raises DojoError for a task
    whose kernel cannot be read."""
    return {use: tuple(words for words, holds in rules.items() if not holds(task)) for use, rules in RULES.items()}
