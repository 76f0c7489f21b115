"""Colours for kernels in strings of Python: a triple-quoted string that begins with `kernel` is lexed as one."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from pygments.lexers.python import PythonLexer
from pygments.token import String, _TokenType

from dojoir.highlight import DojoLexer

if TYPE_CHECKING:
    from sphinx.application import Sphinx

KERNEL = re.compile(r'("""|\'\'\')(\\?\n|)(kernel .*?)(?=\1)', re.DOTALL)


class PythonWithKernels(PythonLexer):
    """Python, in which the strings that are kernels have their own colours."""

    def get_tokens_unprocessed(self, text: str, stack: Any = ("root",)) -> Iterator[tuple[int, _TokenType, str]]:
        kernels = [match.span(3) for match in KERNEL.finditer(text)]
        for at, kind, value in super().get_tokens_unprocessed(text, stack):
            inside = [span for span in kernels if span[0] < at + len(value) and at < span[1]]
            if not (inside and kind in String):
                yield at, kind, value
                continue
            (start, end) = inside[0]
            if at <= start:
                if at < start:
                    yield at, kind, value[: start - at]
                for place, its, part in DojoLexer().get_tokens_unprocessed(text[start:end]):
                    yield start + place, its, part
            if at + len(value) > end:
                yield max(at, end), kind, text[max(at, end) : at + len(value)]


def setup(app: Sphinx) -> dict[str, Any]:
    app.add_lexer("python", PythonWithKernels)
    return {"parallel_read_safe": True}
