"""The codes of errors that the sources raise, by where a word stands in them."""

from __future__ import annotations

import ast
import re
from pathlib import Path

from asked import PRODUCT, Source, asked
from folders import ROOT

WORD = re.compile(r"[a-z][a-z0-9]*(-[a-z0-9]+)+")
RAISES = re.compile(
    r"Refusal|refusal|Diagnostic|diagnostic_at|accuse|WrongInstances|_?illegal|_?error|\w+Error|_mismatch|_Clash|_at"
)

NO_CODES = frozenset({"dojoir-library", "dojoir-opt", "dojoir-trace", "utf-8"})
"""Words with a hyphen that stand where codes do, and are none."""


def words() -> dict[str, str]:
    """Every word of the sources that is a code by where it stands, each with a place: among the arguments of what
    raises, first in a tuple that is returned or yielded, or under the name of a code."""
    return {
        word: f"{path.relative_to(ROOT)}:{line}"
        for path in _files()
        for word, line in words_of(path)
        if word not in NO_CODES
    }


def texts() -> set[str]:
    """Every text that stands among the arguments of what raises, or that is what a code is when none is given."""
    return {"error"}.union(*map(texts_of, _files()))  # the default of DojoError


def _files() -> list[Path]:
    return [path for part in PRODUCT for path in (ROOT / part).rglob("*.py")]


@asked()
def words_of(source: Source) -> list[tuple[str, int]]:
    found: list[tuple[str, int]] = []

    def note(*nodes: ast.AST) -> None:
        for top in nodes:
            for node in ast.walk(top):
                if isinstance(node, ast.Constant) and isinstance(node.value, str) and WORD.fullmatch(node.value):
                    found.append((node.value, node.lineno))

    for call in source.all(ast.Call):
        if RAISES.fullmatch(getattr(call.func, "id", getattr(call.func, "attr", ""))):
            note(*call.args)
            found += single(*call.args[:2]) if len(call.args) > 1 else []
    for node in (*source.all(ast.Return), *source.all(ast.Yield), *source.all(ast.Assign)):
        match node:
            case ast.Return(ast.Tuple([first, *_])) | ast.Yield(ast.Tuple([first, *_])):
                note(first)
            case ast.Assign([ast.Name("code" | "what")], value):
                note(value)
            case ast.Assign([ast.Tuple([ast.Name("code"), *_])], ast.Tuple([first, *_])):
                note(first)
    return found


@asked()
def texts_of(source: Source) -> set[str]:
    found: set[object] = set()
    for node in source.all(ast.Call):
        name = getattr(node.func, "id", getattr(node.func, "attr", ""))
        if name == "public_with":
            found |= {k.value.value for k in node.keywords if isinstance(k.value, ast.Constant)}
        if RAISES.fullmatch(name):
            found |= {a.value for a in node.args if isinstance(a, ast.Constant)}
    return {value for value in found if isinstance(value, str)}


def single(first: ast.expr, second: ast.expr) -> list[tuple[str, int]]:
    """A code of one word: the first of two arguments, or the second after a message."""
    found = []
    for node, other in ((first, second), (second, first)):
        message = isinstance(other, ast.JoinedStr) or (isinstance(other, ast.Constant) and " " in str(other.value))
        if message and isinstance(node, ast.Constant) and re.fullmatch("[a-z]{4,}", str(node.value)):
            found.append((str(node.value), node.lineno))
    return found
