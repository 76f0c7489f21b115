"""Lint, format and types of the whole tree, as CI holds them."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent


def run(*command: str, cwd: Path = ROOT, env: dict[str, str] | None = None) -> None:
    done = subprocess.run(
        [sys.executable, "-m", *command], cwd=cwd, env=os.environ | (env or {}), capture_output=True, text=True
    )
    assert done.returncode == 0, done.stdout + done.stderr


def test_ruff_check() -> None:
    run("ruff", "check", ".")


def test_ruff_format() -> None:
    run("ruff", "format", "--check", ".")


@pytest.fixture
def one_package(tmp_path: Path) -> Path:
    """A folder that holds `dojoir` laid out as it is installed, by links."""
    package = tmp_path / "dojoir"
    package.mkdir()
    for entry in (ROOT / "dojoir").iterdir():
        (package / entry.name).symlink_to(entry)
    for part in ("grammar", "passes", "codegen", "runtime"):
        (package / part).symlink_to(ROOT / part)
    return tmp_path


def test_mypy_strict(one_package: Path) -> None:
    config = ["--config-file", str(ROOT / "pyproject.toml"), "--cache-dir", str(ROOT / ".mypy_cache")]
    run("mypy", *config, "-p", "dojoir", cwd=one_package, env={"MYPYPATH": str(one_package)})


def test_no_escape_from_the_types() -> None:
    for folder in ("dojoir", "grammar", "passes", "codegen", "runtime"):
        for path in (ROOT / folder).rglob("*.py"):
            for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1):
                assert "type: ignore" not in line, f"{path.relative_to(ROOT)}:{number}"
