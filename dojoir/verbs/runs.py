"""`dojoir runs`, `show`, `compare`, `view`: reading what runs left."""

from __future__ import annotations

import argparse
import json
from pathlib import Path

import dojoir
from dojoir.cli.output import write_result
from dojoir.cli.streams import say
from dojoir.support.files import write_file
from dojoir.verbs.given import answered, check_writable
from dojoir.verbs.subject import run_folder, trace_of


def runs(options: argparse.Namespace) -> int:
    """The runs, a line each; what cannot be read is told on stderr."""
    from dojoir.evidence.reading import Bundle, every
    from dojoir.records.forms import to_data

    folder = Path(options.runs_folder)
    if not folder.is_dir():
        raise dojoir.ArgumentError(f"there is no folder {folder}: dojoir tune --runs {folder} begins one", "no-run")
    found = []
    for one in every(folder):
        run, unread = None, one if isinstance(one, tuple) else (one.folder.name, "")
        if isinstance(one, Bundle):
            try:
                run = one.told
            except dojoir.DojoError as error:
                unread = one.folder.name, error.diagnostic.message
        if run is None:
            say(json.dumps({"unread": unread[0], "reason": unread[1]}) if options.json else ": ".join(unread))
            continue
        wanted = {"kernel": options.kernel, "target": options.target, "status": options.status}
        if all(value is None or getattr(run, name) == value for name, value in wanted.items()):
            found.append(run)
    if options.json:
        write_result(json.dumps({"runs": [to_data(run) for run in found]}) + "\n", None)
        return 0
    lines = []
    for run in found:
        gained = ", ".join(f"{one.median:.3g}x beside {one.beside}" for one in run.gained)
        gates = ", ".join(f"{one.name} {one.status}" for one in run.gates if one.status != "pass")
        gates = gates or ("all gates pass" if run.gates else "")
        more = ", ".join(word for word in (gained, gates) if word)
        lines.append(
            f"{run.name}  {run.verb:<7} {run.status:<11} {run.target:<8} {run.moves:3} moves  {more}".rstrip()
        )
    write_result("".join(f"{line}\n" for line in lines), None)
    if not found:
        say(f"no such run is in {folder}")
    return 0


def show(options: argparse.Namespace) -> int:
    """A run: its record, or a section."""
    from dojoir.evidence.reading import find
    from dojoir.evidence.showing import section, summary
    from dojoir.records.forms import to_data

    given = find(options.name, Path(options.runs_folder))
    if options.section is not None:
        text = section(given, options.section)
        answer = {"section": options.section, "text": text}
    else:
        text, answer = summary(given), {"run": to_data(given.told)}
    answered(options, answer, f"{text.rstrip()}\n")
    return 0


def compare(options: argparse.Namespace) -> int:
    """Two runs beside each other."""
    from dojoir.evidence.comparing import compare as compared
    from dojoir.evidence.reading import find
    from dojoir.records.forms import to_data

    folder = Path(options.runs_folder)
    found = compared(find(options.first, folder), find(options.second, folder))
    answered(options, {"compared": to_data(found)}, f"{found}\n")
    return 0


def view(options: argparse.Namespace) -> int:
    """The page of a run, or of a trace."""
    from dojoir.evidence.page.html import page
    from dojoir.evidence.page.of_run import view_of_run, view_of_trace
    from dojoir.evidence.reading import find

    check_writable(options.output)
    runs = Path(options.runs_folder)
    name = options.subject
    is_file = name.startswith("library:") or name == "-" or Path(name).is_file()
    if is_file and run_folder(name, options.runs_folder) is None:
        made = view_of_trace(trace_of(name, options.runs_folder, unsafe=True), options.target)
    else:
        made = view_of_run(find(name, runs))
    write_file(options.output, page(made))
    said = {"page": options.output, "moves": len(made.steps) - 1, "states": len(made.states)}
    text = f"{options.output}: {len(made.steps) - 1} moves, {len(made.states)} states\n"
    answered(options, {"view": said}, text)
    return 0
