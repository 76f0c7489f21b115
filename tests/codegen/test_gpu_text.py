"""CUDA and HIP: what the text of a kernel says, and that compilers for these take it."""

from __future__ import annotations

import re
import shutil
import subprocess
from importlib.util import find_spec
from pathlib import Path

import gpu_kernels
import pytest
from gpu_compile import WORDS
from gpu_kernels import ALL, MATMUL, REVERSE, SOFTMAX, STEPS

import dojoir


@pytest.mark.parametrize("name", ALL)
def test_the_kernels_are_well_formed(name: str) -> None:
    dojoir.prove(dojoir.parse(ALL[name]))


def barriers(text: str, target: str = "cuda") -> list[str]:
    """The buffers for which barriers stand in the text of a kernel, in order."""
    return re.findall(r"// barrier: (.*)", dojoir.emit(dojoir.parse(text), target))


def test_a_tiled_product_waits_twice_an_iteration() -> None:
    assert barriers(MATMUL) == ["sa, sb", "sa, sb"]


def test_a_barrier_at_the_end_of_a_loop_serves_what_is_behind_it() -> None:
    assert barriers(REVERSE) == ["t", "t"]


def test_no_barrier_where_each_thread_reads_what_it_wrote() -> None:
    own = REVERSE.replace("t[95 - {2}]", "t[{2}]")
    assert barriers(own) == []


def test_threads_of_one_warp_put_together_without_shared_memory() -> None:
    text = dojoir.emit(dojoir.parse(gpu_kernels.ROW_SUMS), "cuda")
    assert "__shared__" not in text
    assert text.count("__shfl_xor_sync") == 5


def test_a_row_of_a_block_meets_in_shared_memory_once() -> None:
    assert barriers(SOFTMAX) == ["m_max_parts", "s_sum_parts"]
    assert barriers(SOFTMAX, "hip") == ["m_max_parts", "s_sum_parts"]


def test_registers_hold_what_is_a_threads_own() -> None:
    text = dojoir.emit(dojoir.parse(MATMUL), "cuda")
    assert "float t[16];" in text
    assert "float sa[544];" in text


def test_host_code_runs_launches_in_order() -> None:
    text = dojoir.emit(dojoir.parse(STEPS), "cuda")
    host = text.partition("#if !defined")[2]
    assert len(re.findall(r"<<<", host)) == 5
    assert "for (i64 i0 = 0; i0 < T; i0 += 1)" in host
    assert "cudaMallocAsync" in host


def test_blocks_accumulate_by_atomics() -> None:
    text = dojoir.emit(dojoir.parse(gpu_kernels.COUNTS), "cuda")
    assert "atomicAdd(&n[0], n_sum)" in text
    assert "atomicMax(&m[0], m_max)" in text


@pytest.mark.skipif(find_spec("cuda") is None, reason="cuda-bindings is not installed")
@pytest.mark.parametrize("name", ALL)
@pytest.mark.parametrize("architecture", ["sm_80", "sm_90a"])
def test_nvrtc_takes_the_text(name: str, architecture: str) -> None:
    nvrtc = pytest.importorskip("cuda.bindings.nvrtc")
    text = dojoir.emit(dojoir.parse(ALL[name]), "cuda")
    try:
        _, program = nvrtc.nvrtcCreateProgram(text.encode(), b"kernel.cu", 0, [], [])
    except Exception as error:  # what the loader raises has no common name
        pytest.skip(f"NVRTC cannot be loaded: {error}")
    options = [b"--fmad=false", b"--std=c++17", f"--gpu-architecture={architecture}".encode()]
    (status,) = nvrtc.nvrtcCompileProgram(program, len(options), options)
    _, size = nvrtc.nvrtcGetProgramLogSize(program)
    log = b" " * size
    nvrtc.nvrtcGetProgramLog(program, log)
    assert int(status) == 0, log.decode()
    assert "error" not in log.decode()


CLANG = next((name for name in ("clang++-19", "clang++-18", "clang++-17", "clang++") if shutil.which(name)), None)


@pytest.mark.skipif(CLANG is None, reason="no clang++ here")
@pytest.mark.parametrize("name", ALL)
@pytest.mark.parametrize("architecture", ["gfx90a", "gfx942"])
def test_clang_takes_the_text_for_hip(name: str, architecture: str, tmp_path: Path) -> None:
    source = tmp_path / "kernel.hip"
    source.write_text(dojoir.emit(dojoir.parse(ALL[name]), "hip"), encoding="utf-8")
    options = ["-x", "hip", "--offload-device-only", "-nogpuinc", "-nogpulib", "-S", "-D__HIPCC_RTC__", "-Werror"]
    options += ["-include", str(WORDS)]
    command = [
        str(CLANG),
        *options,
        f"--offload-arch={architecture}",
        str(source),
        "-o",
        str(tmp_path / "kernel.s"),
    ]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize(
    ("compiler", "refused"),
    [
        ("-D__AMDGCN__ -D__AMDGCN_WAVEFRONT_SIZE=64", ""),
        ("-D__AMDGCN__ -D__AMDGCN_WAVEFRONT_SIZE=64 -D__GFX10__", ""),
        ("-D__AMDGCN__ -D__AMDGCN_WAVEFRONT_SIZE=32", "compile it with -mwavefrontsize64"),
        ("-D__AMDGCN__ -D__GFX11__", "this GPU has others"),
        ("-D__AMDGCN__ -D__GFX9__", ""),
        ("", ""),
    ],
)
def test_text_for_hip_is_refused_by_a_compiler_for_other_wavefronts(compiler: str, refused: str) -> None:
    text = dojoir.emit(dojoir.parse(SOFTMAX), "hip")
    cpp = shutil.which("cpp") or pytest.skip("no preprocessor here")
    command = [cpp, "-D__HIPCC_RTC__", *compiler.split(), "-"]
    done = subprocess.run(command, input=text, capture_output=True, text=True)
    assert refused in done.stderr
    assert done.returncode == (1 if refused else 0), done.stderr
    assert dojoir.machine_for("hip").warp == 64


@pytest.mark.skipif(shutil.which("clang-19") is None, reason="no clang 19 here")
@pytest.mark.parametrize(("options", "status"), [("gfx90a", 0), ("gfx1030", 1), ("gfx1030 -mwavefrontsize64", 0)])
def test_clang_says_how_many_lanes_its_wavefronts_have(options: str, status: int) -> None:
    text = dojoir.emit(dojoir.parse(SOFTMAX), "hip")
    architecture, *more = options.split()
    command = ["clang-19", "-x", "hip", "--offload-device-only", "-nogpuinc", "-nogpulib", "-S", "-D__HIPCC_RTC__"]
    command += [f"--offload-arch={architecture}", "-include", str(WORDS), *more, "-", "-o", "-"]
    done = subprocess.run(command, input=text, capture_output=True, text=True)
    assert done.returncode == status, done.stderr
    assert ("wavefronts of 64 lanes" in done.stderr) == bool(status)
