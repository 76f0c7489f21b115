"""Checking a compiled kernel against its meaning."""

from __future__ import annotations

import itertools
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from dojoir.errors import ArgumentError, RunError, did_you_mean
from dojoir.ir import Buffer, Kernel
from dojoir.printer import format_buffer
from dojoir.runtime.child import Message, Outcome, raise_reported, run_child
from dojoir.runtime.compare import Comparison, Worst, compare
from dojoir.runtime.compiler import check_kernel, check_target
from dojoir.runtime.inputs import DISTRIBUTIONS, NONFINITE, make_inputs
from dojoir.runtime.oracle import INTERPRETED_INSTANCES, Oracle
from dojoir.runtime.pool import thread_count
from dojoir.runtime.sample_sizes import count_instances, sample_sizes
from dojoir.runtime.subject import KernelSubject
from dojoir.runtime.trial import POISONS, load_arrays, save_arrays
from dojoir.sizes import solve
from dojoir.wellformed import prove

SAMPLE_INSTANCES = 20_000
"""How many statements the kernel may run at each of the default sizes."""

REFERENCE_LIMIT = 600.0
"""Seconds that a compiled reference may take at least."""

SLACK, FAST_SLACK = 2.0, 8.0
"""The bounds are of first order, so twice what they say is allowed; more for kernels that allow algebra."""


def slack_of(kernel: Kernel) -> float:
    """How many times the bound on rounding errors an element may be off."""
    return FAST_SLACK if kernel.fp == "fast" else SLACK


@dataclass(frozen=True)
class Case:
    """One input, run with its arrays against the guard page behind them and against the one in front. `problem`
    says what was wrong, None if nothing. `worst` is the element nearest to (or beyond) what is allowed."""

    sizes: Mapping[str, int]
    seed: int
    distribution: str
    problem: str | None
    worst: Worst | None
    unchecked: int
    elements: int

    def __str__(self) -> str:
        sizes = ", ".join(f"{name}={value}" for name, value in self.sizes.items())
        return f"{sizes or 'no sizes'}, {self.distribution} inputs, seed {self.seed}"


@dataclass(frozen=True)
class Report:
    """What verifying a kernel came to. `reason` says why it failed (the first problem), None if it is `ok`.
    `reference` says what its results were compared with, if it gave any. `not_run` cases came after a crash or at
    the time limit."""

    kernel: str
    target: str
    reference: str
    cases: tuple[Case, ...]
    reason: str | None
    not_run: int = 0

    @property
    def ok(self) -> bool:
        return self.reason is None

    @property
    def worst(self) -> Worst | None:
        """Of all cases, the element off by the largest share of what is allowed."""
        found = [case.worst for case in self.cases if case.worst is not None]
        return max(found, key=lambda worst: worst.share, default=None)

    @property
    def worst_ulps(self) -> float:
        """The error of that element in units in the last place."""
        return 0.0 if self.worst is None else self.worst.ulps

    def __str__(self) -> str:
        elements = sum(case.elements for case in self.cases)
        unchecked = sum(case.unchecked for case in self.cases)
        head = f"{self.kernel} on {self.target}: {'ok' if self.ok else 'FAILED'}"
        against = f", against {self.reference}" if self.reference else ""
        lines = [f"{head}, {len(self.cases)} cases, {elements} elements{against}"]
        if self.reason is not None:
            lines.append(f"  {self.reason}")
        if self.worst is not None and self.ok:
            share = f"{self.worst.share:.0%} of what rounding explains"
            lines.append(f"  worst: {self.worst}, {share}")
        if unchecked and self.ok:
            lines.append(f"  {unchecked} elements were not compared: rounding alone may change them to anything")
        if self.not_run:
            lines.append(f"  {self.not_run} cases were not run")
        return "\n".join(lines)

    def raise_if_failed(self) -> None:
        """Raises RunError with this report where the kernel failed."""
        if not self.ok:
            hung = self.reason is not None and self.reason.startswith("it hung")
            raise RunError(str(self), "time-limit" if hung else "verification-failed")


def verify(
    kernel: Kernel,
    against: Kernel | None = None,
    *,
    target: str = "llvm",
    sizes: Mapping[str, int] | Sequence[Mapping[str, int]] | None = None,
    seeds: int | Sequence[int] = (0, 1, 2),
    distributions: Sequence[str] = DISTRIBUTIONS,
    threads: int | None = None,
    time_limit: float = 60.0,
    memory_limit: int | None = None,
) -> Report:
    """Runs the kernel on `target` and compares it with what `against` (by default the kernel itself) means.

    The kernel runs in a child process, for at most `time_limit` seconds and in at most `memory_limit` bytes of
    address space, its arrays between guard pages and its outputs filled with a pattern: a crash, a hang, a write
    where none belongs and an output left unwritten are all failures in the report. Inputs are drawn from
    `distributions` (`"nonfinite"` adds infinities and NaN) with the `seeds` in turn. Integers and bools must be
    exact; a float may be off by what rounding explains, a bound computed from the reference alone (see
    `dojoir.runtime.tolerance`). The reference is interpreted in f64, or, above 300,000 statements, compiled
    in f64 for the other target. `sizes` are by default a few small ones that the facts of the kernel allow.

    Raises KernelError for a kernel that is wrong, ToolchainError where the target has no compiler, ArgumentError
    for sizes that do not fit, or an `against` with other arguments.
    """
    reference = check_kernel(kernel if against is None else against, "verify")
    prove(check_kernel(kernel, "verify"))
    prove(reference)
    check_alike(kernel, reference)
    _check_distributions(distributions)
    check_target(target)
    return verify_subject(
        KernelSubject(kernel, target, thread_count(threads)),
        reference,
        _chosen_sizes(kernel, reference, sizes),
        (seeds,) if isinstance(seeds, int) else tuple(seeds) or (0,),
        distributions,
        time_limit,
        memory_limit,
    )


def verify_subject(
    subject: KernelSubject,
    reference: Kernel,
    sizes: Sequence[Mapping[str, int]],
    seeds: Sequence[int],
    distributions: Sequence[str],
    time_limit: float,
    memory_limit: int | None = None,
) -> Report:
    """`verify` for anything that a child can load as a kernel, with everything chosen."""
    kernel = subject.kernel
    with tempfile.TemporaryDirectory(prefix="dojoir-") as name:
        plans = list(_plans(kernel, sizes, seeds, distributions, name))
        trial = _Trial(run_child(_job(subject, plans), time_limit, memory_limit))
        oracle = Oracle(reference, subject.target, max(time_limit, REFERENCE_LIMIT))
        cases: list[Case] = []
        for number, plan in enumerate(plans):
            if not trial.was_started(number):
                break
            cases.append(_judge(plan, trial.problem(number), oracle))
    reason = next((f"{case.problem} ({case})" for case in cases if case.problem is not None), None)
    if reason is None and len(cases) < len(plans):
        reason = f"the process {trial.outcome.ended or 'ended'} {'between cases' if cases else 'while it compiled'}"
    elements = sum(case.elements for case in cases)
    if reason is None and elements and elements == sum(case.unchecked for case in cases):
        reason = "nothing could be compared: rounding alone may change every element to anything"
    reference_used = " and ".join(sorted(oracle.used))
    return Report(kernel.name, subject.target, reference_used, tuple(cases), reason, len(plans) - len(cases))


# -- the cases ---------------------------------------------------------------------------------------------
@dataclass(frozen=True)
class _Plan:
    """A case before it is run: its inputs, and how the files with them and with the outputs of each run start."""

    sizes: Mapping[str, int]
    seed: int
    distribution: str
    inputs: Mapping[str, np.ndarray]
    files: str

    @property
    def source(self) -> str:
        return f"{self.files}-inputs"

    def outputs(self, poison: int) -> str:
        return f"{self.files}-outputs-{poison}"

    def case(self, problem: str | None, worst: Worst | None = None, unchecked: int = 0, elements: int = 0) -> Case:
        return Case(self.sizes, self.seed, self.distribution, problem, worst, unchecked, elements)


def _plans(
    kernel: Kernel,
    sizes: Sequence[Mapping[str, int]],
    seeds: Sequence[int],
    distributions: Sequence[str],
    folder: str,
) -> Iterator[_Plan]:
    """The distributions with the seeds in turn, over all sizes so that each distribution comes at least twice, or
    at the only size once. Where the kernel runs long: one for each seed."""
    each = max(len(seeds), min(len(distributions), -(-2 * len(distributions) // len(sizes))))
    pairs = zip(itertools.cycle(seeds), itertools.cycle(distributions), strict=False)
    for which, chosen in enumerate(sizes):
        is_long = count_instances(kernel, chosen, INTERPRETED_INSTANCES) > INTERPRETED_INSTANCES
        for number, (seed, distribution) in enumerate(itertools.islice(pairs, len(seeds) if is_long else each)):
            inputs = make_inputs(kernel, chosen, seed, distribution)
            plan = _Plan(chosen, seed, distribution, inputs, f"{folder}/{which}-{number}")
            save_arrays(plan.source, plan.inputs)
            yield plan


def _job(subject: KernelSubject, plans: Sequence[_Plan]) -> dict[str, object]:
    runs = [
        {
            "inputs": plan.source,
            "outputs": plan.outputs(poison),
            "sizes": dict(plan.sizes),
            "at_end": poison == POISONS[0],
            "poison": poison,
        }
        for plan in plans
        for poison in POISONS
    ]
    return {"kind": "trial", "subject": subject.to_json(), "runs": runs}


@dataclass(frozen=True)
class _Trial:
    """What a child reported of its runs, len(POISONS) for each case."""

    outcome: Outcome

    def __post_init__(self) -> None:
        raise_reported(self.outcome)

    def was_started(self, case: int) -> bool:
        return case * len(POISONS) in self._started

    def problem(self, case: int) -> str | None:
        """What went wrong in the runs of a case, apart from their results."""
        for run in range(case * len(POISONS), (case + 1) * len(POISONS)):
            done = self._done.get(run)
            if done is None:
                return f"it {self.outcome.ended or 'ended early'}"
            if done.get("error"):
                return str(done["error"])
            if done["faults"]:
                return "it " + " and ".join(done["faults"])
        return None

    @cached_property
    def _started(self) -> set[int]:
        return {message["start"] for message in self.outcome.messages if "start" in message}

    @cached_property
    def _done(self) -> dict[int, Message]:
        return {message["done"]: message for message in self.outcome.messages if "done" in message}


def _judge(plan: _Plan, problem: str | None, oracle: Oracle) -> Case:
    """The case once its outputs are compared, if it came so far."""
    if problem is not None:
        return plan.case(problem)
    expected = oracle.expected(plan.sizes, plan.inputs)
    slack = slack_of(oracle.kernel)
    found: list[Comparison] = []
    for poison in POISONS:
        outputs = load_arrays(plan.outputs(poison))
        found += [
            compare(buffer.name, buffer.dtype, outputs[buffer.name], expected[buffer.name], slack)
            for buffer in oracle.kernel.arguments
            if buffer.role != "in"
        ]
    worst = max((c.worst for c in found if c.worst is not None), key=lambda w: w.share, default=None)
    wrong = None if all(comparison.ok for comparison in found) else f"wrong result: {worst}"
    return plan.case(wrong, worst, sum(c.unchecked for c in found), sum(c.elements for c in found))


# -- what is asked for -------------------------------------------------------------------------------------
def _chosen_sizes(
    kernel: Kernel, reference: Kernel, sizes: Mapping[str, int] | Sequence[Mapping[str, int]] | None
) -> list[dict[str, int]]:
    if sizes is None:
        return sample_sizes(kernel, SAMPLE_INSTANCES)
    chosen = [solve(kernel, {}, given) for given in ([sizes] if isinstance(sizes, Mapping) else sizes)]
    for given in chosen:
        solve(reference, {}, given)
    if not chosen:
        raise ArgumentError("sizes is empty: leave it out, or give at least one", "no-sizes")
    return chosen


def _check_distributions(distributions: Sequence[str]) -> None:
    known = (*DISTRIBUTIONS, NONFINITE)
    for name in distributions:
        if name not in known:
            raise ArgumentError(
                f"there is no distribution '{name}'{did_you_mean(name, known)}; they are {', '.join(known)}",
                "unknown-distribution",
            )
    if not distributions:
        raise ArgumentError(f"distributions is empty; there are {', '.join(known)}", "unknown-distribution")


def check_alike(kernel: Kernel, reference: Kernel) -> None:
    """Raises ArgumentError where two kernels do not take the same arguments and sizes."""
    if kernel.runtime_sizes != reference.runtime_sizes:
        raise ArgumentError(
            f"the kernels have different sizes: {', '.join(kernel.runtime_sizes) or 'none'} and "
            f"{', '.join(reference.runtime_sizes) or 'none'}",
            "other-arguments",
        )
    for own, other in itertools.zip_longest(kernel.arguments, reference.arguments):
        if own is None or other is None or _outside(own) != _outside(other):
            raise ArgumentError(
                f"the kernels take different arguments: "
                f"{' and '.join(format_buffer(b) if b else 'nothing' for b in (own, other))}",
                "other-arguments",
            )


def _outside(buffer: Buffer) -> tuple[object, ...]:
    return buffer.role, buffer.name, buffer.dtype, tuple(dim.extent for dim in buffer.dims)
