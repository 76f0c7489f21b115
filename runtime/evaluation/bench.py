"""The work of a worker on a candidate: build it, check it, time it, and check the results of the timed calls.

One build is all of that. A fault in what is built, in how it is loaded or in the clock must show here. Outputs
hold a pattern before a call that is checked, calls in between are looked at (`inspection`). The inputs of the last
call are those of the timed ones with some elements changed, and a clock that does not agree with a second one is
not believed.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Mapping
from dataclasses import field, replace
from functools import cached_property
from random import Random
from typing import Literal

from dojoir.backends.registry import is_device
from dojoir.errors import DojoError, RunError
from dojoir.ir.nodes import Kernel
from dojoir.runtime.evaluation.build import CODE_LIMIT, Built, CandidateSource, build, check_length, printed
from dojoir.runtime.evaluation.evaluation import Evaluation
from dojoir.runtime.evaluation.gpu_candidates import DeviceRunner
from dojoir.runtime.evaluation.inspection import Watch, complaint, draw_spots, remembers
from dojoir.runtime.evaluation.paired_timing import LONG, RACE_SECONDS, BoundKernel, Lap, alone, time_in_turn
from dojoir.runtime.evaluation.pool import InputCase, KnownCase, Pool, elements_of
from dojoir.runtime.gpu import devices
from dojoir.runtime.gpu.targets import on_host
from dojoir.runtime.measurement.lease import timing_lease
from dojoir.runtime.measurement.spread import geometric
from dojoir.runtime.process.float_mode import Mode, float_mode, was_changed
from dojoir.runtime.verification.compare import CodeCounts
from dojoir.runtime.verification.report import too_many_left_out
from dojoir.runtime.verification.slack import slack_of
from dojoir.runtime.verification.trial import LEFT_MODE, POISONS, attempt
from dojoir.support.frozen import dataclass

KEPT = 8
"""How many candidates a worker keeps built, to time others beside."""

REMEMBERED = 4096
"""Of how many machine codes a worker remembers what became of them."""

Tell = Callable[[str], None]
"""Is told the name of each stage as it begins."""


Against = Literal["best", "itself", "full"]


@dataclass(frozen=True)
class Job:
    """A candidate and what it is held against. The cases of the small sizes, and three for each size that is
    timed: that of the first call, that of the timed ones, and that of the last, whose inputs are nearly the same.
    Which calls are looked at follows from `seed`."""

    kernel: Kernel
    checks: tuple[InputCase, ...]
    timed: tuple[tuple[InputCase, InputCase, InputCase], ...]
    best: Kernel | None = None
    against: Against = "best"
    """The rival of a candidate in a timing: the best, itself (to see the noise), or itself built in full."""

    seed: int = 0


@dataclass
class CandidateBench:
    """A place to evaluate candidates. `cut` is how many times longer than the best one may take, `code_limit` how
    many characters the code of one may have. `emulated` runs the code of a GPU on the CPU, `cold` times with
    nothing of the arrays in the caches of a GPU, `race_seconds` is how long a comparison lasts that is not
    decided."""

    pool: Pool
    threads: int
    cut: float = 3.0
    code_limit: int = CODE_LIMIT
    emulated: bool = False
    cold: bool = False
    race_seconds: float = RACE_SECONDS
    builds: dict[str, Built] = field(default_factory=dict)
    known: dict[InputCase, KnownCase] = field(default_factory=dict)
    texts: dict[str, str] = field(default_factory=dict)
    """From a source to the machine code that it gave."""

    seen: dict[str, Evaluation] = field(default_factory=dict)
    """From machine code to what became of it."""

    runners: dict[int, BoundKernel] = field(default_factory=dict)
    took: dict[tuple[str, int], float] = field(default_factory=dict)
    counts: dict[InputCase, tuple[CodeCounts, ...]] = field(default_factory=dict)
    counted: list[CodeCounts] = field(default_factory=list)
    """How the codes were compared of the candidate that is under way."""

    @cached_property
    def slack(self) -> float:
        return slack_of(self.pool.reference)

    def evaluate(self, job: Job, tell: Tell = lambda _: None) -> Evaluation:
        """The result of a candidate. A crash and a hang are for others to see."""
        stages: dict[str, float] = {}
        clock = _Stages(stages, tell)
        try:
            self.counted = []
            found = self._evaluated(job, clock)
            return replace(found, stages=clock.done(), compared=found.compared or self._compared())
        except RunError as error:
            memory = error.diagnostic.code == "out-of-memory"
            status = "memory" if memory else "wrong" if clock.stage in ("verify", "time") else "build-failed"
            return Evaluation(job.kernel.hash, status, stages=clock.done(), reason=error.diagnostic.message)
        except MemoryError:
            reason = "the process ran out of memory"
            return Evaluation(job.kernel.hash, "memory", stages=clock.done(), reason=reason)

    def _evaluated(self, job: Job, clock: _Stages) -> Evaluation:
        clock.enter("build")
        try:
            source = printed(job.kernel, self.pool.target)
            seen = self.met(self.texts.get(source.digest, ""), job)
            if seen is not None:
                return seen
            check_length(source, self.code_limit)
            built = self.build(job.kernel, source)
        except RunError:
            raise
        except DojoError as error:
            return Evaluation(job.kernel.hash, "build-failed", reason=error.diagnostic.message)
        if len(self.texts) == REMEMBERED:
            self.texts.clear()
        self.texts[source.digest] = built.digest
        seen = self.met(built.digest, job)
        if seen is not None:
            return seen
        clock.enter("verify")
        cases, wrong = self.verify(built, job)
        if wrong is not None:
            return Evaluation(job.kernel.hash, "wrong", cases=cases, digest=built.digest, reason=wrong)
        if job.checks and (left_out := too_many_left_out(self.counted, self.pool.left_out)) is not None:
            return Evaluation(job.kernel.hash, "wrong", cases=cases, digest=built.digest, reason=left_out)
        found = self.timed(built, job, clock, cases)
        if len(self.seen) == REMEMBERED:
            self.seen.clear()
        if found.status == "ok" and job.against != "full":
            self.seen[built.digest] = found
        return found

    def met(self, digest: str, job: Job) -> Evaluation | None:
        """The earlier result for the same machine code, as a result of this kernel."""
        seen = self.seen.get(digest)
        if seen is None or job.against != "best":
            return None
        return replace(seen, hash=job.kernel.hash, cases=0, ratio=None, ratio_interval=None, ratios=())

    @cached_property
    def on_device(self) -> bool:
        """Whether candidates run on a GPU."""
        return is_device(self.pool.target) and not self.emulated

    # -- build and check -----------------------------------------------------------------------------------
    def build(self, kernel: Kernel, source: CandidateSource | None = None) -> Built:
        """The kernel as a callable, which is kept for a while."""
        found = self.builds.pop(kernel.hash, None) or self._built(kernel, source)
        self.builds[kernel.hash] = found
        while len(self.builds) > KEPT:
            del self.builds[next(iter(self.builds))]
        return found

    def _built(self, kernel: Kernel, source: CandidateSource | None = None, full: bool = False) -> Built:
        target = self.pool.target
        return build(kernel, target, self.threads, source or printed(kernel, target), full, self.emulated)

    def case(self, case: InputCase) -> KnownCase:
        if case not in self.known:
            self.known[case] = self.pool.known(case)
        return self.known[case]

    def verify(self, built: Built, job: Job) -> tuple[int, str | None]:
        """How many cases were compared, and what was wrong with the last one."""
        compiled = on_host(built.compiled) if self.on_device else built.compiled
        for number, case in enumerate(job.checks):
            known, sizes = self.case(case), self.pool.size(case.size)
            for poison in POISONS:
                arrays, faults = attempt(compiled, known.inputs, sizes, poison == POISONS[0], poison)
                outputs = {n: elements_of(self.pool.reference.buffer(n), a) for n, a in arrays.items()}
                wrong = "it " + " and ".join(faults) if faults else known.complaint(outputs, self.slack)
                if wrong is not None:
                    return number + 1, f"{wrong} ({describe(sizes, case, self.pool)})"
            self._count(case)
        return len(job.checks), None

    def _count(self, case: InputCase) -> None:
        if case not in self.counts:
            self.counts[case] = self.case(case).counted(self.slack)
        self.counted += self.counts[case]

    def _compared(self) -> dict[str, int]:
        parts = ("exact", "near", "left_out")
        found = {part: sum(getattr(one, part) for one in self.counted) for part in parts}
        return found if any(found.values()) else {}

    # -- time ----------------------------------------------------------------------------------------------
    def runner(self, number: int) -> BoundKernel:
        """The arrays of a timed size: the same for all candidates."""
        if number not in self.runners:
            reference, sizes = self.pool.reference, self.pool.size(number)
            if self.on_device:
                driver = devices.find(self.pool.target)
                self.runners[number] = DeviceRunner(reference, sizes, driver, self.cold)
            else:
                self.runners[number] = BoundKernel(reference, sizes)
        return self.runners[number]

    def timed(self, built: Built, job: Job, clock: _Stages, cases: int) -> Evaluation:
        """The times at each size, and what was wrong with the results of timed calls."""
        kernel_hash = job.kernel.hash
        best = self._best(job, built)
        clock.enter("lease")
        laps: list[Lap] = []
        with timing_lease():
            clock.enter("time")
            for trio in job.timed:
                lap = self._lap(built, best, job, trio)
                cases += 3 if lap.seconds is not None else 1
                if lap.status != "ok":
                    seconds = None if lap.status in ("wrong", "lost") else lap.seconds
                    return Evaluation(
                        kernel_hash, lap.status, seconds, cases=cases, digest=built.digest, reason=lap.reason
                    )
                laps.append(lap)
        return _joined(kernel_hash, laps, cases, built.digest)

    def _best(self, job: Job, built: Built) -> Built | None:
        """The opponent of the candidate, unless it is the same."""
        if job.against == "itself":
            return built
        if job.against == "full":
            full = self._built(job.kernel, full=True)
            return None if full.digest == built.digest else full
        if job.best is None or job.best.hash == job.kernel.hash:
            return None
        try:
            best = self.build(job.best)
        except DojoError:
            return None
        return None if best.digest == built.digest else best

    def _lap(self, built: Built, best: Built | None, job: Job, trio: tuple[InputCase, InputCase, InputCase]) -> Lap:
        """The comparison at one size."""
        first, timed, last = trio
        number, random, mode = first.size, Random(job.seed), float_mode()
        runner = self.runner(number)
        runner.bind(built.compiled)
        took, wrong = self._checked(runner, first, random, mode)
        if wrong is not None:
            return Lap("wrong", reason=f"{wrong} ({self._where(first)}, its first call)")
        calls = [took]
        bar = math.inf
        rival: BoundKernel | None = None
        if best is not None and job.best is not None:
            key = (job.best.hash if job.against != "full" else best.digest, number)
            rival = runner.beside(best.compiled)
            if key not in self.took:
                rival.first()
                self.took[key] = rival.second()
            bar = self.cut * self.took[key]
        is_sample = rival is None and took >= LONG and not self.on_device
        if took <= 10 * bar and not is_sample:
            calls.append(runner.second())
        if min(calls) > bar:
            slower = min(calls) / bar * self.cut
            return Lap("cut", min(calls), reason=f"{slower:.1f} times as long as the best")
        watch = Watch(random, self.case(timed), self.slack)
        runner.load(watch.known)
        least, most = min(calls), self.race_seconds
        lap = (
            alone(runner, least, watch, most) if rival is None else time_in_turn(runner, rival, least, watch, most)
        )
        if lap.status == "wrong":
            return replace(lap, reason=f"{lap.reason} ({self._where(timed)}, one of its timed calls)")
        if lap.status != "ok" or lap.seconds is None:
            return lap
        took, wrong = self._checked(runner, last, random, mode)
        if wrong is not None:
            return Lap("wrong", reason=f"{wrong} ({self._where(last)}, after its timed calls)")
        wrong = remembers(runner, random, lap.seconds, took)
        if wrong is not None:
            return Lap("wrong", reason=wrong)
        self.took[(job.kernel.hash, number)] = lap.seconds
        return lap

    def _checked(
        self, runner: BoundKernel, case: InputCase, random: Random, mode: Mode | None
    ) -> tuple[float, str | None]:
        """The seconds of a call on fresh inputs, and what was wrong with it, by all of its results and by spots
        as it returned; `mode` is that of the processor before all calls."""
        known = self.case(case)
        runner.load(known)
        spots = draw_spots(random, known.outputs)
        took = runner.first()
        seen = runner.look(spots)
        wrong = f"it {LEFT_MODE}" if was_changed(mode) else runner.fault(known)
        wrong = wrong or runner.complaint(known, self.slack) or complaint(spots, seen, known, self.slack)
        if wrong is None:
            self._count(case)
        return took, wrong

    def _where(self, case: InputCase) -> str:
        return describe(self.pool.size(case.size), case, self.pool)


class _Stages:
    """The seconds of each stage: of this process, and by the clock while it waits."""

    def __init__(self, seconds: dict[str, float], tell: Tell) -> None:
        self.seconds, self.tell = seconds, tell
        self.stage = ""
        self.start = self.now()

    def now(self) -> float:
        return time.perf_counter() if self.stage == "lease" else time.process_time()

    def enter(self, stage: str) -> None:
        self.done()
        self.stage = stage
        self.start = self.now()
        self.tell(stage)

    def done(self) -> dict[str, float]:
        now = self.now()
        if self.stage:
            self.seconds[self.stage] = self.seconds.get(self.stage, 0.0) + now - self.start
        self.start = now
        return self.seconds


def describe(sizes: Mapping[str, int], case: InputCase, pool: Pool) -> str:
    """A case in words."""
    text = ", ".join(f"{name}={value}" for name, value in sizes.items()) or "no sizes"
    return f"{text}, {case.distribution} inputs, seed {pool.seeds[case.seed]}"


def _joined(kernel_hash: str, laps: list[Lap], cases: int, digest: str) -> Evaluation:
    """Several sizes as one evaluation."""
    seconds = geometric([lap.seconds or 0.0 for lap in laps])
    low, high = (geometric([lap.interval[end] for lap in laps]) for end in (0, 1))
    ratios = tuple(lap.ratio for lap in laps if lap.ratio is not None)
    raced = len(ratios) == len(laps)
    return Evaluation(
        kernel_hash,
        "ok",
        seconds,
        (low, high),
        tuple(sample for lap in laps for sample in lap.samples),
        cases,
        digest,
        ratio=geometric(ratios) if raced else None,
        ratio_interval=(
            (geometric([lap.ratio_interval[0] for lap in laps]), geometric([lap.ratio_interval[1] for lap in laps]))
            if raced
            else None
        ),
        ratios=ratios if raced else (),
        counts=tuple(len(lap.samples) for lap in laps) if len(laps) > 1 else (),
    )
