"""An evaluator of many machines: states go as texts to workers of Dask, what became of them comes back.

Each machine times the rival of a state itself, and only ratios are used here. A worker takes one batch at a time.
What a lost worker had is tried once more, state by state, then it is `lost`.
"""

from __future__ import annotations

import json
import logging
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import islice
from typing import Any

import dojoir
from dojoir import runtime
from dojoir.records import Context
from dojoir.search.needs import needed
from dojoir.search.station import about, answer

BATCH = 4
"""How many states go to a worker at a time."""

TICK = 1.0
"""Seconds after which it is looked whether a worker was lost, where none has answered."""

PATIENCE = 30.0
"""Seconds that are waited for a worker where there is none."""

CONNECT = 15.0
"""Seconds that the scheduler may take to answer at first."""

TRIES = 2
"""How often a state is sent to a worker that is lost."""


@dataclass
class _Batch:
    """States that a worker has, and when it got them."""

    address: str
    kernels: list[dojoir.Kernel]


class Cluster:
    """Stands for a `dojoir.Evaluator`, with the workers that are known to the Dask scheduler at `address`. `start`
    is what states are compared with where no `best` is given.

    Raises ToolchainError: `missing-package` without `distributed`, `no-cluster` where the scheduler does not
    answer, `no-workers` where no worker comes within `patience` seconds.
    """

    def __init__(
        self,
        address: str,
        reference: dojoir.Kernel,
        start: dojoir.Kernel,
        target: str,
        sizes: Sequence[Mapping[str, int]],
        *,
        threads: int = 1,
        seed: int = 0,
        timer: str = "measure",
        code_limit: int | None = None,
        patience: float | None = None,
    ) -> None:
        self._dask: Any = needed("distributed", "cluster", "a search on a cluster")
        self.address, self.patience = address, PATIENCE if patience is None else patience
        self.device = target.partition("@")[0] if target.partition("@")[0] in ("cuda", "hip") else "cpu"
        self.context = {
            "version": dojoir.__version__, "reference": dojoir.to_text(reference), "start": dojoir.to_text(start),
            "target": target, "sizes": [dict(one) for one in sizes], "threads": threads, "seed": seed,
            "timer": timer, "code_limit": code_limit or dojoir.Evaluator.CODE_LIMIT,
        }  # fmt: skip
        self.workers: dict[str, str] = {}
        self.refused: dict[str, str] = {}
        self.lost: list[str] = []
        self.contexts: dict[str, Context] = {}
        self._client: Any = None

    # -- the connection ----------------------------------------------------------------------------------
    def __enter__(self) -> Cluster:
        logging.getLogger("distributed").setLevel(logging.CRITICAL)  # what happens to workers is told by `notes`
        try:
            self._client = self._dask.Client(self.address, timeout=CONNECT, set_as_default=False)
        except (OSError, ValueError, TimeoutError) as error:
            raise self._gone(f"does not answer ({error}): start one with dask scheduler") from None
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def close(self) -> None:
        """Leaves the cluster, whose workers stay. A second time, nothing."""
        if self._client is not None:
            self._client.close(timeout=5)
        self._client = None

    def _gone(self, what: str) -> dojoir.ToolchainError:
        return dojoir.ToolchainError(f"the Dask scheduler at {self.address} {what}", "no-cluster")

    @property
    def width(self) -> int:
        """How many states keep all workers busy."""
        return BATCH * max(1, len(self.workers))

    @property
    def notes(self) -> list[str]:
        """The notes about the workers."""
        notes = [f"worker {address} was not used: {reason}" for address, reason in self.refused.items()]
        return [*notes, *(f"worker {address} was lost" for address in self.lost)]

    def _look(self) -> None:
        """Greets workers that are new, and forgets those that are gone."""
        try:
            there = set(self._client.nthreads())
            new = sorted(there - {*self.workers, *self.refused})
            found = self._client.run(_introduce, workers=new, on_error="return") if new else {}
        except (OSError, TimeoutError, RuntimeError) as error:
            raise self._gone(f"is gone: {error}") from None
        for address, said in found.items():
            facts = json.loads(said) if isinstance(said, str) else {}
            reason = self._why_not(facts)
            if reason is None:
                self.workers[address] = facts["device"]
            else:
                self.refused[address] = reason
        for address in [*self.workers]:
            if address not in there:
                del self.workers[address]
                self.lost.append(address)

    def _why_not(self, facts: Mapping[str, str]) -> str | None:
        """Why a worker cannot be used."""
        if "version" not in facts:
            return "it was not started by dojoir worker"
        if facts["version"] != dojoir.__version__:
            return f"it has dojoir {facts['version']}, and this is {dojoir.__version__}"
        if facts["device"].partition(":")[0] != self.device:
            return f"its device is {facts['device']}, and {self.context['target']} needs {self.device}"
        return None

    # -- evaluating --------------------------------------------------------------------------------------
    def evaluate(
        self, kernels: Iterable[dojoir.Kernel], best: dojoir.Kernel | None = None
    ) -> Iterator[runtime.Evaluation]:
        """The result of each kernel, as it is known, as `Evaluator.evaluate` gives it. `ratio` is there wherever
        something was timed: to `best`, or else to the start."""
        rival = None if best is None else dojoir.to_text(best)
        return _Round(self, iter(kernels), {"best": rival}).results()

    remote = True
    """The result of a search is checked and timed once more by the workers: this machine may lack the device."""

    def noise(self, kernel: dojoir.Kernel) -> float:
        """That of the worker which answers first."""
        found = [*_Round(self, iter((kernel,)), {"noise": dojoir.to_text(kernel)}).answers()]
        return max((float(one["noise"]) for one in found if "noise" in one), default=0.0)

    def send(self, address: str, order: Mapping[str, Any]) -> Any:
        """A future of the answer of a worker."""
        return self._client.submit(
            answer, json.dumps({**self.context, **order}), workers=[address], allow_other_workers=False, pure=False,
            resources={self.device: 1},
        )  # fmt: skip

    def first_done(self, futures: Sequence[Any]) -> list[Any]:
        """Those that are done, after a moment at most."""
        try:
            with self._client.as_current():
                return [*self._dask.wait(futures, timeout=TICK, return_when="FIRST_COMPLETED").done]
        except TimeoutError:
            return []
        except (OSError, self._dask.CancelledError) as error:
            raise self._gone(f"is gone: {error}") from None


@dataclass
class _Round:
    """Some kernels on their way to workers and back."""

    cluster: Cluster
    coming: Iterator[dojoir.Kernel]
    order: Mapping[str, Any]
    again: list[dojoir.Kernel] = field(default_factory=list)
    tries: dict[str, int] = field(default_factory=dict)
    busy: dict[Any, _Batch] = field(default_factory=dict)
    given_up: list[runtime.Evaluation] = field(default_factory=list)

    def results(self) -> Iterator[runtime.Evaluation]:
        """The result of each kernel."""
        for found in self.answers():
            yield from (runtime.Evaluation.from_json(one) for one in found.get("states", ()))
            yield from self.given_up
            self.given_up.clear()
        yield from self.given_up

    def answers(self) -> Iterator[Mapping[str, Any]]:
        """The answers of workers, until nothing is on its way."""
        alone_since = time.monotonic()
        try:
            while True:
                self.cluster._look()
                self._send()
                if self.busy:
                    alone_since = time.monotonic()
                    for future in self.cluster.first_done([*self.busy]):
                        yield self._answer(future, self.busy.pop(future))
                    self._lost()
                    yield {}
                elif not self._pending():
                    return
                elif time.monotonic() - alone_since > self.cluster.patience:
                    self.cluster.patience = 0.0  # who asks again is told at once
                    raise dojoir.ToolchainError(self._nobody(), "no-workers")
                else:
                    time.sleep(TICK / 10)
        finally:
            for future in self.busy:
                future.cancel()

    def _pending(self) -> bool:
        """Whether there is a state to send."""
        if not self.again:
            self.again += islice(self.coming, 1)
        return bool(self.again)

    def _send(self) -> None:
        """Gives each worker that has nothing to do a batch, or one of the states that a lost one had."""
        for address in self.cluster.workers.keys() - {batch.address for batch in self.busy.values()}:
            kernels = [self.again.pop()] if self.again else [*islice(self.coming, BATCH)]
            if not kernels:
                return
            order = {"states": [dojoir.to_text(kernel) for kernel in kernels], **self.order}
            self.busy[self.cluster.send(address, order)] = _Batch(address, kernels)

    def _answer(self, future: Any, batch: _Batch) -> Mapping[str, Any]:
        """The answer of a worker; what it could not do goes to another."""
        if future.status != "finished":
            self._back(batch, "the worker that had it was lost")
            return {}
        found: dict[str, Any] = json.loads(future.result())
        if "refused" in found:
            self.cluster.workers.pop(batch.address, None)
            self.cluster.refused[batch.address] = found["refused"]
            self._back(batch, found["refused"])
        for one in found.get("states", ()):
            self.cluster.contexts[one["hash"]] = Context(**found["context"])
        return found

    def _lost(self) -> None:
        """Takes back what workers had that are gone."""
        for future, batch in [*self.busy.items()]:
            if batch.address not in self.cluster.workers:
                future.cancel()
                del self.busy[future]
                self._back(batch, "the workers that had it were lost")

    def _back(self, batch: _Batch, reason: str) -> None:
        for kernel in batch.kernels:
            self.tries[kernel.hash] = self.tries.get(kernel.hash, 0) + 1
            if self.tries[kernel.hash] < TRIES:
                self.again.append(kernel)
            else:
                self.given_up.append(runtime.Evaluation(kernel.hash, "lost", reason=reason))

    def _nobody(self) -> str:
        known = "; ".join(self.cluster.notes) or f"start one with dojoir worker {self.cluster.address}"
        return f"there is no worker for {self.cluster.device} at {self.cluster.address}: {known}"


def _introduce(dask_worker: Any) -> str:
    """Runs on a worker: Dask gives it that worker by the name of the argument."""
    return about(dask_worker)
