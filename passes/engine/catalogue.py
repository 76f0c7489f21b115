"""Every move by its name, and moves read from text."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import get_args, get_origin

from dojoir.errors import ArgumentError, Diagnostic, ParseError, did_you_mean
from dojoir.grammar.pipeline import PipelineStep, parse_calls
from dojoir.grammar.query import parse_query
from dojoir.passes.base.move import BufferName, Formula, Move, Place, Quoted, Word
from dojoir.passes.engine.other_names import meant_by, no_move
from dojoir.passes.hardware import instructions, marks, prefetch, stream
from dojoir.passes.loops import (
    collapsing,
    cutting,
    cyclic,
    deletion,
    extents,
    guards,
    joining,
    once,
    peeling,
    shifting,
    siblings,
    sinking,
    skewing,
    splitting,
    swapping,
    tiling,
)
from dojoir.passes.storage import dead, dims, layout, sharing, staging
from dojoir.passes.values import (
    fma,
    hoisting,
    indexing,
    inlining,
    last_writers,
    recomputing,
    reductions,
    rule,
    subexpressions,
)
from dojoir.support.public import public

MOVES: tuple[type[Move], ...] = (
    joining.JoinScopes, joining.SplitScopes, splitting.Split, splitting.Unsplit, swapping.SwapScopes,
    siblings.SwapSiblings, collapsing.Collapse, collapsing.Uncollapse, cutting.Cut, cutting.JoinRanges,
    shifting.Shift, tiling.Tile, tiling.Untile, swapping.ReverseScope, cyclic.SplitCyclic, cyclic.UnsplitCyclic,
    sinking.SinkScope, sinking.LiftScope, skewing.Skew, skewing.Unskew, peeling.Peel, peeling.Unpeel,
    extents.SetExtent, once.RemoveScope, once.AddScope, guards.RemoveGuard, guards.AddGuard, guards.DropCondition,
    guards.AddCondition, guards.ComputePadding, guards.SkipPadding, deletion.DeleteNode, deletion.RestoreNode,
    layout.ReuseDims, layout.MaterializeDims, layout.PlaceBuffer, layout.ReorderDims, layout.PadDims,
    layout.Swizzle, dims.SplitDim, dims.JoinDims, dims.DropDim, dims.AddDim, staging.Stage, staging.Unstage,
    recomputing.Recompute, recomputing.Unrecompute, reductions.SplitReduction, reductions.MergeReduction,
    inlining.Inline, inlining.Extract, subexpressions.ExtractSubexpression, subexpressions.InlineSubexpression,
    hoisting.Hoist, hoisting.Unhoist, fma.ToFma, fma.FromFma, indexing.SetIndex, last_writers.KeepLastWriter,
    last_writers.DropLastWriter, rule.UseRule, rule.UndoRule, dead.DeleteTemporary, dead.RestoreTemporary,
    sharing.ShareBuffer, sharing.UnshareBuffer, marks.Unroll, marks.Vectorize, marks.Parallelize, marks.Bind,
    marks.Unmark, prefetch.Prefetch, prefetch.Unprefetch, stream.Stream, stream.StreamLarge, stream.Unstream,
    instructions.UseInstr, instructions.UnuseInstr, extents.Label, extents.Unlabel,
)  # fmt: skip
"""The families of moves, in the order in which they are listed."""

_NAMES = {kind.name: kind for kind in MOVES}


@public
def parse_move(text: str, moves: Sequence[type[Move]] = ()) -> Move:
    """The move that a text such as `split(@j, 16)` writes, of the catalogue or of the classes `moves`. Raises
    ArgumentError or ParseError."""
    calls = parse_calls(text)
    if not calls:
        raise ArgumentError("there is no move in this text: a move is written as split(@j, 16)", "bad-move")
    if len(calls) != 1:
        cure = "dojoir.apply and Trace.apply make them one after another"
        short = text if len(text) <= 80 else text[:77] + "…"
        raise ArgumentError(f"'{short}' is {len(calls)} moves, not one: {cure}", "bad-move")
    return build_move(calls[0], moves)


def parse_moves(text: str) -> list[Move]:
    """The moves that a text writes, `split(@j, 16); unroll(@j1)`: one at least, separated by `;`, `,` or line ends.
    Raises ArgumentError or ParseError."""
    return [build_move(call) for call in parse_calls(text)] or [parse_move(text)]


def build_move(call: PipelineStep, moves: Sequence[type[Move]] = ()) -> Move:
    """The move that a call of a pipeline writes; arguments may be given by name, `split(@i, factor=8)`. `moves` are
    classes besides those of the catalogue. Raises ArgumentError with the place in the pipeline."""
    kind = next((own for own in moves if own.name == call.name), _NAMES.get(call.name))
    if kind is None:
        other = no_move(call.name)
        message = other or f"there is no move '{call.name}'{meant_by(call.name, _NAMES)}"
        raise _error(call, "unknown-move", message)
    parameters = kind.parameters()
    usage = f"{kind.name}({', '.join(parameters)})"
    values: list[object] = []
    words = _arguments_in_order(call, parameters, usage)
    lists = [t for t in parameters.values() if get_origin(t) is tuple]
    single = len(parameters) - len(lists)
    least = single + (0 if kind.lists_may_be_empty() else 1)
    if lists and len(words) >= least and (len(words) - single) % len(lists) == 0:
        share = (len(words) - single) // len(lists)
        for parameter in parameters.values():
            if get_origin(parameter) is tuple:
                values.append(tuple(_convert(call, word, get_args(parameter)[0], usage) for word in words[:share]))
                words = words[share:]
            else:
                values.append(_convert(call, words.pop(0), parameter, usage))
    elif not lists and len(words) == len(parameters):
        values = [_convert(call, word, t, usage) for word, t in zip(words, parameters.values(), strict=True)]
    else:
        count = f"{len(words)} argument{'' if len(words) == 1 else 's'}"
        raise _error(call, "bad-arguments", f"{call.name} is written {usage}, not with {count}")
    return kind(*values)


_NAMED = re.compile(r"([A-Za-z_]\w*)\s*=(?!=)\s*(.+)", re.DOTALL)


def _arguments_in_order(call: PipelineStep, parameters: Mapping[str, type], usage: str) -> list[str]:
    """The arguments of a call in the order of the parameters: those by name, `factor=8`, come after the others.
    Raises ArgumentError for a name that there is not, or that is given twice."""
    words = list(call.arguments)
    named = [match for word in words if (match := _NAMED.fullmatch(word)) is not None]
    if not named:
        return words
    plain = words[: len(words) - len(named)]
    if any(_NAMED.fullmatch(word) for word in plain):
        raise _error(call, "bad-arguments", f"arguments by name come last, in {usage}")
    left = list(parameters)[len(plain) :]
    given: dict[str, str] = {}
    for match in named:
        name, value = match[1], match[2].strip()
        if get_origin(parameters.get(name)) is tuple:
            raise _error(call, "bad-arguments", f"{name} is a list, which is given without its name, in {usage}")
        if name in given or (name in parameters and name not in left):
            raise _error(call, "bad-arguments", f"{name} is given twice, in {usage}")
        if name not in left:
            hint = did_you_mean(name, parameters) or f": it is written {usage}"
            raise _error(call, "bad-arguments", f"{call.name} has no argument '{name}'{hint}")
        given[name] = value
    missing = [name for name in left if name not in given and get_origin(parameters[name]) is not tuple]
    if missing:
        raise _error(call, "bad-arguments", f"{call.name} needs {' and '.join(missing)}: it is written {usage}")
    return plain + [given[name] for name in left if name in given]


def _convert(call: PipelineStep, word: str, kind: object, usage: str) -> object:
    if kind is int:
        digits = word.removeprefix("-")
        if not (digits.isascii() and digits.isdigit()):
            raise _error(call, "bad-arguments", f"'{word}' is not an integer, in {usage}")
        if len(digits.lstrip("0")) > 20:
            raise _error(call, "number-too-large", f"an integer in {usage} has more than 64 bits")
        return int(word)
    if kind is Place:
        if word.startswith("<"):
            return _query(call, word)
        label = word.startswith("@") and word[1:].isidentifier()
        if not (label or all(part.isascii() and part.isdigit() for part in word.split("."))):
            example = "a place such as 0.1, @j or <writes y in @i>"
            raise _error(call, "bad-place", f"'{word}' is not {example}, in {usage}")
    elif kind is Formula:
        return Formula(word)
    elif kind is Quoted:
        if not (len(word) > 1 and word.startswith('"') and word.endswith('"')):
            raise _error(call, "bad-arguments", f"'{word}' is not a text in double quotes, in {usage}")
        return Quoted(word[1:-1])
    elif kind in {BufferName, Word} and not word.isidentifier():
        raise _error(call, "bad-arguments", f"'{word}' is not a name, in {usage}")
    return word


def _query(call: PipelineStep, word: str) -> str:
    try:
        parse_query(word)
    except ParseError as error:
        raise _error(call, "bad-query", f"in {word}: {error.diagnostic.message}") from None
    return word


def _error(call: PipelineStep, code: str, message: str) -> ArgumentError:
    return ArgumentError(Diagnostic(code, message, call.span, call.source))
