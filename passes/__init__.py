"""The moves: small rewrites of a kernel, each offered only where the checker proves that the meaning stays.

Each name is imported when it is first used.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from dojoir.passes.base.move import Move
    from dojoir.passes.engine.catalogue import MOVES, parse_move
    from dojoir.passes.engine.certifying import certify
    from dojoir.passes.engine.drawing import draw
    from dojoir.passes.engine.engine import apply, candidates, check, moves
    from dojoir.passes.engine.located import find, one
    from dojoir.passes.engine.suggestions import suggest
    from dojoir.passes.engine.trace import Step, Trace
    from dojoir.passes.engine.versions import Version, Versions
    from dojoir.passes.schedule.loading import load_passes
    from dojoir.passes.schedule.pipeline import COMBINATORS, PASSES, parse_pipeline
    from dojoir.passes.schedule.steps.combinators import (
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
    from dojoir.proof.verdict import Verdict

_HOME = {
    "COMBINATORS": "dojoir.passes.schedule.pipeline",
    "MOVES": "dojoir.passes.engine.catalogue",
    "Move": "dojoir.passes.base.move",
    "PASSES": "dojoir.passes.schedule.pipeline",
    "Pass": "dojoir.passes.schedule.steps.combinators",
    "Step": "dojoir.passes.engine.trace",
    "Trace": "dojoir.passes.engine.trace",
    "Verdict": "dojoir.proof.verdict",
    "Version": "dojoir.passes.engine.versions",
    "Versions": "dojoir.passes.engine.versions",
    "apply": "dojoir.passes.engine.engine",
    "attempt": "dojoir.passes.schedule.steps.combinators",
    "candidates": "dojoir.passes.engine.engine",
    "certify": "dojoir.passes.engine.certifying",
    "check": "dojoir.passes.engine.engine",
    "draw": "dojoir.passes.engine.drawing",
    "each": "dojoir.passes.schedule.steps.combinators",
    "every": "dojoir.passes.schedule.steps.combinators",
    "find": "dojoir.passes.engine.located",
    "first": "dojoir.passes.schedule.steps.combinators",
    "load_passes": "dojoir.passes.schedule.loading",
    "moves": "dojoir.passes.engine.engine",
    "moves_named": "dojoir.passes.schedule.steps.combinators",
    "named_pass": "dojoir.passes.schedule.steps.combinators",
    "one": "dojoir.passes.engine.located",
    "parse_move": "dojoir.passes.engine.catalogue",
    "parse_pipeline": "dojoir.passes.schedule.pipeline",
    "repeat": "dojoir.passes.schedule.steps.combinators",
    "sequence": "dojoir.passes.schedule.steps.combinators",
    "suggest": "dojoir.passes.engine.suggestions",
}

__all__ = [
    "COMBINATORS",
    "MOVES",
    "PASSES",
    "Move",
    "Pass",
    "Step",
    "Trace",
    "Verdict",
    "Version",
    "Versions",
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


def __getattr__(name: str) -> object:
    if name not in _HOME:
        raise AttributeError(f"module 'dojoir.passes' has no attribute {name!r}")
    value = getattr(importlib.import_module(_HOME[name]), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *_HOME})
