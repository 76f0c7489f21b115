"""`dojoir-opt -O --db` takes what a search left in a database."""

from __future__ import annotations

from pathlib import Path

import pytest

import dojoir
from dojoir.cli import main

pytest.importorskip("sqlalchemy", reason="needs the extra agents")

from records_cases import result

from dojoir.records import Database

SIZES = ["-s", "N=64"]


@pytest.fixture
def known(tmp_path: Path) -> str:
    """A database in which relu, reversed, is faster on one thread than what -O takes otherwise."""
    path = str(tmp_path / "known.db")
    trace = dojoir.Trace(dojoir.kernels.load("relu")).then("reverse_scope(0)")
    plain = dojoir.optimize(trace.start, sizes={"N": 64}, threads=1)
    with Database(path) as database:
        database.record(plain, result(plain, 2e-3), sizes={"N": 64}, threads=1)
        database.record(trace, result(trace), sizes={"N": 64}, threads=1)
    return path


def test_the_fastest_of_the_database_is_taken(known: str, capsys: pytest.CaptureFixture[str]) -> None:
    arguments = ["library:relu", "-O", "--why", "--db", known, *SIZES]
    assert main([*arguments, "--threads", "1"]) == 0
    out, err = capsys.readouterr()
    assert "[N - {i} - 1]" in out and "the fastest of the database, 1 moves" in err
    assert main([*arguments, "--threads", "2"]) == 0
    out, err = capsys.readouterr()
    assert "[N - {i} - 1]" not in out and "has nothing for relu on llvm, 2 threads, at N=64" in err


def test_a_database_that_is_not_there_is_told(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "none.db"
    assert main(["library:relu", "-O", "--db", str(path)]) == 1
    assert "error[no-database]" in capsys.readouterr().err and not path.exists()
    with pytest.raises(SystemExit, match="2"):
        main(["library:relu", "--db", str(path)])
    assert "--db is for -O" in capsys.readouterr().err
