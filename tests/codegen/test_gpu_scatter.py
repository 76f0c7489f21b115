"""What threads and blocks of a GPU accumulate at indices from data, and under conditions on data."""

from __future__ import annotations

from random import Random

import numpy as np
import pytest
from agreement import agree
from on_harness import run
from scattered import NARROW, TYPES, arguments, scattered_text

import dojoir
from dojoir.codegen.emission import gpu_program
from dojoir.passes.schedule.gpu.rows import scatters as gpu_scatters

WIDE = tuple(name for name in TYPES if name not in NARROW)


@pytest.mark.parametrize("seed", range(60))
@pytest.mark.parametrize("target", ["cuda", "hip"])
def test_accumulations_of_threads_are_what_the_text_says(seed: int, target: str) -> None:
    random = Random(seed)
    text = scattered_text(random, WIDE)
    kernel = dojoir.parse(text)
    dojoir.prove(kernel)
    given = arguments(kernel, {}, random)
    expected = dojoir.interpret(kernel, given)
    found = run(kernel, given, {}, target, program=gpu_program(kernel, target))
    assert agree(kernel, expected, found, exact=False) is None, text


TWO = """kernel two()
in x: f32[64]
inout y: f32[2]

64 : bx
| y[1] += 2 * x[{0}]
| y[0] += x[{0}]
"""


def test_two_elements_of_one_array_are_two_sums() -> None:
    kernel = dojoir.parse(TWO)
    given = {"x": np.arange(64, dtype="f4"), "y": np.array([1, 2], "f4")}
    found = run(kernel, given, {}, "cuda", program=gpu_program(kernel, "cuda"))
    np.testing.assert_array_equal(found["y"], [1 + 2016, 2 + 4032])


def test_what_no_condition_lets_in_is_not_written() -> None:
    text = TWO.replace("2 * x[{0}]\n", "2 * x[{0}] if x[{0}] == 7\n").replace(
        "+= x[{0}]\n", "+= x[{0}] if x[{0}] > 100\n"
    )
    source = gpu_program(dojoir.parse(text), "cuda").source
    assert source.count("if ((int)threadIdx.x == 0 && ") == 2
    kernel = dojoir.parse(text)
    given = {"x": np.arange(64, dtype="f4"), "y": np.array([-0.0, 1], "f4")}
    found = run(kernel, given, {}, "cuda", program=gpu_program(kernel, "cuda"))
    np.testing.assert_array_equal(found["y"], [-0.0, 15])
    assert np.signbit(found["y"][0])


# -- what the planner makes of such ------------------------------------------------------------------------
COUNTS = """kernel counts(N = 3000)
in  x: u8[N]
out h: i64[256]

256
| h[{0}] = 0
N
| h[x[{0}]] += 1 if x[{0}] > 3
"""

ROWS = """kernel rows(N, M = 1024)
in  ok: bool[N, M]
in  x: f32[N, M]
out y: f32[N]
tmp s: f32
tmp n: f32

N
| s = 0
| n = 0
| M
| | s += x[{0}, {1}] if ok[{0}, {1}]
| | n += 1 if ok[{0}, {1}]
| y[{0}] = s / max(n, 1)
"""


@pytest.mark.parametrize("structure", ["adds_at_data", "copies_in_blocks"])
def test_structures_for_accumulations_at_data(structure: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gpu_scatters, "BLOCKS", 3)
    trace = dojoir.PASSES["structure"].given("1", structure).on(dojoir.parse(COUNTS))
    assert ("shared" in dojoir.to_text(trace.kernel)) is (structure == "copies_in_blocks")
    given = {"x": np.random.default_rng(2).integers(0, 256, 3000).astype("u1")}
    for target in ("cuda", "hip"):
        found = run(trace.kernel, given, {}, target, program=gpu_program(trace.kernel, target))
        counted = np.bincount(given["x"], minlength=256)
        np.testing.assert_array_equal(found["h"], np.where(np.arange(256) > 3, counted, 0))


def test_rows_with_scalars_and_conditions_are_on_blocks() -> None:
    trace = dojoir.optimize(dojoir.parse(ROWS), "cuda")
    text = dojoir.to_text(trace.kernel)
    assert " : gx" in text
    assert "tmp s: f32 reg" in text
    source = gpu_program(trace.kernel, "cuda").source
    assert "float4 x4" in source
    random = np.random.default_rng(3)
    given = {"ok": random.integers(0, 2, (3, 1024)).astype(bool), "x": random.random((3, 1024), "f4")}
    expected = dojoir.interpret(dojoir.parse(ROWS), given, N=3)
    found = run(trace.kernel, given, {"N": 3}, "cuda", program=gpu_program(trace.kernel, "cuda"))
    np.testing.assert_allclose(found["y"], expected["y"], rtol=1e-5)
