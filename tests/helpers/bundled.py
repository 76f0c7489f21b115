"""Bundles for tests: of a search that runs nothing, or of a bench whose samples are made up."""

from __future__ import annotations

import random
from collections.abc import Sequence
from pathlib import Path

import dojoir
from dojoir.evidence.benching import bench_of
from dojoir.evidence.bundle import BENCH, GATES, Gate
from dojoir.evidence.bundle_reading import Bundle, read
from dojoir.evidence.figures import ITSELF, Bench, ComparisonReport, Shape, timed
from dojoir.evidence.gates import GateFindings, Gates, is_correct
from dojoir.evidence.writing import Writer, recorded, store_of
from dojoir.records import Database

SIZES = {"N": 4096}
REPORTS = (ComparisonReport({}, "ok", 3), ComparisonReport(SIZES, "ok", 3))
MOVES = ("split(0, 16)", "vectorize(0.0)")


def traced(name: str = "relu", moves: Sequence[str] = MOVES) -> dojoir.Trace:
    trace = dojoir.Trace(dojoir.kernels.load(name))
    for move in moves:
        trace.apply(move)
    return trace


def samples(seconds: float, seed: int, count: int = 30) -> tuple[float, ...]:
    draw = random.Random(seed)
    return tuple(seconds * draw.uniform(0.99, 1.01) for _ in range(count))


def benched(kernel: dojoir.Kernel, seconds: float = 1e-5, seed: int = 0) -> Bench:
    """A bench whose samples are made up, and whose figures follow from them."""
    names = {kernel.name: (seconds, seed), ITSELF: (seconds, seed + 2), "text": (2 * seconds, seed + 1)}
    own, itself, text = (timed(name, samples(*given), None, 0.0) for name, given in names.items())
    shape = Shape(SIZES, "ok", own=own, itself=itself, peers=(text,))
    return bench_of(kernel, "llvm", 1, "synthetic", [shape], reports=REPORTS, correct="pass", reason="")


def bench_bundle(
    runs: Path, trace: dojoir.Trace, seconds: float = 1e-5, parent: str | None = None, fails: bool = False
) -> Bundle:
    """A bundle of a bench whose samples are made up, and of a gate that passes or fails."""
    with recorded(
        runs, "bench", trace, target="llvm", sizes=[SIZES], threads=1, settings={"seed": 0}, parent=parent
    ) as writer:  # fmt: skip
        writer.data(BENCH, benched(trace.kernel, seconds))
        seen = GateFindings(
            (), correct=(ComparisonReport({}, "failed", 3, "as it was told"),) if fails else REPORTS
        )
        status, reason = is_correct(seen, [SIZES], 1)
        said = Gate("correct", status, reason, GATES)
        writer.data(GATES, Gates(trace.start.name, trace.kernel.hash, "llvm", 1, (SIZES,), 0, (said,), seen=seen))
    return read(writer.folder)


def begun(runs: Path, trace: dojoir.Trace, database: Database, name: str | None = None) -> Writer:
    """A bundle of a search, to be written as it goes."""
    return Writer.begin(
        runs, "tune", dojoir.Trace(trace.start), database, target="llvm", sizes=[SIZES], threads=1,
        settings={"seed": 0, "states": 8}, name=name,
    )  # fmt: skip


def search_bundle(runs: Path, name: str = "relu", states: int = 8, seed: int = 0) -> Bundle:
    """A bundle of a search that ranks by the text alone."""
    kernel = dojoir.kernels.load(name)
    sizes = dict.fromkeys(kernel.runtime_sizes, 64)
    with store_of(runs) as database:
        writer = Writer.begin(
            runs, "tune", dojoir.Trace(kernel), database, target="llvm", sizes=[sizes], threads=1,
            settings={"seed": seed, "states": states},
        )  # fmt: skip
        with writer:
            tuned = dojoir.tune(
                kernel, sizes=sizes, timer="static", strategy="random", budget=dojoir.Budget(states=states),
                seed=seed, db=database, run=writer.run.database, progress=lambda *_: writer.states(),
            )  # fmt: skip
            writer.answer(tuned.trace)
            writer.end("done", tuned.stopped)
    return read(writer.folder)
