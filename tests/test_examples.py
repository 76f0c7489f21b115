"""Every example runs, at small sizes, and shows what it says it shows."""

from __future__ import annotations

import runpy
from pathlib import Path
from typing import Any

import pytest

EXAMPLES = Path(__file__).resolve().parent.parent / "examples"


def run(capsys: pytest.CaptureFixture[str], example: str, /, **small: Any) -> str:
    """What the `main` of an example prints, with arguments that make it quick."""
    runpy.run_path(str(EXAMPLES / example))["main"](**small)
    return capsys.readouterr().out


def test_all_examples_are_here() -> None:
    tested = {name.removeprefix("test_example_") for name in globals() if name.startswith("test_example_")}
    assert tested == {path.stem for path in EXAMPLES.glob("*.py")}


def test_example_01_write_and_run(capsys: pytest.CaptureFixture[str]) -> None:
    out = run(capsys, "01_write_and_run.py", n=20)
    assert "kernel distances(N, M, K)" in out
    assert "error[out-of-bounds]" in out


def test_example_02_builder(capsys: pytest.CaptureFixture[str]) -> None:
    out = run(capsys, "02_builder.py")
    assert "kernel fir(N)" in out


def test_example_03_optimise_softmax(capsys: pytest.CaptureFixture[str]) -> None:
    out = run(capsys, "03_optimise_softmax.py", n=48)
    assert "error[wrong-value]: reuse_dims(m, 0)" in out
    assert out.count("times as fast as at first") == 9
    assert "tmp e: f32[N~, M]" in out


def test_example_04_random_search(capsys: pytest.CaptureFixture[str]) -> None:
    out = run(capsys, "04_random_search.py", name="rmsnorm", size=32, walks=2, length=3)
    assert "kernel rmsnorm(N, M)" in out


def test_the_random_search_is_short() -> None:
    lines = (EXAMPLES / "04_random_search.py").read_text(encoding="utf-8").splitlines()
    assert len(lines) <= 60


def test_example_05_save_and_replay(capsys: pytest.CaptureFixture[str]) -> None:
    out = run(capsys, "05_save_and_replay.py")
    assert '"tile(@i, @j, 8, 32)"' in out
    assert "kernel matmul_nt" in out
