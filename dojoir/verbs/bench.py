"""`dojoir bench`, `gate`, `profile`: how fast is it, beside what, and is it right; is it proved, built, right, the
same each time, honest and faster; what bounds it, where, and which legal moves address that."""

from __future__ import annotations

import argparse
import json
import secrets
from typing import TYPE_CHECKING

import dojoir
from dojoir.cli.arguments import RUNS
from dojoir.cli.error_report import DIFFERS, FINE, TOOLCHAIN
from dojoir.cli.output import write_result
from dojoir.cli.streams import say
from dojoir.verbs.kernel_options import answered
from dojoir.verbs.recording import recording
from dojoir.verbs.subject import run_folder, shapes_for, trace_of

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


def gate(options: argparse.Namespace) -> int:
    """Asks each gate in turn; status 0 only if all pass, 4 where a compiler or a device is missing for
    some, 3 for all else. Raises DojoError."""
    from dojoir.evidence import Asked, TorchFunction, gate_lines, to_data
    from dojoir.evidence import gate as gated
    from dojoir.evidence.bundle import GATES
    from dojoir.evidence.peers import check_peers

    check_peers(options.beside)
    trace = trace_of(options.subject, options.runs_folder or RUNS, unsafe=True)
    shapes = shapes_for(options.subject, options.runs_folder or RUNS, options.shapes, trace.start)
    source, complaint = _of_run(options)
    asked = Asked(
        trace, options.target, shapes, options.threads, options.beside,
        secrets.randbelow(1 << 31) if options.seed is None else options.seed,
        torch=None if options.torch is None else TorchFunction.of(options.torch), cold=options.cold,
        source=source, complaint=complaint, seconds=options.seconds, sanitize=options.sanitize,
    )  # fmt: skip
    names = ("beside", "cold", "torch", "seconds", "sanitize")
    settings = {"seed": asked.seed, **{name: getattr(options, name) for name in names}}
    with recording(options, "gate", trace, shapes, settings, options.subject) as writer:
        found = gated(asked)
        if writer is not None:
            writer.data(GATES, found)
    is_missing = all(one.status in ("pass", "unavailable") for one in found.gates)
    status = FINE if found.ok else TOOLCHAIN if is_missing else DIFFERS
    return answered(options, {"gates": to_data(found)}, gate_lines(found), status)


def _of_run(options: argparse.Namespace) -> tuple[str | None, str]:
    """The source that a run has, where it is for the same target, and what is wrong with its files."""
    from dojoir.evidence.bundle_reading import read

    folder = run_folder(options.subject, options.runs_folder or RUNS)
    if folder is None:
        return None, ""
    given = read(folder)
    wrong = given.wrong_files()
    source = given.source if given.run.target == options.target else None
    return None if source is None else source[1], wrong[0] if wrong else ""


def profile(options: argparse.Namespace) -> int:
    """A card for each shape."""
    from dojoir.evidence.bundle import PROFILE

    trace = trace_of(options.subject, options.runs_folder or RUNS, unsafe=True)
    shapes = shapes_for(options.subject, options.runs_folder or RUNS, options.shapes, trace.start)
    cards = []
    with recording(
        options, "profile", trace, shapes, {"ncu": options.ncu, "under": options.under}, options.subject
    ) as writer:
        for sizes in shapes:
            card = dojoir.profile(
                trace.kernel, options.target, sizes=sizes, threads=options.threads, ncu=options.ncu,
                under=options.under or "",
            )  # fmt: skip
            cards.append(card)
        facts = [card.to_json() for card in cards]
        if writer is not None:
            writer.data(PROFILE, facts)
    return answered(options, {"profile": facts}, "".join(f"{card}\n" for card in cards))
