"""Kernels of the library as GPUs run them, compiled by NVRTC and clang: a sample, `gpu_compile` has all of them."""

from __future__ import annotations

import sys
from pathlib import Path
from random import Random

import pytest
from gpu_compile import ARCHITECTURES, CLANG, Case, cases, clang_error, nvrtc_error
from gpu_kernels import FUNCTIONS

import dojoir
from dojoir.runtime.gpu.nvrtc import cubin

sys.path.append(str(Path(__file__).resolve().parents[2] / "benchmarks"))

from gpu_right import cases as cases_of_all
from gpu_right import run_case

SAMPLE = ("softmax", "transpose", "reduce_mean_0", "cumsum", "embedding", "nvfp4_quantize", "silu_mul_fp4quant")


@pytest.mark.parametrize("architecture", ARCHITECTURES)
@pytest.mark.parametrize("name", SAMPLE)
def test_a_compiler_takes_what_optimize_gives(name: str, architecture: str) -> None:
    try:
        assert Case(name, (), architecture).error() == ""
    except dojoir.ToolchainError as error:
        pytest.skip(f"there is no compiler: {error}")


@pytest.mark.parametrize("architecture", ARCHITECTURES)
def test_a_compiler_takes_the_functions_of_the_hardware(architecture: str) -> None:
    target = ARCHITECTURES[architecture]
    text = dojoir.emit(dojoir.parse(FUNCTIONS), target)
    try:
        error = clang_error(text, architecture) if target == "hip" else nvrtc_error(text, architecture)
        assert error == ""
    except dojoir.ToolchainError as reason:
        pytest.skip(f"there is no compiler: {reason}")


@pytest.mark.skipif(CLANG is None, reason="no clang++ here")
def test_an_error_of_clang_is_seen() -> None:
    wrong = dojoir.emit(dojoir.kernels.load("relu"), "hip").replace("float", "flaot", 1)
    assert "flaot" in clang_error(wrong, "gfx90a")


def test_every_kernel_is_compiled_for_every_architecture() -> None:
    every = {*cases([*ARCHITECTURES])}
    assert {(case.name, case.architecture) for case in every} == {
        (name, architecture) for name in dojoir.kernels.names() for architecture in ARCHITECTURES
    }
    assert sum(bool(case.fixed) for case in every) >= 3 * len(ARCHITECTURES)


def sample() -> list[str]:
    """Cases of `benchmarks/gpu_right.py`, a few of each kind: with `--compile` it asks NVRTC about all of them."""
    random = Random(29)
    every = [*cases_of_all()]
    kinds = {"library": 6, "practice": 12, "type": 14, "random": 14, "atdata": 8, "scattered": 8}
    return [
        case for kind, n in kinds.items() for case in random.sample([c for c in every if c.startswith(kind)], n)
    ]


@pytest.mark.parametrize("case", sample())
def test_nvrtc_takes_a_sample_of_all_texts(case: str) -> None:
    try:
        cubin('extern "C" __global__ void k() {}', "sm_90")
    except dojoir.ToolchainError as error:
        pytest.skip(f"NVRTC is not here: {error}")
    wrong = [words for words in run_case(case, "compile")["wrong"] if "refused: " not in words]
    assert wrong == []


LOADED_BEFORE = """kernel k(N)
in  x: u8[N, 64]
out y: i32[N, 60]
tmp s: u8[64] shared

N : gx
| 64 : bx
| | s[{1}] = x[{0}, {1}]
| 64 : bx
| | if {1} < 60
| | | y[{0}, {1}] = i32(s[63 - {1}])
"""


@pytest.mark.parametrize("dtype", ["u8", "i8", "u16", "i16", "i32", "f32", "i64", "f64"])
def test_what_is_loaded_before_a_condition_compiles(dtype: str) -> None:
    text = LOADED_BEFORE.replace("u8", dtype)
    text = text if dtype.startswith(("u", "i")) and dtype != "i64" else text.replace("i32", dtype)
    for target, architecture in (("cuda", "sm_90"), ("hip", "gfx90a")):
        code = dojoir.emit(dojoir.parse(text), target)
        assert f"= loaded_{dtype}(" in code
        try:
            error = clang_error(code, architecture) if target == "hip" else nvrtc_error(code, architecture)
        except dojoir.ToolchainError as reason:
            pytest.skip(f"there is no compiler: {reason}")
        assert not error, error
