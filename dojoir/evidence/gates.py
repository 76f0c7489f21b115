"""The gates: is it proved, built from what it says, right, the same each time, honest, and faster?

They come in this order. What did not run never passes, and what fails blocks those after it. The verdict is that
all pass; nothing weighs one against another.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Literal

import dojoir
from dojoir.evidence.benching import Measure, bench
from dojoir.evidence.figures import Bench
from dojoir.evidence.honest import Honesty, honesty
from dojoir.evidence.peers import TorchFunction
from dojoir.evidence.sanitized import KINDS, TOOL, complaint

GateStatus = Literal["pass", "fail", "not-run", "unavailable"]

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


@dataclass(frozen=True)
class Gate:
    """The result of a gate: `file` is that of a run which shows it, "" where there is none."""

    name: str
    status: GateStatus
    reason: str = ""
    file: str = ""


@dataclass(frozen=True)
class Gates:
    """The results of all gates for a kernel, in their order; `notes` are reported and not judged. `seed` is what
    all that was drawn follows from: nobody could know it before."""

    kernel: str
    hash: str
    target: str
    threads: int
    shapes: tuple[Mapping[str, int], ...]
    seed: int
    gates: tuple[Gate, ...]
    notes: tuple[str, ...] = ()

    @property
    def ok(self) -> bool:
        """Whether all pass."""
        return [gate.status for gate in self.gates] == ["pass"] * len(NAMES)

    def __getitem__(self, name: str) -> Gate:
        return next(gate for gate in self.gates if gate.name == name)


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
    bench: Bench | None = None
    reports: list[str] = field(default_factory=list)


NOT_ASKED = ("busy", "no-room")
"""The codes of errors that say nothing of a kernel: an evaluator does not take it, or the machine has no room."""

Judged = tuple[GateStatus, str]


def proved(asked: Asked) -> Judged:
    """By `certify`, from the texts: no move and no shortcut is trusted."""
    verdict = dojoir.certify(asked.trace, STEPS)
    if verdict.status == "unknown":
        return _unavailable(str(verdict.reason))
    return _judged(bool(verdict), str(verdict))


def built(asked: Asked) -> Judged:
    """Checks that the built code is the present output of `emit` for the kernel."""
    if asked.complaint:
        return _judged(False, asked.complaint)
    text, again = (dojoir.emit(asked.trace.kernel, asked.target) for _ in range(2))
    if text != again:
        return _judged(False, "emit gives another source the second time")
    if asked.source is not None and asked.source != text:
        line = next(
            (
                n
                for n, (a, b) in enumerate(zip(asked.source.splitlines(), text.splitlines(), strict=False), 1)
                if a != b
            ),
            min(len(asked.source.splitlines()), len(text.splitlines())) + 1,
        )
        return _judged(False, f"the source is not what emit gives now: line {line} is another")
    dojoir.compile(asked.trace.kernel, asked.target, threads=asked.threads)
    return _judged(True, "")


def correct(asked: Asked) -> Judged:
    """Against what the first kernel means: every distribution at small sizes, and at those that are measured, on
    seeds that nobody could know; and under a sanitizer where that is asked."""
    kernel, start = asked.trace.kernel, asked.trace.start
    seeds = [asked.seed + n for n in range(3)]
    for sizes in (None, *asked.shapes):
        report = dojoir.verify(
            kernel, start, target=asked.target, threads=asked.threads, seeds=seeds, sizes=sizes,
            distributions=None if sizes is None else ("integers", "uniform", "normal"), time_limit=asked.time_limit,
        )  # fmt: skip
        asked.reports.append(str(report))
        if report.status == "undecided":
            return _unavailable(f"too little could be compared: {', '.join(report.undecided)} inputs")
        if not report.ok:
            return _judged(False, report.reason or report.status)
    for sizes in asked.shapes if asked.sanitize else ():
        wrong = complaint(kernel, asked.target, sizes, asked.seed, asked.time_limit)
        if wrong is not None:
            return _judged(False, f"{wrong} ({_at(sizes)})")
        asked.notes.append(f"{TOOL} found nothing: {', '.join(KINDS)} ({_at(sizes)})")
    return _judged(True, "")


def deterministic(asked: Asked) -> Judged:
    """The same bits in five calls on fresh buffers; other numbers of threads are reported."""
    others = [1] if asked.threads > 1 else []
    for sizes in asked.shapes:
        found = dojoir.repeats(
            asked.trace.kernel, asked.target, sizes=sizes, threads=[asked.threads, *others], calls=CALLS,
            seed=asked.seed % (1 << 31), time_limit=asked.time_limit,
        )  # fmt: skip
        if len(found.digests[asked.threads]) < CALLS:
            return _judged(
                False, f"the process {found.ended or 'ended'} after {len(found.digests[asked.threads])} calls"
            )
        if found.differs(asked.threads):
            same = len(set(found.digests[asked.threads]))
            return _judged(False, f"{CALLS} calls on the same inputs gave {same} different results ({_at(sizes)})")
        if found.depends_on_threads:
            asked.notes.append(f"on 1 thread the bits are others than on {asked.threads} ({_at(sizes)})")
    return _judged(True, "")


def honest(asked: Asked) -> Judged:
    """No unsafe move, no input left out, nothing kept or touched, and no faster than it can be."""
    if not asked.trace.is_safe:
        return _judged(False, str(asked.trace.unchecked))
    reason, notes = asked.honesty(asked.trace, asked.target, asked.shapes, asked.threads, asked.seed)
    asked.notes += notes
    return _judged(reason is None, reason or "")


def faster(asked: Asked) -> Judged:
    """Than each peer, at each shape: the interval of the paired ratio lies above 1 plus the noise."""
    found = bench(
        asked.trace, asked.target, shapes=asked.shapes, beside=asked.beside, threads=asked.threads,
        cold=asked.cold, torch=asked.torch, seconds=asked.seconds, check=False, measure=asked.measure,
    )  # fmt: skip
    asked.bench = found
    for shape in found.shapes:
        where = _at(shape.sizes)
        if shape.status == "unavailable":
            return _unavailable(shape.reason)
        if shape.status != "ok":
            return _judged(False, f"it could not be timed ({where}): {shape.reason}")
        if shape.own is not None and (shape.own.difference is None or shape.own.difference > DRIFT):
            return _judged(False, f"what it gives after the rounds is not what it gave before them ({where})")
        for name in asked.beside:
            peer = shape.peer(name)
            if peer is None or peer.ratio is None:
                why = shape.left_out.get(name, "it was not timed")
                itself = why == "it is the kernel itself"
                return _judged(False, f"{name}: {why}") if itself else _unavailable(f"{name}: {why} ({where})")
            if peer.ratio.low <= 1 + shape.slack:
                return _judged(
                    False, f"{peer.ratio} as fast as {name}, with a noise of {shape.slack:.1%} ({where})"
                )
    return _judged(True, "")


FILES = {
    "proved": "trace.json", "built": "source", "correct": "verify.json", "deterministic": "gates.json",
    "honest": "gates.json", "faster": "bench.json",
}  # fmt: skip
"""The file of a run that shows what a gate says."""

JUDGES: Mapping[str, Callable[[Asked], Judged]] = {
    "proved": proved, "built": built, "correct": correct, "deterministic": deterministic, "honest": honest,
    "faster": faster,
}  # fmt: skip


def gate(asked: Asked, names: Sequence[str] = NAMES) -> Gates:
    """The results of all gates, or of the named ones. Raises ArgumentError for sizes and peers that do not fit;
    what else goes wrong in a gate is what that gate says."""
    for sizes in asked.shapes:
        asked.trace.start.specialize(**sizes)
    found = tuple(_each(asked, names))
    kernel = asked.trace.kernel
    shapes = tuple(dict(sizes) for sizes in asked.shapes)
    return Gates(
        kernel.name, kernel.hash, asked.target, asked.threads, shapes, asked.seed, found, tuple(asked.notes)
    )  # fmt: skip


def _each(asked: Asked, names: Sequence[str]) -> Iterator[Gate]:
    failed = ""
    for name in (name for name in NAMES if name in names):
        one = Gate(name, "not-run", f"{failed} failed", FILES[name]) if failed else _asked_of(asked, name)
        if one.status == "fail":
            failed = name
        yield one


def _asked_of(asked: Asked, name: str) -> Gate:
    made = Gate(name, "fail", "", FILES[name])
    try:
        status, reason = JUDGES[name](asked)
    except dojoir.ToolchainError as error:
        status, reason = "unavailable", error.diagnostic.message
    except dojoir.DojoError as error:
        if error.diagnostic.code == "unknown-peer":
            raise
        status = "unavailable" if error.diagnostic.code in NOT_ASKED else "fail"
        reason = error.diagnostic.message
    return replace(made, status=status, reason=reason)


def _judged(passes: bool, reason: str) -> Judged:
    return ("pass", "") if passes else ("fail", reason)


def _unavailable(reason: str) -> Judged:
    return ("unavailable", reason)


def _at(sizes: Mapping[str, int]) -> str:
    return ", ".join(f"{name}={value}" for name, value in sizes.items()) or "no sizes"


def gate_lines(found: Gates) -> str:
    """A line for each gate, and the verdict."""
    wide = max(map(len, NAMES))
    lines = [f"{found.kernel} on {found.target}, {'; '.join(_at(one) for one in found.shapes)}"]
    lines += [f"  {one.name:<{wide}}  {one.status}{': ' if one.reason else ''}{one.reason}" for one in found.gates]
    lines += [f"  note: {note}" for note in found.notes]
    lines.append("all gates pass" if found.ok else "not all gates pass")
    return "\n".join(lines) + "\n"
