"""Many states over a cluster on this machine whose workers are killed: every state is accounted for.

    python benchmarks/cluster.py [STATES] [--every 100] [--workers 2] [--timer static]

The states are those of a random walk over softmax. After each `--every` of them a worker gets SIGKILL, and another
one joins. With the timer `static` nothing is built, so that the figure is that of the cluster itself. States are
drawn beforehand, and the rate is of those after the first, when workers have joined.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator
from random import Random

import dojoir
from dojoir.search.cluster import Cluster

SIZES = {"N": 64, "M": 96}


def started(address: str) -> subprocess.Popen[bytes]:
    """A worker, which joins within seconds."""
    return subprocess.Popen([sys.executable, "-m", "dojoir.verbs", "worker", address], stderr=subprocess.DEVNULL)


def walk(kernel: dojoir.Kernel, count: int) -> Iterator[dojoir.Kernel]:
    """Different states, none further than eight moves from the text."""
    random, seen = Random(0), {kernel.hash}
    trace = dojoir.Trace(kernel)
    while len(seen) <= count:
        for move in dojoir.draw(trace.kernel, random, 8, "llvm", dojoir.search.WEIGHTS):
            longer = trace.then(move)
            if longer.kernel.hash not in seen and len(seen) <= count:
                seen.add(longer.kernel.hash)
                yield longer.kernel
        trace = longer if len(trace.moves) < 8 else dojoir.Trace(kernel)


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("states", type=int, nargs="?", default=1000)
    parser.add_argument("--every", type=int, default=100)
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--timer", choices=("measure", "static"), default="static")
    given = parser.parse_args()
    from distributed import LocalCluster

    kernel = dojoir.kernels.load("softmax")
    with LocalCluster(
        n_workers=0, processes=True, host="127.0.0.1", dashboard_address="127.0.0.1:0", silence_logs=50
    ) as local:
        address = local.scheduler_address
        workers = [started(address) for _ in range(given.workers)]
        wanted: list[str] = []
        found: list[dojoir.Evaluation] = []
        states = [*walk(kernel, given.states)]
        kills, begin, first = 0, time.perf_counter(), 0.0

        def sent() -> Iterator[dojoir.Kernel]:
            for state in states:
                wanted.append(state.hash)
                yield state

        try:
            cluster = Cluster(
                address, kernel, kernel, "llvm", [SIZES], timer=given.timer, patience=120.0
            )  # fmt: skip
            with cluster:
                for evaluation in cluster.evaluate(sent()):
                    found.append(evaluation)
                    first = first or time.perf_counter()
                    if len(found) % given.every == 0:
                        workers[kills % len(workers)].kill()
                        workers[kills % len(workers)].wait()
                        workers[kills % len(workers)] = started(address)
                        kills += 1
        finally:
            for worker in workers:
                worker.kill()
                worker.wait()
    seconds = time.perf_counter() - begin
    missing = set(wanted) - {one.hash for one in found}
    twice = len(found) - len({one.hash for one in found})
    print(
        f"{len(wanted)} states, {kills} workers killed: {dict(Counter(one.status for one in found))}, "
        f"{len(missing)} missing, {twice} told twice, {seconds:.0f} s, timer {given.timer}, "
        f"{len(found) / (begin + seconds - first):.0f} a second after the first"
    )
    sys.exit(bool(missing or twice))


if __name__ == "__main__":
    main()
