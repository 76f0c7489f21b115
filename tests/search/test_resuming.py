"""What a search is not to take away: a run that goes on, a store that has something, a database that knows."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

import dojoir
from dojoir.runtime import Evaluation
from dojoir.search import closing
from dojoir.search.play import Play
from dojoir.search.tuned import Gain

pytest.importorskip("sqlalchemy", reason="needs the extra agents")

from dojoir.records import Database

SIZES = {"N": 64, "M": 96}
SOFTMAX = dojoir.kernels.load("softmax")


pytestmark = pytest.mark.usefixtures("own_lease")


def static(states: int, **more: Any) -> dojoir.search.Tuned:
    options: dict[str, Any] = {"sizes": SIZES, "timer": "static", "strategy": "evolve", "seed": 5} | more
    return dojoir.tune(SOFTMAX, budget=dojoir.Budget(states=states), **options)


def estimate(trace: dojoir.Trace) -> float:
    return dojoir.search.estimate(trace.kernel, SIZES, threads=1)


def slow() -> dojoir.Trace:
    """A schedule that is no faster than the text."""
    return dojoir.Trace(SOFTMAX).then("split(0, 2)")


# -- a run that goes on ------------------------------------------------------------------------------------------
@pytest.mark.parametrize("states", [0, 1, 4])
def test_a_run_that_goes_on_never_ends_below_what_it_came_to(states: int, tmp_path: Path) -> None:
    with Database(tmp_path / "a.db") as database:
        whole = static(40, db=database, run="r", start=dojoir.Trace(SOFTMAX))
        again = static(states, db=database, run="r", start=dojoir.Trace(SOFTMAX))
    assert len(whole.states) == 40 and len(again.states) == states
    assert estimate(again.trace) <= estimate(whole.trace) * 1.001
    assert again.trace.moves


def test_neither_does_it_where_the_run_was_cut_off(tmp_path: Path) -> None:
    """A process that is killed writes no end of its run: what it timed is there."""
    with Database(tmp_path / "a.db") as database:
        whole = static(40, db=database, run="r", start=dojoir.Trace(SOFTMAX))
        with database.writing() as connection:
            connection.exec_driver_sql("update runs set best = null, ended = null")
        again = static(2, db=database, run="r", start=dojoir.Trace(SOFTMAX))
        assert estimate(again.trace) <= estimate(whole.trace) * 1.001


def test_it_goes_on_in_the_same_way_whatever_is_known(tmp_path: Path) -> None:
    with Database(tmp_path / "a.db") as database:
        static(12, db=database, run="r")
        again = static(30, db=database, run="r")
    assert [one.hash for one in again.states] == [one.hash for one in static(30).states]


@pytest.mark.parametrize(
    ("name", "other"),
    [
        ("seed", {"seed": 6}), ("sizes", {"sizes": {"N": 64, "M": 97}}), ("strategy", {"strategy": "random"}),
        ("timer", {"timer": "measure"}), ("threads", {"threads": 2}), ("target", {"target": "c"}),
        ("options", {"options": {"population": 4}}), ("cost_model", {"cost_model": "none"}),
    ],
)  # fmt: skip
def test_a_run_with_other_settings_is_another_run(name: str, other: dict[str, Any], tmp_path: Path) -> None:
    with Database(tmp_path / "a.db") as database:
        static(4, db=database, run="r")
        with pytest.raises(dojoir.ArgumentError) as caught:
            static(8, db=database, run="r", **other)
        assert len(database.results("r")) == 4
    assert caught.value.diagnostic.code == "another-run"
    assert caught.value.diagnostic.message.startswith(f"the run r was begun with {name} ")


def test_options_that_are_no_data_are_no_obstacle(tmp_path: Path) -> None:
    class Counts:
        def __init__(self, play: Play, by: type) -> None:
            pass

        def ask(self, n: int) -> list[dojoir.Trace]:
            return []

        def tell(self, evaluations: object) -> None:
            pass

    with Database(tmp_path / "a.db") as database:
        for _ in range(2):
            assert static(4, db=database, run="r", strategy=Counts, options={"by": int}).states


# -- a store that has something ----------------------------------------------------------------------------------
def stored(folder: Path) -> dojoir.Kernel:
    (file,) = folder.glob("*.moves")
    (schedule,) = dojoir.schedules.schedules("softmax", [folder])[:1]
    assert schedule.path == str(file)
    return schedule.on(SOFTMAX).kernel


def test_nothing_faster_is_replaced_in_a_store(tmp_path: Path) -> None:
    whole = static(40, store=str(tmp_path))
    assert any(note.startswith("stored as ") for note in whole.notes)
    for states in (0, 1, 2):
        less = static(states, store=str(tmp_path), strategy="random", start=slow(), hints=False)
        assert estimate(less.trace) > estimate(whole.trace)
        assert any(note.startswith("not stored: ") for note in less.notes), less.notes
        assert stored(tmp_path) == whole.trace.kernel


def test_what_is_slower_is_replaced_in_a_store(tmp_path: Path) -> None:
    static(1, store=str(tmp_path), start=dojoir.Trace(SOFTMAX).then("vectorize(1.1)"), hints=False)
    whole = static(40, store=str(tmp_path))
    assert any("for one that is slower: " in note for note in whole.notes), whole.notes
    assert stored(tmp_path) == whole.trace.kernel
    again = static(40, store=str(tmp_path))
    assert any(note.endswith("is the same already") for note in again.notes), again.notes


def test_an_estimate_replaces_nothing_that_was_timed(tmp_path: Path) -> None:
    by_hand = slow()
    dojoir.schedules.store(by_hand, "llvm", tmp_path, note="by hand")
    assert any("nothing was timed" in note for note in static(40, store=str(tmp_path)).notes)
    assert stored(tmp_path) == by_hand.kernel


def test_an_empty_schedule_is_not_stored(tmp_path: Path) -> None:
    tuned = static(1, start=dojoir.Trace(SOFTMAX), store=str(tmp_path))
    assert not tuned.trace.moves and not [*tmp_path.glob("*.moves")]


def test_what_is_to_replace_one_is_raced_against_it_where_that_was_timed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What is faster at the sizes of this search, and slower at those of the one before, replaces nothing."""
    monkeypatch.setattr(closing, "SECONDS", 0.0)
    monkeypatch.setattr("dojoir.verify", lambda *_, **__: type("Report", (), {"reason": None}))
    ratios = {"M": 1.5}
    raced: list[tuple[int, int]] = []

    def gain(play: Play, sizes: Mapping[str, int], one: object, other: object, threads: int | None = None) -> Gain:
        raced.append((sizes["M"], threads or play.threads))
        ratio = ratios["M"] if sizes["M"] == 96 else 1.5
        return Gain(ratio, ratio * 0.95, ratio * 1.05)

    monkeypatch.setattr(closing, "_gain", gain)
    first = dojoir.Trace(SOFTMAX).then("split(0, 2)")
    static(1, store=str(tmp_path), start=first, timer="measure")
    assert stored(tmp_path) == first.kernel
    second = first.then("split(1, 2)")
    options: dict[str, Any] = {"start": second, "timer": "measure", "sizes": {"N": 64, "M": 32}}
    for ratio, kept in ((0.5, True), (1.0, False)):
        ratios["M"] = ratio
        raced.clear()
        tuned = static(1, store=str(tmp_path), **options)
        assert {(96, 1), (32, 1)} <= {*raced}
        assert stored(tmp_path) == (first if kept else second).kernel, tuned.notes


# -- a database that knows ---------------------------------------------------------------------------------------
def put(database: Database, trace: dojoir.Trace, seconds: float) -> None:
    found = Evaluation(trace.kernel.hash, "ok", seconds, (seconds, seconds), (seconds,), 3, trace.kernel.hash)
    database.record(trace, found, sizes=SIZES, threads=1, protocol=dojoir.Evaluator.PROTOCOL)


def test_one_measured_state_makes_nothing_slower(tmp_path: Path) -> None:
    """It was taken for the fastest, without a time of anything else: 4.8 times slower than the schedule by rule."""
    plain = dojoir.optimize(SOFTMAX, sizes=SIZES, threads=1)
    with Database(tmp_path / "a.db") as database:
        for seconds in (1e-3, 1e-9):
            put(database, dojoir.Trace(SOFTMAX), seconds)
            assert dojoir.optimize(SOFTMAX, sizes=SIZES, threads=1, db=database).kernel == plain.kernel


@pytest.mark.parametrize(("seconds", "taken"), [(2e-3, False), (1e-3, False), (0.9e-3, True)])
def test_what_is_known_to_be_slower_is_never_taken(seconds: float, taken: bool, tmp_path: Path) -> None:
    plain = dojoir.optimize(SOFTMAX, sizes=SIZES, threads=1)
    other = dojoir.Trace(SOFTMAX).then("split(0, 2)")
    with Database(tmp_path / "a.db") as database:
        put(database, plain, 1e-3)
        put(database, other, seconds)
        found = dojoir.optimize(SOFTMAX, sizes=SIZES, threads=1, db=database)
    assert found.kernel == (other if taken else plain).kernel


def test_a_search_times_what_optimize_would_give(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """So that a database which it has written can be compared with that."""
    monkeypatch.setattr(closing, "SECONDS", 0.0)
    monkeypatch.setattr(closing, "BUDGET", 0.05)
    plain = dojoir.optimize(SOFTMAX, sizes=SIZES, threads=1)
    with Database(tmp_path / "a.db") as database:
        static(1, timer="measure", start=dojoir.Trace(SOFTMAX), db=database)
        about: dict[str, Any] = {"sizes": SIZES, "threads": 1, "protocol": dojoir.Evaluator.PROTOCOL}
        assert database.known(SOFTMAX, plain.kernel.hash, **about) is not None
        assert dojoir.optimize(SOFTMAX, sizes=SIZES, threads=1, db=database).kernel != SOFTMAX
