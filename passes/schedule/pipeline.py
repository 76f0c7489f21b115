"""Pipelines: moves and passes to apply one after the other, read from text."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from types import MappingProxyType

from dojoir.backends.machine import Machine
from dojoir.errors import ArgumentError, Diagnostic, DojoError
from dojoir.grammar.pipeline import PipelineStep, parse_calls
from dojoir.passes.base.move import Move
from dojoir.passes.engine.catalogue import MOVES, build_move
from dojoir.passes.engine.located import is_query
from dojoir.passes.engine.other_names import meant_by
from dojoir.passes.engine.trace import Trace
from dojoir.passes.schedule.cpu.tiles.blocked_matmul import block_products
from dojoir.passes.schedule.cpu.tiles.register_tile import register_tile
from dojoir.passes.schedule.default_schedule import default_schedule
from dojoir.passes.schedule.gpu.rows.rows import block_rows
from dojoir.passes.schedule.gpu.tiles.double_buffers import stages
from dojoir.passes.schedule.gpu.tiles.product_tiles import share_tile, tile_product
from dojoir.passes.schedule.plan.parts import arrange, default_without, structure
from dojoir.passes.schedule.steps.combinators import Pass, attempt, each, make, repeat, sequence
from dojoir.passes.schedule.steps.simplify import join_all, simplify, split_with_tail
from dojoir.support.public import public

PASSES: Mapping[str, Pass] = MappingProxyType(
    {
        run.__name__: Pass(run.__name__, run)
        for run in (
            simplify,
            join_all,
            split_with_tail,
            register_tile,
            block_products,
            block_rows,
            share_tile,
            tile_product,
            stages,
            arrange,
            structure,
            default_schedule,
            default_without,
        )
    }
)
"""The passes by name."""

COMBINATORS: Mapping[str, str] = MappingProxyType(
    {
        "try": "try(STEP, ...): the moves and passes one after the other, whole or not at all; that one of them is "
        "refused is no error.",
        "repeat": "repeat(STEP, ...): the moves and passes again and again, until they change nothing.",
        "each": "each(<QUERY>, STEP, ...): the moves and passes for each place that the query matches, the last in "
        "the text first; in them, `it` stands for the place: each(<innermost>, try(vectorize(it))).",
    }
)
"""The function that puts moves and passes together in a pipeline, by name, each with its effect."""


@public
def parse_pipeline(
    text: str, name: str = "<pipeline>", passes: Mapping[str, Pass] = PASSES, machine: Machine | None = None
) -> list[Move | Pass]:
    """The moves and passes of a pipeline such as `simplify; tile(@i, @j, 32, 64)`, separated by `;`, `,` or line
    ends, with `#` comments. `try(…)`, `repeat(…)` and `each(<query>, …)` put others together, and are passes.
    `passes` are those that may be named; they are for `machine` where they name none. Raises ParseError or
    ArgumentError with the place in the text."""
    known = passes if machine is None else {word: found.for_machine(machine) for word, found in passes.items()}
    return [_element(call, known) for call in parse_calls(text, name)]


def _element(call: PipelineStep, passes: Mapping[str, Pass]) -> Move | Pass:
    if call.name in COMBINATORS:
        return _combined(call, passes)
    found = passes.get(call.name)
    if found is not None:
        try:
            return found.given(*call.arguments)
        except ArgumentError as error:
            raise _error(call, error.diagnostic.code, error.diagnostic.message) from None
    names = {kind.name for kind in MOVES}
    if call.name not in names:
        known = sorted({*names, *passes, *COMBINATORS})
        message = f"there is no move or pass '{call.name}'{meant_by(call.name, known)}"
        raise _error(call, "unknown-move", message)
    return build_move(call)


# -- combinators -------------------------------------------------------------------------------------------
def _combined(call: PipelineStep, passes: Mapping[str, Pass]) -> Pass:
    """The pass that `try`, `repeat` or `each` makes of other elements."""
    query, steps = None, call.arguments
    if call.name == "each":
        if not steps or not is_query(steps[0]):
            raise _error(call, "bad-arguments", f"each begins with a query in <>: {COMBINATORS['each']}")
        query, *rest = steps
        steps = tuple(rest)
    if not steps:
        raise _error(call, "bad-arguments", f"{call.name} needs a move or pass: {COMBINATORS[call.name]}")

    def at(place: str) -> list[Move | Pass]:
        """The elements, with a place for `it`."""
        return [_inner(call, _with_place(step, place) if query else step, passes) for step in steps]

    run: Callable[[Trace], None]
    if query is not None:
        at("0")  # what is no move is an error now
        run = each(query, lambda place: sequence(*at(place)))
    else:
        run = attempt(sequence(*at(""))) if call.name == "try" else repeat(sequence(*at("")))

    def combined(trace: Trace, *words: str) -> None:
        make(trace, run)

    return Pass(call.name, combined, call.arguments)


def _with_place(text: str, place: str) -> str:
    """The text of a step with a place for the word `it`, outside of queries and quotes."""
    return re.sub(r'<(?:[^"<>]|"[^"]*")*>|"[^"]*"|\bit\b', lambda m: place if m[0] == "it" else m[0], text)


def _inner(call: PipelineStep, text: str, passes: Mapping[str, Pass]) -> Move | Pass:
    try:
        found = parse_pipeline(text, call.source.name, passes)
    except DojoError as error:
        raise _error(call, error.diagnostic.code, f"in {call.name}: {error.diagnostic.message}") from None
    if len(found) != 1:
        raise _error(call, "bad-arguments", f"in {call.name}: '{text}' is {len(found)} steps, not one")
    return found[0]


def _error(call: PipelineStep, code: str, message: str) -> ArgumentError:
    return ArgumentError(Diagnostic(code, message, call.span, call.source))
