"""The moves: small rewrites of a kernel, each offered only where the checker proves that the meaning stays."""

from __future__ import annotations

from dojoir.dataflow import Verdict
from dojoir.passes.catalogue import MOVES, parse_move
from dojoir.passes.combinators import Pass, attempt, each, every, first, moves_named, named_pass, repeat, sequence
from dojoir.passes.engine import apply, candidates, check, moves
from dojoir.passes.loading import load_passes
from dojoir.passes.move import Move
from dojoir.passes.pipeline import COMBINATORS, PASSES, parse_pipeline
from dojoir.passes.places import find, one
from dojoir.passes.suggestions import suggest
from dojoir.passes.trace import Step, Trace, certify

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
