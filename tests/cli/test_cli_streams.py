"""`dojoir-opt` on standard streams that are closed, full, or of few characters."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

RELU = "kernel relu(N)\nin  x: f32[N]\nout y: f32[N]\n\nN\n| y[{0}] = max(x[{0}], 0)\n"
DOJO = f"{sys.executable} -m dojoir.cli"


def shell(folder: Path, command: str, **environment: str) -> subprocess.CompletedProcess[str]:
    """A command of the shell, in which `dojoir-opt` is ours."""
    (folder / "relu.dojo").write_text(RELU)
    done = subprocess.run(
        ["bash", "-c", command.replace("dojoir-opt", DOJO)],
        capture_output=True,
        text=True,
        cwd=folder,
        env={**os.environ, "DOJOIR_CACHE": str(folder / "cache"), **environment},
        timeout=120,
    )
    for word in ("Traceback", "internal", "Exception ignored"):
        assert word not in done.stdout + done.stderr, done.stderr
    return done


FULL = "error[cannot-write]: cannot write to stdout: No space left on device\n"


@pytest.mark.parametrize(
    "arguments", ["relu.dojo", "relu.dojo --moves", "relu.dojo --emit c", "--help", "--version", "--list-passes"]
)
@pytest.mark.skipif(not Path("/dev/full").exists(), reason="there is no /dev/full")
def test_a_full_stdout(tmp_path: Path, arguments: str) -> None:
    done = shell(tmp_path, f"dojoir-opt {arguments} >/dev/full")
    assert (done.returncode, done.stderr) == (1, FULL)


def test_a_closed_stdout(tmp_path: Path) -> None:
    done = shell(tmp_path, "dojoir-opt relu.dojo >&-")
    assert done.returncode == 1 and done.stderr == "error[cannot-write]: cannot write to stdout: it is closed\n"
    done = shell(tmp_path, "dojoir-opt relu.dojo -o out.dojo >&- && cat out.dojo")
    assert (done.returncode, done.stdout, done.stderr) == (0, RELU, "")


def test_a_closed_stdin(tmp_path: Path) -> None:
    done = shell(tmp_path, "dojoir-opt <&-")
    assert done.returncode == 1 and "stdin is closed; name a file" in done.stderr
    done = shell(tmp_path, "dojoir-opt relu.dojo <&-")
    assert (done.returncode, done.stdout) == (0, RELU)


@pytest.mark.parametrize("where", [">&-", ">/dev/full"])
def test_where_nobody_can_be_told_the_status_says_it(tmp_path: Path, where: str) -> None:
    assert shell(tmp_path, f"dojoir-opt relu.dojo 2{where}").stdout == RELU
    assert shell(tmp_path, f"dojoir-opt none.dojo 2{where}").returncode == 1
    assert shell(tmp_path, f"dojoir-opt --bogus 2{where}").returncode == 2
    assert shell(tmp_path, f"dojoir-opt relu.dojo {where} 2{where}").returncode == 1


def test_a_terminal_that_takes_ascii_alone(tmp_path: Path) -> None:
    done = shell(tmp_path, "dojoir-opt relu.dojo --time -s N=1000 --threads 1", PYTHONIOENCODING="ascii:strict")
    assert done.returncode == 0 and "+-" in done.stdout and done.stdout.isascii()
    done = shell(tmp_path, "dojoir-opt relu.dojo --explain 'join_scopes(ß, 1)'", PYTHONIOENCODING="ascii:strict")
    assert done.returncode == 1 and (done.stdout + done.stderr).isascii()
    done = shell(tmp_path, "printf 'kernel ü' | dojoir-opt", PYTHONIOENCODING="ascii:strict")
    assert done.returncode == 1 and done.stderr.isascii()


def test_a_reader_that_leaves(tmp_path: Path) -> None:
    done = shell(tmp_path, "set -o pipefail; dojoir-opt --help | head -n 1")
    assert done.returncode == 0 and done.stderr == "" and done.stdout.startswith("usage:")
