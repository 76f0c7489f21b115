"""The claims of a bundle, each with the files that it follows from: one that follows from nothing does not pass.

All else in a record is what was asked for (`arguments`, `settings`, `parent`) or where it was (`versions`,
`environment`, `machine.json`), in the words of whoever made it. That samples are those of a machine nobody can
prove from files: `replay --bench` takes them again.
"""

from __future__ import annotations

import functools
import hashlib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import count
from typing import Any

import dojoir
from dojoir import runtime
from dojoir.evidence.bundle import (
    BENCH,
    CODE,
    EVENTS,
    FILES,
    FINAL,
    GATES,
    MACHINE,
    SOURCE,
    START,
    STATES,
    TRACE,
    Gate,
    Run,
    Said,
    said,
)
from dojoir.evidence.bundle_reading import Bundle
from dojoir.evidence.figures import Bench, computed, sizes_in_words
from dojoir.evidence.gates import FOLLOWS, NAMES, Gates, of_certificate, other_source
from dojoir.records import State
from dojoir.records.lines import ResultLine
from dojoir.records.plain_data import from_data, json_of, to_data

NEAR = 1e-9
"""The share by which a figure may differ from the one that follows, as it went through a text."""

WIDTH = 0.1
"""The share of its width by which an interval of version 1 may be narrower than the one that follows, as it kept no
seed; it may be as wide as all of its samples."""


@dataclass(frozen=True)
class BundleClaim:
    """A claim: its name, what is claimed, the files that it follows from, whether a bundle makes it, what holds it
    to the files, and the claims without which it cannot be asked."""

    name: str
    says: str
    files: tuple[str, ...]
    is_made: Callable[[Bundle], bool]
    check: Callable[[Bundle], Said]
    needs: tuple[str, ...] = ()


@dataclass(frozen=True)
class BundleProof:
    """The results of the checks of a bundle, in their order: a check that did not run never passes."""

    name: str
    found: tuple[Gate, ...]

    @property
    def status(self) -> int:
        """0 where every claim passes, 4 where a compiler or a device is missing for one, 3 for all else."""
        statuses = {one.status for one in self.found}
        if statuses <= {"pass"}:
            return 0 if statuses else 3
        return 4 if statuses <= {"pass", "unavailable"} else 3

    @property
    def ok(self) -> bool:
        """Whether every claim passes."""
        return self.status == 0

    @property
    def first(self) -> Gate | None:
        """The first difference."""
        return next((one for one in self.found if one.status == "fail"), None)

    def __str__(self) -> str:
        wide = max((len(one.name) for one in self.found), default=0)
        rows = [f"  {one.name:<{wide}}  {one.status:<11}  {one.reason}".rstrip() for one in self.found]
        first, open_ = self.first, [one.name for one in self.found if one.status != "pass"]
        if first is not None:
            end = f"the first difference: {first.name}: {first.reason}"
        else:
            end = f"nothing differs, and not all could be asked: {', '.join(open_)}" if open_ else "nothing differs"
        return "\n".join([f"{self.name}", *rows, end])


class Prover:
    """Asks one thing after another; what fails blocks those that stand on it."""

    def __init__(self) -> None:
        self.found: list[Gate] = []

    def ask(self, name: str, check: Callable[[], Said], needs: Sequence[str] = (), file: str = "") -> None:
        """Asks, unless something that it stands on has not passed."""
        lacking = [one.name for one in self.found if one.name in needs and one.status != "pass"]
        if lacking:
            self.found.append(Gate(name, "not-run", f"{lacking[0]} did not pass", file))
            return
        self.found.append(Gate(name, *said(check), file))

    def ask_claims(self, given: Bundle | None) -> None:
        """Asks all that a bundle claims; where there is none, nothing is run."""
        for claim in CLAIMS:
            if given is None:
                self.found.append(Gate(claim.name, "not-run", "there is no record", claim.files[0]))
            elif claim.is_made(given):
                self.ask(claim.name, functools.partial(claim.check, given), claim.needs, claim.files[0])


# -- the record and the trace ------------------------------------------------------------------------------
def _files(given: Bundle) -> Said:
    wrong = given.wrong_files()
    if not given.is_listed:
        return "undecided", f"the run is {given.run.status}: its files have no digests yet"
    return ("fail", "; ".join(wrong[:3])) if wrong else ("pass", f"{len(given.run.files)} files")


def _events(given: Bundle) -> Said:
    run, lines = given.run, list(given.lines(EVENTS))
    if not given.is_listed:
        return "undecided", f"the run is {run.status}: it has not ended"
    last = lines[-1] if lines else {}
    said = {"event": "ended", "status": run.status, "stopped": run.stopped}
    if {name: last.get(name) for name in said} != said:
        return "fail", f"the last of {EVENTS} is no end of a run that is {run.status}"
    times = [run.begun, *(str(line.get("at")) for line in lines), run.ended or ""]
    if times != sorted(times):
        return "fail", f"the record began or ended at other times than {EVENTS} says"
    return "pass", f"{len(lines)} events"


def _has_answer(given: Bundle) -> bool:
    run = given.run
    return run.result is not None or run.moves > 0 or any(given.has(name) for name in (TRACE, FINAL, BENCH, GATES))


def _moves(given: Bundle) -> Said:
    """Each move, and the kernel after it beside what the states of the run say."""
    trace = given.trace
    if not trace.is_safe:
        return "fail", f"the trace was {trace.unchecked}"
    if given.run.moves != len(trace.moves):
        return "fail", f"the record has {given.run.moves} moves, and {TRACE} {len(trace.moves)}"
    return along(trace, given.states)


def along(trace: dojoir.Trace, states: Sequence[State]) -> Said:
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


def _certified(given: Bundle) -> Said:
    status, reason = of_certificate(given.certificate)
    return status, "by the core alone" if status == "pass" else reason


def _ends(given: Bundle) -> Said:
    """Whether both ends are those that the record says, by their texts."""
    run, answered = given.run, _has_answer(given)
    if given.start.hash != run.start or given.start.name != run.kernel:
        return "fail", f"the record is of another kernel than {START}"
    if given.text(START) != dojoir.to_text(given.start):
        return "fail", f"{START} is not as it was written"
    if not answered:
        return "pass", ""
    for name, kernel, hash in ((START, given.trace.start, run.start), (FINAL, given.trace.kernel, run.result)):
        if kernel.hash != hash:
            return "fail", f"the record has another hash than the kernel of {name}"
        if given.text(name) != dojoir.to_text(kernel):
            return "fail", f"{name} is not the kernel of the trace"
    return "pass", ""


def _source(given: Bundle) -> Said:
    """Whether the source is what `emit` gives; on another processor, that cannot be said where it is another."""
    run, source = given.run, given.source
    if source is None:
        return "undecided", "the bundle has no source"
    wrong = other_source(source[1], dojoir.emit(given.trace.kernel, run.target), source[0])
    here = runtime.processor()
    if wrong and run.target == "llvm" and run.code is not None and run.code.processor != here:
        return "unavailable", f"it was written for {run.code.processor}, and this is {here}"
    return ("fail", wrong) if wrong else ("pass", "")


def _code(given: Bundle) -> Said:
    kept, text = given.run.code, given.text(CODE)
    assert kept is not None
    if text is None:
        return "undecided", f"there is no {CODE} that its digest is of"
    is_same = hashlib.sha256(text.encode()).hexdigest() == kept.sha256
    return ("pass", "") if is_same else ("fail", f"its digest is not that of {CODE}")


def _states(given: Bundle) -> Said:
    results = 0
    for number, text in enumerate((given.text(STATES) or "").splitlines(), 1):
        data = json_of(text, f"{STATES}, line {number}")
        if isinstance(data, dict) and "result" in data:
            results += 1
            line = from_data(ResultLine, data, f"{STATES}, line {number}")
            wrong = line.of_state(State(line.of, line.result)).unfounded
            if wrong:
                return "fail", f"{STATES}, line {number}: {wrong}"
    if results != given.run.states:
        return "fail", f"the record has {given.run.states} states, and {STATES} {results} results"
    return "pass", f"{results} results agree with their samples; dojoir db import proves their moves"


# -- figures -----------------------------------------------------------------------------------------------
def _figures(given: Bundle) -> Said:
    """Whether every bench is of the result of this run, and its figures are those of its samples."""
    checked, lacking = 0, ""
    old = given.run.version == 1
    for stored in given.benches:
        wrong = _other_bench(given, stored) or next(_wrong_shapes(given, stored), "")
        if wrong:
            return "fail", wrong
        for where, one, other in differing(to_data(stored), to_data(computed(stored))):
            if old and _is_shown_by_nothing(where, stored):
                lacking = lacking or f"{where[-1]}: no samples of it were kept"
            elif not (old and _is_as_wide(stored, where, one)):
                return "fail", f"{'.'.join(map(str, where))} is {_short(one)}, and the samples give {_short(other)}"
        checked += sum(1 + len(shape.peers) for shape in stored.shapes if shape.own is not None)
    lacking = lacking or ("version 1 says nowhere else on which machine it was timed" if old else "")
    return ("undecided", lacking) if lacking else ("pass", f"{checked} times agree with their samples")


def _other_bench(given: Bundle, bench: Bench) -> str:
    """The kernel, target, threads, machine or versions by which a bench is none of this run, if it is."""
    run, kernel, about = given.run, given.trace.kernel, json_of(given.text(MACHINE) or "{}", MACHINE)
    here = ", ".join(f"{name} {run.versions.get(name)}" for name in ("dojoir", "llvmlite"))
    wanted = {"hash": run.result, "kernel": kernel.name, "target": run.target, "threads": run.threads}
    if run.version > 1:
        wanted |= {"machine": about.get("timed"), "versions": here}
    for name, value in wanted.items():
        if getattr(bench, name) != value:
            return (
                f"the bench is of another {name}: {_short(getattr(bench, name))}, and the run has {_short(value)}"
            )
    return ""


def _wrong_shapes(given: Bundle, bench: Bench) -> Iterator[str]:
    kernel, known = given.trace.kernel, [dict(one) for one in given.run.sizes]
    for shape in bench.shapes:
        names = [one.name for one in shape.peers]
        twice = next((name for name in names if names.count(name) > 1 or name in shape.left_out), None)
        if dict(shape.sizes) not in known:
            yield f"it was timed at {sizes_in_words(shape.sizes)}, and the run is not of these sizes"
        if twice is not None:
            yield f"{twice} is there twice ({sizes_in_words(shape.sizes)})"
        if shape.ceiling is not None:
            work, sizes = dojoir.cost(kernel), dict(shape.sizes)
            told = shape.ceiling.bytes, shape.ceiling.flops, shape.ceiling.integer
            if told != (work.bytes(sizes), work.flops(sizes), work.integer(sizes)):
                yield f"the text does other work than the bench says ({sizes_in_words(shape.sizes)})"


def differing(one: Any, other: Any, where: tuple[str | int, ...] = ()) -> Iterator[tuple[Any, Any, Any]]:
    """The places at which two trees of plain data differ, and what stands there."""
    if isinstance(one, dict) and isinstance(other, dict):
        for name in {**one, **other}:
            yield from differing(one.get(name), other.get(name), (*where, name))
    elif isinstance(one, list) and isinstance(other, list) and len(one) == len(other):
        for number, pair in enumerate(zip(one, other, strict=True)):
            yield from differing(*pair, (*where, number))
    elif isinstance(one, float) and isinstance(other, float):
        if abs(one - other) > NEAR * max(abs(one), abs(other)):
            yield where, one, other
    elif one != other:
        yield where, one, other


def _is_shown_by_nothing(where: Sequence[str | int], bench: Bench) -> bool:
    """Whether a figure is one of those of which version 1 kept no samples."""
    return where[-1] == "noise" or (where[-1] in ("correct", "reason") and not bench.reports and len(where) == 1)


def _is_as_wide(bench: Bench, where: Sequence[Any], told: Any) -> bool:
    """Whether an end of an interval of version 1 is not further in than the samples allow, nor outside of them."""
    if where[-1] not in ("low", "high") or not isinstance(told, float):
        return False
    shape = bench.shapes[where[1]]
    one, own = (shape.own if where[2] == "own" else shape.peers[where[3]]), shape.own
    if one is None or own is None:
        return False
    made = computed(bench).shapes[where[1]]
    again = made.own if where[2] == "own" else made.peers[where[3]]
    assert again is not None
    samples: Sequence[float] = one.samples
    span: Any = again
    if "ratio" in where:
        span = again.ratio
        samples = [a / b for a, b in zip(one.samples, own.samples, strict=False)]
    slack = WIDTH * (span.high - span.low)
    if where[-1] == "low":
        return bool(min(samples) * (1 - NEAR) <= told <= span.low + slack)
    return bool(span.high - slack <= told <= max(samples) * (1 + NEAR))


def _gained(given: Bundle) -> Said:
    """A gain that a record has: those of version 1 kept none of the samples that it follows from."""
    found = {one.beside: one for one in given.gained}
    for one in given.run.gained:
        other = found.get(one.beside)
        if other is None:
            return "undecided", f"nothing in it shows how it gained {one.median:.3g}x beside {one.beside}"
        if next(differing(to_data(one), to_data(other)), None) is not None:
            return "fail", f"the samples give {other.median:.6g}x beside {one.beside}, not {one.median:.6g}x"
    return "pass", f"{len(found)} gains"


# -- gates -------------------------------------------------------------------------------------------------
def _verdicts(given: Bundle) -> Said:
    """Whether the verdicts of the gates follow from what was seen, the trace and the source."""
    run, gates = given.run, given.gates
    if gates is None:
        return "fail", f"the record has gates, and there is no {GATES}"
    wrong = _other_gates(run, gates)
    if wrong:
        return "fail", wrong
    lacking = ""
    for one in gates.gates:
        if one.name in FOLLOWS:
            status, reason = gates.follows(one.name)
        elif one.name == "proved":
            status, reason = of_certificate(given.certificate)
        else:
            complaint = "" if gates.seen is None else gates.seen.complaint
            status, reason = ("fail", complaint) if complaint else _source(given)
        if one.status == "pass" and status in ("undecided", "unavailable"):
            lacking = lacking or f"nothing shows that {one.name} passes: {reason}"
        elif (one.status == "pass") != (status == "pass") and (one.status == "pass" or one.name in FOLLOWS):
            return "fail", f"{one.name} is {one.status} by {GATES}, and {status} by what was seen: {reason}"
    return ("undecided", lacking) if lacking else ("pass", f"{len(gates.gates)} gates follow from what was seen")


def _other_gates(run: Run, gates: Gates) -> str:
    names = [one.name for one in gates.gates]
    if names != [name for name in NAMES if name in names]:
        return f"there are no such gates: {', '.join(map(_short, names))}"
    wanted: dict[str, Any] = {"hash": run.result, "target": run.target, "threads": run.threads,
                              "kernel": run.kernel, "shapes": run.sizes}  # fmt: skip
    for name, value in wanted.items():
        if to_data(getattr(gates, name)) != to_data(value):
            return f"{GATES} is of another {'size' if name == 'shapes' else name} than the run"
    if run.gates and [(one.name, one.status, one.reason) for one in run.gates] != [
        (one.name, one.status, one.reason) for one in gates.gates
    ]:
        return f"the record has other gates than {GATES}"
    return ""


def _short(value: Any) -> str:
    text = str(value)
    return text if len(text) <= 40 else f"{text[:37]}..."


def _always(given: Bundle) -> bool:
    return True


CLAIMS = (
    BundleClaim("files", "the bytes of every file, and that there are no others", FILES, _always, _files),
    BundleClaim("events", "begun, ended, status, stopped", (EVENTS,), _always, _events),
    BundleClaim("moves", "moves: each is legal, and leads where the states say", (TRACE, STATES), _has_answer,
                _moves),
    BundleClaim("certified", "the whole trace is right", (TRACE,), _has_answer, _certified, ("moves",)),
    BundleClaim("ends", "kernel, start, result", (START, FINAL, TRACE), _always, _ends, ("moves",)),
    BundleClaim("source", "what was built", (SOURCE, TRACE), lambda one: one.source is not None, _source,
                ("moves",)),
    BundleClaim("code", "code", (CODE,), lambda one: one.run.code is not None, _code, ("moves",)),
    BundleClaim("states", "states: the time of each, with its interval", (STATES,), _always, _states),
    BundleClaim("figures",
                "times, quartiles, intervals, ratios, noise, work, shares of ceilings, whether it was right",
                (BENCH, GATES, MACHINE, TRACE), lambda one: bool(one.benches), _figures, ("moves",)),
    BundleClaim("gained", "gained", (BENCH,), lambda one: bool(one.run.gained), _gained),
    BundleClaim("verdicts", "gates", (GATES, TRACE, SOURCE), lambda one: bool(one.run.gates) or one.has(GATES),
                _verdicts),
)  # fmt: skip
"""The claims of a bundle, each with the files that it follows from."""
