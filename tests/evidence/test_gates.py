"""The gates: each cheat fails at the one that is meant for it, and what is honest passes."""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
from cheating import Cheat, cheats, planted
from folders import ROOT
from synthetic import Clock

import dojoir
from dojoir.evidence import Asked, Gates, gate, gate_lines
from dojoir.evidence.gates import NAMES
from dojoir.evidence.honest import faster_than, once_share, small_sizes
from dojoir.verbs import main

CHEATS = cheats()
SCALED = dojoir.parse("kernel scaled(N)\nin x: f32[N]\nout y: f32[N]\nN\n| y[{0}] = x[{0}] * 2 + 1\n")


pytestmark = pytest.mark.usefixtures("own_lease")


def times(factor: float, kernel: dojoir.Kernel, noise: float = 0.0, seed: int = 0) -> Clock:
    """A clock by which all but `kernel` takes `factor` times as long."""
    return Clock(lambda one: 1e-3 if one == kernel else factor * 1e-3, noise, seed=seed)


def asked(trace: dojoir.Trace, sizes: dict[str, int], target: str = "llvm", **given: object) -> Gates:
    clock = given.pop("measure", times(2.0, trace.kernel))
    beside = given.pop("beside", ("text",))
    return gate(Asked(trace, target, [sizes], 1, beside, seed=4711, measure=clock, **given))


def failed_at(found: Gates) -> str:
    """The gate that failed; all before it pass, and nothing after it has run."""
    (at,) = (one.name for one in found.gates if one.status == "fail")
    statuses = [one.status for one in found.gates]
    number = NAMES.index(at)
    assert statuses == ["pass"] * number + ["fail"] + ["not-run"] * (len(NAMES) - number - 1), gate_lines(found)
    assert not found.ok and found[at].reason
    return at


def test_there_are_thirty_cheats() -> None:
    assert len(CHEATS) >= 30
    assert {cheat.gate for cheat in CHEATS} == {"correct", "deterministic", "honest", "faster"}


def test_the_page_lists_each_with_its_gate() -> None:
    page = (ROOT / "docs" / "gates.md").read_text(encoding="utf-8")
    for cheat in CHEATS:
        assert f"| `{cheat.path.stem}` | {cheat.about} | {cheat.gate} |" in page


@pytest.mark.parametrize("cheat", CHEATS, ids=lambda cheat: cheat.path.stem)
def test_a_cheat_fails_at_the_gate_that_is_meant_for_it(cheat: Cheat, tmp_path: Path) -> None:
    trace, given = dojoir.Trace(cheat.kernel), {}
    if cheat.gate == "faster":
        given = {"measure": dojoir.measure_together, "seconds": 0.5, "beside": ("c",)}
    with planted(cheat, tmp_path) as target:
        found = asked(trace, cheat.sizes, target, **given)
    assert failed_at(found) == cheat.gate, gate_lines(found)
    assert cheat.gate != "faster" or re.search("timed calls|after the rounds|as fast as c", found["faster"].reason)


# -- traces that cheat -------------------------------------------------------------------------------------------
def test_an_unsafe_move_that_changes_the_meaning_fails_at_the_proof() -> None:
    sums = dojoir.kernels.load("softmax")
    trace = dojoir.Trace(sums)
    trace.apply("reuse_dims(m, 0)", unsafe=True)
    assert failed_at(asked(trace, {"N": 8, "M": 8})) == "proved"


def test_an_unsafe_move_that_later_ones_hide_fails_at_the_proof() -> None:
    text = "kernel turned(N)\nin x: f32[N]\ninout y: f32[N]\nout z: f32[N]\n"
    trace = dojoir.Trace(dojoir.parse(text + "N\n| y[{0}] = x[{0}]\nN\n| z[{0}] = y[N - 1 - {0}]\n"))
    for move in ("join_scopes(0, 1)", "split(0, 4)", "unroll(0.0)"):
        trace.apply(move, unsafe=True)
    assert failed_at(asked(trace, {"N": 8})) == "proved"


def test_an_unsafe_move_that_keeps_the_meaning_is_not_honest() -> None:
    trace = dojoir.Trace(SCALED)
    trace.apply("split(0, 16)", unsafe=True)
    assert failed_at(asked(trace, {"N": 5000})) == "honest"


def test_a_source_that_emit_does_not_give_fails_as_built() -> None:
    text = dojoir.emit(SCALED, "llvm")
    trace = dojoir.Trace(SCALED).then("split(0, 16)")
    assert failed_at(asked(trace, {"N": 5000}, source=text)) == "built"
    assert failed_at(asked(dojoir.Trace(SCALED), {"N": 5000}, source=text + "\n; more")) == "built"
    assert failed_at(asked(dojoir.Trace(SCALED), {"N": 5000}, complaint="bench.json was changed")) == "built"


def test_what_is_no_faster_fails_at_the_last_gate() -> None:
    trace = dojoir.Trace(SCALED).then("split(0, 16)")
    assert failed_at(asked(trace, {"N": 5000}, measure=times(0.9, trace.kernel))) == "faster"
    assert failed_at(asked(dojoir.Trace(SCALED), {"N": 5000})) == "faster", "it is its own peer"


# -- what is honest ----------------------------------------------------------------------------------------------
@pytest.mark.parametrize("target", ["llvm", "c"])
def test_what_is_honest_passes_all_gates(target: str) -> None:
    trace = dojoir.Trace(SCALED).then("split(0, 16)")
    found = asked(trace, {"N": 20_003}, target)
    assert found.ok, gate_lines(found)
    assert gate_lines(found).endswith("all gates pass\n") and found.seed == 4711


@pytest.mark.parametrize("name", ["softmax", "embedding", "saxpy", "cross_entropy"])
def test_a_schedule_of_the_library_passes_all_gates(name: str) -> None:
    kernel = dojoir.kernels.load(name)
    sizes = dict.fromkeys(kernel.runtime_sizes, 96)
    trace = dojoir.optimize(kernel, "llvm", sizes=sizes, threads=1)
    found = asked(trace, sizes)
    assert found.ok or trace.kernel == kernel, gate_lines(found)


def test_what_is_faster_passes_the_last_timing_too() -> None:
    """The honest twin of what knows that it is timed: results of timed calls are what the text means."""
    sizes = {"N": 300, "M": 400}
    trace = dojoir.optimize(dojoir.kernels.load("gemv"), "llvm", sizes=sizes, threads=1)
    found = asked(trace, sizes, measure=dojoir.measure_together, seconds=0.5)
    assert found.ok, gate_lines(found)


def test_memory_that_a_call_gives_back_is_not_left_behind() -> None:
    """The honest twin of what leaks, and of what has a thread of its own: a temporary on the heap, two threads."""
    text = "kernel twice(N)\nin x: f32[N]\nout y: f32[N]\ntmp t: f32[N]\nN\n| t[{0}] = x[{0}] + 1\n"
    trace = dojoir.Trace(dojoir.parse(text + "N\n| y[{0}] = t[N - 1 - {0}]\n")).then("parallelize(1)")
    for threads in (1, 2):
        spent = dojoir.testing.spending(trace.kernel, "llvm", sizes={"N": 200_000}, threads=threads)
        assert not spent.complaint(threads), spent


def test_two_threads_are_judged_and_another_number_is_told() -> None:
    trace = dojoir.Trace(SCALED).then("parallelize(0)")
    clock = times(2.0, trace.kernel)
    found = gate(Asked(trace, "llvm", [{"N": 5000}], 2, ("text",), seed=1, measure=clock))
    assert found.ok, gate_lines(found)


# -- what is not decided -----------------------------------------------------------------------------------------
def test_what_cannot_be_had_here_is_unavailable_and_passes_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    def missing(*given: object, **more: object) -> None:
        raise dojoir.ToolchainError("there is no GPU here", "no-device")

    for module, name in (("", "compile"), ("", "verify"), (".testing", "repeats"), (".testing", "ignored_inputs")):
        monkeypatch.setattr(f"dojoir{module}.{name}", missing)
    trace = dojoir.Trace(SCALED).then("split(0, 16)")
    found = asked(trace, {"N": 64})
    assert [one.status for one in found.gates] == ["pass", *["unavailable"] * 4, "pass"] and not found.ok
    assert found["built"].reason == "there is no GPU here"


def test_elements_that_share_a_byte_are_judged_as_others() -> None:
    text = "kernel widened(N)\nwhere N % 2 == 0\nin q: i4[N] packed\nout y: f32[N]\nN\n| y[{0}] = f32(q[{0}])\n"
    trace = dojoir.Trace(dojoir.parse(text)).then("split(0, 16)")
    found = asked(trace, {"N": 4096})
    assert found["honest"].status == "pass", gate_lines(found)
    assert found["deterministic"].status == "pass"


def test_a_proof_that_does_not_come_to_an_end_is_undecided(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("dojoir.evidence.gates.STEPS", 1)
    found = asked(dojoir.Trace(dojoir.kernels.load("matmul")).then("split(0, 16)"), {"N": 8, "M": 8, "K": 8})
    assert found["proved"].status == "undecided" and not found.ok


def test_wrong_sizes_and_peers_are_errors_and_no_answers() -> None:
    trace = dojoir.Trace(SCALED)
    with pytest.raises(dojoir.ArgumentError):
        asked(trace, {"M": 4})
    with pytest.raises(dojoir.ArgumentError, match="no peer jax"):
        gate(Asked(trace.then("split(0, 16)"), "llvm", [{"N": 64}], 1, ("jax",), seed=1))


# -- noise -------------------------------------------------------------------------------------------------------
def is_faster(factor: float, seed: int) -> bool:
    trace = dojoir.Trace(SCALED).then("split(0, 16)")
    given = Asked(
        trace, "llvm", [{"N": 64}], 1, ("text",), seed=1, measure=times(factor, trace.kernel, 0.02, seed)
    )  # fmt: skip
    found = gate(given, ("faster",))["faster"]
    assert found.status in ("pass", "fail"), found.reason
    return found.status == "pass"


def test_a_kernel_is_not_faster_than_itself() -> None:
    assert sum(is_faster(1.0, seed) for seed in range(200)) <= 2


def test_five_percent_are_found() -> None:
    assert sum(is_faster(1.05, seed) for seed in range(100)) >= 90


# -- ceilings ----------------------------------------------------------------------------------------------------
@pytest.mark.parametrize(
    ("seconds", "moved", "flops", "why"),
    [
        (1e-3, 10**7, 10**6, None),
        (1e-3, 10**9, 10**6, "and memory gives"),
        (1e-6, 4 * 10**6, 10**2, "the nearest cache"),
        (1e-6, 100, 10**6, "GFLOP/s of"),
    ],
)
def test_nobody_is_faster_than_the_machine(seconds: float, moved: int, flops: int, why: str | None) -> None:
    found = faster_than(seconds, moved, flops, memory=50.0, arithmetic=200.0, cache=32 << 20)
    assert (found is None) if why is None else (found is not None and why in found)


def test_equal_parts_of_a_statement_are_computed_once() -> None:
    text = "kernel far(N)\nin x: f32[N]\nin z: f32[N]\nout y: f32[N]\nN\n| y[{0}] = "
    shares = [once_share(dojoir.parse(f"{text}{value}\n")) for value in (
        "(x[{0}] - z[{0}]) * (x[{0}] - z[{0}])", "(x[{0}] - z[{0}]) * (x[{0}] + z[{0}])", "x[{0}]"
    )]  # fmt: skip
    assert shares == [pytest.approx(2 / 3), 1.0, 1.0]


def test_small_sizes_fit_the_facts() -> None:
    kernel = dojoir.parse("kernel f(N)\nwhere N % 16 == 0\nin x: f32[N]\nout y: f32[N]\nN\n| y[{0}] = x[{0}]\n")
    assert small_sizes(kernel) == {"N": 16}


# -- runs that were changed --------------------------------------------------------------------------------------
@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of a run of `bench`."""
    pytest.importorskip("sqlalchemy", reason="needs the extra agents")
    folder = tmp_path_factory.mktemp("runs")
    path = folder / "trace.json"
    dojoir.Trace(SCALED).then("split(0, 16)").save(path)
    given = ["bench", str(path), "-s", "N=5000", "--beside", "text", "--seconds", "0.1", "--no-check"]
    assert main([*given, "--runs", str(folder)]) == 0
    (found,) = folder.glob("*/run.json")
    return found.parent


def edited_figure(run: Path) -> None:
    text = (run / "bench.json").read_text()
    (run / "bench.json").write_text(re.sub(r'"seconds": [\d.e-]+', '"seconds": 1e-12', text, count=1))


def other_source(run: Path) -> None:
    (path,) = run.glob("source.*")
    path.write_text(path.read_text() + "; a line more\n")


def a_file_more(run: Path) -> None:
    (run / "notes.txt").write_text("believe me\n")


@pytest.mark.parametrize("change", [edited_figure, other_source, a_file_more])
def test_a_run_that_was_changed_fails_as_built(
    run: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], change: Callable[[Path], None]
) -> None:
    copy = tmp_path / run.name
    shutil.copytree(run, copy)
    change(copy)
    given = ["last", "--runs", str(tmp_path / "made")] if change is a_file_more else [str(copy)]
    if change is a_file_more:
        shutil.copytree(copy, tmp_path / "made" / run.name)
    assert main(["gate", *given, "--beside", "text", "--json"]) == 3
    found = json.loads(capsys.readouterr().out)["gates"]["gates"]
    assert [one["status"] for one in found] == ["pass", "fail", *["not-run"] * 4]
    name = {edited_figure: "bench.json", other_source: "source.", a_file_more: "notes.txt"}[change]
    assert name in found[1]["reason"]
