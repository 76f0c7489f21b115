"""Mutants of the product are what they say, and stand where they are planted and nowhere else."""

from __future__ import annotations

import ast
import subprocess
import sys
from pathlib import Path

import pytest
from folders import ROOT
from mutants import ROOMS, Mutant, Outcome, draw, environment_of, failed_in, mutants_of, naming, plant, table


@pytest.fixture(scope="module")
def mutants() -> list[Mutant]:
    return draw(70, 1)


def test_they_are_edits_that_change_the_tree_and_are_drawn_by_the_seed(mutants: list[Mutant]) -> None:
    assert draw(70, 1) == mutants != draw(70, 2)
    assert {mutant.kind for mutant in mutants} == {
        "comparison", "bound", "branch", "arguments", "connective", "negation",
    }  # fmt: skip
    assert {room for mutant in mutants for room in ROOMS if mutant.path.startswith(room)} == set(ROOMS)
    for mutant in mutants:
        before = (ROOT / mutant.path).read_text(encoding="utf-8")
        assert ast.dump(ast.parse(mutant.text())) != ast.dump(ast.parse(before)), mutant.name


def test_one_that_is_planted_is_what_runs(tmp_path: Path) -> None:
    path = ROOT / "dojoir" / "meaning" / "sizes.py"
    mutant = next(mutant for mutant in mutants_of(path) if mutant.kind == "branch")
    plant(mutant, tmp_path)
    code = "import dojoir.meaning.sizes as a, dojoir.passes as b; print(a.__file__, b.__file__)"
    command = [sys.executable, "-c", code]
    environment = environment_of(str(tmp_path))
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, check=True)
    edited, other = map(Path, done.stdout.split())
    assert edited.read_text(encoding="utf-8") == mutant.text() != path.read_text(encoding="utf-8")
    assert other.is_relative_to(tmp_path) and other.resolve().is_relative_to(ROOT)


def test_the_table_counts_and_lists_what_is_alive() -> None:
    names = ["dojoir/sets/flow.py:3 bound: 1 -> 2", "dojoir/sets/flow.py:9 branch: x -> False"]
    page = table([Outcome(names[0], "tests/a.py::b", 1.0), Outcome(names[1], "", 2.0)])
    assert "| dojoir/sets | 1 | 1 |\n| bound | 1 | 0 |\n| all | 1 | 1 |\n| branch | 0 | 1 |" in page
    assert f"- `{names[1]}`" in page and f"- `{names[0]}`: a.py::b" in page


def test_files_that_name_a_module_are_asked_first() -> None:
    named = naming("dojoir/support/shelf.py")
    assert "tests/support/test_shelf.py" in named and "tests/proof/test_core.py" not in named


def test_what_failed_is_read_from_the_summary() -> None:
    said = "F.\nFAILED tests/a.py::b[x y] - assert 1 == 2\nERROR tests/c.py - Missing\n1 failed, 1 error in 2 s"
    assert failed_in(said) == ["tests/a.py::b[x y]", "tests/c.py"]
