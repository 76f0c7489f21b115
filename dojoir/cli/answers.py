"""The answers of `dojoir-opt` instead of the text of the kernel: moves, reasons, code, results, times."""

from __future__ import annotations

import json
from collections.abc import Callable

import dojoir
from dojoir.cli.optimizing import own_structures
from dojoir.cli.options import Options
from dojoir.cli.report import DIFFERS, FINE, INPUT, note_without_grid
from dojoir.cli.running import run_kernel
from dojoir.cli.streams import say
from dojoir.cli.timing import check_kernel, time_kernel

Answer = tuple[str, int]
"""A text for stdout, and an exit status."""


def answer(options: Options, trace: dojoir.Trace) -> Answer:
    """All that is asked for, in a fixed order. Raises DojoError."""
    asked: list[Callable[[Options, dojoir.Trace], Answer]] = []
    if options.moves:
        asked.append(_moves)
    if options.explain is not None:
        asked.append(_explain)
    if options.find is not None:
        asked.append(_find)
    if options.cost:
        asked.append(_cost)
    if options.plan:
        asked.append(_plan)
    if options.emit is not None:
        asked.append(_emit)
    if options.run:
        asked.append(run_kernel)
    if options.check:
        asked.append(check_kernel)
    if options.time:
        asked.append(time_kernel)
    texts: list[str] = []
    status = FINE
    for ask in asked:
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


def _moves(options: Options, trace: dojoir.Trace) -> Answer:
    listed = [str(move) for move in dojoir.moves(trace.kernel, options.target)]
    if options.json:
        return json.dumps({"moves": listed}) + "\n", FINE
    return "".join(f"{move}\n" for move in listed), FINE


def _explain(options: Options, trace: dojoir.Trace) -> Answer:
    assert options.explain is not None
    verdict = dojoir.suggest(trace.kernel, options.explain)
    status = FINE if verdict else INPUT
    if options.json:
        return json.dumps({"move": options.explain, **verdict.to_json()}) + "\n", status
    return f"{verdict}\n", status


def _find(options: Options, trace: dojoir.Trace) -> Answer:
    assert options.find is not None
    found = dojoir.find(trace.kernel, options.find)
    if options.json:
        matches = [{"place": match.place, "line": match.line, "text": match.text} for match in found]
        return json.dumps({"find": matches}) + "\n", FINE
    wide = max(len(match.place) for match in found)
    return "".join(f"{match.place:<{wide}}  line {match.line:<4} {match.text}\n" for match in found), FINE


def _cost(options: Options, trace: dojoir.Trace) -> Answer:
    cost = dojoir.cost(trace.kernel)
    if options.json:
        return json.dumps(cost.to_json(dict(options.sizes))) + "\n", FINE
    return cost.describe(dict(options.sizes)) + "\n", FINE


def _plan(options: Options, trace: dojoir.Trace) -> Answer:
    made = dojoir.plan(
        trace.kernel,
        options.target,
        sizes=dict(options.sizes),
        threads=options.threads,
        cpu=options.cpu,
        structures=own_structures(options),
    )
    if options.json:
        return json.dumps(made.to_json()) + "\n", FINE
    return f"{made}\n", FINE


def _emit(options: Options, trace: dojoir.Trace) -> Answer:
    assert options.emit is not None
    watch = (lambda name, text: say(f"# after {name}\n{text}")) if options.print_lir else None
    text = dojoir.emit(trace.kernel, options.emit, cpu=options.cpu, watch=watch)
    note_without_grid(trace.kernel, options.emit, options.json)
    return text, FINE
