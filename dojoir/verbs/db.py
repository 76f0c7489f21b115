"""`dojoir db`: what there is, runs, the fastest, out and in, is it true, what may go."""

from __future__ import annotations

import argparse
import json
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import dojoir
from dojoir.cli.chunks import read_lines
from dojoir.cli.output import write_result
from dojoir.cli.streams import say
from dojoir.support.files import write_file
from dojoir.verbs.kernel_options import answered, check_writable, database_of, database_there

if TYPE_CHECKING:
    from dojoir.records import State


def stats(options: argparse.Namespace) -> int:
    """How many rows each table has."""
    with database_there(options) as database:
        found = database.stats()
    width = max(map(len, found))
    lines = [f"{name:<{width}}  {count:9}\n" for name, count in found.items()]
    return answered(options, {"stats": found}, "".join(lines))


def top(options: argparse.Namespace) -> int:
    """The fastest states of a kernel, a line each; what may be compared stands together."""
    name = options.kernel
    with database_there(options) as database:
        found = database.top(name.removeprefix("library:") if name else None, count=options.count)
    if not found:
        say(f"nothing was timed of {name or 'any kernel'} here: dojoir db stats counts what there is")
    lines = [f"{row.kernel}  {row}\n" if name is None else f"{row}\n" for row in found]
    return answered(options, {"top": [row.to_json() for row in found]}, "".join(lines))


def runs(options: argparse.Namespace) -> int:
    """The runs, a line each, the latest first."""
    from dojoir.records import run_summaries

    name = options.kernel
    with database_there(options) as database:
        found = run_summaries(database, name.removeprefix("library:") if name else None)
    if not found:
        say(f"no run of {name or 'any kernel'} is here: dojoir tune --db URL writes them")
    return answered(options, {"runs": [run.to_json() for run in found]}, "".join(f"{run}\n" for run in found))


def show(options: argparse.Namespace) -> int:
    """A run by its name, or a state by its hash or number: the moves to it, checked again, what is known of it, and
    its text. Status 3 where it was to be run again and is not right. Raises DojoError."""
    from dojoir.records import find_state, run_summaries, state_results

    if options.save_trace:
        check_writable(options.save_trace)
    with database_there(options) as database:
        known = run_summaries(database)
        run = next((one for one in known if options.name in (one.name, "last")), None)
        state = run.best if run is not None else find_state(database, options.name)
        trace = None if state is None else database.trace(state)
        results = [] if state is None else state_results(database, state)
    data: dict[str, Any] = {"run": None if run is None else run.to_json()}
    if trace is not None:
        moves = [str(move) for move in trace.moves]
        data |= {"hash": trace.kernel.hash, "moves": moves, "text": dojoir.to_text(trace.kernel)}
    data["results"] = [one.to_json() for one in results]
    right, said = _is_right(trace, results) if options.check and trace is not None else (None, "")
    if right is not None:
        data["right"] = right
    lines = [] if run is None else [str(run), *_details(run)]
    if trace is not None:
        count = f"{len(trace.moves)} move{'s' * (len(trace.moves) != 1)}"
        lines += [f"{trace.start.name} {trace.kernel.hash[:12]}, {count}", *(f"  {move}" for move in trace.moves)]
        lines += [f"{one.told()}{one.unfounded and f'; not so: {one.unfounded}'}" for one in results]
        lines += [said] if said else []
        lines += ["", str(trace.kernel).rstrip()]
        if options.save_trace:
            trace.save(options.save_trace)
    elif options.save_trace:
        raise dojoir.ArgumentError(f"the run {options.name} has no answer yet: it has not ended", "unknown-state")
    return answered(options, data, "".join(f"{line}\n" for line in lines), 3 if right is False else 0)


def _is_right(trace: dojoir.Trace, results: Sequence[State]) -> tuple[bool, str]:
    """Whether a state is right here and now: certified, and its results those of the text."""
    at = next((one.context for one in reversed(results) if one.context is not None), None)
    verdict = dojoir.certify(trace)
    if not verdict:
        return False, f"not certified: {verdict.reason}"
    target, threads = ("llvm", 1) if at is None else (at.target, at.threads)
    report = dojoir.verify(trace.kernel, trace.start, target=target, threads=threads)
    cases = f"certified, and {len(report.cases)} cases on {target}"
    return report.ok, f"{cases} are right" if report.ok else f"{cases}: {report.reason or report.status}"


def _details(run: Any) -> list[str]:
    """The settings of a run, and how its states ended."""
    settings = [f"  {name}: {json.dumps(value)}" for name, value in run.settings.items() if value is not None]
    ended = ", ".join(f"{count} {status}" for status, count in run.statuses.items())
    return [*settings, *([f"  states: {ended}"] if ended else [])]


def export(options: argparse.Namespace) -> int:
    """All of it as lines of JSON."""
    from dojoir.records import export_lines

    with database_there(options) as database:
        if options.output and options.output != "-":
            write_file(options.output, "".join(f"{line}\n" for line in export_lines(database)))
        else:
            for line in export_lines(database):
                write_result(f"{line}\n", None)
    return 0


def import_(options: argparse.Namespace) -> int:
    """Reads lines in, each state proved again; status 1 where a line was refused."""
    from dojoir.records import import_lines

    lines = read_lines(options.file)
    with database_of(options) as database:
        return _taken(options, import_lines(database, lines))


def merge(options: argparse.Namespace) -> int:
    """Takes over what another database has; status 1 where something was refused."""
    from dojoir.records import Database
    from dojoir.records import merge as merged

    with database_there(options) as database, Database(options.other) as other:
        return _taken(options, merged(database, other))


def _taken(options: argparse.Namespace, done: Any) -> int:
    for reason in done.refused:
        say(json.dumps({"refused": reason}) if options.json else f"refused: {reason}")
    return answered(options, {"imported": dict(vars(done))}, f"{done}\n", 1 if done.refused else 0)


def check(options: argparse.Namespace) -> int:
    """Holds the database to what it says; status 3 where something is wrong."""
    from dojoir.records import check as checked

    with database_there(options) as database:
        found = checked(database)
    return answered(options, {"check": {"ok": found.ok, **vars(found)}}, f"{found}\n", 0 if found.ok else 3)


def prune(options: argparse.Namespace) -> int:
    """Leaves the fastest results of each context, and the way to them."""
    from dojoir.records import prune as pruned

    with database_there(options) as database:
        gone = pruned(database, options.keep)
    text = ", ".join(f"{count} {name}" for name, count in gone.items() if count) or "nothing"
    return answered(options, {"pruned": gone}, f"taken out: {text}\n")
