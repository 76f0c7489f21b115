"""Every move by its name, and moves read from text."""

from __future__ import annotations

from typing import get_args, get_origin

from dojoir.errors import ArgumentError, Diagnostic, did_you_mean
from dojoir.grammar.pipeline import Call, parse_calls
from dojoir.passes.hardware import Parallelize, Unroll, Vectorize
from dojoir.passes.move import BufferName, Move, Place, Word
from dojoir.passes.scopes import JoinScopes, Split, SwapScopes, Tile
from dojoir.passes.storage import PlaceBuffer, ReuseDims

MOVES: tuple[type[Move], ...] = (
    JoinScopes,
    Split,
    SwapScopes,
    Tile,
    ReuseDims,
    PlaceBuffer,
    Unroll,
    Vectorize,
    Parallelize,
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
    if lists and words and len(words) % len(lists) == 0:
        share = len(words) // len(lists)
        groups = [words[i * share : (i + 1) * share] for i in range(len(lists))]
        values = [
            tuple(_convert(call, word, get_args(t)[0], usage) for word in group)
            for t, group in zip(lists, groups, strict=True)
        ]
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
        label = word.startswith("@") and word[1:].isidentifier()
        if not (label or all(part.isascii() and part.isdigit() for part in word.split("."))):
            raise _error(call, "bad-place", f"'{word}' is not a place such as 0.1 or @j, in {usage}")
    elif kind in {BufferName, Word} and not word.isidentifier():
        raise _error(call, "bad-arguments", f"'{word}' is not a name, in {usage}")
    return word


def _error(call: Call, code: str, message: str) -> ArgumentError:
    return ArgumentError(Diagnostic(code, message, call.span, call.source))
