"""`dojoir runs`, `show`, `compare`, `view`, `replay`, `export`, `check`: reading what runs left, and proving it
again, here and by a stranger."""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import TYPE_CHECKING

import dojoir
from dojoir.cli.error_report import DIFFERS, FINE
from dojoir.cli.streams import say
from dojoir.records.plain_data import to_data
from dojoir.support.files import write_file
from dojoir.verbs.kernel_options import answered, check_writable
from dojoir.verbs.subject import run_folder, trace_of

if TYPE_CHECKING:
    from dojoir.evidence.bundle_reading import Bundle
    from dojoir.evidence.claims import BundleProof


def _bundle_of(options: argparse.Namespace, name: str) -> Bundle:
    """The bundle of a name. Raises ArgumentError, `no-run`."""
    from dojoir.evidence.bundle_reading import find

    return find(name, Path(options.runs_folder))


def runs(options: argparse.Namespace) -> int:
    """The runs, a line each; what cannot be read is told on stderr."""
    from dojoir.evidence.bundle_reading import Bundle, every

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
    lines = []
    for run in found:
        gained = ", ".join(f"{one.median:.3g}x beside {one.beside}" for one in run.gained)
        gates = ", ".join(f"{one.name} {one.status}" for one in run.gates if one.status != "pass")
        gates = gates or ("all gates pass" if run.gates else "")
        more = ", ".join(word for word in (gained, gates) if word)
        lines.append(
            f"{run.name}  {run.verb:<7} {run.status:<11} {run.target:<8} {run.moves:3} moves  {more}".rstrip()
        )
    if not found and not options.json:
        say(f"no such run is in {folder}")
    return answered(options, {"runs": [to_data(run) for run in found]}, "".join(f"{line}\n" for line in lines))


def show(options: argparse.Namespace) -> int:
    """A run: its record, or a section."""
    from dojoir.evidence.showing import section, summary

    given = _bundle_of(options, options.name)
    if options.section is not None:
        text = section(given, options.section)
        answer = {"section": options.section, "text": text}
    else:
        text, answer = summary(given), {"run": to_data(given.told)}
    return answered(options, answer, f"{text.rstrip()}\n")


def compare(options: argparse.Namespace) -> int:
    """Two runs beside each other."""
    from dojoir.evidence.comparing import compare as compared

    found = compared(_bundle_of(options, options.first), _bundle_of(options, options.second))
    return answered(options, {"compared": to_data(found)}, f"{found}\n")


def view(options: argparse.Namespace) -> int:
    """The page of a run, or of a trace."""
    from dojoir.evidence.page.html import page
    from dojoir.evidence.page.of_run import view_of_run, view_of_trace

    check_writable(options.output)
    name = options.subject
    is_file = name.startswith("library:") or name == "-" or Path(name).is_file()
    if is_file and run_folder(name, options.runs_folder) is None:
        made = view_of_trace(trace_of(name, options.runs_folder, unsafe=True), options.target)
    else:
        made = view_of_run(_bundle_of(options, name))
    write_file(options.output, page(made))
    said = {"page": options.output, "moves": len(made.steps) - 1, "states": len(made.states)}
    text = f"{options.output}: {len(made.steps) - 1} moves, {len(made.states)} states\n"
    return answered(options, {"view": said}, text)


def replay(options: argparse.Namespace) -> int:
    """Proves a run again; status 3 where something differs."""
    from dojoir.evidence.replay import replay as replayed

    proof = replayed(_bundle_of(options, options.name), again=options.again, seconds=options.seconds)
    return _told(options, "replay", proof)


def export(options: argparse.Namespace) -> int:
    """Writes a run as one file."""
    from dojoir.evidence.archive import export as exported

    check_writable(options.output)
    path = exported(_bundle_of(options, options.name), Path(options.output))
    said = {"export": {"file": str(path), "bytes": path.stat().st_size}}
    return answered(options, said, f"{path}: {path.stat().st_size} bytes\n")


def check(options: argparse.Namespace) -> int:
    """Proves such a file again; status 3 where something differs."""
    from dojoir.evidence.archive import check as checked

    return _told(options, "check", checked(Path(options.file)))


def _told(options: argparse.Namespace, name: str, proof: BundleProof) -> int:
    data = {name: {**to_data(proof), "ok": proof.ok}}
    return answered(options, data, f"{proof}\n", FINE if proof.ok else DIFFERS)
