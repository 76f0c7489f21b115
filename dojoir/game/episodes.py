"""An episode as data: what was done in each state and what came of it, to keep and to replay."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Annotated, Any, Literal, get_args

import dojoir
from dojoir import runtime
from dojoir.game.suite import wrong
from dojoir.records.plain_data import from_data, to_data
from dojoir.support.public import Count, Within

WORST = -10.0
"""The logarithm that stands for a state that cannot be run: as slow as 22,000 times the start."""

Reward = Literal["each", "state", "last", "max", "sol"]
REWARDS: tuple[str, ...] = get_args(Reward)
Time = Annotated[float, Within(above=True)]
"""each: what this step gained. state: how much faster this state is than the start. last: the same, only at stop.
max: what the best so far gained. All these are logarithms of ratios of times. sol: how much of what was left to the
bound of the machine at the start this step closed. A whole episode that reaches the bound comes to 1."""

STOP, UNDO = "stop", "undo"


def value_of(evaluation: runtime.Evaluation, first: float) -> float:
    """The logarithm of how many times as fast as a start of `first` seconds a state is."""
    if evaluation.status not in ("ok", "cut") or not evaluation.seconds:
        return WORST
    return max(WORST, math.log(first / evaluation.seconds))


NEAREST = 0.99
"""The share of its bound that a start is taken to reach at most: something is always left."""


def reward_of(way: str, before: float, value: float, best: float, share: float = 0.0) -> float:
    """The reward, in one of REWARDS, of a step from a state of value `before` to one of `value`, where the best so
    far was `best`, and the start at this `share` of its bound."""
    reached, left = (min(1.0, share * math.exp(value)) - min(1.0, share * math.exp(before))), 1 - share
    return {
        "each": value - before, "state": value, "last": 0.0, "max": max(best, value) - best, "sol": reached / left,
    }[way]  # fmt: skip


def share_of(bound: float, first: float) -> float:
    """The share of its bound, in seconds, that a start of `first` seconds reaches; 0 where no bound is known."""
    return min(NEAREST, bound / first)


@dataclass(frozen=True)
class EpisodeStep:
    """A step: the `action` in words, the moves and the moves that it made as texts (none where it stopped, took
    back or was refused). Then the `hash` of the state after it, the `seconds` of that (None where it was not
    timed), the reward, its way (one of REWARDS), and why it was refused, if it was."""

    action: str
    moves: tuple[str, ...]
    hash: str
    seconds: Time | None
    reward: float
    way: Reward
    verdict: str = ""


@dataclass(frozen=True)
class Episode:
    """An episode: the text of the kernel, the sizes, the moves before the first step, the seconds of the state
    after these, the steps, and the seconds of the bound of the machine (0 where it was not asked)."""

    kernel: str
    sizes: Mapping[str, Count]
    target: str
    timer: str
    start: tuple[str, ...]
    seconds: Time
    steps: tuple[EpisodeStep, ...]
    bound: Annotated[float, Within()] = 0.0

    def to_json(self) -> dict[str, Any]:
        """As plain data; `from_json` makes an equal one of it, also after it was a text."""
        found: dict[str, Any] = to_data(self)
        return found

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Episode:
        """Raises ArgumentError, `bad-arguments`, for what is no episode, with the field that is wrong."""
        try:
            return from_data(cls, data, "episode")
        except dojoir.ArgumentError as error:
            raise wrong(f"this is no episode: {error.diagnostic.message}") from None


@dataclass(frozen=True)
class Validation:
    """Whether a replay agreed in every step; `wrong` says where it did not."""

    steps: int
    wrong: tuple[str, ...] = ()

    def __bool__(self) -> bool:
        return not self.wrong

    def __str__(self) -> str:
        return "\n".join(self.wrong) if self.wrong else f"{self.steps} steps agree"


Score = Callable[[dojoir.Trace, Mapping[str, int]], runtime.Evaluation]


def validated(episode: Episode, score: Score, tolerance: float) -> Validation:
    """Replays an episode: each move through the checker, each state timed by `score`. Hashes must be equal, rewards
    within `tolerance`, for each measured time that is in them."""
    found: list[str] = []
    try:
        trace = dojoir.Trace(dojoir.parse(episode.kernel))
        for move in episode.start:
            trace.apply(move)
        first = score(trace, episode.sizes).seconds
    except dojoir.DojoError as error:
        return Validation(0, (f"the start cannot be replayed: {error.diagnostic.message}",))
    if not first:
        return Validation(0, ("the start could not be timed",))
    value = best = 0.0
    lengths: list[int] = []
    for number, step in enumerate(episode.steps, 1):
        where = f"step {number}, {step.action}"
        before = value
        try:
            if step.action == UNDO and not step.verdict:
                back = lengths.pop()
                while len(trace.moves) > back:
                    trace.undo()
            elif step.moves:
                lengths.append(len(trace.moves))
                for move in step.moves:
                    trace.apply(move)
        except (dojoir.DojoError, IndexError) as error:
            return Validation(number - 1, (*found, f"{where}: it cannot be replayed: {error}"))
        if trace.kernel.hash != step.hash:
            return Validation(number - 1, (*found, f"{where}: the state is {trace.kernel.hash}, not {step.hash}"))
        value = value_of(score(trace, episode.sizes), first)
        if step.action == STOP:
            reward = value if step.way in ("state", "last") else 0.0
        elif step.verdict:
            reward = value if step.way == "state" else 0.0
        else:
            reward = reward_of(step.way, before, value, best, share_of(episode.bound, first))
        if not abs(reward - step.reward) <= tolerance + 1e-9:
            found.append(f"{where}: the reward is {reward:.4f}, not {step.reward:.4f}")
        best = max(best, value)
    return Validation(len(episode.steps), tuple(found))
