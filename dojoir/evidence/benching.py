"""A kernel timed beside others, at some shapes: by `measure_together`, with the kernel itself among its peers."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

import dojoir
from dojoir import runtime
from dojoir.evidence.bundle import Verdict
from dojoir.evidence.figures import (
    ITSELF,
    Bench,
    Ceiling,
    ComparisonReport,
    Shape,
    Status,
    Times,
    computed,
    of_reports,
    timed,
)
from dojoir.evidence.peers import TorchFunction, contestants
from dojoir.records.contexts import this_machine, versions_here

SAMPLES = 30
"""How often each contestant is timed at least, where there is time for it."""

SECONDS = 10.0
"""How long the rounds of one shape may take."""

TIME_LIMIT = 600.0

Measure = Callable[..., runtime.Together]
"""The timer of contestants in turn, as `dojoir.measure_together` does."""

BESIDE = ("text", "optimize", "numpy", "torch")
"""The default peers that a kernel is timed beside."""


def bench(
    trace: dojoir.Trace,
    target: str = "llvm",
    *,
    shapes: Sequence[Mapping[str, int]],
    beside: Sequence[str] = BESIDE,
    threads: int = 1,
    cold: bool = False,
    torch: TorchFunction | None = None,
    samples: int = SAMPLES,
    seconds: float = SECONDS,
    time_limit: float = TIME_LIMIT,
    check: bool = True,
    measure: Measure = dojoir.measure_together,
) -> Bench:
    """Times the last kernel of a trace beside others at some sizes: PEERS by name. It takes part a second time, as
    itself, which shows the noise. First of all it is compared with what the first kernel of the trace means, unless
    `check` is false.

    `cold` empties the caches before each call. `torch` is what PyTorch is to run; by default the library's. Each
    is timed `samples` times at least, in rounds of all of them, unless `seconds` are over; one that is too slow
    for that is called once. A shape that fails is in the answer, with the reason. `measure` is what times.

    Raises ArgumentError for a peer that there is not, for no shapes, and for sizes that do not fit."""
    if not shapes:
        raise dojoir.ArgumentError("shapes is empty: give at least one", "no-sizes")
    correct, reason, reports = _checked(trace, target, threads, check)
    found: list[Shape] = []
    protocol = ""
    for sizes in shapes:
        there, left_out = contestants(beside, trace.kernel, trace.start, target, sizes, threads, torch)
        try:
            together = measure(
                [trace.kernel, trace.kernel, *there.values()],
                target,
                cold=cold,
                threads=threads,
                budget=seconds,
                precision=0.002,
                fewest=samples,
                time_limit=time_limit,
                leave_out=True,
                sizes=sizes,
            )
        except (dojoir.RunError, dojoir.ToolchainError, dojoir.KernelError) as error:
            status: Status = "unavailable" if isinstance(error, dojoir.ToolchainError) else "failed"
            found.append(Shape(dict(sizes), status, error.diagnostic.message, left_out=left_out))
            continue
        protocol = together.measurements[0].protocol
        found.append(shape(sizes, [ITSELF, *there], together, left_out))
    return bench_of(trace.kernel, target, threads, protocol, found, correct, reason, reports)


def bench_of(
    kernel: dojoir.Kernel,
    target: str,
    threads: int,
    protocol: str,
    shapes: Sequence[Shape],
    correct: Verdict = "not-run",
    reason: str = "it was not asked for",
    reports: Sequence[ComparisonReport] = (),
) -> Bench:
    """The bench of what was timed on this machine, with all that follows from it."""
    return computed(Bench(
        kernel.name, kernel.hash, target, threads, protocol, this_machine(target)[0], versions_here(), correct,
        reason, tuple(shapes), tuple(reports),
    ))  # fmt: skip


def raced(tuned: dojoir.search.Tuned, target: str, threads: int) -> Bench | None:
    """The bench of the last races of a search: those in which its answer took part. None where there are none."""
    kernel, found, protocol = tuned.trace.kernel, list[Shape](), ""
    for name, gain in (("text", tuned.ratio), ("optimize", tuned.ratio_to_optimize)):
        for race in () if gain is None else gain.races:
            if race.hash == kernel.hash:
                protocol = race.together.measurements[0].protocol
                found.append(replace(shape(race.sizes, [name], race.together, {}), ceiling=None))
    return bench_of(kernel, target, threads, protocol, found) if found else None


def shape(
    sizes: Mapping[str, int], names: Sequence[str], together: runtime.Together, left_out: Mapping[str, str]
) -> Shape:
    """The result of timing the kernel, which comes first, and others by name."""
    own, *rest = together.measurements
    gone = {names[number - 1]: reason for number, reason in together.left_out.items()}
    there = dict(zip((name for name in names if name not in gone), map(_times, rest), strict=True))
    itself = there.pop(ITSELF, None)
    ceiling = Ceiling(
        own.bytes, own.flops, own.integer, own.memory_ceiling, own.arithmetic_ceiling, own.integer_ceiling
    )  # fmt: skip
    peers = tuple(replace(one, name=name) for name, one in there.items())
    return Shape(
        dict(sizes), "ok", own=_times(own), ceiling=ceiling, peers=peers, left_out={**left_out, **gone},
        itself=None if itself is None else replace(itself, name=ITSELF),
    )  # fmt: skip


def _times(row: runtime.Measurement) -> Times:
    return timed(row.name, row.samples, None, row.difference if math.isfinite(row.difference) else None)


def _checked(
    trace: dojoir.Trace, target: str, threads: int, check: bool
) -> tuple[Verdict, str, list[ComparisonReport]]:
    """Whether the kernel gives what the text means, and how they were compared."""
    status: Verdict = "not-run"
    if not check:
        return status, "it was not asked for", []
    try:
        report = dojoir.verify(trace.kernel, trace.start, target=target, threads=threads)
    except dojoir.ToolchainError as error:
        status = "unavailable"
        return status, error.diagnostic.message, []
    except dojoir.RunError as error:
        return "fail", error.diagnostic.message, [ComparisonReport({}, "failed", 0, error.diagnostic.message)]
    found = [ComparisonReport.of(None, report)]
    return *of_reports(found), found
