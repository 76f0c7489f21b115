"""`KernelEnv`: the game as an environment of Gymnasium."""

from __future__ import annotations

import copy
import math
from collections.abc import Mapping, Sequence
from typing import Any, SupportsFloat, SupportsInt

import dojoir
from dojoir.game.actions import Actions, Legal
from dojoir.game.encoders import Encoder, encoder
from dojoir.game.scoring import Evaluates, Scorer
from dojoir.game.suite import Suite, chosen_sizes
from dojoir.search.budget import Ledger
from dojoir.search.needs import needed

needed("gymnasium", "agents", "the environment")

import gymnasium  # noqa: E402
import numpy as np  # noqa: E402

from dojoir.game.observing import Observer  # noqa: E402

REWARDS = ("each", "state", "last", "max")
"""each: what this step gained. state: how much faster this state is than the start. last: the same, only at stop.
max: what the best so far gained. All are logarithms of ratios of times."""

WORST = -10.0
"""The logarithm that stands for a state that cannot be run: as slow as 22,000 times the start."""

FORTY = dojoir.Budget(moves=40)


class KernelEnv(gymnasium.Env[Any, SupportsInt]):
    """Schedules a kernel by legal moves; registered as `dojoir/Kernel-v0`.

    Action 0 stops; with `undo`, action 1 takes the last move back; then come the legal moves, in stable order, as
    many as fit in `capacity` (`info["left_out"]` counts the others). `action_masks()` and `info["action_mask"]`
    say which actions there are. One that is none changes nothing, costs a step, and `info["verdict"]` says why.

    `kernel` is one or its name in the library; `suite` several with their sizes, one of which an episode takes by
    its seed. `sizes` are the runtime sizes, chosen where they are not given. `observation` is one of `text`,
    `features`, `embedding`, `moves`, or several, which gives a dict; `encoder` makes the embedding. `reward` is
    one of REWARDS. `timer` is `measure`, or `static`: an estimate from the text alone, always the same. `budget`
    is that of an episode, after which it is truncated: `moves` counts steps, `states` what was evaluated, of
    which memory and `db` know what need not be `builds` and `measurements`. `start` are traces, one of which an
    episode begins with. `evaluator` is one of the caller's, or a `Scorer` that several environments share.

    Raises ArgumentError for arguments that do not fit, ToolchainError without gymnasium."""

    metadata = {"render_modes": ["ansi"], "render_fps": 4}  # noqa: RUF012

    def __init__(
        self,
        kernel: dojoir.Kernel | str | None = None,
        *,
        suite: Suite | None = None,
        target: str = "llvm",
        sizes: Mapping[str, int] | None = None,
        observation: str | Sequence[str] = "features",
        reward: str = "each",
        timer: str = "measure",
        budget: dojoir.Budget = FORTY,
        capacity: int = 512,
        undo: bool = False,
        start: dojoir.Trace | Sequence[dojoir.Trace] | None = None,
        db: Any = None,
        evaluator: Evaluates | Scorer | None = None,
        encoder: Encoder | str = "hash",
        threads: int = 1,
        render_mode: str | None = None,
    ) -> None:
        if reward not in REWARDS:
            raise dojoir.ArgumentError(f"a reward is one of {', '.join(REWARDS)}, not {reward!r}", "bad-arguments")
        if (kernel is None) == (suite is None):
            raise dojoir.ArgumentError(
                "an environment plays a kernel or a suite: give one of them", "bad-arguments"
            )
        if capacity < 3:
            raise dojoir.ArgumentError(f"there are at least 3 actions, not {capacity}", "bad-arguments")
        if render_mode not in (None, "ansi"):
            raise dojoir.ArgumentError(f"render_mode is 'ansi' or None, not {render_mode!r}", "bad-arguments")
        if suite is None:
            assert kernel is not None
            one = _kernel(kernel)
            suite = Suite(((one, dict(sizes) if sizes is not None else chosen_sizes(one)),))
        self.suite, self.target, self.reward, self.budget, self.undo = suite, target, reward, budget, undo
        self.capacity, self.render_mode = capacity, render_mode
        self.starts = [start] if isinstance(start, dojoir.Trace) else [*(start or ())]
        self.owns_scorer = not isinstance(evaluator, Scorer)
        self.scorer = (
            evaluator
            if isinstance(evaluator, Scorer)
            else Scorer(target, timer=timer, threads=threads, db=db, given=evaluator)
        )
        self.legal = Legal(target)
        ways = observation if isinstance(observation, str) else tuple(observation)
        self.observer = Observer(ways, capacity, _encoder(encoder), target)
        self.observation_space = self.observer.space
        self.action_space = gymnasium.spaces.Discrete(capacity)
        self.trace: dojoir.Trace | None = None

    # -- an episode --------------------------------------------------------------------------------------------
    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[Any, dict[str, Any]]:
        """Begins an episode. `options` may name the `kernel`, its `sizes`, and `moves` to make first; the start
        that rewards are counted from is the state after them. Raises ArgumentError for other options, IllegalMove
        for a move that is not legal."""
        super().reset(seed=seed)
        given = dict(options or {})
        unknown = set(given) - {"kernel", "sizes", "moves"}
        if unknown:
            raise dojoir.ArgumentError(
                f"the options of reset are kernel, sizes and moves, not {', '.join(sorted(map(str, unknown)))}",
                "bad-arguments",
            )
        kernel, self.sizes = self._chosen(given)
        starts = [trace for trace in self.starts if trace.start == kernel]
        if starts:
            self.trace = starts[int(self.np_random.integers(len(starts)))].copy()
        else:
            self.trace = dojoir.Trace(kernel)
        for move in given.get("moves", ()):
            self.trace.apply(move)
        self.fixed = len(self.trace.moves)
        self.seed_of_actions = int(self.np_random.integers(2**31))
        self.ledger = Ledger(self.budget)
        self.evaluation = self.scorer.score(self.trace, self.sizes)
        if not self.evaluation.seconds:
            raise dojoir.RunError(f"the start cannot be timed: {self.evaluation.reason}", "no-start")
        self.first = self.evaluation.seconds
        self.value = self.best = 0.0
        self.over = False
        self._look()
        return self._observation(), self._info()

    def _chosen(self, given: Mapping[str, Any]) -> tuple[dojoir.Kernel, dict[str, int]]:
        if "kernel" in given:
            kernel = _kernel(given["kernel"])
            same = [dict(sizes) for one, sizes in self.suite if one == kernel]
            sizes = dict(given["sizes"]) if "sizes" in given else same[0] if same else chosen_sizes(kernel)
            return kernel, sizes
        one, sizes_of_one = self.suite.entries[int(self.np_random.integers(len(self.suite)))]
        return one, dict(given.get("sizes", sizes_of_one))

    def step(self, action: SupportsInt) -> tuple[Any, SupportsFloat, bool, bool, dict[str, Any]]:
        """Makes an action: the observation, the reward, whether it was to stop, whether a budget is spent, and what
        else there is to say. Raises ArgumentError, `no-episode`, before the first reset and after the end."""
        trace = self.trace
        if trace is None or self.over:
            raise dojoir.ArgumentError("there is no episode: call reset first", "no-episode")
        number = int(action)
        move = self.actions.move(number)
        self.ledger.moves += 1
        told: dict[str, Any] = {}
        reward, stop = 0.0, False
        if number == 0:
            stop = True
            reward = self.value if self.reward in ("state", "last") else 0.0
        elif move is not None or (number == 1 and self.undo and len(trace.moves) > self.fixed):
            if move is not None:
                trace.apply(move)
            else:
                trace.undo()
            self._evaluate()
            before, self.value = self.value, self._value()
            best = max(self.best, self.value)
            reward = {"each": self.value - before, "state": self.value, "last": 0.0, "max": best - self.best}[
                self.reward
            ]
            self.best = best
            self._look()
        else:
            reward = self.value if self.reward == "state" else 0.0
            told["verdict"] = self._refusal(number)
        spent = self.ledger.spent()
        self.over = stop or spent is not None
        if spent is not None:
            told["stopped"] = f"the budget is spent: {spent}"
        return self._observation(), reward, stop, spent is not None and not stop, {**self._info(), **told}

    def _evaluate(self) -> None:
        """Asks for the time of the state, and counts it."""
        assert self.trace is not None
        is_new = self.scorer.known(self.trace, self.sizes) is None
        self.evaluation = self.scorer.score(self.trace, self.sizes)
        self.ledger.states += 1
        if is_new:
            self.ledger.builds += 1
            self.ledger.measurements += self.evaluation.seconds is not None

    def _value(self) -> float:
        """The logarithm of how many times as fast as the start the state is."""
        if self.evaluation.status not in ("ok", "cut") or not self.evaluation.seconds:
            return WORST
        return max(WORST, math.log(self.first / self.evaluation.seconds))

    def _look(self) -> None:
        """Finds the actions of the state."""
        assert self.trace is not None
        can_undo = len(self.trace.moves) > self.fixed
        self.actions: Actions = self.legal.actions(
            self.trace.kernel, self.capacity, self.seed_of_actions, self.undo, can_undo
        )

    def _refusal(self, number: int) -> str:
        if not 0 <= number < self.capacity:
            return f"there is no action {number}: they are 0 to {self.capacity - 1}"
        if number == 1 and self.undo:
            return "there is no move to undo"
        return f"action {number} is no move here: there are {len(self.actions.moves)}"

    # -- what is seen ------------------------------------------------------------------------------------------
    def _observation(self) -> Any:
        assert self.trace is not None
        return self.observer.observe(self.trace.kernel, self.sizes, self.actions)

    def _info(self) -> dict[str, Any]:
        assert self.trace is not None
        return {
            "action_mask": self.actions.mask(self.capacity),
            "left_out": self.actions.left_out,
            "hash": self.trace.kernel.hash,
            "moves": len(self.trace.moves),
            "seconds": float(self.evaluation.seconds or math.inf),
            "status": self.evaluation.status,
            "value": self.value,
        }

    def action_masks(self) -> np.ndarray[tuple[int], np.dtype[np.bool_]]:
        """Which actions there are, as sb3-contrib asks for it."""
        return self.actions.mask(self.capacity).astype(np.bool_)

    def meaning(self, action: SupportsInt) -> str:
        """An action in words: `stop`, `undo`, the text of its move, or `none`."""
        move = self.actions.move(int(action))
        if move is not None:
            return str(move)
        return {0: "stop", 1: "undo" if self.undo else "none"}.get(int(action), "none")

    def render(self) -> str:
        """The kernel as text, and what is known of it."""
        if self.trace is None:
            raise dojoir.ArgumentError("there is no episode: call reset first", "no-episode")
        last = f", last {self.trace.moves[-1]}" if self.trace.moves else ""
        seconds = dojoir.format_seconds(self.evaluation.seconds) if self.evaluation.seconds else "-"
        speed = f"{math.exp(self.value):.3g} times as fast as the start"
        head = f"# {len(self.trace.moves)} moves{last}: {seconds}, {self.evaluation.status}, {speed}\n"
        return head + dojoir.to_text(self.trace.kernel)

    # -- others of it -------------------------------------------------------------------------------------------
    def fork(self) -> KernelEnv:
        """Another environment in the same state, which goes its own way; the two share evaluator and memory. The
        clock of a budget in seconds goes on for both."""
        other = copy.copy(self)
        other.owns_scorer = False
        other.trace = None if self.trace is None else self.trace.copy()
        if self.trace is not None:
            other.ledger = copy.copy(self.ledger)
        other._np_random = copy.deepcopy(self._np_random)
        other.action_space = copy.deepcopy(self.action_space)
        return other

    def close(self) -> None:
        """Ends the processes of the evaluator, unless it is shared."""
        if self.owns_scorer:
            self.scorer.close()


def _kernel(given: dojoir.Kernel | str) -> dojoir.Kernel:
    if isinstance(given, str):
        return dojoir.kernels.load(given)
    dojoir.prove(given)
    return given


def _encoder(given: Encoder | str) -> Encoder:
    return encoder(given) if isinstance(given, str) else given


__all__ = ["REWARDS", "WORST", "KernelEnv", "gymnasium"]
