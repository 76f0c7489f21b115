"""What the tests of the database are made of: results of states, without timing any."""

from __future__ import annotations

from random import Random

import dojoir
from dojoir.runtime import Evaluation


def walk(name: str, seed: int, length: int) -> dojoir.Trace:
    """A random walk of legal moves from a library kernel."""
    random = Random(seed)
    trace = dojoir.Trace(dojoir.kernels.load(name))
    while len(trace.moves) < length:
        candidates = dojoir.candidates(trace.kernel, "llvm")
        move = random.choice(candidates)
        if dojoir.check(trace.kernel, move):
            trace.apply(move)
    return trace


def result(trace: dojoir.Trace, seconds: float = 1e-3, status: str = "ok", digest: str = "d") -> Evaluation:
    """What an evaluation of the last kernel of a trace could give."""
    timed = status == "ok"
    return Evaluation(
        trace.kernel.hash,
        status,
        seconds if timed else None,
        (seconds, seconds) if timed else None,
        (seconds,) if timed else (),
        3 if status in ("ok", "cut") else 0,
        digest,
        {"build": 0.1},
        "" if timed else "why",
    )
