"""How fast a state is: asked of an evaluator once, then of memory, then of the database."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Literal, Protocol

import dojoir
from dojoir import runtime
from dojoir.game.environment_arguments import database_of
from dojoir.search import Static
from dojoir.search.tuning import code_limit
from dojoir.support.public import public

Sizes = Mapping[str, int]
Timer = Literal["measure", "static"]

RACE_SECONDS = 0.05
"""How long a state is timed at most: a game goes through many, and what it is to know is which are much faster."""


class Evaluates(Protocol):
    """The method of an evaluator: `dojoir.Evaluator` has it, and a class of the user's own may."""

    def evaluate(
        self, kernels: Iterable[dojoir.Kernel], best: dojoir.Kernel | None = None
    ) -> Iterator[runtime.Evaluation]: ...


class Scorer:
    """Evaluations of the states of one or several kernels, each made once. `timer` is `measure` or `static`; `db` a
    database that they are read from and written to; `given` an evaluator of the caller's, for all kernels."""

    @public
    def __init__(
        self,
        target: str = "llvm",
        *,
        timer: Timer = "measure",
        threads: int = 1,
        seed: int = 0,
        db: Any = None,
        given: Evaluates | None = None,
    ) -> None:
        self.target, self.timer, self.threads, self.seed, self.given = target, timer, threads, seed, given
        self.db = database_of(db)
        self._open: dict[tuple[str, tuple[tuple[str, int], ...]], Any] = {}
        self._known: dict[tuple[Any, ...], runtime.Evaluation] = {}

    @property
    def protocol(self) -> str:
        """The name of the way of timing, for the database."""
        return "static" if self.timer == "static" else dojoir.Evaluator.PROTOCOL

    def known(self, trace: dojoir.Trace, sizes: Sizes) -> runtime.Evaluation | None:
        """The evaluation of the last kernel of a trace, where there was one before."""
        key = (trace.start.hash, tuple(sorted(sizes.items())), trace.kernel.hash)
        if key not in self._known and self.db is not None:
            found = self.db.known(
                trace.start, trace.kernel.hash, self.target, sizes=dict(sizes), threads=self.threads,
                protocol=self.protocol,
            )  # fmt: skip
            if found is not None:
                self._known[key] = found
        return self._known.get(key)

    def score(self, trace: dojoir.Trace, sizes: Sizes) -> runtime.Evaluation:
        """The evaluation of the last kernel of a trace. Raises ToolchainError or RunError where nothing can be
        built or run here at all."""
        found = self.known(trace, sizes)
        if found is None:
            found = self.evaluated(trace, sizes)
            if found.hash != trace.kernel.hash:
                message = f"the evaluator answered for {found.hash}, and was asked for {trace.kernel.hash}"
                raise dojoir.RunError(message, "another-state")
            key = (trace.start.hash, tuple(sorted(sizes.items())), trace.kernel.hash)
            self._known[key] = found
            if self.db is not None and trace.is_safe:
                self.db.record(
                    trace, found, self.target, sizes=dict(sizes), threads=self.threads, protocol=self.protocol
                )  # fmt: skip
        return found

    def least(self, kernel: dojoir.Kernel, sizes: Sizes) -> float:
        """The seconds that no schedule of a kernel takes less than: by the ceilings that this machine was measured
        to have, or, where nothing is timed and on a GPU, by the model of the machine (`dojoir.search.floor`)."""
        machine = dojoir.machine_for(self.target)
        if self.timer == "static" or machine.kind == "gpu":
            return dojoir.search.floor(kernel, sizes, self.target, self.threads)
        counts, top = dojoir.cost(kernel).at(**sizes), runtime.ceilings().at(self.threads)
        streamed = counts.bytes / top.memory if counts.bytes > machine.held else 0.0
        return max(counts.flops / top.fma_f32, streamed, 1.0) / 1e9

    def evaluated(self, trace: dojoir.Trace, sizes: Sizes) -> runtime.Evaluation:
        """The evaluation of the last kernel of a trace, asked anew."""
        found = [*self._evaluator(trace.start, trace.kernel, sizes).evaluate([trace.kernel])]
        if len(found) != 1:
            message = f"the evaluator gave {len(found)} evaluations of one state"
            raise dojoir.RunError(message, "another-state")
        return found[0]

    def _evaluator(self, kernel: dojoir.Kernel, state: dojoir.Kernel, sizes: Sizes) -> Evaluates:
        """The evaluator of the states of a kernel, the first of which is `state`."""
        if self.given is not None:
            return self.given
        key = (kernel.hash, tuple(sorted(sizes.items())))
        if key not in self._open:
            while len(self._open) >= 4:  # each has a process
                self._open.pop(next(iter(self._open))).close()
            made: Any
            if self.timer == "static":
                made = Static(self.target, sizes, self.threads)
            else:
                limit = code_limit([state], self.target)
                made = dojoir.Evaluator(
                    kernel, self.target, [dict(sizes)], threads=self.threads, seed=self.seed, code_limit=limit,
                    race_seconds=RACE_SECONDS,
                )  # fmt: skip
                made.__enter__()
            self._open[key] = made
        evaluator: Evaluates = self._open[key]
        return evaluator

    def __getstate__(self) -> dict[str, Any]:
        """The evaluations, without the processes that made them: a copy starts its own. A database is opened
        anew."""
        url = None if self.db is None else str(self.db.url.render_as_string(hide_password=False))
        return {**vars(self), "_open": {}, "db": url}

    def __setstate__(self, state: dict[str, Any]) -> None:
        vars(self).update(state)
        self.db = database_of(self.db)

    def close(self) -> None:
        """Ends the processes of its own evaluators."""
        for one in self._open.values():
            one.close()
        self._open.clear()
