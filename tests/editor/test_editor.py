"""The language server: errors, hover and formatting of texts, and the same by a client on stdio."""

from __future__ import annotations

import asyncio
import sys
from typing import Any

import pytest

import dojoir
from dojoir.editor.hover import hover
from dojoir.editor.of_text import errors_of, formatted, message_of
from dojoir.editor.words import ATTRIBUTES, FUNCTIONS, KEYWORDS, of_type
from dojoir.ir import words
from dojoir.ir.dtypes import DTYPES
from dojoir.ir.kernel import FP_MODES
from dojoir.ir.operations import CALLS, CONVERSIONS

TEXT = """\
kernel rows(N, M)   # sums
where N >= 2, M >= 1
in x: f16[N, M] strided
out y: f32[N]

N : p  @row
| y[{row}] = 0
| M @j
| | y[{0}] += max(f32(x[{row}, {j}]), 0)
"""
WRONG = "kernel k(N)\nin  x: f32[N]\nout y: f32[N]\n\nN\n| y[{0}] = z[{0}]\n| y[{0}] = w[{0}]\n"
OUTSIDE = "kernel k(N)\nin  x: f32[N]\nout y: f32[N]\n\nN\n| y[{0}] = x[{0} + 1]\n"


def test_each_word_of_the_language_is_explained() -> None:
    assert set(ATTRIBUTES) == set(words.ATTRIBUTES)
    assert set(FUNCTIONS) == CALLS.union(CONVERSIONS)
    assert set(FP_MODES) <= set(KEYWORDS)
    assert all(of_type(name) for name in DTYPES) and of_type("f33") is None


def at(word: str, line: int, text: str = TEXT) -> str | None:
    """What is said of a word on a 1-based line."""
    column = text.splitlines()[line - 1].index(word)
    found = hover(text, line - 1, column)
    if found is None:
        return None
    assert text.splitlines()[line - 1][found.start : found.end] == word
    return found.text


@pytest.mark.parametrize(
    ("word", "line", "said"),
    [
        ("kernel", 1, "runtime sizes"),
        ("N", 1, "Facts: `N >= 2`"),
        ("where", 2, "Facts about the sizes"),
        ("M", 8, "Facts: `M >= 1`"),
        ("in", 3, "read only"),
        ("x", 3, "Declared on line 3, read on line 9."),
        ("f16", 3, "floating point, 16 bits; arithmetic on it is done in f32"),
        ("strided", 3, "strides of all dimensions"),
        ("p", 6, "Mark `p`: the iterations of a scope are shared out over the cores"),
        ("@row", 6, "Label of the scope of `N`"),
        ("{row}", 7, "Iterator of the scope on line 6: 0, 1, ... below `N`"),
        ("{0}", 9, "Iterator of the scope on line 6"),
        ("{j}", 9, "Iterator of the scope on line 8: 0, 1, ... below `M`"),
        ("y", 9, "written on lines 7, 9, read on line 9"),
        ("max", 9, "the larger value"),
    ],
)
def test_hover_explains_a_word(word: str, line: int, said: str) -> None:
    assert said in (at(word, line) or "")


def test_hover_on_a_kernel_has_its_cost() -> None:
    cost = dojoir.cost(dojoir.parse(TEXT)).describe()
    assert cost in (at("rows", 1) or "")
    assert "its text has errors" in (at("torn", 1, WRONG.replace("kernel k", "kernel torn")) or "")


def test_hover_is_silent_elsewhere() -> None:
    assert hover(TEXT, 0, TEXT.index("sums")) is None  # a comment
    assert hover(TEXT, 99, 0) is None and hover(TEXT, 4, 0) is None and hover("", 0, 0) is None
    assert at("{9}", 1, "{9}") is None and at("q", 1, "q") is None


def test_hover_answers_in_any_text() -> None:
    """Every place of texts that are cut off or torn."""
    for text in (TEXT[::-1], TEXT[: len(TEXT) // 2], WRONG, "| | {0}\n:p\n", "kernel\nin :\n| y[ ="):
        for number, line in enumerate(text.splitlines()):
            for column in range(len(line) + 1):
                hover(text, number, column)


def test_a_mark_is_told_from_a_size_of_its_name() -> None:
    text = "kernel k(v)\nin x: f32[v]\nout y: f32[v]\n\nv : v\n| y[{0}] = x[{0}]\n"
    assert "Size" in (at("v", 5, text) or "")
    found = hover(text, 4, 4)
    assert found is not None and "vector lanes" in found.text


def test_errors_have_codes_places_and_cures() -> None:
    assert errors_of(TEXT, "a") == []
    found = errors_of(WRONG, "a")
    assert [(one.code, one.span.line if one.span else 0) for one in found] == [
        ("unknown-buffer", line) for line in (6, 7)
    ]
    assert "cure: " in message_of(found[0])
    (outside,) = errors_of(OUTSIDE, "a")
    assert outside.code == "out-of-bounds"
    assert errors_of(OUTSIDE, "a", proved=False) == []


def test_several_kernels_in_a_text_are_read_one_by_one() -> None:
    text = f"{TEXT}# -----\n{WRONG}"
    found = errors_of(text, "a")
    assert [one.span.line for one in found if one.span] == [TEXT.count("\n") + 1 + line for line in (6, 7)]
    assert formatted(text, "a") is None
    both = formatted(f"{TEXT}# ------\n{OUTSIDE}", "a")
    assert both is not None and both.count("# -----\n") == 1 and formatted(both, "a") == both
    assert "Declared on line 12" in (at("x", 12, f"{TEXT}# -----\n{OUTSIDE}".replace("in  x", "in x")) or "")


def test_formatting_keeps_kernels_comments_and_itself() -> None:
    made = formatted(TEXT, "a")
    assert made is not None and made != TEXT and "# sums" in made and "y[{row}] = 0" in made
    assert dojoir.parse(made) == dojoir.parse(TEXT) and formatted(made, "a") == made
    assert formatted(WRONG, "a") is None


def test_an_editor_is_served_on_stdio() -> None:
    pytest.importorskip("pygls", reason="needs the extra editor")
    from lsprotocol import types
    from pygls.lsp.client import LanguageClient

    uri = "file:///k.dojo"

    async def talk() -> tuple[list[Any], Any, Any, Any, Any]:
        client = LanguageClient("test", "1")
        published: asyncio.Queue[Any] = asyncio.Queue()

        @client.feature(types.TEXT_DOCUMENT_PUBLISH_DIAGNOSTICS)
        def told(params: Any) -> None:
            published.put_nowait(params)

        run = "import sys; from dojoir.verbs import main; sys.exit(main(['lsp', '--stdio']))"
        await client.start_io(sys.executable, "-c", run)
        began = await client.initialize_async(types.InitializeParams(capabilities=types.ClientCapabilities()))
        client.initialized(types.InitializedParams())
        document = types.TextDocumentItem(uri, "dojo", 1, WRONG)
        client.text_document_did_open(types.DidOpenTextDocumentParams(document))
        first = await asyncio.wait_for(published.get(), 120)
        changed = types.TextDocumentContentChangeWholeDocument(TEXT)
        versioned = types.VersionedTextDocumentIdentifier(2, uri)
        client.text_document_did_change(types.DidChangeTextDocumentParams(versioned, [changed]))
        second = await asyncio.wait_for(published.get(), 120)
        this = types.TextDocumentIdentifier(uri)
        shown = await client.text_document_hover_async(types.HoverParams(this, types.Position(5, 4)))
        edits = await client.text_document_formatting_async(
            types.DocumentFormattingParams(this, types.FormattingOptions(2, True))
        )
        client.text_document_did_close(types.DidCloseTextDocumentParams(this))
        await client.shutdown_async(None)
        client.exit(None)
        await client.stop()
        return began, first, second, shown, edits

    began, first, second, shown, edits = asyncio.run(talk())
    assert began.server_info.name == "dojoir"
    assert first.version == 1 and [one.code for one in first.diagnostics] == ["unknown-buffer"] * 2
    assert [(one.range.start.line, one.range.start.character) for one in first.diagnostics] == [(5, 11), (6, 11)]
    assert all(one.source == "dojoir" and "cure: " in one.message for one in first.diagnostics)
    assert second.version == 2 and len(second.diagnostics) == 0
    assert "cores" in shown.contents.value and shown.range.start.character == 4
    (edit,) = edits
    assert edit.new_text == formatted(TEXT, "a")
