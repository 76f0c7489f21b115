"""What certificates cost: of every stored schedule for CPUs, and of the default one of every library kernel.

    python benchmarks/certify.py [--kept FILE] [KERNEL …]

Seconds of CPU time, in a thread that has kept no answers: the moves made with the checker's shortcuts, and then
`certify`, which asks the core alone. With `--kept` each row is a line of JSON added to the file, and the next run
goes on after those that are there. The rows come sorted by `certify`, the longest first, with the sums.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterator
from pathlib import Path
from threading import Thread
from time import process_time

import dojoir

Row = tuple[str, int, float, float]
"""What it is, its moves, seconds with shortcuts, seconds of `certify`."""


def subjects(name: str) -> Iterator[tuple[str, dojoir.Trace]]:
    """The stored schedules of a kernel for CPUs and its default one, each as a trace."""
    kernel = dojoir.kernels.load(name)
    for stored in dojoir.schedules.schedules(name):
        if ".gpu" not in stored.path:  # those ask for fixed sizes
            yield stored.path, stored.on(kernel.with_fp(stored.fp) if stored.fp else kernel)
    machine = dojoir.machine_for("avx512")
    yield f"{name} by rule", dojoir.PASSES["default_schedule"].for_machine(machine).on(kernel)


def measured(what: str, trace: dojoir.Trace) -> Row:
    """The row of one trace. Raises AssertionError where it is not certified."""
    taken: list[float] = []

    def go() -> None:
        started = process_time()
        trace.replay()
        replayed = process_time()
        verdict = dojoir.certify(trace)
        assert verdict, f"{what}: {verdict}"
        taken.extend((replayed - started, process_time() - replayed))

    thread = Thread(target=go)
    thread.start()
    thread.join()
    replay, certify = taken
    return what, len(trace.moves), replay, certify


def rows(names: list[str], kept: Path | None) -> list[Row]:
    """A row for each schedule, those that the file has from there."""
    lines = kept.read_text(encoding="utf-8").splitlines() if kept and kept.exists() else []
    found: dict[str, Row] = {row[0]: tuple(row) for row in map(json.loads, lines)}
    for name in names:
        for what, trace in subjects(name):
            if what not in found:
                found[what] = measured(what, trace)
                if kept:
                    with kept.open("a", encoding="utf-8") as out:
                        out.write(json.dumps(found[what]) + "\n")
    return list(found.values())


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("kernels", nargs="*", default=dojoir.kernels.names())
    parser.add_argument("--kept", type=Path, metavar="FILE")
    given = parser.parse_args()
    found = rows(given.kernels, given.kept)
    print("| schedule | moves | with shortcuts | `certify` |\n|---|---:|---:|---:|")
    for what, moves, replay, certify in sorted(found, key=lambda row: -row[3]):
        print(f"| {what} | {moves} | {replay:.2f} | {certify:.2f} |")
    total = [sum(row[column] for row in found) for column in (1, 2, 3)]
    print(f"| all {len(found)} | {total[0]:.0f} | {total[1]:.1f} | {total[2]:.1f} |")


if __name__ == "__main__":
    main()
