"""`dojoir db runs` and `show`, what is said of what was stored, and what `dojoir play` shows, saves, explains."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from test_verbs import played, run

import dojoir
from dojoir.cli.listing import _help

GEMV = ["library:gemv", "-s", "N=64", "-s", "M=64", "--timer", "static"]


@pytest.fixture
def database(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> list[str]:
    """A database with the run `mine`, as options."""
    pytest.importorskip("sqlalchemy", reason="needs the extra agents")
    given = ["--db", str(tmp_path / "a.db")]
    more = ["--strategy", "random", "--states", "5", "--resume", "mine", "--store", str(tmp_path / "kept")]
    status, out, err = run(capsys, "tune", *GEMV, *more, *given)
    assert status == 0
    folder = tmp_path / "kept"
    assert f"optimize(kernel, folders=[{str(folder)!r}]) uses it" in out and f"DOJOIR_SCHEDULES={folder}" in out
    assert "recorded in " in err and "estimates are no times" in err
    return given


def test_runs_are_listed_and_shown(capsys: pytest.CaptureFixture[str], database: list[str], tmp_path: Path) -> None:
    status, out, _ = run(capsys, "db", "runs", "gemv", *database)
    (line,) = out.splitlines()
    assert status == 0 and line.startswith("mine ") and "5 states" in line
    (told,) = json.loads(run(capsys, "db", "runs", *database, "--json")[1])["runs"]
    assert told["name"] == "mine" and told["statuses"] == {"ok": 5} and told["settings"]["seed"] == 0
    status, out, err = run(capsys, "db", "runs", "softmax", *database)
    assert (status, out) == (0, "") and "no run of softmax is here" in err
    trace = tmp_path / "trace.json"
    status, text, _ = run(capsys, "db", "show", "last", *database, "--save-trace", str(trace))
    made = dojoir.Trace.load(trace)
    assert status == 0 and str(made.kernel) in text and 'strategy: "random"' in text
    assert all(f"  {move}\n" in text for move in made.moves) and len(made.moves) == told["moves"]
    found = json.loads(run(capsys, "db", "show", made.kernel.hash[:8], *database, "--json")[1])
    assert found["run"] is None and found["hash"] == made.kernel.hash
    assert found["moves"] == [str(move) for move in made.moves]
    assert [one["run"] for one in found["results"]] == ["mine"] and found["results"][0]["protocol"] == "static"
    assert dojoir.parse(found["text"]) == made.kernel
    status, text, _ = run(capsys, "db", "show", "mine:2", *database, "--check")
    assert status == 0 and " cases on llvm are right\n" in text and ", run mine\n" in text
    found = json.loads(run(capsys, "db", "show", "last:5", *database, "--check", "--json")[1])
    assert found["right"] is True and found["results"][0]["machine"] and found["results"][0]["run"] == "mine"
    for name, code in (("mine:6", "unknown-state"), ("mine:0", "unknown-state"), ("yours:1", "unknown-run")):
        assert f"error[{code}]" in run(capsys, "db", "show", name, *database)[2]


def test_a_name_that_there_is_not_is_told(capsys: pytest.CaptureFixture[str], database: list[str]) -> None:
    for name in ("yours", "abc", "000000000000"):
        status, out, err = run(capsys, "db", "show", name, *database)
        assert (status, out) == (1, "") and "error[unknown-state]" in err and "dojoir db top" in err
    from dojoir.records import Database

    with Database(database[1]) as open_:
        open_.begin(dojoir.kernels.load("relu"), {}, "begun")
    status, out, _ = run(capsys, "db", "show", "begun", *database)
    assert status == 0 and "not ended" in out
    status, _, err = run(capsys, "db", "show", "begun", *database, "--save-trace", "t.json")
    assert status == 1 and "has no answer yet" in err and not Path("t.json").exists()


def test_a_move_that_is_played_shows_what_it_changed(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    out, err = played(capsys, monkeypatch, "split(@i, 7)\nundo\ndiff\nquit\n")
    assert err == "" and out.count("kernel relu(N)") == 1
    assert "-N @i\n" in out and "+(N + 6) // 7 @i\n" in out  # the move
    assert "+N @i\n" in out and out.endswith("nothing changed\n")  # taken back, and the sum of both


def test_a_game_is_saved(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    trace, text, nowhere = tmp_path / "a.json", tmp_path / "a.dojo", tmp_path / "no" / "a.json"
    lines = f"split(@i, 7)\nsave {trace}\nsave {text}\nsave\nsave {nowhere}\n"
    out, err = played(capsys, monkeypatch, lines)
    assert [str(move) for move in dojoir.Trace.load(trace).moves] == ["split(@i, 7)"]
    assert dojoir.load(text) == dojoir.Trace.load(trace).kernel
    assert f"{trace}: 1 moves" in out and "error[bad-arguments]" in err and "error[cannot-write]" in err


def test_a_game_explains_moves_codes_and_words(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    lines = "explain\nexplain split(@i, 7)\nexplain split(9, 7)\nsplit(9, 7)\nexplain\nexplain p\nexplain nothing\n"
    out, err = played(capsys, monkeypatch, lines)
    assert "nothing was refused yet" in err and "there is no code, move, pass or mark 'nothing'" in err
    assert "\nlegal\n" in out
    assert out.count("unknown-place: ") >= 2 and out.count("cure: Paths count children from 0.") == 2
    assert "shared out over the cores" in out


def test_help_of_a_pass_has_no_marks_of_its_tests() -> None:
    for name in [*dojoir.PASSES, *(kind.name for kind in dojoir.MOVES)]:
        assert "<BLANKLINE>" not in _help(name, dict(dojoir.PASSES))
