"""Running sums, convolutions and uneven rows on a GPU, by rule: of the form that is fast, right on the harness."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from agreement import agree
from gpu_rules import by_rules_alone
from on_harness import run
from references import inputs

import dojoir

CONVOLUTION = {"N": 2, "C": 4, "O": 16, "H": 6, "W": 10, "KH": 3, "KW": 3}


def planned(name: str, target: str, **sizes: int) -> dojoir.Trace:
    kernel = dojoir.kernels.load(name).specialize(**sizes)
    return dojoir.PASSES["default_schedule"].given(target).on(kernel)


def by_rule(name: str, target: str, **sizes: int) -> dojoir.Trace:
    return by_rules_alone(dojoir.kernels.load(name).specialize(**sizes), target)


def runs_right(name: str, trace: dojoir.Trace, rest: dict[str, int], target: str, order: Any) -> None:
    kernel = dojoir.kernels.load(name).specialize(
        **{size.name: size.value for size in trace.kernel.sizes if size.value is not None and size.name in NAMES}
    )
    given = inputs(kernel, rest)
    expected = dojoir.interpret(kernel, given, **rest)
    assert agree(kernel, expected, run(trace.kernel, given, rest, target, order), exact=False) is None


NAMES = {"N", "M", *CONVOLUTION}


@pytest.mark.parametrize(("target", "order"), [("cuda", "forward"), ("hip", "backward")])
@pytest.mark.parametrize("length", [512, 3072])
def test_a_running_sum_is_blocked(length: int, target: str, order: Any) -> None:
    trace = by_rule("cumsum", target, M=length)
    text = dojoir.to_text(trace.kernel)
    assert "x_row: f32[N~" in text
    assert any("blocked_scan" in str(move) for move in trace.moves)
    assert ": v" in text
    runs_right("cumsum", trace, {"N": 2}, target, order)


def test_a_running_sum_of_another_length_is_scheduled_too() -> None:
    trace = by_rule("cumsum", "cuda", M=130)
    assert any("blocked_scan" in str(move) for move in trace.moves)
    assert ": gx" in dojoir.to_text(trace.kernel)
    runs_right("cumsum", trace, {"N": 2}, "cuda", "forward")


@pytest.mark.parametrize(("target", "order"), [("cuda", "backward"), ("hip", "forward")])
def test_a_convolution_has_tiles(target: str, order: Any) -> None:
    trace = by_rule("conv2d", target, **CONVOLUTION)
    text = dojoir.to_text(trace.kernel)
    assert "x_tile: f32[1, 4, 6, 10] shared" in text
    assert "f_tile: f32[16, 4, 3, 3] shared order(1, 2, 3, 0) pad(4, 0, 0, 0)" in text
    assert "y_tile: f32[1, 2, 8, 4, 1, 8] reg" in text
    assert "fma(" in text
    code = dojoir.emit(trace.kernel, target).partition("__launch_bounds__")[2]
    assert code and "else {" not in code, "threads would run both versions of a guarded loop"
    runs_right("conv2d", trace, {}, target, order)


PADDED = {"N": 2, "C": 4, "O": 16, "H": 6, "W": 8, "KH": 3, "KW": 3}


@pytest.mark.parametrize(("target", "order"), [("cuda", "forward"), ("hip", "backward")])
def test_a_padded_convolution_has_tiles(target: str, order: Any) -> None:
    kernel = dojoir.kernels.load("conv2d", pad=1).specialize(**PADDED)
    trace = dojoir.PASSES["structure"].given("0", "rules", target).on(kernel)
    text = dojoir.to_text(trace.kernel)
    assert "x_tile: f32[1, 4, 4, 10] shared" in text
    assert "x_near: f32[1, 1, 1, 10] reg" in text
    given = inputs(kernel, {})
    given["f"][0, 0, 0, 0] = np.inf  # what is beside the image is skipped, not multiplied by zero
    expected = dojoir.interpret(kernel, given)
    assert agree(kernel, expected, run(trace.kernel, given, {}, target, order), exact=False) is None
    assert np.isfinite(expected["y"][0, 0, 0, 0])


def test_a_convolution_that_no_tile_divides() -> None:
    trace = by_rule("conv2d", "cuda", **CONVOLUTION | {"O": 6})
    assert "shared" not in dojoir.to_text(trace.kernel)
    assert ": gx" in dojoir.to_text(trace.kernel)


@pytest.mark.parametrize(
    ("name", "target", "row", "order"),
    [("softmax", "cuda", "9, 256", "backward"), ("layernorm", "hip", "33, 64", "forward")],
)
def test_uneven_rows_stay_in_registers(name: str, target: str, row: str, order: Any) -> None:
    trace = planned(name, target, M=2049)
    assert f"x_row: f32[N~, {row}] reg" in dojoir.to_text(trace.kernel)
    assert "< 2049" in dojoir.to_text(trace.kernel)
    runs_right(name, trace, {"N": 2}, target, order)


def test_long_uneven_rows_have_more_threads() -> None:
    assert "e: f32[N~, 50, 1024] reg" in str(planned("softmax", "cuda", M=50257).kernel)


@pytest.mark.parametrize(
    ("name", "sizes"),
    [("cumsum", {"M": 1024}), ("conv2d", CONVOLUTION), ("softmax", {"M": 2049})],
)
def test_the_moves_are_certified(name: str, sizes: dict[str, int]) -> None:
    assert dojoir.certify(by_rule(name, "cuda", **sizes))


# -- a tile that is shared by hand ---------------------------------------------------------------------------
TURNED = """kernel turned(N)
in  x: f32[{high}*N, {wide}]
out y: f32[N, {wide}, {high}]
N
| {wide} : bx
| | {high}
| | | y[{{0}}, {{1}}, {{2}}] = x[{high}*{{0}} + {{2}}, {{1}}]
"""


def shared_by(high: int, wide: int, threads: int) -> tuple[dojoir.Kernel, dojoir.Trace]:
    kernel = dojoir.parse(TURNED.format(high=high, wide=wide))
    trace = dojoir.parse_pipeline(f"share_tile(0.0, x, t, {threads})")[0].on(kernel)
    trace.apply("bind(0, gx)")
    return kernel, trace


@pytest.mark.parametrize(("high", "wide", "declared", "access"), [
    (16, 64, "t: f32[16, 64] shared", ": v"),
    (64, 16, "t: f32[64, 16] shared order(1, 0) pad(4, 0)", ": v"),
    (16, 31, "t: f32[16, 31] shared", "31 : bx"),
])  # fmt: skip
@pytest.mark.parametrize(("target", "order"), [("cuda", "backward"), ("hip", "forward")])
def test_threads_share_a_tile(high: int, wide: int, declared: str, access: str, target: str, order: Any) -> None:
    kernel, trace = shared_by(high, wide, wide)
    text = dojoir.to_text(trace.kernel)
    assert declared in text and access in text
    own_elements = wide == 31  # what a thread reads there is what it copied
    assert ("// barrier: t" in dojoir.emit(trace.kernel, target)) != own_elements
    given = inputs(kernel, {"N": 3})
    expected = dojoir.interpret(kernel, given, N=3)
    assert agree(kernel, expected, run(trace.kernel, given, {"N": 3}, target, order), exact=True) is None


def test_threads_that_do_not_share_a_tile_equally() -> None:
    with pytest.raises(dojoir.ArgumentError, match="48 threads do not share the 1024 elements of t equally"):
        shared_by(16, 64, 48)


@pytest.mark.parametrize(("result", "left", "right", "tile"), [
    ("32, 512, 512", "32, 512, 64", "32, 64, 512", "256, 128"),  # products of a batch
    ("512, 512", "512, 64", "64, 512", "64, 64"),  # steps, each of which waits for the one before
])  # fmt: skip
def test_the_tiles_of_a_batch_are_counted_together(result: str, left: str, right: str, tile: str) -> None:
    n = "{0}, " if result.startswith("32") else ""
    text = f"kernel k()\nin a: f32[{left}]\nin b: f32[{right}]\nout c: f32[{result}]\n32\n| 512\n| | 512\n"
    text += f"| | | c[{n}{{1}}, {{2}}] = 0\n| | | 64\n"
    text += f"| | | | c[{n}{{1}}, {{2}}] += a[{n}{{1}}, {{3}}] * b[{n}{{3}}, {{2}}]\n"
    moves = map(str, by_rules_alone(dojoir.parse(text), "cuda").moves)
    assert [move for move in moves if move.startswith("tile(")] == [f"tile(0.0, 0.0.0, {tile})"]
