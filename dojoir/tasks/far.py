"""The agent's side of the pipe: a desk, and the game of a strategy, whose work is done in the process of the
rollout."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Sequence
from multiprocessing.connection import Connection
from pathlib import Path
from random import Random
from typing import Any

import dojoir
from dojoir import runtime
from dojoir.search import Play
from dojoir.search.budget import Ledger
from dojoir.search.registry import made, strategy_named, takes_traces
from dojoir.tasks.desk import Asking
from dojoir.tasks.serving import DeskReply, DeskState, Draw, FirstMessage, Tell, is_named
from dojoir.tasks.task import replayed


class FarDesk(Asking):
    """The desk of an agent of a file: as `Desk`, but all that costs anything is asked of the rollout, and counted
    there. `ledger` is a copy of what it counted."""

    def __init__(self, begun: FirstMessage, connection: Connection) -> None:
        self.task, self.timer, self.seed = begun.task, begun.timer, begun.seed
        self.folder = Path(begun.folder) if begun.folder else None
        self.rng = Random(f"{begun.seed} {begun.task.name}")
        self.kernel, self.trace = begun.task.kernel, begun.task.trace
        self.best = dojoir.Trace(self.kernel)
        self.statuses: dict[str, int] = {}
        budget = begun.task.budget
        self.ledger = Ledger(dojoir.Budget(states=budget.states, seconds=budget.seconds))
        self._connection = connection
        self._spent: str | None = None

    def spent(self) -> str | None:
        """The part of the budget that is used up; None while there is something of everything left."""
        self._asked("spent")
        return self._spent

    def check(self, move: str, trace: dojoir.Trace | None = None) -> dojoir.Verdict:
        """As `Desk.check`."""
        at = dojoir.Trace(self.kernel) if trace is None else trace
        found: dojoir.Verdict = self._asked("check", move=str(move), moves=self._moves(at))
        return found

    def evaluate(self, traces: Sequence[dojoir.Trace]) -> list[runtime.Evaluation]:
        """As `Desk.evaluate`."""
        given = [*traces] if isinstance(traces, Iterable) else [traces]
        found: list[runtime.Evaluation] = self._asked("evaluate", traces=[self._moves(one) for one in given])
        return found

    def tune(self, strategy: str | Callable[..., object], **options: object) -> dojoir.search.Tuned:
        """As `Desk.tune`: the search is that of the rollout, a strategy of one's own is asked here."""
        if isinstance(strategy, str) and is_named(strategy):
            options = {name: str(one) if isinstance(one, Path) else one for name, one in options.items()}
            near: dojoir.search.Tuned = self._asked("tune", strategy=strategy, options=options)
            return near
        makes: Any = strategy_named(strategy) if isinstance(strategy, str) else strategy
        playing = _Playing(self, makes, options)
        found: dojoir.search.Tuned = self._asked("tune", playing, strategy=None)
        return found

    def profile(self, trace: dojoir.Trace) -> runtime.Card | None:
        """As `Desk.profile`."""
        found: runtime.Card | None = self._asked("profile", moves=self._moves(trace))
        return found

    def _moves(self, trace: object) -> list[str]:
        if not isinstance(trace, dojoir.Trace) or trace.start != self.kernel or not trace.is_safe:
            raise dojoir.ArgumentError(
                f"{self.task.name}: a desk takes safe traces of its kernel, in a list", "bad-arguments"
            )
        return [str(move) for move in trace.moves]

    def _asked(self, name: str, playing: _Playing | None = None, **given: object) -> Any:
        """The reply of the rollout. Raises what it raised."""
        send(self._connection, {"ask": name, **given})
        while not isinstance(heard := self._connection.recv(), DeskReply):
            assert playing is not None
            try:
                said = playing.said(heard)
            except (Exception, SystemExit) as error:
                said = {"failed": f"{type(error).__name__}: {error}"}
            send(self._connection, said)
        self.take(heard.state)
        if heard.raised is not None:
            kind, message, code = heard.raised
            error_class = getattr(dojoir, kind) if kind != "IllegalMove" else dojoir.ArgumentError
            raise error_class(message, code)
        return heard.value

    def take(self, state: DeskState) -> None:
        """Takes over what was counted."""
        count(self.ledger, state)
        self.statuses, self._spent = dict(state.statuses), state.spent
        if [str(move) for move in self.best.moves] != [*state.best]:
            self.best = replayed(self.kernel, tuple(state.best))[0]


class _Playing:
    """A strategy of the agent's, which is made when it is first asked."""

    def __init__(self, desk: FarDesk, makes: Any, options: dict[str, object]) -> None:
        given, budget = desk.task.given, desk.task.budget
        self.desk, self.makes, self.options = desk, makes, options
        self.play = Play(
            desk.kernel, given.target, [dict(given.sizes)], Random(desk.seed),
            Ledger(dojoir.Budget(states=budget.states, seconds=budget.seconds)), given.threads,
        )  # fmt: skip
        self.play.starts, self.play.hints, self.play.timer = [dojoir.Trace(desk.kernel)], False, desk.timer
        self.drawn: list[Any] = []
        self.play.drew = lambda trace, moves: self.drawn.append([_texts(trace), [move for move, _ in moves]])
        self.traces: dict[tuple[str, ...], dojoir.Trace] = {}
        self.strategy: Any = None

    def said(self, asked: object) -> dict[str, object]:
        """The strategy's answer to a question of the search."""
        assert isinstance(asked, Draw | Tell)
        play = self.play
        play.speeds, play.noise = dict(asked.search.speeds), asked.search.noise
        play.best = self._trace(asked.state.best)
        count(play.ledger, asked.state)
        if self.strategy is None:
            self.strategy = made(self.makes, play, self.options)
        if isinstance(asked, Tell):
            traces = [self._trace(moves) for moves in asked.traces]
            told = (asked.evaluations, traces) if takes_traces(self.strategy) else (asked.evaluations,)
            self.strategy.tell(*told)
            return {"told": True}
        moves = play.ledger.moves
        given = [*self.strategy.ask(asked.count)]
        for one in given:
            self.desk._moves(one)
            self.traces[tuple(_texts(one))] = one.copy()
        drawn, self.drawn = self.drawn, []
        stopped = getattr(self.strategy, "stopped", "")
        return {
            "traces": [_texts(one) for one in given], "moves": play.ledger.moves - moves, "drawn": drawn,
            "stopped": stopped if isinstance(stopped, str) else "",
        }  # fmt: skip

    def _trace(self, moves: Sequence[str]) -> dojoir.Trace:
        key = tuple(moves)
        if key not in self.traces:
            self.traces[key] = replayed(self.desk.kernel, key)[0]
        return self.traces[key].copy()


def _texts(trace: dojoir.Trace) -> list[str]:
    return [str(move) for move in trace.moves]


def count(ledger: Ledger, state: DeskState) -> None:
    """Makes a ledger say what the rollout counted."""
    for name, value in state.used.items():
        setattr(ledger, name, value)
    ledger.start += ledger.seconds - state.seconds


def send(connection: Connection, message: object) -> None:
    """Sends plain data."""
    connection.send_bytes(json.dumps(message).encode())
