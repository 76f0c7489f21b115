"""One work written in several ways has one schedule: each text of a work is brought into the same form."""

from __future__ import annotations

from random import Random

import pytest
from folders import ROOT
from scheduled import by_default

import dojoir
from dojoir.passes.engine.trace import Trace
from dojoir.passes.schedule.forms.borders import conditions_to_bounds
from dojoir.passes.schedule.forms.plain import as_plain_scopes, rows_outside
from dojoir.passes.schedule.forms.temporaries import inline_once, keep_repeated

FOLDER = ROOT / "benchmarks" / "spellings"
SAME = {
    "product": ("plain", "joined", "columns_first", "terms_outermost", "tiles_and_guards"),
    "window": ("plain", "terms_outermost"),
    "pool": ("plain", "joined", "window_outermost"),
    "upper": ("from_the_row", "sums_innermost"),
    "vector": ("plain", "joined", "columns_outside", "products_first"),
}
"""The texts of a work that have the same schedule, but for the names of scopes."""

MOVES = {"split", "swap_scopes", "sink_scope", "lift_scope", "collapse", "split_scopes", "cut", "shift", "label"}
"""Moves that write the same work in another way."""

STARTS = ["product__plain", "window__plain", "pool__plain", "upper__guards", "rows__plain"]


def text_of(name: str) -> dojoir.Kernel:
    return dojoir.parse((FOLDER / f"{name}.dojo").read_text())


@pytest.mark.parametrize("work", SAME)
def test_each_spelling_has_the_same_schedule(work: str) -> None:
    first, *others = (by_default(text_of(f"{work}__{one}"), "avx2").kernel for one in SAME[work])
    for other in others:
        assert [buffer.name for buffer in other.buffers] == [buffer.name for buffer in first.buffers]
        assert other.body == first.body


@pytest.mark.parametrize("name", sorted(path.stem for path in FOLDER.glob("*.dojo")))
def test_what_a_spelling_becomes_computes_the_same(name: str) -> None:
    kernel = text_of(name)
    report = dojoir.verify(by_default(kernel, "avx2").kernel, kernel, seeds=[1])
    assert report.ok, str(report)


@pytest.mark.parametrize("number", range(16))
def test_what_moves_make_of_a_text_is_scheduled_and_computes_the_same(number: int) -> None:
    random = Random(f"spelling {number}")
    start = text_of(random.choice(STARTS))
    trace = dojoir.Trace(start)
    for _ in range(4):
        moves = [move for move in dojoir.candidates(trace.kernel) if move.name in MOVES]
        random.shuffle(moves)
        for move in moves[:6]:
            if dojoir.check(trace.kernel, move):
                trace.apply(move)
                break
    report = dojoir.verify(by_default(trace.kernel, "avx2").kernel, start, seeds=[1])
    assert report.ok, f"{trace.moves}: {report}"


WINDOW = """kernel f(N, M)
in x: f32[N, M]
out y: f32[N, M]
N @i
| M @j
| | y[{i}, {j}] = 0
| 3 @p
| | if {i} + {p} >= 1 and {i} + {p} <= N
| | | M @k
| | | | y[{i}, {k}] += x[{i} + {p} - 1, {k}]
"""
TRIANGLE = """kernel f(N)
in a: f32[N, N]
in b: f32[N, N]
out c: f32[N, N]
N @i
| N @j
| | c[{i}, {j}] = 0
| | N @k
| | | if {k} >= {i} and {j} >= {k}
| | | | c[{i}, {j}] += a[{i}, {k}] * b[{k}, {j}]
"""


def test_the_condition_of_a_window_goes_inside() -> None:
    trace = Trace(dojoir.parse(WINDOW))
    as_plain_scopes(trace)
    assert [move.name for move in trace.moves] == ["lift_scope"]


def test_the_conditions_of_a_triangle_become_bounds() -> None:
    trace = Trace(dojoir.parse(TRIANGLE))
    conditions_to_bounds(trace)
    assert "if" not in dojoir.to_text(trace.kernel) and "| | {1} + 1" in dojoir.to_text(trace.kernel)
    loose = Trace(dojoir.parse(TRIANGLE.replace("{j} >= {k}", "{j} >= 2*{k}")))
    conditions_to_bounds(loose)
    assert not loose.moves, "a bound that is stretched stays a condition, and so does the other"


def test_a_residue_stays_around_the_rows() -> None:
    text = "kernel f(N, M, K)\nin a: f32[N, K]\nin b: f32[K, M]\nout c: f32[N, 3 * M]\n3 @r\n| N @i\n| | M @j\n"
    text += (
        "| | | c[{i}, {r} + 3 * {j}] = 0\n| | | K @k\n| | | | c[{i}, {r} + 3 * {j}] += a[{i}, {k}] * b[{k}, {j}]\n"
    )
    trace = Trace(dojoir.parse(text))
    rows_outside(trace)
    assert not trace.moves


@pytest.mark.parametrize(
    ("reader", "inlined"),
    [
        ("t[{i}, {j}]", True),
        ("t[{j}, {i}]", False),
        ("t[{i}, {j}] * t[{i}, {j}]", False),
    ],
)
def test_what_is_read_once_along_memory_is_no_array(reader: str, inlined: bool) -> None:
    text = "kernel f(N)\nin a: f32[N, N]\nin x: f32[N]\nout y: f32[N]\ntmp t: f32[N, N]\nN @p\n| N @q\n"
    text += "| | t[{p}, {q}] = a[{p}, {q}] * x[{q}]\nN @i\n| y[{i}] = 0\n| N @j\n| | y[{i}] += " + reader + "\n"
    trace = Trace(dojoir.parse(text))
    inline_once(trace)
    assert [move.name for move in trace.moves] == (["inline", "delete_temporary"] if inlined else [])


def test_a_function_that_two_loops_of_a_row_ask_is_asked_once() -> None:
    trace = Trace(text_of("rows__plain"))
    keep_repeated(trace)
    assert dojoir.to_text(trace.kernel).count("exp(") == 1
    cheap = Trace(dojoir.parse(str(text_of("rows__plain")).replace("exp(", "(")))
    keep_repeated(cheap)
    assert not cheap.moves


JOINED = """kernel f(N, M, K)
in a: f32[N, 8, K]
in b: f32[K, M]
out c: f32[N, 8, M]
8*N @r
| M @j
| | c[{r} // 8, {r} % 8, {j}] = 0
| | K @k
| | | c[{r} // 8, {r} % 8, {j}] += a[{r} // 8, {r} % 8, {k}] * b[{k}, {j}]
"""
COPIED = """kernel f(N, M, K)
in a: f32[N, K]
in b: f32[K, M]
out c: f32[N, M]
tmp t: f32[M, K]
M @p
| K @q
| | t[{p}, {q}] = b[{q}, {p}]
N @i
| M @j
| | c[{i}, {j}] = 0
| | K @k
| | | c[{i}, {j}] += a[{i}, {k}] * t[{j}, {k}]
"""
ITSELF = """kernel f(N, K)
in x: f32[N, K]
out y: f32[N, N]
N @i
| N @j
| | y[{i}, {j}] = 0
| | K @k
| | | y[{i}, {j}] += x[{i}, {k}] * x[{j}, {k}]
"""
CLAMPED = """kernel f(N, M)
where M >= 5
in x: f32[N, M]
out y: f32[N, M]
tmp s: f32
N @i
| M @j
| | s = 0
| | 5 @p
| | | s += x[{i}, clamp({j} + {p} - 2, 0, M - 1)]
| | y[{i}, {j}] = s / 5
"""


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (JOINED, "_tile[0, {"),  # rows of both are one another's neighbours
        (COPIED, "= b[{"),  # the panel is copied from the argument
        (ITSELF, "x_panel"),  # of the columns alone
        (CLAMPED, " : v\n| | | s3 = 0"),  # columns are in lanes, and not the elements of a window
    ],
    ids=["joined", "copied", "itself", "clamped"],
)
def test_what_a_text_says_otherwise_has_the_tile(text: str, said: str) -> None:
    kernel = dojoir.parse(text)
    trace = by_default(kernel, "avx2")
    assert said in dojoir.to_text(trace.kernel), str(trace.kernel)
    assert dojoir.certify(trace)
    report = dojoir.verify(trace.kernel, kernel, seeds=[1])
    assert report.ok, str(report)
