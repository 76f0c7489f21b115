"""The codes of errors that the sources raise, by where a word stands in them."""

from __future__ import annotations

import ast
import re
from pathlib import Path

from folders import ROOT

WORD = re.compile(r"[a-z][a-z0-9]*(-[a-z0-9]+)+")
RAISES = re.compile(
    r"Refusal|Diagnostic|diagnostic_at|accuse|WrongInstances|_?illegal|_?error|\w+Error|_mismatch|_Clash|_at"
)

NO_CODES = frozenset({"dojoir-library", "dojoir-opt", "dojoir-trace", "utf-8"})
"""Words with a hyphen that stand where codes do, and are none."""


def words() -> dict[str, str]:
    """Every word of the sources that is a code by where it stands, each with a place: among the arguments of what
    raises, first in a tuple that is returned or yielded, or under the name of a code."""
    found: dict[str, str] = {}

    def note(path: Path, *nodes: ast.AST) -> None:
        for top in nodes:
            for node in ast.walk(top):
                if isinstance(node, ast.Constant) and isinstance(node.value, str) and WORD.fullmatch(node.value):
                    found[node.value] = f"{path.relative_to(ROOT)}:{node.lineno}"

    for part in ("dojoir", "grammar", "passes", "codegen", "runtime"):
        for path in (ROOT / part).rglob("*.py"):
            for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
                match node:
                    case ast.Call(ast.Name(name) | ast.Attribute(attr=name), args) if RAISES.fullmatch(name):
                        note(path, *args)
                        if len(args) > 1:
                            single(found, path, args[0], args[1])
                    case ast.Return(ast.Tuple([first, *_])) | ast.Yield(ast.Tuple([first, *_])):
                        note(path, first)
                    case ast.Assign([ast.Name("code" | "what")], value):
                        note(path, value)
                    case ast.Assign([ast.Tuple([ast.Name("code"), *_])], ast.Tuple([first, *_])):
                        note(path, first)
    return {word: where for word, where in found.items() if word not in NO_CODES}


def texts() -> set[str]:
    """Every text that stands among the arguments of what raises, or that is what a code is when none is given."""
    found = {"error"}  # the default of DojoError
    for part in ("dojoir", "grammar", "passes", "codegen", "runtime"):
        for path in (ROOT / part).rglob("*.py"):
            for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
                if isinstance(node, ast.Call):
                    name = getattr(node.func, "id", getattr(node.func, "attr", ""))
                    if name == "public_with":
                        found |= {k.value.value for k in node.keywords if isinstance(k.value, ast.Constant)}
                    if RAISES.fullmatch(name):
                        constants = (a.value for a in node.args if isinstance(a, ast.Constant))
                        found |= {value for value in constants if isinstance(value, str)}
    return found


def single(found: dict[str, str], path: Path, first: ast.expr, second: ast.expr) -> None:
    """Notes a code of one word: the first of two arguments, or the second after a message."""
    for node, other in ((first, second), (second, first)):
        message = isinstance(other, ast.JoinedStr) or (isinstance(other, ast.Constant) and " " in str(other.value))
        if message and isinstance(node, ast.Constant) and re.fullmatch("[a-z]{4,}", str(node.value)):
            found[str(node.value)] = f"{path.relative_to(ROOT)}:{node.lineno}"
