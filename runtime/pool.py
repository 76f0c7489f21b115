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

Where helpers are woken, they are kept off the core of the caller, if there are cores enough: the scheduler of a
virtual machine takes a core at rest for one that another machine has, and wakes them where the caller runs, one
after the other.
"""

from __future__ import annotations

import ctypes
import os
import signal
import sys
from functools import cache
from string import Template

from dojoir.errors import ArgumentError
from dojoir.runtime.cache import Cache
from dojoir.runtime.llvm_engine import Library, build, host

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
                f"DOJOIR_THREADS must be a number from 1 to {MAX_THREADS}, not {chosen!r}", "bad-threads"
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
            f"threads must be an integer from 1 to {MAX_THREADS}, or None for every core, not {threads!r}",
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
def _sequential() -> Library:
    return build(_SEQUENTIAL, ["dojo_parallel_for"], {}, Cache.default())


@cache
def _limited(threads: int) -> Library:
    text = Template(_LIMITED).substitute(THREADS=threads)
    return build(
        text, ["dojo_parallel_for"], {"dojo_pool_run": _pool().addresses["dojo_pool_run"]}, Cache.default()
    )


@cache
def _pool() -> Library:
    """The pool of this process. Its code stays to the end: threads are in it."""
    library = build(_pool_text(), ["dojo_pool_run", "dojo_pool_reset"], {}, Cache.default())
    reset = ctypes.CFUNCTYPE(None)(library.addresses["dojo_pool_reset"])
    reset()
    if hasattr(os, "register_at_fork"):
        os.register_at_fork(after_in_child=reset)
    return library


def _pool_text() -> str:
    match host().triple.split("-")[0]:
        case "x86_64":
            declaration, call = "declare void @llvm.x86.sse2.pause()", "call void @llvm.x86.sse2.pause()"
        case "aarch64" | "arm64":
            declaration, call = "declare void @llvm.aarch64.hint(i32)", "call void @llvm.aarch64.hint(i32 1)"
        case _:
            declaration, call = "", ""
    return Template(_POOL).substitute(
        DECLARE_PAUSE=declaration,
        PLACE=_PLACE if _can_place() else _NO_PLACE,
        MAX_THREADS=MAX_THREADS,
        PAUSE=call,
        SPINS=SPINS,
        STACK_BYTES=STACK_BYTES,
        SIG_SETMASK=int(signal.SIG_SETMASK),
    )


_SEQUENTIAL = """
define void @dojo_parallel_for(ptr %body, ptr %context, i64 %n) {
  %some = icmp sgt i64 %n, 0
  br i1 %some, label %run, label %end
run:
  call void %body(ptr %context, i64 0, i64 %n)
  ret void
end:
  ret void
}
"""

_LIMITED = """
declare void @dojo_pool_run(ptr, ptr, i64, i64)

define void @dojo_parallel_for(ptr %body, ptr %context, i64 %n) {
  tail call void @dojo_pool_run(ptr %body, ptr %context, i64 %n, i64 $THREADS)
  ret void
}
"""

_NO_PLACE = """
define internal void @place() {
  ret void
}
"""

_PLACE = """
declare i32 @sched_getcpu()
declare i32 @sched_getaffinity(i32, i64, ptr)
declare i32 @pthread_setaffinity_np(i64, i64, ptr)
declare i64 @llvm.ctpop.i64(i64)

; Lets the helpers run on all cores that the caller may run on but the one where it does; on that one as well, if
; there are more of them than others. A core is a bit in a set of 1024.
define internal void @place() {
entry:
  %mine = alloca [16 x i64]
  %core = call i32 @sched_getcpu()
  %known = icmp ult i32 %core, 1024
  br i1 %known, label %ask, label %end
ask:
  %failed = call i32 @sched_getaffinity(i32 0, i64 128, ptr %mine)
  %ok = icmp eq i32 %failed, 0
  br i1 %ok, label %leave, label %end
leave:
  %wide = zext i32 %core to i64
  %at = lshr i64 %wide, 6
  %bit = and i64 %wide, 63
  %own = shl i64 1, %bit
  %others = xor i64 %own, -1
  %place = getelementptr i64, ptr %mine, i64 %at
  %all = load i64, ptr %place
  %without = and i64 %all, %others
  store i64 %without, ptr %place
  br label %count
count:
  %k = phi i64 [ 0, %leave ], [ %k.next, %count ]
  %sum = phi i64 [ 0, %leave ], [ %sum.next, %count ]
  %counted = getelementptr i64, ptr %mine, i64 %k
  %bits = load i64, ptr %counted
  %ones = call i64 @llvm.ctpop.i64(i64 %bits)
  %sum.next = add i64 %sum, %ones
  %k.next = add i64 %k, 1
  %counting = icmp ult i64 %k.next, 16
  br i1 %counting, label %count, label %choose
choose:
  %started = load i64, ptr @started
  %enough = icmp uge i64 %sum.next, %started
  %chosen = select i1 %enough, i64 %without, i64 %all
  store i64 %chosen, ptr %place
  br label %keep
keep:
  %i = phi i64 [ 0, %choose ], [ %i.next, %keep ]
  %differ = phi i64 [ 0, %choose ], [ %differ.next, %keep ]
  %from = getelementptr i64, ptr %mine, i64 %i
  %to = getelementptr i64, ptr @cores, i64 %i
  %new = load i64, ptr %from
  %old = load i64, ptr %to
  store i64 %new, ptr %to
  %change = xor i64 %new, %old
  %differ.next = or i64 %differ, %change
  %i.next = add i64 %i, 1
  %keeping = icmp ult i64 %i.next, 16
  br i1 %keeping, label %keep, label %compare
compare:
  %placed = load i64, ptr @placed
  %same = icmp eq i64 %differ.next, 0
  %all.placed = icmp eq i64 %placed, %started
  %done = and i1 %same, %all.placed
  br i1 %done, label %end, label %set
set:
  store i64 %started, ptr @placed
  br label %helper
helper:
  %h = phi i64 [ 0, %set ], [ %h.next, %next ]
  %more = icmp slt i64 %h, %started
  br i1 %more, label %next, label %end
next:
  %slot = getelementptr i64, ptr @handles, i64 %h
  %handle = load i64, ptr %slot
  %r = call i32 @pthread_setaffinity_np(i64 %handle, i64 128, ptr @cores)
  %h.next = add i64 %h, 1
  br label %helper
end:
  ret void
}
"""

_POOL = """
; The job: written by the caller before @word, read by the helpers that take part.
@word = internal global i64 0, align 128        ; generation << 16 | helpers that take part
@body = internal global ptr null
@context = internal global ptr null
@n = internal global i64 0
@remaining = internal global i64 0, align 128   ; helpers that are not done yet
@busy = internal global i64 0, align 128        ; 1 while a loop runs
@sleepers = internal global i64 0, align 128    ; helpers in or about to enter their wait
@waiting = internal global i64 0                ; 1 while the caller is in or about to enter its wait
@started = internal global i64 0                ; helpers that exist, numbered from 1
@handles = internal global [$MAX_THREADS x i64] zeroinitializer  ; their threads
@placed = internal global i64 0                 ; how many of them have been told on which cores to run,
@cores = internal global [16 x i64] zeroinitializer  ; and these
@mutex = internal global [128 x i8] zeroinitializer, align 128
@wake = internal global [128 x i8] zeroinitializer, align 128
@done = internal global [128 x i8] zeroinitializer, align 128

declare i32 @pthread_create(ptr, ptr, ptr, ptr)
declare i32 @pthread_detach(i64)
declare i32 @pthread_attr_init(ptr)
declare i32 @pthread_attr_setstacksize(ptr, i64)
declare i32 @pthread_sigmask(i32, ptr, ptr)
declare i32 @sigfillset(ptr)
declare i32 @pthread_mutex_init(ptr, ptr)
declare i32 @pthread_mutex_lock(ptr)
declare i32 @pthread_mutex_unlock(ptr)
declare i32 @pthread_cond_init(ptr, ptr)
declare i32 @pthread_cond_wait(ptr, ptr)
declare i32 @pthread_cond_signal(ptr)
declare i32 @pthread_cond_broadcast(ptr)
declare i64 @llvm.smin.i64(i64, i64)
$DECLARE_PAUSE
$PLACE
; Before the first loop, and in the child of a fork, where no helper lives on.
define void @dojo_pool_reset() {
  %a = call i32 @pthread_mutex_init(ptr @mutex, ptr null)
  %b = call i32 @pthread_cond_init(ptr @wake, ptr null)
  %c = call i32 @pthread_cond_init(ptr @done, ptr null)
  store i64 0, ptr @remaining
  store i64 0, ptr @sleepers
  store i64 0, ptr @waiting
  store i64 0, ptr @started
  store i64 0, ptr @placed
  store atomic i64 0, ptr @busy seq_cst, align 8
  ret void
}

; Chunk `part` of `parts`: the first n % parts chunks have one iteration more.
define internal void @chunk(ptr %body, ptr %context, i64 %n, i64 %part, i64 %parts) {
  %each = udiv i64 %n, %parts
  %rest = urem i64 %n, %parts
  %next = add i64 %part, 1
  %more = call i64 @llvm.smin.i64(i64 %part, i64 %rest)
  %more.next = call i64 @llvm.smin.i64(i64 %next, i64 %rest)
  %lo = mul i64 %each, %part
  %hi = mul i64 %each, %next
  %from = add i64 %lo, %more
  %to = add i64 %hi, %more.next
  call void %body(ptr %context, i64 %from, i64 %to)
  ret void
}

; A helper. `birth` is the generation at its start << 16 | its number.
define internal ptr @helper(ptr %birth) {
entry:
  %bits = ptrtoint ptr %birth to i64
  %number = and i64 %bits, 65535
  %first = lshr i64 %bits, 16
  br label %idle

idle:
  %last = phi i64 [ %first, %entry ], [ %generation, %idle.next ]
  br label %spin
spin:
  %i = phi i64 [ 0, %idle ], [ %i.next, %spin.again ]
  %seen = load atomic i64, ptr @word seq_cst, align 8
  %seen.generation = lshr i64 %seen, 16
  %same = icmp eq i64 %seen.generation, %last
  br i1 %same, label %spin.again, label %awake
spin.again:
  $PAUSE
  %i.next = add i64 %i, 1
  %spinning = icmp ult i64 %i.next, $SPINS
  br i1 %spinning, label %spin, label %sleep

sleep:
  %lock = call i32 @pthread_mutex_lock(ptr @mutex)
  %s0 = atomicrmw add ptr @sleepers, i64 1 seq_cst
  br label %doze
doze:
  %dozed = load atomic i64, ptr @word seq_cst, align 8
  %dozed.generation = lshr i64 %dozed, 16
  %still = icmp eq i64 %dozed.generation, %last
  br i1 %still, label %wait, label %risen
wait:
  %w = call i32 @pthread_cond_wait(ptr @wake, ptr @mutex)
  br label %doze
risen:
  %s1 = atomicrmw sub ptr @sleepers, i64 1 seq_cst
  %unlock = call i32 @pthread_mutex_unlock(ptr @mutex)
  br label %awake

awake:
  %word = phi i64 [ %seen, %spin ], [ %dozed, %risen ]
  %generation = lshr i64 %word, 16
  %helpers = and i64 %word, 65535
  %out = icmp ugt i64 %number, %helpers
  br i1 %out, label %idle.next, label %work
work:
  %body = load ptr, ptr @body
  %context = load ptr, ptr @context
  %n = load i64, ptr @n
  %parts = add i64 %helpers, 1
  call void @chunk(ptr %body, ptr %context, i64 %n, i64 %number, i64 %parts)
  %left = atomicrmw sub ptr @remaining, i64 1 seq_cst
  %last.one = icmp eq i64 %left, 1
  %caller = load atomic i64, ptr @waiting seq_cst, align 8
  %asleep = icmp ne i64 %caller, 0
  %signal = and i1 %last.one, %asleep
  br i1 %signal, label %call, label %idle.next
call:
  %l = call i32 @pthread_mutex_lock(ptr @mutex)
  %s = call i32 @pthread_cond_signal(ptr @done)
  %u = call i32 @pthread_mutex_unlock(ptr @mutex)
  br label %idle.next
idle.next:
  br label %idle
}

; Sees to it that `wanted` helpers exist, if the system lets it, and says how many of them do. The helpers
; block every signal: handlers stay the business of the program's own threads.
define internal i64 @ensure(i64 %wanted) {
entry:
  %have = load i64, ptr @started
  %enough = icmp sge i64 %have, %wanted
  br i1 %enough, label %end, label %prepare
prepare:
  %attributes = alloca [256 x i8], align 16
  %all = alloca [256 x i8], align 16
  %old = alloca [256 x i8], align 16
  %thread = alloca i64
  %a = call i32 @pthread_attr_init(ptr %attributes)
  %b = call i32 @pthread_attr_setstacksize(ptr %attributes, i64 $STACK_BYTES)
  %c = call i32 @sigfillset(ptr %all)
  %d = call i32 @pthread_sigmask(i32 $SIG_SETMASK, ptr %all, ptr %old)
  %word = load atomic i64, ptr @word seq_cst, align 8
  %generation = and i64 %word, -65536
  br label %start
start:
  %count = phi i64 [ %have, %prepare ], [ %number, %detach ]
  %number = add i64 %count, 1
  %bits = or i64 %generation, %number
  %birth = inttoptr i64 %bits to ptr
  %failed = call i32 @pthread_create(ptr %thread, ptr %attributes, ptr @helper, ptr %birth)
  %ok = icmp eq i32 %failed, 0
  br i1 %ok, label %detach, label %restore
detach:
  %handle = load i64, ptr %thread
  %e = call i32 @pthread_detach(i64 %handle)
  %slot = getelementptr i64, ptr @handles, i64 %count
  store i64 %handle, ptr %slot
  store i64 %number, ptr @started
  %more = icmp slt i64 %number, %wanted
  br i1 %more, label %start, label %restore
restore:
  %g = call i32 @pthread_sigmask(i32 $SIG_SETMASK, ptr %old, ptr null)
  br label %end
end:
  %existing = load i64, ptr @started
  %taken = call i64 @llvm.smin.i64(i64 %existing, i64 %wanted)
  ret i64 %taken
}

; Runs body(context, from, to) over chunks of [0, n) on at most `limit` threads.
define void @dojo_pool_run(ptr %body, ptr %context, i64 %n, i64 %limit) {
entry:
  %some = icmp sgt i64 %n, 0
  br i1 %some, label %count, label %end
count:
  %parts.wanted = call i64 @llvm.smin.i64(i64 %n, i64 %limit)
  %wanted = sub i64 %parts.wanted, 1
  %several = icmp sgt i64 %wanted, 0
  br i1 %several, label %claim, label %alone
claim:
  %claimed = cmpxchg ptr @busy, i64 0, i64 1 seq_cst seq_cst
  %free = extractvalue { i64, i1 } %claimed, 1
  br i1 %free, label %share, label %alone
alone:
  call void %body(ptr %context, i64 0, i64 %n)
  br label %end

share:
  %helpers = call i64 @ensure(i64 %wanted)
  %parts = add i64 %helpers, 1
  %placed = load i64, ptr @placed
  %existing = load i64, ptr @started
  %new = icmp ne i64 %placed, %existing
  %dozing = load atomic i64, ptr @sleepers seq_cst, align 8
  %some.doze = icmp sgt i64 %dozing, 0
  %to.place = or i1 %new, %some.doze
  br i1 %to.place, label %place, label %post
place:
  call void @place()
  br label %post
post:
  store ptr %body, ptr @body
  store ptr %context, ptr @context
  store i64 %n, ptr @n
  store atomic i64 %helpers, ptr @remaining seq_cst, align 8
  %word = load atomic i64, ptr @word seq_cst, align 8
  %next = add i64 %word, 65536
  %generation = and i64 %next, -65536
  %posted = or i64 %generation, %helpers
  store atomic i64 %posted, ptr @word seq_cst, align 8
  %sleepers = load atomic i64, ptr @sleepers seq_cst, align 8
  %asleep = icmp sgt i64 %sleepers, 0
  br i1 %asleep, label %rouse, label %own
rouse:
  %l = call i32 @pthread_mutex_lock(ptr @mutex)
  %b = call i32 @pthread_cond_broadcast(ptr @wake)
  %u = call i32 @pthread_mutex_unlock(ptr @mutex)
  br label %own
own:
  call void @chunk(ptr %body, ptr %context, i64 %n, i64 0, i64 %parts)
  br label %spin
spin:
  %i = phi i64 [ 0, %own ], [ %i.next, %spin.again ]
  %left = load atomic i64, ptr @remaining seq_cst, align 8
  %all.done = icmp eq i64 %left, 0
  br i1 %all.done, label %finish, label %spin.again
spin.again:
  $PAUSE
  %i.next = add i64 %i, 1
  %spinning = icmp ult i64 %i.next, $SPINS
  br i1 %spinning, label %spin, label %sleep
sleep:
  %lock = call i32 @pthread_mutex_lock(ptr @mutex)
  store atomic i64 1, ptr @waiting seq_cst, align 8
  br label %doze
doze:
  %left.now = load atomic i64, ptr @remaining seq_cst, align 8
  %done.now = icmp eq i64 %left.now, 0
  br i1 %done.now, label %risen, label %wait
wait:
  %w = call i32 @pthread_cond_wait(ptr @done, ptr @mutex)
  br label %doze
risen:
  store atomic i64 0, ptr @waiting seq_cst, align 8
  %unlock = call i32 @pthread_mutex_unlock(ptr @mutex)
  br label %finish
finish:
  store atomic i64 0, ptr @busy seq_cst, align 8
  br label %end
end:
  ret void
}
"""
