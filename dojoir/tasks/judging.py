"""Whether an answer solves a task: the gates that the task names, in their order.

What was not asked for, for want of a measurement, never passes: a verdict under the timer `static` says which
gates it left out."""

from __future__ import annotations

import contextlib
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial

import dojoir
from dojoir import runtime
from dojoir.evidence.benching import bench_of, shape
from dojoir.evidence.bundle import Gained, Gate, Said
from dojoir.evidence.figures import Bench, gains
from dojoir.evidence.gates import AT_SHAPES, Asked, Gates, gate, in_turn
from dojoir.search import Static
from dojoir.support.public import public
from dojoir.tasks.task import EVIDENCE_GATES, TIMED, Answer, Task, each_without_one, replayed, without

SECONDS = 2.0
"""Of the rounds of a last timing."""

LARGEST = 1 << 30
"""How many bytes more than those of the given text the arrays of an answered text may have, at the sizes of the
task: the gates hold them in memory, more than once."""

BEYOND = 2
"""At how many sizes up to twice those of a task an answered text is compared with the given one."""

Measures = Callable[..., runtime.Together]


@dataclass(frozen=True)
class Judgement:
    """The verdict of the gates of a task on an answer. `gained` has how many times as fast the answer is as each of
    what the goal names; `share` is the share of the machine's ceiling `of` that it reaches. `left_out` are
    gates that the timer `static` cannot decide. `moves` are those of the kernel that was judged, `result` its
    hash."""

    gates: tuple[Gate, ...]
    gained: tuple[Gained, ...] = ()
    share: float | None = None
    of: str | None = None
    left_out: tuple[str, ...] = ()
    moves: tuple[str, ...] = ()
    result: str = ""

    @property
    def solved(self) -> bool:
        """Whether all gates that were asked pass, and at least one was."""
        return bool(self.gates) and all(one.status == "pass" for one in self.gates)


@dataclass
class JudgedAnswer:
    """An answer before the gates; `seed` is one that nobody could know, where it matters."""

    task: Task
    answer: Answer
    timer: str
    seed: int
    seconds: float = SECONDS
    measure: Measures = dojoir.measure_together
    trace: dojoir.Trace | None = None
    gained: list[Gained] = field(default_factory=list)
    share: tuple[float | None, str | None] = (None, None)
    evidence: Gates | None = None
    bench: Bench | None = None

    @property
    def target(self) -> str:
        return self.task.given.target

    @property
    def sizes(self) -> dict[str, int]:
        return dict(self.task.given.sizes)


@public
def judge(case: JudgedAnswer) -> Judgement:
    """The verdict of each gate of a task on an answer. Raises nothing for an answer that is wrong: the gate says
    so."""
    asked = [name for name in case.task.goal.gates if case.timer == "measure" or name not in TIMED]
    left_out = tuple(name for name in case.task.goal.gates if name not in asked)
    gates = tuple(_gates(case, asked))
    moves = () if case.trace is None else tuple(str(move) for move in case.trace.moves)
    result = "" if case.trace is None else case.trace.kernel.hash
    return Judgement(gates, tuple(case.gained), *case.share, left_out, moves, result)


def _gates(case: JudgedAnswer, asked: Sequence[str]) -> Iterator[Gate]:
    if case.task.kind in ("optimise", "reformulate"):
        refused = _made(case)
        if refused:
            yield Gate(asked[0], "fail", refused)
            yield from (Gate(name, "not-run", f"{asked[0]} failed") for name in asked[1:])
            return
    failed = ""
    of_evidence = [name for name in asked if name in EVIDENCE_GATES]
    if of_evidence:
        found = _of_evidence(case, of_evidence)
        yield from found
        failed = next((gate.name for gate in found if gate.status == "fail"), "")
    own = ((name, partial(_OWN[name], case)) for name in asked if name not in EVIDENCE_GATES)
    yield from (replace(one, file="") for one in in_turn(own, failed))


def _made(case: JudgedAnswer) -> str:
    """Makes the trace of an answer; gives why that cannot be done, "" where it was."""
    answer = case.answer
    try:
        start = case.task.kernel
        if answer.text:
            start = dojoir.parse(answer.text, "the answer")
            dojoir.prove(start)
            needed, most = bytes_of(start, case.sizes), LARGEST + bytes_of(case.task.kernel, case.sizes)
            if needed > most:
                return (
                    f"the arrays of the text that was answered have {needed:.3g} bytes, and {most:.3g} is the most"
                )
        trace, refused = replayed(start, answer.moves)
    except dojoir.DojoError as error:
        return error.diagnostic.message
    if refused is not None:
        return f"move {refused[0]} of the answer is illegal: {refused[1]}"
    if not case.task.given.stored and (path := _stored(trace)):
        return f"the answer is the stored schedule {path}, and this task takes none"
    case.trace = trace
    return ""


def _stored(trace: dojoir.Trace) -> str:
    """The stored schedule that makes the last kernel of a trace of its first; "" for none."""
    for one in dojoir.schedules.schedules(trace.start.name):
        with contextlib.suppress(dojoir.DojoError):  # it is for other sizes or another fp mode
            if one.on(trace.start).kernel == trace.kernel != trace.start:
                return one.path
    return ""


def bytes_of(kernel: dojoir.Kernel, sizes: Mapping[str, int]) -> int:
    """How many bytes the arrays of a kernel have. Raises ArgumentError for sizes that do not fit it."""
    arrays = kernel.specialize(**sizes).buffers
    return sum(math.prod(dim.extent.offset for dim in one.dims) * one.dtype.itemsize for one in arrays)


def _of_evidence(case: JudgedAnswer, names: Sequence[str]) -> list[Gate]:
    assert case.trace is not None
    asked = Asked(
        case.trace, case.target, [case.sizes], case.task.given.threads, case.task.goal.beside, case.seed,
        seconds=case.seconds, measure=case.measure,
    )  # fmt: skip
    try:
        found = gate(asked, names)
    except dojoir.DojoError as error:  # the sizes of another text
        return [Gate(names[0], "fail", error.diagnostic.message)]
    case.evidence = found
    _take(case, asked.seen.timed)
    return [replace(one, file="") for one in found.gates]


def _take(case: JudgedAnswer, bench: Bench | None) -> None:
    """Takes what a bench says of an answer."""
    ceiling = None if bench is None else bench.shapes[0].ceiling
    if ceiling is not None:
        case.share = ceiling.share, ceiling.bound_by
    case.gained += gains(bench)


# -- the gates of tasks alone --------------------------------------------------------------------------------
def equal(case: JudgedAnswer) -> Said:
    """The text that was answered computes what the given one does, on every distribution, at small sizes of the
    given one, at those of the task and at some beyond; one that is reached by moves alone is that text, proved."""
    assert case.trace is not None
    given = case.task.kernel
    if case.trace.start == given:
        return "pass", ""
    same = [
        [(one.name, one.role, str(one.dtype)) for one in kernel.arguments] for kernel in (given, case.trace.start)
    ]
    if same[0] != same[1]:
        return "fail", "the text that was answered has other arguments than the given one"
    if given.fp != case.trace.start.fp:
        return "fail", f"the text that was answered is under `fp {case.trace.start.fp}`, the given under {given.fp}"
    small, twice = dojoir.testing.sample_sizes(given), {name: 2 * size for name, size in case.sizes.items()}
    beyond = dojoir.testing.sizes_between(given, twice, BEYOND, case.seed)
    asked: list[Sequence[Mapping[str, int]]] = [small, [case.sizes], *([one] for one in beyond)]
    for number, sizes in enumerate(asked):
        names = tuple(name for name in AT_SHAPES if name != "nonfinite" or given.fp != "fast") if number else None
        report = dojoir.verify(
            case.trace.kernel, given, target=case.target, threads=case.task.given.threads, sizes=sizes,
            seeds=[case.seed + n for n in range(len(names or "abc"))], distributions=names,
        )  # fmt: skip
        if report.status == "undecided":
            return "undecided", f"too little could be compared: {', '.join(report.undecided)} inputs"
        if not report.ok:
            return "fail", report.reason or report.status
    return "pass", ""


def repaired(case: JudgedAnswer) -> Said:
    """The moves that were answered are legal, one fewer than the given ones."""
    trace, refused = replayed(case.task.kernel, case.answer.moves)
    if refused is not None:
        return "fail", f"move {refused[0]} is still illegal: {refused[1]}"
    number = case.answer.move
    if number is None or not 0 <= number < len(case.task.given.moves):
        return "fail", "no move is named"
    meant, _ = replayed(case.task.kernel, without(case.task.given.moves, number))
    if trace.kernel != meant.kernel:
        return "fail", "the moves lead to another kernel than those that are left"
    case.trace = trace
    return "pass", ""


def named(case: JudgedAnswer) -> Said:
    """The move that is named is the one: the first that the checker refuses. Or, where all are legal, the one
    without which the trace is fastest, and, for `diagnose`, at least `least` times as fast."""
    number, moves = case.answer.move, case.task.given.moves
    if number is None or not 0 <= number < len(moves):
        return "fail", f"no move is named: they are 0 to {len(moves) - 1}"
    full, refused = replayed(case.task.kernel, moves)
    if refused is not None:
        return ("pass", "") if number == refused[0] else ("fail", "that move is legal where it stands")
    found = speeds_without(case.task, case.timer, case.seed)
    if number not in found:
        return "fail", "without that move those after it are illegal, or the kernel fails or is far slower"
    best = max(found, key=lambda one: found[one].median)
    case.gained.append(found[number])
    if number != best:
        return (
            "fail",
            f"without another one it is faster: {found[best].median:.3g}x, not {found[number].median:.3g}x",
        )
    least = case.task.goal.least if case.task.kind == "diagnose" else 0.9
    if found[number].median < least:
        return "fail", f"without it the trace is {found[number].median:.3g}x as fast, and {least:g}x is asked"
    case.trace = full
    return "pass", ""


def speeds_without(task: Task, timer: str, seed: int = 0) -> dict[int, Gained]:
    """How many times as fast a trace is without each of its moves; those without which the others are illegal,
    or the kernel fails, are left out. Raises as an evaluator does."""
    full, _ = replayed(task.kernel, task.given.moves)
    traces = each_without_one(task.kernel, task.given.moves)
    sizes, threads, target = dict(task.given.sizes), task.given.threads, task.given.target
    found: dict[str, runtime.Evaluation] = {}
    with (
        Static(target, sizes, threads)
        if timer == "static"
        else dojoir.Evaluator(task.kernel, target, [sizes], threads=threads, seed=seed)
    ) as evaluator:
        kernels = {trace.kernel.hash: trace.kernel for trace in traces.values()}
        for one in evaluator.evaluate(kernels.values(), full.kernel):
            found[one.hash] = one
    gained: dict[int, Gained] = {}
    for number, trace in traces.items():
        one = found[trace.kernel.hash]
        if trace.kernel == full.kernel:
            gained[number] = Gained(1.0, 1.0, 1.0, "given")
        elif one.ratio is not None:
            low, high = one.ratio_interval or (one.ratio, one.ratio)
            gained[number] = Gained(one.ratio, low, high, "given")
    return gained


def bound(case: JudgedAnswer) -> Said:
    """The word that was answered is that of a profile of the given trace, on this machine."""
    full, _ = replayed(case.task.kernel, case.task.given.moves)
    card = dojoir.profile(
        full.kernel, case.target, sizes=case.sizes, threads=case.task.given.threads, counted=False
    )  # fmt: skip
    case.share = card.share, card.of
    if card.kind == "unknown":
        return "unavailable", card.why
    said = case.answer.bound or "nothing"
    return ("pass", "") if said == card.kind else ("fail", f"it is bound by {card.kind}, and {said} was answered")


def gain(case: JudgedAnswer) -> Said:
    """It is at least `least` times as fast as each of what the goal names, in the worst case of the interval."""
    assert case.trace is not None
    goal = case.task.goal
    if not {one.beside for one in case.gained} >= {*goal.beside}:
        case.gained.clear()
        _time(case)
    for one in case.gained:
        if one.low < goal.least:
            return "fail", f"{one} as fast as {one.beside}, and {goal.least:g}x is asked"
    return "pass", ""


def rivals(task: Task) -> Mapping[str, dojoir.Kernel]:
    """The kernels that a goal compares with: the given text, or what the rules make of it."""
    found = {}
    for name in task.goal.beside:
        if name == "text":
            found[name] = task.kernel
        elif name == "default":
            rules = dojoir.PASSES["default_schedule"].for_machine(dojoir.machine_for(task.given.target))
            found[name] = rules.on(task.kernel).kernel
        else:
            raise dojoir.ArgumentError(f"{task.name}: gain is beside text or default, not {name}", "unknown-peer")
    return found


def _time(case: JudgedAnswer) -> None:
    """Times an answer beside what the goal names, or estimates it under the timer `static`."""
    assert case.trace is not None
    others, own, threads = rivals(case.task), case.trace.kernel, case.task.given.threads
    if case.timer == "static":

        def estimate(kernel: dojoir.Kernel) -> float:
            return max(dojoir.search.estimate(kernel, case.sizes, case.target, threads), 1e-12)

        ratios = {name: estimate(other) / estimate(own) for name, other in others.items()}
        case.gained += [Gained(ratio, ratio, ratio, name) for name, ratio in ratios.items()]
        return
    together = case.measure(
        [own, *others.values()], case.target, threads=threads, sizes=case.sizes, budget=case.seconds
    )
    found = shape(case.sizes, [*others], together, {})
    case.bench = bench_of(own, case.target, threads, together.measurements[0].protocol, [found])
    _take(case, case.bench)


_OWN: Mapping[str, Callable[[JudgedAnswer], Said]] = {
    "equal": equal, "repaired": repaired, "named": named, "bound": bound, "gain": gain,
}  # fmt: skip
"""The function of each gate that only tasks have."""
