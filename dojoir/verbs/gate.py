"""`dojoir gate`: is it proved, built, right, the same each time, honest, and faster?"""

from __future__ import annotations

import argparse
import secrets
from typing import TYPE_CHECKING

from dojoir.cli.arguments import RUNS
from dojoir.cli.report import DIFFERS, FINE, TOOLCHAIN
from dojoir.verbs.given import answered
from dojoir.verbs.recording import recording
from dojoir.verbs.subject import run_folder, shapes_for, trace_of

if TYPE_CHECKING:
    pass


def gate(options: argparse.Namespace) -> int:
    """Asks each gate in turn; status 0 only if all pass, 4 where a compiler or a device is missing for
    some, 3 for all else. Raises DojoError."""
    from dojoir.evidence import Asked, TorchFunction, gate_lines, to_data
    from dojoir.evidence import gate as gated
    from dojoir.evidence.bundle import GATES
    from dojoir.evidence.peers import check_peers

    check_peers(options.beside)
    trace = trace_of(options.subject, options.runs_folder or RUNS, unsafe=True)
    shapes = shapes_for(options.subject, options.runs_folder or RUNS, options.shapes, trace.start)
    source, complaint = _of_run(options)
    asked = Asked(
        trace, options.target, shapes, options.threads, options.beside,
        secrets.randbelow(1 << 31) if options.seed is None else options.seed,
        torch=None if options.torch is None else TorchFunction.of(options.torch), cold=options.cold,
        source=source, complaint=complaint, seconds=options.seconds, sanitize=options.sanitize,
    )  # fmt: skip
    names = ("beside", "cold", "torch", "seconds", "sanitize")
    settings = {"seed": asked.seed, **{name: getattr(options, name) for name in names}}
    with recording(options, "gate", trace, shapes, settings, options.subject) as writer:
        found = gated(asked)
        if writer is not None:
            writer.data(GATES, found)
    answered(options, {"gates": to_data(found)}, gate_lines(found))
    if found.ok:
        return FINE
    is_missing = all(one.status in ("pass", "unavailable") for one in found.gates)
    return TOOLCHAIN if is_missing else DIFFERS


def _of_run(options: argparse.Namespace) -> tuple[str | None, str]:
    """The source that a run has, where it is for the same target, and what is wrong with its files."""
    from dojoir.evidence.reading import read

    folder = run_folder(options.subject, options.runs_folder or RUNS)
    if folder is None:
        return None, ""
    given = read(folder)
    wrong = given.wrong_files()
    source = given.source if given.run.target == options.target else None
    return None if source is None else source[1], wrong[0] if wrong else ""
