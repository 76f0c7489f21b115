"""The command `dojoir`: its verbs, its statuses, and the form of its errors."""

from __future__ import annotations

import io
import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from commands import run

import dojoir

RELU = ["library:relu", "-s", "N=4096", "--timer", "static"]


def test_tune_writes_the_moves_that_it_found(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    trace, text = tmp_path / "trace.json", tmp_path / "relu.dojo"
    more = ["--strategy", "random", "--states", "12", "--save-trace", str(trace), "-o", str(text)]
    status, out, err = run(capsys, "tune", *RELU, *more)
    assert status == 0 and "states, 1.00x as fast as the start" in err
    moves = [line for line in out.splitlines() if not line.startswith("#")]
    loaded = dojoir.Trace.load(trace)
    assert [str(move) for move in loaded.moves] == moves
    assert dojoir.load(text).hash == loaded.kernel.hash


def test_tune_answers_as_json(capsys: pytest.CaptureFixture[str]) -> None:
    status, out, err = run(capsys, "tune", *RELU, "--strategy", "random", "--states", "6", "--json")
    found = json.loads(out)["tuned"]
    assert status == 0 and found["states"] == 6 and found["statuses"] == {"ok": 6}
    assert all("progress" in json.loads(line) for line in err.splitlines())


def test_tune_takes_a_cost_model(capsys: pytest.CaptureFixture[str]) -> None:
    status, out, _ = run(capsys, "tune", *RELU, "--strategy", "random", "--states", "5", "--cost-model", "estimate")
    assert status == 0 and "# " in out and "cost model: too few states" in out
    assert run(capsys, "tune", *RELU, "--cost-model", "oracle")[0] == 2


def test_tune_takes_a_strategy_from_a_file(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    path = tmp_path / "mine.py"
    path.write_text(
        "class Mine:\n"
        "    def __init__(self, play):\n        self.play = play\n"
        "    def ask(self, n):\n        return self.play.children(self.play.starts[0], n)\n"
        "    def tell(self, evaluations):\n        pass\n"
    )
    given = ["tune", *RELU, "--states", "5", "--load", str(path), "--strategy"]
    assert run(capsys, *given, "Mine")[0] == 0
    status, _, err = run(capsys, *given, "Yours")
    assert status == 1 and "error[unknown-strategy]" in err


def test_a_run_is_resumed_and_the_database_answers(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    pytest.importorskip("sqlalchemy", reason="needs the extra agents")
    db = ["--db", str(tmp_path / "a.db")]
    given = ["tune", *RELU, "--strategy", "random", *db, "--resume", "mine", "--states"]
    assert run(capsys, *given, "4")[0] == 0
    status, out, _ = run(capsys, *given, "8")
    assert status == 0 and "run mine, 4 states were known" in out
    status, out, _ = run(capsys, "db", "stats", *db, "--json")
    assert json.loads(out)["stats"]["builds"] == 8
    lines = tmp_path / "lines.jsonl"
    assert run(capsys, "db", "export", *db, "-o", str(lines))[0] == 0
    other = ["--db", str(tmp_path / "b.db")]
    status, out, err = run(capsys, "db", "import", str(lines), *other)
    assert status == 0 and "8 results" in out, err
    assert run(capsys, "db", "merge", str(tmp_path / "a.db"), *other)[:2] == (
        0,
        out.replace("8 results", "0 results"),
    )
    assert run(capsys, "db", "check", *other)[0] == 0
    status, out, err = run(capsys, "db", "top", "relu", *other)  # estimates are no times
    assert (status, out) == (0, "") and "nothing was timed of relu" in err
    assert run(capsys, "db", "prune", "--keep", "1", *other)[0] == 0
    lines.write_text(lines.read_text().replace('"move": "', '"move": "split(9, 9'))
    status, _, err = run(capsys, "db", "import", str(lines), "--db", str(tmp_path / "c.db"))
    assert status == 1 and "refused: line " in err


def played(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, lines: str, *more: str
) -> tuple[str, str]:
    monkeypatch.setattr("sys.stdin", io.StringIO(lines))
    status, out, err = run(capsys, "play", *RELU, *more)
    assert status == 0
    return out, err


def test_a_person_plays(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    trace = tmp_path / "trace.json"
    out, err = played(
        capsys, monkeypatch, "list vectorize\nsplit(@i, 8)\nundo\n1\nmoves\nhint\ntime\nhelp\nquit\nundo\n",
        "--save-trace", str(trace),
    )  # fmt: skip
    first = str(dojoir.moves(dojoir.kernels.load("relu"), "llvm")[0])
    assert err == ""
    assert f"\n{first}\n" in out and "vectorize(0)" in out and "an estimate" in out and "about" in out
    assert [str(move) for move in dojoir.Trace.load(trace).moves] == [first]


def test_a_wrong_command_is_told_and_the_game_goes_on(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    out, err = played(capsys, monkeypatch, "jump\n9999\nsplit(7, 2)\nundo\nshow\n")
    for code in ("bad-arguments", "unknown-place", "empty-trace"):
        assert f"[{code}]" in err
    assert out.count("kernel relu(N)") == 2


def test_an_agent_learns_and_plays(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    for package in ("gymnasium", "torch", "safetensors"):
        pytest.importorskip(package, reason="needs the extras agents and learn")
    path = str(tmp_path / "agent.safetensors")
    given = ["learn", "agent", "--kernel", "relu", "--length", "2", "--steps", "6", "-o", path]
    assert run(capsys, *given)[0] == 0
    status, out, _ = run(capsys, *given)
    assert status == 0 and "12 steps" in out
    assert run(capsys, "tune", *RELU, "--strategy", f"maxq:{path}", "--states", "5")[0] == 0
    for option, value in (("--operator", "sum"), ("--encoder", "lm:x")):
        status, _, err = run(capsys, *given, option, value)
        assert status == 1 and "error[bad-arguments]" in err and option in err


def test_an_agent_is_written_as_it_learns(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for package in ("gymnasium", "torch", "safetensors"):
        pytest.importorskip(package, reason="needs the extras agents and learn")
    from dojoir.game import MaxQ
    from dojoir.verbs import learn

    written: list[int] = []
    save = MaxQ.save

    def noted(agent: MaxQ, path: str) -> None:
        written.append(agent.steps)
        save(agent, path)

    monkeypatch.setattr(learn, "EACH", 0.0)
    monkeypatch.setattr(MaxQ, "save", noted)
    path = str(tmp_path / "agent.safetensors")
    assert run(capsys, "learn", "agent", "--kernel", "relu", "--length", "2", "--steps", "7", "-o", path)[0] == 0
    assert len(written) > 2 and written[-1] == 7 and written[0] <= 2


@pytest.mark.parametrize(
    ("arguments", "status", "code"),
    [
        ((), 2, "usage"),
        (("sing",), 2, "usage"),
        (("tune",), 2, "usage"),
        (("tune", "library:relu", "--seconds", "0"), 2, "usage"),
        (("tune", *RELU, "--seed", "-1"), 2, "usage"),
        (("learn", "agent", "-o", "x", "--seed", "9" * 20), 2, "usage"),
        (("dataset", "export", "--runs", "x", "-o", "y", "--least", "nan"), 2, "usage"),
        (("dataset", "export", "--runs", "x", "-o", "y", "--least", "-1"), 2, "usage"),
        (("tune", "library:relu"), 1, "size-missing"),
        (("tune", "library:relu", "-s", "N=8", "-s", "M=8"), 1, "unknown-size"),
        (("tune", "library:rel"), 1, "unknown-kernel"),
        (("tune", "nowhere.dojo"), 1, "cannot-read"),
        (("tune", *RELU, "--strategy", "luck"), 1, "unknown-strategy"),
        (("tune", *RELU, "--load", "nowhere.py"), 1, "cannot-read"),
        (("tune", *RELU, "--resume", "x"), 1, "no-database"),
        (("db", "stats"), 1, "no-database"),
        (("db", "stats", "--db", "mysql://x"), 1, "bad-database"),
        (("play", "library:relu"), 1, "size-missing"),
    ],
)
def test_errors_have_the_form_and_statuses_of_dojoir_opt(
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    arguments: tuple[str, ...],
    status: int,
    code: str,
) -> None:
    monkeypatch.delenv("DOJOIR_DB", raising=False)
    if "db" in arguments[:1] or "--resume" in arguments:
        pytest.importorskip("sqlalchemy", reason="needs the extra agents")
    found, out, err = run(capsys, *arguments)
    assert (found, out) == (status, "") and f"error[{code}]" in err, err
    if status == 1:
        _, _, err = run(capsys, *arguments, "--json")
        assert json.loads(err)["error"]["code"] == code


def test_help_comes_and_says_the_version(capsys: pytest.CaptureFixture[str]) -> None:
    for arguments in (["--help"], ["tune", "--help"], ["db", "--help"], ["learn", "agent", "--help"]):
        status, out, _ = run(capsys, *arguments)
        assert status == 0 and "usage: dojoir" in out
    assert run(capsys, "--version")[1] == f"dojoir {dojoir.__version__}\n"


def test_a_package_that_is_missing_is_told_with_what_brings_it(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    import sys

    for name in [name for name in sys.modules if name.startswith("dojoir.records")]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "sqlalchemy", None)
    status, _, err = run(capsys, "db", "stats", "--db", "a.db")
    assert status == 4 and "pip install 'dojoir[agents]'" in err


def test_who_reads_makes_no_database(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    pytest.importorskip("sqlalchemy", reason="needs the extra agents")
    path = tmp_path / "mistyped.db"
    for verb in (("stats",), ("top",), ("export",), ("check",), ("prune",), ("merge", str(path))):
        for name in (str(path), f"sqlite:///{path}"):
            status, _, err = run(capsys, "db", *verb, "--db", name)
            assert status == 1 and "error[no-database]" in err, verb
    assert not path.exists()


def test_what_cannot_be_written_is_told_before_anything_is_learned(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    pytest.importorskip("torch", reason="needs the extra learn")
    for verb in ("agent", "encoder"):
        status, _, err = run(capsys, "learn", verb, "-o", str(tmp_path / "no" / "folder"), "--steps", "99999999")
        assert status == 1 and "error[cannot-write]" in err and "there is no folder" in err


def test_progress_says_how_many_states_there_were_in_a_minute(capsys: pytest.CaptureFixture[str]) -> None:
    from dojoir.verbs.tune import QUIET_SECONDS, _Progress

    now = [0.0]
    progress = _Progress(False, clock=lambda: now[0])
    trace = dojoir.Trace(dojoir.kernels.load("relu"))
    for now[0], speed in ((2.0, 1.0), (6.0, 2.0), (7.0, 1.5), (6.0 + QUIET_SECONDS, 1.5)):
        evaluation: Any = SimpleNamespace(hash=trace.kernel.hash)
        progress(evaluation, trace, speed)
    lines = capsys.readouterr().err.splitlines()
    assert [line.strip().partition(",")[0] for line in lines] == ["1 states", "2 states", "4 states"]
    assert lines[1].endswith("2.00x as fast as the start after 0 moves; 20 states a minute")
