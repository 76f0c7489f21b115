"""An evaluator with a memory: what a database knows of a state is not done again, and what is new is written there.

A run that is resumed asks for the same states in the same order, gets them from the database, and goes on where it
was stopped. A database that fails ends no search: it is not asked any more, and `lost` says why.
"""

from __future__ import annotations

import contextlib
import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

import dojoir
from dojoir import runtime
from dojoir.records import Context
from dojoir.search.variation import made

MOST_HINTS = 3
"""How many traces of the database are among the starts."""

MOST_RELATIVES = 4
"""Of how many kernels that are built alike the fastest trace is known to the strategies."""


class Remembering:
    """Stands before an evaluator. `db` is a `dojoir.records.Database`; `about` is what must agree, `run` the name
    of the run that is written or resumed.

    An evaluator with `contexts` (a cluster) says by them where each state was timed: what it found is written, and
    nothing of this machine is taken for it."""

    def __init__(
        self,
        evaluator: Any,
        db: Any,
        kernel: dojoir.Kernel,
        target: str,
        sizes: Sequence[Mapping[str, int]],
        threads: int,
        protocol: str,
        run: str | None,
        settings: Mapping[str, object],
    ) -> None:
        self.evaluator, self.db, self.kernel, self.target = evaluator, db, kernel, target
        self.about = {"sizes": [dict(one) for one in sizes], "threads": threads, "protocol": protocol}
        self.contexts: Mapping[str, Context] | None = getattr(evaluator, "contexts", None)
        self.lost = ""
        self.from_memory: dict[str, str] = {}  # the hash of a state, and the status that the database has
        self.run: str = db.begin(kernel, json.loads(as_json(settings)), run)

    def __enter__(self) -> Remembering:
        self.evaluator.__enter__()
        return self

    def __exit__(self, *error: Any) -> None:
        self.evaluator.__exit__(*error)

    def noise(self, kernel: dojoir.Kernel) -> float:
        """That of the evaluator."""
        found: float = self.evaluator.noise(kernel)
        return found

    def __getattr__(self, name: str) -> Any:
        return getattr(self.evaluator, name)

    def evaluate(
        self, kernels: Iterable[dojoir.Kernel], best: dojoir.Kernel | None = None
    ) -> Iterator[runtime.Evaluation]:
        """The results of the evaluator, and those that are known without it."""
        ready: list[runtime.Evaluation] = []

        def unknown() -> Iterator[dojoir.Kernel]:
            for kernel in kernels:
                found = self._known(kernel.hash)
                if found is None:
                    yield kernel
                else:
                    ready.append(found)

        for evaluation in self.evaluator.evaluate(unknown(), best):
            while ready:
                yield ready.pop(0)
            yield evaluation
        yield from ready

    def _known(self, hash: str) -> runtime.Evaluation | None:
        if self.lost or self.contexts is not None:
            return None
        try:
            found: runtime.Evaluation | None = self.db.known(self.kernel, hash, self.target, **self.about)
        except dojoir.RunError as error:
            self.lost = error.diagnostic.message
            return None
        if found is None:
            return None
        self.from_memory[hash] = found.status
        if found.status == "build-failed":  # it may have had fewer characters or steps to take
            return None
        return found

    def note(self, trace: dojoir.Trace, evaluation: runtime.Evaluation, of_run: bool = True) -> None:
        """Writes what was found out of a state, unless the database has it; as one of the run, or beside it."""
        if not self.lost and self.from_memory.get(evaluation.hash) != evaluation.status:
            context = {} if self.contexts is None else {"context": self.contexts.get(evaluation.hash)}
            run = self.run if of_run else None
            self._write(lambda: self.db.record(trace, evaluation, self.target, **self.about, run=run, **context))

    def drew(self, trace: dojoir.Trace, moves: Sequence[tuple[str, str]], listed: bool = False) -> None:
        """Writes what was drawn at a trace, with the verdicts; or a full list of what is legal there."""
        if not self.lost and trace.is_safe:
            self._write(lambda: self.db.drew(self.run, trace, moves, listed))

    def list_moves(self, trace: dojoir.Trace) -> None:
        """Writes all moves that are legal at a trace."""
        with contextlib.suppress(dojoir.DojoError):
            self.drew(
                trace, [(str(move), "legal") for move in dojoir.moves(trace.kernel, self.target)], listed=True
            )

    def end(self, stopped: str, best: dojoir.Trace) -> tuple[str, ...]:
        """Writes how a run ended; gives what there is to tell of the database."""
        if not self.lost:
            self._write(lambda: self.db.end(self.run, stopped, best))
        if self.lost:
            return (f"not all was written: {self.lost}",)
        known = f", {len(self.from_memory)} states were known" if self.from_memory else ""
        return (f"run {self.run}{known}",)

    def _write(self, write: Any) -> None:
        try:
            write()
        except dojoir.DojoError as error:  # it failed, or another has pruned the run
            self.lost = error.diagnostic.message


def starts_of_alike(
    db: Any, kernel: dojoir.Kernel, target: str, starts: Sequence[dojoir.Trace], run: str | None
) -> list[dojoir.Trace]:
    """The fastest traces of the kernel that a database has, from any machine, beside the starts: where to begin,
    and no results. A run that goes on begins with those that it began with before."""
    with contextlib.suppress(dojoir.RunError):
        kept = None
        if run is not None:
            with contextlib.suppress(dojoir.ArgumentError):  # it is a new one
                kept = db.settings(run).get("hints")
        if kept is None:
            known = {trace.kernel.hash for trace in starts}
            found: list[dojoir.Trace] = db.hints(kernel, target, MOST_HINTS)
            return [trace for trace in found if trace.kernel.hash not in known]
        return [made(kernel, moves) for moves in kept]
    return []


def check_same_run(db: Any, run: str, settings: Mapping[str, object]) -> None:
    """Raises ArgumentError, `another-run`, where a run of this name is there that was begun with other settings: it
    would not go on, but be another one under the same name."""
    try:
        begun = db.settings(run)
    except (dojoir.ArgumentError, dojoir.RunError):  # it is a new one, or that is told where the run is begun
        return
    now = {name: one for name, one in json.loads(as_json(settings)).items() if name != "hints" and name in begun}
    check_same(f"the run {run}", begun, now, "another-run")


def check_same(what: str, begun: Mapping[str, Any], now: Mapping[str, Any], code: str) -> None:
    """Raises ArgumentError where what goes on was begun with other settings than it has now."""
    other = [name for name in now if begun.get(name) != now[name]]
    if other:
        told = ", ".join(f"{name} {json.dumps(begun.get(name))}, not {json.dumps(now[name])}" for name in other)
        raise dojoir.ArgumentError(f"{what} was begun with {told}: go on with the same, or name another", code)


def as_json(settings: Mapping[str, object]) -> str:
    """Settings as a run keeps them; what is no data by the name of its type."""
    return json.dumps(
        dict(settings), sort_keys=True, default=lambda value: getattr(value, "__name__", type(value).__name__)
    )


def fastest(
    db: Any, kernel: dojoir.Kernel, target: str, about: Mapping[str, Any], run: str | None
) -> list[dojoir.Trace]:
    """The lower bound of a search's result: the fastest that a database knows for a kernel here, the earlier
    result of the run, and the result of `optimize`. The last is timed and written so that the database can be
    compared with it. `about` has the sizes, the threads and the protocol. A database that fails knows nothing."""
    found: list[dojoir.Trace] = []
    with contextlib.suppress(dojoir.DojoError):
        best = db.best(kernel, target, **about)
        found += [best] if best is not None else []
    with contextlib.suppress(dojoir.DojoError):
        came_to = None if run is None else db.outcome(run)
        found += [came_to] if came_to is not None else []
    with contextlib.suppress(dojoir.DojoError):  # of a folder of schedules, which is the caller's
        if about["protocol"] != "static" and len(about["sizes"]) == 1:
            found.append(dojoir.optimize(kernel, target, sizes=about["sizes"][0], threads=about["threads"]))
    return list({trace.kernel.hash: trace for trace in found if trace.start == kernel and trace.is_safe}.values())


def relatives(db: Any, kernel: dojoir.Kernel, target: str) -> list[dojoir.Trace]:
    """The fastest traces that a database has of kernels that are built alike; none where it cannot tell."""
    with contextlib.suppress(dojoir.RunError):
        found: list[dojoir.Trace] = db.relatives(kernel, target, MOST_RELATIVES)
        return found
    return []
