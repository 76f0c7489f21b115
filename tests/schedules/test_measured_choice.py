"""`optimize(measure=True)`: of options that the model says are near each other, the fastest here is returned."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import pytest

import dojoir
from dojoir.cli import main
from dojoir.ir.text import canonical_text
from dojoir.runtime import Measurement, Together
from dojoir.schedules.choice import VARIABLE, Way, choose
from dojoir.schedules.measured import MOST_TIMED, WayBench, fastest

KERNEL = dojoir.parse("""kernel plus(N, M)
in  x: f32[N, M]
out y: f32[N, M]

N
| M
| | y[{0}, {1}] = x[{0}, {1}] + 1
""")
SIZES = {"N": 1024, "M": 1024}
SLOW = "swap_scopes(0)"
"""Goes through both arrays by columns: some thirty times as slow as by rows."""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A folder with a slow schedule of the kernel, which goes before all that comes with dojoir."""
    (tmp_path / "plus.moves").write_text(f"# kernel: {KERNEL.hash}\n# targets: llvm\n{SLOW}\n")
    return tmp_path


def slow() -> dojoir.Trace:
    trace = dojoir.Trace(KERNEL)
    trace.apply(SLOW)
    return trace


# -- on this machine ---------------------------------------------------------------------------------------
def test_a_slow_schedule_of_the_caller_is_not_returned(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nor is what was measured kept: the same call without it is as before."""
    kept: list[str] = []
    keep = dojoir.Trace.kept

    def noted(kernel: dojoir.Kernel, made_for: str, *rest: object) -> dojoir.Trace:
        kept.append(made_for)
        return keep(kernel, made_for, *rest)  # type: ignore[arg-type]

    monkeypatch.setattr(dojoir.Trace, "kept", noted)
    measured = dojoir.optimize(KERNEL, sizes=SIZES, threads=1, folders=[folder], measure=True)
    assert measured.kernel != slow().kernel and dojoir.certify(measured)
    assert measured.machine is not None
    assert not [made_for for made_for in kept if made_for.startswith("optimize")]
    assert dojoir.optimize(KERNEL, sizes=SIZES, threads=1, folders=[folder]).kernel == slow().kernel


def test_a_slow_trace_of_a_database_is_not_returned() -> None:
    class Known:
        def best(
            self, kernel: dojoir.Kernel, target: str, sizes: Mapping[str, int] | None, threads: int | None
        ) -> dojoir.Trace:
            return slow()

    choice = choose(KERNEL, sizes=SIZES, threads=1, db=Known(), measure=True)
    assert choice.trace.kernel != slow().kernel and not choice.found
    assert choice.timed[0][0] == "the fastest of the database"
    assert choose(KERNEL, sizes=SIZES, threads=1, db=Known()).found


def test_of_a_trace_its_last_kernel_is_measured() -> None:
    trace = dojoir.Trace(KERNEL.specialize(N=16, M=64))
    trace.apply("label(0, rows)")
    found = dojoir.optimize(trace, threads=1, measure=True)
    assert str(found.moves[0]) == "label(0, rows)" and found.start == trace.start


def test_the_shell_takes_the_fastest(
    folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv(VARIABLE, str(folder))
    (folder / "k.dojo").write_text(dojoir.to_text(KERNEL))
    given = [str(folder / "k.dojo"), "-O", "--why", "--threads", "1", "-s", "N=1024"]
    assert main([*given, "-s", "M=1024", "--measure", "--canonical"]) == 0
    shown = capsys.readouterr()
    assert "; timed: schedule " in shown.err and shown.out != canonical_text(slow().kernel)
    assert main([*given, "--measure"]) == 1
    assert "M is open; give sizes={'M': …}, in a shell -s M=…" in capsys.readouterr().err
    with pytest.raises(SystemExit) as ended:
        main([str(folder / "k.dojo"), "--measure"])
    assert ended.value.code == 2 and "--measure is for -O" in capsys.readouterr().err


def test_a_wrong_result_is_an_error_of_the_option() -> None:
    wrong = dojoir.parse(dojoir.to_text(KERNEL).replace("+ 1", "+ 2"))
    with pytest.raises(dojoir.RunError) as error:
        WayBench(KERNEL, "llvm", SIZES, 1).check(dojoir.Trace(wrong))
    assert error.value.diagnostic.code == "verification-failed"


def test_many_statements_at_fixed_sizes_are_compared_on_one_input(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[object] = []

    def verify(kernel: dojoir.Kernel, *rest: object, **named: object) -> None:
        asked.append(named["seeds"])
        raise dojoir.RunError("not run", "crash")

    monkeypatch.setattr(dojoir, "verify", verify)
    for kernel in (KERNEL, KERNEL.specialize(N=64, M=64), KERNEL.specialize(N=1 << 14, M=1 << 14)):
        with pytest.raises(dojoir.RunError, match="not run"):
            WayBench(kernel, "llvm", {}, 1).check(dojoir.Trace(kernel))
    assert asked == [(0, 1, 2), (0, 1, 2), (0,)]


# -- what it asks for --------------------------------------------------------------------------------------
def test_an_open_size_is_an_error() -> None:
    with pytest.raises(dojoir.ArgumentError, match=r"each size of plus: N is open; give sizes=\{'N': …\}") as error:
        dojoir.optimize(KERNEL, sizes={"M": 8}, measure=True)
    assert error.value.diagnostic.code == "size-missing"
    with pytest.raises(dojoir.ArgumentError, match=r"N, M are open; give sizes=\{'N': …, 'M': …\}"):
        dojoir.optimize(dojoir.Trace(KERNEL), measure=True)


def test_sizes_that_break_a_fact_are_an_error() -> None:
    kernel = dojoir.parse("kernel k(N)\nwhere N % 4 == 0\nin x: f32[N]\nout y: f32[N]\nN\n| y[{0}] = x[{0}]\n")
    with pytest.raises(dojoir.ArgumentError, match="breaks"):
        dojoir.optimize(kernel, sizes={"N": 6}, measure=True)


def test_a_target_that_does_not_run_here_is_an_error() -> None:
    other = "haswell" if dojoir.machine_for("llvm").architecture == "aarch64" else "cortex-a72"
    with pytest.raises(dojoir.ToolchainError, match=other):
        dojoir.optimize(KERNEL, sizes=SIZES, cpu=other, measure=True)


# -- which is taken, at times that are made up ---------------------------------------------------------------
@dataclass(frozen=True)
class MadeUp(WayBench):
    """A bench where each kernel takes the seconds that stand beside its text, in each round; those in `wrong` are
    not right."""

    seconds: Mapping[str, float] = field(default_factory=dict)
    wrong: tuple[str, ...] = ()

    def check(self, trace: dojoir.Trace) -> None:
        if trace.kernel.hash in self.wrong:
            raise dojoir.RunError("y differs", "verification-failed")

    def in_turn(self, kernels: Sequence[dojoir.Kernel]) -> list[Measurement | None]:
        return [self._of(kernel) for kernel in kernels]

    def _of(self, kernel: dojoir.Kernel) -> Measurement | None:
        if kernel.hash not in self.seconds:
            return None
        samples = tuple(self.seconds[kernel.hash] * (1 + 0.1 * (n % 3)) for n in range(9))
        return Measurement("plus", "llvm", SIZES, 1, True, samples, 0.95, 1, 1, None, None)


def traces() -> list[dojoir.Trace]:
    """Traces to different kernels."""
    found = [dojoir.Trace(KERNEL) for _ in range(6)]
    for n, trace in enumerate(found[1:]):
        trace.apply(f"split(0, {2 << n})")
    return found


MADE = traces()


def taken(
    times: Sequence[float | None],
    by_model: Sequence[float],
    wrong: Sequence[int] = (),
    stated: Sequence[float | None] = (),
) -> tuple[int, tuple[int, ...]]:
    """The number of the trace that is taken, and of those that are timed."""
    names = [trace.kernel.hash for trace in MADE]
    seconds = {name: time for name, time in zip(names, times, strict=False) if time is not None}
    on = MadeUp(KERNEL, "llvm", SIZES, 1, seconds, tuple(names[n] for n in wrong))
    said = stated or [None] * len(by_model)
    ways = [Way(str(n), trace.copy, seconds=said[n]) for n, trace in enumerate(MADE[: len(by_model)])]
    model = dict(zip(names, by_model, strict=False))
    found = fastest(ways, on, lambda trace: model[trace.kernel.hash])
    return int(found.way.name), tuple(int(name) for name, _ in found.timed)


def test_the_fastest_of_those_near_the_first_is_taken() -> None:
    assert taken([3, 2, 1, 4], [1.0, 1.1, 1.2, 99]) == (2, (0, 1, 2))
    assert taken([3, 2, 1, 4], [1.0, 1.1, 1.4, 99]) == (1, (0, 1)), "the third is not near"
    assert taken([3, 2, 1, 4], [1.0, 1.4, 1.4, 99]) == (0, ()), "nothing is near"
    assert taken([3, 2, 1, 4], [9.0, 9.0, 1.0, 999]) == (2, (0, 2, 1)), "what is faster by the model is near"


def test_the_text_is_timed_where_the_model_says_that_it_is_slow() -> None:
    """The model underrates what compilers make of it."""
    assert taken([3, 2, 1], [1.0, 1.4, 9.0]) == (2, (0, 2))
    assert taken([3, 2, 1], [1.0, 1.4, 31.0]) == (0, ()), "but not where that may be minutes"


def test_one_is_kept_where_another_is_as_fast() -> None:
    assert taken([1, 1, 1], [1.0, 1.0, 1.0])[0] == 0
    assert taken([3, 1, 1], [1.0, 1.0, 1.0])[0] == 1


def test_seconds_that_ways_state_go_before_the_model() -> None:
    assert taken([3, 1, 4], [1.0, 9.0, 99], stated=[1.0, 1.2, None])[0] == 1
    assert taken([3, 1, 4], [1.0, 1.0, 99], stated=[1.0, 1.4, None])[0] == 0
    assert taken([3, 1, 4], [1.0, 1.0, 99], stated=[1.4, None, None])[0] == 1, "one states none: both by the model"
    assert taken([3, 1, 4], [1.0, 1.0, 99], stated=[float("inf"), float("inf"), None])[0] == 1


def test_some_are_timed_at_most() -> None:
    assert taken([6, 5, 4, 3, 2, 1], [1.0, 1.2, 1.1, 1.0, 0.9, 1.3]) == (5, (0, 4, 3, 5)) and MOST_TIMED == 4


def test_what_is_wrong_or_does_not_run_is_not_taken() -> None:
    assert taken([3, 2, 1], [1.0, 1.0, 1.0], wrong=[2]) == (1, (0, 1))
    assert taken([3, 2, 1], [1.0, 1.0, 1.0], wrong=[0]) == (2, (1, 2)), "the next is the first"
    assert taken([None, 2, 1], [1.0, 1.0, 1.0]) == (2, (1, 2))
    with pytest.raises(dojoir.RunError, match="y differs"):
        taken([3, 2, 1], [1.0, 1.0, 1.0], wrong=[0, 1, 2])


def test_a_way_that_cannot_be_made_is_an_error_of_who_gave_it() -> None:
    def refused() -> dojoir.Trace:
        raise dojoir.ArgumentError("no such scope", "bad-arguments")

    on = MadeUp(KERNEL, "llvm", SIZES, 1)
    text = Way("the text", MADE[0].copy)
    assert fastest([Way("a", refused), text], on, lambda trace: 1.0).way is text
    assert fastest([text, Way("b", refused, given=True), text], on, lambda trace: 1.0).way is text
    with pytest.raises(dojoir.ArgumentError, match="no such scope"):
        fastest([Way("a", refused, given=True), text], on, lambda trace: 1.0)


def test_what_fails_in_the_run_of_all_is_left_out_of_it(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each is run by itself then."""
    bad, *good = [trace.kernel for trace in MADE[:3]]
    asked: list[int] = []

    def run(kernels: Sequence[dojoir.Kernel], *rest: object, **named: object) -> Together:
        asked.append(len(kernels))
        if bad in kernels:
            raise dojoir.RunError("the measurement ended", "crash")
        times = [Measurement("plus", "llvm", SIZES, 1, True, (1.0,), 0.95, 1, 1, None, None)]
        return Together((*times * len(kernels),))

    monkeypatch.setattr(dojoir, "measure_together", run)
    on = WayBench(KERNEL, "llvm", SIZES, 1)
    assert [time is None for time in on.in_turn([good[0], bad, good[1]])] == [False, True, False]
    assert asked == [3, 1, 1, 1, 2]
    with pytest.raises(dojoir.RunError, match="ended"):
        on.in_turn([bad])


def test_for_a_gpu_a_stored_schedule_is_held_against_the_planner_by_its_model(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    kernel = dojoir.kernels.load("transpose").specialize(N=4096, M=4096)
    first, second, *_ = dojoir.plan(kernel, "cuda").options
    assert first.seconds is None and not first.refusal and second.seconds is not None
    for times in ((2.0, 1.0), (1.0, 2.0)):
        seconds = {one.trace.kernel.hash: time for one, time in zip((first, second), times, strict=True)}
        on = MadeUp(kernel, "cuda", {}, None, seconds)
        monkeypatch.setattr(dojoir.schedules.choice, "bench", lambda *rest, on=on: on)
        fastest_one = first if times[0] < times[1] else second
        assert choose(kernel, "cuda", measure=True).trace.kernel == fastest_one.trace.kernel
