"""Errors of a run are part of the meaning: conditions are asked from left to right, before what they guard, and
what is not reached cannot fail, by no target, after no move."""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np
import pytest
from able import can_run
from endings import Ending, compiled, ending, unlike

import dojoir

TARGETS = ("llvm", "c", "avx512", "cuda")

MOVES = ("split(0, 2)", "reverse_scope(0)", "vectorize(0)", "parallelize(0)", "cut(0, 1)")
INNER = (
    "swap_scopes(0)", "split(0.0, 2)", "cut(0.0, 1)", "reverse_scope(0.0)", "vectorize(0.0)",
    "split_reduction(0.0, y, part, 2)",
)  # fmt: skip
"""Moves of kernels that have a scope in another."""


def numbers(*values: int) -> np.ndarray:
    return np.array(values, np.int32)


def zeros(count: int) -> np.ndarray:
    return np.zeros(count, np.float32)


CASES: dict[str, tuple[str, dict[str, Any], list[float] | str]] = {
    "a condition behind a length": (
        "in len: i32[N]\nin ids: i32[M]\nin x: f32[M]\ninout y: f32[N]\n\n"
        "N\n| min(len[{0}], M)\n| | y[{0}] += 1 if x[ids[{1}]] > 0",
        {"len": numbers(1, 1), "ids": numbers(0, 99, -1), "x": zeros(3) + 1, "y": zeros(2)},
        [1, 1],
    ),
    "a length that is too long": (
        "in len: i32[N]\nin ids: i32[M]\nin x: f32[M]\ninout y: f32[N]\n\n"
        "N\n| min(len[{0}], M)\n| | y[{0}] += 1 if x[ids[{1}]] > 0",
        {"len": numbers(1, 2), "ids": numbers(0, 99, -1), "x": zeros(3) + 1, "y": zeros(2)},
        "index-out-of-range",
    ),
    "the right side of and": (
        "in ok: i32[N]\nin d: i32[N]\ninout y: f32[N]\n\nN\n| y[{0}] += 1 if ok[{0}] > 0 and 7 // d[{0}] > 0",
        {"ok": numbers(1, 0, 1, 0), "d": numbers(1, 0, 9, 0), "y": zeros(4)},
        [1, 0, 0, 0],
    ),
    "the right side of or": (
        "in ok: i32[N]\nin d: i32[N]\ninout y: f32[N]\n\nN\n| y[{0}] += 1 if ok[{0}] > 0 or 7 // d[{0}] > 0",
        {"ok": numbers(1, 0, 1, 0), "d": numbers(0, 1, 0, 9), "y": zeros(4)},
        [1, 1, 1, 0],
    ),
    "the right side of and, in a value": (
        "in ok: i32[N]\nin d: i32[N]\nout y: f32[N]\n\n"
        "N\n| y[{0}] = select(not (ok[{0}] == 0 or 7 // d[{0}] == 0), 2, 3)",
        {"ok": numbers(1, 0, 1, 0), "d": numbers(1, 0, 9, 0)},
        [2, 3, 3, 3],
    ),
    "what is on the left is asked": (
        "in ok: i32[N]\nin d: i32[N]\ninout y: f32[N]\n\nN\n| y[{0}] += 1 if 7 // d[{0}] > 0 and ok[{0}] > 0",
        {"ok": numbers(0, 0, 0, 0), "d": numbers(1, 1, 0, 1), "y": zeros(4)},
        "division-by-zero",
    ),
    "what is on the left is asked, though the rest is the same in each iteration": (
        "in ok: i32[N]\nin d: i32[M]\ninout y: f32[N]\n\n"
        "N\n| M\n| | y[{0}] += 1 if 7 // d[{1}] > 0 and ok[{0}] > 0",
        {"ok": numbers(0, 0), "d": numbers(1, 1, 0), "y": zeros(2)},
        "division-by-zero",
    ),
    "both values of a select are computed": (
        "in ok: i32[N]\nin d: i32[N]\nout y: i32[N]\n\nN\n| y[{0}] = select(ok[{0}] > 0, 7 // d[{0}], 0)",
        {"ok": numbers(1, 0), "d": numbers(1, 0)},
        "division-by-zero",
    ),
    "an inner loop with a condition that may not hold": (
        "in ok: i32[N]\nin d: i32[M]\ninout y: f32[N]\n\n"
        "N\n| M\n| | y[{0}] += 1 if ok[{0}] > 0 and 7 // d[{1}] > 0",
        {"ok": numbers(0, 0), "d": numbers(1, 0, 1), "y": zeros(2)},
        [0, 0],
    ),
    "lengths inside of lengths": (
        "in len: i32[N]\nin ids: i32[M]\nin more: i32[M]\ninout y: f32[N]\n\n"
        "N\n| min(len[{0}], M)\n| | min(more[ids[{1}]], M)\n| | | y[{0}] += 1",
        {"len": numbers(1, 2), "ids": numbers(2, 1, -1), "more": numbers(7, 1, 2), "y": zeros(2)},
        [2, 3],
    ),
    "a shift": (
        "in ok: i32[N]\nin x: i32[N]\ninout y: i32[N]\n\nN\n| y[{0}] = x[{0}] << ({0} + 1) if ok[{0}] > 0",
        {"ok": numbers(1, 1, 1, *[0] * 32), "x": numbers(*[1] * 35), "y": numbers(*[0] * 35)},
        [2, 4, 8] + [0] * 32,
    ),
    "a divisor of iterators, which lanes behind the end have as 0": (
        "in x: i64[N]\nout y: i64[N]\n\nN\n| y[{0}] = x[{0}] // (N - {0})",
        {"x": np.arange(11)},
        [0, 0, 0, 0, 0, 0, 1, 1, 2, 4, 10],
    ),
    "a division of a reached one": (
        "in ok: i32[N]\nin x: i32[N]\ninout y: i32[N]\n\nN\n| y[{0}] = 7 // x[{0}] if ok[{0}] > 0",
        {"ok": numbers(1, 1), "x": numbers(1, 0), "y": numbers(0, 0)},
        "division-by-zero",
    ),
}  # fmt: skip


@cache
def case(name: str) -> tuple[dojoir.Kernel, dict[str, Any], Ending]:
    text, inputs, expected = CASES[name]
    kernel = dojoir.parse(f"kernel e(N{', M' if 'M]' in text else ''})\n{text}\n")
    found = ending(dojoir.interpret, kernel, inputs)
    if isinstance(expected, str):
        assert found.code == expected
    else:
        assert not found.code and found.results["y"].tolist() == expected
    return kernel, inputs, found


@pytest.mark.parametrize("name", CASES)
def test_targets_fail_where_the_text_does(name: str) -> None:
    kernel, inputs, text = case(name)
    for target in TARGETS:
        if target == "cuda" or can_run(target):
            scheduled = [kernel, dojoir.optimize(kernel, target).kernel]
            for each in scheduled:
                run = compiled(each, target)
                wrong = unlike(kernel, text, ending(run, inputs), exact=False)
                assert wrong is None, f"{target}: {wrong}\n{each}"


@pytest.mark.parametrize("name", CASES)
def test_moves_make_no_run_fail(name: str) -> None:
    kernel, inputs, text = case(name)
    is_nested = len(kernel.sites[0].scopes) > 1
    legal = [move for move in (*MOVES, *(INNER if is_nested else ())) if dojoir.check(kernel, move)]
    assert legal
    for move in legal:
        after = dojoir.apply(kernel, move)
        for how in (
            lambda after=after: dojoir.interpret(after, inputs),
            lambda after=after: dojoir.compile(after).run(inputs),
        ):
            wrong = unlike(kernel, text, ending(how), exact=False, may_end_well=True)
            assert wrong is None, f"{move}: {wrong}\n{after}"


HEAD = "kernel e(N, M)\nwhere N <= 1000\nin ok: i32[N]\nin x: i32[N]\ninout y: i32[N]\n\nN\n"


@pytest.mark.parametrize(
    ("body", "move"),
    [
        ("| y[{0}] = x[{0}] << ({0} + 1) if ok[{0}] > 0", "extract_subexpression(0.0, 4, part)"),
        ("| M - 1\n| | y[{0}] += x[{0}] << N", "hoist(0.0, 0.0.0, 0, part)"),
        ("| if N < 20\n| | y[{0}] += x[{0}] << N", "hoist(0, 0.0.0, 0, part)"),
        ("| M\n| | y[{0}] += 1 if ok[{0}] > 0 and 7 // x[{0}] > 0", "hoist(0.0, 0.0.0, 6, part)"),
        ("| M\n| | y[{0}] += 1 if ok[{0}] > 0 or 7 // x[{0}] > 0", "extract_subexpression(0.0.0, 6, part)"),
    ],
)
def test_no_part_is_computed_where_it_may_fail(body: str, move: str) -> None:
    kernel = dojoir.parse(HEAD + body + "\n")
    verdict = dojoir.check(kernel, move)
    assert verdict.code == "may-fail", str(verdict)


@pytest.mark.parametrize(
    ("body", "move"),
    [
        ("| y[{0}] = x[{0}] << 3 if ok[{0}] > 0", "extract_subexpression(0.0, 4, part)"),
        ("| y[{0}] = x[{0}] // ({0} + 1) if ok[{0}] > 0", "extract_subexpression(0.0, 4, part)"),
        ("| if {0} >= 1\n| | y[{0}] = x[{0}] // {0} if ok[{0}] > 0", "extract_subexpression(0.0.0, 4, part)"),
        ("| if {0} < 31\n| | y[{0}] = x[{0}] >> ({0} + 1) if ok[{0}] > 0", "extract_subexpression(0.0.0, 4, part)"),
        ("| M\n| | y[{0}] += 7 // x[{0}]", "hoist(0.0, 0.0.0, 0, part)"),
        ("| M\n| | y[{0}] += 1 if 7 // x[{0}] > 0 and ok[{0}] > 0", "hoist(0.0, 0.0.0, 3, part)"),
    ],
)
def test_what_cannot_fail_or_is_reached_is_computed_before(body: str, move: str) -> None:
    kernel = dojoir.parse(HEAD + body + "\n")
    verdict = dojoir.check(kernel, move)
    assert verdict, str(verdict)
    assert dojoir.certify(dojoir.Trace(kernel).then(move))


@pytest.mark.parametrize("op", [">>", "<<", "// ({0} + 1) +", "% ({0} + 2) -"])
def test_moves_of_a_part_of_iterators_are_listed(op: str) -> None:
    kernel = dojoir.parse(HEAD + "| y[{0}] = x[{0}] " + op + " {0} if ok[{0}] > 0\n")
    assert list(dojoir.moves(kernel))


@pytest.mark.parametrize("target", ["llvm", "c", "avx2"])
def test_an_index_into_what_a_register_holds_is_asked(target: str) -> None:
    """No address is computed of an array of one element that is a variable: a mutant that asked nothing lived."""
    if not can_run(target):
        pytest.skip(f"no {target} here")
    kernel = dojoir.parse("""kernel one(N)
in ids: i32[N]
in x: f32[N]
out y: f32[N]
tmp t: f32[1]

N
| t[0] = x[{0}]
| y[{0}] = t[ids[{0}]]
""")
    x, y = np.arange(3, dtype=np.float32), np.empty(3, np.float32)
    run = dojoir.compile(kernel, target)
    run(np.zeros(3, np.int32), x, y)
    assert (y == x).all()
    for wrong in (1, -1):
        with pytest.raises(dojoir.RunError, match="out of range"):
            run(np.array([0, wrong, 0], np.int32), x, y)
