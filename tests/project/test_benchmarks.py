"""`python -m benchmarks`: each suite has its rows, and a row that is measured is kept, shown again and a page."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from folders import ROOT


def run(*words: str) -> str:
    command = [sys.executable, "-m", "benchmarks", *words]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.mark.parametrize(
    ("suite", "row"),
    [("practice", "softplus"), ("library", "transpose"), ("polybench", "gemver"), ("examples", "reduce_mean")],
)
def test_a_row_beside_its_own_text(suite: str, row: str, tmp_path: Path) -> None:
    kept, page = tmp_path / "rows.json", tmp_path / "page.md"
    quick = ["--quick", "--budget", "0.01", "--peers", "text", "--scale", "0.1"]
    shown = run(suite, "--rows", row, *quick, "--json", str(kept), "--page", str(page))
    record: dict[str, Any] = json.loads(kept.read_text())
    ((name, found),) = record["rows"].items()
    assert name.startswith(row) and not found["failed"] and found["peers"].keys() == {"text"}
    assert found["ours"] > 0 and found["error"] <= 2e-3 and record["machine"] and record["day"] and record["tree"]
    assert f"| {name} |" in page.read_text() and record["tree"] in page.read_text()
    again = run(suite, "--from", str(kept), "--quick")
    assert again.splitlines()[1] == next(line for line in shown.splitlines() if "GB/s" in line)


def test_a_row_that_is_not_there_is_told() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "benchmarks", "unseen", "--rows", "softmux"],
        cwd=ROOT,
        capture_output=True,
        text=True,
    )
    assert done.returncode == 1 and "softmux" in done.stderr and "Traceback" not in done.stderr
