"""Pipelines: moves and passes to apply one after the other, read from text."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from dojoir.errors import ArgumentError, Diagnostic, did_you_mean
from dojoir.grammar.pipeline import Call, parse_calls
from dojoir.passes.catalogue import MOVES, build_move
from dojoir.passes.combinators import Pass
from dojoir.passes.default_schedule import default_schedule
from dojoir.passes.move import Move
from dojoir.passes.simplify import join_all, simplify

PASSES: Mapping[str, Pass] = MappingProxyType(
    {run.__name__: Pass(run.__name__, run) for run in (simplify, join_all, default_schedule)}
)
"""The passes by name."""


def parse_pipeline(text: str, name: str = "<pipeline>") -> list[Move | Pass]:
    """The moves and passes of a pipeline such as `simplify; tile(@i, @j, 32, 64)`, separated by `;`, `,` or line
    ends, with `#` comments. A pass is its name alone. Raises ParseError or ArgumentError with the place in the
    text."""
    return [_element(call) for call in parse_calls(text, name)]


def _element(call: Call) -> Move | Pass:
    found = PASSES.get(call.name)
    if found is not None:
        if call.arguments:
            raise _error(call, "bad-arguments", f"the pass {call.name} takes no arguments")
        return found
    names = {kind.name for kind in MOVES}
    if call.name not in names:
        known = sorted({*names, *PASSES})
        message = f"there is no move or pass '{call.name}'{did_you_mean(call.name, known)}"
        raise _error(call, "unknown-move", message)
    return build_move(call)


def _error(call: Call, code: str, message: str) -> ArgumentError:
    return ArgumentError(Diagnostic(code, message, call.span, call.source))
