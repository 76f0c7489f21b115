"""What the rules of the house ask of a source of the product (`tests/project/test_style.py` and others)."""

from __future__ import annotations

import ast
import io
import tokenize

from asked import Source, asked

QUIET = {tokenize.COMMENT, tokenize.NL, tokenize.NEWLINE, tokenize.INDENT, tokenize.DEDENT, tokenize.ENDMARKER}


@asked()
def temporary_files(source: Source) -> list[int]:
    """The lines that make a temporary file and do not say where."""
    return [
        node.lineno
        for node in source.all(ast.Call)
        if isinstance(node.func, ast.Attribute) and ast.unparse(node.func).startswith("tempfile.")
        if "dir" not in {word.arg for word in node.keywords}
    ]


@asked()
def values_in_errors(source: Source) -> list[int]:
    """The lines of errors that show a value by its own `repr`."""
    return [
        part.lineno
        for node in source.all(ast.Call)
        if isinstance(node.func, ast.Name) and node.func.id.endswith("Error") and node.func.id != "AttributeError"
        for part in ast.walk(node)
        if isinstance(part, ast.FormattedValue) and part.conversion == ord("r")
    ]


@asked()
def takes_dataclass(source: Source) -> bool:
    """Whether a file takes `dataclass` of the standard library."""
    return any(
        node.module == "dataclasses" and any(alias.name == "dataclass" for alias in node.names)
        for node in source.all(ast.ImportFrom)
    )


@asked()
def functions(source: Source) -> list[str]:
    """The name of each function."""
    return [node.name for node in source.all(ast.FunctionDef)]


@asked()
def names_of_dojoir(source: Source) -> list[tuple[int, str]]:
    """The line and the name of each attribute of `dojoir` that a file uses."""
    return [
        (node.lineno, node.attr)
        for node in source.all(ast.Attribute)
        if isinstance(node.value, ast.Name) and node.value.id == "dojoir"
    ]


def code_lines(source: Source) -> int:
    """Lines with code: no comments, no docstrings, no blank lines."""
    said: set[int] = set()
    for node in source.with_bodies():
        for part in node.body if isinstance(node.body, list) else ():
            match part:
                case ast.Expr(ast.Constant(str())):
                    said.update(range(part.lineno, (part.end_lineno or part.lineno) + 1))
    lines: set[int] = set()
    for token in tokenize.generate_tokens(io.StringIO(source.text).readline):
        if token.type not in QUIET:
            lines.update(range(token.start[0], token.end[0] + 1))
    return len(lines - said)


@asked()
def class_names(source: Source) -> list[str]:
    """The names of the classes at the top level of a file."""
    return [node.name for node in source.tree.body if isinstance(node, ast.ClassDef)]
