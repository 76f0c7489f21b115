"""The moves: small rewrites of a kernel, each offered only where the checker proves that the meaning stays."""

from __future__ import annotations

from dojoir.passes.base.move import Move
from dojoir.passes.engine.catalogue import MOVES, parse_move
from dojoir.passes.engine.drawing import draw
from dojoir.passes.engine.engine import apply, candidates, check, moves
from dojoir.passes.engine.located import find, one
from dojoir.passes.engine.suggestions import suggest
from dojoir.passes.engine.trace import Step, Trace, certify
from dojoir.passes.schedule.combinators import (
    Pass,
    attempt,
    each,
    every,
    first,
    moves_named,
    named_pass,
    repeat,
    sequence,
)
from dojoir.passes.schedule.loading import load_passes
from dojoir.passes.schedule.pipeline import COMBINATORS, PASSES, parse_pipeline
from dojoir.proof.check import Verdict

__all__ = [
    "COMBINATORS",
    "MOVES",
    "PASSES",
    "Move",
    "Pass",
    "Step",
    "Trace",
    "Verdict",
    "apply",
    "attempt",
    "candidates",
    "certify",
    "check",
    "draw",
    "each",
    "every",
    "find",
    "first",
    "load_passes",
    "moves",
    "moves_named",
    "named_pass",
    "one",
    "parse_move",
    "parse_pipeline",
    "repeat",
    "sequence",
    "suggest",
]
