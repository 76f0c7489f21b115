"""Proving a bundle again: every file, every move, the source, the machine code, the results, and, where that is
asked for, the times. The first difference is named."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import count

import dojoir
from dojoir.evidence.benching import bench
from dojoir.evidence.bundle import BENCH, FINAL, GATES, SOURCE, START, STATES, TRACE, Judged, Run, Verdict
from dojoir.evidence.code import code_of
from dojoir.evidence.figures import Bench
from dojoir.evidence.gates import Gates
from dojoir.evidence.reading import Bundle, State

STEPS = 1_000_000_000
"""The steps within which a trace is certified."""

SAME = 0.1
"""By how much a ratio that is taken again may be another than the one that a bundle has, beside its interval."""

Check = tuple[Verdict, str]


@dataclass(frozen=True)
class Proof:
    """The results of the checks of a bundle, in their order: a check that did not run never passes."""

    name: str
    found: tuple[Judged, ...]

    @property
    def ok(self) -> bool:
        """Whether nothing fails, and something passes."""
        statuses = [one.status for one in self.found]
        return "fail" not in statuses and "pass" in statuses

    @property
    def first(self) -> Judged | None:
        """The first difference."""
        return next((one for one in self.found if one.status == "fail"), None)

    def __str__(self) -> str:
        wide = max((len(one.name) for one in self.found), default=0)
        rows = [f"  {one.name:<{wide}}  {one.status:<11}  {one.reason}".rstrip() for one in self.found]
        first = self.first
        end = f"the first difference: {first.name}: {first.reason}" if first else "nothing differs"
        return "\n".join([f"{self.name}", *rows, end])


class Prover:
    """Asks one thing after another; what fails blocks those that stand on it."""

    def __init__(self) -> None:
        self.found: list[Judged] = []

    def ask(self, name: str, check: Callable[[], Check], needs: Sequence[str] = (), file: str = "") -> None:
        """Asks, unless something that it stands on has not passed."""
        lacking = [one.name for one in self.found if one.name in needs and one.status != "pass"]
        if lacking:
            self.found.append(Judged(name, "not-run", f"{lacking[0]} did not pass", file))
            return
        try:
            status, reason = check()
        except dojoir.ToolchainError as error:
            status, reason = "unavailable", error.diagnostic.message
        except dojoir.DojoError as error:
            status, reason = "fail", error.diagnostic.message
        self.found.append(Judged(name, status, reason, file))


def replay(given: Bundle, *, again: bool = False, seconds: float = 10.0) -> Proof:
    """Replays a bundle here; with `again` it is timed as well, beside what it was timed beside. Raises
    ArgumentError only for a bundle that has no answer (`no-answer`)."""
    run = given.run
    prover = Prover()
    ask = prover.ask
    ask("files", lambda: _files(given))
    if (given.folder / TRACE).is_file():
        ask("moves", lambda: _moves(given), file=TRACE)
    else:
        _ = given.trace
    ask("certified", lambda: _certified(given.trace), ["moves"], TRACE)
    ask("ends", lambda: ends(given.text, given.trace, run.start, run.result), ["moves"], FINAL)
    ask("source", lambda: _source(given), ["moves"], given.source[0] if given.source else SOURCE)
    ask("code", lambda: _code(given), ["moves"])
    ask("results", lambda: _results(given), ["moves"])
    ask("figures", lambda: figures(given.bench), file=BENCH)
    ask("verdicts", lambda: verdicts(run, given.gates, given.bench), file=GATES)
    if again:
        ask("times", lambda: _times(given, seconds), ["results"], BENCH)
    return Proof(run.name, tuple(prover.found))


def _files(given: Bundle) -> Check:
    wrong = given.wrong_files()
    if given.run.status not in ("done", "failed"):
        return "unavailable", f"the run is {given.run.status}: its files have no digests yet"
    return ("fail", "; ".join(wrong[:3])) if wrong else ("pass", f"{len(given.run.files)} files")


def _moves(given: Bundle) -> Check:
    """Each move, and the kernel after it beside what the states of the run say."""
    trace = given.trace
    if not trace.is_safe:
        return "fail", f"the trace was {trace.unchecked}"
    return along(trace, given.states)


def along(trace: dojoir.Trace, states: Sequence[State]) -> Check:
    """Whether the kernel after each move of a trace is the one that the states of a run say, if they do."""
    known = {(one.parent, one.move): one.hash for one in states if one.move is not None}
    before = trace.start.hash
    compared = 0
    for number, step in zip(count(1), trace.steps, strict=False):
        wanted = known.get((before, str(step.move)))
        if wanted is not None and wanted != step.kernel.hash:
            return "fail", f"move {number}, {step.move}, leads to another kernel than {STATES} says"
        compared += wanted is not None
        before = step.kernel.hash
    return "pass", f"{len(trace.steps)} moves proved, {compared} kernels after them are those of the states"


def _certified(trace: dojoir.Trace) -> Check:
    verdict = dojoir.certify(trace, STEPS)
    if verdict.status == "unknown":
        return "unavailable", str(verdict.reason)
    return ("pass", "by the core alone") if verdict else ("fail", str(verdict))


def ends(text: Callable[[str], str | None], trace: dojoir.Trace, start: str, result: str | None) -> Check:
    """Whether both ends of a trace are those that a bundle says, in its record and as texts."""
    for name, kernel, hash in ((START, trace.start, start), (FINAL, trace.kernel, result)):
        if kernel.hash != hash:
            return "fail", f"the record has another hash than the kernel of {name}"
        if text(name) != dojoir.to_text(kernel):
            return "fail", f"{name} is not the kernel of the trace"
    return "pass", ""


def _source(given: Bundle) -> Check:
    run, source = given.run, given.source
    if source is None:
        return "unavailable", "the bundle has no source"
    here = dojoir.processor()
    if run.target == "llvm" and run.code is not None and run.code.processor != here:
        return "unavailable", f"it was written for {run.code.processor}, and this is {here}"
    return _same_text(source[1], dojoir.emit(given.trace.kernel, run.target), source[0])


def _same_text(kept: str, now: str, name: str) -> Check:
    if kept == now:
        return "pass", ""
    old, new = kept.splitlines(), now.splitlines()
    line = next(
        (n for n, (a, b) in enumerate(zip(old, new, strict=False), 1) if a != b), min(len(old), len(new)) + 1
    )
    return "fail", f"{name} is not what emit gives now: line {line} is another"


def _code(given: Bundle) -> Check:
    kept = given.run.code
    if kept is None:
        return "unavailable", "the bundle has no digest of machine code"
    now = code_of(given.trace.kernel, given.run.target)
    if now is None or (kept.compiler, kept.processor) != (now.compiler, now.processor):
        there = "none" if now is None else f"{now.compiler} for {now.processor}"
        return "unavailable", f"it was made by {kept.compiler} for {kept.processor}; here that is {there}"
    return ("pass", "") if kept.sha256 == now.sha256 else ("fail", "the machine code is another")


def _results(given: Bundle) -> Check:
    trace, run = given.trace, given.run
    report = dojoir.verify(trace.kernel, trace.start, target=run.target, threads=run.threads)
    if report.status == "undecided":
        return "unavailable", f"too little could be compared: {', '.join(report.undecided)} inputs"
    return ("pass", f"{len(report.cases)} cases") if report.ok else ("fail", str(report.reason))


def figures(found: Bench | None) -> Check:
    """Whether the figures of a bench are those of its samples: an edited one is not."""
    from statistics import median

    if found is None:
        return "unavailable", "nothing was benched"
    checked = 0
    for shape in found.shapes:
        own = shape.own
        for one in [*([own] if own is not None else []), *shape.peers]:
            where = f"{one.name} at {_sizes(shape.sizes)}"
            if len(one.samples) != one.count or not one.samples:
                return "fail", f"{where}: {one.count} samples are told of, and {len(one.samples)} are there"
            if not _near(one.seconds, median(one.samples)):
                return (
                    "fail",
                    f"{where}: the median of the samples is {median(one.samples):.6g} s, not {one.seconds:.6g}",
                )
            if not min(one.samples) <= one.low <= one.seconds <= one.high <= max(one.samples):
                return "fail", f"{where}: its interval is none of its samples"
            if own is not None and one.ratio is not None and len(own.samples) == len(one.samples) > 1:
                paired = median(a / b for a, b in zip(one.samples, own.samples, strict=True))
                if not _near(one.ratio.median, paired):
                    return "fail", f"{where}: the samples give a ratio of {paired:.6g}, not {one.ratio.median:.6g}"
            checked += 1
    return "pass", f"{checked} times agree with their samples"


def verdicts(run: Run, gates: Gates | None, found: Bench | None) -> Check:
    """Whether the gates that a record has are those that its file has, and `faster` what the figures say."""
    if not run.gates:
        return "unavailable", "no gates were asked"
    if gates is None:
        return "fail", f"the record has gates, and there is no {GATES}"
    kept = {one.name: (one.status, one.reason) for one in gates.gates}
    for one in run.gates:
        if kept.get(one.name) != (one.status, one.reason):
            return "fail", f"the record says {one.status} of {one.name}, and {GATES} something else"
    if len(kept) != len(run.gates) or gates.hash != run.result:
        return "fail", f"{GATES} is of another kernel, or of other gates"
    if any(one.name == "faster" and one.status == "pass" for one in gates.gates):
        for shape in [] if found is None else found.shapes:
            for peer in shape.peers:
                if peer.ratio is None or peer.ratio.low <= 1 + shape.slack:
                    return "fail", f"faster passes, and {peer.name} at {_sizes(shape.sizes)} is as fast by {BENCH}"
        if found is None:
            return "fail", f"faster passes, and there is no {BENCH}"
    return "pass", f"{len(run.gates)} gates are those of {GATES}"


def _near(one: float, other: float) -> bool:
    return abs(one - other) <= 1e-9 * max(abs(one), abs(other))


def _sizes(sizes: Mapping[str, int]) -> str:
    return ", ".join(f"{name}={value}" for name, value in sizes.items()) or "no sizes"


def _times(given: Bundle, seconds: float) -> Check:
    """The ratios once more, at the same shapes, beside the same peers by the same protocol."""
    kept = given.bench
    if kept is None:
        return "unavailable", "nothing was benched"
    now = bench(
        given.trace, kept.target, shapes=[shape.sizes for shape in kept.shapes], beside=kept.names,
        threads=kept.threads, seconds=seconds, check=False,
    )  # fmt: skip
    why = incomparable(kept, now)
    if why is not None:
        return "unavailable", f"incomparable: {why}"
    far = list(_far(kept, now))
    return ("fail", "; ".join(far[:3])) if far else ("pass", "every ratio is where it was")


def incomparable(one: Bench, other: Bench) -> str | None:
    """Why times of two benches may not be compared; None where they may."""
    for name in ("target", "threads", "protocol", "machine"):
        a, b = getattr(one, name), getattr(other, name)
        if a != b:
            return f"{name} is {a} and {b}"
    return None


def _far(kept: Bench, now: Bench) -> Iterator[str]:
    for old, new in zip(kept.shapes, now.shapes, strict=True):
        for peer in old.peers:
            other = new.peer(peer.name)
            if peer.ratio is None or other is None or other.ratio is None:
                continue
            if other.ratio.low > peer.ratio.high * (1 + SAME) or other.ratio.high < peer.ratio.low * (1 - SAME):
                yield f"beside {peer.name} at {_sizes(old.sizes)} it is {other.ratio}, and was {peer.ratio}"
