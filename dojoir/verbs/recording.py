"""The record that a verb with a result leaves in the folder of runs, where `--runs` asks for it."""

from __future__ import annotations

import argparse
import contextlib
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import dojoir
from dojoir.cli.streams import say
from dojoir.verbs import models
from dojoir.verbs.subject import run_folder

if TYPE_CHECKING:
    from dojoir.evidence.bundle import Verb
    from dojoir.evidence.writing import Writer
    from dojoir.records import Database


@contextlib.contextmanager
def recording(
    options: argparse.Namespace,
    verb: Verb,
    trace: dojoir.Trace,
    sizes: Sequence[Mapping[str, int]],
    settings: Mapping[str, Any],
    subject: str = "",
) -> Iterator[Writer | None]:
    """A bundle for what is found of a trace; None where none is asked for. A subject that is a run is its
    parent."""
    if options.runs_folder is None:
        yield None
        return
    from dojoir.evidence.writing import recorded

    parent = run_folder(subject, options.runs_folder) if subject else None
    with recorded(
        Path(options.runs_folder), verb, trace, target=options.target, sizes=sizes, threads=options.threads,
        settings=settings, url=getattr(options, "db", None), arguments=sys.argv[1:],
        parent=None if parent is None else parent.name,
    ) as writer:  # fmt: skip
        yield writer
    say(f"run {writer.run.name} in {options.runs_folder}")


# -- a search ----------------------------------------------------------------------------------------------
LIMITS = ("moves", "states", "builds", "measurements", "seconds", *models.LIMITS)


def store_of(options: argparse.Namespace) -> Database:
    """The database of the folder of runs, or the one that is named."""
    from dojoir.evidence.writing import store_of as store

    return store(Path(options.runs_folder), options.db)


@contextlib.contextmanager
def bundled(
    options: argparse.Namespace, kernel: dojoir.Kernel, sizes: Mapping[str, int], database: Database
) -> Iterator[Writer]:
    """The bundle of a search: a new one, or that of `--resume`, if it is there. Raises ArgumentError,
    `another-run`, where that is of another kernel."""
    from dojoir.evidence.writing import Writer, resumed

    runs = Path(options.runs_folder)
    folder = None if options.resume is None else run_folder(options.resume, options.runs_folder)
    if folder is not None:
        with resumed(folder, database) as writer:
            if writer.run.start != kernel.hash:
                message = f"the run {writer.run.name} is of another kernel than {kernel.name}"
                raise dojoir.ArgumentError(message, "another-run")
            yield writer
    else:
        names = (*LIMITS, "strategy", "seed", "timer", "cost_model", "workers")
        with Writer.begin(
            runs, "tune", dojoir.Trace(kernel), database, target=options.target, sizes=[sizes],
            threads=options.threads, settings={name: getattr(options, name) for name in names},
            arguments=sys.argv[1:], name=options.resume,
        ) as writer:  # fmt: skip
            yield writer
    say(f"run {writer.run.name} in {options.runs_folder}")


def finished(writer: Writer, tuned: dojoir.search.Tuned, options: argparse.Namespace) -> None:
    """Writes what a search came to: its answer, the card of it, what was gained."""
    from dojoir.evidence.benching import raced
    from dojoir.evidence.bundle import BENCH, PROFILE

    writer.answer(tuned.trace)
    is_measured = options.timer == "measure"
    with contextlib.suppress(dojoir.DojoError):
        if is_measured:
            sizes = writer.run.sizes[0]
            card = dojoir.profile(tuned.trace.kernel, options.target, sizes=sizes, threads=options.threads)
            writer.data(PROFILE, [card.to_json()])
    writer.machine(measured=is_measured)
    timed = raced(tuned, options.target, options.threads)
    if timed is not None:
        writer.data(BENCH, timed)
    writer.note(notes=tuned.notes)
    interrupted = tuned.stopped == "interrupted"
    writer.end("interrupted" if interrupted else "done", tuned.stopped)
