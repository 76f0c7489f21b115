"""Games and searches record what was offered and drawn, with the verdicts, as they go."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import dojoir
from dojoir.evidence.bundle_reading import every, read
from dojoir.runtime import Evaluation

pytest.importorskip("sqlalchemy", reason="needs the extra agents")
pytest.importorskip("gymnasium", reason="needs the extra agents")

from dojoir.data import Recorded, check, export, read_steps
from dojoir.game import KernelEnv
from dojoir.records import Database, import_lines, prune
from dojoir.records import check as checked

SIZES = {"N": 64, "M": 64}


def drawn_in(folder: Path) -> list[dict[str, object]]:
    return [json.loads(line) for line in (folder / "states.jsonl").read_text().splitlines() if '"drawn"' in line]


def test_a_game_leaves_runs_that_are_data(tmp_path: Path) -> None:
    env = Recorded(KernelEnv("bias_relu", sizes=SIZES, timer="static", capacity=16), tmp_path / "runs")
    for seed in (0, 1):
        env.reset(seed=seed)
        for _ in range(3):
            mask = env.unwrapped.action_masks()
            env.step(max(number for number, there in enumerate(mask) if there))
        env.step(15)
        env.step(0)
    env.close()
    (bundle,) = every(tmp_path / "runs")
    assert not isinstance(bundle, tuple)
    assert bundle.run.status == "done" and bundle.wrong_files() == [] and bundle.run.settings["game"] == "game"
    drawn = drawn_in(bundle.folder)
    assert drawn and all(verdict == "legal" for line in drawn for _, verdict in line["moves"])
    assert bundle.trace.kernel.hash == bundle.run.result
    export([tmp_path / "runs"], tmp_path / "data")
    steps = [*read_steps(tmp_path / "data")]
    assert len(steps) >= 3 and all(len(step.offered) >= 2 for step in steps) and check(tmp_path / "data").ok
    assert all(step.timing.status == "ok" and step.protocol == "static" for step in steps)


def searched(database: Database, **options: object) -> dojoir.search.Tuned:
    kernel = dojoir.kernels.load("bias_relu")
    return dojoir.tune(
        kernel, sizes=SIZES, timer="static", strategy="beam", budget=dojoir.Budget(states=14), db=database,
        run="mine", start=dojoir.Trace(kernel), options={"children": 3}, **options,
    )  # fmt: skip


def test_a_search_writes_what_it_drew_once(tmp_path: Path) -> None:
    with Database(tmp_path / "a.db") as database:
        searched(database)
        found = database.drawn("mine")
        verdicts = {verdict for moves in found.values() for _, verdict in moves}
        assert verdicts == {"legal", "refused"}
        start = dojoir.kernels.load("bias_relu")
        for move, verdict in found[start.hash]:
            assert verdict == "refused" or dojoir.check(start, move)
        count = database.stats()["draws"]
        assert count == sum(map(len, found.values()))
        searched(database)  # it goes on, and draws the same again
        assert database.stats()["draws"] == count and database.drawn("mine") == found
        prune(database, keep=1)
        assert database.stats()["draws"] < count and checked(database).ok
        with pytest.raises(dojoir.ArgumentError, match="unknown-run"):
            database.drawn("other")


def test_a_verdict_takes_the_place_of_none(tmp_path: Path) -> None:
    with Database(tmp_path / "a.db") as database:
        trace = dojoir.Trace(dojoir.kernels.load("bias_relu"))
        database.begin(trace.start, {}, "mine")
        database.drew("mine", trace, [("vectorize(@j)", "candidate"), ("stream(y)", "candidate")])
        database.drew("mine", trace, [("vectorize(0.0)", "legal"), ("vectorize(0.0)", "refused")])
        database.drew("mine", trace, [("vectorize(0.0)", "candidate")])
        assert dict(database.drawn("mine")[trace.start.hash]) == {
            "vectorize(0.0)": "legal",
            "stream(y)": "candidate",
        }


def test_a_full_list_is_written_on_request(tmp_path: Path) -> None:
    with Database(tmp_path / "a.db") as database:
        searched(database, list_moves=True)
        start = dojoir.kernels.load("bias_relu")
        listed = {move for move, verdict in database.drawn("mine")[start.hash] if verdict == "legal"}
        assert {str(move) for move in dojoir.moves(start, "llvm")} <= listed


def test_without_hints_a_search_begins_with_nothing(tmp_path: Path) -> None:
    with Database(tmp_path / "a.db") as database:
        kernel = dojoir.kernels.load("bias_relu")
        best = dojoir.Trace(kernel).then("vectorize(@j)")
        evaluation = Evaluation(best.kernel.hash, "ok", 1e-9, (1e-9, 1e-9), cases=1)
        database.record(best, evaluation, sizes=[SIZES], threads=1, protocol="static")
        for hints in (True, False):
            tuned = dojoir.tune(
                kernel, sizes=SIZES, timer="static", strategy="random", budget=dojoir.Budget(states=2), db=database,
                start=dojoir.Trace(kernel), hints=hints,
            )  # fmt: skip
            assert (best.kernel.hash in {one.hash for one in tuned.states[:2]}) == hints


def test_what_was_drawn_is_read_in_with_the_rest(tmp_path: Path) -> None:
    """Lines of a run hold draws; a database that takes them over takes the states, and the draws are the run's."""
    golden = Path(__file__).resolve().parent.parent / "datasets" / "v1" / "runs" / "golden"
    assert drawn_in(golden) and read(golden).run.status == "done"
    with Database(tmp_path / "b.db") as database:
        found = import_lines(database, (golden / "states.jsonl").read_text().splitlines())
        assert found.states == 9 and not found.refused and database.stats()["draws"] == 0


def test_an_older_database_gets_the_table(tmp_path: Path) -> None:
    import sqlite3

    Database(tmp_path / "a.db").close()
    connection = sqlite3.connect(tmp_path / "a.db")
    connection.execute("drop table draws")
    connection.execute("alter table states drop column choice")
    connection.execute("update meta set value = '2'")
    connection.commit()
    connection.close()
    with Database(tmp_path / "a.db") as database:
        assert database.stats()["draws"] == 0
        searched(database)
        assert database.stats()["draws"] > 0
