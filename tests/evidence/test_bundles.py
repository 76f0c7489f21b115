"""Bundles: written as a run goes, from the one database; readable whatever becomes of the process."""

from __future__ import annotations

import dataclasses
import json
import os
import random
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import jsonschema
import pytest
from bundled import MOVES, SIZES, begun, bench_bundle, search_bundle, traced
from folders import ROOT

import dojoir
from dojoir.evidence import bundle
from dojoir.evidence.bundle import Run
from dojoir.evidence.bundle_reading import Bundle, every, find, read, read_run
from dojoir.evidence.writing import fresh_name, store_of
from dojoir.records import Database, import_lines
from dojoir.records.plain_data import schema, to_data
from dojoir.runtime import processor

pytest.importorskip("sqlalchemy", reason="needs the extra agents")

GOLDEN = ROOT / "tests" / "bundles"


@pytest.fixture(scope="module")
def searched(tmp_path_factory: pytest.TempPathFactory) -> Bundle:
    return search_bundle(tmp_path_factory.mktemp("runs"))


def test_a_bundle_has_what_its_record_lists(searched: Bundle) -> None:
    run = searched.run
    assert run.status == "done" and run.states == 8 and run.result == searched.trace.kernel.hash
    names = {one.name for one in run.files}
    assert names == {path.name for path in searched.folder.iterdir()} - {"run.json"}
    assert {"events.jsonl", "states.jsonl", "trace.json", "start.dojo", "final.dojo", "source.ll"} <= names
    assert searched.wrong_files() == []
    assert run.settings == {"seed": 0, "states": 8} and "dojoir" in run.versions
    assert set(run.environment) <= set(bundle.ENVIRONMENT)


def test_it_does_not_tell_where_its_author_lives(tmp_path: Path) -> None:
    given = bench_bundle(tmp_path, traced())
    text = given.text("machine.json") or ""
    assert json.loads(text)["processor"] == processor()
    whole = "".join(path.read_text() for path in given.folder.iterdir())
    assert sys.prefix not in whole and os.path.expanduser("~") not in whole.replace(str(tmp_path), "")


def test_its_name_says_when_and_of_what() -> None:
    assert fresh_name("a/b c").split("-")[1] == "a_b_c"
    assert len(fresh_name("k").split("-")[2]) == 6 and fresh_name("k") != fresh_name("k")


def test_its_states_are_the_export_of_its_run(searched: Bundle, tmp_path: Path) -> None:
    """One store: what is read in is proved, and is what the run of the database has."""
    lines = (searched.text("states.jsonl") or "").splitlines()
    with Database(str(tmp_path / "a.db")) as database:
        done = import_lines(database, lines)
        assert not done.refused and done.results == 8
    with Database(str(searched.folder.parent / "runs.db")) as database:
        assert [known.hash for known in database.results(searched.run.database)] == [
            json.loads(line)["result"] for line in lines if line.startswith('{"result"')
        ]
    known = {one.hash: one for one in searched.states}
    assert all(one.parent is None or one.parent in known for one in searched.states)
    at = searched.run.result
    moves = []
    while at is not None and known[at].move is not None:
        moves.append(known[at].move)
        at = known[at].parent
    assert moves[::-1] == [str(move) for move in searched.trace.moves]


def test_what_happens_is_appended_as_it_goes(tmp_path: Path) -> None:
    trace = traced()
    with store_of(tmp_path) as database, begun(tmp_path, trace, database) as writer:
        database.begin(trace.start, {}, writer.run.database)
        writer.event("faster", speed=2.0)
        now = read(writer.folder)
        assert now.run.status == "running" and now.start == trace.start and now.states == ()
        assert [line["event"] for line in now.lines("events.jsonl")] == ["begun", "faster"]
        with pytest.raises(dojoir.ArgumentError, match="being written"):
            begun_again = dataclasses.replace(writer.run)
            type(writer)(writer.folder, begun_again, database).__enter__()
        writer.answer(trace)
        writer.end("done")
    assert read(writer.folder).run.status == "done"


def test_a_run_that_an_error_ends_says_so(tmp_path: Path) -> None:
    trace = traced()
    for error, status in (
        (dojoir.RunError("no start", "no-start"), "failed"),
        (KeyboardInterrupt(), "interrupted"),
    ):
        with store_of(tmp_path) as database, pytest.raises(type(error)), begun(tmp_path, trace, database) as writer:
            database.begin(trace.start, {}, writer.run.database)
            raise error
        assert read(writer.folder).run.status == status
        with pytest.raises(dojoir.ArgumentError, match="has no answer"):
            _ = read(writer.folder).trace


# -- killed ------------------------------------------------------------------------------------------------
TUNE = [
    sys.executable, "-m", "dojoir.verbs", "tune", "library:softmax", "-s", "N=64", "-s", "M=64", "--timer",
    "static", "--strategy", "random", "--runs", "runs", "--resume", "mine", "--states",
]  # fmt: skip
TIMES = 3
"""How often a run is killed here; DOJOIR_KILLS sets another number."""


def test_a_killed_run_is_readable_and_goes_on(tmp_path: Path) -> None:
    draw = random.Random(0)
    before = 0
    for _ in range(int(os.environ.get("DOJOIR_KILLS", TIMES))):
        process = subprocess.Popen(
            [*TUNE, "100000"], cwd=tmp_path, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
        )  # fmt: skip
        states = tmp_path / "runs" / "mine" / "states.jsonl"
        size = states.stat().st_size if states.exists() else 0
        while process.poll() is None and not (states.exists() and states.stat().st_size > size):
            time.sleep(0.01)
        time.sleep(draw.uniform(0, 0.5))
        process.send_signal(signal.SIGKILL)
        process.wait()
        found = read(tmp_path / "runs" / "mine")
        assert found.run.status == "interrupted" and found.start.name == "softmax"
        count = sum(bool(one.status) for one in found.states)
        assert count >= min(before, 1)
        before = count
    done = subprocess.run([*TUNE, str(before + 5)], cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    found = read(tmp_path / "runs" / "mine")
    assert found.run.status == "done" and found.run.states == before + 5 and found.wrong_files() == []
    assert [line["event"] for line in found.lines("events.jsonl")].count("resumed") >= 1


def test_half_a_line_is_no_line(searched: Bundle, tmp_path: Path) -> None:
    folder = tmp_path / "cut"
    shutil.copytree(searched.folder, folder)
    path = folder / "states.jsonl"
    path.write_bytes(path.read_bytes()[:-30])
    assert len(read(folder).states) == len(searched.states)
    assert sum(bool(one.status) for one in read(folder).states) == 7


# -- records that are others -------------------------------------------------------------------------------
@pytest.mark.parametrize(
    ("change", "code"),
    [
        (lambda data: data | {"version": 3}, "newer-record"),
        (lambda data: data | {"version": "1"}, "bad-record"),
        (lambda data: data | {"version": 0}, "bad-record"),
        (lambda data: data | {"more": 1}, "bad-record"),
        (lambda data: data | {"status": "splendid"}, "bad-record"),
        (lambda data: data | {"moves": "3"}, "bad-record"),
        (lambda data: data | {"files": [{"name": "x"}]}, "bad-record"),
        (lambda data: {key: value for key, value in data.items() if key != "kernel"}, "bad-record"),
        (lambda data: [data], "bad-record"),
    ],
)
def test_what_is_no_record_is_refused_with_its_place(searched: Bundle, change: Any, code: str) -> None:
    data = json.loads((searched.folder / "run.json").read_text())
    with pytest.raises(dojoir.ArgumentError) as caught:
        read_run(json.dumps(change(data)), "runs/x/run.json")
    assert caught.value.diagnostic.code == code and "runs/x/run.json" in caught.value.diagnostic.message


def test_the_schema_is_that_of_what_is_written(searched: Bundle) -> None:
    data = json.loads((searched.folder / "run.json").read_text())
    jsonschema.validate(data, schema(Run))
    assert to_data(read_run(json.dumps(data), "run.json")) == data
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.validate(data | {"more": 1}, schema(Run))


def test_bundles_of_each_version_are_read() -> None:
    """A bundle that an earlier dojoir wrote stands here for each version of the record."""
    assert sorted(path.name for path in GOLDEN.iterdir()) == [f"v{n}" for n in range(1, bundle.VERSION + 1)]
    for folder in GOLDEN.iterdir():
        found = read(folder)
        assert found.run.status == "done" and found.wrong_files() == [] and found.states
        assert found.trace.kernel.hash == found.run.result and found.bench is not None


def test_runs_are_found_by_parts_of_their_names(tmp_path: Path) -> None:
    one, other = (bench_bundle(tmp_path, traced(moves=moves)) for moves in (MOVES, MOVES[:1]))
    names = sorted((one.run.name, other.run.name))
    assert find(names[0], tmp_path).run.name == names[0] and find("last", tmp_path).run.name == names[1]
    assert find(names[0][-6:], tmp_path).run.name == names[0]
    assert find(str(one.folder), Path("nowhere")).run == one.run
    assert [found.run.name for found in every(tmp_path) if isinstance(found, Bundle)] == names[::-1]
    for name, words in (("nothing", "there is no run"), ("2", "may be"), ("", "there is no run")):
        with pytest.raises(dojoir.ArgumentError, match=words):
            find(name, tmp_path)
    (tmp_path / names[0] / "run.json").write_text("{")
    assert (names[0], f"{tmp_path / names[0] / 'run.json'} is not JSON") in list(every(tmp_path))


def test_what_cannot_be_written_is_told_and_leaves_nothing(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(dojoir.ArgumentError) as caught, store_of(tmp_path / "file" / "runs"):
        pass
    assert caught.value.diagnostic.code == "cannot-write"
    with store_of(tmp_path) as database:
        begun(tmp_path, traced(), database, "twice")
        with pytest.raises(dojoir.ArgumentError) as caught:
            begun(tmp_path, traced(), database, "twice")
    assert caught.value.diagnostic.code == "cannot-write" and SIZES
