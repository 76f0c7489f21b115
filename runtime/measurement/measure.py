"""Timing kernels: alone, beside a baseline, or several in turn."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import field, replace
from functools import cached_property
from pathlib import Path
from typing import Any

from dojoir.backends.host import machine_named
from dojoir.backends.registry import is_device
from dojoir.costs.cost import cost
from dojoir.costs.thread_work import gain_of_units
from dojoir.errors import ArgumentError, Diagnostic, DojoError, Note, RunError
from dojoir.ir.nodes import Kernel
from dojoir.ir.traced import Traced, is_traced, last_kernel
from dojoir.meaning.sizes import solve
from dojoir.proof.wellformed import prove
from dojoir.runtime.build.compiler import check_target
from dojoir.runtime.build.pool import thread_count
from dojoir.runtime.call.needs import check_memory
from dojoir.runtime.measurement.held import hold
from dojoir.runtime.measurement.lease import LONGEST_WAIT, timing_lease
from dojoir.runtime.measurement.ratio import Ratio, ratio_of_samples
from dojoir.runtime.measurement.roofline import ceilings
from dojoir.runtime.measurement.spread import Spread, spread
from dojoir.runtime.process.child import Outcome, raise_reported, run_child
from dojoir.runtime.process.subject import KernelSubject, PythonCode, callable_name
from dojoir.runtime.verification.verify import check_alike
from dojoir.support.frozen import dataclass
from dojoir.support.public import public, public_class
from dojoir.support.seconds import format_seconds
from dojoir.support.temporary import temporary_folder

PRECISION = 0.01
"""Sampling stops when the confidence interval of the median reaches no further than this to either side."""

FEWEST = 7
"""How often each contestant is sampled at least."""

PROTOCOL = "measure 3"
"""How contestants are timed in turn; the number changes with how that is done."""


@public_class
@dataclass(frozen=True)
class ForTarget:
    """A kernel for another target than the others that are timed with it."""

    kernel: Kernel
    target: str


Contestant = Kernel | Traced | ForTarget | PythonCode | str | Callable[..., object]
"""The types of a contestant: a kernel, the last one of a trace, or what `PythonCode` says (a `str` is its
statement, a function is called)."""


@dataclass(frozen=True)
class Measurement:
    """The time of one call: `seconds` is the median of `repeats` samples, and lies between `low` and `high` with
    `confidence`. `samples` are the seconds of a call in each round.

    `flops`, `integer` (operations on integers), `other` (`max`, `min`, `select`, comparisons) and `bytes` are
    what the text of the kernel does, and moves at least (`dojoir.cost`). The ceilings are what this machine
    reaches with as many threads, in GB/s, GFLOP/s and, of products of bytes, GOP/s (None where they were not
    asked for). `hot` says that every call used the same arrays; else they were rotated past the last-level
    cache. `difference` is how far the results were from those of the first call of the first contestant, as a
    share of the largest: of each one's first call, and of some after all rounds. `protocol` says how it
    was timed: times of two protocols are never compared."""

    name: str
    target: str
    sizes: Mapping[str, int]
    threads: int
    hot: bool
    samples: tuple[float, ...]
    confidence: float
    flops: int
    bytes: int
    memory_ceiling: float | None
    arithmetic_ceiling: float | None
    difference: float = 0.0
    baseline: Measurement | None = None
    integer: int = 0
    integer_ceiling: float | None = None
    protocol: str = ""
    other: int = 0

    @cached_property
    def _spread(self) -> Spread:
        return spread(self.samples, self.confidence)

    @property
    def seconds(self) -> float:
        return self._spread.median

    @property
    def low(self) -> float:
        return self._spread.low

    @property
    def high(self) -> float:
        return self._spread.high

    @property
    def quartiles(self) -> tuple[float, float]:
        """A quarter of the samples were below the first, a quarter above the second."""
        return self._spread.first_quartile, self._spread.third_quartile

    @property
    def repeats(self) -> int:
        return self._spread.count

    @property
    def gflops(self) -> float:
        """10^9 floating-point operations per second."""
        return self.flops / self.seconds / 1e9

    @property
    def gops(self) -> float:
        """10^9 operations on integers per second."""
        return self.integer / self.seconds / 1e9

    @property
    def all_gops(self) -> float:
        """10^9 operations of any kind per second, with the comparisons, `max`, `min` and `select` that `flops` does
        not count."""
        return (self.flops + self.integer + self.other) / self.seconds / 1e9

    @property
    def gbytes(self) -> float:
        """10^9 bytes per second."""
        return self.bytes / self.seconds / 1e9

    @property
    def where(self) -> str:
        """How many threads ran it; on a GPU, whether its cache held the arrays."""
        if is_device(self.target):
            return "hot" if self.hot else "cold"
        return f"{self.threads} thread{'s' if self.threads > 1 else ''}"

    @property
    def bound_by(self) -> str | None:
        """The ceiling that bounds the time on the machine: `memory` or `arithmetic`."""
        memory, arithmetic = self._shares
        return None if self.memory_ceiling is None else "memory" if memory >= arithmetic else "arithmetic"

    @property
    def fraction(self) -> float | None:
        """The share of that ceiling that is reached; more than 1 where the arrays are in a cache."""
        return None if self.memory_ceiling is None else max(self._shares)

    @property
    def ratio(self) -> Ratio | None:
        """How many times longer the baseline takes."""
        return None if self.baseline is None else ratio_of(self.baseline, self)

    @property
    def _shares(self) -> tuple[float, float]:
        if self.memory_ceiling is None or self.arithmetic_ceiling is None:
            return 0.0, 0.0
        integers = self.gops / self.integer_ceiling if self.integer_ceiling else 0.0
        return self.gbytes / self.memory_ceiling, max(self.gflops / self.arithmetic_ceiling, integers)

    def __repr__(self) -> str:
        sizes = ", ".join(f"{name}={value}" for name, value in self.sizes.items())
        faster = f", {self.ratio} for {self.baseline.name}" if self.baseline and self.ratio else ""
        return f"<Measurement {self.name}({sizes}) on {self.target}: {format_seconds(self.seconds)}{faster}>"

    def _repr_html_(self) -> str:
        """The same as a table, for notebooks."""
        from dojoir.ir.html import table_html

        sizes = ", ".join(f"{name}={value}" for name, value in self.sizes.items())
        rows = [
            ("time", f"{format_seconds(self.seconds)} ({format_seconds(self.low)} to {format_seconds(self.high)})")
        ]
        rows += [("memory", f"{self.gbytes:.1f} GB/s")] if self.bytes else []
        rows += [("arithmetic", f"{self.gflops:.1f} GFLOP/s")] if self.flops else []
        rows += [("integers", f"{self.gops:.1f} GOP/s")] if self.integer else []
        rows += [("reached", f"{self.fraction:.0%} of the {self.bound_by} ceiling")] if self.fraction else []
        if self.ratio is not None and self.baseline is not None:
            rows.append((self.baseline.name, f"takes {self.ratio}"))
        return table_html(f"{self.name}({sizes}) on {self.target}, {self.where}", rows)

    def __str__(self) -> str:
        sizes = ", ".join(f"{name}={value}" for name, value in self.sizes.items())
        text = f"{self.name}({sizes}) on {self.target}, {self.where}: "
        text += f"{format_seconds(self.seconds)} ({format_seconds(self.low)} to {format_seconds(self.high)})"
        if self.bytes:
            text += f", {self.gbytes:.1f} GB/s"
        if self.flops:
            text += f", {self.gflops:.1f} GFLOP/s"
        if self.integer:
            text += f", {self.gops:.1f} GOP/s"
        if not self.flops and not self.integer and self.other:
            text += f", {self.all_gops:.1f} GOP/s"
        if self.fraction:
            text += f", {self.fraction:.0%} of the {self.bound_by} ceiling"
        if self.ratio is not None and self.baseline is not None:
            text += f"; {self.baseline.name} takes {self.ratio}"
        return text


@public
def ratio_of(slow: Measurement, fast: Measurement) -> Ratio:
    """How many times as fast `fast` is as `slow`, above 1 where it is faster, from the rounds of one run in which
    both took part. Raises ArgumentError, `other-protocol`, where they were timed in two ways."""
    if slow.protocol != fast.protocol:
        message = f"times of two protocols are not compared: {slow.protocol} and {fast.protocol}"
        raise ArgumentError(message, "other-protocol")
    return ratio_of_samples(slow.samples, fast.samples, fast.confidence)


@dataclass(frozen=True)
class Together:
    """Several measurements of one run, in the order given. `left_out` has those that could not be timed, by their
    number in that order, and why."""

    measurements: tuple[Measurement, ...]
    left_out: Mapping[int, str] = field(default_factory=dict)

    @property
    def ratios(self) -> tuple[Ratio, ...]:
        """How many times as fast as the first each is: above 1 where it is faster."""
        return tuple(ratio_of(self.measurements[0], measurement) for measurement in self.measurements)

    def _repr_html_(self) -> str:
        """A row for each: its time, and how many times as fast as the first it is."""
        from dojoir.ir.html import table_html

        rows = [
            (m.name, f"{format_seconds(m.seconds)}, {ratio} as fast as the first")
            for m, ratio in zip(self.measurements, self.ratios, strict=True)
        ]
        return table_html(f"on {self.measurements[0].target}, {self.measurements[0].where}", rows)

    def __str__(self) -> str:
        rows = zip(self.measurements, self.ratios, strict=True)
        return "\n".join(f"{measurement}; {ratio} as fast as the first" for measurement, ratio in rows)


@public
def measure(
    kernel: Kernel | Traced,
    target: str = "llvm",
    *,
    cpu: str | None = None,
    baseline: Contestant | None = None,
    hot: bool = True,
    confidence: float = 0.95,
    precision: float = PRECISION,
    budget: float = 2.0,
    time_limit: float = 60.0,
    memory_limit: int | None = None,
    threads: int | None = None,
    with_ceilings: bool = True,
    sizes: Mapping[str, int] | None = None,
    **named_sizes: int,
) -> Measurement:
    """Times a call of the kernel, or of the last one of a trace, in a child process. Sizes are given by name
    (`N=4096`), or in `sizes`.

    After a warm-up it is called until the confidence interval of the median is within `precision` of it on either
    side, or `budget` seconds are over. Not counted are those for which contestants wait until the threads of
    others rest. The arrays are on huge pages where there are any, and touched before. With `hot` every call uses
    the same ones; without, they are rotated so that none is in a cache when its turn comes. A `baseline` (a
    kernel, Python code or a function, see `PythonCode`) is timed in turn with it, in the same run. `with_ceilings`
    compares with what this machine reaches, which is measured once and kept.

    On a GPU, time is that of its events. With `hot` the launches of a call are one graph, started several times;
    without, a buffer of twice the last cache is written before each call. Python code gets tensors of PyTorch.

    Raises RunError where the child crashes (`crash`), takes more than `time_limit` seconds (`time-limit`) or runs
    out of memory; KernelError, ToolchainError and ArgumentError as `compile` does.
    """
    given: list[Contestant] = [last_kernel(kernel)]
    if baseline is not None:
        given.append(baseline)
    together = measure_together(
        given,
        target,
        cpu=cpu,
        hot=hot,
        confidence=confidence,
        precision=precision,
        budget=budget,
        time_limit=time_limit,
        memory_limit=memory_limit,
        threads=threads,
        with_ceilings=with_ceilings,
        sizes={**(sizes or {}), **named_sizes},
    )
    own, *others = together.measurements
    return replace(own, baseline=others[0]) if others else own


@public
def measure_together(
    contestants: Sequence[Contestant],
    target: str = "llvm",
    *,
    cpu: str | None = None,
    hot: bool = True,
    confidence: float = 0.95,
    precision: float = PRECISION,
    budget: float = 2.0,
    time_limit: float = 60.0,
    memory_limit: int | None = None,
    threads: int | None = None,
    with_ceilings: bool = True,
    cold: bool = False,
    fewest: int = FEWEST,
    leave_out: bool = False,
    longest_wait: float = LONGEST_WAIT,
    against: Kernel | None = None,
    seed: int = 0,
    sizes: Mapping[str, int] | None = None,
    **named_sizes: int,
) -> Together:
    """Times several kernels, functions and pieces of Python code on the same arrays in one child process, in
    turn, so that they can be compared. The first kernel says what the arguments are. With `cold` a buffer of twice
    the last cache is written before each call. Each is sampled at least `fewest` times before `precision` counts;
    one of which that would take more than five times the `budget` is called once. With `leave_out`, those that
    fail are left out, all but the first. A RunError, `busy`, ends a wait of `longest_wait` seconds for others that
    time on this machine. With `against` the results of the first (in its first call, in calls among the samples
    that nobody knows, and on other inputs after them) are held to what that kernel means: RunError, `wrong-result`,
    where they are wrong, `more-threads` where it kept more cores busy than it was given. Inputs follow from `seed`.
    Everything else is as in `measure`."""
    contestants = [last_kernel(one) if is_traced(one) else one for one in contestants]
    target = check_target(target, cpu)
    count = thread_count(threads)
    kernels = [kernel for contestant in contestants if (kernel := _kernel(contestant)) is not None]
    if not kernels:
        raise ArgumentError("nothing to measure: give at least one kernel", "no-kernel")
    for kernel in kernels:
        prove(kernel)
        check_alike(kernel, kernels[0])
    if not 0.5 <= confidence < 1:
        raise ArgumentError(f"confidence must be at least 0.5 and below 1, not {confidence}", "bad-confidence")
    full = solve(kernels[0], {}, {**(sizes or {}), **named_sizes})
    for kernel in kernels:
        check_memory(kernel, full)
    if fewest < 1:
        raise ArgumentError(f"fewest is a number from 1, not {fewest}", "bad-arguments")
    subjects = [_subject(contestant, target, count) for contestant in contestants]
    on_gpu = is_device(target)
    caches = "flushed" if cold or (on_gpu and not hot) else "warm" if hot else "rotated"
    job = {
        "kind": "timing",
        "sizes": full,
        "hot": caches == "warm",
        "caches": caches,
        "confidence": confidence,
        "precision": precision,
        "budget": budget,
        "fewest": fewest,
        "seed": seed,
        "threads": count,
    }
    ceiling = ceilings().at(count) if with_ceilings and not on_gpu else None
    open_, left_out = list(enumerate(subjects)), dict[int, str]()
    while True:
        run = {**job, "subjects": [subject.to_json() for _, subject in open_]}
        with temporary_folder() as folder:
            path = str(Path(folder, "results"))
            with timing_lease(longest_wait=longest_wait):
                outcome = run_child(
                    {**run, "results": None if against is None else path}, time_limit, memory_limit,
                    threads=None if on_gpu else count,
                )  # fmt: skip
            try:
                result = _result(outcome, [_name(subject) for _, subject in open_])
                if against is not None:
                    kept = {name: f"{path}-{name}" for name in result.get("kept", ())}
                    hold(kernels[0], against, target, full, seed, kept, time_limit)
                break
            except DojoError as error:
                failed = _last_begun(outcome)
                if not (leave_out and failed):
                    raise
                left_out[open_.pop(failed)[0]] = error.diagnostic.message
    protocol = f"{PROTOCOL}, {_way(on_gpu, caches)}"
    memory, fma_f32, fma_f64 = (
        (*result["ceilings"], None)
        if on_gpu
        else (ceiling.memory, ceiling.fma_f32, ceiling.fma_f64)
        if ceiling is not None
        else (None, None, None)
    )
    measurements = []
    for number, (_, subject) in enumerate(open_):
        own = subject.kernel if isinstance(subject, KernelSubject) else kernels[0]
        work = cost(own)
        double = any(buffer.dtype.name == "f64" for buffer in own.buffers)
        arithmetic = fma_f64 if double else fma_f32
        if on_gpu and fma_f32 and (gain := gain_of_units(own, machine_named(target))):
            arithmetic = fma_f32 * gain
        measurements.append(
            Measurement(
                name=_name(subject),
                target=subject.target if isinstance(subject, KernelSubject) else "Python",
                sizes=full,
                threads=count,
                hot=caches == "warm",
                samples=tuple(result["samples"][number]),
                confidence=confidence,
                flops=work.flops(full),
                bytes=work.bytes(full),
                memory_ceiling=memory if with_ceilings else None,
                arithmetic_ceiling=arithmetic if with_ceilings else None,
                difference=result["differences"][number],
                integer=work.integer(full),
                integer_ceiling=ceiling.dot_i8 if with_ceilings and ceiling is not None else None,
                protocol=protocol,
                other=work.other(full),
            )
        )
    return Together(tuple(measurements), left_out)


def _way(on_gpu: bool, caches: str) -> str:
    """How what a call finds in the caches is made so, in words."""
    match caches:
        case "warm":
            return "a graph started again" if on_gpu else "warm caches"
        case "rotated":
            return "arrays rotated past the last cache"
    return f"{'by events, ' if on_gpu else ''}the last cache written before each call"


def _last_begun(outcome: Outcome) -> int:
    """The number of the contestant that was built or called last, where it was that which failed; else 0."""
    said = {key: value for message in outcome.messages for key, value in message.items()}
    return 0 if "sampling" in said else int(said.get("warming", said.get("building", 0)))


def _kernel(contestant: Contestant) -> Kernel | None:
    match contestant:
        case Kernel():
            return contestant
        case ForTarget(kernel):
            return kernel
    return None


def _subject(contestant: Contestant, target: str, threads: int) -> KernelSubject | PythonCode:
    match contestant:
        case Kernel():
            return KernelSubject(contestant, target, threads)
        case ForTarget(kernel, other):
            return KernelSubject(kernel, check_target(other), threads)
        case PythonCode():
            return contestant
        case str():
            return PythonCode(contestant)
        case _ if callable(contestant):
            return PythonCode(callable_name(contestant), name=contestant.__name__)
    raise ArgumentError(
        f"cannot measure {type(contestant).__name__}: give a kernel, Python code or a function", "not-a-kernel"
    )


def _name(subject: KernelSubject | PythonCode) -> str:
    return subject.kernel.name if isinstance(subject, KernelSubject) else subject.name or subject.statement


def _result(outcome: Outcome, names: Sequence[str]) -> dict[str, Any]:
    """The result of the child. Raises what ended it."""
    raise_reported(outcome)
    merged: dict[str, Any] = {key: value for message in outcome.messages for key, value in message.items()}
    if outcome.ended is None and "samples" in merged:
        return merged
    if "sampling" in merged:
        where = "while it was timed"
    elif "warming" in merged:
        where = f"in the first call of {names[merged['warming']]}"
    elif "building" in merged:
        where = f"while {names[merged['building']]} was built"
    else:
        where = "at its start"
    ended = outcome.ended or "ended early"
    code = "time-limit" if ended.startswith("hung") else "out-of-memory" if "SIGKILL" in ended else "crash"
    notes = tuple(Note(line) for line in outcome.stderr.splitlines()[-3:])
    raise RunError(Diagnostic(code, f"the measurement {ended} {where}", notes=notes))
