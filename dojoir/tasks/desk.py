"""The desk of an agent: the task, an evaluator within the budget, a search, a card; all that is done is
recorded."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from pathlib import Path
from random import Random
from typing import Any

import dojoir
from dojoir import runtime
from dojoir.records import Database
from dojoir.search import Static
from dojoir.search.budget import OF_MODELS, Ledger
from dojoir.tasks.task import Answer, Task, question

NO_LIMIT = dojoir.Budget()


class Asking:
    """The base of a desk, wherever its work is done."""

    task: Task
    best: dojoir.Trace

    def question(self) -> dict[str, Any]:
        """The task as plain data: what a language model is asked."""
        return question(self.task)

    def answer(self, **fields: Any) -> Answer:
        """An answer; one without moves has those of `best`, where the task asks for moves."""
        if self.task.kind in ("optimise", "reformulate") and "moves" not in fields:
            fields["moves"] = tuple(str(move) for move in self.best.moves)
        return Answer(**fields)


class Desk(Asking):
    """The place of an agent at a task. `timer` is `measure` or `static`; `rng` is where all that is random comes
    from; `best` is the fastest trace that was right so far; `folder` that of the bundle, if there is one. `models`
    has the calls, tokens and money that may be spent on language models."""

    def __init__(
        self,
        task: Task,
        *,
        database: Database,
        run: str,
        timer: str = "measure",
        seed: int = 0,
        note: Callable[[], object] = lambda: None,
        list_moves: bool = False,
        folder: Path | None = None,
        models: dojoir.Budget = NO_LIMIT,
    ) -> None:
        self.task, self.timer, self.seed, self.rng = task, timer, seed, Random(f"{seed} {task.name}")
        self.folder, self._models = folder, models
        self.ledger = Ledger(replace(models, states=task.budget.states, seconds=task.budget.seconds))
        self.kernel, self.trace = task.kernel, task.trace
        self.best = dojoir.Trace(task.kernel)
        self._database, self._run, self._note, self._list_moves = database, run, note, list_moves
        self._evaluator: Any = None
        self._known: dict[str, runtime.Evaluation] = {}
        self._fastest: float | None = None
        self.statuses: dict[str, int] = {}
        self.outside = 0.0  # seconds of processors that the processes of an agent spent, beside what is done here

    # -- what an agent calls -----------------------------------------------------------------------------------
    def spent(self) -> str | None:
        """The part of the budget that is used up; None while there is something of everything left."""
        return self.ledger.spent()

    def check(self, move: str, trace: dojoir.Trace | None = None) -> dojoir.Verdict:
        """The verdict of the checker on a move, after the moves of a trace, by default on the given kernel;
        recorded."""
        at = dojoir.Trace(self.kernel) if trace is None else trace
        verdict = dojoir.check(at.kernel, move)
        if at.is_safe:
            self._database.drew(self._run, at, [(move, "legal" if verdict else verdict.code)])
        return verdict

    def evaluate(self, traces: Sequence[dojoir.Trace]) -> list[runtime.Evaluation]:
        """The evaluations of some traces of the given kernel, in order; fewer where the budget ends before them.
        One that was asked before costs nothing. Raises ArgumentError for what is no trace, one of another kernel,
        or an unsafe one."""
        given = [*traces] if isinstance(traces, Iterable) else [traces]
        for trace in given:
            if not isinstance(trace, dojoir.Trace) or trace.start != self.kernel or not trace.is_safe:
                raise dojoir.ArgumentError(
                    f"{self.task.name}: evaluate takes safe traces of its kernel, in a list", "bad-arguments"
                )
        found = []
        for trace in given:
            if trace.kernel.hash not in self._known:
                if self.spent() is not None:
                    break
                self._known[trace.kernel.hash] = self._asked(trace)
            found.append(self._known[trace.kernel.hash])
        return found

    def tune(self, strategy: str | Callable[..., object], **options: object) -> dojoir.search.Tuned:
        """A search from the given text with what is left of the budget, that begins with nothing that others know.
        Raises as `dojoir.tune` does."""

        def count(evaluation: runtime.Evaluation, trace: dojoir.Trace, best: float) -> None:
            self._count(evaluation)
            self._note()

        ledger, left = self.ledger, self.ledger.left()
        left = replace(left, states=None if left.states is None else max(1, left.states))
        tuned = dojoir.tune(
            self.kernel, self.task.given.target, sizes=dict(self.task.given.sizes), strategy=strategy, budget=left,
            seed=self.seed, threads=self.task.given.threads, start=dojoir.Trace(self.kernel), db=self._database,
            run=self._run, timer=self.timer, options=options, hints=False, list_moves=self._list_moves,
            progress=count,
        )  # fmt: skip
        for name in ("moves", *OF_MODELS):
            setattr(ledger, name, getattr(ledger, name) + tuned.spent.get(name, 0))
        self.best = tuned.trace
        return tuned

    def profile(self, trace: dojoir.Trace) -> runtime.Card | None:
        """The card of the kernel of a trace, which says what bounds it; None under the timer `static`. Raises as
        `dojoir.profile` does."""
        if self.timer == "static":
            return None
        given = self.task.given
        return dojoir.profile(
            trace.kernel, given.target, sizes=dict(given.sizes), threads=given.threads, counted=False
        )  # fmt: skip

    # -- what it does ------------------------------------------------------------------------------------------
    def _asked(self, trace: dojoir.Trace) -> runtime.Evaluation:
        given = self.task.given
        about: dict[str, Any] = {"sizes": [dict(given.sizes)], "threads": given.threads}
        if self._evaluator is None:
            sizes = dict(given.sizes)
            if self.timer == "static":
                self._evaluator = Static(given.target, sizes, given.threads)
            else:
                self._evaluator = dojoir.Evaluator(
                    self.kernel, given.target, [sizes], threads=given.threads, seed=self.seed
                )  # fmt: skip
                self._evaluator.__enter__()
        about["protocol"] = "static" if self.timer == "static" else dojoir.Evaluator.PROTOCOL
        known = self._database.known(self.kernel, trace.kernel.hash, given.target, **about)
        if known is None:
            found: runtime.Evaluation = next(iter(self._evaluator.evaluate([trace.kernel])))
            self._database.record(trace, found, given.target, **about, run=self._run)
        else:
            found = known
        self._count(found)
        self._note()
        if found.ok and found.seconds and (self._fastest is None or found.seconds < self._fastest):
            self._fastest, self.best = found.seconds, trace
        return found

    def _count(self, found: runtime.Evaluation) -> None:
        self.ledger.note(found)
        self.statuses[found.status] = self.statuses.get(found.status, 0) + 1

    def close(self) -> None:
        """Ends the process of the evaluator."""
        if self._evaluator is not None:
            self._evaluator.close()
            self._evaluator = None
