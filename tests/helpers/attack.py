"""The attack: hostile texts, arguments, files and processes, in any number; the summary says what broke, by family.

    python tests/helpers/attack.py --minutes 60 --seed 1
    python tests/helpers/attack.py --only arguments --minutes 5 --jobs 1 --results attack.jsonl
    python tests/helpers/attack.py --case arguments:17 --seed 1

Each family runs in child processes, which may crash, hang or take all their memory; they share `--minutes` of
processor time. Case `n` of a family depends on the seed, the family and `n` alone; `--case` runs it again. Prints
each failure in its smallest form, and a line for each family at the end; exits 1 if any failed.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import selectors
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from random import Random

FAMILIES: dict[str, float] = {
    "arguments": 4, "moves": 3, "mutations": 2, "walks": 3, "caches": 1, "traces": 2, "schedules": 1, "kills": 1,
    "forks": 1, "names": 1,
}  # fmt: skip
"""The families, and the share of the time that each has."""

MOST_MEMORY = 12 << 30
"""Bytes of address space that a child may take: what asks for more fails there, and nowhere else."""


def child(family: str, first: int, seed: int) -> None:
    """Runs cases of a family, a line of JSON before and after each, until it is killed."""
    resource.setrlimit(resource.RLIMIT_AS, (MOST_MEMORY, MOST_MEMORY))
    from attacks import case, describe

    os.chdir(tempfile.mkdtemp(prefix="dojoir-attack-"))  # a wrong argument may be a right name of a file
    number = first
    while True:
        what = describe(family, Random(f"{seed}:{family}:{number}"))
        print(json.dumps({"begin": number, "what": what}), flush=True)
        failures, counts = case(family, Random(f"{seed}:{family}:{number}"))
        print(json.dumps({"end": number, "failures": failures, "counts": counts}), flush=True)
        number += 1


@dataclass
class Family:
    """What came of one family so far."""

    name: str
    budget: float
    spent: float = 0.0
    ran: int = 0
    failed: int = 0
    checks: int = 0
    kinds: Counter[str] = field(default_factory=Counter)
    next: int = 0


@dataclass
class Worker:
    """A child of a family, and the case that it is at."""

    family: Family
    process: subprocess.Popen[bytes]
    current: int = -1
    what: str = ""
    began: float = 0.0
    since: float = field(default_factory=time.monotonic)
    buffered: bytes = b""
    counted: float = 0.0
    """Seconds of processor time that the family was charged for already."""

    def worked(self) -> float:
        """Seconds of processor time of the child and of the children that it waited for."""
        try:
            stat = Path(f"/proc/{self.process.pid}/stat").read_text(encoding="ascii").rpartition(")")[2].split()
        except OSError:
            return self.counted
        return sum(map(int, stat[11:15])) / os.sysconf("SC_CLK_TCK")

    def charge(self) -> None:
        worked = self.worked()
        self.family.spent += max(0.0, worked - self.counted)
        self.counted = max(worked, self.counted)


class Attack:
    def __init__(self, options: argparse.Namespace) -> None:
        self.options = options
        names = options.only.split(",") if options.only else [*FAMILIES]
        total = sum(FAMILIES[name] for name in names)
        seconds = options.minutes * 60
        self.families = [Family(name, seconds * FAMILIES[name] / total, next=options.first) for name in names]
        self.selector = selectors.DefaultSelector()
        self.seen: Counter[str] = Counter()

    def run(self) -> int:
        """Runs until all families have had their time, or it is told to end; the summary is printed anyhow."""
        running: list[Worker] = []
        signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
        try:
            self._attack(running)
        except (KeyboardInterrupt, SystemExit) as error:
            print(f"ended before its time: {error!r}")
            for worker in running:
                os.killpg(worker.process.pid, signal.SIGKILL)
        return self._summary()

    def _attack(self, running: list[Worker]) -> None:
        while True:
            waiting = [f for f in self.families if f.spent < f.budget and all(w.family is not f for w in running)]
            while waiting and len(running) < self.options.jobs:
                running.append(self._start(waiting.pop(0)))
            if not running:
                break
            for key, _ in self.selector.select(1.0):
                self._hear(key.data)
            for worker in list(running):
                worker.charge()
                if self._over(worker):
                    running.remove(worker)

    def _start(self, family: Family) -> Worker:
        command = [
            sys.executable,
            __file__,
            "--child",
            family.name,
            str(family.next),
            "--seed",
            str(self.options.seed),
        ]
        errors = open(os.devnull, "wb")  # noqa: SIM115
        process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=errors, start_new_session=True)
        errors.close()
        assert process.stdout is not None
        os.set_blocking(process.stdout.fileno(), False)
        worker = Worker(family, process)
        self.selector.register(process.stdout, selectors.EVENT_READ, worker)
        return worker

    def _hear(self, worker: Worker) -> None:
        assert worker.process.stdout is not None
        worker.buffered += worker.process.stdout.read() or b""
        *lines, worker.buffered = worker.buffered.split(b"\n")
        for line in lines:
            message = json.loads(line)
            if "begin" in message:
                worker.current, worker.what = message["begin"], message["what"]
                worker.began, worker.since = worker.worked(), time.monotonic()
                continue
            family = worker.family
            family.next, family.ran = message["end"] + 1, family.ran + 1
            family.checks += message["counts"].get("checks", 1)
            for failure in message["failures"]:
                self._report(family, message["end"], failure)

    def _over(self, worker: Worker) -> bool:
        """Whether the child is at its end: by itself, since its family has had its time, or since it hangs."""
        limit = self.options.limit
        late = worker.worked() - worker.began > limit or time.monotonic() - worker.since > 20 * limit
        enough = worker.family.spent >= worker.family.budget
        status = worker.process.poll()
        if status is None and not (late or enough):
            return False
        if status is None:
            os.killpg(worker.process.pid, signal.SIGKILL)
            worker.process.wait()
        self._hear(worker)
        assert worker.process.stdout is not None
        self.selector.unregister(worker.process.stdout)
        worker.process.stdout.close()
        if late or not enough:
            how = f"no answer in {limit} s" if late else f"ended with status {status}"
            worker.family.ran += 1
            worker.family.next = max(worker.family.next, worker.current + 1)
            self._report(worker.family, worker.current, f"{worker.what}: {how}")
        return True

    def _report(self, family: Family, number: int, failure: str) -> None:
        family.failed += 1
        kind = failure[:70]
        family.kinds[kind] += 1
        if self.options.results:
            with open(self.options.results, "a", encoding="utf-8") as file:
                record = {"family": family.name, "seed": self.options.seed, "number": number, "failure": failure}
                file.write(json.dumps(record) + "\n")
        self.seen[kind] += 1
        if self.seen[kind] <= 3:
            print(f"--- {family.name}:{number} (seed {self.options.seed})\n{failure.rstrip()}\n", flush=True)

    def _summary(self) -> int:
        print(f"{'family':<12} {'cases':>8} {'checks':>9} {'failures':>9} {'kinds':>6} {'CPU s':>8}")
        for family in self.families:
            row = f"{family.name:<12} {family.ran:>8} {family.checks:>9} {family.failed:>9} {len(family.kinds):>6}"
            print(f"{row} {family.spent:>8.0f}")
        return 1 if any(family.failed for family in self.families) else 0


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--minutes", type=float, default=1.0, help="processor time of all families together")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--first", type=int, default=0, help="the number of the first case of each family")
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("--limit", type=float, default=60, help="seconds of processor time that one case may take")
    parser.add_argument("--only", metavar="FAMILY,…", help=f"of {', '.join(FAMILIES)}")
    parser.add_argument("--results", metavar="FILE", help="add each failure to this file as a line of JSON")
    parser.add_argument("--case", metavar="FAMILY:NUMBER", help="run one case in this process")
    parser.add_argument("--child", nargs=2, help=argparse.SUPPRESS)
    options = parser.parse_args()
    sys.path.insert(0, str(Path(__file__).parent))
    if options.child:
        child(options.child[0], int(options.child[1]), options.seed)
    if options.case:
        from attacks import case, describe

        family, number = options.case.split(":")
        print(describe(family, Random(f"{options.seed}:{family}:{number}")))
        failures, counts = case(family, Random(f"{options.seed}:{family}:{number}"))
        print(*failures, dict(counts), sep="\n")
        return 1 if failures else 0
    return Attack(options).run()


if __name__ == "__main__":
    sys.exit(main())
