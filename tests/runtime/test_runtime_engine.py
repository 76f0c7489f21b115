"""LLVM IR in process, with and without the cache; the thread pool; guard pages."""

from __future__ import annotations

import ctypes
import os
import signal
import subprocess
import sys
import threading
from pathlib import Path

import numpy as np
import pytest

import dojoir
from dojoir.errors import ArgumentError, ToolchainError
from dojoir.runtime.build import llvm_engine, pool
from dojoir.runtime.verification.guard import PATTERN, guarded
from dojoir.support.cache import Cache

TWICE = """
define i64 @twice(i64 %x) {
  %y = add i64 %x, %x
  ret i64 %y
}
"""
UNARY = ctypes.CFUNCTYPE(ctypes.c_int64, ctypes.c_int64)


def twice(cache: Cache) -> llvm_engine.LoadedCode:
    return llvm_engine.build(TWICE, ["twice"], {}, cache)


# -- the engine --------------------------------------------------------------------------------------------
def test_text_runs() -> None:
    library = twice(Cache(None))
    assert UNARY(library.addresses["twice"])(21) == 42


def test_a_cached_object_is_loaded_without_compiling(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    twice(Cache(tmp_path))

    def compiles(text: str, cpu: str | None = None) -> bytes:
        raise AssertionError("compiled again")

    monkeypatch.setattr(llvm_engine, "compile_object", compiles)
    library = twice(Cache(tmp_path))
    assert UNARY(library.addresses["twice"])(4) == 8
    with pytest.raises(AssertionError, match="compiled again"):
        llvm_engine.build(TWICE + "; another text", ["twice"], {}, Cache(tmp_path))


@pytest.mark.parametrize("damage", [lambda data: data[:-7], lambda data: b"", lambda data: data[:60] + b"\0" * 40])
def test_a_damaged_entry_is_built_again(tmp_path: Path, damage: object) -> None:
    assert callable(damage)
    twice(Cache(tmp_path))
    (entry,) = (path for path in tmp_path.rglob("*") if path.is_file())
    whole = entry.read_bytes()
    entry.write_bytes(damage(whole))
    library = twice(Cache(tmp_path))
    assert UNARY(library.addresses["twice"])(3) == 6
    assert entry.read_bytes() == whole


def test_two_processes_compile_the_same_text_at_once(tmp_path: Path) -> None:
    program = f"""
import ctypes
from dojoir.runtime.build import llvm_engine
from dojoir.support.cache import Cache
library = llvm_engine.build({TWICE!r}, ["twice"], {{}}, Cache.default())
print(ctypes.CFUNCTYPE(ctypes.c_int64, ctypes.c_int64)(library.addresses["twice"])(21))
"""
    environment = os.environ | {"DOJOIR_CACHE": str(tmp_path)}
    children = [
        subprocess.Popen([sys.executable, "-c", program], env=environment, stdout=subprocess.PIPE, text=True)
        for _ in range(3)
    ]
    assert [child.communicate(timeout=60)[0].strip() for child in children] == ["42"] * 3
    assert len([path for path in tmp_path.rglob("*") if path.is_file()]) == 1


def test_a_text_that_llvm_refuses() -> None:
    with pytest.raises(ToolchainError) as caught:
        llvm_engine.build("define i64 @f() { ret i32 0 }", ["f"], {}, Cache(None))
    assert caught.value.diagnostic.code == "llvm-refused"


def test_a_function_that_is_not_there() -> None:
    with pytest.raises(ToolchainError) as caught:
        llvm_engine.build(TWICE, ["thrice"], {}, Cache(None))
    assert caught.value.diagnostic.code == "load-failed"


def test_symbols_from_outside_and_from_the_process() -> None:
    text = """
declare i64 @outside(i64)
declare double @fmod(double, double)
define i64 @f(i64 %x) {
  %a = sitofp i64 %x to double
  %b = call double @fmod(double %a, double 1.0e1)
  %c = fptosi double %b to i64
  %d = call i64 @outside(i64 %c)
  ret i64 %d
}
"""
    outside = twice(Cache(None))
    library = llvm_engine.build(text, ["f"], {"outside": outside.addresses["twice"]}, Cache(None))
    assert UNARY(library.addresses["f"])(123) == 6


# -- the pool ----------------------------------------------------------------------------------------------
BODY = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_int64, ctypes.c_int64)
PARALLEL_FOR = ctypes.CFUNCTYPE(None, BODY, ctypes.c_void_p, ctypes.c_int64)


def chunks(threads: int, n: int) -> list[tuple[int, int]]:
    """The chunks that a loop of n iterations on up to `threads` threads runs, sorted."""
    seen: list[tuple[int, int]] = []
    PARALLEL_FOR(pool.parallel_for(threads))(BODY(lambda _, lo, hi: seen.append((lo, hi))), None, n)
    return sorted(seen)


@pytest.mark.parametrize("threads", [1, 2, 3, 5])
@pytest.mark.parametrize("n", [1, 2, 3, 7, 64, 1000])
def test_chunks_are_contiguous_and_balanced(threads: int, n: int) -> None:
    seen = chunks(threads, n)
    assert len(seen) == min(threads, n)
    assert [lo for lo, _ in seen] == [0, *(hi for _, hi in seen[:-1])]
    assert seen[-1][1] == n
    lengths = [hi - lo for lo, hi in seen]
    assert max(lengths) - min(lengths) <= 1


@pytest.mark.parametrize("threads", [1, 3])
def test_no_iterations(threads: int) -> None:
    assert chunks(threads, 0) == []
    assert chunks(threads, -5) == []


def test_the_caller_takes_part_and_threads_are_reused() -> None:
    runs = []
    for _ in range(20):
        seen: set[int] = set()
        PARALLEL_FOR(pool.parallel_for(3))(
            BODY(lambda _, lo, hi, seen=seen: seen.add(threading.get_ident())), None, 9
        )
        runs.append(seen)
    assert all(threading.get_ident() in seen and len(seen) == 3 for seen in runs)
    assert len(set.union(*runs)) <= max(3, pool.available_threads(), 5)


def test_a_nested_loop_runs_on_its_caller() -> None:
    inner_runs: list[tuple[int, int, bool]] = []

    def outer(_: int, lo: int, hi: int) -> None:
        me = threading.get_ident()
        inner = BODY(lambda _, a, b: inner_runs.append((a, b, threading.get_ident() == me)))
        PARALLEL_FOR(pool.parallel_for(2))(inner, None, 10)

    PARALLEL_FOR(pool.parallel_for(2))(BODY(outer), None, 2)
    assert inner_runs == [(0, 10, True)] * 2


def test_many_short_loops_lose_no_iteration() -> None:
    text = """
declare void @dojo_parallel_for(ptr, ptr, i64)
define internal void @body(ptr %sums, i64 %from, i64 %to) {
entry:
  br label %loop
loop:
  %i = phi i64 [ %from, %entry ], [ %next, %step ]
  %more = icmp slt i64 %i, %to
  br i1 %more, label %step, label %end
step:
  %p = getelementptr i64, ptr %sums, i64 %i
  %old = load i64, ptr %p
  %new = add i64 %old, 1
  store i64 %new, ptr %p
  %next = add i64 %i, 1
  br label %loop
end:
  ret void
}
define void @many(ptr %sums, i64 %n, i64 %times) {
entry:
  br label %loop
loop:
  %i = phi i64 [ 0, %entry ], [ %next, %loop ]
  call void @dojo_parallel_for(ptr @body, ptr %sums, i64 %n)
  %next = add i64 %i, 1
  %more = icmp slt i64 %next, %times
  br i1 %more, label %loop, label %end
end:
  ret void
}
"""
    for threads in (2, 4):
        symbols = {"dojo_parallel_for": pool.parallel_for(threads)}
        library = llvm_engine.build(text, ["many"], symbols, Cache(None))
        many = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_int64, ctypes.c_int64)(library.addresses["many"])
        for n in (2, 3, 5, 100):
            sums = np.zeros(n, np.int64)
            many(sums.ctypes.data, n, 2000)
            assert (sums == 2000).all()


def test_loops_from_several_python_threads() -> None:
    counts = np.zeros(8, np.int64)

    def single(slot: int) -> None:
        seen: list[int] = []
        body = BODY(lambda _, lo, hi: seen.append(hi - lo))
        for _ in range(50):
            PARALLEL_FOR(pool.parallel_for(2))(body, None, 6)
        counts[slot] = sum(seen)

    threads = [threading.Thread(target=single, args=(slot,)) for slot in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert counts.tolist() == [300] * 8


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
def test_a_fork_starts_its_own_threads() -> None:
    program = f"""
import os
import sys
sys.path.insert(0, {str(Path(__file__).parent)!r})
from test_runtime_engine import chunks
expected = [(0, 4), (4, 7), (7, 10)]
assert chunks(3, 10) == expected
child = os.fork()
if child == 0:
    os._exit(0 if chunks(3, 10) == expected else 1)
assert os.waitpid(child, 0)[1] == 0
assert chunks(3, 10) == expected
"""
    done = subprocess.run([sys.executable, "-c", program], timeout=60)
    assert done.returncode == 0


FORKS = """
import multiprocessing
import os
import numpy as np
import dojoir

kernel = dojoir.parse(
    "kernel sums(N, M)\\nin x: f32[N, M]\\nout y: f32[N]\\n\\n"
    "N : p\\n| y[{{0}}] = 0\\n| M\\n| | y[{{0}}] += x[{{0}}, {{1}}]\\n"
)
x = np.arange(4096, dtype=np.float32).reshape(64, 64) % 7
compiled = dojoir.compile(kernel, {target!r}, threads=2)

def right(_=None):
    return bool((compiled.run({{"x": x}})["y"] == x.sum(1)).all())

def child(work):
    pid = os.fork()
    if pid == 0:
        os._exit(0 if work() else 1)
    assert os.waitpid(pid, 0)[1] == 0

def compiles():
    fresh = dojoir.compile(kernel, {target!r}, threads=3)
    return bool((fresh.run({{"x": x}})["y"] == x.sum(1)).all())

if __name__ == "__main__":
    child(right)
    assert right()
    child(right)
    child(compiles)
    child(lambda: (right(), child(right), right())[2])
    with multiprocessing.get_context("fork").Pool(2) as pool:
        assert pool.map(right, range(8)) == [True] * 8
    assert right()
"""


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
@pytest.mark.parametrize("target", ["llvm", "c", "avx2", "avx512"])
def test_a_kernel_on_the_cores_runs_in_forked_children(target: str) -> None:
    """libgomp waits forever for threads of the parent, which a child does not have."""
    try:
        dojoir.compile(dojoir.kernels.load("relu"), target)
    except dojoir.ToolchainError as error:
        pytest.skip(error.diagnostic.message)
    program = [sys.executable, "-c", FORKS.format(target=target)]
    with subprocess.Popen(program, stderr=subprocess.PIPE, text=True, start_new_session=True) as running:
        try:
            _, errors = running.communicate(timeout=60)
        except subprocess.TimeoutExpired:
            os.killpg(running.pid, signal.SIGKILL)
            raise
    assert running.returncode == 0, errors


PLACED = """
import ctypes
import os
import sys
import threading
import time
sys.path.insert(0, {tests!r})
from test_runtime_engine import BODY, PARALLEL_FOR
from dojoir.runtime.build import pool

core, all_cores = ctypes.CDLL(None).sched_getcpu, os.sched_getaffinity(0)
me, where = threading.get_ident(), []

def body(_, lo, hi):
    if threading.get_ident() != me:
        where.append(os.sched_getaffinity(0))

body = BODY(body)
for _ in range(50):
    time.sleep(0.01)  # the helpers sleep
    where.clear()
    before = core()
    PARALLEL_FOR(pool.parallel_for({threads}))(body, None, 1000)
    if before == core():
        print(*sorted(before in cores for cores in where), all(cores <= all_cores for cores in where))
        break
"""


@pytest.mark.skipif(
    sys.platform != "linux" or len(os.sched_getaffinity(0)) < 2, reason="needs cores to choose from"
)
@pytest.mark.parametrize("more", [False, True])
def test_helpers_that_wake_are_kept_off_the_core_of_the_caller(more: bool) -> None:
    """Unless there are more of them than other cores."""
    threads = len(os.sched_getaffinity(0)) + 1 if more else 2
    program = PLACED.format(tests=str(Path(__file__).parent), threads=threads)
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=60)
    assert done.stdout.split() == [*[str(more)] * (threads - 1), "True"], done.stderr


def test_the_number_of_threads(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("DOJOIR_THREADS", raising=False)
    assert pool.available_threads() >= 1
    monkeypatch.setenv("DOJOIR_THREADS", "3")
    assert pool.available_threads() == 3
    assert pool.thread_count(None) == 3
    assert pool.thread_count(7) == 7
    for wrong in (0, -1, True, 100_000):
        with pytest.raises(ArgumentError, match="threads must be"):
            pool.thread_count(wrong)
    for text in ("0", "many", "-1", "99999"):
        monkeypatch.setenv("DOJOIR_THREADS", text)
        with pytest.raises(ArgumentError, match="DOJOIR_THREADS"):
            pool.available_threads()


# -- guard pages -------------------------------------------------------------------------------------------
@pytest.mark.parametrize("size", [0, 1, 100, 4096, 5000])
@pytest.mark.parametrize("align", [1, 4, 64, 8192])
@pytest.mark.parametrize("at_end", [True, False])
def test_guarded_memory(size: int, align: int, at_end: bool) -> None:
    block = guarded(size, align, at_end)
    assert block.memory.size == size
    assert size == 0 or int(block.memory.__array_interface__["data"][0]) % align == 0
    block.memory[:] = 1
    assert block.is_intact
    assert len(block.slack[1 if at_end else 0]) < align
    for part in block.slack:
        if part.size:
            part[-1] = PATTERN ^ 1
            assert not block.is_intact
            part[-1] = PATTERN


@pytest.mark.parametrize(("at_end", "offset"), [(True, 100), (False, -1)])
def test_one_byte_outside_stops_the_process(at_end: bool, offset: int) -> None:
    program = f"""
import ctypes
from dojoir.runtime.verification.guard import guarded
block = guarded(100, 1, {at_end})
print(ctypes.c_char.from_address(block.memory.ctypes.data + {offset}).value)
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, timeout=60)
    assert done.returncode in (-signal.SIGSEGV, -signal.SIGBUS)
