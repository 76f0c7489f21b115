"""A database tells true from wrong: what met by its code was verified, ways without a beginning, lines that lie."""

from __future__ import annotations

import json
import shutil
import sqlite3
from dataclasses import replace
from pathlib import Path
from random import Random
from typing import Any

import pytest
from records_cases import result, walk

import dojoir

pytest.importorskip("sqlalchemy", reason="needs the extra agents")

import sqlalchemy

from dojoir import records
from dojoir.records import Database, schema
from dojoir.search.actions import make
from dojoir.verbs import main

SIZES = {"N": 64, "M": 32}


def put(database: Database, trace: dojoir.Trace, seconds: float, **more: Any) -> None:
    database.record(trace, replace(result(trace, seconds), **more), sizes=SIZES, threads=1)


def change(path: Path, *statements: str) -> None:
    with sqlite3.connect(path) as connection:
        for statement in statements:
            connection.execute(statement)
    connection.close()


# -- what is met by its machine code -----------------------------------------------------------------------------
def met(path: Path) -> tuple[dojoir.Trace, dojoir.Trace]:
    """A database with a state, and one of the same machine code, which an evaluator does not check again."""
    first, second = walk("softmax", 1, 2), walk("softmax", 2, 2)
    with Database(path) as database:
        put(database, first, 2e-3, digest="code")
        put(database, second, 1e-3, digest="code", cases=0)
    return first, second


def test_a_state_met_by_its_code_is_verified(tmp_path: Path) -> None:
    first, second = met(tmp_path / "a.db")
    with Database(tmp_path / "a.db") as database:
        assert records.check(database).ok
        best = database.best(first.start, "llvm", SIZES, 1)
        assert best is not None and best.kernel == second.kernel
        assert [row.hash for row in database.top("softmax")] == [second.kernel.hash, first.kernel.hash]
        with Database(tmp_path / "b.db") as other:
            assert not records.merge(other, database).refused
            assert records.check(other).ok and len(other.top("softmax")) == 2
        records.prune(database, 1)
        assert records.check(database).ok and len(database.top("softmax")) == 1


def test_what_has_the_code_of_nothing_that_was_verified_is_not(tmp_path: Path) -> None:
    with Database(tmp_path / "a.db") as database:
        for seed, digest in ((1, "code"), (2, "other"), (3, ""), (4, "")):
            put(database, walk("softmax", seed, 2), 1e-3, digest=digest, cases=0)
        put(database, walk("relu", 1, 2), 1e-3, digest="code")
        assert database.best(dojoir.kernels.load("softmax"), "llvm", SIZES, 1) is None
        assert records.check(database).wrong == ["4 times are of what was not verified"]


def test_an_older_database_learns_what_was_met(tmp_path: Path) -> None:
    _, second = met(tmp_path / "a.db")
    change(
        tmp_path / "a.db",
        "delete from verifications where build = 2", "drop index builds_of_a_digest",
        "alter table builds drop column imported", "alter table states drop column choice",
        "update meta set value = '1'",
    )  # fmt: skip
    with Database(tmp_path / "a.db") as database:
        assert records.check(database).ok
        assert database.top("softmax")[0].hash == second.kernel.hash


def test_a_choice_stays_with_the_state_that_it_led_to(tmp_path: Path) -> None:
    """In a row, a line and a list; with other moves it is none."""
    trace = make(dojoir.Trace(dojoir.kernels.load("softmax")), "default_schedule", "llvm")
    other = trace.copy()
    assert other.choice == "default_schedule"
    other.undo()
    assert other.choice == "" and other.then(trace.moves[-1]).choice == ""
    with Database(tmp_path / "a.db") as database, Database(tmp_path / "b.db") as second:
        put(database, trace, 1e-3)
        lines = [*records.export_lines(database)]
        assert not records.import_lines(second, lines).refused
        chosen = [one.choice for one in records.states_in(map(json.loads, lines))]
        assert chosen == [None] * len(trace.moves) + ["default_schedule"] * 2
        for each in (database, second):
            (state,) = each.top("softmax")
            assert state.choice == state.to_json()["choice"] == "default_schedule"


# -- ways without a beginning ------------------------------------------------------------------------------------
def test_a_cycle_of_parents_is_found_and_ends_nothing(tmp_path: Path) -> None:
    trace = walk("softmax", 1, 3)
    with Database(tmp_path / "a.db") as database:
        put(database, trace, 1e-3)
        put(database, dojoir.optimize(trace.start, sizes=SIZES, threads=1), 2e-3)
    for statement in (
        "update states set parent = 4 where id = 2",
        "update states set parent = 4 where id = 4",
        "update states set parent = 3 where id = 2",
    ):
        shutil.copy(tmp_path / "a.db", tmp_path / "b.db")
        change(tmp_path / "b.db", statement)
        with Database(tmp_path / "b.db") as database:
            (wrong,) = (line for line in records.check(database).wrong if "no way" in line)
            assert "states" in wrong or "state" in wrong
            assert dojoir.optimize(trace.start, sizes=SIZES, threads=1, db=database).moves
            assert not [t for t in database.hints(trace.start) if t.kernel == trace.kernel]
            with pytest.raises(dojoir.ArgumentError, match="stale-trace"):
                database.trace(4)
            records.prune(database, 1)


def test_what_hangs_on_a_wrong_state_is_told_once(tmp_path: Path) -> None:
    with Database(tmp_path / "a.db") as database:
        put(database, walk("softmax", 1, 3), 1e-3)
    change(tmp_path / "a.db", "update states set hash = 'x' where length = 1")
    with Database(tmp_path / "a.db") as database:
        assert len(records.check(database).wrong) == 1


# -- versions ----------------------------------------------------------------------------------------------------
@pytest.mark.parametrize("version", ["0", "²", "-1", "1.0", "", "٢", "01", "1e3", "x" * 300])
def test_a_version_that_is_none_is_told(version: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    Database(tmp_path / "a.db").close()
    change(tmp_path / "a.db", f"update meta set value = '{version}'")
    with pytest.raises(dojoir.ArgumentError) as caught:
        Database(tmp_path / "a.db")
    assert caught.value.diagnostic.code == "bad-database"
    assert main(["db", "stats", "--db", str(tmp_path / "a.db")]) == 1
    assert "it is broken" in capsys.readouterr().err


def test_a_version_of_many_digits_is_newer(tmp_path: Path) -> None:
    Database(tmp_path / "a.db").close()
    change(tmp_path / "a.db", f"update meta set value = '{schema.VERSION + 998}'")
    with pytest.raises(dojoir.ArgumentError, match="newer-database"):
        Database(tmp_path / "a.db")


# -- lines that lie ----------------------------------------------------------------------------------------------
def exported(path: Path) -> list[str]:
    with Database(path) as database:
        put(database, dojoir.Trace(dojoir.kernels.load("softmax")).then("split(0, 8)"), 1e-3)
        put(database, dojoir.Trace(dojoir.kernels.load("relu")).then("split(0, 8)"), 1e-3)
        return [*records.export_lines(database)]


WRONG: dict[str, dict[str, Any]] = {
    "threads of 2^70": {"context": {"threads": 2**70}}, "no threads": {"context": {"threads": 0}},
    "half a thread": {"context": {"threads": 1.5}}, "a size of 0": {"context": {"sizes": {"N": 0, "M": 3}}},
    "a size below 0": {"context": {"sizes": {"N": -4, "M": 3}}}, "facts": {"context": {"facts": {"cores": 2}}},
    "a size of 2^70": {"context": {"sizes": {"N": 2**70, "M": 3}}},
    "a surrogate in the context": {"context": {"versions": "\ud800"}},
    "a long target": {"context": {"target": "x" * 101}},
    "cases of 2^70": {"cases": 2**70}, "cases below 0": {"cases": -1}, "true cases": {"cases": True},
    "a time without an end": {"seconds": float("inf")}, "a time that is none": {"seconds": float("nan")},
    "a time as text": {"seconds": "0.001"}, "no time": {"seconds": 0.0}, "a time of 2^2000": {"seconds": 2**2000},
    "a reversed interval": {"interval": [2e-3, 1e-3]}, "half an interval": {"interval": [1e-3]},
    "an interval from below 0": {"interval": [-1e-3, 1e-3]},
    "an interval with NaN": {"interval": [1e-3, float("nan")]},
    "samples without an end": {"samples": [1e-3, float("-inf")]}, "a sample below 0": {"samples": [-1e-3]},
    "an unknown status": {"status": "splendid"}, "a status that is none": {"status": None},
    "a lone surrogate": {"reason": "\ud800"}, "a zero": {"reason": "a\0b"}, "a long digest": {"digest": "d" * 129},
    "stages of NaN": {"stages": {"build": float("nan")}}, "stages as text": {"stages": {"build": "long"}},
    "a surrogate in stages": {"stages": {"\udfff": 1.0}}, "stages that are none": {"stages": [1]},
    "made without an end": {"made": float("inf")}, "made before time": {"made": -1.0},
    "made at 2^70": {"made": 2**70},
    "a time of what is wrong": {"status": "wrong"}, "a text for a hash": {"result": "\ud800"},
}  # fmt: skip


@pytest.mark.parametrize("what", WRONG)
def test_one_bad_line_is_its_own_error(what: str, tmp_path: Path) -> None:
    lines = exported(tmp_path / "a.db")
    number = next(n for n, line in enumerate(lines) if '"result"' in line)
    data = json.loads(lines[number])
    more = {name: data[name] | value if name == "context" else value for name, value in WRONG[what].items()}
    lines[number] = json.dumps(data | more)
    with Database(tmp_path / "b.db") as other:
        done = records.import_lines(other, lines)
        assert len(done.refused) == 1 and done.refused[0].startswith(f"line {number + 1}: "), done.refused
        assert done.results == 1 and other.stats()["measurements"] == 1
        assert records.check(other).ok


@pytest.mark.parametrize(
    "line",
    [
        '{"state": "\\ud800", "of": "x", "parent": null, "move": null}',
        '{"kernel": "x", "text": "kernel \\ud800"}',
        '{"state": "x", "of": ["y"], "parent": 3, "move": 4}', "[" * 100_000, "1" * 5_000,
        '"\\udc80"', "NaN", "\udc80",
        '{"kernel": "x", "text": "' + "(" * 20_000 + '"}',
    ],
    ids=lambda line: f"{len(line)} {line[:12]!a}",
)  # fmt: skip
def test_a_line_of_anything_is_its_own_error(line: str, tmp_path: Path) -> None:
    lines = exported(tmp_path / "a.db")
    with Database(tmp_path / "b.db") as other:
        done = records.import_lines(other, [*lines[:2], line, *lines[2:]])
        assert len(done.refused) == 1 and done.refused[0].startswith("line 3: ")
        assert done.results == 2


def test_a_move_of_any_text_is_refused(tmp_path: Path) -> None:
    lines = exported(tmp_path / "a.db")
    number = next(n for n, line in enumerate(lines) if "split(0, 8)" in line)
    for n, move in enumerate(
        ("split(<nothing>, 8)", "split(", "default_schedule", "", "split(0, 8); split(0, 8)", "\0")
    ):
        data = json.loads(lines[number]) | {"move": move}
        with Database(tmp_path / f"{n}.db") as other:
            done = records.import_lines(other, [*lines[:number], json.dumps(data), *lines[number + 1 :]])
            assert len(done.refused) == 2 and done.results == 1, move


def test_bytes_that_are_no_text_are_an_error_of_their_line(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    lines = [line.encode() for line in exported(tmp_path / "a.db")]
    lines[3:3] = [b'{"kernel": "\xff\xfe"}', '{"kernel": "a\u2028b"}'.encode(), b'{"reason": "\xed\xa0\x80"}']
    (tmp_path / "lines").write_bytes(b"\n".join(lines) + b"\n")
    assert main(["db", "import", str(tmp_path / "lines"), "--db", str(tmp_path / "b.db")]) == 1
    told = capsys.readouterr()
    assert [line.split(":")[1] for line in told.err.splitlines()] == [" line 4", " line 5", " line 6"]
    assert told.out.endswith("2 results, 3 lines refused\n")


def test_a_time_that_was_read_in_is_a_hint_until_it_was_timed_here(tmp_path: Path) -> None:
    """Its line says that it is of this machine; nobody here has seen it."""
    trace = walk("softmax", 1, 2)
    with Database(tmp_path / "a.db") as database:
        put(database, trace, 1e-9)
        lines = [*records.export_lines(database)]
    with Database(tmp_path / "b.db") as other:
        assert not records.import_lines(other, lines).refused
        about: dict[str, Any] = {"sizes": SIZES, "threads": 1}
        assert other.known(trace.start, trace.kernel.hash, **about) is None
        assert other.best(trace.start, "llvm", SIZES, 1) is None
        (hint,) = other.hints(trace.start)
        assert hint.kernel == trace.kernel
        (row,) = other.top("softmax")
        assert row.imported and str(row).endswith("read in")
        put(other, trace, 1e-3)
        assert other.known(trace.start, trace.kernel.hash, **about) == result(trace, 1e-3)
        best = other.best(trace.start, "llvm", SIZES, 1)
        assert best is not None and best.kernel == trace.kernel
        assert other.best(trace.start, "llvm", SIZES, 1, than=trace.start) is None
        assert sorted(map(len, records.export_lines(other))) != sorted(map(len, lines))


# -- times that do not follow from their samples -----------------------------------------------------------
def timed_here(database: Database) -> tuple[dojoir.Trace, dojoir.Trace]:
    """Two states that were timed here, the faster one first."""
    fast, slow = (dojoir.Trace(dojoir.kernels.load("softmax")).then(f"split(0, {n})") for n in (8, 16))
    put(database, fast, 1e-3)
    put(database, slow, 2e-3)
    return fast, slow


def test_a_time_that_was_edited_does_not_win_and_is_told(tmp_path: Path) -> None:
    with Database(tmp_path / "a.db") as database:
        fast, slow = timed_here(database)
        assert records.check(database).ok
        with database.writing() as connection:
            connection.execute(
                sqlalchemy.text("update measurements set seconds=1e-9, low=1e-9 where seconds > 1.5e-3")
            )
        best = database.best(fast.start, sizes=SIZES, threads=1)
        assert best is not None and best.kernel == fast.kernel
        assert database.faster(fast.start, fast.kernel, sizes=SIZES, threads=1) is None
        assert [one.hash for one in database.top()] == [fast.kernel.hash]
        found = records.check(database)
        assert not found.ok and slow.kernel.hash[:12] in str(found) and "its samples give 0.002 s" in str(found)


@pytest.mark.parametrize("column", ["low", "high", "samples"])
def test_an_interval_that_was_edited_is_told(tmp_path: Path, column: str) -> None:
    with Database(tmp_path / "a.db") as database:
        timed_here(database)
        with database.writing() as connection:
            value = "'[0.003]'" if column == "samples" else "0.0015"
            connection.execute(sqlalchemy.text(f"update measurements set {column}={value}"))
        assert len(records.check(database).wrong) == 2


def test_several_sizes_keep_their_samples_apart(tmp_path: Path) -> None:
    """The geometric mean of the medians; rows of earlier versions did not say which sample was at which size."""
    trace = dojoir.Trace(dojoir.kernels.load("softmax")).then("split(0, 8)")
    sizes = [SIZES, {name: 2 * value for name, value in SIZES.items()}]
    found = replace(
        result(trace), seconds=2e-3, interval=(2e-3, 2e-3), samples=(1e-3,) * 3 + (4e-3,) * 5, counts=(3, 5)
    )
    with Database(tmp_path / "a.db") as database:
        database.record(trace, found, sizes=sizes, threads=1)
        known = database.known(trace.start, trace.kernel.hash, sizes=sizes, threads=1)
        assert known is not None and known.samples == found.samples and known.counts == (3, 5)
        assert records.check(database).ok
        with Database(tmp_path / "b.db") as other:
            done = records.import_lines(other, records.export_lines(database))
            assert done.results == 1 and not done.refused
        database.record(trace, replace(found, counts=()), sizes=sizes, threads=1)
        assert records.check(database).ok
        database.record(trace, replace(found, counts=(), seconds=1e-4), sizes=sizes, threads=1)
        assert len(records.check(database).wrong) == 1


def test_a_line_that_says_more_or_other_than_its_samples_is_refused(tmp_path: Path) -> None:
    with Database(tmp_path / "a.db") as database:
        timed_here(database)
        lines = list(records.export_lines(database))
    (number,) = (n for n, line in enumerate(lines) if '"result"' in line and "0.002" in line)
    changes: tuple[tuple[int, dict[str, Any], str], ...] = (
        (number, {"seconds": 1e-4, "interval": [1e-4, 1e-4]}, "its samples give"),
        (number, {"samples": []}, "no samples"),
        (number, {"peak": 1}, "a result: it has an unknown field peak"),
        (1, {"author": "me"}, "a kernel: it has an unknown field author"),
        (2, {"note": ""}, "a state: it has an unknown field note"),
    )
    for n, (at, change, words) in enumerate(changes):
        other = [json.dumps(json.loads(line) | change) if k == at else line for k, line in enumerate(lines)]
        with Database(tmp_path / f"{n}.db") as database:
            refused = records.import_lines(database, other).refused
            assert refused and words in refused[0], refused


def test_bytes_that_were_changed_are_an_error_and_no_bug(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with Database(tmp_path / "a.db") as database:
        database.begin(dojoir.kernels.load("softmax"), {"seed": 0}, "run")
        timed_here(database)
    data, draw, path = (tmp_path / "a.db").read_bytes(), Random(0), tmp_path / "b.db"
    for count in (1, 5, 50, 200) * 3:
        other = bytearray(data)
        for _ in range(count):
            other[draw.randrange(100, len(other))] = draw.randrange(256)
        path.write_bytes(bytes(other))
        for beside in ("-wal", "-shm"):
            Path(f"{path}{beside}").unlink(missing_ok=True)
        for verb in (["check"], ["stats"], ["top"], ["runs"], ["show", "last"], ["export"]):
            assert main(["db", verb[0], "--db", str(path), *verb[1:]]) in (0, 1, 3), capsys.readouterr().err
