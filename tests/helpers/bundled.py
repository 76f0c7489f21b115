"""Bundles for tests: of a search that runs nothing, or of a bench whose samples are made up."""

from __future__ import annotations

import random
import statistics
from collections.abc import Sequence
from pathlib import Path

import dojoir
from dojoir.evidence.bundle import BENCH, GATES, Judged
from dojoir.evidence.figures import Bench, Interval, Shape, Times
from dojoir.evidence.gates import Gate, Gates
from dojoir.evidence.reading import Bundle, read
from dojoir.evidence.writing import Writer, recorded, store_of
from dojoir.records import Database

SIZES = {"N": 4096}
MOVES = ("split(0, 16)", "vectorize(0.0)")


def traced(name: str = "relu", moves: Sequence[str] = MOVES) -> dojoir.Trace:
    trace = dojoir.Trace(dojoir.kernels.load(name))
    for move in moves:
        trace.apply(move)
    return trace


def samples(seconds: float, seed: int, count: int = 30) -> tuple[float, ...]:
    draw = random.Random(seed)
    return tuple(seconds * draw.uniform(0.99, 1.01) for _ in range(count))


def timed(name: str, found: tuple[float, ...], own: tuple[float, ...] | None = None) -> Times:
    quarters = statistics.quantiles(found, n=4, method="inclusive")
    ratio = None
    if own is not None:
        pairs = [a / b for a, b in zip(found, own, strict=True)]
        ratio = Interval(statistics.median(pairs), min(pairs), max(pairs))
    middle, ends = statistics.median(found), (min(found), max(found))
    return Times(name, middle, *ends, quarters[0], quarters[2], len(found), found, ratio, 0.0)


def benched(kernel: dojoir.Kernel, seconds: float = 1e-5, seed: int = 0) -> Bench:
    own = samples(seconds, seed)
    shape = Shape(SIZES, "ok", own=timed(kernel.name, own), noise=Interval(1.0, 0.99, 1.01),
                  peers=(timed("text", samples(2 * seconds, seed + 1), own),))  # fmt: skip
    return Bench(
        kernel.name, kernel.hash, "llvm", 1, "synthetic", "a machine", "dojoir", "pass", "", (shape,)
    )  # fmt: skip


def bench_bundle(
    runs: Path, trace: dojoir.Trace, seconds: float = 1e-5, parent: str | None = None, fails: bool = False
) -> Bundle:
    """A bundle of a bench whose samples are made up."""
    with recorded(
        runs, "bench", trace, target="llvm", sizes=[SIZES], threads=1, settings={"seed": 0}, parent=parent
    ) as writer:  # fmt: skip
        writer.data(BENCH, benched(trace.kernel, seconds))
        said = Gate("correct", "fail" if fails else "pass", "as it was told", "verify.json")
        gates = Gates(trace.start.name, trace.kernel.hash, "llvm", 1, (SIZES,), 0, (said,))
        writer.data(GATES, gates)
        writer.note(gates=tuple(Judged(one.name, one.status, one.reason, one.file) for one in gates.gates))
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
