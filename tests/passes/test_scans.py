"""Running sums of one row on all cores: the rule of `default_schedule` that makes them sums of blocks."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest

import dojoir

TEXT = """kernel running(N)
in  x: f32[N]
out y: f32[N]
tmp s: f32

s = 0
N @i
| s += x[{i}]
| y[{i}] = s
"""


def scheduled(text: str, cores: int = 2, **sizes: int) -> dojoir.Trace:
    machine = dataclasses.replace(dojoir.machine_for("avx2"), cores=cores)
    given = dojoir.PASSES["default_schedule"].for_sizes(sizes).for_machine(machine)
    return given.on(dojoir.parse(text))


def test_blocks_of_a_row_are_shared_out() -> None:
    trace = scheduled(TEXT)
    written = str(trace.kernel)
    assert written.count("\n(N + 4095) // 4096 : p") == 2, "the sums of blocks, and the running sums in them"
    assert "tmp within: f32 reg" in written
    assert dojoir.certify(trace)


@pytest.mark.parametrize("threads", [1, 2])
def test_the_sums_are_right(threads: int) -> None:
    run = dojoir.compile(scheduled(TEXT).kernel, threads=threads)
    for size in (1, 2, 4095, 4096, 4097, 20000):
        x = np.random.default_rng(size).integers(-3, 4, size).astype(np.float32)
        assert np.array_equal(run.run({"x": x})["y"], np.cumsum(x)), size


def test_rounding_stays_small() -> None:
    x = np.full(1 << 21, 0.1, np.float32)
    exact = np.cumsum(x.astype(np.float64))
    found = dojoir.compile(scheduled(TEXT).kernel).run({"x": x})["y"]
    assert np.abs(found - exact).max() < 1e-5 * exact[-1]


@pytest.mark.parametrize(
    ("text", "cores", "sizes"),
    [
        (TEXT, 1, {}),  # nobody to share it with
        (TEXT, 2, {"N": 1000}),  # too little
        (TEXT.replace("kernel running(N)", "kernel running(N)\nfp strict"), 2, {}),  # in this order
        (TEXT.replace("y[{i}] = s", "y[{i}] = 2 * s"), 2, {}),
        (TEXT.replace("s += x[{i}]", "s max= x[{i}]"), 2, {}),
    ],
)
def test_what_stays_in_one_piece(text: str, cores: int, sizes: dict[str, int]) -> None:
    assert not any(move.name == "use_rule" for move in scheduled(text, cores, **sizes).moves)
