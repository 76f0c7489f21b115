"""Commands that are wrong: each error has a status and a code, and names the cure in the words of a shell."""

from __future__ import annotations

import re
import shlex
from itertools import pairwise
from pathlib import Path

import pytest
from folders import ROOT

import dojoir.cli
import dojoir.verbs

LINES = (ROOT / "tests" / "kept" / "wrong_commands.txt").read_text(encoding="utf-8").splitlines()
CASES = [
    (line.removeprefix("$ "), *map(str.strip, below.split(" | ", 2)))
    for line, below in pairwise(LINES)
    if line.startswith("$ ")
]
KERNEL = "kernel k(N)\nin x: f32[N]\nout y: f32[N]\nN\n| y[{0}] = x[{0}]\n"


def test_there_are_sixty_different_ones() -> None:
    assert len({case[0] for case in CASES}) == len(CASES) >= 60


@pytest.mark.parametrize(("command", "status", "code", "words"), CASES, ids=[case[0] for case in CASES])
def test_the_error_names_the_cure(
    command: str,
    status: str,
    code: str,
    words: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("DOJOIR_DB", raising=False)
    Path("K").write_text(KERNEL)
    Path("T").write_text("hello world\n")
    Path("D").mkdir()
    program, *arguments = shlex.split(command)
    main = dojoir.cli.main if program == "dojoir-opt" else dojoir.verbs.main
    try:
        got = main(arguments)
    except SystemExit as end:
        got = int(end.code or 0)
    captured = capsys.readouterr()
    assert (got, captured.out) == (int(status), ""), captured
    assert f"error[{code}]" in captured.err and words in captured.err, captured.err
    assert not re.search(r"Traceback|<BLANKLINE>|argparse|NoneType|__\w+__|\binvalid \w+ value", captured.err)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["D", "K", "T"], "nothing is left behind"
