"""The hints of a scope, as written: `prefetch(x, 8)`."""

from __future__ import annotations

from dojoir.errors import ArgumentError, Note, Span, did_you_mean
from dojoir.grammar import syntax
from dojoir.grammar.expressions import integer
from dojoir.grammar.names_in_scope import NamesInScope, short
from dojoir.ir.hints import LARGEST_DISTANCE, Hint, Prefetch
from dojoir.ir.instruction import Use

HINTS = {"prefetch": "prefetch(x, 8)", "use": "use(avx512_fmadd_ps)"}
"""The words that begin a hint, each with an example."""


def resolve_hints(written: tuple[syntax.Hint, ...], names: NamesInScope) -> tuple[Hint, ...]:
    """The hints of a scope. That they fit what it runs is for `dojoir.prove`."""
    seen: dict[str, Span] = {}
    hints: list[Hint] = []
    for hint in written:
        found = _hint(hint, names)
        if found.about in seen:
            note = Note("it is given here", seen[found.about])
            raise names.error("duplicate-hint", f"this scope has the hint {found.about} twice", hint.span, note)
        seen[found.about] = hint.span
        hints.append(found)
    return tuple(hints)


def _hint(hint: syntax.Hint, names: NamesInScope) -> Hint:
    match hint.word.text:
        case "prefetch":
            return _prefetch(hint, names)
        case "use":
            return _use(hint, names)
        case word:
            known = f": write one of {', '.join(HINTS.values())}"
            message = f"there is no hint '{short(word)}'{did_you_mean(word, HINTS) or known}"
            raise names.error("unknown-hint", message, hint.word.span)


def _prefetch(hint: syntax.Hint, names: NamesInScope) -> Prefetch:
    if hint.number is None:
        message = "prefetch takes a buffer and how many iterations ahead it is fetched: prefetch(x, 8)"
        raise names.error("bad-hint", message, hint.span)
    buffer = names.buffer(hint.name)
    distance = integer(hint.number, names)
    if not 1 <= distance <= LARGEST_DISTANCE:
        message = f"a prefetch is 1 to {LARGEST_DISTANCE} iterations ahead, not {distance}"
        raise names.error("bad-hint", message, hint.number.span)
    return Prefetch(buffer.name, distance, hint.span)


def _use(hint: syntax.Hint, names: NamesInScope) -> Use:
    if hint.number is not None:
        raise names.error("bad-hint", "use takes the name of an instruction alone", hint.number.span)
    if names.instruction is None:
        raise names.error("bad-instruction", "the scopes of an instruction have no marks and no hints", hint.span)
    try:
        return Use(names.instruction(hint.name.text), hint.span)
    except ArgumentError as error:
        raise names.error(error.diagnostic.code, error.diagnostic.message, hint.name.span) from None
