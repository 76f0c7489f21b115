"""A search with a database: nothing is done twice, a run goes on where it stopped, a dead database ends none."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import dojoir
from dojoir.runtime import Evaluation

pytest.importorskip("sqlalchemy", reason="needs the extra agents")

from dojoir import records
from dojoir.records import Database
from dojoir.search.memory import Remembering


def tuned(db: object, states: int, **more: Any) -> dojoir.search.Tuned:
    options: dict[str, Any] = {"sizes": SIZES, "strategy": "random", "timer": "static", "seed": 3} | more
    return dojoir.tune(dojoir.kernels.load("relu"), db=db, budget=dojoir.Budget(states=states), **options)


def hashes(found: dojoir.search.Tuned) -> list[str]:
    return [state.hash for state in found.states]


SIZES = {"N": 4096}


def test_a_resumed_run_ends_where_one_without_a_stop_ends(tmp_path: Path) -> None:
    with Database(tmp_path / "a.db") as database:
        tuned(database, 6, run="first")
        resumed = tuned(database, 14, run="first")
        whole = tuned(None, 14)
        assert hashes(resumed) == hashes(whole)
        assert resumed.trace.kernel == whole.trace.kernel
        assert database.stats()["builds"] == 14  # none twice
        assert any("6 states were known" in note for note in resumed.notes)
        assert [one.hash for one in database.results("first")] == hashes(whole)
        assert records.check(database).ok


def test_a_database_that_dies_ends_no_search(tmp_path: Path) -> None:
    class Dying(Database):
        def record(self, *args: Any, **named: Any) -> int:
            raise dojoir.RunError("the database is gone", "database-lost")

    with Dying(tmp_path / "a.db") as database:
        found = tuned(database, 6)
    assert len(found.states) == 6
    assert any("the database is gone" in note for note in found.notes)


def test_what_could_not_be_built_is_tried_again(tmp_path: Path) -> None:
    """How much code a state may have differs from run to run: a refusal of one is none of the next."""
    kernel = dojoir.kernels.load("relu")
    state = dojoir.apply(kernel, "split(0, 8)")
    trace = dojoir.Trace(kernel).then("split(0, 8)")
    failed = Evaluation(state.hash, "build-failed", None, None, (), 0, None, {}, "its code is too long")
    right = Evaluation(state.hash, "ok", 1e-3, (1e-3, 1e-3), (1e-3,), 1, "digest", {}, "")

    class Answers:
        def __init__(self, evaluation: Evaluation) -> None:
            self.evaluation, self.asked = evaluation, 0

        def evaluate(self, kernels: Any, best: object = None) -> Any:
            for _ in kernels:
                self.asked += 1
                yield self.evaluation

    with Database(tmp_path / "a.db") as database:
        for evaluation, asked, rows in ((failed, 1, 1), (failed, 1, 1), (right, 1, 2), (failed, 0, 2)):
            evaluator = Answers(evaluation)
            memory = Remembering(evaluator, database, kernel, "llvm", [SIZES], 1, "static", None, {})
            for found in memory.evaluate([state]):
                memory.note(trace, found)
            assert evaluator.asked == asked
            assert database.stats()["builds"] == rows
