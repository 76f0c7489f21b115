"""`tune`: asks a strategy for traces, evaluates them, and gives back the fastest, proved and verified once more."""

from __future__ import annotations

import contextlib
import importlib
import math
import random
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

import dojoir
from dojoir import runtime
from dojoir.search.actions import make
from dojoir.search.budget import Budget, Ledger
from dojoir.search.closing import close
from dojoir.search.cluster import Cluster
from dojoir.search.memory import Remembering, check_same_run, fastest, relatives, starts_of_alike
from dojoir.search.model import ModelFailed, model_of
from dojoir.search.play import Play
from dojoir.search.registry import MakesStrategy, Strategy, made, strategy_named, takes_traces
from dojoir.search.static import Static
from dojoir.search.storing import check_store
from dojoir.search.tuned import Tuned
from dojoir.support.public import public

BATCH = 8
"""How many traces are asked for at a time."""

A_MINUTE = Budget(seconds=60)

WHERE = ("base_url", "chat", "replay_chat", "timeout", "attempts", "prices", "model")
"""The options that say where and how a language model is asked: a run goes on with others of these."""

IDLE = 40
"""After how many batches without a state that is new a search has nothing more to find."""

Sizes = Mapping[str, int] | Sequence[Mapping[str, int]]
Progress = Callable[[runtime.Evaluation, dojoir.Trace, float], object]
"""Is called with each evaluation, its trace, and the speed of the best so far."""


@public
def tune(
    kernel: dojoir.Kernel,
    target: str = "llvm",
    *,
    sizes: Sizes,
    strategy: str | Callable[..., object] = "beam",
    budget: Budget = A_MINUTE,
    seed: int = 0,
    threads: int = 1,
    start: dojoir.Trace | Sequence[dojoir.Trace] | None = None,
    db: object = None,
    run: str | None = None,
    cluster: str | None = None,
    workers: int = 1,
    timer: str = "measure",
    cost_model: object = "estimate",
    options: Mapping[str, object] | None = None,
    store: str | None = None,
    progress: Callable[..., object] | None = None,
    hints: bool = True,
    list_moves: bool = False,
) -> Tuned:
    """Searches for the fastest schedule of a kernel at some sizes.

    `strategy` is a name of `dojoir.search.STRATEGIES`, `maxq:PATH`, `llm:…` (a language model), `module:class`,
    `file.py:class`, or a class of one's own, which is made with a `Play` and the `options`. `start` are traces of
    the kernel to begin with, the first of which speeds are counted from; by default its text as it is,
    `default_schedule`, and for a CPU at most two of the same without one structure that may be as fast by the
    estimate. All of them are evaluated before anything is drawn. With several `sizes` the score is the geometric
    mean of the ratios, and what is slower at one of them is no improvement. A state whose code is longer than an
    `Evaluator` takes, and than that of any start by a quarter, is not built. `timer="static"` ranks by
    `dojoir.search.estimate` and runs nothing. `cost_model` draws more than it tries, and chooses: by default, on
    a CPU, by the estimate and what it was off by so far; None tries what was drawn. An object with
    `fit(rows, speeds)` and `predict(rows)`, or `module:class` of one, is a model of one's own. Rows are features,
    as `dojoir.search.features` has them, speeds logarithms of how many times as fast as the start a state is.
    `cluster` is the address of a Dask
    scheduler. States are evaluated by the workers that `dojoir worker` has joined to it, each of which times what
    it compares itself. What a run on a cluster measured is written, but not taken over by another.

    `db` is a `dojoir.records.Database` or its URL. Each state is written to it as soon as it is known, the fastest
    traces that it has of the kernel are among the starts. So are the first moves of those of kernels that are
    built alike among the steps (not of a run with a name, which must go on in the same way), and what it has of
    the run named `run` is not measured again. What was drawn is written with its verdicts, and with `list_moves`
    all that is legal at each state that is evaluated, which takes long. Without `hints` the search begins with
    nothing that the database or `optimize` knows, and may end below it: so agents are compared. `progress` is
    called with each evaluation, its trace and how many times as fast as the start the best so far is, as
    `Tuned.ratio` has it at the end. Timed in turn with it, by way of the fastest start. Where it has a method
    `checking`, that is called with the trace and its speed as the last checks begin. `store` is a folder that the
    answer is written to as a schedule. Control-C ends the search with the best so far.

    Raises ArgumentError for arguments that do not fit, KernelError for an ill-formed kernel, RunError where not
    even the start can be timed, ToolchainError (`no-cluster`, `no-workers`) where nobody evaluates. Once there
    is a best, a search whose evaluator ends, ends with it.
    """
    given = [dict(sizes)] if isinstance(sizes, Mapping) else [dict(one) for one in sizes]
    if timer not in ("measure", "static"):
        raise dojoir.ArgumentError(f"timer is 'measure' or 'static', not '{timer}'", "bad-arguments")
    cost_model = None if cost_model == "none" else cost_model
    makes: Any = strategy_named(strategy) if isinstance(strategy, str) else strategy
    ledger = Ledger(budget)
    play = Play(kernel, target, given, random.Random(seed), ledger, threads)
    play.hints = hints
    play.timer = timer if cluster is None else "cluster"
    play.starts = _starts(play, start)
    remembered = None
    if db is not None:
        db = _database(db)
        about: dict[str, Any] = {
            "target": target, "sizes": given, "seed": seed, "timer": timer,
            "options": {name: value for name, value in (options or {}).items() if name not in WHERE},
            "threads": threads,
            "cost_model": cost_model if isinstance(cost_model, str | None) else type(cost_model).__name__,
            "strategy": strategy if isinstance(strategy, str) else getattr(strategy, "__name__", "own"),
        }  # fmt: skip
        if run is not None:
            check_same_run(db, run, about)
        found = starts_of_alike(db, kernel, target, play.starts, run) if hints else []
        play.starts += found
        play.relatives = relatives(db, kernel, target) if run is None and hints else []
        remembered = about | {"hints": [[str(move) for move in trace.moves] for trace in found]}
    elif run is not None:
        raise dojoir.ArgumentError("run names a run of a database: give db as well", "bad-arguments")
    play.model = model_of(cost_model, given, target, threads)
    if store is not None:
        check_store(store)
    evaluator = _evaluator(play, timer, cluster, seed, workers)
    if remembered is not None:
        protocol = getattr(evaluator, "protocol", "static")
        if cluster is None and hints:  # what is known of this machine says nothing of the workers
            play.known = fastest(
                db, kernel, target, {"sizes": given, "threads": threads, "protocol": protocol}, run
            )
        evaluator = Remembering(evaluator, db, kernel, target, given, threads, protocol, run, remembered)
        play.drew = evaluator.drew
    if timer == "measure":
        ledger.keep_for_the_end()
    with evaluator:
        search = _Search(play, evaluator, progress, list_moves)
        stopped = search.run(makes, dict(options or {}))
        search.wait_until(ledger.last_end, (ledger.end + ledger.last_end) / 2)
        timing = search.timing
        if callable(getattr(progress, "checking", None)):
            with contextlib.suppress(Exception):  # the answer does not hang on what is told of it
                getattr(progress, "checking")(play.best, search.told)  # noqa: B009
        tuned = close(play, timing, search.states, search.traces, stopped, timer, store, search.told)
        if isinstance(timing, Cluster):
            tuned = replace(tuned, notes=(*tuned.notes, *timing.notes))
        if isinstance(evaluator, Remembering):
            tuned = replace(tuned, notes=(*tuned.notes, *evaluator.end(stopped, tuned.trace)))
    if play.model is not None:
        tuned = replace(tuned, notes=(*tuned.notes, f"cost model: {play.model.told()}"))
    return tuned


def _database(db: object) -> object:
    """A database, or the one at a URL."""
    if isinstance(db, str):
        db = importlib.import_module("dojoir.records").Database(db)
    methods = ["begin", "known", "record", "end", "drew", "settings", "outcome", "best", "hints", "relatives"]
    if not all(callable(getattr(db, name, None)) for name in methods):
        message = f"db is a dojoir.records.Database or its URL, not {type(db).__name__}"
        raise dojoir.ArgumentError(message, "bad-arguments")
    return db


def _evaluator(play: Play, timer: str, cluster: str | None, seed: int, workers: int) -> Any:
    """The evaluator of the states of a search: here or on a cluster, or from the text alone."""
    kernel, target, sizes, threads = play.kernel, play.target, play.sizes, play.threads
    if timer == "static" and cluster is None:
        return Static(target, sizes, threads)
    limit = code_limit([trace.kernel for trace in play.starts], target)
    if cluster is None:
        return dojoir.Evaluator(
            kernel, target, sizes, threads=threads, workers=workers, seed=seed, code_limit=limit
        )  # fmt: skip
    start = play.starts[0].kernel
    return Cluster(
        cluster, kernel, start, target, sizes, threads=threads, seed=seed, timer=timer, code_limit=limit
    )  # fmt: skip


def code_limit(starts: Sequence[dojoir.Kernel], target: str) -> int:
    """The maximum source length of a state, in characters: the evaluator's limit or 1.25 times the longest start,
    whichever is larger."""
    longest = max(len(dojoir.emit(kernel, target)) for kernel in starts)
    return max(dojoir.Evaluator.CODE_LIMIT, longest * 5 // 4)


NEAR, MOST_NEAR = 1.3, 2
"""Of the schedules by rule without one structure, so many are starts: those that the estimate says take at most so
many times as long as the whole one."""


def _starts(play: Play, start: dojoir.Trace | Sequence[dojoir.Trace] | None) -> list[dojoir.Trace]:
    kernel, target = play.kernel, play.target
    if start is None:
        default = make(dojoir.Trace(kernel), "default_schedule", target)
        return [dojoir.Trace(kernel), default, *_near(play, default)]
    starts = [start] if isinstance(start, dojoir.Trace) else [*start]
    if not starts:
        raise dojoir.ArgumentError("start is empty: leave it out, or give at least one trace", "bad-arguments")
    for trace in starts:
        if trace.start != kernel:
            raise dojoir.ArgumentError(f"start is a trace of another kernel: {trace.start.name}", "bad-arguments")
        if not trace.is_safe:
            raise dojoir.ArgumentError(f"start cannot be taken: {trace.unchecked}", "unsafe-trace")
    return starts


def _near(play: Play, default: dojoir.Trace) -> list[dojoir.Trace]:
    """For a CPU, the schedules by rule without one of their structures that may be as fast, by the estimate."""
    if dojoir.machine_for(play.target).kind != "cpu":
        return []
    sizes = play.sizes[0]
    most = NEAR * dojoir.search.estimate(default.kernel, sizes, play.target, play.threads)
    options = dojoir.plan(play.kernel, play.target, sizes=sizes, threads=play.threads).options
    near = [one for one in options if one.without and one.seconds is not None and one.seconds <= most]
    return [one.trace for one in sorted(near, key=lambda one: one.seconds or 0.0)[:MOST_NEAR]]


class _StrategyFailed(Exception):
    """A strategy raised, or handed over what is none of its business; the words say which."""


@contextlib.contextmanager
def _of_the_strategy(what: str, but: tuple[type[Exception], ...] = ()) -> Iterator[None]:
    """Tells what a strategy raises from what is raised here. `but` passes: what was given does not fit."""
    try:
        yield
    except but:
        raise
    except ModelFailed as error:
        raise _StrategyFailed(str(error)) from error
    except (Exception, SystemExit) as error:
        raise _StrategyFailed(f"the strategy failed in {what}: {_shown(error)}") from error


def _shown(error: BaseException) -> str:
    return f"{type(error).__name__}: {error}"


class _Search:
    """The loop between a strategy and an evaluator."""

    def __init__(self, play: Play, evaluator: Any, progress: Progress | None, list_moves: bool = False) -> None:
        self.play, self.evaluator, self.progress, self.list_moves = play, evaluator, progress, list_moves
        self.timing = evaluator.evaluator if isinstance(evaluator, Remembering) else evaluator
        self.traces: dict[str, dojoir.Trace] = {}
        self.done = 0
        self.states: list[runtime.Evaluation] = []
        self.known: dict[str, runtime.Evaluation] = {}
        self.begun = False
        self.by_code: dict[str, float] = {}
        self.best: runtime.Evaluation | None = None
        self.told = 1.0
        """How many times as fast as the start the best is: not through each best before it, whose luck would add
        up, but timed in turn with the fastest start."""

        self.base = 1.0
        self.anchor: tuple[dojoir.Trace, float] | None = None
        """The fastest start, and how many times as fast as the first it is."""

    def run(self, makes: MakesStrategy, options: dict[str, object]) -> str:
        """Searches until something ends it, and says what."""
        play = self.play
        try:
            self.evaluate(play.starts, are_starts=True)
            self.recall()
            if self.best is None and play.ledger.spent() is None:
                reason = self.states[0].reason if self.states else "nothing was tried"
                raise dojoir.RunError(f"the start of the search could not be timed: {reason}", "no-start")
            if self.best is not None:
                play.noise = self.evaluator.noise(play.best.kernel)
                first, at = play.starts[0], play.best
                self.anchor = (at, self._raced(at, first) or play.speed(at))
                self.told = self.anchor[1]
            with _of_the_strategy("its beginning", but=(dojoir.ArgumentError, dojoir.ToolchainError)):
                strategy = made(makes, play, options)
            self.begun = True
            return self._loop(strategy)
        except KeyboardInterrupt:
            return "interrupted"
        except (dojoir.RunError, dojoir.ToolchainError) as error:
            if self.best is None or error.diagnostic.code == "missing-package":
                raise
            return f"nothing can be evaluated any more: {error.diagnostic.message}"
        except (_StrategyFailed, ModelFailed) as error:
            return str(error)
        except Exception as error:  # of a cost model, or of what is told of the progress: the best so far is right
            if self.best is None or (not self.begun and isinstance(error, dojoir.DojoError)):
                raise  # what was given does not fit
            return f"the search failed: {_shown(error)}"

    def recall(self) -> None:
        """How fast what a database knew is: it takes part in the end. The strategy is not told of it, so that a run
        goes on in the same way."""
        play = self.play
        new = [trace for trace in play.known if trace.kernel.hash not in self.known]
        for evaluation in self.evaluator.evaluate([trace.kernel for trace in new], play.starts[0].kernel):
            trace = next(one for one in new if one.kernel.hash == evaluation.hash)
            play.speeds[evaluation.hash] = self._speed(evaluation, play.starts[0] if self.states else None)
            self.traces[evaluation.hash] = trace
            if isinstance(self.evaluator, Remembering):
                self.evaluator.note(trace, evaluation, of_run=False)

    def _loop(self, strategy: Strategy) -> str:
        ledger, idle = self.play.ledger, 0
        while True:
            spent = ledger.spent()
            if spent is not None:
                return f"the budget is spent: {spent}"
            asked = self._asked(strategy, ledger.states_left(max(BATCH, getattr(self.evaluator, "width", 0))))
            if not asked:
                spent, told = ledger.spent(), getattr(strategy, "stopped", "")
                why = told if isinstance(told, str) and told else "the strategy has nothing more to try"
                return why if spent is None or told else f"the budget is spent: {spent}"
            before = len(self.states)
            found = self.evaluate(asked)
            with _of_the_strategy("tell"):
                if takes_traces(strategy):
                    strategy.tell(found, [one for one in asked if one.kernel.hash in self.known])
                else:
                    strategy.tell(found)
            idle = 0 if len(self.states) > before else idle + 1
            if idle == IDLE:
                return "no state that is new was found any more"

    def _asked(self, strategy: Strategy, count: int) -> list[dojoir.Trace]:
        """The traces from a strategy: safe traces of the kernel, copied, so that later changes by the strategy
        have no effect."""
        with _of_the_strategy("ask"):
            given: list[Any] = [*strategy.ask(count)]
        for one in given:
            if not isinstance(one, dojoir.Trace):
                raise _StrategyFailed(f"the strategy handed over a {type(one).__name__}, and not a Trace")
            if one.start != self.play.kernel:
                raise _StrategyFailed(f"the strategy handed over a trace of another kernel, {one.start.name}")
            if not one.is_safe:
                raise _StrategyFailed(f"the strategy handed over a trace that is not safe: {one.unchecked}")
        return [one.copy() for one in given]

    def evaluate(self, traces: Sequence[dojoir.Trace], are_starts: bool = False) -> list[runtime.Evaluation]:
        """The results of some traces, in order; fewer where the budget ends before them. Seconds are no reason to
        leave out a start."""
        new: dict[str, dojoir.Trace] = {}
        for trace in traces:
            if trace.kernel.hash not in self.known:
                new.setdefault(trace.kernel.hash, trace)
        rival = None if self.best is None else self.play.best
        self.base = 1.0 if rival is None else self.told
        coming = iter(new.values())

        def kernels() -> Any:
            """Those that there is budget for when they are asked for."""
            for begun, trace in enumerate(coming):
                if self.play.ledger.spent(with_seconds=not are_starts) is not None:
                    return
                if not (are_starts or self.play.ledger.has_time):
                    self.play.ledger.is_over = True
                    return
                if self.play.ledger.states_left(begun + 1 - self.done) + self.done <= begun:
                    return
                yield trace.kernel

        self.done = 0
        self.wait_until(math.inf if are_starts else self.play.ledger.end, self.play.ledger.end)
        with contextlib.closing(self._evaluated(kernels(), rival)) as found:
            for evaluation in found:
                self.done += 1
                self._note(new[evaluation.hash], evaluation, rival)
        if self.anchor is not None and rival is not self.play.best:
            ratio = self._raced(self.play.best, self.anchor[0])
            self.told = self.told if ratio is None else self.anchor[1] * ratio
        return [self.known[t.kernel.hash] for t in traces if t.kernel.hash in self.known]

    def wait_until(self, end: float, lease_end: float) -> None:
        """Sets the evaluator's two deadlines, if it has them: for work under way, and for waiting on the timing
        lease."""
        if hasattr(self.timing, "until"):
            self.timing.until, self.timing.lease_until = end, lease_end

    def _evaluated(
        self, kernels: Iterator[dojoir.Kernel], rival: dojoir.Trace | None
    ) -> Generator[runtime.Evaluation, None, None]:
        """The results of the evaluator; closed where they are not all taken, so that it can be asked again."""
        yield from self.evaluator.evaluate(kernels, None if rival is None else rival.kernel)

    def _note(self, trace: dojoir.Trace, evaluation: runtime.Evaluation, rival: dojoir.Trace | None) -> None:
        play = self.play
        play.ledger.note(evaluation)
        self.states.append(evaluation)
        self.known[evaluation.hash] = evaluation
        self.traces[evaluation.hash] = trace
        speed = self._speed(evaluation, rival)
        play.speeds[evaluation.hash] = speed
        if evaluation.digest and evaluation.ok:
            self.by_code.setdefault(evaluation.digest, speed)
        if evaluation.ok and self._improves(evaluation, speed):
            self.told = self.base * speed / (play.speed(rival) if rival is not None else 1.0)
            self.best, play.best = evaluation, trace
        if play.model is not None:
            play.model.tell(trace.kernel, speed)
        if isinstance(self.evaluator, Remembering):
            self.evaluator.note(trace, evaluation)
            if self.list_moves and evaluation.status in ("ok", "cut"):
                self.evaluator.list_moves(trace)
        if self.progress is not None:
            self.progress(evaluation, trace, self.told)

    def _speed(self, evaluation: runtime.Evaluation, rival: dojoir.Trace | None) -> float:
        """How many times as fast as the start: through the kernel that it was raced against, if it was."""
        if evaluation.status not in ("ok", "cut") or not evaluation.seconds:
            return 0.0
        known = self.by_code.get(evaluation.digest) if evaluation.digest else None
        if known is not None:
            return known
        if rival is None and evaluation.ratio is not None:
            return evaluation.ratio
        if rival is None:
            first = next((one for one in self.states if one.ok and one.seconds), evaluation)
            return (first.seconds or evaluation.seconds) / evaluation.seconds
        ratio = evaluation.ratio
        if ratio is None:
            ratio = (self.known[rival.kernel.hash].seconds or 0.0) / evaluation.seconds
        return self.play.speed(rival) * ratio

    def _raced(self, one: dojoir.Trace, other: dojoir.Trace) -> float | None:
        """How many times as fast one trace is as another, timed in turn; None where that is not found out, and
        where times have no noise: then it is known."""
        if one.kernel == other.kernel:
            return 1.0
        if self.play.noise == 0:
            return None
        found = [*self.timing.evaluate([one.kernel], other.kernel)]
        return found[0].ratio if found and found[0].ok else None

    def _improves(self, evaluation: runtime.Evaluation, speed: float) -> bool:
        if self.best is None:
            return True
        against = evaluation.ratio_interval
        sure = against is None or against[0] > 1 or self.play.noise == 0
        loses = any(ratio < 1 - self.play.noise for ratio in evaluation.ratios)
        return sure and not loses and speed > self.play.speed(self.play.best)
