"""The moves: small rewrites of a kernel, each offered only where the checker proves that the meaning stays.

Each name is imported when it is first used.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from dojoir.support.lazily import lazily

if TYPE_CHECKING:
    from dojoir.passes.base.move import Move
    from dojoir.passes.engine.catalogue import MOVES, parse_move
    from dojoir.passes.engine.certifying import certify
    from dojoir.passes.engine.drawing import draw
    from dojoir.passes.engine.engine import apply, candidates, check, moves
    from dojoir.passes.engine.located import find, one
    from dojoir.passes.engine.step import Step
    from dojoir.passes.engine.suggestions import suggest
    from dojoir.passes.engine.trace import Trace
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

__all__ = [
    "COMBINATORS", "MOVES", "PASSES", "Move", "Pass", "Step", "Trace", "Verdict", "Version", "Versions",
    "apply", "attempt", "candidates", "certify", "check", "draw", "each", "every", "find", "first",
    "load_passes", "moves", "moves_named", "named_pass", "one", "parse_move", "parse_pipeline", "repeat",
    "sequence", "suggest",
]  # fmt: skip
__getattr__, __dir__ = lazily(__name__)
