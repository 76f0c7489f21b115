"""What the documentation shows is what happens: the README's blocks and the docstrings' examples run.

In the README and the page on the game, `python` blocks run in order as one program, and a `text` block right
after one is what it prints (`...` stands for anything). Blocks of `sh` that start with `dojoir` run from
the root of the tree, with a `text` block after them for what comes on the terminal (where that is measured, any
number stands for any other); so do those of the pages on evidence and on models, each page in a folder of its own;
models are those of a server on this machine. `dojo` blocks are kernels. The pictures are what `docs/draw.py` draws.
"""

from __future__ import annotations

import contextlib
import doctest
import importlib
import importlib.util
import inspect
import io
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest
from fake_models import a_game, serving
from folders import ROOT

import dojoir

README = ROOT / "README.md"
REFERENCE = ROOT / "docs" / "reference.md"


class Block(NamedTuple):
    """A fenced block of the README, the line it starts on, and the `text` block right after it, if any."""

    line: int
    language: str
    text: str
    prints: str | None


def blocks(*languages: str, page: Path = README) -> Iterator[Block]:
    text = page.read_text(encoding="utf-8")
    fence = re.compile(r"^```(\w+)\n(.*?)^```\n(?:\s*^```text\n(.*?)^```\n)?", re.MULTILINE | re.DOTALL)
    for match in fence.finditer(text):
        if match[1] in languages:
            yield Block(text.count("\n", 0, match.start()) + 2, match[1], match[2], match[3])


def agree(got: str, want: str) -> bool:
    """Equal, with `...` for anything; any white space is like any other, so that a page may break long lines."""
    return doctest.OutputChecker().check_output(want, got, doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE)


def test_the_kernel_shown_is_that_of_the_example() -> None:
    shown, *_ = (dojoir.parse(block.text) for block in blocks("dojo"))
    assert shown == dojoir.load(ROOT / "examples" / "softmax.dojo") == dojoir.kernels.load("softmax")


def test_the_pictures_are_those_that_are_drawn() -> None:
    spec = importlib.util.spec_from_file_location("draw", ROOT / "docs" / "draw.py")
    assert spec is not None and spec.loader is not None
    draw = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(draw)
    kept = {path.stem for path in draw.PICTURES.iterdir()}
    assert kept == set(draw.DRAWN)
    for name, made in draw.DRAWN.items():
        picture = (draw.PICTURES / f"{name}.svg").read_text(encoding="utf-8")
        assert picture == made(), f"{name}.svg: run python docs/draw.py"
    assert (ROOT / "docs" / "gallery.md").read_text(encoding="utf-8") == draw.gallery(), "run python docs/draw.py"


def test_every_kernel_shown_is_well_formed() -> None:
    for block in blocks("dojo"):
        dojoir.prove(dojoir.parse(block.text, f"README.md, line {block.line}"))


def needs(text: str) -> None:
    """Skips what imports PyTorch or is a part of it, where that is not installed."""
    if re.search(r"^\s*(?:>>> )?(?:import|from) torch|dojoir\.torch", text, re.MULTILINE):
        pytest.importorskip("torch", reason="needs the extra torch")


@pytest.mark.parametrize("page", [README, ROOT / "docs" / "game.md"], ids=lambda page: page.stem)
def test_the_tour_works_when_pasted(page: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    if page.stem == "game":
        pytest.importorskip("gymnasium", reason="needs the extra agents")
    monkeypatch.chdir(tmp_path)
    names: dict[str, object] = {"__name__": "__main__"}
    tour = list(blocks("python", page=page))
    assert tour
    missing = None
    for block in tour:
        try:
            needs(block.text)
        except pytest.skip.Exception as skipped:
            missing = skipped
            continue
        code = compile("\n" * (block.line - 1) + block.text, str(page), "exec")
        printed = io.StringIO()
        with contextlib.redirect_stdout(printed):
            exec(code, names)
        if block.prints is not None:
            assert agree(printed.getvalue(), block.prints), f"line {block.line} prints\n{printed.getvalue()}"
    if missing is not None:
        raise missing


@pytest.fixture(scope="session")
def shell(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """An environment in which `dojoir-opt` and `dojoir` are on the path."""
    folder = tmp_path_factory.mktemp("bin")
    for name, module in (("dojoir-opt", "cli"), ("dojoir", "verbs")):
        command = folder / name
        program = f"import sys; from dojoir.{module} import main; sys.exit(main())"
        command.write_text(f'#!/bin/sh\nexec "{sys.executable}" -c "{program}" "$@"\n')
        command.chmod(0o755)
    return os.environ | {"PATH": f"{folder}{os.pathsep}{os.environ['PATH']}"}


COMMANDS = [
    block
    for page in (README, ROOT / "docs" / "tour.md", ROOT / "docs" / "coming_from.md", REFERENCE)
    for block in blocks("sh", page=page)
    if block.text.startswith(("dojoir", "echo"))
]
MEASURED = (" --time", "dojoir tune")
"""Commands with these print times."""


def without_numbers(text: str) -> str:
    """A measured text with each number as `#`, its unit too, so that one run agrees with another."""
    return re.sub(r"[-\d][-\d.,e]*(?:x|%| (?:ns|us|ms|s)\b)?", "#", " ".join(text.split()))


@pytest.mark.parametrize("block", COMMANDS, ids=lambda block: f"line{block.line}")
def test_the_commands_work(block: Block, shell: dict[str, str], tmp_path: Path) -> None:
    (tmp_path / "examples").symlink_to(ROOT / "examples")
    run = subprocess.run(
        ["sh", "-ec", block.text], cwd=tmp_path, env=shell, capture_output=True, text=True, check=False
    )
    assert run.returncode == 0, run.stderr
    if block.prints is not None and any(word in block.text for word in MEASURED):
        got = [without_numbers(line) for line in (run.stdout + run.stderr).splitlines()]
        for line in block.prints.splitlines():
            assert any(agree(one, without_numbers(line)) for one in got), (line, run.stdout + run.stderr)
    elif block.prints is not None:
        assert agree(run.stdout + run.stderr, block.prints), run.stdout + run.stderr


EVIDENCE = [
    ROOT / "docs" / f"{name}.md"
    for name in ("bench", "gates", "bundles", "tasks", "data", "know", "models", "agents")
]


@pytest.mark.parametrize("page", EVIDENCE, ids=lambda page: page.stem)
def test_the_commands_of_a_page_work_one_after_another(page: Path, shell: dict[str, str], tmp_path: Path) -> None:
    (tmp_path / "examples").symlink_to(ROOT / "examples")
    shown = list(blocks("sh", page=page))
    assert shown
    with serving(a_game) as server:
        for block in shown:
            run = subprocess.run(
                ["sh", "-ec", block.text], cwd=tmp_path, env=shell | server.environment, capture_output=True,
                text=True, check=False,
            )  # fmt: skip
            if "error[missing-package]" in run.stderr:
                pytest.skip(run.stderr.strip())
            assert run.returncode == 0, (block.line, run.stdout, run.stderr)
            if block.prints is not None:
                assert agree(run.stdout + run.stderr, block.prints), (block.line, run.stdout + run.stderr)
    assert bool(server.requests) == (page.stem in ("models", "agents"))


def test_the_table_of_moves_is_complete() -> None:
    text = REFERENCE.read_text(encoding="utf-8")
    rows = re.findall(r"^\| `\w+\(.*\)` \|.*$", text, re.MULTILINE)
    written = [dojoir.parse_move(move).name for row in rows for move in re.findall(r"`(\w+\(.*?\))`", row)]
    assert set(written) == {move.name for move in dojoir.MOVES}


def test_the_tables_of_passes_and_targets_are_complete() -> None:
    text = REFERENCE.read_text(encoding="utf-8")
    rows = re.findall(r"^\| `(\w+)` \|", text, re.MULTILINE)
    assert rows == [*dojoir.PASSES, *dojoir.TARGETS]


@pytest.mark.parametrize("kind", dojoir.MOVES, ids=lambda kind: kind.name)
def test_a_move_shows_a_kernel_before_and_after_and_names_its_inverse(kind: type[dojoir.Move]) -> None:
    text, _, after = inspect.cleandoc(kind.__doc__ or "").partition("dojoir.apply(")
    assert "parse('''kernel " in text
    assert "\nkernel " in after
    sentences = " ".join(text.split("\n>>>")[0].split())
    inverse = re.search(r"[Ii]nverse (?:of|is) (?:`(\w+)`|the same move)", sentences)
    assert inverse, "the docstring does not say what the inverse is"
    assert inverse[1] is None or inverse[1] in {move.name for move in dojoir.MOVES}


# -- docstrings --------------------------------------------------------------------------------------------
def modules_with_examples() -> Iterator[str]:
    for folder in ("dojoir", "grammar", "passes", "codegen", "runtime"):
        for path in sorted((ROOT / folder).rglob("*.py")):
            if ">>>" in path.read_text(encoding="utf-8"):
                parts = path.relative_to(ROOT).with_suffix("").parts
                below = parts if folder == "dojoir" else ("dojoir", *parts)
                yield ".".join(part for part in below if part != "__init__")


@pytest.mark.parametrize("module", list(modules_with_examples()))
def test_the_examples_in_docstrings(module: str) -> None:
    if module.startswith("dojoir.torch"):
        pytest.importorskip("torch", reason="needs the extra torch")
    result = doctest.testmod(importlib.import_module(module))
    assert result.attempted > 0
    assert result.failed == 0
