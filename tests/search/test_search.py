"""Search: every strategy, budgets that bind, traces varied, the answer of a search and what it is held to."""

from __future__ import annotations

import importlib
import inspect
import random
import re
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from random import Random
from types import SimpleNamespace
from typing import Any

import pytest

import dojoir
from dojoir.ir.nodes import Scope
from dojoir.runtime import Evaluation
from dojoir.search import STRATEGIES, Play
from dojoir.search.actions import ACTIONS, drawn
from dojoir.search.beam import family_of
from dojoir.search.budget import Ledger
from dojoir.search.closing import is_slower_than_a_start
from dojoir.search.idle import without_idle
from dojoir.search.model import Estimated, SpeedModel, _ranks
from dojoir.search.tuned import Gain
from dojoir.search.tuning import code_limit
from dojoir.search.variation import crossed, mutated, prefix, replayed

SIZES = {"N": 64, "M": 96}
SOFTMAX = dojoir.kernels.load("softmax")


pytestmark = pytest.mark.usefixtures("own_lease")


def static(**more: Any) -> dojoir.search.Tuned:
    budget = more.pop("budget", dojoir.Budget(states=25))
    return dojoir.tune(SOFTMAX, sizes=SIZES, budget=budget, **{"timer": "static", **more})


@pytest.mark.parametrize("name", STRATEGIES)
def test_a_strategy_finds_something_and_does_the_same_again(name: str) -> None:
    first, again = (static(strategy=name, seed=3) for _ in range(2))
    assert first.trace.kernel == again.trace.kernel
    assert [one.hash for one in first.states] == [one.hash for one in again.states]
    assert len({one.hash for one in first.states}) == len(first.states) == 25
    start = dojoir.search.estimate(SOFTMAX, SIZES, threads=1)
    assert dojoir.search.estimate(first.trace.kernel, SIZES, threads=1) < start / 2
    assert dojoir.certify(first.trace) and first.trace.is_safe
    assert static(strategy=name, seed=4).states != first.states


def test_an_answer_is_kept_where_its_certificate_takes_too_long(monkeypatch: pytest.MonkeyPatch) -> None:
    """The certificate has no bound of its own: a long answer held a search for minutes behind its budget."""
    whole = static(strategy="beam", seed=3)
    assert not any("certified" in note for note in whole.notes)
    monkeypatch.setattr("dojoir.search.closing.STEPS", 10)
    bounded = static(strategy="beam", seed=3)
    assert bounded.trace.kernel == whole.trace.kernel
    assert any("not all certified" in note and "within 10 steps" in note for note in bounded.notes)


def test_a_strategy_is_short() -> None:
    for home in STRATEGIES.values():
        source = inspect.getsource(importlib.import_module(home.partition(":")[0]))
        assert len(source.splitlines()) <= 300, home


@pytest.mark.parametrize("name", STRATEGIES)
def test_every_start_is_evaluated_before_anything_is_drawn(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The text, then `default_schedule`, or what is given: a search never ends below them, however short it is."""
    default = dojoir.PASSES["default_schedule"].for_machine(dojoir.machine_for("llvm")).on(SOFTMAX)
    given = [dojoir.Trace(SOFTMAX).then(f"split(0, {number})") for number in (2, 4, 8)]
    for starts in (None, given):
        wanted = [one.kernel.hash for one in ([dojoir.Trace(SOFTMAX), default] if starts is None else given)]
        seen: list[str] = []

        def drew(*arguments: Any, seen: list[str] = seen, wanted: list[str] = wanted, **more: Any) -> Any:
            assert seen == wanted, "a draw before all starts were evaluated"
            return []

        with monkeypatch.context() as patch:
            patch.setattr(dojoir.search, "draw", drew)
            patch.setattr("dojoir.search.play.drawn", drew)
            patch.setattr("dojoir.search.play.mutated", lambda *arguments: drew() or None)
            tuned = static(
                strategy=name, start=starts, budget=dojoir.Budget(states=len(wanted)),
                progress=lambda evaluation, trace, best, seen=seen: seen.append(evaluation.hash),
            )  # fmt: skip
        assert [one.hash for one in tuned.states] == wanted
        assert tuned.stopped == f"the budget is spent: states ({len(wanted)})"
        best = min(dojoir.search.estimate(t.kernel, SIZES, threads=1) for t in (starts or [default]))
        assert dojoir.search.estimate(tuned.trace.kernel, SIZES, threads=1) <= best


@pytest.mark.parametrize(("name", "limit"), [("beam", 0), ("beam", 1), *((name, 9) for name in STRATEGIES)])
@pytest.mark.parametrize("unit", ["moves", "states", "builds", "measurements"])
def test_a_budget_binds_where_it_says(unit: str, limit: int, name: str) -> None:
    tuned = static(strategy=name, budget=dojoir.Budget(**{unit: limit}))
    assert tuned.spent[unit] == limit
    assert f"{unit} ({limit})" in tuned.stopped


def test_code_may_be_as_long_as_a_start_needs() -> None:
    assert code_limit([SOFTMAX], "llvm") == dojoir.Evaluator.CODE_LIMIT
    trace = dojoir.PASSES["default_schedule"].on(dojoir.kernels.load("conv2d"))
    long = len(dojoir.emit(trace.kernel, "llvm"))
    wanted = max(dojoir.Evaluator.CODE_LIMIT, long * 5 // 4)
    assert code_limit([SOFTMAX, trace.kernel], "llvm") == wanted


def test_seconds_bind(monkeypatch: pytest.MonkeyPatch) -> None:
    """By a clock of our own, on which every state takes a second."""
    now = [0.0]

    def takes_a_second(*_: object) -> None:
        now[0] += 1

    monkeypatch.setattr("dojoir.search.budget.time", SimpleNamespace(monotonic=lambda: now[0]))
    tuned = static(budget=dojoir.Budget(seconds=12, states=25), progress=takes_a_second)
    assert tuned.stopped == "the budget is spent: seconds (12)"
    assert len(tuned.states) == 12 == tuned.spent["seconds"]


def test_seconds_leave_out_no_start() -> None:
    """On a busy machine a short search had time for the text alone, and its answer was slower than the default."""
    tuned = static(budget=dojoir.Budget(seconds=0))
    assert len(tuned.states) == 2 and "seconds (0)" in tuned.stopped
    default = dojoir.PASSES["default_schedule"].for_machine(dojoir.machine_for("llvm")).on(SOFTMAX)
    assert tuned.states[1].hash == default.kernel.hash and tuned.trace.moves


def test_an_interrupt_keeps_the_best() -> None:
    def interrupt(evaluation: Evaluation, trace: dojoir.Trace, best: float) -> None:
        seen.append(best)
        if len(seen) == 12:
            raise KeyboardInterrupt

    seen: list[float] = []
    tuned = static(progress=interrupt)
    assert tuned.stopped == "interrupted" and len(tuned.states) == 12
    assert dojoir.search.estimate(tuned.trace.kernel, SIZES, threads=1) < dojoir.search.estimate(
        SOFTMAX, SIZES, threads=1
    )


def test_moves_that_do_not_matter_are_left_out() -> None:
    start = dojoir.Trace(SOFTMAX)
    for move in ("join_scopes(0, 1)", "label(0, rows)", "vectorize(0.1)"):
        start.apply(move)
    tuned = static(start=start, budget=dojoir.Budget(states=1))
    assert [move.name for move in tuned.trace.moves] == ["join_scopes", "vectorize"] or tuned.notes


def test_moves_that_change_nothing_of_the_code_are_left_out() -> None:
    """A storage that only GPUs have, a label, a mark that a later move takes away; not what a later move needs."""
    start = dojoir.Trace(SOFTMAX)
    moves = ("join_scopes(0, 1)", "label(0, rows)", "reuse_dims(s, 0)", "place(s, shared)", "parallelize(0)",
             "vectorize(0.1)", "unmark(0, p)")  # fmt: skip
    for move in moves:
        start.apply(move)
    shorter = without_idle(start, "llvm", 60)
    assert [str(move) for move in shorter.moves] == ["join_scopes(0, 1)", "reuse_dims(s, 0)", "vectorize(0.1)"]
    assert dojoir.certify(shorter) and without_idle(start, "llvm", 0).moves == start.moves


def test_a_cpu_has_no_shared_memory_to_draw() -> None:
    place = next(kind for kind in dojoir.MOVES if kind.name == "place")
    for target, has in (("llvm", False), ("cuda", True)):
        drawn = [str(move) for move in place.space(SOFTMAX, "s", dojoir.machine_for(target))]
        assert ("place(s, shared)" in drawn) is has and "place(s, reg)" in drawn


class Own:
    """A strategy of a user's own: the text after one move that it is given."""

    def __init__(self, play: Play, move: str = "vectorize(0.1)") -> None:
        self.left = [play.starts[-1], dojoir.Trace(play.kernel).then(move)]
        self.told: list[str] = []

    def ask(self, n: int) -> list[dojoir.Trace]:
        found, self.left = self.left[:n], self.left[n:]
        return found

    def tell(self, evaluations: Sequence[Evaluation]) -> None:
        self.told += [one.hash for one in evaluations]
        assert len(self.told) == 2


def test_a_strategy_of_ones_own_is_equal_to_ours(tmp_path: Path) -> None:
    tuned = static(strategy=Own, options={"move": "vectorize(0.1)"})
    assert tuned.stopped == "the strategy has nothing more to try" and len(tuned.states) == 3
    file = tmp_path / "mine.py"
    file.write_text("class Mine:\n    def __init__(self, play): self.play = play\n"
                    "    def ask(self, n): return self.play.children(self.play.best, 1)\n"
                    "    def tell(self, evaluations): pass\n")  # fmt: skip
    assert len(static(strategy=f"{file}:Mine", budget=dojoir.Budget(states=5)).states) == 5


@pytest.mark.parametrize(
    ("code", "says", "wrong"),
    [
        ("unknown-strategy", "no strategy 'nonsense'", {"strategy": "nonsense"}),
        ("unknown-strategy", "no strategy dojoir.nothing:Class", {"strategy": "dojoir.nothing:Class"}),
        ("bad-arguments", "the options nonsense", {"options": {"nonsense": 1}}),
        ("bad-arguments", "not 'sundial'", {"timer": "sundial"}),
        ("bad-arguments", "not 'oracle'", {"cost_model": "oracle"}),
        ("bad-arguments", "give db as well", {"run": "a"}),
        ("bad-arguments", "not int", {"db": 3}),
        ("bad-arguments", "start is empty", {"start": []}),
        ("bad-arguments", "of another kernel: relu", {"start": dojoir.Trace(dojoir.kernels.load("relu"))}),
        ("bad-arguments", "dict cannot be made with a Play", {"strategy": dict}),
    ],
)
def test_what_does_not_fit_is_told(code: str, says: str, wrong: dict[str, Any]) -> None:
    with pytest.raises(dojoir.ArgumentError) as caught:
        static(**wrong)
    assert caught.value.diagnostic.code == code and says in caught.value.diagnostic.message


def test_a_mutation_changes_one_move_and_a_crossing_adds() -> None:
    random, trace = Random(1), dojoir.Trace(SOFTMAX)
    for move in ("join_scopes(0, 1)", "split(0, 16)", "vectorize(0.0.1)"):
        trace.apply(move)
    seen = {mutated(trace, random, "llvm") for _ in range(6)} - {None}
    assert seen and all(one is not None and one.kernel != trace.kernel for one in seen)
    assert all(dojoir.certify(one) for one in seen if one is not None)
    other = dojoir.Trace(SOFTMAX).then("join_scopes(0, 1)").then("reuse_dims(m, 0)")
    both = crossed(trace, other)
    assert both is not None and {"split", "reuse_dims"} <= {move.name for move in both.moves}
    assert crossed(trace, trace) is None
    assert prefix(trace, 1).moves == trace.moves[:1]
    assert replayed(prefix(trace, 0), trace.moves).kernel == trace.kernel
    assert family_of(trace) == family_of(prefix(trace, 3)) != family_of(other)


def test_a_pass_is_an_action_and_stands_as_its_moves() -> None:
    matmul = dojoir.kernels.load("matmul")
    for name, space in ACTIONS.items():
        machine = dojoir.machine_for("cuda" if name == "planned" else "avx2")
        texts = [*space(machine, 2)]
        assert len(texts) == len(set(texts)) > 0, name
        dojoir.parse_pipeline("; ".join(texts[:3]), machine=machine)
    random = Random(0)
    tiled = [t for _ in range(12) if (t := drawn(dojoir.Trace(matmul), random, "llvm", 1)) is not None]
    assert any(buffer.storage == "reg" for t in tiled for buffer in t.kernel.buffers)
    assert all(len(t.moves) > 0 and t.is_safe for t in tiled)


def test_several_sizes_count_together() -> None:
    tuned = dojoir.tune(
        SOFTMAX, sizes=[SIZES, {"N": 8, "M": 1024}], timer="static", budget=dojoir.Budget(states=12)
    )
    assert all(len(one.ratios) in (0, 2) for one in tuned.states)


def test_the_model_ranks_what_it_has_learnt(monkeypatch: pytest.MonkeyPatch) -> None:
    """A machine on which each scope takes a quarter more than the estimate says: that is learned."""
    true = dojoir.search.estimate

    def slower(kernel: dojoir.Kernel) -> float:
        return true(kernel, SIZES, "llvm", 1) * 1.25 ** sum(isinstance(node, Scope) for _, node in kernel.walk())

    model, play = Estimated([SIZES], "llvm", 1), random.Random(0)
    assert model.correlation() is None and model.ready and model.told() == "too few states"
    first, trace = slower(SOFTMAX), dojoir.Trace(SOFTMAX)
    model.tell(SOFTMAX, 1.0)
    for number in range(30):
        drawn = dojoir.search.draw(trace.kernel, play, 6, "llvm", {"split": 2, "reuse_dims": 1})
        for longer in model.chosen([trace.then(move) for move in drawn], 4, play):
            model.tell(longer.kernel, first / slower(longer.kernel))
            trace = longer if number % 5 else dojoir.Trace(SOFTMAX)
    said = re.findall(r"([\d.]+)x", model.told())
    assert len(said) == 2 and float(said[1]) < float(said[0])
    tuned = static(strategy="evolve", budget=dojoir.Budget(states=60), seed=3)
    assert "rank correlation" in tuned.notes[-1] and "the estimate was off by 1.00x" in tuned.notes[-1]
    model = SpeedModel([SIZES], Mean())
    assert model.correlation() is None and not model.ready
    model.pairs = [(float(n), float(n * n)) for n in range(12)]
    assert model.correlation() == pytest.approx(1.0)
    assert [*_ranks([3.0, 1.0, 3.0])] == [1.5, 0.0, 1.5]


class Mean:
    """A cost model that knows one feature."""

    def __init__(self) -> None:
        self.fitted: list[tuple[int, int]] = []

    def fit(self, rows: Any, speeds: Any) -> None:
        assert rows.shape == (len(speeds), len(dojoir.search.features(SOFTMAX, SIZES)))
        self.fitted.append(rows.shape)

    def predict(self, rows: Any) -> Any:
        return -rows[:, 0]


def test_a_cost_model_is_one_s_own(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr("dojoir.search.model.FEWEST", 10)
    own = Mean()
    tuned = static(cost_model=own, budget=dojoir.Budget(states=52))
    assert [count for count, _ in own.fitted] == [25, 50] and "rank correlation" in tuned.notes[-1]
    path = tmp_path / "mine.py"
    path.write_text(
        "class Mine:\n    def fit(self, rows, speeds): pass\n    def predict(self, rows): return [0.0]\n"
    )
    tuned = static(cost_model=f"{path}:Mine", budget=dojoir.Budget(states=60))
    assert "the cost model failed in predict: ValueError" in tuned.stopped and tuned.trace.is_safe
    for wrong in (Mean, 3, f"{path}:Other", "module"):
        with pytest.raises(dojoir.ArgumentError, match="cost"):
            static(cost_model=wrong)


def test_a_strategy_is_told_the_traces_with_their_evaluations() -> None:
    told: list[tuple[str, str]] = []

    class Own:
        def __init__(self, play: Play) -> None:
            self.play = play

        def ask(self, n: int) -> list[dojoir.Trace]:
            return [*self.play.children(self.play.best, n), self.play.starts[0]]

        def tell(self, evaluations: Sequence[Evaluation], traces: Sequence[dojoir.Trace]) -> None:
            told.extend((one.hash, trace.kernel.hash) for one, trace in zip(evaluations, traces, strict=True))

    static(strategy=Own, budget=dojoir.Budget(states=13))
    assert told and all(one == other for one, other in told)


def test_a_strategy_counts_the_moves_that_it_makes_by_itself() -> None:
    class Own:
        def __init__(self, play: Play) -> None:
            self.play = play

        def ask(self, n: int) -> list[dojoir.Trace]:
            self.play.count(2)
            return [self.play.starts[0].then(f"split(0, {self.play.ledger.moves})")]

        def tell(self, evaluations: Sequence[Evaluation]) -> None:
            pass

    tuned = static(strategy=Own, budget=dojoir.Budget(moves=6))
    assert tuned.spent["moves"] == 6 and tuned.stopped == "the budget is spent: moves (6)"


def test_a_run_goes_on_where_it_was(tmp_path: Path) -> None:
    pytest.importorskip("sqlalchemy")
    from dojoir.records import Database

    whole = static(strategy="evolve", seed=5)
    with Database(tmp_path / "one.db") as database:
        half = static(strategy="evolve", seed=5, db=database, run="r", budget=dojoir.Budget(states=10))
        assert len(database.results("r")) == len(half.states) == 10
        again = static(strategy="evolve", seed=5, db=database, run="r")
        assert [one.hash for one in again.states] == [one.hash for one in whole.states]
        assert again.trace.kernel == whole.trace.kernel
        assert len(database.results("r")) == 25


def test_what_was_measured_is_the_answer(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("dojoir.search.closing.BUDGET", 0.1)
    monkeypatch.setattr("dojoir.search.closing.SECONDS", 2.0)
    tuned = dojoir.tune(
        SOFTMAX, sizes={"N": 256, "M": 256}, budget=dojoir.Budget(states=6), store=str(tmp_path), seed=2
    )
    assert len(tuned.states) == 6 and all(one.status in ("ok", "cut") for one in tuned.states), tuned.states
    assert tuned.ratio is not None and tuned.ratio_to_optimize is not None
    assert tuned.ratio.low <= tuned.ratio.median <= tuned.ratio.high
    assert str(tuned).startswith("softmax: ")
    assert dojoir.optimize(SOFTMAX, folders=[tmp_path]).kernel == tuned.trace.kernel


@pytest.mark.parametrize(("high", "kept"), [(0.95, False), (1.05, True)])
def test_an_answer_is_not_slower_than_a_start(high: float, kept: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """A search on a busy machine gave 0.91 of `default_schedule`, which was one of its starts."""

    class Together:
        measurements = ("the answer", "the start")

    def ratio_of(slow: str, fast: str) -> Gain:
        assert (slow, fast) == ("the start", "the answer")
        return Gain(high - 0.05, high - 0.1, high)

    starts = [dojoir.Trace(SOFTMAX), dojoir.Trace(SOFTMAX).then("split(0, 4)")]
    play = Play(SOFTMAX, "llvm", [SIZES], Random(0), Ledger(dojoir.Budget()))
    answer = dojoir.Trace(SOFTMAX).then("split(0, 8)")
    play.starts = starts
    play.speeds = {starts[0].kernel.hash: 1.0, starts[1].kernel.hash: 2.0, answer.kernel.hash: 2.1}
    timed: list[str] = []

    def together(kernels: Sequence[dojoir.Kernel], *_: Any, **__: Any) -> type[Together]:
        timed.append(kernels[1].hash)
        return Together

    monkeypatch.setattr(dojoir, "measure_together", together)
    monkeypatch.setattr(dojoir.runtime, "ratio_of", ratio_of)
    assert is_slower_than_a_start(play, answer) is not kept
    assert timed == [starts[1].kernel.hash] and not is_slower_than_a_start(play, starts[1])


def test_first_moves_of_kernels_that_are_built_alike_are_drawn(tmp_path: Path) -> None:
    pytest.importorskip("sqlalchemy")
    from dojoir.records import Database
    from dojoir.records.likeness import LIKE, alike

    texts = {
        name: dojoir.to_text(dojoir.kernels.load(name)) for name in ("softmax", "log_softmax", "gelu", "conv2d")
    }
    renamed = texts["softmax"].replace("x[", "other[").replace("  x:", "  other:")
    assert renamed != texts["softmax"] and alike(texts["softmax"], renamed) == 1.0
    assert alike(texts["softmax"], texts["log_softmax"]) > LIKE > alike(texts["softmax"], texts["conv2d"])
    other = dojoir.Trace(dojoir.kernels.load("log_softmax")).then("split(0, 16)").then("split(0.0, 4)")
    with Database(tmp_path / "some.db") as database:
        timed = Evaluation(other.kernel.hash, "ok", 1e-3, (1e-3, 1e-3), (1e-3,), 3, "d")
        database.record(other, timed, "llvm", sizes=SIZES, threads=1)
        database.record(dojoir.Trace(SOFTMAX), replace(timed, hash=SOFTMAX.hash), "llvm", sizes=SIZES, threads=1)
        (found,) = database.relatives(SOFTMAX)
        assert found.kernel == other.kernel and not database.relatives(dojoir.kernels.load("conv2d"))
        seen: list[dojoir.Trace] = []

        class Borrows:
            def __init__(self, play: Play) -> None:
                seen.extend(t for _ in range(8) if (t := play.borrowed()) is not None)

            def ask(self, n: int) -> list[dojoir.Trace]:
                return []

            def tell(self, evaluations: Sequence[Evaluation]) -> None:
                pass

        static(strategy=Borrows, db=database)
    assert {len(trace.moves) for trace in seen} == {1, 2}
    assert all(trace.start == SOFTMAX and trace.is_safe for trace in seen)


@pytest.mark.parametrize("strategy", ["beam", "random"])
def test_a_budget_of_moves_counts_what_is_given_and_not_what_is_drawn(strategy: str) -> None:
    """With a model of the cost more are drawn, and the best tried."""
    kernel, sizes, counts = dojoir.kernels.load("softmax"), {"N": 32, "M": 32}, []
    for model in ("estimate", None):
        tuned = dojoir.tune(
            kernel, sizes=sizes, strategy=strategy, timer="static", cost_model=model, hints=False, seed=1,
            budget=dojoir.Budget(moves=40),
        )  # fmt: skip
        counts.append(len(tuned.states))
    assert 2 * counts[0] >= counts[1]
