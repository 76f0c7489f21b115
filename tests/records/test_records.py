"""The database: what is written is there, what is reused agrees in everything, what is read in is proved again."""

from __future__ import annotations

import json
import os
import shutil
import signal
import sqlite3
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from random import Random

import pytest
from folders import HELPERS
from records_cases import result, walk

import dojoir
from dojoir.ir.text import canonical_text

pytest.importorskip("sqlalchemy", reason="needs the extra agents")

import sqlalchemy

from dojoir import records
from dojoir.records import Database, schema
from dojoir.records.contexts import Context, here

SIZES = {"N": 64, "M": 32}


def server() -> Iterator[str]:
    """A PostgreSQL of our own in a folder of its own, or a skip that says why there is none."""
    found = [*Path("/usr/lib/postgresql").glob("*/bin"), Path("/usr/local/bin")]
    folder = next((str(path) for path in sorted(found, reverse=True) if (path / "initdb").exists()), None)
    if folder is None:
        pytest.skip("PostgreSQL is not installed")
    psycopg = pytest.importorskip("psycopg", reason="needs the extra db")
    user: list[str] = []
    home = tempfile.mkdtemp(prefix="dojoir-pg-")
    if os.getuid() == 0:  # it does not run as root
        if shutil.which("setpriv") is None:
            pytest.skip("PostgreSQL does not run as root")
        user = ["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups"]
        os.chown(home, 65534, 65534)
    data = f"{home}/data"
    run = {"check": True, "capture_output": True, "cwd": home}
    subprocess.run([*user, f"{folder}/initdb", "-D", data, "-A", "trust", "-U", "dojo", "-E", "UTF8", "-N"], **run)
    serving = subprocess.Popen(
        [*user, f"{folder}/postgres", "-D", data, "-k", home, "-c", "listen_addresses=", "-c", "fsync=off"],
        cwd=home, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
    )  # fmt: skip
    try:
        until = time.monotonic() + 30
        while True:
            try:
                psycopg.connect(host=home, user="dojo", dbname="postgres").close()
                break
            except psycopg.OperationalError:
                if serving.poll() is not None or time.monotonic() > until:
                    raise
                time.sleep(0.05)
        yield f"postgresql://dojo@/postgres?host={home}"
    finally:
        serving.send_signal(signal.SIGQUIT)
        serving.wait(timeout=30)
        shutil.rmtree(home, ignore_errors=True)


@pytest.fixture(scope="module")
def postgres() -> Iterator[str]:
    yield from server()


@pytest.fixture(params=["sqlite", "postgresql"])
def url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    if request.param == "sqlite":
        return f"sqlite:///{tmp_path}/tuned.db"
    given = str(request.getfixturevalue("postgres"))
    with Database(given) as database, database.writing() as connection:
        for table in reversed(schema.TABLES.sorted_tables):
            table.drop(connection)
    return given


def put(database: Database, trace: dojoir.Trace, seconds: float, **more: object) -> int:
    return database.record(trace, result(trace, seconds), sizes=SIZES, threads=1, **more)  # type: ignore[arg-type]


def test_what_is_written_is_there_for_the_next_one(url: str) -> None:
    trace = walk("softmax", 1, 3)
    with Database(url) as database:
        put(database, trace, 2e-3)
    with Database(url) as database:
        known = database.known(trace.start, trace.kernel.hash, sizes=SIZES, threads=1)
        assert known == result(trace, 2e-3)
        stats = database.stats()
    assert stats["states"] == 4
    assert (stats["builds"], stats["verifications"], stats["measurements"]) == (1, 1, 1)


def test_the_best_is_the_fastest_that_was_verified(url: str) -> None:
    slow, fast, wrong = walk("softmax", 1, 2), walk("softmax", 2, 3), walk("softmax", 3, 2)
    with Database(url) as database:
        put(database, slow, 2e-3)
        put(database, fast, 1e-3)
        database.record(wrong, result(wrong, status="wrong"), sizes=SIZES, threads=1)
        best = database.best(slow.start, "llvm", SIZES, 1)
        assert best is not None
        assert best.kernel == fast.kernel
        assert [row.seconds for row in database.top("softmax")] == [1e-3, 2e-3]
        known = database.known(wrong.start, wrong.kernel.hash, sizes=SIZES, threads=1)
        assert known is not None and (known.status, known.seconds, known.cases) == ("wrong", None, 0)


def test_nothing_is_reused_where_anything_differs(tmp_path: Path) -> None:
    trace = walk("softmax", 1, 2)
    kernel, hash = trace.start, trace.kernel.hash
    with Database(tmp_path / "a.db") as database:
        put(database, trace, 1e-3)
        about = {"sizes": SIZES, "threads": 1}
        assert database.known(kernel, hash, **about) is not None
        assert database.known(kernel, hash, **about, digest="d") is not None
        assert database.known(kernel, hash, **about, digest="another") is None
        assert database.known(kernel, hash, **about, protocol="static") is None
        assert database.known(kernel, hash, "c", **about) is None
        assert database.known(kernel, hash, sizes=SIZES, threads=2) is None
        assert database.known(kernel, hash, sizes={"N": 64, "M": 33}, threads=1) is None
        assert database.best(kernel, "llvm", {"N": 64, "M": 33}, 1) is None
        assert database.best(kernel, "llvm", None, 1) is None
        assert database.best(kernel.with_fp("fast"), "llvm", SIZES, 1) is None


@pytest.mark.parametrize("field", ["machine", "facts", "versions"])
def test_another_machine_gives_a_hint_and_no_result(tmp_path: Path, field: str) -> None:
    trace = walk("softmax", 1, 2)
    ours = here("llvm", SIZES, 1, "measure", trace.start)
    with Database(tmp_path / "a.db") as database:
        put(database, trace, 1e-3, context=Context(**(vars(ours) | {field: "another"})))
        assert database.best(trace.start, "llvm", SIZES, 1) is None
        assert database.known(trace.start, trace.kernel.hash, sizes=SIZES, threads=1) is None
        (hint,) = database.hints(trace.start)
        assert hint.kernel == trace.kernel


def test_moves_by_label_are_written_by_path(tmp_path: Path) -> None:
    """Two ways to one state may leave other labels on it."""
    kernel = dojoir.kernels.load("softmax")
    first = dojoir.Trace(kernel).then("split(@j, 8)")
    plain = dojoir.parse(canonical_text(kernel))
    second = dojoir.Trace(plain).then("split(0.1, 8)").then("vectorize(0.1.0)")
    third = first.then("split(@k, 4)")
    with Database(tmp_path / "a.db") as database:
        for trace, seconds in ((second, 3e-3), (third, 1e-3)):
            put(database, trace, seconds)
        best = database.best(kernel, "llvm", SIZES, 1)
        assert best is not None and best.kernel == third.kernel
        assert records.check(database).ok


def test_optimize_takes_the_best_of_a_database(tmp_path: Path) -> None:
    trace = walk("softmax", 4, 3)
    plain = dojoir.optimize(trace.start, sizes=SIZES, threads=1)
    with Database(tmp_path / "a.db") as database:
        put(database, trace, 1e-3)
        put(database, plain, 2e-3)
        found = dojoir.optimize(trace.start, sizes=SIZES, threads=1, db=database)
        assert found.kernel == trace.kernel
        other = dojoir.optimize(trace.start, sizes={"N": 8, "M": 8}, threads=1, db=database)
        assert other.kernel == dojoir.optimize(trace.start, sizes={"N": 8, "M": 8}, threads=1).kernel


def test_what_is_faster_at_other_sizes_is_a_candidate(tmp_path: Path) -> None:
    """It was 1.26 times as fast there, and not tried here."""
    kernel = dojoir.kernels.load("gemv")
    near, here, far = ({"N": n, "M": 256} for n in (512, 640, 40960))
    plain = dojoir.optimize(kernel, sizes=here, threads=1)
    better, other = plain.then("split(0, 4096)"), dojoir.Trace(kernel).then("split(0, 8)")
    with Database(tmp_path / "a.db") as database:
        for sizes, trace, seconds in (
            (near, plain, 2.0),
            (near, better, 1.0),
            (far, plain, 1.0),
            (far, other, 2.0),
        ):
            database.record(trace, result(trace, seconds), sizes=sizes, threads=1)
        (found,) = database.elsewhere(kernel, plain.kernel, sizes=here, threads=1)
        assert found.kernel == better.kernel
        chosen = dojoir.schedules.choose(kernel, sizes=here, threads=1, db=database)
        taken, usual = (dojoir.search.estimate(one.kernel, here, "llvm", 1) for one in (better, plain))
        assert chosen.found == (taken <= 1.05 * usual) and chosen.found, (taken, usual)
        timed = dojoir.schedules.choose(kernel, sizes=here, threads=1, db=database, measure=True)
        assert "the fastest of the database at other sizes (1)" in dict(timed.timed), timed
        database.record(other, result(other, 1.0), sizes=here, threads=1)
        database.record(plain, result(plain, 2.0), sizes=here, threads=1)
        assert dojoir.optimize(kernel, sizes=here, threads=1, db=database).kernel == other.kernel


def test_estimates_are_no_times(tmp_path: Path) -> None:
    trace = walk("softmax", 1, 2)
    with Database(tmp_path / "a.db") as database:
        put(database, trace, 1e-3, protocol="static")
        assert database.best(trace.start, "llvm", SIZES, 1) is None
        assert database.best(trace.start, "llvm", SIZES, 1, protocol="static") is not None


def test_what_counts_at_several_sizes_stands_by_itself(tmp_path: Path) -> None:
    trace = walk("softmax", 1, 2)
    both = [SIZES, {"N": 8, "M": 8}]
    with Database(tmp_path / "a.db") as database:
        database.record(trace, result(trace), sizes=both, threads=1)
        assert database.best(trace.start, "llvm", SIZES, 1) is None
        assert database.known(trace.start, trace.kernel.hash, sizes=both, threads=1) is not None
        lines = list(records.export_lines(database))
        with Database(tmp_path / "b.db") as other:
            assert not records.import_lines(other, lines).refused
            assert sorted(records.export_lines(other)) == sorted(lines)


def test_an_unsafe_trace_is_refused(tmp_path: Path) -> None:
    trace = dojoir.Trace(dojoir.kernels.load("softmax")).then("split(0, 4)", unsafe=True)
    with Database(tmp_path / "a.db") as database, pytest.raises(dojoir.ArgumentError, match="unsafe-trace"):
        put(database, trace, 1e-3)


def test_a_result_of_another_kernel_is_refused(tmp_path: Path) -> None:
    trace = walk("softmax", 1, 1)
    with Database(tmp_path / "a.db") as database, pytest.raises(dojoir.ArgumentError, match="stale-trace"):
        database.record(trace, result(dojoir.Trace(trace.start)))


# -- runs ----------------------------------------------------------------------------------------------------
def test_a_run_keeps_its_settings_and_results_in_order(url: str) -> None:
    traces = [walk("softmax", seed, 2) for seed in range(3)]
    with Database(url) as database:
        run = database.begin(traces[0].start, {"strategy": "beam", "seed": 3})
        for n, trace in enumerate(traces):
            put(database, trace, 1e-3 * (3 - n), run=run)
        assert [one.hash for one in database.results(run)] == [trace.kernel.hash for trace in traces]
        assert database.settings(run) == {"strategy": "beam", "seed": 3}
        assert database.begin(traces[0].start, {}, run) == run
        with pytest.raises(dojoir.ArgumentError, match="another-run"):
            database.begin(dojoir.kernels.load("relu"), {}, run)
        database.end(run, "budget", traces[2])
        with pytest.raises(dojoir.ArgumentError, match="unknown-run"):
            database.results("nothing")


# -- out and in again --------------------------------------------------------------------------------------
def filled(database: Database) -> None:
    for name, seed in (("softmax", 1), ("softmax", 2), ("relu", 3)):
        trace = walk(name, seed, 3)
        database.record(trace, result(trace, seed * 1e-3), sizes={**SIZES}, threads=1)


def test_what_is_exported_comes_back_equal(url: str, tmp_path: Path) -> None:
    with Database(url) as database, Database(tmp_path / "b.db") as other:
        filled(database)
        lines = list(records.export_lines(database))
        done = records.import_lines(other, lines)
        assert (done.kernels, done.results, done.refused) == (2, 3, ())
        assert sorted(records.export_lines(other)) == sorted(lines)
        again = records.import_lines(other, lines)
        assert again.results == 0
        assert sorted(records.export_lines(other)) == sorted(lines)
        assert records.check(other).ok


def test_merging_adds_what_is_new(tmp_path: Path) -> None:
    with Database(tmp_path / "a.db") as one, Database(tmp_path / "b.db") as other:
        filled(one)
        trace = walk("softmax", 9, 2)
        put(other, trace, 1e-6)
        assert records.merge(one, other).results == 1
        assert one.stats()["measurements"] == 4
        assert one.top("softmax")[0].seconds == 1e-6


def changed(line: str, **values: object) -> str:
    return json.dumps(json.loads(line) | values)


def with_sizes(line: str, sizes: object) -> str:
    data = json.loads(line)
    return json.dumps(data | {"context": data["context"] | {"sizes": sizes}})


def test_a_record_that_lies_is_refused_with_its_line(tmp_path: Path) -> None:
    """Moves that are not legal, hashes of other kernels, and all that hangs on them."""
    with Database(tmp_path / "a.db") as database:
        trace = dojoir.Trace(dojoir.kernels.load("softmax")).then("split(0, 8)").then("split(1, 8)")
        put(database, trace, 1e-3)
        header, kernel, root, first, second, timed = records.export_lines(database)
    lies = {
        "illegal move": [header, kernel, root, changed(first, move="parallelize(0.1)"), second, timed],
        "another hash": [header, kernel, root, changed(first, state="0" * 64), second, timed],
        "another move": [header, kernel, root, changed(first, move="split(0, 16)"), second, timed],
        "no parent": [header, kernel, root, second, timed],
        "another text": [header, changed(kernel, text="kernel k(N)\nout y: f32[N]\n\nN\n| y[{0}] = 1\n"), root],
        "no kernel": [header, root, first],
        "a time below zero": [header, kernel, root, first, second, changed(timed, seconds=-1.0)],
        "no JSON": [header, kernel, "{", "[]", "null", root],
        "odd sizes": [header, kernel, root, first, second, with_sizes(timed, "abc")],
        "odd fields": [header, kernel, root, first, second, changed(timed, samples=["x"])],
    }
    for what, lines in lies.items():
        with Database(tmp_path / f"{what}.db") as other:
            done = records.import_lines(other, lines)
            assert done.refused, what
            assert all(text.startswith("line ") for text in done.refused)
            assert other.stats()["measurements"] == 0, what
            assert records.check(other).ok


@pytest.mark.parametrize("first", ["", "{}", "no", '{"format": "dojoir-records", "version": 2}'])
def test_what_is_no_export_is_refused(tmp_path: Path, first: str) -> None:
    with Database(tmp_path / "a.db") as database, pytest.raises(dojoir.ArgumentError, match="bad-record"):
        records.import_lines(database, [first])


def test_pruning_leaves_the_fastest_and_the_way_to_them(url: str) -> None:
    with Database(url) as database:
        for seed in range(6):
            put(database, walk("softmax", seed, 3), 1e-3 * (seed + 1))
        best = database.top("softmax", count=2)
        records.prune(database, 2)
        assert [row.hash for row in database.top("softmax")] == [row.hash for row in best]
        assert records.check(database).ok
        put(database, walk("softmax", 5, 3), 1e-4)
        assert database.top("softmax")[0].seconds == 1e-4


def test_check_finds_what_was_changed_by_hand(tmp_path: Path) -> None:
    with Database(tmp_path / "a.db") as database:
        put(database, walk("softmax", 1, 3), 1e-3)
        assert records.check(database).ok
    for statement in (
        "update states set move = 'parallelize(0.1)' where length = 1",
        "update states set hash = 'x' where length = 2",
        "update kernels set text = 'kernel'",
        "delete from verifications",
    ):
        shutil.copy(tmp_path / "a.db", tmp_path / "b.db")
        with sqlite3.connect(tmp_path / "b.db") as connection:
            connection.execute(statement)
        connection.close()
        with Database(tmp_path / "b.db") as other:
            assert not records.check(other).ok, statement


# -- versions and failures ------------------------------------------------------------------------------------
def set_version(path: Path, version: str) -> None:
    with sqlite3.connect(path) as connection:
        connection.execute("update meta set value = ?", (version,))
    connection.close()


def test_a_newer_database_is_refused(tmp_path: Path) -> None:
    Database(tmp_path / "a.db").close()
    set_version(tmp_path / "a.db", str(schema.VERSION + 1))
    with pytest.raises(dojoir.ArgumentError, match="newer-database"):
        Database(tmp_path / "a.db")


def test_an_older_one_is_brought_forward(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    trace = walk("softmax", 1, 1)
    with Database(tmp_path / "a.db") as database:
        put(database, trace, 1e-3)

    def step(connection: object) -> None:
        connection.exec_driver_sql("alter table kernels add column note text")  # type: ignore[attr-defined]

    def fails(connection: object) -> None:
        step(connection)
        raise RuntimeError

    monkeypatch.setattr(schema, "VERSION", schema.VERSION + 1)
    monkeypatch.setattr(schema, "MIGRATIONS", {schema.VERSION - 1: fails})
    with pytest.raises(RuntimeError):
        Database(tmp_path / "a.db")
    monkeypatch.setattr(schema, "MIGRATIONS", {schema.VERSION - 1: step})
    for _ in range(2):
        with Database(tmp_path / "a.db") as database:
            assert database.top("softmax")[0].hash == trace.kernel.hash
    with sqlite3.connect(tmp_path / "a.db") as connection:
        assert connection.execute("select value from meta").fetchone() == (str(schema.VERSION),)
    connection.close()


@pytest.mark.parametrize("given", ["mysql://host/name", "sqlite://", "://", "oracle+x://h"])
def test_what_is_no_database_is_told(given: str) -> None:
    if given == "sqlite://":
        return
    with pytest.raises(dojoir.ArgumentError, match="bad-database"):
        Database(given)


def test_no_database_at_all_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("DOJOIR_DB", raising=False)
    with pytest.raises(dojoir.ArgumentError, match="DOJOIR_DB"):
        Database()


def test_a_file_of_something_else_is_told(tmp_path: Path) -> None:
    (tmp_path / "text.db").write_text("this is a text and no database at all\n" * 50)
    with pytest.raises(dojoir.RunError, match="database-lost"):
        Database(tmp_path / "text.db")
    with sqlite3.connect(tmp_path / "other.db") as connection:
        connection.execute("create table t (x)")
    connection.close()
    with pytest.raises(dojoir.ArgumentError, match="bad-database"):
        Database(tmp_path / "other.db")


def test_a_folder_that_is_not_there_is_told(tmp_path: Path) -> None:
    with pytest.raises(dojoir.RunError, match="database-lost"):
        Database(tmp_path / "nowhere" / "a.db")
    with pytest.raises(dojoir.RunError, match="database-lost"):
        pytest.importorskip("psycopg", reason="needs the extra db")
        Database(f"postgresql://dojo@/postgres?host={tmp_path}")


def test_a_database_that_goes_away_is_told(tmp_path: Path) -> None:
    trace = walk("softmax", 1, 1)
    with Database(tmp_path / "a.db") as database:
        put(database, trace, 1e-3)
        with sqlite3.connect(tmp_path / "a.db") as connection:
            connection.execute("drop table measurements")
        connection.close()
        with pytest.raises(dojoir.RunError, match="database-lost"):
            put(database, trace, 1e-3)
        with pytest.raises(dojoir.RunError, match="database-lost"):
            database.stats()


WRITER = """
import sys
sys.path.insert(0, {helpers!r})
from records_cases import result, walk
from dojoir.records import Database
trace = walk("relu", 1, 1)
with Database({url!r}) as database:
    for n in range(int(sys.argv[1])):
        number = database.record(trace, result(trace, 1e-3, digest=sys.argv[2] + str(n)), sizes={{"N": 8, "M": 8}})
        print(number, flush=True)
"""


def writer(url: str, count: int, name: str) -> subprocess.Popen[str]:
    code = WRITER.format(helpers=str(HELPERS), url=url)
    return subprocess.Popen([sys.executable, "-c", code, str(count), name], stdout=subprocess.PIPE, text=True)


def test_two_processes_write_and_one_is_killed(url: str) -> None:
    """SIGKILL at a random moment: every row whose number was printed is there, whole, and the file is sound; the
    other process goes on."""
    Database(url).close()
    killed, other = writer(url, 100_000, "a"), writer(url, 40, "b")
    assert killed.stdout is not None
    said = {int(killed.stdout.readline())}
    time.sleep(Random().uniform(0.0, 0.3))
    killed.kill()
    said |= {int(line) for line in killed.stdout.read().split("\n")[:-1] if line}
    killed.communicate()
    numbers = {int(line) for line in other.communicate(timeout=120)[0].split()}
    assert other.returncode == 0 and len(numbers) == 40 and not numbers & said
    with Database(url) as database:
        with database.reading() as connection:
            found = set(connection.execute(schema.builds.select().with_only_columns(schema.builds.c.id)).scalars())
        assert said | numbers <= found
        stats = database.stats()
        assert stats["builds"] == stats["verifications"] == stats["measurements"]
        assert stats["states"] == 2
        assert records.check(database).ok


def test_what_no_commit_has_made_true_has_no_number(url: str) -> None:
    """A commit that fails (a full disk) takes all of its rows back; another may get their numbers."""
    lost, kept = walk("relu", 1, 2), walk("softmax", 2, 2)
    with Database(url) as database, Database(url) as other:

        def fails(connection: object) -> None:
            failures.pop()
            raise sqlalchemy.exc.OperationalError("COMMIT", {}, Exception("database or disk is full"))

        failures = [1, 1]
        sqlalchemy.event.listen(database._engine, "commit", fails)
        with pytest.raises(dojoir.RunError, match="disk is full"):
            database.record(lost, result(lost), sizes=SIZES)
        sqlalchemy.event.remove(database._engine, "commit", fails)
        other.record(kept, result(kept), sizes=SIZES)
        database.record(lost, result(lost), sizes=SIZES)
        known = database.known(lost.start, lost.kernel.hash, sizes=SIZES)
        assert known is not None and known.hash == lost.kernel.hash
        assert other.known(kept.start, kept.kernel.hash, sizes=SIZES) is not None
        assert records.check(other).ok
