"""Honest traces through the gates: schedules of the library and of the texts of practice, by rule or stored.

    python tests/helpers/honest_traces.py [--every 3] [--seconds 1200] [--processes 16] [NAME …]

A line for each, and the count at the end; a gate that fails one is wrong. The gate `faster` is asked with a clock
that is none: whether a schedule is faster is not what this is about.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Iterator
from concurrent.futures import FIRST_COMPLETED, ProcessPoolExecutor, wait
from itertools import takewhile
from multiprocessing import get_context
from pathlib import Path

from synthetic import Clock

import dojoir
from dojoir.evidence import Asked, Gates, gate

PRACTICE = Path(__file__).resolve().parents[2] / "benchmarks" / "practice"
MOST = 1 << 22
"""How many statements the shapes make a kernel run."""


def kernels() -> dict[str, dojoir.Kernel]:
    """Those of the library and of practice, by name."""
    found = {name: dojoir.kernels.load(name) for name in dojoir.kernels.names()}
    found |= {path.stem: dojoir.parse(path.read_text(encoding="utf-8")) for path in PRACTICE.glob("*.dojo")}
    return dict(sorted(found.items()))


def shape_of(kernel: dojoir.Kernel) -> dict[str, int]:
    """Sizes that are not small, and not those of any pool."""
    cost = dojoir.cost(kernel)
    for value in (1536, 768, 384, 192, 96, 64, 48, 32, 24, 16, 12, 8, 6, 5, 4, 3):
        sizes = dict.fromkeys(kernel.runtime_sizes, value)
        try:
            kernel.specialize(**sizes)
        except dojoir.DojoError:
            continue
        if cost.instances(sizes) <= MOST:
            return sizes
    raise AssertionError(kernel.name)


def scheduled(kernel: dojoir.Kernel, sizes: dict[str, int]) -> dojoir.Trace:
    """What `optimize` makes of it, which is a stored schedule or one by rule."""
    return dojoir.optimize(kernel, "llvm", sizes=sizes, threads=1)


def gated(trace: dojoir.Trace, sizes: dict[str, int]) -> Gates:
    clock = Clock(lambda one: 1e-3 if one == trace.kernel else 2e-3, 0.0)
    start = dojoir.Trace(trace.start)
    beside = ("text",) if start.kernel != trace.kernel else ("c",)
    return gate(Asked(trace, "llvm", [sizes], 1, beside, seed=time.time_ns() % (1 << 31), measure=clock))


def judged(name: str) -> tuple[str, Gates | str]:
    """What the gates say of a kernel by name."""
    try:
        kernel = kernels()[name]
        sizes = shape_of(kernel)
        return name, gated(scheduled(kernel, sizes), sizes)
    except (AssertionError, dojoir.DojoError) as error:
        return name, str(error).splitlines()[0]


def through(names: list[str], every: int, seconds: float, processes: int) -> Iterator[tuple[str, Gates | str]]:
    """What the gates say of each, until the time is over."""
    until = time.monotonic() + seconds
    left = [name for i, name in enumerate(kernels()) if (name in names if names else i % every == 0)]
    if processes == 1:
        yield from map(judged, takewhile(lambda _: time.monotonic() < until, left))
        return
    with ProcessPoolExecutor(processes, get_context("spawn")) as pool:
        under_way = {pool.submit(judged, left.pop(0)) for _ in range(min(processes, len(left)))}
        while under_way:
            done, under_way = wait(under_way, return_when=FIRST_COMPLETED)
            for one in done:
                yield one.result()
                if left and time.monotonic() < until:
                    under_way.add(pool.submit(judged, left.pop(0)))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("names", nargs="*", metavar="NAME")
    parser.add_argument("--every", type=int, default=1, help="every n-th only")
    parser.add_argument("--seconds", type=float, default=1e9, help="until when a further one is begun")
    parser.add_argument("--processes", type=int, default=1)
    given = parser.parse_args()
    passed = failed = other = 0
    for name, found in through(given.names, given.every, given.seconds, given.processes):
        if isinstance(found, str):
            other += 1
            print(f"{name}: not asked: {found}", flush=True)
        elif found.ok:
            passed += 1
            print(f"{name}: pass", flush=True)
        else:
            bad = [
                f"{one.name} {one.status}: {one.reason}"
                for one in found.gates
                if one.status in ("fail", "unavailable")
            ]
            failed += any(one.status == "fail" for one in found.gates)
            other += all(one.status != "fail" for one in found.gates)
            print(f"{name}: {'; '.join(bad)}", flush=True)
    print(f"{passed} pass, {failed} fail, {other} not decided")


if __name__ == "__main__":
    main()
