"""Sums at indices from data into narrow floats: carried in f32, rounded once, and nothing else touched."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import on_harness
import pytest
from able import can_run
from emulated import Trial, build, machine, run

import dojoir
from dojoir.ir.dtypes import DTYPES

HOST = ("llvm", "c", "avx2", "avx512")
ONE = {"bf16": 0x3F80, "f16": 0x3C00, "f8e5m2": 0x3C}

HEAD = "kernel k(N, D, S)\nin at: i32[N]\nin x: T[N, D]\ninout y: T[S, D]\n\n"
FLAT = HEAD + "N\n| D\n| | y[at[{0}], {1}] += x[{0}, {1}]\n"
ROWS = HEAD.replace("T[S, D]", "T[D, S]") + "D : p\n| N\n| | y[{0}, at[{1}]] += x[{1}, {0}]\n"
TEXTS = {
    "flat": FLAT,
    "chosen": HEAD + "N\n| D : p\n| | y[at[{0}], {1}] += x[{0}, {1}] if x[{0}, {1}] > 0\n",
    "rows": ROWS,
    "lanes": FLAT.replace("| D", "| D : v"),
    "both": FLAT + "| | y[at[{0}], 0] += x[{0}, {1}]\n",
}


def chosen(name: str) -> tuple[slice | int, ...]:
    """The elements that something is added to."""
    return (slice(None), 2) if name == "rows" else (2,)


def given(name: str, dtype: str, n: int = 4096) -> dict[str, np.ndarray]:
    """4,096 ones for each column of an element; nothing for the others, whose bits are a signalling NaN's."""
    stored = np.dtype(DTYPES[dtype].stored)
    bits = np.uint8 if stored.itemsize == 1 else np.uint16
    shape, quiet = (3, 5) if name == "rows" else (5, 3), {"bf16": 0x7F81, "f16": 0x7C01, "f8e5m2": 0x7D}[dtype]
    y = np.full(shape, quiet, bits)
    y[chosen(name)] = 0
    return {
        "at": np.full(n, 2, np.int32),
        "x": np.full((n, 3), ONE[dtype], bits).view(stored),
        "y": y.view(stored),
    }


@pytest.mark.parametrize("dtype", ONE)
@pytest.mark.parametrize("name", TEXTS)
def test_they_are_rounded_once(name: str, dtype: str) -> None:
    kernel = dojoir.parse(TEXTS[name].replace("T[", f"{dtype}["))
    data = given(name, dtype)
    expected = dojoir.interpret(kernel, data)["y"]
    for target in filter(can_run, HOST):
        got = dojoir.compile(kernel, target).run(data)["y"]
        here, want, was = (np.array(array).view(f"u{got.itemsize}") for array in (got, expected, data["y"]))
        assert np.array_equal(here[chosen(name)], want[chosen(name)]), (target, here)
        was[chosen(name)] = here[chosen(name)]
        assert np.array_equal(here, was), target
    assert dojoir.verify(kernel).ok


@pytest.mark.parametrize(("target", "vlen"), [("neon", 128), ("sve", 256), ("rvv", 256)])
def test_emulated_targets(target: str, vlen: int, tmp_path: Path) -> None:
    try:
        machine(target)
    except dojoir.ToolchainError as error:
        pytest.skip(str(error))
    names = ("flat", "chosen", "rows")
    kernels = [dojoir.parse(TEXTS[name].replace("T[", "bf16[")) for name in names]
    program = build(target, kernels, tmp_path)
    trials = []
    for number, name in enumerate(names):
        data = given(name, "bf16", 600)
        data["y"] = np.zeros_like(data["y"])
        expected = dojoir.interpret(kernels[number], data)
        trials.append((number, Trial(kernels[number], data, {"N": 600, "D": 3, "S": 5}, expected)))
    for (_, trial), found in zip(trials, run(target, program, trials, vlen), strict=True):
        assert np.array_equal(found["y"], trial.expected["y"]), trial.kernel


@pytest.mark.parametrize("target", ["cuda", "hip"])
def test_gpu_text_on_the_harness(target: str) -> None:
    kernel = dojoir.parse(FLAT.replace("T[", "f16["))
    data = given("flat", "f16", 2100)
    got = on_harness.run(kernel, data, {"N": 2100, "D": 3, "S": 5}, target)
    assert np.array_equal(got["y"].view(np.uint16), dojoir.interpret(kernel, data)["y"].view(np.uint16))


@pytest.mark.parametrize(
    "text",
    [
        FLAT.replace("T[", "f32["),
        FLAT.replace("T[", "bf16[").replace("\nin at", "\nfp strict\nin at"),
        FLAT.replace("T[", "bf16[").replace("at: i32[N]", "at: i32[N] distinct"),
        FLAT.replace("T[", "bf16[").replace("+= x[{0}, {1}]", "max= x[{0}, {1}]"),
        FLAT.replace("T[", "bf16[").replace("+= x[{0}, {1}]", "+= y[0, {1}]"),
    ],
)  # fmt: skip
def test_what_needs_none(text: str) -> None:
    """What is as wide, rounded at each step by its meaning, added to once, not rounded, or read in between."""
    kernel = dojoir.parse(text)
    assert "y_sum" not in dojoir.emit(kernel, "c")


@pytest.mark.parametrize("value", ["x[0, {0}]", "x[0, {0}] if x[0, {0}] > 0"])
def test_a_compiler_is_not_told_that_lanes_are_independent_where_they_share_an_element(value: str) -> None:
    head = "kernel k(N)\nin at: i32[1]\nin x: f32[1, N]\ninout y: f32[4]\n\n"
    shared = dojoir.parse(head + f"N : v\n| y[at[0]] += {value}\n")
    assert "omp simd" not in str(dojoir.emit(shared, "c"))
    kept = dojoir.parse(head + "N : v\n| y[2] += x[0, {0}]\n")
    assert "omp simd reduction(+ : y_sum)" in str(dojoir.emit(kept, "c"))
    x, y = np.arange(64, dtype=np.float32)[None], np.ones(4, np.float32)
    for target in filter(can_run, HOST):
        found = dojoir.compile(shared, target).run({"at": np.array([2], np.int32), "x": x, "y": y.copy()})["y"]
        assert found.tolist() == [1, 1, 1 + x.sum(), 1]
