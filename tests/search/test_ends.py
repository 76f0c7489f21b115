"""A search ends with its answer, whatever dies on the way or at the end."""

from __future__ import annotations

import json
import os
import signal
from collections.abc import Callable, Sequence
from pathlib import Path
from random import Random
from typing import Any

import pytest

import dojoir
from dojoir.runtime import Evaluation
from dojoir.search import Gain, Play, closing
from dojoir.search.budget import Ledger
from dojoir.verbs import main

SIZES = {"N": 64, "M": 96}
SOFTMAX = dojoir.kernels.load("softmax")


pytestmark = pytest.mark.usefixtures("own_lease")


def static(**more: Any) -> dojoir.search.Tuned:
    return dojoir.tune(SOFTMAX, **{"sizes": SIZES, "timer": "static", "budget": dojoir.Budget(states=10)} | more)


def strategy(asked: Callable[[Play, int], Any], told: Callable[[], Any] = lambda: None) -> type:
    """A strategy that hands over its first child, then what `asked` says."""

    class Odd:
        def __init__(self, play: Play) -> None:
            self.play, self.turn = play, 0

        def ask(self, n: int) -> Any:
            self.turn += 1
            return self.play.children(self.play.best, 1) if self.turn == 1 else asked(self.play, n)

        def tell(self, evaluations: Sequence[Evaluation]) -> None:
            if self.turn > 1:
                told()

    return Odd


def fails() -> Any:
    raise ZeroDivisionError("by zero")


def leaves() -> Any:
    raise SystemExit(3)


ODD: dict[str, tuple[type, str]] = {
    "raises": (strategy(lambda play, n: fails()), "the strategy failed in ask: ZeroDivisionError: by zero"),
    "leaves": (strategy(lambda play, n: leaves()), "the strategy failed in ask: SystemExit: 3"),
    "raises in tell": (
        strategy(lambda play, n: play.children(play.best, 1), fails),
        "the strategy failed in tell: ZeroDivisionError",
    ),
    "a kernel": (strategy(lambda play, n: [SOFTMAX]), "the strategy handed over a Kernel, and not a Trace"),
    "nothing": (strategy(lambda play, n: None), "the strategy failed in ask: TypeError"),
    "another kernel": (
        strategy(lambda play, n: [dojoir.Trace(dojoir.kernels.load("relu"))]),
        "the strategy handed over a trace of another kernel, relu",
    ),
    "unsafe": (
        strategy(lambda play, n: [dojoir.Trace(SOFTMAX).then("split(0, 4)", unsafe=True)]),
        "the strategy handed over a trace that is not safe",
    ),
}  # fmt: skip


@pytest.mark.parametrize("what", ODD)
def test_a_strategy_that_fails_ends_the_search_with_its_answer(what: str) -> None:
    odd, says = ODD[what]
    tuned = static(strategy=odd)
    assert tuned.stopped.startswith(says), tuned.stopped
    assert len(tuned.states) >= 3 and tuned.trace.moves and dojoir.certify(tuned.trace)


def test_so_does_one_that_fails_when_it_is_made_and_a_progress_that_does() -> None:
    def none(play: Play) -> Any:
        return fails()

    assert static(strategy=none).stopped.startswith("the strategy failed in its beginning: ZeroDivisionError")
    seen: list[str] = []

    def tells(evaluation: Evaluation, trace: dojoir.Trace, speed: float) -> None:
        seen.append(evaluation.hash)
        if len(seen) == 5:
            raise BrokenPipeError("nobody reads")

    tuned = static(progress=tells)
    assert tuned.stopped.startswith("the search failed: BrokenPipeError") and tuned.trace.moves


def test_the_evaluator_can_be_asked_again_after_a_progress_that_fails(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whoever keeps the exception keeps the frames that were at the evaluator."""
    monkeypatch.setattr(closing, "BUDGET", 0.05)
    monkeypatch.setattr(closing, "SECONDS", 1.0)
    kept: list[BaseException] = []

    class Kept(Exception):
        def __init__(self) -> None:
            kept.append(self)

    def tells(evaluation: Evaluation, trace: dojoir.Trace, speed: float) -> None:
        if trace.moves:
            raise Kept

    tuned = static(timer="measure", progress=tells)
    assert tuned.stopped.startswith("the search failed: Kept") and len(tuned.states) == 2 and kept
    assert tuned.ratio is not None
    assert not any("still at the kernels" in note for note in tuned.notes), tuned.notes


def test_what_a_strategy_does_to_a_trace_later_is_its_own() -> None:
    given: list[dojoir.Trace] = []

    def spoils(play: Play, n: int) -> Any:
        if given:
            given[0].undo()
            return []
        given.extend(play.children(play.best, 1))
        return list(given)

    tuned = static(strategy=strategy(spoils))
    assert tuned.trace.kernel.hash in {one.hash for one in tuned.states}


@pytest.mark.parametrize("when", [2, 3, "close"])
def test_the_fork_server_may_be_killed(when: int | str, monkeypatch: pytest.MonkeyPatch) -> None:
    """At some state, or when all are done: `closing._in_full` asked it once more, and the answer was lost."""
    monkeypatch.setattr(closing, "BUDGET", 0.05)
    monkeypatch.setattr(closing, "SECONDS", 1.0)
    made: list[dojoir.Evaluator] = []
    begin = dojoir.Evaluator.__enter__

    def enter(self: dojoir.Evaluator) -> dojoir.Evaluator:
        made.append(self)
        return begin(self)

    def kill() -> None:
        os.kill(made[0]._fork_server.pid, signal.SIGKILL)
        made[0]._fork_server.wait()

    seen: list[str] = []

    def tells(evaluation: Evaluation, trace: dojoir.Trace, speed: float) -> None:
        seen.append(evaluation.hash)
        if len(seen) == when:
            kill()

    monkeypatch.setattr(dojoir.Evaluator, "__enter__", enter)
    if when == "close":
        in_full = closing._in_full

        def killed(evaluator: Any, answer: dojoir.Trace) -> list[str]:
            kill()
            return in_full(evaluator, answer)

        monkeypatch.setattr(closing, "_in_full", killed)
    tuned = static(timer="measure", budget=dojoir.Budget(states=4), progress=tells)
    assert tuned.trace.start == SOFTMAX and tuned.ratio is not None
    assert any("has ended" in note for note in (*tuned.notes, tuned.stopped)), (tuned.notes, tuned.stopped)


# -- files at the end --------------------------------------------------------------------------------------------
def test_a_store_that_cannot_be_written_is_tried_before_the_search(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    seen: list[str] = []
    with pytest.raises(dojoir.ArgumentError, match="cannot-write"):
        static(store=str(tmp_path / "file"), progress=lambda *given: seen.append(""))
    assert not seen


def test_one_that_goes_away_meanwhile_is_a_note(tmp_path: Path) -> None:
    folder = tmp_path / "store"

    def spoils(*given: Any) -> None:
        if folder.is_dir():
            folder.rmdir()
            folder.write_text("")

    tuned = static(store=str(folder), progress=spoils)
    assert tuned.trace.moves and any(note.startswith("not stored: ") for note in tuned.notes), tuned.notes


TUNE = ("tune", "library:softmax", "-s", "N=64", "-s", "M=96", "--timer", "static", "--states", "8")


@pytest.mark.parametrize("option", ["-o", "--save-trace", "--store"])
def test_a_file_is_tried_before_the_search(option: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "file").write_text("")
    assert main([*TUNE, option, str(tmp_path / "file" / "there")]) == 1
    told = capsys.readouterr()
    assert "cannot write" in told.err and "states" not in told.err and told.out == ""


def test_the_answer_is_printed_before_files_are_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def fails_to_save(self: dojoir.Trace, path: str) -> None:
        raise dojoir.ArgumentError(f"cannot write {path}: No space left on device", "cannot-write")

    monkeypatch.setattr(dojoir.Trace, "save", fails_to_save)
    both = ["--save-trace", str(tmp_path / "a.trace"), "-o", str(tmp_path / "a.dojo")]
    assert main([*TUNE, *both]) == 1
    told = capsys.readouterr()
    assert told.out.startswith("# softmax: ") and "No space left" in told.err
    assert dojoir.load(tmp_path / "a.dojo").name == "softmax"


# -- one ratio, one budget ---------------------------------------------------------------------------------------
def test_a_ratio_under_way_is_timed_in_turn_with_the_fastest_start(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each best was held to be as many times as fast as the one before: twenty lucky races made 41x of 21x."""
    raced: list[tuple[str, str | None]] = []

    class Lucky:
        """Says of each state that it is 1.5 times as fast as what it is raced against; but 4 times as a start."""

        def __init__(self, *given: Any, **more: Any) -> None:
            pass

        def __enter__(self) -> Any:
            return self

        def __exit__(self, *error: Any) -> None:
            pass

        def noise(self, kernel: dojoir.Kernel) -> float:
            return 0.01

        def evaluate(self, kernels: Any, best: dojoir.Kernel | None = None) -> Any:
            for kernel in kernels:
                raced.append((kernel.hash, best and best.hash))
                ratio = None if best is None else 4.0 if best == SOFTMAX else 1.5
                ends = None if ratio is None else (ratio, ratio)
                yield Evaluation(kernel.hash, "ok", 1.0, ratio=ratio, ratio_interval=ends, ratios=ends or ())

    monkeypatch.setattr("dojoir.search.tuning.Static", Lucky)
    told: list[float] = []
    tuned = static(
        start=dojoir.Trace(SOFTMAX), strategy="greedy", progress=lambda one, trace, speed: told.append(speed)
    )
    improvements = [hash for hash, best in raced[1:] if best == SOFTMAX.hash]
    assert len(improvements) > 2 and len(tuned.states) == 10
    assert max(told) <= 6.0, "4 times as fast as the start, and one link of 1.5"


def test_the_end_of_a_search_is_part_of_its_seconds() -> None:
    ledger = Ledger(dojoir.Budget(seconds=100.0), start=0.0)
    ledger.keep_for_the_end()
    assert ledger.reserve == 15.0
    small = Ledger(dojoir.Budget(seconds=10.0))
    small.keep_for_the_end()
    assert small.reserve == 3.5
    none = Ledger(dojoir.Budget(states=3))
    none.keep_for_the_end()
    assert none.reserve == 0.0 and none.seconds_left == float("inf")


@pytest.mark.parametrize(("now", "spent", "left"), [(84.0, False, 21.0), (85.0, True, 20.0), (200.0, True, 0.0)])
def test_nothing_is_begun_in_what_is_kept_for_the_end(
    now: float, spent: bool, left: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    ledger = Ledger(dojoir.Budget(seconds=100.0), start=0.0)
    ledger.keep_for_the_end()
    monkeypatch.setattr("dojoir.search.budget.time.monotonic", lambda: now)
    assert (ledger.spent() is not None) is spent and ledger.seconds_left == left


def test_an_answer_is_made_smaller_only_while_there_is_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("dojoir.search.budget.Ledger.seconds_left", 0.0)
    trace = dojoir.Trace(SOFTMAX).then("split(0, 4)").then("unsplit(0, N)")
    play = Play(SOFTMAX, "llvm", [SIZES], Random(0), Ledger(dojoir.Budget()))
    assert closing.smaller(play, None, trace, {}) is trace


def test_checking_the_answer_is_shown(capsys: pytest.CaptureFixture[str]) -> None:
    assert main([*TUNE]) == 0
    lines = capsys.readouterr().err.splitlines()
    assert lines[-1].startswith("checking the answer: ") and "as fast as the start" in lines[-1]
    assert main([*TUNE, "--json"]) == 0
    told = json.loads(capsys.readouterr().err.splitlines()[-1])["progress"]["checking"]
    assert told["speed"] > 1 and told["moves"] > 0


@pytest.mark.parametrize(
    ("gain", "shown"),
    [
        (Gain(2.0, 1.9, 2.1), "2.00x (1.90 to 2.10)"), (Gain(2.0, 2.0, 2.0), "2.00x"),
        (Gain(2.0, 0.0, float("inf")), "2.00x"), (Gain(2.0, 0.5, 4.0), "2.00x"),
    ],
)  # fmt: skip
def test_an_interval_that_says_nothing_is_left_out(gain: Gain, shown: str) -> None:
    assert str(gain) == shown


@pytest.mark.parametrize(("told", "says"), [(41.0, True), (21.5, False), (None, False)])
def test_another_ratio_than_under_way_is_told(told: float | None, says: bool) -> None:
    notes = closing._otherwise(Gain(20.9, 20.0, 21.0), told)
    assert bool(notes) is says and (not says or "41.00x" in notes[0])


def test_a_measured_answer_has_no_idle_moves() -> None:
    start = dojoir.Trace(dojoir.kernels.load("relu"))
    for move in ("label(0, rows)", "split(0, 64)", "vectorize(0.0)", "parallelize(0)", "unmark(0, p)"):
        start.apply(move)
    tuned = dojoir.tune(
        start.start, sizes={"N": 4096}, start=start, budget=dojoir.Budget(states=1, seconds=30), threads=1
    )
    assert not {"label", "parallelize", "unmark"} & {move.name for move in tuned.trace.moves}
    assert dojoir.certify(tuned.trace)
