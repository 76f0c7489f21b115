"""Every move by its name, and moves read from text."""

from __future__ import annotations

from typing import get_args, get_origin

from dojoir.errors import ArgumentError, Diagnostic, ParseError, did_you_mean
from dojoir.grammar.pipeline import Call, parse_calls
from dojoir.grammar.query import parse_query
from dojoir.passes.algebra import UndoRule, UseRule
from dojoir.passes.caches import Prefetch, Stream, Unprefetch, Unstream
from dojoir.passes.dead import DeleteTemporary, RestoreTemporary
from dojoir.passes.dims import JoinDims, SplitDim
from dojoir.passes.extents import SetExtent
from dojoir.passes.fma import FromFma, ToFma
from dojoir.passes.guards import AddGuard, RemoveGuard
from dojoir.passes.hardware import Parallelize, Unmark, Unroll, Vectorize
from dojoir.passes.inlining import Extract, Inline
from dojoir.passes.instructions import UnuseInstr, UseInstr
from dojoir.passes.labels import Label, Unlabel
from dojoir.passes.layout import PadDims, ReorderDims
from dojoir.passes.move import BufferName, Formula, Move, Place, Quoted, Word
from dojoir.passes.order import SplitScopes, SwapSiblings
from dojoir.passes.peeling import Peel, Unpeel
from dojoir.passes.ranges import Collapse, Cut, JoinRanges, Shift, Uncollapse
from dojoir.passes.recomputing import Recompute, Unrecompute
from dojoir.passes.reductions import MergeReduction, SplitReduction
from dojoir.passes.scopes import JoinScopes, Split, SwapScopes, Unsplit
from dojoir.passes.sharing import ShareBuffer, UnshareBuffer
from dojoir.passes.sinking import LiftScope, SinkScope
from dojoir.passes.skewing import Skew, Unskew
from dojoir.passes.staging import Stage, Unstage
from dojoir.passes.storage import MaterializeDims, PlaceBuffer, ReuseDims
from dojoir.passes.tiling import Tile, Untile
from dojoir.passes.trivial import AddScope, RemoveScope

MOVES: tuple[type[Move], ...] = (
    JoinScopes,
    SplitScopes,
    Split,
    Unsplit,
    Collapse,
    Uncollapse,
    Tile,
    Untile,
    SwapScopes,
    SinkScope,
    LiftScope,
    SwapSiblings,
    Cut,
    JoinRanges,
    Shift,
    Skew,
    Unskew,
    Peel,
    Unpeel,
    SetExtent,
    RemoveScope,
    AddScope,
    RemoveGuard,
    AddGuard,
    ReuseDims,
    MaterializeDims,
    PlaceBuffer,
    ReorderDims,
    PadDims,
    SplitDim,
    JoinDims,
    Stage,
    Unstage,
    Recompute,
    Unrecompute,
    SplitReduction,
    MergeReduction,
    Inline,
    Extract,
    ToFma,
    FromFma,
    UseRule,
    UndoRule,
    DeleteTemporary,
    RestoreTemporary,
    ShareBuffer,
    UnshareBuffer,
    Unroll,
    Vectorize,
    Parallelize,
    Unmark,
    Prefetch,
    Unprefetch,
    Stream,
    Unstream,
    UseInstr,
    UnuseInstr,
    Label,
    Unlabel,
)

_NAMES = {kind.name: kind for kind in MOVES}


def parse_move(text: str) -> Move:
    """The move that a text such as `split(@j, 16)` writes. Raises ArgumentError or ParseError."""
    calls = parse_calls(text)
    if len(calls) != 1:
        raise ArgumentError(f"'{text}' is {len(calls)} moves, not one", "bad-move")
    return build_move(calls[0])


def build_move(call: Call) -> Move:
    """The move that a call of a pipeline writes. Raises ArgumentError with the place in the pipeline."""
    kind = _NAMES.get(call.name)
    if kind is None:
        raise _error(call, "unknown-move", f"there is no move '{call.name}'{did_you_mean(call.name, _NAMES)}")
    parameters = kind.parameters()
    usage = f"{kind.name}({', '.join(parameters)})"
    values: list[object] = []
    words = list(call.arguments)
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


def _convert(call: Call, word: str, kind: object, usage: str) -> object:
    if kind is int:
        digits = word.removeprefix("-")
        if not (digits.isascii() and digits.isdigit()):
            raise _error(call, "bad-arguments", f"'{word}' is not an integer, in {usage}")
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


def _query(call: Call, word: str) -> str:
    try:
        parse_query(word)
    except ParseError as error:
        raise _error(call, "bad-query", f"in {word}: {error.diagnostic.message}") from None
    return word


def _error(call: Call, code: str, message: str) -> ArgumentError:
    return ArgumentError(Diagnostic(code, message, call.span, call.source))
