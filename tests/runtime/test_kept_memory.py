"""Memory for the temporaries of kernels that is kept between calls."""

from __future__ import annotations

import ctypes
import os
import resource
import sys
from threading import Thread

import numpy as np
import pytest

import dojoir
from dojoir.runtime.build.blocks import ALLOCATE, FREE, LEAST, MOST, SLOTS, memory

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="pages are counted as Linux does")

TWICE = """kernel twice(N)
in  x: f32[N]
out y: f32[N]
tmp t: f32[N] heap

N @i
| t[{i}] = x[{i}] + x[N - 1 - {i}]
N @j
| y[{j}] = t[{j}] * t[N - 1 - {j}]
"""


class Memory:
    """A `malloc` and a `free` whose slots no kernel has used."""

    def __init__(self) -> None:
        library = memory()
        self.library = library  # keeps the machine code
        self._malloc = ctypes.CFUNCTYPE(ctypes.c_void_p, ctypes.c_size_t)(library.addresses[ALLOCATE])
        self._free = ctypes.CFUNCTYPE(None, ctypes.c_void_p)(library.addresses[FREE])

    def allocate(self, size: int) -> int | None:
        block: int | None = self._malloc(size)
        return block

    def release(self, block: int | None) -> None:
        self._free(block)


@pytest.fixture
def own() -> Memory:
    return Memory()


def test_a_block_is_given_again_to_who_asks_for_about_as_much(own: Memory) -> None:
    first = own.allocate(3 * LEAST)
    assert first is not None and first % 16 == 0
    ctypes.memset(first, 1, 3 * LEAST)
    own.release(first)
    assert own.allocate(3 * LEAST - 100) == first, "no more than twice what is asked for"
    own.release(first)
    other = own.allocate(LEAST)
    assert other != first, "it is too large for that"
    own.release(other)
    assert own.allocate(2 * LEAST) == first
    own.release(first)


def test_two_never_have_one_block(own: Memory) -> None:
    blocks = [own.allocate(LEAST + n) for n in range(3 * SLOTS)]
    assert len({*blocks}) == len(blocks) and None not in blocks
    for block in blocks:
        own.release(block)
    again = [own.allocate(LEAST + n) for n in range(3 * SLOTS)]
    assert len({*again}) == len(again)
    for block in again:
        own.release(block)


def test_a_block_stays_while_others_come_and_go(own: Memory) -> None:
    """A layer runs many times with a small temporary, and then the head with a large one."""
    large = own.allocate(64 * LEAST)
    own.release(large)
    for _ in range(3 * SLOTS):
        own.release(own.allocate(LEAST))
    assert own.allocate(64 * LEAST) == large
    own.release(large)


def test_no_more_is_kept_than_is_said(own: Memory) -> None:
    part = MOST // 4
    before = _resident()
    blocks = [own.allocate(part) for _ in range(8)]
    for block in blocks:
        assert block is not None
        ctypes.memset(block, 1, part)
    for block in blocks:
        own.release(block)
    assert _resident() - before < MOST + part
    whole = own.allocate(MOST + 1)
    assert whole is not None
    own.release(whole)  # goes back at once


def _resident() -> int:
    with open("/proc/self/statm", encoding="ascii") as file:
        return int(file.read().split()[1]) * resource.getpagesize()


def test_what_is_kept_goes_back_where_the_system_has_no_more(own: Memory) -> None:
    """Under a limit that lets the process have the blocks once."""
    child = os.fork()
    if not child:
        blocks = [own.allocate(MOST // 2 - LEAST) for _ in range(2)]
        for block in blocks:
            own.release(block)
        with open("/proc/self/statm", encoding="ascii") as file:
            pages = int(file.read().split()[0])
        limit = pages * resource.getpagesize() + MOST // 2
        resource.setrlimit(resource.RLIMIT_AS, (limit, limit))
        os._exit(0 if own.allocate(MOST - LEAST) is not None else 1)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0


@pytest.mark.parametrize("size", [2**64 - 1, 2**63, 2**62])
def test_what_no_machine_has_is_refused(own: Memory, size: int) -> None:
    assert own.allocate(size) is None
    own.release(None)


def test_a_call_takes_no_pages_from_the_system() -> None:
    compiled = dojoir.compile(dojoir.parse(TWICE))
    x = np.arange(1 << 20, dtype=np.float32)
    y = np.empty_like(x)
    for _ in range(2):
        compiled(x, y)
    before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
    for _ in range(8):
        compiled(x, y)
    pages = x.nbytes // resource.getpagesize()
    assert resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before < pages
    t = x + x[::-1]
    assert np.array_equal(y, t * t[::-1])


def test_threads_call_side_by_side() -> None:
    compiled = dojoir.compile(dojoir.parse(TWICE), threads=1)
    wrong: list[int] = []

    def calls(n: int) -> None:
        x = np.full(LEAST + n, n, np.float32)
        y = np.empty_like(x)
        for _ in range(200):
            compiled(x, y)
            if not (y == 4.0 * n * n).all():
                wrong.append(n)

    threads = [Thread(target=calls, args=(n,)) for n in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong


def test_a_child_of_a_fork_calls_too() -> None:
    compiled = dojoir.compile(dojoir.parse(TWICE), threads=1)
    x = np.ones(1 << 18, np.float32)
    y = np.empty_like(x)
    compiled(x, y)

    child = os.fork()
    if not child:
        other = np.empty_like(x)
        compiled(x, other)
        os._exit(0 if (other == 4).all() else 1)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    compiled(x, y)
    assert (y == 4).all()
