"""`KernelEnv`: the game as an environment of Gymnasium."""

from __future__ import annotations

import copy
import math
import operator
from collections.abc import Mapping, Sequence
from os import PathLike
from typing import Annotated, Any, Literal, SupportsFloat, SupportsInt

import dojoir
from dojoir.game.actions import SOON, WAYS, Actions, actions_of, listing
from dojoir.game.choices import GameChoice, made
from dojoir.game.encoders import Encoder, encoder
from dojoir.game.environment_arguments import kernel_of, moves_of, sizes_of, starts_of, suite_of
from dojoir.game.episodes import (
    REWARDS,
    STOP,
    UNDO,
    WORST,
    Episode,
    EpisodeStep,
    Reward,
    Validation,
    reward_of,
    share_of,
    validated,
    value_of,
)
from dojoir.game.scoring import Evaluates, Scorer, Timer
from dojoir.game.suite import Suite, shown, wrong
from dojoir.search.budget import Ledger
from dojoir.search.needs import needed
from dojoir.support.public import Amount, Count, Natural, Within, public, public_with
from dojoir.support.seconds import format_seconds

needed("gymnasium", "agents", "the environment")

import gymnasium  # noqa: E402
import numpy as np  # noqa: E402

from dojoir.game.observing import Observer  # noqa: E402

FORTY = dojoir.Budget(moves=40)

MEASURED = 0.35
"""By how much a reward of measured times may differ from that of times taken anew, as a logarithm."""


class KernelEnv(gymnasium.Env[Any, SupportsInt]):
    """Schedules a kernel by legal moves; registered as `dojoir/Kernel-v0`.

    Action 0 stops; with `undo`, action 1 takes the last one back; then come those of the state in stable order, as
    many as fit in `capacity` (`info["left_out"]` counts the others). `actions` says which these are: `legal`, every
    legal move; `drawn`, as many legal ones as fit, drawn by the seed; `candidates`, every move that the shape of
    the tree allows, proved when it is made; `choices`, structures and passes, each made as its moves and under the
    same number in every state. `action_masks()` and `info["action_mask"]` say which actions there are, and
    `info["action_chance"]` how likely each can be made: 1 where that was asked; candidates and choices have
    the share of their family. One that is refused changes nothing, costs no step, and is in the mask of
    this state no more. One that was not in the mask costs a step. `info["verdict"]` says why.

    `kernel` is a Kernel, its text, a path or `library:NAME`; `suite` several with their sizes, one of which an
    episode takes by its seed. `sizes` are the runtime sizes, chosen where they are not given. `observation` is
    one of `text`, `features`, `embedding`, `moves`, or several, which gives a dict; `encoder` makes the
    embedding. `reward` is one of REWARDS. Both can be set later; an observation is then of another space.
    `timer` is `measure`, or `static`: an estimate from the text alone, always the same. `budget` is that of an
    episode, after which it is truncated: `moves` counts steps, `states` what was evaluated, of which memory and
    `db` know what need not be `builds` and `measurements`. `start` are traces, one of which an episode begins
    with. `evaluator` is one of the caller's, or a `Scorer` that several environments share.

    A copy by pickle has the same state and memory, and processes of its own when it first times something.

    Raises ArgumentError for arguments that do not fit, ToolchainError without gymnasium."""

    metadata = {"render_modes": ["ansi"], "render_fps": 4}  # noqa: RUF012

    @public_with(kernel="bad-arguments")
    def __init__(
        self,
        kernel: dojoir.Kernel | str | PathLike[str] | None = None,
        *,
        suite: Suite | None = None,
        target: str = "llvm",
        sizes: Mapping[str, int] | None = None,
        actions: Literal["legal", "drawn", "candidates", "choices"] = "legal",
        observation: str | Sequence[str] = "features",
        reward: Reward = "each",
        timer: Timer = "measure",
        budget: dojoir.Budget = FORTY,
        capacity: Annotated[int, Within(3)] | None = None,
        undo: bool | np.bool_ = False,
        start: dojoir.Trace | Sequence[dojoir.Trace] | None = None,
        db: Any = None,
        evaluator: Evaluates | Scorer | None = None,
        encoder: Encoder | str = "hash",
        threads: Count = 1,
        render_mode: Literal["ansi"] | None = None,
    ) -> None:
        dojoir.machine_for(target)
        self.reward, self.way, self.target, self.threads = reward, actions, target, threads
        self.lists = listing(self.way, self.target, self.threads)
        self.capacity = WAYS[self.way] if capacity is None else capacity
        self.suite = suite_of(kernel, sizes, suite)
        self.starts = starts_of(start, self.suite)
        self.budget, self.undo, self.render_mode = budget, bool(undo), render_mode
        self.owns_scorer = not isinstance(evaluator, Scorer)
        self.scorer = (
            evaluator
            if isinstance(evaluator, Scorer)
            else Scorer(self.target, timer=timer, threads=self.threads, db=db, given=evaluator)
        )
        if self.scorer.target != self.target:
            raise wrong(f"the evaluator is for {self.scorer.target}, and the environment for {self.target}")
        self.encoder = _encoder(encoder)
        self.observation = observation
        self.action_space = gymnasium.spaces.Discrete(self.capacity)
        self.trace: dojoir.Trace | None = None
        self.over = True

    @property
    def reward(self) -> Reward:
        """The way of rewards, one of REWARDS. Another counts from the next step on."""
        return self._reward

    @reward.setter
    @public
    def reward(self, way: Reward) -> None:
        self._reward = way

    @property
    def observation(self) -> str | tuple[str, ...]:
        """The way of observations. Another changes `observation_space`; wrappers may still have the old one."""
        return self.observer.ways[0] if self.observer.one else self.observer.ways

    @observation.setter
    @public
    def observation(self, given: str | Sequence[str]) -> None:
        ways = given if isinstance(given, str) else tuple(given)
        self.observer = Observer(ways, self.capacity, self.encoder, self.target)
        self.observation_space = self.observer.space

    # -- an episode --------------------------------------------------------------------------------------------
    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[Any, dict[str, Any]]:
        """Begins an episode. `options` may name the `kernel`, its `sizes`, and `moves` to make first; the start
        that rewards are counted from is the state after them. Raises ArgumentError for other options, IllegalMove
        for a move that is not legal, RunError, `no-start`, where the start cannot be timed; then there is no
        episode."""
        self.over = True
        number, given = _of_reset(seed, options or {})
        super().reset(seed=number)
        unknown = set(given) - {"kernel", "sizes", "moves"}
        if unknown:
            raise wrong(f"the options of reset are kernel, sizes and moves, not {', '.join(map(str, unknown))}")
        kernel, self.sizes = self._chosen(given)
        starts = [trace for trace in self.starts if trace.start == kernel]
        if starts:
            self.trace = starts[int(self.np_random.integers(len(starts)))].copy()
        else:
            self.trace = dojoir.Trace(kernel)
        for move in moves_of(given.get("moves", ())):
            self.trace.apply(move)
        self.lengths = [len(self.trace.moves)]  # before each action that can be taken back, and now
        self.begun = self.trace.copy()
        self.made: list[EpisodeStep] = []
        self.seed_of_actions = int(self.np_random.integers(2**31))
        self.ledger = Ledger(self.budget)
        self.evaluation = self.scorer.score(self.trace, self.sizes)
        if not self.evaluation.seconds:
            raise dojoir.RunError(f"the start cannot be timed: {self.evaluation.reason}", "no-start")
        self.first, self.bound = self.evaluation.seconds, 0.0
        self.value = self.best = 0.0
        self.over = False
        self._look()
        return self._observation(), self._info()

    def _chosen(self, given: Mapping[str, Any]) -> tuple[dojoir.Kernel, dict[str, int]]:
        if "kernel" in given:
            kernel = kernel_of(given["kernel"])
            same = [dict(sizes) for one, sizes in self.suite if one == kernel]
            return kernel, sizes_of(kernel, given.get("sizes", same[0] if same else None))
        kernel, its = self.suite.entries[int(self.np_random.integers(len(self.suite)))]
        return kernel, sizes_of(kernel, given["sizes"]) if "sizes" in given else dict(its)

    def step(self, action: SupportsInt) -> tuple[Any, SupportsFloat, bool, bool, dict[str, Any]]:
        """Makes an action: the observation, the reward, whether it was to stop, whether a budget is spent, and what
        else there is to say. Raises ArgumentError, `no-episode`, before the first reset and after the end, and for
        what is no whole number."""
        if self.trace is None or self.over:
            raise _no_episode()
        number = _action(action)
        offered = bool(self._mask()[number]) if 0 <= number < self.capacity else False
        name, count = self.meaning(number), len(self.trace.moves)
        told: dict[str, Any] = {}
        reward = 0.0
        refusal = "" if number == 0 else self._act(number)
        self.ledger.moves += not (refusal and offered)
        if number == 0:
            reward = self.value if self.reward in ("state", "last") else 0.0
        elif refusal:
            told["verdict"] = refusal
            self.refused |= {number} if 0 <= number < self.capacity else set()
            reward = self.value if self.reward == "state" else 0.0
        else:
            self._evaluate()
            before, self.value = self.value, value_of(self.evaluation, self.first)
            reward = reward_of(self.reward, before, self.value, self.best, share_of(self._bound(), self.first))
            self.best = max(self.best, self.value)
            self._look()
        texts = tuple(str(move) for move in self.trace.moves[count:])
        self.made.append(
            EpisodeStep(name, texts, self.trace.kernel.hash, self.evaluation.seconds, reward, self.reward, refusal)
        )
        spent = self.ledger.spent()
        self.over = number == 0 or spent is not None
        if spent is not None:
            told["stopped"] = f"the budget is spent: {spent}"
        return self._observation(), reward, number == 0, spent is not None and number != 0, {**self._info(), **told}

    def _act(self, number: int) -> str:
        """Makes an action that is not to stop; else says why it cannot be made, and nothing is changed."""
        assert self.trace is not None
        if number == 1 and self.undo:
            if len(self.lengths) < 2:
                return "there is no action to undo"
            self.lengths.pop()
            while len(self.trace.moves) > self.lengths[-1]:
                self.trace.undo()
            return ""
        move = self.actions.move(number)
        if not 0 <= number < self.capacity:
            return f"there is no action {number}: they are 0 to {self.capacity - 1}"
        if move is None:
            return f"action {number} is no move here: there are {len(self.actions.moves)}"
        if number in self.actions.absent:
            return self.actions.absent[number]
        if isinstance(move, GameChoice):
            longer = made(self.trace, move, self.target)
            if isinstance(longer, str):
                return longer
            self.trace = longer
        else:
            if self.way == "candidates":
                verdict = dojoir.check(self.trace.kernel, move, SOON)
                if not verdict:
                    return f"{move}: {verdict.reason}"
            self.trace.apply(move)
        self.lengths.append(len(self.trace.moves))
        return ""

    def _bound(self) -> float:
        """The seconds of the bound, asked once in an episode where the reward is counted from it."""
        if self.reward == "sol" and not self.bound:
            assert self.trace is not None
            self.bound = self.scorer.least(self.trace.start, self.sizes)
        return self.bound

    def _evaluate(self) -> None:
        """Asks for the time of the state, and counts it."""
        assert self.trace is not None
        is_new = self.scorer.known(self.trace, self.sizes) is None
        self.evaluation = self.scorer.score(self.trace, self.sizes)
        self.ledger.states += 1
        if is_new:
            self.ledger.builds += 1
            self.ledger.measurements += self.evaluation.seconds is not None

    def _look(self) -> None:
        """Finds the actions of the state."""
        assert self.trace is not None
        self.actions: Actions = actions_of(
            self.lists, self.trace, self.capacity, self.seed_of_actions, undo=self.undo,
            can_undo=len(self.lengths) > 1,
        )  # fmt: skip
        self.refused: set[int] = {*self.actions.absent}

    # -- what is seen ------------------------------------------------------------------------------------------
    def _observation(self) -> Any:
        assert self.trace is not None
        return self.observer.observe(self.trace.kernel, self.sizes, self.actions)

    def _mask(self) -> np.ndarray[tuple[int], np.dtype[np.int8]]:
        return self.actions.mask(self.capacity, self.refused)

    def _info(self) -> dict[str, Any]:
        assert self.trace is not None
        mask = self._mask()
        return {
            "action_mask": mask,
            "action_chance": self.actions.chances(mask),
            "left_out": self.actions.left_out,
            "hash": self.trace.kernel.hash,
            "moves": len(self.trace.moves),
            "seconds": float(self.evaluation.seconds or math.inf),
            "status": self.evaluation.status,
            "value": self.value,
        }

    def action_masks(self) -> np.ndarray[tuple[int], np.dtype[np.bool_]]:
        """Which actions there are, as sb3-contrib asks for it. Raises ArgumentError, `no-episode`, before the first
        reset."""
        if self.trace is None:
            raise _no_episode()
        return self._mask().astype(np.bool_)

    def meaning(self, action: SupportsInt) -> str:
        """An action in words: `stop`, `undo`, the text of its move, or `none`. Raises ArgumentError, `no-episode`,
        before the first reset, and for what is no whole number."""
        if self.trace is None:
            raise _no_episode()
        move = self.actions.move(_action(action))
        if move is not None:
            return str(move)
        return {0: STOP, 1: UNDO if self.undo else "none"}.get(int(action), "none")

    def render(self) -> str:
        """The kernel as text, and what is known of it. Raises ArgumentError, `no-episode`, before the first
        reset."""
        if self.trace is None:
            raise _no_episode()
        last = f", last {self.trace.moves[-1]}" if self.trace.moves else ""
        seconds = format_seconds(self.evaluation.seconds) if self.evaluation.seconds else "-"
        speed = f"{math.exp(self.value):.3g} times as fast as the start"
        head = f"# {len(self.trace.moves)} moves{last}: {seconds}, {self.evaluation.status}, {speed}\n"
        return head + str(self.trace.kernel)

    # -- others of it -------------------------------------------------------------------------------------------
    @property
    def episode(self) -> Episode:
        """The episode so far, as data. Raises ArgumentError, `no-episode`, before the first reset."""
        if self.trace is None:
            raise _no_episode()
        moves = tuple(str(move) for move in self.begun.moves)
        text = dojoir.to_text(self.begun.start)
        return Episode(
            text, dict(self.sizes), self.target, self.scorer.timer, moves, self.first, tuple(self.made), self.bound
        )  # fmt: skip

    @public
    def validate(self, episode: Episode | Mapping[str, Any], tolerance: Amount | None = None) -> Validation:
        """Replays an episode, of this environment or as data: each move is made again through the checker, and
        hashes and rewards are compared. What this environment has timed is not timed again; rewards may differ
        by `tolerance`, by default nothing with the static timer, else MEASURED. The episode that is played
        stays as it is. Raises ArgumentError for one of another target or timer, and for what is none."""
        one = Episode.from_json(episode.to_json() if isinstance(episode, Episode) else episode)
        if (one.target, one.timer) != (self.target, self.scorer.timer):
            raise wrong(f"the episode is of target {one.target} and timer {one.timer}, and this environment is not")
        usual = 0.0 if one.timer == "static" else MEASURED
        return validated(one, self.scorer.score, usual if tolerance is None else tolerance)

    def fork(self) -> KernelEnv:
        """Another environment in the same state, which goes its own way; the two share evaluator and memory. The
        clock of a budget in seconds goes on for both."""
        other = object.__new__(type(self))
        vars(other).update(vars(self))
        other.owns_scorer = False
        other.trace = None if self.trace is None else self.trace.copy()
        if self.trace is not None:
            other.ledger = copy.copy(self.ledger)
            other.made, other.lengths, other.refused = [*self.made], [*self.lengths], {*self.refused}
        other._np_random = copy.deepcopy(self._np_random)
        other.action_space = copy.deepcopy(self.action_space)
        return other

    def __setstate__(self, state: dict[str, Any]) -> None:
        """A copy by pickle ends its own processes."""
        vars(self).update(state)
        self.owns_scorer = True

    def close(self) -> None:
        """Ends the processes of the evaluator, unless it is shared."""
        if self.owns_scorer:
            self.scorer.close()


def _no_episode() -> dojoir.ArgumentError:
    return dojoir.ArgumentError("there is no episode: call reset first", "no-episode")


def _action(given: Any) -> int:
    """An action as a number: a whole number, also one of NumPy or an array of one."""
    try:
        return operator.index(given)
    except TypeError:
        raise wrong(f"an action is a whole number, not {shown(given)}") from None


@public
def _of_reset(seed: Natural | None, options: Mapping[str, Any]) -> tuple[int | None, dict[str, Any]]:
    """The arguments of a reset."""
    return seed, dict(options)


def _encoder(given: Encoder | str) -> Encoder:
    if isinstance(given, str):
        return encoder(given)
    if not (callable(getattr(given, "encode", None)) and hasattr(given, "size")):
        raise wrong(f"encoder is 'hash', 'lm:PATH' or has encode and size, not {shown(given)}")
    return given


__all__ = ["REWARDS", "WORST", "KernelEnv", "gymnasium"]
