"""Fused multiply-adds."""

from __future__ import annotations

from dojoir.ir.nodes import Path
from dojoir.passes.base.move import place_of
from dojoir.passes.engine.trace import Trace
from dojoir.passes.schedule.steps.combinators import tried
from dojoir.passes.values.fma import ToFma


def fuse(trace: Trace, path: Path) -> None:
    """Multiplies and adds in one instruction where the statement at `path` adds up products of floats."""
    tried(trace, ToFma(place_of(path), 0))
