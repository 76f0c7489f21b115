"""A machine of a cluster: what it is, and what it does with a batch of states that came as texts.

A `Station` lives in the process of `dojoir worker`, and keeps an evaluator between batches. What comes and goes is
text (JSON, kernels as `to_text` writes them), so nothing is unpickled but the names of the functions here.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any

import dojoir
from dojoir import runtime
from dojoir.records.contexts import here
from dojoir.search.static import Static

ANSWERED = ("reference", "start", "target", "sizes", "threads", "seed", "timer", "code_limit")
"""The properties that batches must share to be answered by one evaluator."""


def about(dask_worker: Any) -> str:
    """The description of a Dask worker, as JSON: its version of dojoir and its device; neither for one that is not
    ours."""
    station = getattr(dask_worker, "station", None)
    return json.dumps(
        {} if station is None else {"version": dojoir.__version__, "device": station.device, "pid": station.pid}
    )


def answer(order: str) -> str:
    """The result of the states of an order: a task of a Dask worker that `dojoir worker` started."""
    from distributed import get_worker

    return json.dumps(get_worker().station.answer(json.loads(order)))


class Station:
    """Evaluates batches on one device. `close` ends its processes."""

    def __init__(self, device: str, pid: int) -> None:
        self.device, self.pid = device, pid
        self.evaluator: Any = None
        self.context = ""
        self.timed: dict[str, runtime.Evaluation] = {}

    def answer(self, order: Mapping[str, Any]) -> dict[str, Any]:
        """An order has what ANSWERED names, `version`, `states` or `noise`, and `best` where there is one. The
        answer has `states` and the `context` of this machine, `noise`, or why the order was `refused`."""
        if order["version"] != dojoir.__version__:
            return {"refused": f"it has dojoir {dojoir.__version__}, and the search {order['version']}"}
        try:
            self._ready(order)
            if "noise" in order:
                return {"noise": self.evaluator.noise(dojoir.parse(order["noise"]))}
            kernels = [dojoir.parse(text) for text in order["states"]]
            rival = dojoir.parse(order["best"] or order["start"])
            states = [found.to_json() for found in self._evaluated(kernels, rival)]
            return {"states": states, "context": self._context(order)}
        except dojoir.DojoError as error:
            return {"refused": error.diagnostic.message}

    def _ready(self, order: Mapping[str, Any]) -> None:
        """Makes the evaluator the one that an order asks for."""
        context = json.dumps([order[name] for name in ANSWERED])
        if context == self.context:
            return
        self.close()
        sizes, threads = order["sizes"], order["threads"]
        if order["timer"] == "static":
            made: Any = Static(order["target"], sizes, threads)
        else:
            reference = dojoir.parse(order["reference"])
            made = dojoir.Evaluator(
                reference, order["target"], sizes, threads=threads, seed=order["seed"],
                code_limit=order["code_limit"],
            )  # fmt: skip
        made.__enter__()
        self.evaluator, self.context, self.timed = made, context, {}

    def _context(self, order: Mapping[str, Any]) -> dict[str, Any]:
        """This machine, as a database writes it."""
        protocol = getattr(self.evaluator, "protocol", "static")
        kernel = dojoir.parse(order["reference"])
        return vars(here(order["target"], order["sizes"], order["threads"], protocol, kernel))

    def close(self) -> None:
        """Ends the evaluator, if there is one."""
        if self.evaluator is not None:
            self.evaluator.close()
        self.evaluator, self.context = None, ""

    def _evaluated(self, kernels: list[dojoir.Kernel], rival: dojoir.Kernel) -> Iterator[runtime.Evaluation]:
        """Each with a ratio to the rival as it runs on this machine: seconds of one machine say nothing on
        another."""
        if rival.hash not in self.timed:
            (self.timed[rival.hash],) = self.evaluator.evaluate([rival])
        for found in self.evaluator.evaluate(kernels, rival):
            self.timed[found.hash] = found
            yield beside(found, self.timed[rival.hash])


def beside(found: runtime.Evaluation, rival: runtime.Evaluation) -> runtime.Evaluation:
    """An evaluation with the ratio to another of the same machine, where both were timed and it has none from a
    race."""
    if found.ratio is not None or not found.seconds or not rival.seconds:
        return found
    (low, high), (best, worst) = (one.interval or (one.seconds or 0.0,) * 2 for one in (found, rival))
    around = (best / max(high, 1e-12), worst / max(low, 1e-12))
    return replace(found, ratio=rival.seconds / found.seconds, ratio_interval=around)
