"""The C with intrinsics of a few kernels, as a person reads it. After a change that is meant, write them anew and
read them: `DOJOIR_UPDATE_GOLDENS=1 pytest tests/codegen/test_simd_goldens.py`."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest
from c_machine import WARNINGS
from folders import TESTS
from test_c_goldens import TEXTS

import dojoir
from dojoir import Kernel, kernels
from dojoir.codegen.simd.isas import ISAS
from dojoir.runtime.build import emulation, host_targets
from dojoir.runtime.build.c_toolchain import find

GOLDENS = TESTS / "goldens"
NAMES = ("softmax_rows", "matmul_tiles", "relu", "embedding")


MOVES = {"relu": "vectorize(0)", "embedding": "parallelize(0); vectorize(0.0)"}


def kernel(name: str) -> Kernel:
    if name in TEXTS:
        return dojoir.parse(TEXTS[name])
    trace = dojoir.Trace(kernels.load(name))
    for move in MOVES[name].split("; "):
        trace.apply(move)
    return trace.kernel


@pytest.mark.parametrize("target", ISAS)
@pytest.mark.parametrize("name", NAMES)
def test_golden(name: str, target: str) -> None:
    path = GOLDENS / target / f"{name}.c"
    text = dojoir.emit(kernel(name), target)
    if os.environ.get("DOJOIR_UPDATE_GOLDENS"):
        path.parent.mkdir(exist_ok=True)
        path.write_text(text, encoding="utf-8")
    assert text == path.read_text(encoding="utf-8")


@pytest.mark.parametrize("target", ISAS)
def test_goldens_compile_without_a_warning(target: str, tmp_path: Path) -> None:
    isa = ISAS[target]
    try:
        if isa.architecture == host_targets.architecture():
            command = (*find().command, "-std=c11", "-O2", *isa.options)
        else:
            cross = emulation.cross_compiler(isa)
            command = (*cross.command, *(option for option in cross.options if option != "-w"), "-O0")
    except dojoir.ToolchainError as error:
        pytest.skip(error.diagnostic.message)
    for name in NAMES:
        path = GOLDENS / target / f"{name}.c"
        flags = (*WARNINGS, "-Wno-unknown-pragmas", "-Wno-unused-command-line-argument", "-c")
        done = subprocess.run(
            [*command, *flags, "-o", str(tmp_path / "golden.o"), str(path)],
            capture_output=True,
            text=True,
            timeout=120,
        )
        assert done.returncode == 0, done.stderr
