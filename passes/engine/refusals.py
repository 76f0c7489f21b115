"""The report of a refused move: where, why, and which accesses are in conflict."""

from __future__ import annotations

from dataclasses import replace

from dojoir.errors import ArgumentError, Diagnostic, Source
from dojoir.ir.nodes import Buffer, Kernel, Path
from dojoir.ir.text import to_text
from dojoir.ir.where import place
from dojoir.passes.base.move import BufferName, Move, Refusal
from dojoir.proof.explain.example import accuse, node_party
from dojoir.proof.verdict import Verdict


def refused(kernel: Kernel, move: Move, refusal: Refusal) -> Verdict:
    """The verdict on a move that the tree does not allow. Where the refusal names no place, it is that of the
    move's first place, else of the first buffer that the move names."""
    message = f"{move}: {refusal.message}"
    path = refusal.path or _first_place(kernel, move)
    buffer = _first_buffer(kernel, move)
    notes = [node_party(kernel, other, words) for words, other in refusal.others]
    if path is not None:
        diagnostic = accuse(refusal.code, message, [node_party(kernel, path, refusal.message), *notes])
    elif buffer is not None:
        source, span = place(kernel, (), buffer)
        diagnostic = Diagnostic(refusal.code, message, span, source)
    else:
        diagnostic = Diagnostic(refusal.code, message)
    return Verdict("illegal", diagnostic, refusal.hint)


def compared(kernel: Kernel, move: Move, verdict: Verdict) -> Verdict:
    """The verdict of the checker on a move's rewrite, with the move in its message. Where the kernel after the
    move is shown, the message names it so."""
    found = verdict.diagnostic
    known = {to_text(kernel), _canonical_of(kernel)}

    def called(source: Source | None) -> Source | None:
        if source is None or source.name != kernel.name or source.text in known:
            return source
        return replace(source, name=f"{kernel.name} after {move}")

    return replace(
        verdict,
        diagnostic=replace(
            found,
            message=f"{move}: {found.message}",
            source=called(found.source),
            notes=tuple(replace(note, source=called(note.source)) for note in found.notes),
            parties=tuple(replace(party, source=called(party.source) or party.source) for party in found.parties),
        ),
    )


def _canonical_of(kernel: Kernel) -> str:
    return kernel.source.text if kernel.source is not None else ""


def _first_place(kernel: Kernel, move: Move) -> Path | None:
    for word in move.places():
        try:
            return kernel.path(word)
        except ArgumentError:
            continue
    return None


def _first_buffer(kernel: Kernel, move: Move) -> Buffer | None:
    names = [getattr(move, name) for name, kind in move.parameters().items() if kind is BufferName]
    return next((b for name in names for b in kernel.buffers if b.name == name), None)
