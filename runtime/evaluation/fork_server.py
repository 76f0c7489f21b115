"""The process that workers are forked from: it has imported all, works out what is expected, and runs no
candidate.

`python -m dojoir.runtime.evaluation.fork_server FD` is started by an `Evaluator`, which it ends with. A worker is a
fork of it, so that the next one is there within milliseconds when a candidate has ended one.
"""

from __future__ import annotations

import json
import os
import pickle
import signal
import socket
import sys
from collections.abc import Mapping
from multiprocessing.connection import Connection

from dojoir.errors import DojoError
from dojoir.runtime.build import llvm_engine
from dojoir.runtime.evaluation.bench import CandidateBench, Job
from dojoir.runtime.evaluation.evaluation import Evaluation
from dojoir.runtime.evaluation.pool import InputCase, Pool
from dojoir.runtime.process.offspring import held_bytes
from dojoir.runtime.process.worker import die_with, die_with_all_of, limit_memory
from dojoir.support.frozen import dataclass
from dojoir.support.temporary import told_of_room


@dataclass(frozen=True)
class Setup:
    """The common settings of all workers of an evaluator. A worker that holds `leak` bytes more after a candidate
    than before it ends with it; one that has done `turns` candidates ends in peace."""

    pool: Pool
    threads: int
    cut: float
    code_limit: int
    emulated: bool
    cold: bool
    race_seconds: float
    memory_limit: int | None
    leak: int
    turns: int


def main() -> None:
    """Serves until the evaluator ends, or closes its end."""
    number = int(sys.argv[1])
    os.set_inheritable(number, False)
    control = Connection(os.dup(number))
    passing = socket.socket(fileno=number)
    setup: Setup = pickle.loads(control.recv_bytes())
    die_with_all_of(os.getppid())
    llvm_engine.host()
    while True:
        try:
            request = json.loads(control.recv_bytes())
        except (EOFError, OSError):
            os._exit(0)
        match request:
            case {"prepare": cases}:
                _send(control, _prepared(setup.pool, [InputCase(*case) for case in cases]))
            case {"fork": _}:
                _, (handle,), _, _ = socket.recv_fds(passing, 1, 1)
                pid = os.fork()
                if pid == 0:
                    passing.close()
                    control.close()
                    _work(setup, Connection(handle))
                os.close(handle)
                _send(control, {"pid": pid})
            case {"reap": pid, "kill": kill}:
                if kill:
                    os.kill(pid, signal.SIGKILL)
                _send(control, {"status": os.waitpid(pid, 0)[1]})


def _send(connection: Connection, message: Mapping[str, object]) -> None:
    connection.send_bytes(json.dumps(message).encode())


def _prepared(pool: Pool, cases: list[InputCase]) -> dict[str, object]:
    try:
        with told_of_room():
            for case in cases:
                pool.prepare(case)
    except DojoError as error:
        return {"raised": type(error).__name__, "code": error.diagnostic.code, "message": error.diagnostic.message}
    return {}


# -- a worker --------------------------------------------------------------------------------------------------
def _work(setup: Setup, connection: Connection) -> None:
    """Evaluates what comes until nothing more does. Never returns."""
    die_with(os.getppid())
    limit_memory(setup.memory_limit)
    bench = CandidateBench(
        setup.pool, setup.threads, setup.cut, setup.code_limit, setup.emulated, setup.cold, setup.race_seconds
    )
    cores = sorted(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else []

    def tell(stage: str) -> None:
        _keep_to(cores, stage, setup.threads)
        _send(connection, {"stage": stage})

    turn = 0
    while turn < setup.turns:
        try:
            job: Job = pickle.loads(connection.recv_bytes())
        except (EOFError, OSError):
            os._exit(0)
        turn += 1
        before = held_bytes()
        try:
            found = bench.evaluate(job, tell)
        except Exception as error:  # a bug of ours says nothing about the kernel
            reason = f"dojoir failed: {type(error).__name__}: {error}"
            found = Evaluation(job.kernel.hash, "lost", reason=reason)
        leaked = held_bytes() - before
        over = leaked > setup.leak
        if over:
            reason = f"it left {leaked >> 20} MiB behind"
            found = Evaluation(found.hash, "memory", stages=found.stages, reason=reason)
        try:
            _send(connection, {"done": found.to_json(), "last": over or turn == setup.turns})
        except OSError:  # nobody waits for it any more
            os._exit(0)
        if over:
            break
    os._exit(0)


def _keep_to(cores: list[int], stage: str, threads: int) -> None:
    """Times on the last cores, and builds on the others, where there are any."""
    if not cores:
        return
    last = cores[-threads:]
    others = cores[: -len(last)] or cores
    os.sched_setaffinity(0, last if stage == "time" or threads > 1 else others)


if __name__ == "__main__":
    main()
