"""`dojoir bench`: how fast is it, beside what, and is it right."""

from __future__ import annotations

import argparse
import json
from typing import TYPE_CHECKING

import dojoir
from dojoir.cli.arguments import RUNS
from dojoir.cli.output import write_result
from dojoir.cli.report import DIFFERS, FINE
from dojoir.cli.streams import say
from dojoir.verbs.recording import recording
from dojoir.verbs.subject import shapes_for, trace_of

if TYPE_CHECKING:
    from dojoir.evidence import Bench

BESIDE = ("text", "optimize", "numpy", "torch")
"""The default peers."""

Given = list[tuple[str, tuple[int, ...]]]


def bench(options: argparse.Namespace) -> int:
    """Times each subject beside others; status 3 where one is wrong, or could not be timed at any shape. Raises
    DojoError."""
    if options.kernelbench is not None:
        return _kernelbench(options)
    if not options.subjects:
        options.refuse("the following arguments are required: KERNEL|TRACE|RUN, or --kernelbench FILE")
    from dojoir.evidence import TorchFunction
    from dojoir.evidence import bench as benched
    from dojoir.evidence.bundle import BENCH
    from dojoir.evidence.peers import check_peers
    from dojoir.evidence.told import bench_lines, result_lines

    torch = None if options.torch is None else TorchFunction.of(options.torch)
    check_peers(options.beside)
    traces = [trace_of(name, options.runs_folder or RUNS) for name in options.subjects]
    sizes = {name for trace in traces for name in trace.start.runtime_sizes}
    shapes = [
        shapes_for(name, options.runs_folder or RUNS, _own(options.shapes, trace.start, sizes), trace.start)
        for name, trace in zip(options.subjects, traces, strict=True)
    ]
    found: list[Bench] = []
    names = ("beside", "cold", "torch", "samples", "seconds", "check")
    settings = {name: getattr(options, name) for name in names}
    for subject, trace, each in zip(options.subjects, traces, shapes, strict=True):
        with recording(options, "bench", trace, each, settings, subject) as writer:
            one = benched(
                trace, options.target, shapes=each, beside=options.beside, threads=options.threads,
                cold=options.cold, torch=torch, samples=options.samples, seconds=options.seconds,
                check=options.check,
            )  # fmt: skip
            if writer is not None:
                writer.data(BENCH, one)
        found.append(one)
        if not options.json:
            write_result(bench_lines(one), None)
    lines = result_lines(found)
    if options.json:
        for line in lines:
            write_result(json.dumps({"bench": line, **_fast(found)}) + "\n", None)
    elif len(found) > 1:
        for name, share in _fast(found)["fast_p"].items():
            say(f"{name}: {share:.0%} of the kernels and shapes are right and faster")
    is_good = all(one.correct != "fail" and any(s.status == "ok" for s in one.shapes) for one in found)
    return FINE if is_good else DIFFERS


def _kernelbench(options: argparse.Namespace) -> int:
    """Problems of KernelBench: a line for each, and for a folder the table and fast_p."""
    from dojoir.evidence.kernelbench import PEERS, bench_problem, problems, result_line
    from dojoir.evidence.told import bench_lines, problem_table

    if options.subjects or options.shapes or options.torch or options.runs_folder or not options.check:
        raise dojoir.ArgumentError(
            "a problem has inputs of its own: leave out kernels, sizes, --torch, --runs and --no-check",
            "bad-arguments",
        )
    beside = PEERS if options.beside == BESIDE else options.beside
    files = problems(options.kernelbench)
    found: list[Bench] = []
    for file in files:
        one = bench_problem(
            file, beside=beside, target=options.target, threads=options.threads, cold=options.cold,
            samples=options.samples, seconds=options.seconds,
        )  # fmt: skip
        found.append(one)
        if options.json:
            write_result(json.dumps(result_line(one)) + "\n", None)
        elif len(files) == 1:
            write_result(bench_lines(one), None)
        else:
            say(f"{len(found)} of {len(files)}: {one.kernel}")
    if len(files) > 1:
        table = problem_table(found)
        if options.json:
            shares = {p: _fast(found, p)["fast_p"] for p in (0.0, 1.0, 2.0)}
            write_result(json.dumps({"fast_p": {f"{p:g}": share for p, share in shares.items()}}) + "\n", None)
        else:
            write_result(table, None)
    is_good = all(one.correct == "pass" and one.shapes[0].status == "ok" for one in found)
    return FINE if is_good else DIFFERS


def _own(given: Given, kernel: dojoir.Kernel, sizes: set[str]) -> Given:
    """Of sizes that are given for several kernels, those of one; with what no kernel has, which is refused."""
    return [one for one in given if one[0] in kernel.runtime_sizes or one[0] not in sizes]


def _fast(found: list[Bench], p: float = 1.0) -> dict[str, dict[str, float]]:
    from dojoir.evidence import fast_p

    names = dict.fromkeys(name for one in found for name in one.names)
    return {"fast_p": {name: fast_p(found, name, p) for name in names}}
