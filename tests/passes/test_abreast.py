"""Rows side by side: sums whose other factor all rows share, and running sums."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

import dojoir
from dojoir.backends.machine import MACHINES
from dojoir.ir.nodes import Kernel
from dojoir.passes.engine.trace import Trace
from dojoir.passes.schedule.abreast import CHAINS, SUMS
from dojoir.passes.schedule.default_schedule import default_schedule

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

MACHINE = replace(MACHINES["avx2"], cores=1)


def scheduled(text: str, **sizes: int) -> dojoir.Trace:
    trace = Trace(dojoir.parse(text))
    default_schedule(trace, MACHINE, sizes=sizes)
    return trace


def is_abreast(kernel: Kernel, count: int) -> bool:
    """Whether so many rows go side by side, innermost."""
    return f"{count} : u" in str(kernel) and f"N // {count}" in str(kernel)


@pytest.mark.parametrize(
    ("text", "count"),
    [(TIMES, SUMS), (RUNNING, CHAINS), (RECURS, CHAINS)],
    ids=["times", "running", "recurs"],
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
            given = {"a": (n, m), "x": (m,)} if text == TIMES else {"x": (n, m)}
            inputs = {name: random.integers(-9, 9, shape).astype(np.float64) for name, shape in given.items()}
            expected = dojoir.interpret(trace.start, inputs)["y"]
            assert np.array_equal(run.run(inputs)["y"], expected), (n, m)


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
    assert not is_abreast(kernel, SUMS) and not is_abreast(kernel, CHAINS)


def test_a_few_rows_are_left_to_the_cores() -> None:
    assert not is_abreast(scheduled(TIMES, N=7, M=5000).kernel, SUMS)
    assert is_abreast(scheduled(TIMES, N=8, M=5000).kernel, SUMS)


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
    assert not is_abreast(scheduled(strict[TIMES]).kernel, SUMS)
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
    assert str(dojoir.apply(staged, back)) == str(kernel)
    assert dojoir.check(kernel, "stage(0, x, t, in)")
    either = dojoir.parse(
        "kernel g(N)\nin  x: f32[N + 1]\nout y: f32[1]\n\n1\n| y[0] = x[1]\n| N\n| | y[0] += x[{1}]\n"
    )
    assert dojoir.check(either, "stage(0, x, t, in)").code == "not-linear"
