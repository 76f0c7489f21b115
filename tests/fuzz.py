"""Random kernels, texts, walks and faults in any number, each in a child process that may crash or hang.

    python tests/fuzz.py --kernels 10000 --mutations 10000 --walks 2000 --faults 5000 --seed 0 --jobs 2

Case `n` of a kind depends on the seed, the kind and `n` alone: `--only walks:17` runs that one again. Prints each
failure with its kernel and what it was cut down to, then how many cases ran; exits 1 if any failed. `--precision`
prints how many refused moves would have done no harm, by move.
"""

from __future__ import annotations

import argparse
import json
import os
import selectors
import signal
import subprocess
import sys
import time
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from typing import Any

KINDS = ("kernels", "mutations", "walks", "faults")
BATCH = 50
"""Cases of one child."""


# -- in the child ------------------------------------------------------------------------------------------
def run_case(kind: str, number: int, options: argparse.Namespace) -> dict[str, Any]:
    """One case: what failed, if anything, and what was counted."""
    from cases import case

    return case(kind, Random(f"{options.seed}:{kind}:{number}"), options.fast, options.precision)


def child(kind: str, first: int, count: int, options: argparse.Namespace) -> None:
    for number in range(first, first + count):
        print(json.dumps({"begin": number}), flush=True)
        print(json.dumps({"end": number, **run_case(kind, number, options)}), flush=True)


# -- in the parent -----------------------------------------------------------------------------------------
@dataclass
class Worker:
    """A child and the cases it has left."""

    kind: str
    process: subprocess.Popen[bytes]
    last: int
    current: int
    began: float = field(default_factory=time.monotonic)
    buffered: bytes = b""


def start(kind: str, first: int, last: int, options: argparse.Namespace) -> Worker:
    command = [
        sys.executable,
        __file__,
        "--child",
        kind,
        str(first),
        str(last - first),
        "--seed",
        str(options.seed),
    ]
    command += [flag for flag in ("--fast", "--precision") if getattr(options, flag[2:])]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, start_new_session=True)
    assert process.stdout is not None
    os.set_blocking(process.stdout.fileno(), False)
    return Worker(kind, process, last, first)


class Fuzz:
    def __init__(self, options: argparse.Namespace) -> None:
        self.options = options
        self.selector = selectors.DefaultSelector()
        self.waiting: list[tuple[str, int, int]] = []
        self.done: Counter[str] = Counter()
        self.failed: Counter[str] = Counter()
        self.counts: Counter[str] = Counter()

    def run(self) -> int:
        for kind in KINDS:
            first, total = self.options.first, getattr(self.options, kind)
            self.waiting += [(kind, n, min(n + BATCH, first + total)) for n in range(first, first + total, BATCH)]
        started = time.monotonic()
        running: list[Worker] = []
        while self.waiting or running:
            late = time.monotonic() - started > self.options.minutes * 60
            while self.waiting and len(running) < self.options.jobs and not late:
                running.append(self._launch(*self.waiting.pop(0)))
            if late and not running:
                break
            for key, _ in self.selector.select(1.0):
                self._hear(key.data)
            for worker in list(running):
                if self._finished(worker):
                    running.remove(worker)
        self._summary(time.monotonic() - started)
        return 1 if self.failed else 0

    def _launch(self, kind: str, first: int, last: int) -> Worker:
        worker = start(kind, first, last, self.options)
        assert worker.process.stdout is not None
        self.selector.register(worker.process.stdout, selectors.EVENT_READ, worker)
        return worker

    def _hear(self, worker: Worker) -> None:
        assert worker.process.stdout is not None
        worker.buffered += worker.process.stdout.read() or b""
        *lines, worker.buffered = worker.buffered.split(b"\n")
        for line in lines:
            try:
                message = json.loads(line)
            except ValueError:
                continue
            if "begin" in message:
                worker.current, worker.began = message["begin"], time.monotonic()
            else:
                worker.current = message["end"] + 1
                self.done[worker.kind] += 1
                self.counts.update(message["counts"])
                for failure in message["failures"]:
                    self._report(worker.kind, message["end"], failure)

    def _finished(self, worker: Worker) -> bool:
        status = worker.process.poll()
        hung = status is None and time.monotonic() - worker.began > self.options.limit
        if hung:
            os.killpg(worker.process.pid, signal.SIGKILL)
            worker.process.wait()
        elif status is None:
            return False
        self._hear(worker)
        assert worker.process.stdout is not None
        self.selector.unregister(worker.process.stdout)
        worker.process.stdout.close()
        if worker.current < worker.last:
            how = f"no answer within {self.options.limit} s" if hung else f"ended with status {status}"
            self.done[worker.kind] += 1
            self._report(worker.kind, worker.current, {"what": how, "text": "", "minimal": ""})
            if worker.current + 1 < worker.last:
                self.waiting.append((worker.kind, worker.current + 1, worker.last))
        return True

    def _report(self, kind: str, number: int, failure: dict[str, str]) -> None:
        self.failed[kind] += 1
        print(f"--- {kind}:{number} (seed {self.options.seed}): {failure['what']}")
        if failure["text"]:
            print(failure["text"].rstrip())
        if failure["minimal"]:
            print("--- cut down to:")
            print(failure["minimal"].rstrip())
        print(flush=True)

    def _summary(self, seconds: float) -> None:
        for kind in KINDS:
            if self.done[kind]:
                print(f"{kind}: {self.done[kind]} ran, {self.failed[kind]} failures")
        for name in sorted(n for n in self.counts if "/" not in n):
            print(f"  {name}: {self.counts[name]}")
        if self.options.precision:
            self._precision()
        print(f"{seconds:.0f} s")

    def _precision(self) -> None:
        rows = sorted({tuple(n.split("/")[1:]) for n in self.counts if n.startswith("refused/")})
        print(f"{'move':<16} {'code':<20} {'refused':>8} {'harmless':>9} {'':>7}")
        for move, code in rows:
            refused, harmless = (self.counts[f"{what}/{move}/{code}"] for what in ("refused", "harmless"))
            print(f"{move:<16} {code:<20} {refused:>8} {harmless:>9} {harmless / refused:>7.1%}")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    for kind in KINDS:
        parser.add_argument(f"--{kind}", type=int, default=0, metavar="COUNT")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--first", type=int, default=0, help="the number of the first case of each kind")
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--minutes", type=float, default=1e9, help="start no new child after this time")
    parser.add_argument("--limit", type=float, default=120, help="seconds that one case may take")
    parser.add_argument("--fast", action="store_true", help="leave out the C target and cutting down")
    parser.add_argument("--precision", action="store_true")
    parser.add_argument("--only", metavar="KIND:NUMBER", help="run one case in this process")
    parser.add_argument("--child", nargs=3, help=argparse.SUPPRESS)
    options = parser.parse_args()
    sys.path.insert(0, str(Path(__file__).parent))
    if options.child:
        kind, first, count = options.child
        child(kind, int(first), int(count), options)
        return 0
    if options.only:
        kind, number = options.only.split(":")
        result = run_case(kind, int(number), options)
        for failure in result["failures"]:
            print(failure["what"], failure["text"], failure["minimal"], sep="\n")
        return 1 if result["failures"] else 0
    return Fuzz(options).run()


if __name__ == "__main__":
    sys.exit(main())
