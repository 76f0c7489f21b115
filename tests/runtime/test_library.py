"""A library out of kernels: built, called from C, and refused where it cannot be."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import dojoir
from dojoir.runtime.build import c_toolchain

try:
    TOOLCHAIN = c_toolchain.find()
except dojoir.ToolchainError:
    pytest.skip("no C compiler", allow_module_level=True)

MIXED = """\
kernel mixed(N, M)
where M >= 2
in  a: bf16[N, M] order(1, 0) pad(3, 0)
in  scale: f32
in  half: f16
in  keep: bool[M]
in  w: u64[M]
out y: f16[N, M] pad(0, 2) align 128
out z: f8e4m3[N]
inout n: i32[N, M]
out k: u64[M]

N
| z[{0}] = scale
| M
| | y[{0}, {1}] = select(keep[{1}], a[{0}, {1}] * scale, half)
| | n[{0}, {1}] += 3
M
| k[{0}] = w[{0}]
"""


def traces(*names: str) -> list[dojoir.Trace]:
    made = [dojoir.Trace(dojoir.kernels.load(name)) for name in names]
    for trace in made:
        dojoir.PASSES["default_schedule"](trace)
    return made


def run_demo(folder: Path, name: str, tmp_path: Path) -> subprocess.CompletedProcess[str]:
    program = tmp_path / "program"
    compiler = [*TOOLCHAIN.command, "-std=c11", "-Wall", "-Wextra", "-Werror"]
    subprocess.run(
        [*compiler, "-o", str(program), str(folder / "demo.c"), f"-L{folder}", f"-l{name}", "-lm"], check=True
    )
    return subprocess.run(
        [str(program)], env={**os.environ, "LD_LIBRARY_PATH": str(folder)}, capture_output=True, text=True
    )


def test_a_library_is_built_and_called_from_c(tmp_path: Path) -> None:
    folder = tmp_path / "out"
    kernels = [*traces("softmax", "matmul_int8", "saxpy", "embedding"), dojoir.Trace(dojoir.parse(MIXED))]
    library = dojoir.write_library(kernels, folder, check=False, sizes={"saxpy": {"N": 64}})
    done = run_demo(folder, "kernels", tmp_path)
    assert done.stdout.splitlines() == [
        "softmax: ok", "matmul_int8: ok", "saxpy: ok", "embedding: ok", "mixed: ok",
    ]  # fmt: skip
    assert done.returncode == 0
    assert set(library.files) == {path.name for path in folder.iterdir()}
    manifest = json.loads((folder / "manifest.json").read_text())
    assert set(manifest["files"]) == set(library.files) - {"manifest.json"}
    for entry, trace in zip(manifest["kernels"], kernels, strict=True):
        assert dojoir.Trace.from_json(entry["trace"]).kernel == trace.kernel
        assert entry["hash"] == trace.kernel.hash
    assert manifest["kernels"][2]["measured"]["sizes"] == {"N": 64}
    assert manifest["kernels"][2]["measured"]["seconds"] > 0


def test_the_demo_notices_a_wrong_result(tmp_path: Path) -> None:
    folder = tmp_path / "out"
    (trace,) = traces("relu")
    dojoir.write_library([trace], folder, check=False)
    source = (folder / "relu.c").read_text()
    shutil.copy(folder / "kernels.h", tmp_path / "kernels.h")
    (tmp_path / "relu.c").write_text(source.replace("return 0;", "y[0] += 1; return 0;"))
    c_toolchain.link_shared([tmp_path / "relu.c"], folder / "libkernels.so", toolchain=TOOLCHAIN)
    done = run_demo(folder, "kernels", tmp_path)
    assert (done.returncode, done.stdout) == (1, "relu: WRONG\n")


def test_a_library_replaces_one_and_nothing_else(tmp_path: Path) -> None:
    folder = tmp_path / "out"
    dojoir.write_library(traces("relu"), folder, check=False)
    dojoir.write_library(traces("add"), folder, check=False)
    assert (folder / "add.c").exists() and not (folder / "relu.c").exists()
    assert [path.name for path in tmp_path.iterdir()] == ["out"]
    mine = tmp_path / "mine"
    mine.mkdir()
    (mine / "thesis.txt").write_text("years of work")
    with pytest.raises(dojoir.ArgumentError, match="something else than a library"):
        dojoir.write_library(traces("add"), mine, check=False)
    assert [path.name for path in mine.iterdir()] == ["thesis.txt"]


def test_what_cannot_be_a_library(tmp_path: Path) -> None:
    (relu,) = traces("relu")
    for kernels, folder, name, code in (
        ([], tmp_path / "a", "kernels", "empty-library"),
        ([relu], tmp_path / "a", "my-lib", "bad-name"),
        ([relu, relu], tmp_path / "a", "kernels", "name-taken"),
        ([relu], tmp_path / "no" / "where", "kernels", "cannot-write"),
    ):
        with pytest.raises(dojoir.ArgumentError) as caught:
            dojoir.write_library(kernels, folder, name=name, check=False)
        assert caught.value.diagnostic.code == code
    (tmp_path / "file").write_text("")
    with pytest.raises(dojoir.ArgumentError, match="it is a file"):
        dojoir.write_library([relu], tmp_path / "file", check=False)
    assert [path.name for path in tmp_path.iterdir()] == ["file"]


STUB = """#pragma once
// Memory of the host in place of a GPU's.
#include <stdlib.h>
#include <string.h>
typedef void *{0}Stream_t;
enum {{ {0}Success, {0}MemcpyHostToDevice, {0}MemcpyDeviceToHost }};
inline int {0}Malloc(void **at, size_t bytes) {{ return (*at = malloc(bytes)) == 0; }}
inline int {0}Free(void *at) {{ free(at); return 0; }}
inline int {0}Memcpy(void *to, const void *from, size_t bytes, int) {{ memcpy(to, from, bytes); return 0; }}
"""


@pytest.mark.skipif(shutil.which("g++") is None, reason="no g++")
@pytest.mark.parametrize(("target", "end"), [("cuda", "cu"), ("hip", "hip")])
def test_a_library_for_a_gpu(target: str, end: str, tmp_path: Path) -> None:
    made = [dojoir.optimize(dojoir.kernels.load(name), target) for name in ("relu", "embedding")]
    library = dojoir.write_library(made, tmp_path / "out", target=target, check=False)
    assert library.files == (f"demo.{end}", f"embedding.{end}", "kernels.h", "manifest.json", f"relu.{end}")
    manifest = json.loads((library.folder / "manifest.json").read_text())
    assert [kernel["symbol"] for kernel in manifest["kernels"]] == ["run_relu", "run_embedding"]
    assert "-shared " in manifest["compiler"]
    demo = (library.folder / f"demo.{end}").read_text()
    assert f"-o demo demo.{end} relu.{end} embedding.{end}" in demo.partition("#include")[0]
    for name in ("relu", "embedding"):
        source = (library.folder / f"{name}.{end}").read_text()
        assert source.index('#include "kernels.h"') > source.index("#if !defined(__CUDACC_RTC__)")
    # The demo and the header with memory of the host, the kernels those of the library in C.
    include = tmp_path / "include" / ("hip" if target == "hip" else "")
    include.mkdir(parents=True)
    (include / f"{target}_runtime.h").write_text(STUB.format(target))
    (tmp_path / "demo.cpp").write_text(demo)
    (tmp_path / "runs.cpp").write_text(
        '#include "kernels.h"\n'
        'extern "C" int relu(const float *, float *, long long);\n'
        'extern "C" int embedding(const long long *, const float *, float *, long long, long long, long long);\n'
        f"int run_relu(const float *x, float *y, long long N, {target}Stream_t) {{ return relu(x, y, N); }}\n"
        f"int run_embedding(const long long *i, const float *w, float *y, long long N, long long V, long long D, "
        f"int *s, {target}Stream_t) {{ return *s = embedding(i, w, y, N, V, D); }}\n"
    )
    dojoir.write_library([dojoir.Trace(t.start) for t in made], tmp_path / "c", check=False)
    (tmp_path / "c" / "kernels.h").rename(tmp_path / "c" / "other.h")
    command = ["g++", "-std=c++17", "-I", library.folder, "-I", tmp_path / "include", "-o", tmp_path / "demo",
               tmp_path / "demo.cpp", tmp_path / "runs.cpp", tmp_path / "c" / "libkernels.so",
               f"-Wl,-rpath,{tmp_path / 'c'}"]  # fmt: skip
    subprocess.run(command, check=True)
    done = subprocess.run([tmp_path / "demo"], capture_output=True, text=True, check=True)
    assert done.stdout == "relu: ok\nembedding: ok\n"


def test_the_command_line_writes_a_library(tmp_path: Path) -> None:
    text = "# -----\n".join(dojoir.to_text(dojoir.kernels.load(name)) for name in ("relu", "dot"))
    command = [sys.executable, "-m", "dojoir.cli", "-", "--split-input-file", "-p", "default_schedule"]
    command += ["--emit", "lib"]
    done = subprocess.run([*command, "-o", "nn"], input=text, text=True, capture_output=True, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert "libnn.so" in done.stdout and (tmp_path / "nn" / "dot.c").exists()
    assert run_demo(tmp_path / "nn", "nn", tmp_path).stdout == "relu: ok\ndot: ok\n"
    done = subprocess.run(command, input=text, text=True, capture_output=True, cwd=tmp_path)
    assert done.returncode == 2 and "name it with -o" in done.stderr


@pytest.mark.skipif(shutil.which("cmake") is None, reason="no cmake")
def test_cmake_builds_and_tests_the_library(tmp_path: Path) -> None:
    folder, build = tmp_path / "out", tmp_path / "build"
    dojoir.write_library(traces("softmax"), folder, check=False)
    subprocess.run(["cmake", "-S", folder, "-B", build], check=True, capture_output=True)
    subprocess.run(["cmake", "--build", build], check=True, capture_output=True)
    subprocess.run(["ctest", "--output-on-failure"], check=True, capture_output=True, cwd=build)


@pytest.mark.skipif(shutil.which("pkg-config") is None, reason="no pkg-config")
def test_pkg_config_finds_the_library(tmp_path: Path) -> None:
    folder = tmp_path / "out"
    dojoir.write_library(traces("relu"), folder, check=False)
    asked = subprocess.run(
        ["pkg-config", "--cflags", "--libs", "kernels"],
        env={**os.environ, "PKG_CONFIG_PATH": str(folder)},
        capture_output=True,
        text=True,
        check=True,
    )
    assert f"-I{folder}" in asked.stdout and "-lkernels" in asked.stdout
