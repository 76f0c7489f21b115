"""Several environments at once, which share one evaluator and one memory."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from multiprocessing.managers import BaseManager
from typing import Any

import dojoir
from dojoir import runtime
from dojoir.game.environment import KernelEnv, gymnasium
from dojoir.game.environment_arguments import database_of
from dojoir.game.scoring import Scorer, Timer
from dojoir.game.suite import wrong
from dojoir.support.public import Count, public

_KEPT = 1000
"""How many traces the process of evaluators keeps, so that a state that is one move longer takes one proof."""


class _Served:
    """The evaluators of one process, for environments in others: a state comes as the text of its kernel and its
    moves, each of which is proved here too, and one after the other."""

    def __init__(self, target: str, timer: Timer, threads: int) -> None:
        self.scorer = Scorer(target, timer=timer, threads=threads)
        self.lock = threading.Lock()  # each environment is served by a thread
        self._traces: OrderedDict[tuple[str, ...], dojoir.Trace] = OrderedDict()

    def evaluate(self, start: str, moves: Sequence[str], sizes: dict[str, int]) -> dict[str, Any]:
        """The evaluation of a state of a kernel as plain data. Raises ArgumentError and IllegalMove where it cannot
        be reached."""
        with self.lock:
            return self.scorer.evaluated(self._trace(start, moves), sizes).to_json()

    def _trace(self, start: str, moves: Sequence[str]) -> dojoir.Trace:
        keys = [(start, *moves[:count]) for count in range(len(moves), -1, -1)]
        known = next((key for key in keys if key in self._traces), None)
        trace = dojoir.Trace(dojoir.parse(start)) if known is None else self._traces[known].copy()
        for move in moves[len(trace.moves) :]:
            trace.apply(move)
        self._traces[keys[0]] = trace
        if len(self._traces) > _KEPT:
            self._traces.popitem(last=False)
        return trace

    def close(self) -> None:
        self.scorer.close()


class _Manager(BaseManager):
    """A process that holds the evaluators."""

    served: Callable[[str, str, int], Any]


_Manager.register("served", _Served)  # sets the method of that name


class _Remote(Scorer):
    """A scorer whose evaluators are in another process."""

    def __init__(self, served: Any, target: str, timer: Timer, threads: int, db: Any) -> None:
        super().__init__(target, timer=timer, threads=threads, db=db)
        self._served = served

    def evaluated(self, trace: dojoir.Trace, sizes: Mapping[str, int]) -> runtime.Evaluation:
        moves = [str(move) for move in trace.moves]
        return runtime.Evaluation.from_json(self._served.evaluate(dojoir.to_text(trace.start), moves, dict(sizes)))

    def close(self) -> None:
        """The process that holds the evaluators ends with what shares them."""


class Shared:
    """Evaluators in a process of their own, for environments in several others: one timing runs at a time. `maker`
    gives what makes such an environment, which can be pickled: `SubprocVecEnv` of stable-baselines takes a list of
    them. It ends with `close`, or as a context. Raises ArgumentError for arguments that do not fit."""

    @public
    def __init__(
        self,
        target: str = "llvm",
        *,
        timer: Timer = "measure",
        threads: Count = 1,
        db: Any = None,
    ) -> None:
        self.target, self.timer, self.threads = target, timer, threads
        dojoir.machine_for(target)
        known = database_of(db)
        self._db = None if known is None else str(known.url.render_as_string(hide_password=False))
        self._manager: _Manager | None = _Manager()
        self._manager.start()
        try:
            self._served = self._manager.served(target, timer, threads)
        except BaseException:
            self._manager.shutdown()
            raise

    def maker(
        self, kernel: dojoir.Kernel | str | None = None, **options: Any
    ) -> Callable[[], gymnasium.Env[Any, Any]]:
        """Makes an environment that is timed here; `options` are those of `KernelEnv` but for `target`, `timer`,
        `threads`, `db` and `evaluator`. Raises ArgumentError where these do not fit, at once."""
        if self._manager is None:
            raise wrong("this was closed: make another Shared")
        _check_options(options)
        about = {"target": self.target, "timer": self.timer, "threads": self.threads}
        KernelEnv(kernel, **{**options, **about}).close()
        return partial(_in_another_process, kernel, options, about, self._served, self._db)

    def __enter__(self) -> Shared:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def close(self) -> None:
        """Ends the process. A second time, nothing."""
        if self._manager is not None:
            self._manager.shutdown()
            self._manager = None


def _check_options(options: Mapping[str, Any]) -> None:
    """Raises ArgumentError for what the environments share."""
    fixed = sorted({"target", "timer", "threads", "db", "evaluator"} & {*options})
    if fixed:
        raise wrong(f"{', '.join(fixed)}: what is shared has that, and an environment takes no other")


@public
def make_vec(
    count: Count,
    kernel: dojoir.Kernel | str | None = None,
    *,
    processes: bool = False,
    target: str = "llvm",
    timer: Timer = "measure",
    threads: int = 1,
    db: Any = None,
    **options: Any,
) -> gymnasium.vector.VectorEnv[Any, Any, Any]:
    """`count` environments that step together, each with the episodes that it would play alone; `options` are
    those of `KernelEnv`. They share one evaluator and what it found; with `processes` each is in a process of its
    own, the evaluator in one more. Raises as `KernelEnv` does."""
    _check_options(options)
    about: dict[str, Any] = {"target": target, "timer": timer, "threads": threads}
    if not processes:
        scorer = Scorer(target, timer=timer, threads=threads, db=db)
        made = partial(KernelEnv, kernel, **{**about, **options, "evaluator": scorer})
        return _SharingOne(scorer, [made] * count)
    shared = Shared(target, timer=timer, threads=threads, db=db)
    try:
        return _SharingAProcess(shared, [shared.maker(kernel, **options)] * count)
    except BaseException:
        shared.close()
        raise


def _in_another_process(
    kernel: Any, options: dict[str, Any], about: dict[str, Any], served: Any, db: str | None
) -> KernelEnv:
    """An environment in a process that does not time it."""
    scorer = _Remote(served, **about, db=database_of(db))
    return KernelEnv(kernel, **{**options, **about, "evaluator": scorer})


class _SharingOne(gymnasium.vector.SyncVectorEnv):
    def __init__(self, scorer: Scorer, made: Iterable[Callable[[], KernelEnv]]) -> None:
        self.scorer = scorer
        super().__init__([*made])

    def close_extras(self, **options: Any) -> None:
        super().close_extras(**options)
        self.scorer.close()


class _SharingAProcess(gymnasium.vector.AsyncVectorEnv):
    def __init__(self, shared: Shared, made: Iterable[Callable[[], gymnasium.Env[Any, Any]]]) -> None:
        self.shared = shared
        super().__init__([*made], shared_memory=False, context="spawn")

    def close_extras(self, timeout: float | None = None, terminate: bool = False) -> None:
        super().close_extras(timeout, terminate)
        self.shared.close()
