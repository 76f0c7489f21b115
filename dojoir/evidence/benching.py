"""A kernel timed beside others, at some shapes: by `measure_together`, with the kernel itself among its peers."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence

import dojoir
from dojoir.evidence.figures import Bench, Ceiling, Correct, Interval, Shape, Status, Times
from dojoir.evidence.peers import TorchFunction, contestants
from dojoir.records.contexts import this_machine, versions_here

SAMPLES = 30
"""How often each contestant is timed at least, where there is time for it."""

SECONDS = 10.0
"""How long the rounds of one shape may take."""

TIME_LIMIT = 600.0
ITSELF = "itself"

Measure = Callable[..., dojoir.Together]
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
    correct, reason = _checked(trace, target, threads, check)
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
    machine, _ = this_machine(target)
    return Bench(
        trace.kernel.name, trace.kernel.hash, target, threads, protocol, machine, versions_here(), correct, reason,
        tuple(found),
    )  # fmt: skip


def shape(
    sizes: Mapping[str, int], names: Sequence[str], together: dojoir.Together, left_out: Mapping[str, str]
) -> Shape:
    """The result of timing the kernel, which comes first, and others by name."""
    own, *rest = together.measurements
    gone = {names[number - 1]: reason for number, reason in together.left_out.items()}
    there = [name for name in names if name not in gone]
    peers = [times(name, other, own) for name, other in zip(there, rest, strict=True)]
    noise = next((one.ratio for one in peers if one.name == ITSELF), None)
    ceiling = Ceiling(
        own.bytes, own.flops, own.integer, own.memory_ceiling, own.arithmetic_ceiling, own.integer_ceiling,
        own.bound_by, own.fraction,
    )  # fmt: skip
    return Shape(
        dict(sizes), "ok", "", times(own.name, own), noise, ceiling,
        tuple(one for one in peers if one.name != ITSELF), {**left_out, **gone},
    )  # fmt: skip


def times(name: str, row: dojoir.Measurement, own: dojoir.Measurement | None = None) -> Times:
    """One measurement; beside the kernel's own, with the ratio."""
    ratio = None if own is None else interval(dojoir.ratio_of(row, own))
    return Times(
        name, row.seconds, row.low, row.high, *row.quartiles, row.repeats, row.samples, ratio,
        row.difference if math.isfinite(row.difference) else None,
    )  # fmt: skip


def interval(ratio: dojoir.Ratio) -> Interval:
    return Interval(ratio.median, ratio.low, ratio.high)


def _checked(trace: dojoir.Trace, target: str, threads: int, check: bool) -> tuple[Correct, str]:
    """Whether the kernel gives what the text means."""
    status: Correct = "not-run"
    if not check:
        return status, "it was not asked for"
    try:
        report = dojoir.verify(trace.kernel, trace.start, target=target, threads=threads)
    except dojoir.ToolchainError as error:
        status = "unavailable"
        return status, error.diagnostic.message
    except dojoir.RunError as error:
        status = "fail"
        return status, error.diagnostic.message
    status = "pass" if report.ok else "fail"
    return status, "" if report.ok else str(report.reason or report.status)
