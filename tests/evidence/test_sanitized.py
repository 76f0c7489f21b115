"""`dojoir gate --sanitize`: what compute-sanitizer says is what the gate says, with a stand-in for the tool."""

from __future__ import annotations

from pathlib import Path

import pytest

import dojoir
from dojoir.evidence.sanitized import KINDS, complaint
from dojoir.verbs import main

KERNEL = dojoir.parse("kernel scaled(N)\nin x: f32[N]\nout y: f32[N]\nN\n| y[{0}] = x[{0}] * 2\n")
FOUND = 'echo "========= COMPUTE-SANITIZER"; echo "========= Invalid __global__ write of size 4 bytes"; exit 97'


def tool(folder: Path, patch: pytest.MonkeyPatch, script: str) -> Path:
    """A stand-in that keeps its arguments and what it is given."""
    path = folder / "compute-sanitizer"
    path.write_text(f'#!/bin/sh\necho "$@" >> {folder}/arguments\ncat > {folder}/job\n{script}\n', encoding="utf-8")
    path.chmod(0o755)
    patch.setenv("PATH", f"{folder}:/usr/bin:/bin")
    return folder


def test_a_kernel_without_errors(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = tool(tmp_path, monkeypatch, "exit 0")
    assert complaint(KERNEL, "cuda", {"N": 8}, 5, 30.0) is None
    asked = (folder / "arguments").read_text().splitlines()
    assert [line.split()[1] for line in asked] == list(KINDS)
    assert '"sizes": {"N": 8}' in (folder / "job").read_text()


def test_what_it_finds_is_the_reason(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    tool(tmp_path, monkeypatch, FOUND)
    found = complaint(KERNEL, "cuda", {"N": 8}, 5, 30.0)
    assert found == "memcheck: Invalid __global__ write of size 4 bytes"


@pytest.mark.parametrize(
    ("script", "words"), [("echo no device >&2; exit 3", "no device"), ("sleep 60", "takes more")]
)
def test_what_says_nothing_of_the_kernel(
    script: str, words: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tool(tmp_path, monkeypatch, script)
    with pytest.raises(dojoir.ToolchainError, match=words):
        complaint(KERNEL, "cuda", {"N": 8}, 5, 2.0)


def test_it_is_not_there(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(dojoir.ToolchainError, match="not installed"):
        complaint(KERNEL, "cuda", {"N": 8}, 5, 30.0)


def test_it_is_for_cuda(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "k.dojo"
    path.write_text(dojoir.to_text(KERNEL), encoding="utf-8")
    assert main(["gate", str(path), "-s", "N=8", "--sanitize", "--beside", "c", "--seconds", "0.1"]) == 3
    assert "correct        fail: compute-sanitizer is for the target cuda, not for llvm" in capsys.readouterr().out
