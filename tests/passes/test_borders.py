"""Borders cut off by `default_schedule`: what is between them has no clamps, and means what it did."""

from __future__ import annotations

import numpy as np
import pytest
from able import can_run
from folders import ROOT

import dojoir
from dojoir.ir.affine import Affine
from dojoir.ir.nodes import Site

PRACTICE = ROOT / "benchmarks" / "practice"
TEXTS = {"blur_edge": (1, 1), "filter5_reflect": (2, 2), "smooth_symmetric": (2, 2)}
"""Texts with a border, and how many elements are cut off at both ends of a row."""


def text(name: str) -> dojoir.Kernel:
    return dojoir.parse((PRACTICE / f"{name}.dojo").read_text(encoding="utf-8"))


def by_rule(kernel: dojoir.Kernel, machine: str = "avx512") -> dojoir.Trace:
    return dojoir.PASSES["default_schedule"].given(machine).on(kernel)


def clamped(site: Site) -> bool:
    """Whether an index along a row is clamped."""
    last = [access.indices[-1] for access in site.statement.accesses]
    return any(isinstance(index, Affine) and index.is_clamped for index in last)


@pytest.mark.parametrize("name", TEXTS)
def test_borders_are_cut_off_and_the_rest_is_certified(name: str) -> None:
    first, last = TEXTS[name]
    trace = by_rule(text(name))
    row = "N" if name == "smooth_symmetric" else "M"
    made = [str(move) for move in trace.moves]
    assert made[:2] == [f"cut(0.0, {row} - {last})", f"cut(0.0, {first})"]
    assert made[2].startswith("set_index(0.1")
    assert dojoir.certify(trace)
    parted = dojoir.Trace(text(name))
    for move in made[: 1 + max(n for n, move in enumerate(made) if move.startswith("set_index"))]:
        parted.apply(move)
    nests = [[site for site in parted.kernel.sites if site.path[:2] == (0, n)] for n in range(3)]
    assert [any(map(clamped, nest)) for nest in nests] == [True, False, True]


@pytest.mark.parametrize("name", TEXTS)
@pytest.mark.parametrize("size", [4, 5, 7, 40])
def test_it_is_right_at_sizes_that_are_all_border(name: str, size: int) -> None:
    kernel = text(name)
    random, sizes = np.random.default_rng(size), {s.name: size for s in kernel.sizes}
    given = {
        b.name: random.standard_normal([d.extent.evaluate(sizes) for d in b.dims]).astype(np.float32)
        for b in kernel.buffers
        if b.role == "in"
    }
    want = dojoir.interpret(kernel, given)["y"]
    for target in ("llvm", "c", "avx2", "avx512"):
        if can_run(target):
            made = dojoir.optimize(kernel, target).kernel
            assert np.allclose(dojoir.compile(made, target).run(given)["y"], want, atol=1e-5), target


def test_a_border_of_two_at_the_end_needs_a_fact() -> None:
    """Without, an array of one element would have an iteration before its first: the text stays as it is."""
    kernel = text("smooth_symmetric")
    open_sizes = dojoir.parse(dojoir.to_text(kernel).replace("where N >= 4", "where N >= 1"))
    with pytest.raises(dojoir.KernelError, match="add `where N >= 2`"):
        dojoir.prove(open_sizes)
    edges = dojoir.parse(
        "kernel f(N)\nin  x: f32[N]\nout y: f32[N]\n\n"
        "N\n| y[{0}] = x[clamp({0} - 2, 0, N - 1)] + x[clamp({0} + 2, 0, N - 1)]\n"
    )
    assert not any(move.name == "cut" for move in by_rule(edges).moves)
    with_a_fact = dojoir.parse(str(edges).replace("(N)", "(N)\nwhere N >= 2"))
    assert [str(move) for move in by_rule(with_a_fact).moves][:2] == ["cut(0, N - 2)", "cut(0, 2)"]


def test_short_rows_and_other_dimensions_stay_as_they_are() -> None:
    short = text("blur_edge").specialize(M=16)
    assert not any(move.name == "cut" for move in by_rule(short).moves)
    rows = dojoir.parse(
        "kernel f(N, M)\nin  x: f32[N, M]\nout y: f32[N, M]\n\nN\n| M\n| | y[{0}, {1}] = x[max({0} - 1, 0), {1}]\n"
    )
    assert not any(move.name == "cut" for move in by_rule(rows).moves)
    wide = text("blur_edge").specialize(M=700)
    assert [str(move) for move in by_rule(wide).moves][:2] == ["cut(0.0, 699)", "cut(0.0, 1)"]


STRIDED = """kernel strided(N)
in  x: f32[4*N]
in  h: f32[7]
out y: f32[N]

N @t
| y[{t}] = 0
| 7 @k
| | y[{t}] += h[{k}] * x[clamp(4*{t} + {k} - 5, 0, 4*N - 1)]
"""


def test_strided_windows_at_known_sizes_are_cut_at_blocks_without_a_fact() -> None:
    """Two results at the beginning are clamped; eight elements further, two at the end."""
    kernel = dojoir.parse(STRIDED)
    trace = by_rule(kernel)
    assert [str(move) for move in trace.moves if move.name == "cut"] == ["cut(0, 2)"]
    further = dojoir.parse(STRIDED.replace("- 5", "+ 3"))
    default = dojoir.PASSES["default_schedule"].given("avx512").for_sizes({"N": 4000})
    trace = default.on(further)
    assert "cut(0, 254*(N // 256))" in [str(move) for move in trace.moves]
    assert dojoir.certify(trace)
    sizes = [{"N": size} for size in (1, 2, 3, 255, 256, 258, 600)]
    for one in (kernel, further):
        report = dojoir.verify(default.on(one).kernel, one, sizes=sizes)
        assert report.ok, str(report)


GUARDED = """kernel guarded(N, M)
in  x: f32[N, M]
out y: f32[N, M]

N @i
| M @j
| | y[{i}, {j}] = 2 * x[{i}, {j}]
| | if {i} > 0
| | | y[{i}, {j}] += x[{i} - 1, {j}]
| | if {j} > 0
| | | y[{i}, {j}] += x[{i}, {j} - 1]
| | if {j} < M - 1
| | | y[{i}, {j}] += x[{i}, {j} + 1]
"""
CHANNELS_LAST = """kernel channels_last(H, W, C, O)
in  x: f32[H, W, C]
in  f: f32[3, 3, C, O]
out y: f32[H, W, O]

H @h
| W @w
| | O @o
| | | y[{h}, {w}, {o}] = 0
| | 3 @p
| | | 3 @q
| | | | if {h} + {p} >= 1 and {h} + {p} <= H and {w} + {q} >= 1 and {w} + {q} <= W
| | | | | C @c
| | | | | | O @k
| | | | | | | y[{h}, {w}, {k}] += x[{h} + {p} - 1, {w} + {q} - 1, {c}] * f[{p}, {q}, {c}, {k}]
"""


def test_conditions_at_the_ends_of_a_row_are_cut_off() -> None:
    kernel = dojoir.parse(GUARDED)
    trace = by_rule(kernel)
    assert [str(move) for move in trace.moves][:2] == ["cut(0.0, M - 1)", "cut(0.0, 1)"]
    middle = dojoir.to_text(trace.kernel).partition("M - 2")[2].partition("| | y[{0}, M - 1]")[0]
    assert "x[{0}, {1}]" in middle and "x[{0}, {1} + 2]" in middle and "if {1}" not in middle
    for size in (1, 2, 3, 40):
        report = dojoir.verify(trace.kernel, kernel, sizes=[{"N": 3, "M": size}])
        assert report.ok, str(report)


def test_the_columns_of_a_convolution_of_pixels_get_a_tile_between_the_ends_of_a_row() -> None:
    kernel = dojoir.parse(CHANNELS_LAST)
    trace = by_rule(kernel, "avx2")
    assert "y_tile: f32[1, 6, 16] reg" in dojoir.to_text(trace.kernel)
    for width in (1, 2, 17):
        report = dojoir.verify(trace.kernel, kernel, sizes=[{"H": 3, "W": width, "C": 2, "O": 17}])
        assert report.ok, str(report)
