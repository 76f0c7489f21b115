"""Sweeps over rows that are made again and again, as waves; rows of which each element waits for the one before."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from differential import targets

import dojoir
from dojoir.backends.machine import MACHINES
from dojoir.passes.engine.trace import Trace
from dojoir.passes.schedule.cpu.rows.waves import FURTHEST, TOGETHER, repeated
from dojoir.passes.schedule.default_schedule import default_schedule

JACOBI = """kernel jacobi(T, N, M)
where N >= 3, M >= 3
inout a: f64[N, M]
inout b: f64[N, M]

T
| N - 2
| | M - 2
| | | b[{1} + 1, {2} + 1] = 0.2 * (a[{1} + 1, {2}] + a[{1} + 1, {2} + 2] + a[{1} + 2, {2} + 1] + a[{1}, {2} + 1])
| N - 2
| | M - 2
| | | a[{1} + 1, {2} + 1] = b[{1} + 1, {2} + 1] + 0.1 * (b[{1} + 2, {2} + 1] - b[{1}, {2} + 1])
"""

FIELDS = """kernel fields(T, N, M)
where N >= 2, M >= 2
inout e: f64[N, M]
inout h: f64[N, M]
in  f: f64[T]

T
| M
| | e[0, {1}] = f[{0}]
| N - 1
| | M
| | | e[{1} + 1, {2}] = e[{1} + 1, {2}] - 0.5 * (h[{1} + 1, {2}] - h[{1}, {2}])
| N - 1
| | M - 1
| | | h[{1}, {2}] = h[{1}, {2}] - 0.7 * (e[{1} + 1, {2}] - e[{1}, {2}])
"""

SEIDEL = """kernel seidel(T, N, M)
where N >= 3, M >= 3
fp fast
inout a: f64[N, M]

T
| N - 2
| | M - 2
| | | a[{1} + 1, {2} + 1] = (a[{1} + 1, {2}] + a[{1}, {2}] + a[{1}, {2} + 2] + a[{1} + 2, {2} + 1]) / 9
"""

ALONE = replace(MACHINES["avx2"], cores=1)


def scheduled(text: str, cores: int = 1, **sizes: int) -> dojoir.Trace:
    trace = Trace(dojoir.parse(text))
    default_schedule(trace, replace(ALONE, cores=cores), sizes=sizes)
    return trace


def is_wave(trace: dojoir.Trace) -> bool:
    """Whether iterations follow each other through the rows."""
    return {"skew", "swap_scopes"} <= {move.name for move in trace.moves}


@pytest.mark.parametrize("text", [JACOBI, FIELDS, SEIDEL], ids=["jacobi", "fields", "seidel"])
def test_sweeps_go_through_the_rows_together_and_results_stay(text: str) -> None:
    """On every target, with fewer iterations than go together, as many, more, and a rest."""
    trace = scheduled(text)
    assert is_wave(trace)
    assert dojoir.certify(trace)
    random = np.random.default_rng(7)
    runs = [dojoir.compile(trace.kernel, target, threads=1) for target in targets()]
    for steps in (1, 2, TOGETHER, TOGETHER + 3):
        for n, m in ((3, 3), (4, 9), (6, 11), (9, 27)):
            inputs = {
                buffer.name: random.standard_normal((n, m) if buffer.dims[1:] else (steps,))
                for buffer in trace.start.arguments
            }
            expected = dojoir.interpret(trace.start, inputs, T=steps)
            for run in runs:
                found = run.run(inputs, T=steps)
                for name, value in expected.items():
                    assert np.allclose(found[name], value, rtol=1e-12, atol=1e-12), (run.target, steps, n, m)


@pytest.mark.parametrize("text", [JACOBI, FIELDS, SEIDEL], ids=["jacobi", "fields", "seidel"])
def test_one_row_less_behind_is_refused(text: str) -> None:
    """The distance that the rule computes is the least that is legal."""
    trace = scheduled(text)
    kernel = trace.start
    for move in map(str, trace.moves):
        if move.startswith("skew(0"):
            place, behind = move.removeprefix("skew(").removesuffix(")").split(", ")
            near = kernel if behind == "1" else dojoir.apply(kernel, f"skew({place}, {int(behind) - 1})")
            assert dojoir.check(near, f"swap_scopes({place})").code in {"wrong-value", "lost-value"}
            return
        kernel = dojoir.apply(kernel, move)
    raise AssertionError("no skew")


def test_sweeps_that_are_joined_run_late_enough() -> None:
    found = repeated(dojoir.parse(JACOBI), (0,))
    assert found is not None
    assert (found.shifts, found.behind) == ((0, 1), 2)
    joined = dojoir.parse(JACOBI)
    assert dojoir.check(joined, "join_scopes(0.0, 0.1)").code in {"wrong-value", "lost-value"}
    fields = repeated(dojoir.parse(FIELDS), (0,))
    assert fields is not None
    assert (fields.shifts, fields.behind) == ((0, 0, 0), 1)  # the row that stays is behind no other


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("b[{1}, {2} + 1])", "b[{1} // 2, {2} + 1])"),  # a row that is not so many further
        ("b[{1}, {2} + 1])", "b[{2}, {1} + 1])"),  # a column
        ("b[{1}, {2} + 1])", "b[{0}, {2} + 1])"),  # a row of the iteration's own
        ("| N - 2\n| | M - 2\n| | | a", "| N - 2\n| | {1}\n| | | a"),  # rows of lengths of their own: one scope
        ("T\n| N - 2", "T\n| N - 2 : u"),
        ("b[{1} + 1, {2} + 1] = 0.2", "b[{1} + 1, {2} + 1] = b[N - 1 - {1}, 0] + 0.2"),  # rows the other way
    ],
)
def test_what_is_no_sweep_over_rows(old: str, new: str) -> None:
    assert old in JACOBI
    kernel = dojoir.parse(JACOBI.replace(old, new))
    assert (repeated(kernel, (0,)) is None) == ("{1}\n| | | a" not in new)


def test_rows_too_far_apart_stay() -> None:
    far = JACOBI.replace("N - 2", f"N - {FURTHEST + 2}").replace("a[{1} + 2,", f"a[{{1}} + {FURTHEST + 2},")
    kernel = dojoir.parse(far.replace("N >= 3", f"N >= {FURTHEST + 3}"))
    dojoir.prove(kernel)
    assert repeated(kernel, (0,)) is None


def test_independent_rows_are_left_to_the_cores_and_chains_are_not() -> None:
    assert not is_wave(scheduled(JACOBI, cores=2))
    assert any(move.name == "parallelize" for move in scheduled(JACOBI, cores=2).moves)
    assert is_wave(scheduled(SEIDEL, cores=2))


def test_what_a_cache_holds_stays() -> None:
    assert not is_wave(scheduled(JACOBI, T=100, N=100, M=100))
    assert is_wave(scheduled(JACOBI, T=100, N=2000, M=2000))
    assert not is_wave(scheduled(JACOBI, T=1, N=2000, M=2000))


def test_rows_that_no_cache_holds_stay() -> None:
    assert not is_wave(scheduled(JACOBI, T=100, N=100, M=1 << 24))


@pytest.mark.parametrize("mode", ["fast", "reassoc", "strict"])
def test_a_chain_has_what_is_added_before_it_in_lanes(mode: str) -> None:
    """All of it where algebra is allowed; else what the text adds before."""
    text = SEIDEL.replace("fp fast", f"fp {mode}").replace(
        "a[{1} + 1, {2}] + a[{1}, {2}]", "a[{1}, {2}] + a[{1} + 1, {2}]"
    )
    text = text.replace("(a[{1}, {2}] +", "(a[{1}, {2}] + a[{1}, {2} + 1] +")
    trace = scheduled(text, M=500)
    (before, chain) = (site.statement for site in trace.kernel.sites)
    assert len(list(before.reads)) == (4 if mode == "fast" else 2)
    assert len(list(chain.reads)) == 6 - len(list(before.reads))
    assert dojoir.to_text(trace.kernel).count(" : v") == 1
    assert dojoir.certify(trace)


def test_optimize_for_one_thread_takes_one_core() -> None:
    kernel = dojoir.parse(JACOBI).specialize(T=50, N=2000, M=2000)
    assert is_wave(dojoir.optimize(kernel, "llvm", threads=1))
    assert not is_wave(dojoir.optimize(kernel, "llvm", threads=2))


@pytest.mark.parametrize("name", ["seidel-2d", "jacobi-2d", "heat-3d", "fdtd-2d"])
def test_polybench_has_waves(name: str) -> None:
    folder = Path(__file__).resolve().parents[2] / "benchmarks" / "polybench"
    assert is_wave(scheduled((folder / f"{name}.dojo").read_text(encoding="utf-8")))
