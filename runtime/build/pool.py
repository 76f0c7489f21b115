"""Cores without an OpenMP library: `dojo_parallel_for`, which shares the iterations of a loop out to threads.

The pool is LLVM IR over the pthread functions of this process, compiled once per process. Its threads start
when they are first needed and stay; between loops they spin for some tens of microseconds, then sleep. The
caller takes part. Chunks are contiguous and differ by at most one iteration, one for each thread.

One loop runs at a time: a loop that starts while another runs (a nested one, or one from another Python
thread) runs on its caller alone. So nothing here can deadlock. After a fork the child starts afresh.

How a loop is handed over: `@word` holds a generation and, in its low 16 bits, how many helpers take part.
The caller writes the job, then the new word. A helper that reads a new generation takes part if its number is
low enough; the caller waits for just those, so a job never changes under a helper that reads it. Sleeping is
the usual pair of flags: each side writes its own (`@word` or `@sleepers`, `@remaining` or `@waiting`), then
reads the other's, sequentially consistent, so at least one of them sees that it must act.

Where helpers are woken, they are kept off the core of the caller, if there are cores enough. The scheduler of a
virtual machine takes a core at rest for one that another machine has, and wakes them where the caller runs, one
after the other.
"""

from __future__ import annotations

import ctypes
import os
import signal
import sys
from functools import cache
from importlib.resources import files
from string import Template

from dojoir.errors import ArgumentError, repr_of
from dojoir.runtime.build.llvm_engine import LoadedCode, build, host
from dojoir.support.cache import Cache

SPINS = 2000
"""How often a thread looks before it sleeps: 50 to 100 microseconds on today's processors."""

STACK_BYTES = 8 << 20
MAX_THREADS = 1024

_NEEDED = (
    "pthread_create", "pthread_detach", "pthread_attr_init", "pthread_attr_setstacksize", "pthread_sigmask",
    "sigfillset", "pthread_mutex_init", "pthread_mutex_lock", "pthread_mutex_unlock", "pthread_cond_init",
    "pthread_cond_wait", "pthread_cond_signal", "pthread_cond_broadcast",
)  # fmt: skip


_PLACING = ("sched_getcpu", "sched_getaffinity", "pthread_setaffinity_np")


def available_threads() -> int:
    """`$DOJOIR_THREADS`, else the number of cores that this process may run on."""
    chosen = os.environ.get("DOJOIR_THREADS", "").strip()
    if chosen:
        if not chosen.isdecimal() or not 1 <= int(chosen) <= MAX_THREADS:
            raise ArgumentError(
                f"DOJOIR_THREADS must be a number from 1 to {MAX_THREADS}, not {repr_of(chosen)}", "bad-threads"
            )
        return int(chosen)
    try:
        cores = len(os.sched_getaffinity(0))
    except AttributeError:  # the system has no affinity
        cores = os.cpu_count() or 1
    return min(MAX_THREADS, cores)


def thread_count(threads: int | None) -> int:
    """The number of threads that a caller asked for, or `available_threads()`. Raises ArgumentError."""
    if threads is None:
        return available_threads()
    if isinstance(threads, bool) or not isinstance(threads, int) or not 1 <= threads <= MAX_THREADS:
        raise ArgumentError(
            f"threads must be an integer from 1 to {MAX_THREADS}, or None for every core, not {repr_of(threads)}",
            "bad-threads",
        )
    return threads


def parallel_for(threads: int) -> int:
    """The address of a C function `void (void (*body)(void *context, int64_t from, int64_t to), void *context,
    int64_t n)`, which runs `body` over chunks of [0, n) on up to `threads` threads, and returns when all are
    done. With one thread, or where the process has no pthreads, the caller runs it all."""
    if threads > 1 and _has_pthreads():
        return _limited(threads).addresses["dojo_parallel_for"]
    return _sequential().addresses["dojo_parallel_for"]


def _has_pthreads() -> bool:
    return _has(_NEEDED)


def _can_place() -> bool:
    return sys.platform == "linux" and _has(_PLACING)


@cache
def _has(functions: tuple[str, ...]) -> bool:
    """Whether this process has some functions of C."""
    try:
        process = ctypes.CDLL(None)
    except (OSError, TypeError):  # a system where a process has no name for itself
        return False
    return all(hasattr(process, name) for name in functions)


@cache
def _sequential() -> LoadedCode:
    return build(_source("pool_sequential"), ["dojo_parallel_for"], {}, Cache.default())


@cache
def _limited(threads: int) -> LoadedCode:
    text = Template(_source("pool_limited")).substitute(THREADS=threads)
    return build(
        text, ["dojo_parallel_for"], {"dojo_pool_run": _pool().addresses["dojo_pool_run"]}, Cache.default()
    )


@cache
def _pool() -> LoadedCode:
    """The pool of this process. Its code stays to the end: threads are in it."""
    library = build(_pool_text(), ["dojo_pool_run", "dojo_pool_reset"], {}, Cache.default())
    reset = ctypes.CFUNCTYPE(None)(library.addresses["dojo_pool_reset"])
    reset()
    if hasattr(os, "register_at_fork"):
        os.register_at_fork(after_in_child=reset)
    return library


def _source(name: str) -> str:
    """The text of one of the files of LLVM IR beside this one."""
    return files(__package__).joinpath(f"{name}.ll").read_text(encoding="utf-8")


def _pool_text() -> str:
    match host().triple.split("-")[0]:
        case "x86_64":
            declaration, call = "declare void @llvm.x86.sse2.pause()", "call void @llvm.x86.sse2.pause()"
        case "aarch64" | "arm64":
            declaration, call = "declare void @llvm.aarch64.hint(i32)", "call void @llvm.aarch64.hint(i32 1)"
        case _:
            declaration, call = "", ""
    return Template(_source("pool")).substitute(
        DECLARE_PAUSE=declaration,
        PLACE=_source("pool_placed" if _can_place() else "pool_unplaced"),
        MAX_THREADS=MAX_THREADS,
        PAUSE=call,
        SPINS=SPINS,
        STACK_BYTES=STACK_BYTES,
        SIG_SETMASK=int(signal.SIG_SETMASK),
    )
