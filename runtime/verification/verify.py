"""Checking a compiled kernel against its meaning."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from functools import cached_property

import numpy as np

from dojoir.errors import ArgumentError, did_you_mean
from dojoir.ir.format import format_buffer
from dojoir.ir.nodes import Buffer, Kernel
from dojoir.ir.traced import Traced, first_kernel, last_kernel
from dojoir.meaning.packed import unpacked, unpacked_shape
from dojoir.meaning.sizes import solve
from dojoir.proof.wellformed import prove
from dojoir.runtime.build.compiler import check_target
from dojoir.runtime.build.pool import thread_count
from dojoir.runtime.process.child import Message, Outcome, raise_reported, run_child
from dojoir.runtime.process.subject import KernelSubject
from dojoir.runtime.verification.compare import Comparison, Expected, comparable, compare
from dojoir.runtime.verification.comparison_rules import ComparisonRule
from dojoir.runtime.verification.given_inputs import GIVEN, given_arrays
from dojoir.runtime.verification.inputs import DISTRIBUTIONS, WIDEST, distributions_of, make_inputs, milder
from dojoir.runtime.verification.narrow_sums import narrow_sums
from dojoir.runtime.verification.oracle import INTERPRETED_INSTANCES, Oracle
from dojoir.runtime.verification.report import MOST_LEFT_OUT, MOST_UNCHECKED, Case, Report, too_many_left_out
from dojoir.runtime.verification.sample_sizes import count_instances, sample_sizes
from dojoir.runtime.verification.slack import slack_of
from dojoir.runtime.verification.trial import POISONS, load_arrays, save_arrays
from dojoir.support.frozen import dataclass
from dojoir.support.public import public
from dojoir.support.temporary import temporary_folder

REFERENCE_LIMIT = 600.0
"""Seconds that a compiled reference may take at least."""


@public
def verify(
    kernel: Kernel | Traced,
    against: Kernel | Traced | None = None,
    *,
    target: str = "llvm",
    cpu: str | None = None,
    sizes: Mapping[str, int] | Sequence[Mapping[str, int]] | None = None,
    seeds: int | Sequence[int] = (0, 1, 2),
    distributions: Sequence[str] | None = None,
    inputs: Mapping[str, object] | None = None,
    threads: int | None = None,
    time_limit: float = 60.0,
    memory_limit: int | None = None,
    emulated: bool = False,
    left_out: Sequence[str] = (),
) -> Report:
    """Runs the kernel on `target` and compares it with what `against` (by default the kernel itself) means.
    Of a trace, its last kernel runs, and its first is what it is compared with.

    The kernel runs in a child process, for at most `time_limit` seconds and in at most `memory_limit` bytes of
    address space, its arrays between guard pages and its outputs filled with a pattern. A crash, a hang, a write
    where none belongs and an output left unwritten are all failures in the report. Inputs are drawn from
    `distributions` with the `seeds` in turn, by default from all (under `fp fast` none with infinities and NaN).
    Integers and bools must be exact, and under `fp strict` all whose arithmetic the text fixes. A float may be off
    by the bound of its rounding error, computed from the reference alone (see
    `dojoir.runtime.verification.tolerance`); one of 8 bits or fewer by a
    step, where the reference is so near to a tie that rounding decides. Of such codes at most a hundredth may be
    left out, but in outputs that `left_out` names. The reference is interpreted in f64, or, above 300,000
    statements, compiled in f64 for the other target; above 200 million it is scheduled first, and the report says
    so. `sizes` are by default a few small ones that the facts of the kernel allow, each of them once beyond two
    unrolled blocks of vectors.

    `inputs` holds arguments by name that are used as they are (a positive definite matrix): the sizes follow from
    their shapes, and what is not given is drawn. Where rounding may change results to anything, `wide` inputs are
    drawn nearer to one, and fewer of `nonfinite` ones are infinite or NaN. The report says which share of each
    distribution could still not be compared, and above a tenth of one it is undecided, not ok.

    With `emulated` the code for a GPU (`cuda`, `hip`) runs on the CPU, where a race, a barrier that not all
    threads reach, and an access out of bounds are failures too.

    Raises KernelError for a kernel that is wrong, ToolchainError where the target has no compiler, ArgumentError
    for sizes or inputs that do not fit, or an `against` with other arguments.
    """
    reference = first_kernel(kernel if against is None else against)
    kernel = last_kernel(kernel)
    prove(kernel)
    prove(reference)
    check_alike(kernel, reference)
    chosen = distributions_of(reference) if distributions is None else distributions
    _check_distributions(chosen)
    check_outputs(reference, left_out)
    target = check_target(target, cpu, emulated)
    given = given_arrays(kernel, inputs or {})
    if all(buffer.role == "out" or buffer.name in given for buffer in kernel.arguments) and given:
        chosen, seeds = (GIVEN,), 0
    return verify_subject(
        KernelSubject(kernel, target, thread_count(threads), emulated=emulated),
        reference,
        _chosen_sizes(kernel, reference, sizes, given),
        (seeds,) if isinstance(seeds, int) else tuple(seeds) or (0,),
        chosen,
        time_limit,
        memory_limit,
        given,
        left_out,
    )


def verify_subject(
    subject: KernelSubject,
    reference: Kernel,
    sizes: Sequence[Mapping[str, int]],
    seeds: Sequence[int],
    distributions: Sequence[str],
    time_limit: float,
    memory_limit: int | None = None,
    given: Mapping[str, np.ndarray] | None = None,
    left_out: Sequence[str] = (),
) -> Report:
    """`verify` for anything that a child can load as a kernel, with everything chosen."""
    kernel = subject.kernel
    with temporary_folder() as name:
        oracle = Oracle(reference, subject.target, max(time_limit, REFERENCE_LIMIT))
        plans = list(_plans(kernel, sizes, seeds, distributions, given or {}, oracle, name))
        trial = _Trial(run_child(_job(subject, plans), time_limit, memory_limit))
        cases: list[Case] = []
        for number, plan in enumerate(plans):
            if not trial.was_started(number):
                break
            cases.append(_judge(plan, trial.problem(number), oracle))
    reason = next((f"{case.problem} ({case})" for case in cases if case.problem is not None), None)
    if reason is None and len(cases) < len(plans):
        reason = f"the process {trial.outcome.ended or 'ended'} {'between cases' if cases else 'while it compiled'}"
    if reason is None:
        reason = too_many_left_out((one for case in cases for one in case.counted), left_out)
    reference_used = " and ".join(sorted(oracle.used))
    where = f"{subject.target}, emulated" if subject.emulated else subject.target
    not_run = len(plans) - len(cases)
    return Report(kernel.name, where, reference_used, tuple(cases), reason, not_run, narrow_sums(kernel))


# -- the cases ---------------------------------------------------------------------------------------------
@dataclass(frozen=True)
class _Plan:
    """A case before it is run: its inputs, and how the files with them and with the outputs of each run start;
    what is expected of it, if that is known already."""

    sizes: Mapping[str, int]
    seed: int
    distribution: str
    inputs: Mapping[str, np.ndarray]
    files: str
    reach: float | None = None
    expected: Mapping[str, Expected] | None = None

    @property
    def source(self) -> str:
        return f"{self.files}-inputs"

    def outputs(self, poison: int) -> str:
        return f"{self.files}-outputs-{poison}"

    def case(self, problem: str | None, found: Sequence[Comparison] = ()) -> Case:
        worst = max((c.worst for c in found if c.worst is not None), key=lambda w: w.share, default=None)
        loose = max((c.loose for c in found if c.loose is not None), key=lambda one: one.share, default=None)
        unchecked, elements = sum(c.unchecked for c in found), sum(c.elements for c in found)
        seen = tuple(c.counted for c in found if c.counted is not None)
        return Case(
            self.sizes,
            self.seed,
            self.distribution,
            problem,
            worst,
            unchecked,
            elements,
            self.reach,
            loose,
            seen,
        )


def _plans(
    kernel: Kernel,
    sizes: Sequence[Mapping[str, int]],
    seeds: Sequence[int],
    distributions: Sequence[str],
    given: Mapping[str, np.ndarray],
    oracle: Oracle,
    folder: str,
) -> Iterator[_Plan]:
    """The distributions with the seeds in turn, over all sizes so that each distribution comes at least twice, or
    at the only size once. Where the kernel runs long: one for each seed."""
    each = max(len(seeds), min(len(distributions), -(-2 * len(distributions) // len(sizes))))
    each = 1 if distributions == (GIVEN,) else each
    pairs = zip(itertools.cycle(seeds), itertools.cycle(distributions), strict=False)
    for which, chosen in enumerate(sizes):
        is_long = count_instances(kernel, chosen, INTERPRETED_INSTANCES) > INTERPRETED_INSTANCES
        for number, (seed, distribution) in enumerate(itertools.islice(pairs, len(seeds) if is_long else each)):
            files = f"{folder}/{which}-{number}"
            if milder(distribution, WIDEST) is not None:
                plan = _mild(kernel, chosen, seed, distribution, given, oracle, files)
            else:
                drawn = {} if distribution == GIVEN else make_inputs(kernel, chosen, seed, distribution)
                plan = _Plan(chosen, seed, distribution, {**drawn, **given}, files)
            save_arrays(plan.source, plan.inputs)
            yield plan


def _mild(
    kernel: Kernel,
    sizes: Mapping[str, int],
    seed: int,
    distribution: str,
    given: Mapping[str, np.ndarray],
    oracle: Oracle,
    files: str,
) -> _Plan:
    """Inputs with magnitudes, infinities and NaNs reduced until enough results can be compared, as the reference
    alone decides."""
    reach = WIDEST
    while True:
        inputs = {**make_inputs(kernel, sizes, seed, distribution, reach), **given}
        expected = oracle.expected(sizes, inputs)
        following = milder(distribution, reach)
        if following is None or can_compare(oracle.kernel, expected):
            shown = reach if distribution == "wide" and reach < WIDEST else None
            return _Plan(sizes, seed, distribution, inputs, files, shown, expected)
        reach = following


def can_compare(kernel: Kernel, expected: Mapping[str, Expected]) -> bool:
    """Whether enough elements can be compared: of all outputs, and of the codes of each."""
    slack, elements, unchecked, enough = slack_of(kernel), 0, 0, True
    for name, output in expected.items():
        asked = comparable(kernel.buffer(name).dtype, output, slack)
        open_ = output.values.size - int(np.count_nonzero(asked))
        elements, unchecked = elements + output.values.size, unchecked + open_
        enough &= output.rule is not ComparisonRule.CODES or open_ <= MOST_LEFT_OUT * output.values.size
    return enough and unchecked <= MOST_UNCHECKED * elements


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
    """The report of a child on its runs, len(POISONS) for each case."""

    outcome: Outcome

    def __post_init__(self) -> None:
        raise_reported(self.outcome)

    def was_started(self, case: int) -> bool:
        return case * len(POISONS) in self._started

    def problem(self, case: int) -> str | None:
        """The error in the runs of a case, apart from their results."""
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
    expected = plan.expected or oracle.expected(plan.sizes, plan.inputs)
    slack = slack_of(oracle.kernel)
    found: list[Comparison] = []
    for poison in POISONS:
        outputs = load_arrays(plan.outputs(poison))
        found += [
            compare(buffer.name, buffer.dtype, unpacked(buffer, outputs[buffer.name]), expected[buffer.name], slack)
            for buffer in oracle.kernel.arguments
            if buffer.role != "in"
        ]
    case = plan.case(None, found)
    return (
        case if all(comparison.ok for comparison in found) else replace(case, problem=f"wrong result: {case.worst}")
    )


# -- what is asked for -------------------------------------------------------------------------------------
def _chosen_sizes(
    kernel: Kernel,
    reference: Kernel,
    sizes: Mapping[str, int] | Sequence[Mapping[str, int]] | None,
    given: Mapping[str, np.ndarray],
) -> list[dict[str, int]]:
    if sizes is None and not given:
        return sample_sizes(kernel)
    shapes = {name: unpacked_shape(kernel.buffer(name), array.shape) for name, array in given.items()}
    wanted = [sizes or {}] if sizes is None or isinstance(sizes, Mapping) else sizes
    chosen = [solve(kernel, shapes, one) for one in wanted]
    for one in chosen:
        solve(reference, {}, one)
    if not chosen:
        raise ArgumentError("sizes is empty: leave it out, or give at least one", "no-sizes")
    return chosen


def check_outputs(kernel: Kernel, names: Sequence[str]) -> None:
    """Raises ArgumentError where a name is that of no output."""
    outputs = [buffer.name for buffer in kernel.arguments if buffer.role != "in"]
    for name in names:
        if name not in outputs:
            raise ArgumentError(
                f"left_out names '{name}', which is no output of {kernel.name}{did_you_mean(name, outputs)}; "
                f"they are {', '.join(outputs)}",
                "unknown-argument",
            )


def _check_distributions(distributions: Sequence[str]) -> None:
    known = ", ".join(DISTRIBUTIONS)
    for name in distributions:
        if name not in DISTRIBUTIONS:
            hint = did_you_mean(name, DISTRIBUTIONS)
            raise ArgumentError(
                f"there is no distribution '{name}'{hint}; they are {known}", "unknown-distribution"
            )
    if not distributions:
        raise ArgumentError(f"distributions is empty; there are {known}", "unknown-distribution")


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
