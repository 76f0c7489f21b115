"""Searches that are killed, disks that are full, databases that die: nothing that was acknowledged may be lost.

    python benchmarks/killed.py driver [COUNT]   SIGKILL of the search at random moments, then --resume: same trace
    python benchmarks/killed.py worker [COUNT]   SIGKILL of workers that evaluate: every kernel comes to an end
    python benchmarks/killed.py disk             a full disk, a folder that cannot be written, a server that is none

The writer of a database is killed by `benchmarks/records.py kills`.
"""

from __future__ import annotations

import os
import resource
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from random import Random

import dojoir
from dojoir.records import Database, check

STATES = 30
KERNEL = "softmax"
SIZES = {"N": 64, "M": 96}


def command(folder: Path, seed: int, *more: str) -> list[str]:
    """A search from the shell, whose answer goes to a file."""
    sizes = [word for name, value in SIZES.items() for word in ("-s", f"{name}={value}")]
    return [
        sys.executable, "-m", "dojoir.verbs", "tune", f"library:{KERNEL}", *sizes, "--timer", "static",
        "--strategy", "evolve", "--seed", str(seed), "--states", str(STATES),
        "--save-trace", str(folder / "answer.json"), *more,
    ]  # fmt: skip


def quiet(words: list[str], limit: int | None = None) -> subprocess.Popen[str]:
    def small_files() -> None:
        if limit is not None:
            resource.setrlimit(resource.RLIMIT_FSIZE, (limit, limit))

    return subprocess.Popen(
        words, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, preexec_fn=small_files
    )


def driver(count: int) -> bool:
    """Kills a search at a random moment, some three times, and lets it come to its end."""
    random, wrong, kills = Random(0), [], 0
    while kills < count:
        seed = random.randrange(1000)
        with tempfile.TemporaryDirectory() as name:
            folder = Path(name)
            begin = time.perf_counter()
            quiet(command(folder, seed)).communicate()
            took = time.perf_counter() - begin
            whole = dojoir.Trace.load(folder / "answer.json")
            resumed = ["--db", str(folder / "run.db"), "--resume", "one"]
            for _ in range(3):
                process = quiet(command(folder, seed, *resumed))
                time.sleep(random.uniform(0.2, 1.1) * took)
                process.send_signal(signal.SIGKILL)
                process.communicate()
                kills += 1
            out, err = quiet(command(folder, seed, *resumed)).communicate()
            again = dojoir.Trace.load(folder / "answer.json")
            with Database(folder / "run.db") as database:
                sound = check(database).ok and len(database.results("one")) == STATES
            if again.kernel != whole.kernel or not sound:
                wrong.append(f"seed {seed}: {out}{err}")
    print(f"{kills} kills of the driver, {len(wrong)} resumed runs ended elsewhere", *wrong, sep="\n")
    return not wrong


def states(kernel: dojoir.Kernel) -> Iterator[dojoir.Kernel]:
    """Different states, without end."""
    yield from (dojoir.apply(kernel, f"split(0, {number})") for number in range(2, 10_000))


def worker(count: int) -> bool:
    """Kills the worker that evaluates at random moments: its kernel is told, the others are not hurt."""
    random, kernel = Random(0), dojoir.kernels.load(KERNEL)
    killed = 0
    statuses: Counter[str] = Counter()
    with dojoir.Evaluator(kernel, "llvm", SIZES) as evaluator:
        (first,) = evaluator.evaluate([kernel])
        assert first.ok, first.reason
        coming = states(kernel)
        while killed < count:
            workers = [int(pid) for pid in _workers(os.getpid())]
            child = os.fork()
            if not child:
                time.sleep(random.uniform(0, 0.3))
                for pid in workers:
                    os.kill(pid, signal.SIGKILL)
                os._exit(0)
            found = list(evaluator.evaluate([next(coming) for _ in range(3)]))
            os.waitpid(child, 0)
            random.random()
            killed += len(workers)
            statuses.update(one.status for one in found)
            assert len(found) == 3
        (last,) = evaluator.evaluate([next(coming)])
    print(f"{killed} kills of workers: {dict(statuses)}, then {last.status}")
    return last.ok and set(statuses) <= {"ok", "cut", "memory", "crashed"}


def _workers(parent: int) -> Iterator[str]:
    """The processes that an evaluator of this process has evaluate: children of its child."""
    for server in _children(parent):
        yield from _children(server)


def _children(pid: int | str) -> list[str]:
    return Path(f"/proc/{pid}/task/{pid}/children").read_text().split()


def disk() -> bool:
    """Each ends with the best so far, and says what could not be written; or says at once what cannot be."""
    good = True
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        for what, limit, db in (
            ("a full disk", 200_000, str(folder / "full.db")),
            ("a folder that cannot be written", None, "/proc/none.db"),
            ("no server", None, "postgresql://nobody@127.0.0.1:9/none"),
        ):
            process = quiet(command(folder, 1, "--db", db), limit)
            out, err = process.communicate()
            told = [line for line in (*out.splitlines(), *err.splitlines()) if "writ" in line or "error" in line]
            good &= bool(told) and "Traceback" not in err and process.returncode in (0, 1, 3, 4)
            print(f"{what}: status {process.returncode}", *told[:2], sep="\n    ")
    return good


if __name__ == "__main__":
    what, number = sys.argv[1], int(sys.argv[2]) if len(sys.argv) > 2 else 100
    done = {"driver": lambda: driver(number), "worker": lambda: worker(number), "disk": disk}[what]()
    sys.exit(not done)
