"""The gates: is it proved, built from what it says, right, the same each time, honest, and faster?

They come in this order. What did not run never passes, and what fails blocks those after it. The verdict is that
all pass; nothing weighs one against another.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

import dojoir
from dojoir.evidence.benching import Measure, bench
from dojoir.evidence.bundle import GATES, SOURCE, TRACE, Gate, Said, said
from dojoir.evidence.figures import Bench, ComparisonReport, computed, of_reports
from dojoir.evidence.figures import sizes_in_words as _at
from dojoir.evidence.honest import Honesty, honesty
from dojoir.evidence.peers import TorchFunction, check_peers
from dojoir.evidence.sanitized import KINDS, TOOL, complaint

NAMES = ("proved", "built", "correct", "deterministic", "honest", "faster")

STEPS = 2_000_000_000
"""The steps that a certificate may take: above what any schedule that comes with dojoir needs."""

CALLS = 5
"""How many calls on the same inputs are compared bit by bit."""

BESIDE = ("default",)
"""The default baseline that the kernel must be faster than: the schedule that the rules make of its text."""

SECONDS = 10.0
DRIFT = 0.01
"""How far results after many calls may be from those of the first, as a share of the largest: sums of threads come
in any order."""


Sizes = Mapping[str, int]


@dataclass(frozen=True)
class Calls:
    """The digests of what calls on the same inputs gave, at some sizes on so many threads, and how the process
    ended that did not make them all."""

    sizes: Mapping[str, int]
    threads: int
    digests: tuple[str, ...]
    ended: str = ""


@dataclass(frozen=True)
class Looked:
    """Why a kernel is not honest at some sizes, "" where nothing was found."""

    sizes: Mapping[str, int]
    reason: str = ""


@dataclass(frozen=True)
class GateFindings:
    """All that was seen when the gates were asked, from which their verdicts follow: `beside` what it was to be
    faster, and what was wrong with the files of its run. Then how results were compared, what calls gave, what was
    not honest, and the bench."""

    beside: tuple[str, ...]
    complaint: str = ""
    correct: tuple[ComparisonReport, ...] = ()
    calls: tuple[Calls, ...] = ()
    honest: tuple[Looked, ...] = ()
    timed: Bench | None = None


@dataclass(frozen=True)
class Gates:
    """The results of all gates for a kernel, in their order, and what was `seen`; `notes` are reported and not
    judged. `seed` is what all that was drawn follows from: nobody could know it before."""

    kernel: str
    hash: str
    target: str
    threads: int
    shapes: tuple[Mapping[str, int], ...]
    seed: int
    gates: tuple[Gate, ...]
    notes: tuple[str, ...] = ()
    seen: GateFindings | None = None

    @property
    def ok(self) -> bool:
        """Whether all pass."""
        return [gate.status for gate in self.gates] == ["pass"] * len(NAMES)

    def __getitem__(self, name: str) -> Gate:
        return next(gate for gate in self.gates if gate.name == name)

    def follows(self, name: str) -> Said:
        """The verdict of `correct`, `deterministic`, `honest` or `faster` that follows from what was seen."""
        return FOLLOWS[name](self.seen or GateFindings(()), self.shapes, self.threads)


@dataclass
class Asked:
    """The input of the gates, and the results that they share."""

    trace: dojoir.Trace
    target: str
    shapes: Sequence[Mapping[str, int]]
    threads: int
    beside: Sequence[str]
    seed: int
    torch: TorchFunction | None = None
    cold: bool = False
    source: str | None = None
    complaint: str = ""
    seconds: float = SECONDS
    time_limit: float = 120.0
    sanitize: bool = False
    measure: Measure = dojoir.measure_together
    honesty: Honesty = honesty
    notes: list[str] = field(default_factory=list)
    seen: GateFindings = GateFindings(())

    def see(self, **one: ComparisonReport | Calls | Looked) -> None:
        """Adds one thing to what was seen."""
        more: dict[str, Any] = {name: (*getattr(self.seen, name), value) for name, value in one.items()}
        self.seen = replace(self.seen, **more)


def proved(asked: Asked) -> Said:
    """By `certify`, from the texts: no move and no shortcut is trusted."""
    return of_certificate(dojoir.certify(asked.trace, STEPS))


def of_certificate(verdict: dojoir.Verdict) -> Said:
    """The verdict of a certificate."""
    if verdict.status == "unknown":
        return "undecided", str(verdict.reason)
    return _judged("" if verdict else str(verdict))


def built(asked: Asked) -> Said:
    """Checks that the built code is the present output of `emit` for the kernel."""
    if asked.complaint:
        return _judged(asked.complaint)
    text, again = (dojoir.emit(asked.trace.kernel, asked.target) for _ in range(2))
    if text != again:
        return _judged("emit gives another source the second time")
    reason = "" if asked.source is None else other_source(asked.source, text, "the source")
    if not reason:
        dojoir.compile(asked.trace.kernel, asked.target, threads=asked.threads)
    return _judged(reason)


def other_source(kept: str, now: str, name: str) -> str:
    """Where a source is another than `emit` gives now; "" where it is the same."""
    if kept == now:
        return ""
    old, new = kept.splitlines(), now.splitlines()
    shorter = min(len(old), len(new))
    line = next((n for n, (a, b) in enumerate(zip(old, new, strict=False)) if a != b), shorter) + 1
    return f"{name} is not what emit gives now: line {line} is another"


AT_SHAPES = ("integers", "uniform", "normal", "special", "nonfinite")
"""The distributions of inputs at the sizes that are measured."""

BETWEEN = ("uniform", "special", "nonfinite")
"""Those at sizes between small ones and these, of which DRAWN are drawn for each shape."""

DRAWN = 2


def correct(asked: Asked) -> Said:
    """Against what the first kernel means: every distribution at small sizes, at those that are measured and at
    some drawn between, on seeds that nobody could know; and under a sanitizer where that is asked."""
    kernel, start = asked.trace.kernel, asked.trace.start
    between = [s for shape in asked.shapes for s in dojoir.testing.sizes_between(start, shape, DRAWN, asked.seed)]
    questions: list[tuple[Sizes | None, Sequence[str]]] = [(None, ())]
    questions += [(sizes, AT_SHAPES) for sizes in asked.shapes] + [(sizes, BETWEEN) for sizes in between]
    for sizes, names in questions:
        chosen = [name for name in names if name != "nonfinite" or start.fp != "fast"] or None
        seeds = [asked.seed + n for n in range(len(chosen or "abc"))]
        report = dojoir.verify(
            kernel, start, target=asked.target, threads=asked.threads, seeds=seeds, sizes=sizes,
            distributions=chosen, time_limit=asked.time_limit,
        )  # fmt: skip
        asked.see(correct=ComparisonReport.of(sizes, report))
        if not report.ok:
            break
    else:
        for sizes in asked.shapes if asked.sanitize else ():
            wrong = complaint(kernel, asked.target, sizes, asked.seed, asked.time_limit)
            if wrong is not None:
                asked.see(correct=ComparisonReport(dict(sizes), "failed", 1, f"{wrong} ({_at(sizes)})"))
                break
            asked.notes.append(f"{TOOL} found nothing: {', '.join(KINDS)} ({_at(sizes)})")
    return is_correct(asked.seen, asked.shapes, asked.threads)


def is_correct(seen: GateFindings, shapes: Sequence[Sizes], threads: int) -> Said:
    """The verdict of comparisons at small sizes and at all shapes."""
    verdict = of_reports(seen.correct)
    compared = [one.sizes for one in seen.correct]
    if verdict[0] == "pass" and not all(sizes in compared for sizes in ({}, *shapes)):
        return "undecided", "its results were not compared at all sizes"
    return verdict


def deterministic(asked: Asked) -> Said:
    """The same bits in five calls on fresh buffers; other numbers of threads are reported."""
    others = [1] if asked.threads > 1 else []
    for sizes in asked.shapes:
        found = dojoir.testing.repeats(
            asked.trace.kernel, asked.target, sizes=sizes, threads=[asked.threads, *others], calls=CALLS,
            seed=asked.seed % (1 << 31), time_limit=asked.time_limit,
        )  # fmt: skip
        asked.see(calls=Calls(dict(sizes), asked.threads, found.digests[asked.threads], found.ended or ""))
        if found.depends_on_threads and not found.differs(asked.threads):
            asked.notes.append(f"on 1 thread the bits are others than on {asked.threads} ({_at(sizes)})")
    return is_deterministic(asked.seen, asked.shapes, asked.threads)


def is_deterministic(seen: GateFindings, shapes: Sequence[Sizes], threads: int) -> Said:
    """The verdict of calls on the same inputs."""
    for one in seen.calls:
        if one.ended or len(one.digests) < CALLS:
            return _judged(f"the process {one.ended or 'ended'} after {len(one.digests)} calls")
        same = len(set(one.digests))
        if same > 1:
            return _judged(f"{CALLS} calls on the same inputs gave {same} different results ({_at(one.sizes)})")
    called = [one.sizes for one in seen.calls if one.threads == threads]
    return _all(all(sizes in called for sizes in shapes), "it was not called at all sizes")


def honest(asked: Asked) -> Said:
    """No unsafe move, no input left out, nothing kept or touched, and no faster than it can be."""
    if not asked.trace.is_safe:
        return _judged(str(asked.trace.unchecked))
    reason, notes = asked.honesty(asked.trace, asked.target, asked.shapes, asked.threads, asked.seed)
    asked.notes += notes
    for sizes in asked.shapes:
        asked.see(honest=Looked(dict(sizes), reason or ""))
    return is_honest(asked.seen, asked.shapes, asked.threads)


def is_honest(seen: GateFindings, shapes: Sequence[Sizes], threads: int) -> Said:
    """The verdict of what was found at each shape."""
    reason = next((one.reason for one in seen.honest if one.reason), "")
    looked = [one.sizes for one in seen.honest]
    return (
        _judged(reason) if reason else _all(all(sizes in looked for sizes in shapes), "nobody looked at all sizes")
    )


def faster(asked: Asked) -> Said:
    """Than each peer, at each shape: the interval of the paired ratio lies above 1 plus the noise."""
    found = bench(
        asked.trace, asked.target, shapes=asked.shapes, beside=asked.beside, threads=asked.threads,
        cold=asked.cold, torch=asked.torch, seconds=asked.seconds, check=False,
        measure=partial(asked.measure, against=asked.trace.start, seed=asked.seed % (1 << 31)),
    )  # fmt: skip
    asked.seen = replace(asked.seen, timed=found)
    return is_faster(asked.seen, asked.shapes, asked.threads)


def is_faster(seen: GateFindings, shapes: Sequence[Sizes], threads: int) -> Said:
    """The verdict of the samples of a bench."""
    if seen.timed is None or not seen.beside:
        return "undecided", "nothing was timed beside it"
    timed = computed(seen.timed)
    for sizes in shapes:
        where = _at(sizes)
        shape = next((one for one in timed.shapes if one.sizes == sizes), None)
        if shape is None or (shape.status == "ok" and (shape.own is None or shape.noise is None)):
            return "undecided", f"it was not timed beside itself ({where})"
        if shape.status == "unavailable":
            return "unavailable", shape.reason
        if shape.status != "ok" or shape.own is None:
            return _judged(f"it could not be timed ({where}): {shape.reason}")
        if shape.own.difference is None or shape.own.difference > DRIFT:
            return _judged(f"what it gives after the rounds is not what it gave before them ({where})")
        for name in seen.beside:
            peer = shape.peer(name)
            if peer is None or peer.ratio is None:
                why = shape.left_out.get(name, "it was not timed")
                itself = why == "it is the kernel itself"
                return _judged(f"{name}: {why}") if itself else ("unavailable", f"{name}: {why} ({where})")
            if peer.ratio.low <= 1 + shape.slack:
                return _judged(f"{peer.ratio} as fast as {name}, with a noise of {shape.slack:.1%} ({where})")
    return "pass", ""


FOLLOWS: Mapping[str, Callable[[GateFindings, Sequence[Sizes], int], Said]] = {
    "correct": is_correct, "deterministic": is_deterministic, "honest": is_honest, "faster": is_faster,
}  # fmt: skip
"""The function by which the verdict of a gate follows from what was seen; `proved` follows from the trace, `built`
from the source."""

FILES = {"proved": TRACE, "built": SOURCE}
"""The file of a run that shows what a gate says, where it is not that of the gates."""

JUDGES: Mapping[str, Callable[[Asked], Said]] = {
    "proved": proved, "built": built, "correct": correct, "deterministic": deterministic, "honest": honest,
    "faster": faster,
}  # fmt: skip


def gate(asked: Asked, names: Sequence[str] = NAMES) -> Gates:
    """The results of all gates, or of the named ones. Raises ArgumentError for sizes and peers that do not fit;
    what else goes wrong in a gate is what that gate says."""
    for sizes in asked.shapes:
        asked.trace.start.specialize(**sizes)
    check_peers(asked.beside)
    asked.seen = GateFindings(tuple(asked.beside), asked.complaint)
    found = tuple(in_turn((name, partial(JUDGES[name], asked)) for name in NAMES if name in names))
    kernel = asked.trace.kernel
    shapes = tuple(dict(sizes) for sizes in asked.shapes)
    return Gates(
        kernel.name, kernel.hash, asked.target, asked.threads, shapes, asked.seed, found, tuple(asked.notes),
        asked.seen,
    )  # fmt: skip


def in_turn(questions: Iterable[tuple[str, Callable[[], Said]]], failed: str = "") -> Iterator[Gate]:
    """The answers to some questions, one after the other; once one has failed, no other is asked."""
    for name, ask in questions:
        status, reason = said(ask) if not failed else ("not-run", f"{failed} failed")
        failed = name if status == "fail" else failed
        yield Gate(name, status, reason, FILES.get(name, GATES))


def _judged(reason: str) -> Said:
    """It fails for a reason, and passes for none."""
    return ("fail", reason) if reason else ("pass", "")


def _all(seen: bool, lacks: str) -> Said:
    return ("pass", "") if seen else ("undecided", lacks)


def gate_lines(found: Gates) -> str:
    """A line for each gate, and the verdict."""
    wide = max(map(len, NAMES))
    lines = [f"{found.kernel} on {found.target}, {'; '.join(_at(one) for one in found.shapes)}"]
    lines += [f"  {one.name:<{wide}}  {one.status}{': ' if one.reason else ''}{one.reason}" for one in found.gates]
    lines += [f"  note: {note}" for note in found.notes]
    lines.append("all gates pass" if found.ok else "not all gates pass")
    return "\n".join(lines) + "\n"
