"""Several environments at once, which share one evaluator and one memory."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Mapping
from multiprocessing.managers import BaseManager
from typing import Any

import dojoir
from dojoir.game.environment import KernelEnv, gymnasium
from dojoir.game.scoring import Scorer


class _Served:
    """The evaluators of one process, for environments in others: kernels come as text, and one after the other."""

    def __init__(self, target: str, timer: str, threads: int) -> None:
        self.scorer = Scorer(target, timer=timer, threads=threads)
        self.lock = threading.Lock()  # each environment is served by a thread

    def evaluate(self, start: str, state: str, sizes: dict[str, int]) -> dict[str, Any]:
        """The fields of the evaluation of a state of a kernel."""
        kernel = dojoir.parse(start)
        with self.lock:
            found = self.scorer.evaluated(kernel, dojoir.parse(state), sizes)
        return dict(vars(found))

    def close(self) -> None:
        self.scorer.close()


class _Manager(BaseManager):
    """A process that holds the evaluators."""

    served: Callable[[str, str, int], Any]


_Manager.register("served", _Served)  # sets the method of that name


class _Remote(Scorer):
    """A scorer whose evaluators are in another process."""

    def __init__(self, served: Any, target: str, timer: str, threads: int, db: Any) -> None:
        super().__init__(target, timer=timer, threads=threads, db=db)
        self._served = served

    def evaluated(self, kernel: dojoir.Kernel, state: dojoir.Kernel, sizes: Mapping[str, int]) -> dojoir.Evaluation:
        fields = self._served.evaluate(dojoir.to_text(kernel), dojoir.to_text(state), dict(sizes))
        return dojoir.Evaluation(**fields)

    def close(self) -> None:
        """The process that holds the evaluators ends with the vector."""


def make_vec(
    count: int,
    kernel: dojoir.Kernel | str | None = None,
    *,
    processes: bool = False,
    target: str = "llvm",
    timer: str = "measure",
    threads: int = 1,
    db: Any = None,
    **options: Any,
) -> gymnasium.vector.VectorEnv[Any, Any, Any]:
    """`count` environments that step together, each with the episodes that it would play alone; `options` are
    those of `KernelEnv`. They share one evaluator and what it found; with `processes` each is in a process of its
    own, the evaluator in one more, and `db` is a URL. Raises as `KernelEnv` does."""
    if count < 1:
        raise dojoir.ArgumentError(f"a vector has at least 1 environment, not {count}", "bad-arguments")
    about = {"target": target, "timer": timer, "threads": threads}
    if not processes:
        scorer = Scorer(target, timer=timer, threads=threads, db=_database(db))
        made = [_maker(kernel, {**about, **options, "evaluator": scorer}) for _ in range(count)]
        return _SharingOne(scorer, made)
    manager = _Manager()
    manager.start()
    try:
        served = manager.served(target, timer, threads)
        url = db if db is None or isinstance(db, str) else str(db.url.render_as_string(hide_password=False))
        made = [_RemoteMaker(kernel, {**about, **options}, served, url) for _ in range(count)]
        return _SharingAProcess(manager, made)
    except BaseException:
        manager.shutdown()
        raise


def _database(db: Any) -> Any:
    if not isinstance(db, str):
        return db
    from dojoir.records import Database

    return Database(db)


def _maker(kernel: dojoir.Kernel | str | None, options: dict[str, Any]) -> Callable[[], KernelEnv]:
    return lambda: KernelEnv(kernel, **options)


class _RemoteMaker:
    """Makes an environment in another process."""

    def __init__(self, kernel: Any, options: dict[str, Any], served: Any, db: str | None) -> None:
        self.kernel = dojoir.to_text(kernel) if isinstance(kernel, dojoir.Kernel) else kernel
        self.is_text, self.options, self.served, self.db = isinstance(kernel, dojoir.Kernel), options, served, db

    def __call__(self) -> KernelEnv:
        about = {name: self.options[name] for name in ("target", "timer", "threads")}
        scorer = _Remote(self.served, **about, db=_database(self.db))
        kernel = dojoir.parse(self.kernel) if self.is_text else self.kernel
        return KernelEnv(kernel, **{**self.options, "evaluator": scorer})


class _SharingOne(gymnasium.vector.SyncVectorEnv):
    def __init__(self, scorer: Scorer, made: Iterable[Callable[[], KernelEnv]]) -> None:
        self.scorer = scorer
        super().__init__([*made])

    def close_extras(self, **options: Any) -> None:
        super().close_extras(**options)
        self.scorer.close()


class _SharingAProcess(gymnasium.vector.AsyncVectorEnv):
    def __init__(self, manager: BaseManager, made: Iterable[Callable[[], KernelEnv]]) -> None:
        self.manager = manager
        super().__init__([*made], shared_memory=False, context="spawn")

    def close_extras(self, timeout: float | None = None, terminate: bool = False) -> None:
        super().close_extras(timeout, terminate)
        self.manager.shutdown()
