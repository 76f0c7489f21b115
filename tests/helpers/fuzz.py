"""Random kernels, texts, walks and faults in any number, each in a child process that may crash or hang.

    python tests/helpers/fuzz.py --kernels 10000 --mutations 10000 --walks 2000 --faults 5000 --seed 0 --jobs 2
    python tests/helpers/fuzz.py --walks 20000 --small 0.9 --results walks.jsonl --minutes 60
    python tests/helpers/fuzz.py --errors 20000 --jobs 16 --results errors.jsonl
    python tests/helpers/fuzz.py --gpu 500 --copies 300 --states 200 --arguments 2000 --kills 100
    python tests/helpers/fuzz.py --summary walks.jsonl

Case `n` of a kind depends on the seed, the kind, the options and `n` alone: `--only walks:17` runs that one again.
Prints each failure with its kernel and what it was cut down to, then how many cases ran; exits 1 if any failed.
With `--results` each case is a line of JSON added to a file, and the next run with that seed goes on after the last
of them; `--summary` prints what such a file holds.
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
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from typing import Any

HOSTILE = ("arguments", "moves", "caches", "traces", "schedules", "kills", "forks", "names")
"""The families of `attacks.py`."""

KINDS = (
    "kernels", "mutations", "walks", "faults", "claims", "blurred", "errors", "effects", "padded", "gpu", "copies",
    "states", "footprints", "foot-texts", "library", "practice", *HOSTILE,
)  # fmt: skip
BATCH = 100
"""Cases of one child."""


# -- in the child ------------------------------------------------------------------------------------------
def run_case(kind: str, number: int, options: argparse.Namespace) -> dict[str, Any]:
    """One case: what failed, if anything, and what was counted."""
    from cases import case

    random, targets = Random(f"{options.seed}:{kind}:{number}"), tuple(options.targets.split(","))
    return case(kind, number, random, options.fast, options.small, targets)


def child(kind: str, first: int, count: int, options: argparse.Namespace) -> None:
    for number in range(first, first + count):
        print(json.dumps({"begin": number}), flush=True)
        began = time.process_time()
        result = run_case(kind, number, options)
        print(json.dumps({"end": number, "seconds": time.process_time() - began, **result}), flush=True)


# -- in the parent -----------------------------------------------------------------------------------------
@dataclass
class Worker:
    """A child and the cases it has left."""

    kind: str
    process: subprocess.Popen[bytes]
    last: int
    current: int
    began: float = 0.0
    """How long the child had worked when the current case began, in seconds."""
    since: float = field(default_factory=time.monotonic)
    buffered: bytes = b""
    at: str = ""
    """What the child says that it is about to do."""

    def worked(self) -> float:
        """Seconds of processor time of the child: a child that others keep from working does not hang. Where the
        system does not tell, the seconds that went by."""
        try:
            with open(f"/proc/{self.process.pid}/stat", encoding="ascii") as file:
                user, system = file.read().rpartition(")")[2].split()[11:13]
        except (OSError, ValueError):
            return time.monotonic()
        return (int(user) + int(system)) / os.sysconf("SC_CLK_TCK")

    def hangs(self, limit: float) -> bool:
        """Whether the case has worked longer than `limit` seconds, or waited ten times as long."""
        return self.worked() - self.began > limit or time.monotonic() - self.since > 10 * limit


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
    command += ["--small", str(options.small), "--targets", options.targets, *(["--fast"] if options.fast else [])]
    errors = subprocess.DEVNULL if kind in HOSTILE else None
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=errors, start_new_session=True)
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

    def _first(self, kind: str) -> int:
        """The number of the first case to run: after those that the file of results has."""
        numbers = [r["number"] for r in records(self.options.results) if r["kind"] == kind and self._is_mine(r)]
        return max([self.options.first, *(number + 1 for number in numbers)])

    def _is_mine(self, record: dict[str, Any]) -> bool:
        return (record["seed"], record["small"]) == (self.options.seed, self.options.small)

    def run(self) -> int:
        for kind in KINDS:
            first, total = self._first(kind), getattr(self.options, kind.replace("-", "_"))
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
            if "at" in message:
                worker.at = message["at"]
            elif "begin" in message:
                worker.current = message["begin"]
                worker.began, worker.since, worker.at = worker.worked(), time.monotonic(), ""
            else:
                worker.current = message["end"] + 1
                self.done[worker.kind] += 1
                self.counts.update(message["counts"])
                self._record(worker.kind, message["end"], message)
                for failure in message["failures"]:
                    self._report(worker.kind, message["end"], failure)

    def _finished(self, worker: Worker) -> bool:
        status = worker.process.poll()
        hung = status is None and worker.hangs(self.options.limit)
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
            failure = {"what": how, "text": worker.at, "minimal": ""}
            self._record(worker.kind, worker.current, {"seconds": 0.0, "counts": {}, "failures": [failure]})
            self._report(worker.kind, worker.current, failure)
            if worker.current + 1 < worker.last:
                self.waiting.append((worker.kind, worker.current + 1, worker.last))
        return True

    def _record(self, kind: str, number: int, message: dict[str, Any]) -> None:
        if self.options.results is None:
            return
        options = self.options
        record = {"kind": kind, "seed": options.seed, "small": options.small, "number": number}
        record |= {"version": options.version} | {name: message[name] for name in ("seconds", "counts", "failures")}
        with open(options.results, "a", encoding="utf-8") as file:
            file.write(json.dumps(record) + "\n")

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
        for name in sorted(self.counts):
            print(f"  {name}: {self.counts[name]}")
        print(f"{seconds:.0f} s")


# -- results -----------------------------------------------------------------------------------------------
def records(path: str | None) -> Iterator[dict[str, Any]]:
    """The cases that a file of results holds."""
    if path is not None and os.path.exists(path):
        with open(path, encoding="utf-8") as file:
            yield from (json.loads(line) for line in file if line.endswith("\n"))


def summary(path: str) -> int:
    """Prints what a file of results holds, by version and kind."""
    groups: dict[tuple[str, str], list[dict[str, Any]]] = {}
    for record in records(path):
        groups.setdefault((record["kind"], record["version"]), []).append(record)
    print(f"{'kind':<10} {'version':<12} {'cases':>8} {'moves':>9} {'failures':>9} {'CPU s':>8} {'ms/move':>8}")
    counts: Counter[str] = Counter()
    for (kind, version), group in groups.items():
        mine: Counter[str] = Counter()
        for record in group:
            mine.update(record["counts"])
        counts += mine
        failed, seconds = sum(bool(r["failures"]) for r in group), sum(r["seconds"] for r in group)
        each = 1000 * seconds / max(mine["moves"], 1)
        print(
            f"{kind:<10} {version:<12} {len(group):>8} {mine['moves']:>9} {failed:>9} {seconds:>8.0f} {each:>8.1f}"
        )
    made = {name: count for name, count in counts.items() if name.startswith("made ")}
    print("\nmoves made, by family")
    for name, count in sorted(made.items(), key=lambda item: -item[1]):
        print(f"  {name.removeprefix('made '):<20} {count:>8}")
    print("\nwhat was counted besides")
    for name in sorted(counts.keys() - made.keys()):
        print(f"  {name:<40} {counts[name]:>8}")
    print("\nslowest cases")
    everything = [record for group in groups.values() for record in group]
    for record in sorted(everything, key=lambda r: -r["seconds"])[:8]:
        print(f"  {record['kind']}:{record['number']} (seed {record['seed']}) {record['seconds']:.1f} s")
    wrong = [record for record in everything if record["failures"]]
    for record in wrong:
        for failure in record["failures"]:
            print(f"\n--- {record['kind']}:{record['number']} (seed {record['seed']}): {failure['what']}")
            print(failure["text"].rstrip())
    return 1 if wrong else 0


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    for kind in KINDS:
        parser.add_argument(f"--{kind}", type=int, default=0, metavar="COUNT")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--first", type=int, default=0, help="the number of the first case of each kind")
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--minutes", type=float, default=1e9, help="start no new child after this time")
    parser.add_argument("--limit", type=float, default=400, help="seconds of processor time that one case may take")
    parser.add_argument("--fast", action="store_true", help="leave out the C target and cutting down")
    parser.add_argument("--small", type=float, default=0.5, help="how often a walk is on a small kernel")
    parser.add_argument("--results", metavar="FILE", help="add each case to this file, and go on where it ends")
    parser.add_argument("--version", default="", help="what to call this version of the code in the results")
    parser.add_argument("--summary", metavar="FILE", help="print what a file of results holds")
    parser.add_argument("--only", metavar="KIND:NUMBER", help="run one case in this process")
    parser.add_argument("--child", nargs=3, help=argparse.SUPPRESS)
    parser.add_argument("--targets", default="llvm,c,avx2,avx512,cuda", help="of footprints, library and practice")
    options = parser.parse_args()
    signal.signal(signal.SIGPIPE, signal.SIG_DFL)  # what prints into a pipe that nobody reads ends
    sys.path.insert(0, str(Path(__file__).parent))
    if options.summary:
        return summary(options.summary)
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
