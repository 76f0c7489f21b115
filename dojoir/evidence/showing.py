"""A run in the shell: its record, and parts of it by name."""

from __future__ import annotations

import difflib
from collections.abc import Callable, Mapping

import dojoir
from dojoir.evidence import bundle
from dojoir.evidence.bundle_reading import Bundle
from dojoir.evidence.figures import sizes_in_words
from dojoir.evidence.page.view import spans_of
from dojoir.evidence.told import bench_lines
from dojoir.records import State
from dojoir.records.state import way
from dojoir.support.seconds import format_seconds


def summary(given: Bundle) -> str:
    """The record in lines, with what follows from the files."""
    run = given.told
    sizes = "; ".join(map(sizes_in_words, run.sizes))
    rows = {
        "run": run.name,
        "status": f"{run.status}{f', {run.stopped}' if run.stopped else ''}",
        "verb": f"{run.verb}{f', after {run.parent}' if run.parent else ''}",
        "kernel": f"{run.kernel} for {run.target} at {sizes or 'no sizes'}, {run.threads} threads",
        "begun": f"{run.begun}{f', ended {run.ended}' if run.ended else ''}",
        "result": f"{run.result[:12] if run.result else 'none'}, {run.moves} moves, {run.states} states",
        "versions": ", ".join(f"{name} {number}" for name, number in run.versions.items()),
    }
    lines = [f"{name:<9} {value}" for name, value in rows.items()]
    lines += [f"{'gained':<9} {one} beside {one.beside}" for one in run.gained]
    lines += [f"{'gate':<9} {one.name}: {one.status} {one.reason}".rstrip() for one in run.gates]
    lines += [f"{'note':<9} {note}" for note in run.notes]
    return "\n".join([*lines, f"{'files':<9} {', '.join(one.name for one in run.files) or 'not listed yet'}"])


def section(given: Bundle, name: str) -> str:
    """A section by its name. Raises DojoError where the run has none."""
    return _SECTIONS[name](given)


def _need(given: Bundle, text: str | None, what: str) -> str:
    if text is None:
        raise dojoir.ArgumentError(f"{given.run.name} has no {what}", "no-answer")
    return text


def _text(given: Bundle) -> str:
    final = given.text(bundle.FINAL)
    return final if final is not None else _need(given, given.text(bundle.START), "kernel")


def _moves(given: Bundle) -> str:
    return "\n".join(str(move) for move in given.trace.moves) or "no moves: the kernel as it was written"


def _diff(given: Bundle) -> str:
    before, after = (str(kernel).splitlines() for kernel in (given.trace.start, given.trace.kernel))
    lines = difflib.unified_diff(before, after, bundle.START, bundle.FINAL, lineterm="")
    return "\n".join(lines) or "nothing has changed"


def _source(given: Bundle) -> str:
    """The source, behind each line of it the line of the text that it stands for, where it says so."""
    if given.source is None:
        raise dojoir.ArgumentError(f"{given.run.name} has no source", "no-answer")
    source = given.source[1]
    kernel = given.trace.kernel
    text = str(kernel).splitlines()
    at: dict[int, int] = {}
    for line, spans in spans_of(kernel, source).items():
        for start, end in spans:
            at |= dict.fromkeys(range(start, end + 1), line)
    if not at:
        return source
    wide = min(44, max(len(text[line]) for line in at.values()))
    rows = []
    before = -1
    for number, code in enumerate(source.splitlines()):
        own = at.get(number, -1)
        shown = text[own][:wide] if own >= 0 and own != before else ""
        rows.append(f"{shown:<{wide}} | {code}")
        before = own
    return "\n".join(rows)


def _asm(given: Bundle) -> str:
    if given.run.target.partition("@")[0] != "llvm":
        raise dojoir.ArgumentError(f"machine code is shown of llvm, not of {given.run.target}", "bad-target")
    return dojoir.emit(given.trace.kernel, "asm", cpu=given.run.target.partition("@")[2] or None)


def _bench(given: Bundle) -> str:
    if given.bench is None:
        raise dojoir.ArgumentError(f"{given.run.name} was not benched", "no-answer")
    return bench_lines(given.bench)


def _gates(given: Bundle) -> str:
    if not given.verdicts:
        raise dojoir.ArgumentError(f"{given.run.name} has no gates: dojoir gate {given.run.name}", "no-answer")
    return "\n".join(f"{one.name:<14} {one.status:<12} {one.reason}".rstrip() for one in given.verdicts)


def _states(given: Bundle) -> str:
    return "\n".join(
        f"{one.hash[:12]}  {(one.parent or '')[:12]:<12}  {one.status:<13} "
        f"{format_seconds(one.seconds) if one.seconds else '':>9}  {one.move or 'the start'}"
        for one in given.states
    )


def _lineage(given: Bundle) -> str:
    """The states as a tree, each with what its move gained, and the first on the way that is wrong."""
    below: dict[str | None, list[State]] = {}
    known = {one.hash: one for one in given.states}
    for one in given.states:
        below.setdefault(one.parent if one.parent in known else None, []).append(one)
    on_the_way = way(given.run.result, known)[::-1]
    lines: list[str] = []
    seen: set[str] = set()
    open_ = [(one, 0) for one in reversed(below.get(None, []))]
    while open_:
        one, depth = open_.pop()
        if one.hash in seen:
            continue
        seen.add(one.hash)
        mark = "*" if one.hash in on_the_way else " "
        lines.append(f"{mark}{'  ' * depth} {one.move or 'the start'}{_gain(one, known)}")
        open_ += [(child, depth + 1) for child in reversed(below.get(one.hash, []))]
    wrong = next((known[hash] for hash in on_the_way if known[hash].status in ("wrong", "crashed", "hung")), None)
    if wrong is not None:
        lines.append(f"the shortest prefix that fails ends with {wrong.move or 'the start'}: {wrong.reason}")
    failed = next((one for one in given.verdicts if one.status == "fail"), None)
    if failed is not None:
        prefix = _wrong_prefix(given) if failed.name == "correct" else _prefix(given)
        lines.append(f"gate {failed.name} fails: {failed.reason}; {prefix}")
    return "\n".join(lines) or "no states"


def _gain(one: State, known: Mapping[str, State]) -> str:
    """The speed-up of a move over the nearest earlier state that was timed."""
    at = known.get(one.parent or "")
    while at is not None and not at.seconds:
        at = known.get(at.parent or "")
    told = f"  {one.status}" if one.status and one.status != "ok" else ""
    if one.seconds:
        told += f"  {format_seconds(one.seconds)}"
        if at is not None and at.seconds:
            told += f", {at.seconds / one.seconds:.2f}x"
    return told


def _wrong_prefix(given: Bundle) -> str:
    """The shortest prefix of the moves that does not verify, if what follows a wrong one is wrong as well."""
    trace, run = given.trace, given.run
    kernels = [trace.start, *(step.kernel for step in trace.steps)]

    def wrong(length: int) -> str | None:
        try:
            return dojoir.verify(kernels[length], trace.start, target=run.target, threads=run.threads).reason
        except dojoir.DojoError as error:
            return error.diagnostic.message

    why = wrong(len(kernels) - 1)
    if why is None:
        return "all of its moves verify here"
    low, high = 0, len(kernels) - 1
    while high - low > 1:
        middle = (low + high) // 2
        found = wrong(middle)
        low, high, why = (low, middle, found) if found is not None else (middle, high, why)
    if not high:
        return f"its text is wrong as it was written: {why}"
    return f"the shortest prefix that fails ends with move {high}, {trace.steps[high - 1].move}: {why}"


def _prefix(given: Bundle) -> str:
    """The shortest prefix of the moves that is not proved."""
    trace = dojoir.Trace(given.trace.start)
    for number, step in enumerate(given.trace.steps, 1):
        try:
            trace.apply(step.move)
        except dojoir.DojoError as error:
            return (
                f"the shortest prefix that fails ends with move {number}, {step.move}: {error.diagnostic.message}"
            )
    return "every prefix of its moves is proved"


_SECTIONS: Mapping[str, Callable[[Bundle], str]] = {
    "text": _text, "moves": _moves, "diff": _diff, "source": _source, "asm": _asm, "bench": _bench,
    "gates": _gates, "states": _states, "lineage": _lineage,
}  # fmt: skip
