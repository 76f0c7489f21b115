"""Pipelines: moves to apply one after the other, read from text."""

from __future__ import annotations

from dojoir.grammar.pipeline import parse_calls
from dojoir.passes.catalogue import build_move
from dojoir.passes.move import Move


def parse_pipeline(text: str, name: str = "<pipeline>") -> list[Move]:
    """The moves of a pipeline such as `tile(@i, @j, 32, 64); vectorize(@j)`, separated by `;`, `,` or line
    ends, with `#` comments. Raises ParseError or ArgumentError with the place in the text."""
    return [build_move(call) for call in parse_calls(text, name)]
