"""`dojoir tune`: a search in one command."""

from __future__ import annotations

import argparse
import contextlib
import json
import runpy
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import dojoir
from dojoir import runtime
from dojoir.cli.error_report import report
from dojoir.cli.streams import say
from dojoir.support.files import write_file
from dojoir.verbs import models
from dojoir.verbs.kernel_options import answered, check_writable, database_of, kernel_of, sizes_of, told
from dojoir.verbs.recording import LIMITS, bundled, finished, store_of

if TYPE_CHECKING:
    from dojoir.evidence.writing import Writer


def tune(options: argparse.Namespace) -> int:
    """Searches, says on stderr what gets better, and writes what came out. Raises DojoError."""
    kernel = kernel_of(options)
    sizes = sizes_of(options, kernel)
    strategy = _strategy(options)
    if not options.strategy.startswith("llm:"):
        models.options_of(options, options.strategy)
    for path in (options.save_trace, options.output, options.chat):
        if path:
            check_writable(path)
    with contextlib.ExitStack() as stack:
        writer = None
        if options.runs_folder is None:
            database = database_of(options, needed=options.resume is not None)
        else:
            database = stack.enter_context(store_of(options))
            writer = stack.enter_context(bundled(options, kernel, sizes, database))
        folder = None if writer is None else writer.folder
        tuned = dojoir.tune(
            kernel, options.target, sizes=sizes, strategy=strategy, budget=_budget(options), seed=options.seed,
            threads=options.threads, workers=options.workers, cluster=options.cluster, timer=options.timer,
            cost_model=options.cost_model, options=models.options_of(options, options.strategy, folder),
            db=database, run=options.resume if writer is None else writer.run.database, store=options.store,
            progress=_Progress(options.json, writer), list_moves=options.list_moves,
        )  # fmt: skip
        if writer is not None:
            finished(writer, tuned, options)
        elif database is not None:
            database.close()
            told(options)(_used(options, database.name, tuned))
    answered(options, {"tuned": _facts(tuned)}, _told(tuned))
    return _written(options, tuned.trace)


def _used(options: argparse.Namespace, name: str, tuned: dojoir.search.Tuned) -> str:
    """The line that says how what was recorded in a database is used."""
    seen = f"recorded in {name}: dojoir db show {tuned.trace.kernel.hash[:12]}, db top and db runs show it"
    if options.timer == "static":
        return f"{seen}; estimates are no times, so that optimize does not use them"
    return f"{seen}; dojoir.optimize(kernel, sizes=..., db=dojoir.records.Database(...)) uses the fastest"


def _written(options: argparse.Namespace, trace: dojoir.Trace) -> int:
    """Writes the requested files; returns 1 if one of them failed. The others are written, and the result is on
    stdout already."""
    status = 0
    writers = (
        (options.save_trace, trace.save),
        (options.output, lambda path: write_file(path, str(trace.kernel))),
    )
    for path, write in writers:
        if path:
            try:
                write(path)
            except dojoir.DojoError as error:
                report(error, options.json)
                status = 1
    return status


def _budget(options: argparse.Namespace) -> dojoir.Budget:
    given = {name: getattr(options, name) for name in LIMITS}
    if all(value is None for value in given.values()):
        given["seconds"] = 60.0
    return dojoir.Budget(**given)


def _strategy(options: argparse.Namespace) -> Any:
    """The strategy for `dojoir.tune`: a name, or a class of a file of the user's or of an agent that learned."""
    name: str = options.strategy
    if options.load:
        try:
            names = runpy.run_path(options.load)
        except Exception as error:
            reason = f"{type(error).__name__}: {error}"
            raise dojoir.ArgumentError(f"cannot load {options.load}: {reason}", "cannot-read") from None
        if name not in names:
            raise dojoir.ArgumentError(
                f"{options.load} has no class {name}: name it with --strategy", "unknown-strategy"
            )
        return names[name]
    return name


QUIET_SECONDS = 15.0
"""Where nothing faster was found for so long, progress is told all the same."""


class _Progress:
    """Says on stderr when something faster was found, and now and then how many states there were, and how many in
    a minute."""

    def __init__(
        self, as_json: bool, writer: Writer | None = None, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self.as_json, self.count, self.best, self.writer = as_json, 0, 0.0, writer
        self.moves, self.clock, self.begun, self.said = 0, clock, clock(), clock()

    def __call__(self, evaluation: runtime.Evaluation, trace: dojoir.Trace, speed: float) -> None:
        self.count += 1
        if self.writer is not None:
            self.writer.states()
        faster, now = speed > self.best * 1.001, self.clock()
        if faster:
            self.best, self.moves = speed, len(trace.moves)
        elif now - self.said < QUIET_SECONDS:
            return
        self.said = now
        rate = 60 * self.count / max(now - self.begun, 1e-3)
        about = {"states": self.count, "speed": self.best, "moves": self.moves, "hash": evaluation.hash}
        if self.writer is not None and faster:
            self.writer.event("faster", **about)
        line = f"{self.count:6} states, {self.best:.2f}x as fast as the start after {self.moves} moves"
        line += f"; {rate:.0f} states a minute" if self.count > 1 else ""
        if faster:
            say(json.dumps({"progress": about | {"states_a_minute": round(rate)}}) if self.as_json else line)
        elif not self.as_json:
            say(line)

    def checking(self, trace: dojoir.Trace, speed: float) -> None:
        """Says that the search is over, and its answer looked at."""
        about = {"checking": {"speed": speed, "moves": len(trace.moves), "hash": trace.kernel.hash}}
        line = f"checking the answer: {len(trace.moves)} moves, {speed:.2f}x as fast as the start"
        if self.writer is not None:
            self.writer.event("checking", **about["checking"])
        say(json.dumps({"progress": about}) if self.as_json else line)


def _told(tuned: dojoir.search.Tuned) -> str:
    moves = "".join(f"{move}\n" for move in tuned.trace.moves)
    head = "".join(f"# {line}\n" for line in str(tuned).splitlines())
    return head + moves


def _facts(tuned: dojoir.search.Tuned) -> dict[str, Any]:
    def gain(one: dojoir.search.Gain | None) -> dict[str, float | None] | None:
        if one is None:
            return None
        low, high = one.interval or (None, None)
        return {"median": one.median, "low": low, "high": high}

    return {
        "kernel": tuned.trace.start.name,
        "start": tuned.trace.start.hash,
        "result": tuned.trace.kernel.hash,
        "moves": [str(move) for move in tuned.trace.moves],
        "ratio": gain(tuned.ratio),
        "ratio_to_optimize": gain(tuned.ratio_to_optimize),
        "stopped": tuned.stopped,
        "states": len(tuned.states),
        "statuses": {status: sum(one.status == status for one in tuned.states)
                     for status in sorted({one.status for one in tuned.states})},
        "spent": dict(tuned.spent),
        "notes": list(tuned.notes),
    }  # fmt: skip
