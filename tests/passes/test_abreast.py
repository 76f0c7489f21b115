"""Rows side by side: sums whose other factor all rows share, and running sums."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

import dojoir
from dojoir.backends.machine import MACHINES
from dojoir.ir.nodes import Kernel
from dojoir.passes.engine.trace import Trace
from dojoir.passes.schedule.cpu.rows.abreast import CHAINS, ROWS
from dojoir.passes.schedule.default_schedule import default_schedule
from dojoir.passes.schedule.forms.plain import sums_along_rows

TIMES = """kernel times(N, M)
in  a: f64[N, M]
in  x: f64[M]
out y: f64[N]
tmp s: f64[N]

N
| s[{0}] = 1
| M
| | s[{0}] += a[{0}, {1}] * x[{1}]
| y[{0}] = 2 * s[{0}]
"""

RUNNING = """kernel running(N, M)
in  x: f64[N, M]
out y: f64[N, M]
tmp s: f64[N]

N
| s[{0}] = 0
| M
| | s[{0}] += x[{0}, {1}]
| | y[{0}, {1}] = 2 * s[{0}]
"""

RECURS = """kernel recurs(N, M)
in  x: f64[N, M]
out y: f64[N, M]

N
| y[{0}, 0] = x[{0}, 0]
| M - 1
| | y[{0}, {1} + 1] = max(y[{0}, {1}], x[{0}, {1} + 1])
"""

BOTH = """kernel both(N, M)
in  a: f64[N, M]
in  p: f64[M]
in  r: f64[N]
inout s: f64[M]
out q: f64[N]

N
| q[{0}] = 0
| M
| | s[{1}] += r[{0}] * a[{0}, {1}]
| | q[{0}] += a[{0}, {1}] * p[{1}]
"""
"""A matrix times a vector, and a vector times the matrix."""

TWICE = """kernel twice(N, M)
in  a: f64[N, M]
in  x: f64[M]
inout y: f64[M]
tmp t: f64[N]

N
| t[{0}] = 0
| M
| | t[{0}] += a[{0}, {1}] * x[{1}]
| M
| | y[{1}] += a[{0}, {1}] * t[{0}]
"""
"""One after the other, each row."""

DOWN = """kernel down(N, M)
in  a: f64[N, M]
in  x: f64[N]
inout y: f64[M]

M
| N
| | y[{0}] += a[{1}, {0}] * x[{1}]
"""
"""A vector times a matrix, each sum down a column."""

MACHINE = replace(MACHINES["avx2"], cores=1)


def scheduled(text: str, **sizes: int) -> dojoir.Trace:
    trace = Trace(dojoir.parse(text))
    default_schedule(trace, MACHINE, sizes=sizes)
    return trace


def is_abreast(kernel: Kernel, count: int) -> bool:
    """Whether so many rows go side by side, innermost."""
    return f"{count} : u" in dojoir.to_text(kernel) and f"N // {count}" in dojoir.to_text(kernel)


@pytest.mark.parametrize(
    ("text", "count"),
    [(TIMES, ROWS), (BOTH, ROWS), (TWICE, ROWS), (DOWN, ROWS), (RUNNING, CHAINS), (RECURS, CHAINS)],
    ids=["times", "both", "twice", "down", "running", "recurs"],
)
def test_rows_go_side_by_side_and_results_stay(text: str, count: int) -> None:
    """Where rows and columns are fewer than go together, and where some are left."""
    trace = scheduled(text)
    assert is_abreast(trace.kernel, count)
    assert dojoir.certify(trace)
    run = dojoir.compile(trace.kernel)
    random = np.random.default_rng(5)
    for n in (1, 3, 4, 7, 8, 9, 17):
        for m in (1, 7, 8, 9, 33):
            sizes = {"N": n, "M": m}
            inputs = {
                b.name: random.integers(-9, 9, tuple(d.extent.evaluate(sizes) for d in b.dims)).astype(np.float64)
                for b in trace.start.arguments
                if b.role != "out"
            }
            expected, found = dojoir.interpret(trace.start, inputs), run.run(inputs)
            assert all(np.array_equal(found[name], expected[name]) for name in expected), (n, m)


@pytest.mark.parametrize(
    ("text", "old", "new"),
    [
        (TIMES, "a[{0}, {1}] * x[{1}]", "a[{0}, {1}]"),  # nothing is shared
        (TIMES, "in  a: f64[N, M]", "in  a: f64[N, M] order(1, 0)"),  # lanes go over the rows
        (TIMES, "+= a", "+= s[{0}] * a"),  # a chain of products
        (RUNNING, "s[{0}]\n", "s[{0}] + y[{0}, {1} - 1 + 1]\n"),
        (RUNNING, "tmp s: f64[N]", "out s: f64[N]"),
        (RECURS, "max(y[{0}, {1}]", "max(y[{0}, {1} // 2]"),  # from further back
        (RECURS, "max(y[{0}, {1}]", "max(x[{0}, {1}]"),  # from nothing before
        (RECURS, "x[{0}, {1} + 1])", "y[{0}, 0])"),  # from two of those before
        (RECURS, "out y", "inout y"),
    ],
)
def test_others_stay_as_they_are(text: str, old: str, new: str) -> None:
    assert old in text
    changed = text.replace(old, new)
    if "y[{0}, {1} - 1 + 1]" in new:
        changed = changed.replace("out y", "inout y")
    kernel = scheduled(changed).kernel
    assert not is_abreast(kernel, ROWS) and not is_abreast(kernel, CHAINS)


def test_a_few_rows_are_left_to_the_cores() -> None:
    assert not is_abreast(scheduled(TIMES, N=7, M=5000).kernel, ROWS)
    assert is_abreast(scheduled(TIMES, N=8, M=5000).kernel, ROWS)


def test_running_sums_that_no_cache_holds_are_streamed() -> None:
    assert f"stream {MACHINE.held}\n" in str(scheduled(RUNNING).kernel)
    assert "stream\n" in str(scheduled(RUNNING, N=1 << 14, M=1 << 14).kernel)
    assert "stream" not in str(scheduled(RUNNING, N=1 << 8, M=1 << 8).kernel)


def test_a_row_that_takes_from_the_element_before_keeps_it() -> None:
    """As three rows deep as two: the last element of each row is in a register, and nothing reads the result."""
    deep = RECURS.replace("(N, M)", "(B, N, M)").replace("[N, M]", "[B, N, M]")
    head, tree = deep.split("\n\n")
    tree = tree.replace("{1}", "{2}").replace("{0}", "{0}, {1}")
    trace = scheduled(head + "\n\nB\n" + "".join(f"| {line}\n" for line in tree.splitlines()))
    assert dojoir.certify(trace)
    for kernel in (trace.kernel, scheduled(RECURS).kernel):
        assert any(b.storage == "reg" and b.name.startswith("y_kept") for b in kernel.buffers)
        assert not any(a.buffer == "y" for site in kernel.sites for a in site.statement.reads)


def test_under_strict_floats_sums_are_not_in_lanes() -> None:
    """And running sums, whose order nothing changes, go side by side."""
    strict = {text: text.replace("\nin ", "\nfp strict\nin ", 1) for text in (TIMES, RUNNING)}
    assert not is_abreast(scheduled(strict[TIMES]).kernel, ROWS)
    assert is_abreast(scheduled(strict[RUNNING]).kernel, CHAINS)


def test_a_part_that_is_one_element_or_all_of_a_row_is_staged() -> None:
    """One of the two reaches is the other or less whatever the sizes; `N - 1` and 1 are not."""
    kernel = dojoir.parse("""
kernel f(N)
in  x: f32[N]
out y: f32[N]

1
| y[0] = x[0]
| N - 1
| | y[{1} + 1] = y[{1}] + x[{1} + 1]
""")
    staged = dojoir.apply(kernel, "stage(0, y, t, out)")
    assert "tmp t: f32[N]" in str(staged)
    for n in (1, 2, 5):
        x = np.arange(n, dtype=np.float32)
        assert np.array_equal(dojoir.interpret(staged, {"x": x})["y"], np.cumsum(x))
    back = dojoir.parse_move("stage(0, y, t, out)").inverse(kernel)
    assert dojoir.to_text(dojoir.apply(staged, back)) == dojoir.to_text(kernel)
    assert dojoir.check(kernel, "stage(0, x, t, in)")
    either = dojoir.parse(
        "kernel g(N)\nin  x: f32[N + 1]\nout y: f32[1]\n\n1\n| y[0] = x[1]\n| N\n| | y[0] += x[{1}]\n"
    )
    assert dojoir.check(either, "stage(0, x, t, in)").code == "not-linear"


MVT = """kernel mvt(N)
in  a: f64[N, N]
in  y: f64[N]
in  z: f64[N]
inout s: f64[N]
inout t: f64[N]

N
| N
| | s[{0}] += a[{0}, {1}] * y[{1}]
N
| N
| | t[{0}] += a[{1}, {0}] * z[{1}]
"""


def test_a_matrix_that_is_wanted_both_ways_is_read_once() -> None:
    trace = scheduled(MVT)
    assert dojoir.to_text(trace.kernel).count("N : v\n| | 8 : u\n| | | s") == 1
    assert len(trace.kernel.body) == 2  # blocks of eight rows, and those that are left
    assert dojoir.certify(trace)


@pytest.mark.parametrize(
    "text",
    [
        DOWN.replace("a[{1}, {0}]", "b[{0}, {1}]").replace("a: f64[N, M]", "b: f64[M, N]"),  # along already
        DOWN.replace("y[{0}] +=", "y[0] +="),  # into one
        DOWN.replace("+=", "=").replace("inout y", "out y"),  # no sum
        DOWN.replace("* x[{1}]", "* b[{0}, {1}]").replace("in  x: f64[N]", "in  b: f64[M, N]"),  # both ways
    ],
)
def test_what_lies_otherwise_or_is_no_sum_is_not_turned(text: str) -> None:
    trace = Trace(dojoir.parse(text))
    sums_along_rows(trace)
    assert trace.moves == ()


def test_sums_over_rows_of_two_arrays_stay_one_by_one() -> None:
    text = TIMES.replace("out y", "in  b: f64[N, M]\nout y").replace("tmp s", "tmp t: f64[N]\ntmp s")
    text = text.replace("| s[{0}] = 1", "| s[{0}] = 1\n| t[{0}] = 1")
    text = text.replace("* x[{1}]", "* x[{1}]\n| | t[{0}] += b[{0}, {1}] * x[{1}]")
    text = text.replace("2 * s[{0}]", "t[{0}] * s[{0}]")
    assert "N // 8" not in str(scheduled(text).kernel)


SOLVE = """kernel solve(N)
in  l: f64[N, N]
in  b: f64[N]
out x: f64[N]

N
| x[{0}] = b[{0}]
| {0}
| | x[{0}] += -l[{0}, {1}] * x[{1}]
| x[{0}] = x[{0}] * l[{0}, {0}]
"""


def test_rows_of_a_triangle_go_together_as_far_as_the_first_does() -> None:
    trace = scheduled(SOLVE)
    assert "8*{0} : v\n| | 8 : u\n| | | x" in dojoir.to_text(trace.kernel)
    assert dojoir.certify(trace)
    sizes = [{"N": n} for n in (1, 7, 8, 9, 16, 29)]
    report = dojoir.verify(trace.kernel, against=trace.start, sizes=sizes, seeds=1, distributions=("normal",))
    assert report.ok, str(report)
