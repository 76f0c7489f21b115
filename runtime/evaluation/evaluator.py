"""`Evaluator`: builds, checks and times many kernels of one reference, and goes on whatever becomes of one."""

from __future__ import annotations

import contextlib
import json
import math
import os
import pickle
import random
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from multiprocessing.connection import Connection, wait
from types import TracebackType
from typing import Any

from dojoir.backends.registry import is_device
from dojoir.errors import ArgumentError, Diagnostic, KernelError, RunError
from dojoir.ir.nodes import Kernel
from dojoir.meaning.sizes import solve
from dojoir.passes.engine.engine import prove_unless_known
from dojoir.proof.wellformed import prove
from dojoir.runtime.build.compiler import check_kernel, check_target
from dojoir.runtime.build.pool import thread_count
from dojoir.runtime.call.needs import check_memory
from dojoir.runtime.evaluation.bench import Against, Job
from dojoir.runtime.evaluation.build import CODE_LIMIT
from dojoir.runtime.evaluation.evaluation import Evaluation
from dojoir.runtime.evaluation.fork_server import Setup
from dojoir.runtime.evaluation.paired_timing import RACE_SECONDS
from dojoir.runtime.evaluation.pool import FEWEST, SEEDS, InputCase, Pool, checks, fresh_folder
from dojoir.runtime.measurement.lease import holder
from dojoir.runtime.process.child import ERRORS, THREAD_VARIABLES, ending, search_path
from dojoir.runtime.process.forked import run_forked
from dojoir.runtime.process.memory_kills import killed_for_memory, memory_kills
from dojoir.runtime.verification.verify import REFERENCE_LIMIT, check_alike, check_outputs
from dojoir.support.frozen import dataclass
from dojoir.support.public import public

LEAK = 256 << 20
"""Bytes that a candidate may leave in its worker."""

TURNS = 400
"""How many candidates a worker does before a fresh one takes its place: each build leaves some 80 KB."""

FIRST_SEEDS, EACH = 2, 10
"""How many seeds the pool begins with, and after how many candidates it gets another one."""

WAITS = 3600.0
"""Seconds that a worker may wait for others that time."""

Sizes = Mapping[str, int] | Sequence[Mapping[str, int]]


@dataclass
class _Worker:
    """A process and what it is at."""

    connection: Connection
    pid: int
    kernel: Kernel
    deadline: float
    memory_kills: int | None
    stage: str = "build"
    since: float = 0.0


class Evaluator:
    """Evaluates kernels that stand for `reference` on `target` at `sizes`: one set of sizes or several.

    A context manager. Each kernel is built once in one of `workers` long-lived processes, run on all default sizes
    and distributions with its arrays between guard pages. It is timed on `threads` threads; some of these calls
    are looked at as well. Which of 16 seeds a kernel gets is drawn, from `seed`, once the kernel is known. One
    timing runs at a time on a machine, over all its processes.

    `cuda` and `hip` run on a GPU, timed by its events. Warm, as a graph that is started again, or `cold`, with
    other memory in its cache; with `emulated` on the CPU, checked as `verify` does, which is what is timed then.
    What `protocol` says must agree before two times are compared.

    Threads may share one: while one of them goes through what `evaluate` gives, others wait. Where one closes it
    meanwhile, the others get a RunError.

    A stage of a kernel (building it, checking it, timing it) may take `time_limit` seconds, and a worker
    `memory_limit` bytes of address space. Timing goes on for `race_seconds` at most where nothing is plain before,
    and for 3 samples at least. A kernel whose source (LLVM IR for `llvm`) has more than `code_limit` characters is
    not built, and is `build-failed` with that as the reason: LLVM takes up to a second for it. Where more than a
    hundredth of the codes of an output could not be compared, a kernel is `wrong`, but of those in `left_out`."""

    PROTOCOL = "evaluator 4"
    """The protocol by which kernels are built, verified and raced here; the number changes with it."""

    CODE_LIMIT = CODE_LIMIT

    @public
    def __init__(
        self,
        reference: Kernel,
        target: str,
        sizes: Sizes,
        *,
        threads: int = 1,
        workers: int = 1,
        seed: int = 0,
        time_limit: float = 10.0,
        memory_limit: int | None = None,
        cut: float = 3.0,
        code_limit: int = CODE_LIMIT,
        emulated: bool = False,
        cold: bool = False,
        race_seconds: float = RACE_SECONDS,
        left_out: Sequence[str] = (),
    ) -> None:
        """Raises KernelError for a reference that is wrong, ToolchainError and ArgumentError as `compile` does,
        and ArgumentError for sizes that do not fit it."""
        prove(check_kernel(reference, "evaluate"))
        self.reference, self.target = reference, check_target(target, emulated=emulated)
        self.threads, self.workers, self.seed = thread_count(threads), workers, seed
        if cold and (emulated or not is_device(self.target)):
            raise ArgumentError(
                "cold is for a GPU: a CPU is timed with what a call leaves in its caches", "bad-target"
            )
        self.emulated, self.cold = emulated, cold
        given = [sizes] if isinstance(sizes, Mapping) else list(sizes)
        if not given:
            raise ArgumentError("sizes is empty: give at least one", "no-sizes")
        if workers < 1:
            raise ArgumentError(f"workers must be a number from 1, not {workers}", "bad-arguments")
        if not (time_limit > 0 and cut > 1):
            message = f"time_limit must be above 0 and cut above 1, not {time_limit} and {cut}"
            raise ArgumentError(message, "bad-arguments")
        if not race_seconds > 0:
            raise ArgumentError(f"race_seconds must be above 0, not {race_seconds}", "bad-arguments")
        self.race_seconds = race_seconds
        check_outputs(reference, left_out)
        self.left_out = tuple(left_out)
        self.sizes = tuple(solve(reference, {}, one) for one in given)
        if code_limit < 1:
            raise ArgumentError(f"code_limit must be a number from 1, not {code_limit}", "bad-arguments")
        for one in self.sizes:
            check_memory(reference, one)
        self.code_limit = code_limit
        self.time_limit, self.memory_limit, self.cut = time_limit, memory_limit, cut
        self.count = 0
        self.until = self.lease_until = math.inf
        """Deadlines, as values of `time.monotonic`: of all work under way, and of waits for the machine's lease.
        What has not finished by then is `lost`."""

        self.waited_for = ""  # the last who timed on this machine while a kernel waited for that
        self._idle: list[tuple[Connection, int]] = []
        self._busy: dict[Connection, _Worker] = {}
        self._folder: tempfile.TemporaryDirectory[str] | None = None
        self._prepared: set[InputCase] = set()
        self._lock, self._at_work = threading.Lock(), 0

    @property
    def protocol(self) -> str:
        """How it times, in words: those of another protocol are other times."""
        way = " emulated" if self.emulated else " cold" if self.cold else ""
        return f"{self.PROTOCOL}{way}"

    # -- the processes -----------------------------------------------------------------------------------
    def __enter__(self) -> Evaluator:
        self._folder = fresh_folder()
        numbers = random.Random(self.seed).sample(range(1 << 31), SEEDS)
        limit = max(self.time_limit, REFERENCE_LIMIT)
        self._pool = Pool(
            self._folder.name, self.reference, self.target, self.sizes, tuple(numbers), limit, run_forked,
            self.left_out,
        )  # fmt: skip
        self._start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Ends all processes. A second time, nothing."""
        if self._folder is None:
            return
        for connection in [*self._busy, *(connection for connection, _ in self._idle)]:
            connection.close()
        self._busy, self._idle = {}, []
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(self._fork_server.pid, signal.SIGKILL)
        self._fork_server.wait()
        self._control.close()
        self._passing.close()
        self._folder.cleanup()
        self._folder = None
        self._prepared = set()

    def _start(self) -> None:
        """Starts the fork server."""
        own, its = socket.socketpair()
        environment = dict(os.environ, PYTHONPATH=os.pathsep.join(search_path()))
        environment |= dict.fromkeys(THREAD_VARIABLES, str(self.threads))
        try:
            self._fork_server = subprocess.Popen(
                [sys.executable, "-P", "-m", "dojoir.runtime.evaluation.fork_server", str(its.fileno())],
                pass_fds=(its.fileno(),),
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                env=environment,
                start_new_session=True,
            )
        except OSError as error:
            own.close()
            raise RunError(f"no process could be started: {error}", "no-process") from None
        finally:
            its.close()
        self._control, self._passing = Connection(os.dup(own.fileno())), own
        setup = Setup(
            self._pool, self.threads, self.cut, self.code_limit, self.emulated, self.cold, self.race_seconds,
            self.memory_limit, LEAK, TURNS,
        )  # fmt: skip
        self._control.send_bytes(pickle.dumps(setup))

    def _asked(self, request: Mapping[str, object], handle: int | None = None) -> dict[str, Any]:
        """The answer of the fork server. Raises RunError where it is gone, and the error of ours that it met."""
        try:
            self._control.send_bytes(json.dumps(request).encode())
            if handle is not None:
                socket.send_fds(self._passing, [b"x"], [handle])
            answer: dict[str, Any] = json.loads(self._control.recv_bytes())
        except (EOFError, OSError):
            raise RunError("the process that workers come from has ended", "no-process") from None
        if "raised" in answer:
            raise ERRORS[answer["raised"]](Diagnostic(answer["code"], answer["message"]))
        return answer

    def _fresh(self) -> tuple[Connection, int]:
        """A new worker."""
        own, its = socket.socketpair()
        with its:
            pid = self._asked({"fork": True}, its.fileno())["pid"]
        return Connection(own.detach()), pid

    def noise(self, kernel: Kernel) -> float:
        """By how much the time of a kernel differs from its own, as a share: the farther end of the interval of
        the ratio when it is raced against itself."""
        for found in self._evaluated((kernel,), kernel, "itself"):
            if found.ratio_interval is not None:
                return max(abs(end - 1) for end in found.ratio_interval)
        return 0.0

    def beside_full(self, kernel: Kernel) -> Evaluation:
        """A kernel as candidates are built, raced against its build with all of LLVM's passes: `ratio` is how many
        times as fast the quick build is. None where both are the same code."""
        (found,) = self._evaluated((kernel,), kernel, "full")
        return found

    # -- candidates --------------------------------------------------------------------------------------
    def evaluate(self, kernels: Iterable[Kernel], best: Kernel | None = None) -> Iterator[Evaluation]:
        """The result of each kernel, as it is known; a kernel is taken from `kernels` when a worker is free for
        it. Each is raced against `best`, if that is given. One whose well-formedness the checker does not decide
        in its steps is `build-failed`. Raises KernelError for one that is ill-formed, ArgumentError for one that
        does not take the arguments of the reference."""
        return self._evaluated((kernels,) if isinstance(kernels, Kernel) else kernels, best)

    def _evaluated(
        self, kernels: Iterable[Kernel], best: Kernel | None, against: Against = "best"
    ) -> Iterator[Evaluation]:
        if self._folder is None:
            raise ArgumentError(
                "an Evaluator works inside of `with`: with Evaluator(…) as evaluator", "bad-arguments"
            )
        with self._alone():
            try:
                yield from self._each(iter(kernels), best, against)
            except Exception:
                if self._folder is None:  # whatever another thread took away
                    raise RunError("this Evaluator was closed by another thread", "no-process") from None
                raise

    @contextlib.contextmanager
    def _alone(self) -> Iterator[None]:
        """Waits until no other thread evaluates. Raises ArgumentError where this one does already."""
        if self._at_work == threading.get_ident():
            raise ArgumentError(
                "this Evaluator is still at the kernels that it was given before: go through what evaluate gave, "
                "or close it, first",
                "bad-arguments",
            )
        with self._lock:
            self._at_work = threading.get_ident()
            try:
                yield
            finally:
                self._at_work = 0

    def _each(self, coming: Iterator[Kernel], best: Kernel | None, against: Against) -> Iterator[Evaluation]:
        open_ended = True
        try:
            while open_ended or self._busy:
                while open_ended and len(self._busy) < self.workers:
                    kernel = next(coming, None)
                    if kernel is None:
                        open_ended = False
                        break
                    try:
                        job = self._job(kernel, best, against)
                    except KernelError as error:
                        if error.diagnostic.code != "undecided":
                            raise
                        yield Evaluation(kernel.hash, "build-failed", reason=error.diagnostic.message)
                        continue
                    self._begin(job, kernel)
                if self._busy:
                    yield from self._heard()
        finally:
            for connection, worker in list(self._busy.items()):  # nobody asks for these any more
                self._ended(connection, worker, kill=True)

    def _job(self, kernel: Kernel, best: Kernel | None, against: Against = "best") -> Job:
        """A candidate with its cases, whose seeds nothing knows before."""
        prove_unless_known(check_kernel(kernel, "evaluate"))
        check_alike(kernel, self.reference)
        self.count += 1
        draw = random.Random(f"{self.seed} {kernel.hash} {self.count}")
        seeds = min(SEEDS, FIRST_SEEDS + self.count // EACH)
        small = tuple(
            InputCase(size, distribution, draw.randrange(seeds))
            for size, distribution in checks(self._pool, draw.randrange(1 << 16))
        )
        most = min(max(seeds, FEWEST), self._pool.timed_seeds)
        first = len(self._pool.small)
        timed = [self._pool.draw_timed(first + size, most, draw) for size in range(len(self.sizes))]
        wanted = [case for case in (*small, *(c for trio in timed for c in trio)) if case not in self._prepared]
        if wanted:
            self._asked({"prepare": wanted})
            self._prepared.update(wanted)
        return Job(kernel, small, tuple(timed), best, against, draw.randrange(1 << 31))

    def _begin(self, job: Job, kernel: Kernel) -> None:
        connection, pid = self._idle.pop() if self._idle else self._fresh()
        deadline = min(time.monotonic() + self.time_limit, self.until)
        worker = _Worker(connection, pid, kernel, deadline, memory_kills())
        self._busy[connection] = worker
        with contextlib.suppress(OSError):  # it is gone, which shows when it is heard
            connection.send_bytes(pickle.dumps(job))

    def _heard(self) -> Iterator[Evaluation]:
        """Waits for a message of some worker, or for the end of the time of one."""
        now = time.monotonic()
        first = min(worker.deadline for worker in self._busy.values())
        ready = wait(list(self._busy), max(0.0, first - now))
        for connection in ready:
            assert isinstance(connection, Connection)
            worker = self._busy[connection]
            try:
                message = json.loads(connection.recv_bytes())
            except (EOFError, OSError, ValueError):
                yield self._ended(connection, worker, kill=False)
                continue
            if "stage" in message:
                worker.stage, worker.since = message["stage"], time.monotonic()
                if worker.stage == "lease" and (by := holder()) is not None and by.pid != os.getpid():
                    self.waited_for = str(by)
                waits = worker.stage == "lease"
                limit, last = (WAITS, self.lease_until) if waits else (self.time_limit, math.inf)
                worker.deadline = min(time.monotonic() + limit, self.until, last)
                continue
            del self._busy[connection]
            if message["last"]:
                connection.close()
                self._asked({"reap": worker.pid, "kill": False})
            else:
                self._idle.append((connection, worker.pid))
            yield Evaluation.from_json(message["done"])
        now = time.monotonic()
        for connection, worker in list(self._busy.items()):
            if worker.deadline <= now and not connection.poll():
                yield self._ended(connection, worker, kill=True)

    def _ended(self, connection: Connection, worker: _Worker, kill: bool) -> Evaluation:
        """The result of a kernel whose worker has ended."""
        del self._busy[connection]
        connection.close()
        status: int = self._asked({"reap": worker.pid, "kill": kill})["status"]
        where = {"build": "while it was built", "verify": "while it was checked"}.get(
            worker.stage, "while it was timed"
        )
        if kill and worker.deadline in (self.until, self.lease_until):
            waited = time.monotonic() - worker.since if worker.stage == "lease" else 0.0
            if waited:
                by = holder()
                where = f"while it waited for others that time{f': {by}' if by else ''}"
            reason = f"the time for it ended {where}"
            return Evaluation(worker.kernel.hash, "lost", stages={"lease": waited}, reason=reason)
        if kill:
            reason = f"hung {where} (stopped after {self.time_limit:g} s)"
            return Evaluation(worker.kernel.hash, "hung", reason=reason)
        code = os.waitstatus_to_exitcode(status)
        if code == -signal.SIGKILL and not killed_for_memory(worker.memory_kills):
            return Evaluation(worker.kernel.hash, "lost", reason=f"its worker was killed from outside {where}")
        words = ending(code) or "ended without a result"
        return Evaluation(
            worker.kernel.hash, "memory" if code == -signal.SIGKILL else "crashed", reason=f"{words} {where}"
        )
