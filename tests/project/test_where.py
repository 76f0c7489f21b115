"""The page of a newcomer: each question has files that are there, and a name that one of them defines."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest
from folders import ROOT

PAGE = (ROOT / "docs" / "where.md").read_text(encoding="utf-8")
ROWS = [
    [cell.strip() for cell in line.strip("|").split("|")]
    for line in PAGE.splitlines()
    if re.match(r"\| (?!question)[^-|]", line)
]


def defined(path: Path) -> set[str]:
    """The names at the top level of a file of Python, and its own; of a folder those of its files."""
    if path.is_dir():
        return {name for file in path.glob("*.py") for name in defined(file)}
    if path.suffix != ".py":
        return set()
    names = {path.stem}
    for node in ast.parse(path.read_text(encoding="utf-8")).body:
        match node:
            case ast.FunctionDef(name=name) | ast.ClassDef(name=name) | ast.AnnAssign(target=ast.Name(name)):
                names.add(name)
            case ast.Assign(targets=targets):
                names.update(target.id for target in targets if isinstance(target, ast.Name))
    return names


def test_there_are_enough_questions() -> None:
    assert len(ROWS) >= 30 and len({question for question, *_ in ROWS}) == len(ROWS)


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row[0])
def test_the_files_answer(row: list[str]) -> None:
    question, files, name = row
    assert question.endswith("?")
    paths = [ROOT / file for file in re.findall(r"`([^`]+)`", files)]
    assert paths and all(path.exists() for path in paths), files
    assert {name.strip("`")} <= set().union(*map(defined, paths)), name
