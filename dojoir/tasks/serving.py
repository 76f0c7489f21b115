"""The rollout's side of the pipe to an agent: what an agent asks for is done here, at its desk, and counted here.

What comes from an agent is JSON: nothing of it is run, and no figure in it is believed. What goes to it is pickled.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Protocol

import dojoir
from dojoir import runtime
from dojoir.evidence.bundle import CHAT
from dojoir.records.plain_data import from_data
from dojoir.search import STRATEGIES, Play
from dojoir.search.tuning import WHERE
from dojoir.tasks.desk import Desk
from dojoir.tasks.task import Answer, Task

LAST = 2.0
"""Seconds that an agent has after what it asked for in time was done."""

MOST_MOVES = 10_000
UNKNOWN = "candidate"
"""The verdict of a move that a strategy of an agent drew: it was not asked of the checker here."""


def is_named(strategy: str) -> bool:
    """Whether a strategy is one of ours, that is run here: a search by name, or one by a language model."""
    return strategy in STRATEGIES or strategy.startswith("llm:")


class Gone(BaseException):
    """The process of an agent has ended, or was too slow; the message says which. No search goes on then."""


class AgentPipe(Protocol):
    """The pipe to the process of an agent."""

    def send(self, value: object) -> None:
        """Raises Gone."""

    def heard(self, end: float) -> object:
        """The data of its next message, until `end` of the monotonic clock. Raises Gone."""


@dataclass(frozen=True)
class FirstMessage:
    """The first message about a task. `seed` is that of all that is random."""

    task: Task
    timer: str
    seed: int
    folder: str = ""


@dataclass(frozen=True)
class DeskState:
    """The state of the desk, sent with each reply: what was used up, how many states ended with each status, the
    part of the budget that is spent, and the moves of the fastest that was right."""

    used: Mapping[str, Any]
    statuses: Mapping[str, int]
    seconds: float
    spent: str | None
    best: tuple[str, ...]


@dataclass(frozen=True)
class DeskReply:
    """A reply to an agent: a value, or the error of ours that it met, by its class, message and code."""

    state: DeskState
    value: object = None
    raised: tuple[str, str, str] | None = None


@dataclass(frozen=True)
class SearchView:
    """The view that a strategy has of a search: the speed of each state, and the noise of a time."""

    speeds: Mapping[str, float]
    noise: float


@dataclass(frozen=True)
class Draw:
    """Asks the strategy of an agent for `count` traces; `search` is what it is told of its search."""

    count: int
    search: SearchView
    state: DeskState


@dataclass(frozen=True)
class Tell:
    """Tells the strategy of an agent what became of traces that it gave."""

    evaluations: Sequence[runtime.Evaluation]
    traces: Sequence[Sequence[str]]
    search: SearchView
    state: DeskState


@dataclass
class Served:
    """A desk that an agent asks by a line, until `end`."""

    desk: Desk
    line: AgentPipe
    end: float
    known: dict[tuple[str, ...], dojoir.Trace] = field(default_factory=dict)

    def answer(self) -> Answer:
        """The answer of the agent. Raises ArgumentError, `bad-agent`, where it has none, and Gone."""
        self.line.send(FirstMessage(self.desk.task, self.desk.timer, self.desk.seed, str(self.desk.folder or "")))
        while True:
            match self.line.heard(self.end):
                case {"answer": dict(data)}:
                    return from_data(Answer, data, "the answer")
                case {"failed": str(reason)}:
                    raise dojoir.ArgumentError(reason[:1000], "bad-agent")
                case {"ask": str(name), **given}:
                    self.line.send(self.reply(name, {str(key): value for key, value in given.items()}))
                case _:
                    raise dojoir.ArgumentError("the agent sent what is no question and no answer", "bad-agent")

    def reply(self, name: str, given: Mapping[str, Any]) -> DeskReply:
        """The reply to a question. Nothing is done after the end."""
        in_time = time.monotonic() < self.end
        try:
            if not in_time:
                raise dojoir.ArgumentError("the time for this task is over: answer", "bad-arguments")
            value = self._done(name, given)
            return DeskReply(self.state(), value)
        except dojoir.DojoError as error:
            code = error.diagnostic.code
            return DeskReply(self.state(), raised=(type(error).__name__, error.diagnostic.message, code))
        finally:
            if in_time:
                self.end = max(self.end, time.monotonic() + LAST)

    def state(self) -> DeskState:
        """The state of the desk now."""
        desk = self.desk
        best = tuple(str(move) for move in desk.best.moves)
        return DeskState(desk.ledger.used(), dict(desk.statuses), desk.ledger.seconds, desk.spent(), best)

    def _done(self, name: str, given: Mapping[str, Any]) -> object:
        desk = self.desk
        match name, given:
            case "spent", {}:
                return None
            case "check", {"move": str(move), "moves": moves}:
                return desk.check(move, self.trace(moves))
            case "evaluate", {"traces": [*traces]}:
                return desk.evaluate([self.trace(moves) for moves in traces])
            case "profile", {"moves": moves}:
                return desk.profile(self.trace(moves))
            case "tune", {"strategy": str(strategy), "options": dict(options)} if is_named(strategy):
                return desk.tune(strategy, **self.options(strategy, options))
            case "tune", {"strategy": None}:
                return desk.tune(lambda play: _Far(play, self))
        raise dojoir.ArgumentError(f"a desk is not asked for {name[:40]!r} so", "bad-arguments")

    def options(self, strategy: str, options: Mapping[str, Any]) -> dict[str, Any]:
        """The options of a strategy that is run here. A model is asked with the keys of who started the rollout,
        and where that one says. Its chat is a file of the bundle."""
        kept = {str(name): value for name, value in options.items()}
        if strategy in STRATEGIES:
            return kept
        if kept.pop("chat", None) is not None and self.desk.folder is not None:
            kept["chat"] = str(self.desk.folder / CHAT)
        if told := sorted(kept.keys() & {*WHERE} - {"chat"}):
            raise dojoir.ArgumentError(f"{told[0]} is for who starts the rollout to say", "bad-arguments")
        return kept

    def trace(self, moves: object) -> dojoir.Trace:
        """The trace of some moves, each proved here. Raises DojoError."""
        if not isinstance(moves, list) or len(moves) > MOST_MOVES or not all(isinstance(one, str) for one in moves):
            raise dojoir.ArgumentError("the moves of a trace are a list of texts", "bad-arguments")
        at = len(moves)
        while at and tuple(moves[:at]) not in self.known:
            at -= 1
        trace = self.known.get(tuple(moves[:at]), dojoir.Trace(self.desk.kernel)).copy()
        for number in range(at, len(moves)):
            trace.apply(moves[number])
            self.known[tuple(moves[: number + 1])] = trace.copy()
        return trace


class _Far:
    """A strategy in the process of an agent, as `tune` asks one."""

    def __init__(self, play: Play, served: Served) -> None:
        self.play, self.served, self.stopped = play, served, ""

    def ask(self, n: int) -> list[dojoir.Trace]:
        """The traces that it gives, each of whose moves is proved here."""
        found = self._asked(lambda search, state: Draw(n, search, state))
        match found:
            case {"traces": [*traces], "moves": int(count), "drawn": [*drawn], "stopped": str(stopped)}:
                self.play.count(max(0, count))
                self.stopped = stopped[:200]
                for one in drawn if self.play.drew is not None else ():
                    match one:
                        case [[*moves], [*texts]] if all(isinstance(text, str) for text in texts):
                            assert self.play.drew is not None
                            self.play.drew(self.served.trace(moves), [(text, UNKNOWN) for text in texts])
                return [self.served.trace(moves) for moves in traces]
        raise TypeError("it gave no traces")

    def tell(self, evaluations: Sequence[runtime.Evaluation], traces: Sequence[dojoir.Trace]) -> None:
        """Tells it."""
        moves = [[str(move) for move in trace.moves] for trace in traces]
        self._asked(lambda search, state: Tell([*evaluations], moves, search, state))

    def _asked(self, message: Callable[[SearchView, DeskState], object]) -> object:
        """Raises what it says that it raised, as RuntimeError, and Gone."""
        play, state = self.play, self.served.state()
        best = tuple(str(move) for move in play.best.moves)
        state = replace(state, seconds=play.ledger.seconds, spent=play.ledger.spent(), best=best)
        self.served.line.send(message(SearchView(dict(play.speeds), play.noise), state))
        found = self.served.line.heard(self.served.end)
        if isinstance(found, dict) and isinstance(found.get("failed"), str):
            raise RuntimeError(found["failed"][:1000])
        return found
