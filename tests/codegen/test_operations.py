"""The vocabulary of the instruction tables: every row and every lookup is in it, and nothing else is."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

import pytest
from folders import ROOT

from dojoir.codegen.c.dialect import rows
from dojoir.codegen.c.spelling import C
from dojoir.codegen.gpu.dialects import CUDA, spelling
from dojoir.codegen.lir.operations import OPERATIONS
from dojoir.codegen.llvm.operation_table import llvm
from dojoir.codegen.simd.isas import ISAS

FOLDER = ROOT / "codegen" / "simd"
LOOKUPS = {"has", "_has", "find", "operation", "_operation", "_filled"}
WORDS = re.compile(r"[a-z]+(_[a-z]+)*")


def lookups() -> Iterator[tuple[str, str]]:
    """What the code asks a table for, as patterns, each with its place: a text, or one with parts filled in."""
    for path in FOLDER.glob("*.py"):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            match node:
                case ast.Call(ast.Attribute(_, name) | ast.Name(name), arguments) if name in LOOKUPS:
                    for argument in arguments[:2]:
                        match argument:
                            case ast.Constant(str(text)) if WORDS.fullmatch(text):
                                yield f"{path.name}:{node.lineno}", re.escape(text)
                            case ast.JoinedStr(parts):
                                yield (
                                    f"{path.name}:{node.lineno}",
                                    "".join(
                                        re.escape(str(p.value)) if isinstance(p, ast.Constant) else r"\w+"
                                        for p in parts
                                    ),
                                )


def test_every_lookup_is_in_the_vocabulary() -> None:
    found = list(lookups())
    assert len(found) > 30
    for place, pattern in found:
        assert any(re.fullmatch(pattern, name) for name in OPERATIONS), f"{place}: {pattern}"


def test_every_row_is_in_the_vocabulary_and_every_word_has_a_row() -> None:
    every = (*ISAS.values(), C, spelling(CUDA).dialect, *(llvm(False, x86, True, True) for x86 in (False, True)))
    bases = [dialect.base for dialect in every if dialect.base]
    used = {row.operation for dialect in (*every, *bases, llvm(False, True, False, False)) for row in dialect.table}
    assert used == set(OPERATIONS)


@pytest.mark.parametrize("name", ISAS)
def test_a_table_has_what_none_can_do_without(name: str) -> None:
    given = {row.operation for row in ISAS[name].table}
    assert {op.name for op in OPERATIONS.values() if op.needed} <= given


@pytest.mark.parametrize("name", ISAS)
def test_a_spelling_names_operands_of_its_operation_alone(name: str) -> None:
    for row in ISAS[name].table:
        given = set(OPERATIONS[row.operation].operands)
        spelled = set(re.findall(r"(?<![\w<\"'])[abcmnp](?![\w>])", re.sub(r"\(\d\)", "", row.spelling)))
        assert spelled <= given, f"{row.operation}: {row.spelling}"


def test_the_page_lists_the_vocabulary() -> None:
    page = (ROOT / "docs" / "add_a_target.md").read_text(encoding="utf-8")
    rows = re.findall(r"^\| (\*\*)?`([\w ]+)`(?:\*\*)? \| (.*) \|$", page, re.MULTILINE)
    assert [(head, meaning.replace("\\|", "|"), bool(bold)) for bold, head, meaning in rows] == [
        (" ".join((op.name, *op.operands)), op.meaning, op.needed) for op in OPERATIONS.values()
    ]


def test_a_word_that_is_none_is_refused() -> None:
    with pytest.raises(AssertionError, match="no operation is called selct; did you mean 'select'"):
        list(rows("\nselct  float  a ? b : c"))
    with pytest.raises(AssertionError, match="no type is called floats; did you mean 'float'"):
        list(rows("add  floats  a + b"))
    with pytest.raises(AssertionError, match="a row is an operation, types and a spelling"):
        list(rows("add float  a + b"))
