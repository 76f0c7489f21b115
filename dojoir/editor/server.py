"""The server of the Language Server Protocol, on pygls.

A text is checked when it is opened and a moment after each change; proofs run one after the other in one thread,
and their result is dropped where the text has changed meanwhile."""

from __future__ import annotations

import asyncio
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Any

import dojoir
from dojoir.editor.hover import hover
from dojoir.editor.of_text import errors_of, formatted, message_of
from dojoir.errors import Diagnostic
from dojoir.search.needs import needed

PAUSE = 0.2
"""Seconds without a change after which a text is checked."""

WHAT, EXTRA = "dojoir lsp", "editor"


def language_server() -> Any:
    """A `LanguageServer` of pygls for kernels: diagnostics, hover, formatting. Raises ToolchainError,
    `missing-package`, without it."""
    types = needed("lsprotocol.types", EXTRA, WHAT)
    made = needed("pygls.lsp.server", EXTRA, WHAT)
    full = types.TextDocumentSyncKind.Full
    server = made.LanguageServer("dojoir", dojoir.__version__, text_document_sync_kind=full)
    worker = ThreadPoolExecutor(1, "dojoir-lsp")

    async def checked(uri: str, pause: float) -> None:
        version = server.workspace.get_text_document(uri).version
        await asyncio.sleep(pause)
        document = server.workspace.text_documents.get(uri)
        if document is None or document.version != version:
            return
        work = partial(errors_of, document.source, document.path or uri)
        errors = await asyncio.get_running_loop().run_in_executor(worker, work)
        now = server.workspace.text_documents.get(uri)
        if now is None or now.version != version:
            return
        found = [_diagnostic(types, now, error) for error in errors]
        server.text_document_publish_diagnostics(types.PublishDiagnosticsParams(uri, found, version))

    async def opened(ls: Any, params: Any) -> None:
        await checked(params.text_document.uri, 0)

    async def changed(ls: Any, params: Any) -> None:
        await checked(params.text_document.uri, PAUSE)

    def closed(ls: Any, params: Any) -> None:
        uri = params.text_document.uri
        ls.text_document_publish_diagnostics(types.PublishDiagnosticsParams(uri, []))

    def hovered(ls: Any, params: Any) -> Any:
        document = ls.workspace.get_text_document(params.text_document.uri)
        place = document.position_from_client_units(params.position)
        found = hover(document.source, place.line, place.character)
        if found is None:
            return None
        words = types.MarkupContent(types.MarkupKind.Markdown, found.text)
        return types.Hover(words, _range(types, document, place.line, found.start, found.end))

    async def formatting(ls: Any, params: Any) -> Any:
        document = ls.workspace.get_text_document(params.text_document.uri)
        before = document.source
        work = partial(formatted, before, document.path or document.uri)
        after = await asyncio.get_running_loop().run_in_executor(worker, work)
        if after is None or after == before:
            return []
        end = types.Position(len(before.splitlines()) + 1, 0)
        return [types.TextEdit(types.Range(types.Position(0, 0), end), after)]

    features = {
        types.TEXT_DOCUMENT_DID_OPEN: opened,
        types.TEXT_DOCUMENT_DID_CHANGE: changed,
        types.TEXT_DOCUMENT_DID_CLOSE: closed,
        types.TEXT_DOCUMENT_HOVER: hovered,
        types.TEXT_DOCUMENT_FORMATTING: formatting,
    }
    for name, feature in features.items():
        server.feature(name)(feature)
    return server


def serve() -> None:
    """Serves one editor on stdin and stdout until it ends. Raises as `language_server`."""
    language_server().start_io()


def _diagnostic(types: Any, document: Any, error: Diagnostic) -> Any:
    """An error for an editor. One without a place stands on the first line; the places of its notes are related."""
    related = [
        types.DiagnosticRelatedInformation(
            types.Location(document.uri, _range(types, document, *_columns(note.span))), note.message
        )
        for note in error.notes
        if note.span is not None and note.source in (None, error.source)
    ]
    return types.Diagnostic(
        range=_range(types, document, *_columns(error.span)),
        message=message_of(error),
        severity=types.DiagnosticSeverity.Error,
        code=error.code,
        source="dojoir",
        related_information=related or None,
    )


def _columns(span: Any) -> tuple[int, int, int]:
    """The 0-based line, start and end of a span; of none, the beginning of the text."""
    return (0, 0, 1) if span is None else (span.line - 1, span.column - 1, span.end - 1)


def _range(types: Any, document: Any, line: int, start: int, end: int) -> Any:
    """Columns of a line as a range in the units of the editor, which counts UTF-16 by default."""
    first, last = (types.Position(line, column) for column in (start, end))
    codec, lines = document.position_codec, document.lines
    return types.Range(codec.position_to_client_units(lines, first), codec.position_to_client_units(lines, last))
