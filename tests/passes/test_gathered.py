"""Sums that a window scatters, which are gathered for each place."""

from __future__ import annotations

import pytest

import dojoir

BACK = """kernel back(N, C)
in  x: f32[C, N]
in  f: f32[C, 3]
out y: f32[N]

N @z
| y[{z}] = 0
C @c
| N @i
| | 3 @p
| | | if {i} + {p} >= 1 and {i} + {p} <= N
| | | | y[{i} + {p} - 1] += x[{c}, {i}] * f[{c}, {p}]
"""

FULL = """kernel full(N, M)
in  x: f32[N, M]
in  f: f32[3, 2]
out y: f32[N + 2, M + 1]

N + 2 @z
| M + 1 @u
| | y[{z}, {u}] = 0
N @i
| M @j
| | 3 @p
| | | 2 @q
| | | | y[{i} + {p}, {j} - {q} + 1] += x[{i}, {j}] * f[{p}, {q}]
"""

UPSAMPLED = """kernel upsampled(N, C, O)
in  x: f32[C, N]
in  f: f32[C, O, 4]
out y: f32[O, 2*N]

O @o
| 2*N @z
| | y[{o}, {z}] = 1
4 @p
| C @c
| | O @k
| | | N @i
| | | | if 2*{i} + {p} >= 1 and 2*{i} + {p} <= 2*N
| | | | | y[{k}, 2*{i} + {p} - 1] += x[{c}, {i}] * f[{c}, {k}, {p}]
"""

APART = """kernel apart(N)
in  x: f64[N]
in  f: f64[4, 2]
out y: f64[2*N + 10]

2*N + 10 @z
| y[{z}] = 0
N @i
| 4 @p
| | 2 @q
| | | y[2*{i} + 3*{p} + {q} + 1] += x[{i}] * f[{p}, {q}]
"""

IN_THREE = """kernel in_three(D, H, W, C, O)
in  x: f32[C, D, H, W]
in  f: f32[C, O, 2, 3, 2]
out y: f32[O, 2*D, H + 2, 2*W]

O @o
| 2*D @z
| | H + 2 @u
| | | 2*W @v
| | | | y[{o}, {z}, {u}, {v}] = 0
C @c
| D @d
| | H @h
| | | W @w
| | | | O @k
| | | | | 2 @r
| | | | | | 3 @p
| | | | | | | 2 @q
| | | | | | | | y[{k}, 2*{d} + {r}, {h} + {p}, 2*{w} + {q}] += x[{c}, {d}, {h}, {w}] * f[{c}, {k}, {r}, {p}, {q}]
"""

MOST = """kernel most(N)
in  x: f32[N]
out y: f32[N + 4]

N + 4 @z
| y[{z}] = -inf
N @i
| 5 @p
| | y[{i} + {p}] max= x[{i}]
"""

SHIFTED = {BACK: 1, FULL: 2, UPSAMPLED: 2, APART: 2, IN_THREE: 4, MOST: 1}
"""How many scopes over results are shifted at least: one for each dimension and residue."""


@pytest.mark.parametrize("machine", ["avx2", "avx512"])
@pytest.mark.parametrize("text", SHIFTED, ids=lambda text: text.split("(")[0][7:])
def test_each_place_sums_up_what_comes_to_it(text: str, machine: str) -> None:
    kernel = dojoir.parse(text)
    trace = dojoir.PASSES["default_schedule"].given(machine).on(kernel)
    assert sum(str(move).startswith("shift(") for move in trace.moves) >= SHIFTED[text], str(trace.kernel)
    assert dojoir.certify(trace)
    assert machine != "avx2" or dojoir.verify(trace.kernel, against=kernel, seeds=2).ok


def test_a_gathered_sum_adds_in_registers_to_what_another_nest_gave() -> None:
    trace = dojoir.PASSES["default_schedule"].given("avx2").on(dojoir.parse(UPSAMPLED))
    assert "y_tile2" in {buffer.name for buffer in trace.kernel.buffers}, "a tile for each residue"


def test_a_scatter_on_a_gpu_is_a_grid_over_its_results() -> None:
    kernel = dojoir.parse(BACK).specialize(N=4096, C=16)
    trace = dojoir.PASSES["default_schedule"].given("cuda").on(kernel)
    assert any(str(move).startswith("shift(") for move in trace.moves), str(trace.kernel)
    assert dojoir.certify(trace)


@pytest.mark.parametrize(
    ("was", "now"),
    [
        ("+= x[{i}]", "+= y[0] + x[{i}]"),  # reads others
        ("2*{i} + 3*{p}", "2*{i} + 5*{p} - 2*{p}"),
        ("3*{p} + {q}", "3*{p} - {q} + 1"),
        ("| 2 @q", "| min(2, N - {i}) @q"),
    ],
)
def test_others_keep_what_they_mean(was: str, now: str) -> None:
    kernel = dojoir.parse(APART.replace(was, now))
    trace = dojoir.PASSES["default_schedule"].given("avx2").on(kernel)
    assert dojoir.certify(trace)
    assert dojoir.verify(trace.kernel, against=kernel, seeds=1).ok


def test_strict_sums_keep_their_order() -> None:
    kernel = dojoir.parse(BACK).with_fp("strict")
    trace = dojoir.PASSES["default_schedule"].given("avx2").on(kernel)
    assert dojoir.certify(trace)
    assert dojoir.verify(trace.kernel, against=kernel, seeds=1).ok


JOINED = """kernel joined()
in x: f32[4, 32, 16]
in w: f32[16, 64]
inout y: f32[128, 64]

4 @b
| 32 @i
| | 64 @j
| | | y[32*{b} + {i}, {j}] = 0
| | | 16 @k
| | | | y[32*{b} + {i}, {j}] += x[{b}, {i}, {k}] * w[{k}, {j}]
"""


@pytest.mark.parametrize("factor", [32, 40])
def test_rows_of_a_joined_dimension_are_none_that_are_scattered(factor: int) -> None:
    """A batch is as short as a window, but none of its rows adds to those of another."""
    kernel = dojoir.parse(JOINED.replace("32*{b}", f"{factor}*{{b}}").replace("y: f32[128", f"y: f32[{4 * factor}"))
    trace = dojoir.PASSES["default_schedule"].given("avx2").on(kernel)
    assert not any(str(move).startswith("shift(") for move in trace.moves)
    assert "y_tile" in {buffer.name for buffer in trace.kernel.buffers}


CHANNELS = """kernel channels()
in  x: f32[16, 18, 18]
in  f: f32[16, 16, 3, 3]
out y: f32[16, 36, 36]

16 @o
| 36 @i
| | 36 @j
| | | y[{o}, {i}, {j}] = 0
16 @c
| 18 @h
| | 18 @w
| | | 16 @k
| | | | 3 @p
| | | | | 3 @q
| | | | | | if 2*{h} + {p} >= 1 and 2*{h} + {p} <= 36 and 2*{w} + {q} >= 1 and 2*{w} + {q} <= 36
| | | | | | | y[{k}, 2*{h} + {p} - 1, 2*{w} + {q} - 1] += x[{c}, {h}, {w}] * f[{c}, {k}, {p}, {q}]
"""


def test_channels_as_few_as_a_window_go_around_rows() -> None:
    """The nest of each residue has a tile then. Inside of the columns they join the nests, and none has one."""
    trace = dojoir.PASSES["default_schedule"].given("avx2").on(dojoir.parse(CHANNELS))
    tiles = {buffer.name for buffer in trace.kernel.buffers if buffer.name.startswith("y_tile")}
    assert len(tiles) >= 4, str(trace.kernel)


@pytest.mark.parametrize(
    ("rows", "shifted"), [("N @i", "{i} + {p}"), ("N @k | {k} + 1 @i", "{i}")], ids=["diagonal", "triangle"]
)
def test_what_would_only_be_guarded_is_left(rows: str, shifted: str) -> None:
    scopes = "".join("| " * depth + line + "\n" for depth, line in enumerate(rows.split(" | ")))
    bars = "| " * (rows.count(" | ") + 1)
    kernel = dojoir.parse(
        "kernel left(N)\nin x: f32[N]\nin f: f32[3]\ninout y: f32[N + 2, N + 2]\n\n"
        f"{scopes}{bars}3 @p\n{bars}| y[{shifted}, {{i}} + {{p}}] += x[{{i}}] * f[{{p}}]\n"
    )
    trace = dojoir.PASSES["default_schedule"].given("avx2").on(kernel)
    assert not any(str(move).startswith("shift(") for move in trace.moves), str(trace.kernel)
