"""A process that compiles kernels without end stays as large as it is."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import textwrap
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

import dojoir
from dojoir.errors import ToolchainError
from dojoir.runtime.build import llvm_engine, llvm_passes
from dojoir.support.memo import bounded_to

TEXT = """
kernel k(N)
in  x: f32[N]
out y: f32[N]
N
| y[{{0}}] = x[{{0}}] * {0} + {0}
"""


def compiled(number: int) -> None:
    """Compiles, calls and drops a kernel that there was not before."""
    code = dojoir.compile(dojoir.parse(TEXT.format(number)), threads=1)
    assert code.run({"x": np.ones(3, np.float32)})["y"].tolist() == [2.0 * number] * 3


def resident() -> int:
    """The bytes of memory that this process has."""
    return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")


@pytest.fixture
def helped(monkeypatch: pytest.MonkeyPatch) -> Iterator[llvm_passes._Helpers]:
    """All modules compiled by helpers from now on, which nobody else uses."""
    helpers = llvm_passes._Helpers()
    monkeypatch.setattr(llvm_passes, "_helpers", helpers)
    monkeypatch.setattr(llvm_passes, "HERE", 0)
    monkeypatch.setenv("DOJOIR_CACHE", "")
    yield helpers
    helpers.stop()


@pytest.mark.skipif(not Path("/proc/self/statm").exists(), reason="reads /proc")
def test_memory_is_bounded(helped: llvm_passes._Helpers, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(llvm_passes, "HELPED", 40)
    with bounded_to(1 << 20):
        for i in range(1, 41):
            compiled(i)
        before = resident()
        for i in range(41, 121):
            compiled(i)
        assert resident() - before < 2 << 20  # here, each would keep 80 KB: 6 MB


def test_the_helper_makes_the_same_code(helped: llvm_passes._Helpers) -> None:
    here = llvm_engine.host()
    processor = llvm_passes.Processor(here.triple, here.cpu, here.features)
    text = dojoir.emit(dojoir.kernels.load("softmax"), "llvm")
    assert llvm_passes.object_of(text, processor) == llvm_passes.compiled_here(text, processor)
    assert helped._helper is not None


def test_a_helper_that_fails_is_done_without(helped: llvm_passes._Helpers, monkeypatch: pytest.MonkeyPatch) -> None:
    compiled(1)
    helper = helped._helper
    assert helper is not None
    os.kill(helper.pid, signal.SIGKILL)
    compiled(2)
    compiled(3)  # by another
    assert helped._helper is not None and helped._helper.pid != helper.pid
    with pytest.raises(ToolchainError, match="LLVM refused"):
        llvm_engine.compile_object("define i64 @f() { ret i32 0 }")
    helped.stop()
    monkeypatch.setattr(sys, "executable", "/nowhere/python")
    compiled(4)


def test_a_fork_leaves_the_helper_to_its_parent(helped: llvm_passes._Helpers) -> None:
    program = """
        import os
        from dojoir.runtime.build import llvm_engine, llvm_passes
        llvm_passes.HERE = 0
        text = "define i64 @f() { ret i64 7 }"
        first = llvm_engine.compile_object(text)
        helper = llvm_passes._helpers._helper
        child = os.fork()
        if child == 0:
            same = llvm_engine.compile_object(text) == first
            other = llvm_passes._helpers._helper.pid != helper.pid
            os._exit(0 if same and other else 1)
        assert os.waitpid(child, 0)[1] == 0
        assert llvm_engine.compile_object(text) == first and llvm_passes._helpers._helper is helper
    """
    subprocess.run([sys.executable, "-W", "error", "-c", textwrap.dedent(program)], check=True)


def test_a_helper_ends_with_its_process() -> None:
    program = """
        import os, signal
        from dojoir.runtime.build import llvm_engine, llvm_passes
        llvm_passes.HERE = 0
        llvm_engine.compile_object("define i64 @f() { ret i64 7 }")
        print(llvm_passes._helpers._helper.pid, flush=True)
        os.kill(os.getpid(), signal.SIGKILL)
    """
    done = subprocess.run([sys.executable, "-c", textwrap.dedent(program)], capture_output=True, text=True)
    for _ in range(500):
        if not is_running(int(done.stdout)):
            return
        time.sleep(0.01)
    pytest.fail("the helper is still there")


def is_running(pid: int) -> bool:
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except OSError:
        return False
    return state != "Z"
