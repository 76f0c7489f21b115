"""The database at a million rows, and under SIGKILL.

python benchmarks/records.py rows [COUNT]      fills a file with COUNT rows (10^6) and times `top`, `known`, `best`
python benchmarks/records.py kills [COUNT]     kills a writer at COUNT (100) random moments; nothing may be lost
"""

from __future__ import annotations

import json
import os
import signal
import sys
import tempfile
import time
from pathlib import Path
from random import Random

import dojoir
from dojoir.records import Database, Known, check
from dojoir.records.contexts import here
from dojoir.records.schema import builds, measurements, states, verifications

SIZES = {"N": 1024, "M": 1024}


def result(kernel: dojoir.Kernel, seconds: float, digest: str = "") -> Known:
    return Known(kernel.hash, "ok", seconds, (seconds, seconds), (seconds,), 3, digest, {}, "")


def fill(database: Database, count: int) -> None:
    """States that nobody made, in eight contexts of one kernel: `top` does not look at what they are."""
    random = Random(0)
    kernel = dojoir.kernels.load("softmax")
    with database.writing() as connection:
        row = database.kernel_row(connection, kernel)
        root = database.chain_rows(connection, row, [(kernel.hash, None)])
        protocols = ["measure", *(f"measure {i}" for i in range(1, 8))]
        numbers = [
            database.context_row(connection, row, kernel.hash, here("llvm", SIZES, 1, protocol, kernel))
            for protocol in protocols
        ]
    for begin in range(0, count, 20_000):
        many = range(begin + 1, min(begin + 20_000, count) + 1)
        with database.writing() as connection:
            connection.execute(states.insert(), [
                {"id": root + i, "kernel": row, "hash": f"{i:064x}", "parent": root,
                 "move": "split(0, 8)", "length": 1}
                for i in many
            ])  # fmt: skip
            connection.execute(builds.insert(), [
                {"id": i, "state": root + i, "context": numbers[i % 8], "digest": "", "status": "ok", "reason": "",
                 "stages": "{}", "run": None, "made": 0.0}
                for i in many
            ])  # fmt: skip
            connection.execute(verifications.insert(), [{"build": i, "cases": 3} for i in many])
            connection.execute(measurements.insert(), [
                {"build": i, "state": root + i, "context": numbers[i % 8], "seconds": random.random(), "low": 0.0,
                 "high": 1.0, "samples": "[]"}
                for i in many
            ])  # fmt: skip


def timed(what: str, call: object, repeats: int = 20) -> None:
    assert callable(call)
    seconds = []
    for _ in range(repeats):
        begin = time.perf_counter()
        call()
        seconds.append(time.perf_counter() - begin)
    seconds.sort()
    print(f"{what:8} median {seconds[len(seconds) // 2] * 1e3:7.2f} ms, worst {seconds[-1] * 1e3:7.2f} ms")


def rows(count: int) -> None:
    with tempfile.TemporaryDirectory() as folder, Database(Path(folder, "rows.db")) as database:
        begin = time.perf_counter()
        fill(database, count)
        print(f"{json.dumps(database.stats())}, filled in {time.perf_counter() - begin:.0f} s")
        kernel = dojoir.kernels.load("softmax")
        timed("top", lambda: database.top("softmax"))
        timed("known", lambda: database.known(kernel, f"{count // 2:064x}", sizes=SIZES, threads=1))
        trace = dojoir.Trace(kernel).then("split(0, 4)")
        timed("record", lambda: database.record(trace, result(trace.kernel, 1e-9), sizes=SIZES, threads=1))
        timed("best", lambda: database.best(kernel, "llvm", SIZES, 1), 3)


def kills(count: int) -> None:
    random = Random(0)
    trace = dojoir.Trace(dojoir.kernels.load("relu")).then("split(0, 4)")
    said: set[int] = set()
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "kills.db")
        with Database(path) as database:
            said.add(database.record(trace, result(trace.kernel, 1e-3), sizes=SIZES, threads=1))
        for turn in range(count):
            read, write = os.pipe()
            child = os.fork()
            if not child:
                with Database(path) as database, os.fdopen(write, "w") as out:
                    while True:
                        number = database.record(
                            trace, result(trace.kernel, 1e-3, str(turn)), sizes=SIZES, threads=1
                        )
                        out.write(f"{number}\n")
                        out.flush()
            os.close(write)
            with os.fdopen(read) as lines:
                said.add(int(lines.readline()))
                time.sleep(random.uniform(0.0, 0.05))
                os.kill(child, signal.SIGKILL)
                os.waitpid(child, 0)
                said |= {int(line) for line in lines.read().split("\n")[:-1] if line}
        with Database(path) as database:
            with database.reading() as connection:
                found = set(connection.execute(builds.select().with_only_columns(builds.c.id)).scalars())
            stats = database.stats()
            lost = len(said - found)
            whole = stats["builds"] == stats["verifications"] == stats["measurements"]
            sound = check(database).ok
        print(
            f"{count} kills, {len(said)} rows acknowledged, {lost} lost, rows whole: {whole}, file sound: {sound}"
        )
        sys.exit(bool(lost or not whole or not sound))


if __name__ == "__main__":
    what, number = sys.argv[1], int(sys.argv[2]) if len(sys.argv) > 2 else 0
    rows(number or 10**6) if what == "rows" else kills(number or 100)
