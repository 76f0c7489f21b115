"""What a person sees: short reprs, cells of a notebook, a terminal."""

from __future__ import annotations

import html
import os
import pty
import re
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest
from test_cli import Shell

import dojoir
from dojoir.cli import screen
from dojoir.runtime import Bottleneck, Evaluation
from dojoir.support.seconds import format_seconds

SOFTMAX = dojoir.kernels.load("softmax")
ESCAPES = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]")


@pytest.fixture
def shell(tmp_path: Path) -> Shell:
    return Shell(tmp_path)


def on_terminal(*arguments: str, columns: int = 80, **environment: str) -> str:
    """What `dojoir-opt` writes to a terminal of so many columns."""
    ours, its = pty.openpty()
    unset = {name: value for name, value in os.environ.items() if name not in {"NO_COLOR", "FORCE_COLOR"}}
    process = subprocess.Popen(
        [sys.executable, "-m", "dojoir.cli", *arguments],
        stdin=subprocess.DEVNULL, stdout=its, stderr=its,
        env={**unset, "TERM": "xterm-256color", "COLUMNS": str(columns), **environment},
    )  # fmt: skip
    os.close(its)
    shown = b""
    while True:
        try:
            piece = os.read(ours, 1 << 16)
        except OSError:  # the other end is closed
            break
        if not piece:
            break
        shown += piece
    process.wait(timeout=60)
    os.close(ours)
    return shown.decode().replace("\r\n", "\n")


def words_of(cell: str) -> str:
    return html.unescape(re.sub("<[^>]*>", "", cell))


# -- reprs and notebooks --------------------------------------------------------------------------------------
def test_reprs_are_short() -> None:
    trace = dojoir.Trace(SOFTMAX).then("join_scopes(0, 1)")
    assert repr(SOFTMAX) == "<Kernel softmax(N, M): x -> y, 6 statements>"
    assert repr(dojoir.parse_move("split(@i, 16)")) == "split(@i, 16)"
    assert repr(trace) == "<trace of softmax, 1 move>"
    assert repr(dojoir.check(SOFTMAX, "join_scopes(0, 1)")) == "<Verdict legal>"
    refused = repr(dojoir.check(SOFTMAX, "reuse_dims(m, 0)"))
    assert refused.startswith("<Verdict illegal, wrong-value: reuse_dims(m, 0): ") and len(refused) < 140
    measured = dojoir.measure(SOFTMAX, N=4, M=4, threads=1, budget=0.1, with_ceilings=False)
    assert re.fullmatch(r"<Measurement softmax\(N=4, M=4\) on llvm: [0-9.]+ [mun]?s>", repr(measured))
    for move in dojoir.moves(SOFTMAX):
        assert repr(move) == str(move) and dojoir.parse_move(repr(move)) == move


@pytest.mark.parametrize("name", dojoir.kernels.names())
def test_a_cell_shows_the_text_of_a_kernel(name: str) -> None:
    kernel = dojoir.kernels.load(name)
    assert words_of(kernel._repr_html_()) == str(kernel)
    assert "color:" in kernel._repr_html_()


def test_a_cell_of_a_trace_shows_moves_changes_and_kernel() -> None:
    trace = dojoir.Trace(SOFTMAX).then("join_scopes(0, 1)").then("reuse_dims(m, 0)")
    cell = trace._repr_html_()
    assert str(trace.kernel) in words_of(cell)
    assert "<li><code>reuse_dims(m, 0)</code></li>" in cell
    assert "- tmp m: f32[N]" in words_of(cell) and "+ tmp m: f32[N~]" in words_of(cell)


def test_a_cell_of_a_verdict_is_what_is_printed() -> None:
    for move in ("reuse_dims(m, 0)", "join_scopes(0, 1)"):
        verdict = dojoir.check(SOFTMAX, move)
        assert words_of(verdict._repr_html_()) == str(verdict)


def test_a_cell_of_a_move_says_what_it_does() -> None:
    for move in (*dojoir.moves(SOFTMAX)[:8], dojoir.PASSES["simplify"]):
        cell = words_of(move._repr_html_())
        assert cell.startswith(str(move) if not isinstance(move, dojoir.Pass) else move.usage) and len(cell) > 30


def test_a_cell_of_a_list_names_each_move_once() -> None:
    found = dojoir.moves(SOFTMAX)
    words = words_of(found._repr_html_())
    assert words.startswith(f"{len(found)} legal moves")
    assert all(words.count(str(move)) >= 1 for move in found)
    found.complete = False
    assert "there may be more" in words_of(found._repr_html_())
    assert words_of(type(found)()._repr_html_()) == "no legal moves"


def test_cells_of_measurements_hold_what_is_printed() -> None:
    both = dojoir.measure_together([SOFTMAX, "y[:] = x"], N=4, M=4, threads=1, budget=0.1, with_ceilings=False)
    one = both.measurements[0]
    assert format_seconds(one.seconds) in words_of(one._repr_html_())
    assert all(str(ratio) in words_of(both._repr_html_()) for ratio in both.ratios)
    report = dojoir.verify(dojoir.kernels.load("relu"), seeds=1)
    assert words_of(report._repr_html_()) == str(report)


def test_lists_of_moves_are_short() -> None:
    found = dojoir.moves(SOFTMAX)
    assert len(found) > 8
    words = repr(found)
    assert words.startswith(f"<{len(found)} legal moves: ") and "\n" not in words
    counts = [int(part.rpartition(" ")[2]) for part in words.strip(">").partition(": ")[2].split(", ")]
    assert sum(counts) == len(found)
    found.complete = False
    assert "and maybe more" in repr(found)
    few = type(found)(found[:2])
    assert repr(few) == f"[{few[0]}, {few[1]}]"


def test_costs_bottlenecks_and_plans_are_short_and_tables() -> None:
    cost = dojoir.cost(SOFTMAX)
    assert repr(cost).startswith("<Cost of softmax: flops = ") and len(repr(cost)) < 200
    formulas = [line.partition(" = ")[2] for line in str(cost).splitlines()]
    assert formulas and all(formula in words_of(cost._repr_html_()) for formula in formulas)
    bound = Bottleneck("spills", "30% of the 9 instructions of the loop go to the stack")
    assert repr(bound) == f"<Bottleneck {bound}>"
    assert bound.why in words_of(bound._repr_html_()) and "unmark, split, stage" in words_of(bound._repr_html_())
    plan = dojoir.plan(dojoir.kernels.load("relu"), "cuda", sizes={"N": 1 << 20})
    assert plan.best.name in repr(plan) and len(repr(plan)) < 200
    cell = words_of(plan._repr_html_())
    assert all(option.name in cell for option in plan.options)
    assert f"{len(plan.tried)} were tried" in cell and all(one.structure in cell for one in plan.tried)


def test_evaluations_and_what_was_tuned_are_short_and_tables() -> None:
    relu = dojoir.kernels.load("relu")
    tuned = dojoir.tune(relu, sizes={"N": 64}, strategy="random", budget=dojoir.Budget(states=4), timer="static")
    tuned = replace(tuned, ratio=dojoir.search.Gain(2.0, 1.9, 2.1))
    assert re.fullmatch(r"<Tuned relu: \d+ moves, \d+ states, [0-9.]+x.* as fast as the start>", repr(tuned))
    cell = words_of(tuned._repr_html_())
    assert str(tuned.trace.kernel) in cell and tuned.stopped in cell and str(tuned.ratio) in cell
    failed = Evaluation("a" * 64, "build-failed", reason=f"no code: {'x' * 200}\nmore", stages={"build": 2.0})
    assert (
        repr(failed).startswith("<Evaluation aaaaaaaaaaaa: build-failed, no code: xxx") and len(repr(failed)) < 140
    )
    assert failed.reason in words_of(failed._repr_html_()) and "build2 s" in words_of(failed._repr_html_())
    fine = Evaluation("b" * 64, "ok", 1e-3, (9e-4, 2e-3), cases=3, ratio=1.5)
    assert repr(fine) == "<Evaluation bbbbbbbbbbbb: ok, 1 ms (900 us to 2 ms), 1.50x as fast as the best>"


def test_an_optimised_kernel_names_its_machine() -> None:
    trace = dojoir.optimize(SOFTMAX, cpu="znver3")
    assert "for znver3" in repr(trace) and "for znver3" in repr(trace.copy())
    assert "for znver3" in words_of(trace._repr_html_())


# -- terminals --------------------------------------------------------------------------------------------------
def test_a_kernel_is_coloured_on_a_terminal_alone(shell: Shell) -> None:
    plain = shell("library:relu")[0]
    shown = on_terminal("library:relu")
    assert "\x1b[" in shown and "\x1b" not in plain
    assert ESCAPES.sub("", shown).rstrip() == plain.rstrip()
    assert "\x1b[3" not in on_terminal("library:relu", NO_COLOR="1")


def test_the_kind_of_an_error_is_in_colour_wherever_it_is(shell: Shell) -> None:
    shown = on_terminal("library:softmax", "-p", "reuse_dims(m, 0)")
    assert re.search(r"\x1b\[1;31merror", shown) and re.search(r"\x1b\[1;36mnote", shown)


def test_errors_are_wrapped_between_words(shell: Shell) -> None:
    _, plain = shell("library:softmax", "-p", "reuse_dims(m, 0)", status=1)
    shown = ESCAPES.sub("", on_terminal("library:softmax", "-p", "reuse_dims(m, 0)"))
    said = [line for line in shown.split("\n") if not line.startswith("  ")]
    assert max(map(len, said)) <= 80 < max(map(len, plain.split("\n")))
    assert "wrong-value" in shown
    asked = ESCAPES.sub("", on_terminal("library:softmax", "--explain", "reuse_dims(m, 0)"))
    assert max(len(line) for line in asked.split("\n")) <= 80 and "wrong-value" in asked


@pytest.mark.parametrize("option", ["--list-passes", "--list-targets", "--list-kernels"])
def test_lists_are_grouped_and_fit(shell: Shell, option: str) -> None:
    plain = shell(option)[0]
    heads = [line for line in plain.splitlines() if line and not line.startswith(" ")]
    assert len(heads) >= 4 and "others" not in heads
    assert max(len(ESCAPES.sub("", line)) for line in on_terminal(option).splitlines()) <= 80


def test_times_fit_and_say_the_speed_up(shell: Shell) -> None:
    out, _ = shell("library:softmax", "-O", "--time", "-s", "N=64", "-s", "M=64", "--threads", "1")
    lines = out.splitlines()
    assert max(map(len, lines[1:])) <= 80
    head, optimised, written, numpy = lines[2:6]
    assert head.split()[-1] == "speed-up"
    for row in (optimised, numpy):
        assert re.search(r" \d+\.\d\dx \(\d+\.\d\d to \d+\.\d\d\)$", row)
    assert written.startswith("as written") and "x (" not in written
    spreads = [float(re.findall(r"([0-9.]+)%", row)[0]) for row in (optimised, written, numpy)]
    assert ("warning: " in out) == (max(spreads) > 5) or 4.9 < max(spreads) < 5.1


def test_a_warning_where_times_spread() -> None:
    from dataclasses import replace

    from dojoir.cli.timing import _table

    steady = dojoir.measure(SOFTMAX, N=4, M=4, threads=1, budget=0.1, with_ceilings=False)
    noisy = replace(steady, samples=tuple(1e-6 * (1 + n % 7) for n in range(21)))
    calm = replace(steady, samples=(1e-6,) * len(steady.samples))
    assert "warning: the times of as written (" in _table("k", {}, [("as written", noisy)])
    assert "warning" not in _table("k", {}, [("as written", calm)])


def test_errors_speak_of_the_option(shell: Shell) -> None:
    _, err = shell("pair.dojo", "--run", status=1)
    assert "pass -s N=" in err


def test_what_a_machine_has_is_wrapped_beside_its_name() -> None:
    options = " ".join(["-fno-such-option"] * 12)
    table = "ceilings   threads   read\n             1   25.5\n"
    for begin in ("compiler   ", " " * 11):
        *facts, head, row = screen._wrapped_facts(f"{begin}{options}\n{table}", 80).plain.splitlines()
        assert len(facts) > 2 and all(len(line) < 80 for line in facts)
        assert facts[0].startswith(f"{begin}-") and all(line.startswith(" " * 11 + "-") for line in facts[1:])
        assert " ".join(facts).split() == f"{begin}{options}".split()
        assert f"{head}\n{row}\n" == table
