"""The answers of `dojoir-opt` instead of the text of the kernel: moves, reasons, code, results, times."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping

import dojoir
from dojoir.cli.error_report import DIFFERS, FINE, INPUT, note_without_grid
from dojoir.cli.optimizing import own_structures
from dojoir.cli.options import Options
from dojoir.cli.run_option import run_kernel
from dojoir.cli.streams import say
from dojoir.cli.timing import check_kernel, time_kernel

Answer = tuple[str, int]
"""A text for stdout, and an exit status."""


def answer(options: Options, trace: dojoir.Trace) -> Answer:
    """All that is asked for, in the order of _ASKED. Raises DojoError."""
    texts: list[str] = []
    status = FINE
    for name, ask in _ASKED.items():
        if getattr(options, name) in (None, False):
            continue
        text, its = ask(options, trace)
        texts.append(text)
        status = status or its
        if its == DIFFERS:  # a wrong kernel is not worth timing
            break
    return "".join(texts), status


def kind_of(options: Options) -> str:
    """The kind of the result, for a terminal: of several answers, none in particular."""
    asked = [options.emit or "", "table" if options.time else "", "moves" if options.moves or options.find else ""]
    kinds = [kind for kind in asked if kind]
    if options.json:
        return "json"
    if not options.asks:
        return "dojo"
    if options.explain is not None and not (kinds or options.run or options.check or options.cost or options.plan):
        return "error"
    others = options.run or options.check or options.cost or options.plan or options.explain
    if kinds == ["table"]:
        return "table"
    return kinds[0] if len(kinds) == 1 and not others and kinds != ["moves"] else "plain"


def doing(options: Options) -> str:
    """The slow step, for the line of progress."""
    asked = {"checking": options.check, "timing": options.time, "running": options.run, "proving": options.moves}
    return ", ".join(word for word, is_asked in asked.items() if is_asked) or "answering"


def _said(options: Options, data: object, text: str, status: int = FINE) -> Answer:
    return (json.dumps(data) if options.json else text) + "\n", status


def _moves(options: Options, trace: dojoir.Trace) -> Answer:
    listed = [str(move) for move in dojoir.moves(trace.kernel, options.target)]
    text, status = _said(options, {"moves": listed}, "\n".join(listed))
    return text if listed or options.json else "", status


def _explain(options: Options, trace: dojoir.Trace) -> Answer:
    assert options.explain is not None
    verdict = dojoir.suggest(trace.kernel, options.explain)
    return _said(options, {"move": options.explain, **verdict.to_json()}, str(verdict), FINE if verdict else INPUT)


def _find(options: Options, trace: dojoir.Trace) -> Answer:
    assert options.find is not None
    found = dojoir.find(trace.kernel, options.find)
    matches = [{"place": match.place, "line": match.line, "text": match.text} for match in found]
    wide = max(len(match.place) for match in found)
    lines = (f"{match.place:<{wide}}  line {match.line:<4} {match.text}" for match in found)
    return _said(options, {"find": matches}, "\n".join(lines))


def _cost(options: Options, trace: dojoir.Trace) -> Answer:
    cost, sizes = dojoir.cost(trace.kernel), dict(options.sizes)
    return _said(options, cost.to_json(sizes), cost.describe(sizes))


def _plan(options: Options, trace: dojoir.Trace) -> Answer:
    made = dojoir.plan(
        trace.kernel, options.target, sizes=dict(options.sizes), threads=options.threads, cpu=options.cpu,
        structures=own_structures(options),
    )  # fmt: skip
    return _said(options, made.to_json(), str(made))


def _emit(options: Options, trace: dojoir.Trace) -> Answer:
    assert options.emit is not None
    watch = (lambda name, text: say(f"# after {name}\n{text}")) if options.print_lir else None
    text = dojoir.emit(trace.kernel, options.emit, cpu=options.cpu, watch=watch)
    note_without_grid(trace.kernel, options.emit, options.json)
    return text, FINE


_ASKED: Mapping[str, Callable[[Options, dojoir.Trace], Answer]] = {
    "moves": _moves, "explain": _explain, "find": _find, "cost": _cost, "plan": _plan, "emit": _emit,
    "run": run_kernel, "check": check_kernel, "time": time_kernel,
}  # fmt: skip
"""The answer to each option that asks."""
