"""The moves: small rewrites of a kernel, each offered only where the checker proves that the meaning stays."""

from __future__ import annotations

from dojoir.dataflow import Verdict
from dojoir.passes.catalogue import MOVES, parse_move
from dojoir.passes.engine import apply, candidates, check, moves, suggest
from dojoir.passes.move import Move
from dojoir.passes.pipeline import parse_pipeline
from dojoir.passes.trace import Step, Trace, certify

__all__ = [
    "MOVES",
    "Move",
    "Step",
    "Trace",
    "Verdict",
    "apply",
    "candidates",
    "certify",
    "check",
    "moves",
    "parse_move",
    "parse_pipeline",
    "suggest",
]
