"""Writing a bundle as a run goes: what happened is on disk when a call returns, whatever becomes of the process.

The one store is the database: the states of a bundle are its export. A run that is going on holds a lock of its
events; one that was killed does not, by which it is told.
"""

from __future__ import annotations

import contextlib
import hashlib
import importlib
import json
import os
import re
import secrets
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import replace
from datetime import UTC, datetime
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from types import TracebackType
from typing import Any

import dojoir
from dojoir.cli.output import writing
from dojoir.evidence import bundle
from dojoir.evidence.bundle import Listed, Run, Status, Verb
from dojoir.evidence.code import code_and_text
from dojoir.records import Database, RunLines
from dojoir.records.contexts import this_machine
from dojoir.records.plain_data import to_text
from dojoir.support.files import write_file

RUNS = "runs"
"""The folder of bundles where none is named."""

STORE = "runs.db"
"""The database in a folder of bundles, where no other is named."""

UNFINISHED = ".new-"
"""How the name of a file begins whose writing was killed (`dojoir.support.files.write_file`)."""

_NAME = re.compile(r"\w[\w.-]{0,63}", re.ASCII)

PACKAGES = ("dojoir", "numpy", "llvmlite", "islpy", "torch")


def fresh_name(kernel: str, now: datetime | None = None) -> str:
    """A name for a run: when, of what, and some digits."""
    at = (now or datetime.now(UTC)).strftime("%Y%m%dT%H%M%SZ")
    return f"{at}-{re.sub(r'[^A-Za-z0-9_]+', '_', kernel)}-{secrets.token_hex(3)}"


def store_of(folder: Path, url: str | None = None) -> Database:
    """The database of a folder of bundles. Raises ArgumentError, `cannot-write`, where it cannot be made."""
    with writing(folder):
        folder.mkdir(parents=True, exist_ok=True)
    return Database(url or str(folder / STORE))


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="seconds")


def versions() -> dict[str, str]:
    """The versions of what makes and runs code here."""
    found = {}
    for name in PACKAGES:
        with contextlib.suppress(PackageNotFoundError):
            found[name] = version(name)
    return found


class Writer:
    """Writes the bundle of a run into `folder`, which is made, or goes on with one that was stopped.

    A context manager: a run that an error ends is `failed`, with the reason; one that ends without `end`, too."""

    def __init__(self, folder: Path, run: Run, database: Database) -> None:
        self.folder, self.run, self.database = folder, run, database
        self._lines = RunLines(database, run.database)
        self._begun = time.monotonic()
        self._appends = False

    @classmethod
    def begin(
        cls,
        runs: Path,
        verb: Verb,
        trace: dojoir.Trace,
        database: Database,
        *,
        target: str,
        sizes: Sequence[Mapping[str, int]],
        threads: int,
        settings: Mapping[str, Any],
        arguments: Sequence[str] = (),
        parent: str | None = None,
        name: str | None = None,
    ) -> Writer:
        """A bundle of a run that begins at the first kernel of a trace, with a run of its name in the database. A
        folder of that name that was made, and killed before it had a record, is taken.
        Raises ArgumentError, `cannot-write`, `bad-arguments` for a name that is none, and as the database does."""
        kernel = trace.start
        name = name or fresh_name(kernel.name)
        if not _NAME.fullmatch(name):
            message = f"a run is named by letters, digits, - and _, not {name[:60]!r}: write --resume softmax-1"
            raise dojoir.ArgumentError(message, "bad-arguments")
        run = Run(
            version=bundle.VERSION, name=name, verb=verb, status="running", kernel=kernel.name, target=target,
            sizes=tuple(dict(one) for one in sizes), threads=threads, arguments=tuple(arguments),
            settings=json.loads(json.dumps(dict(settings), default=str)), versions=versions(),
            environment={one: os.environ[one] for one in bundle.ENVIRONMENT if one in os.environ}, begun=_now(),
            start=kernel.hash, database=name, parent=parent,
        )  # fmt: skip
        folder = runs / name
        with writing(folder):
            folder.mkdir(parents=True, exist_ok=_is_hardly_begun(folder))
        writer = cls(folder, run, database)
        writer.text(bundle.START, dojoir.to_text(kernel))
        writer._save()
        return writer

    def __enter__(self) -> Writer:
        with writing(self.folder):
            self._events = open(self.folder / bundle.EVENTS, "ab", buffering=0)
        self._lock()
        with writing(self.folder):
            for left in self.folder.glob(f"{UNFINISHED}*"):
                left.unlink()
        self.event("begun" if not self._events.tell() else "resumed")
        return self

    def _lock(self) -> None:
        """Raises ArgumentError, `busy`, where another process writes this bundle."""
        try:
            locks = importlib.import_module("fcntl")
        except ImportError:
            return
        try:
            locks.flock(self._events, locks.LOCK_EX | locks.LOCK_NB)
        except OSError:
            self._events.close()
            raise dojoir.ArgumentError(f"{self.folder} is being written by another process", "busy") from None

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            if self.run.status == "running":
                reason = _reason(error)
                self.end("failed" if not isinstance(error, KeyboardInterrupt) else "interrupted", reason)
        finally:
            self._events.close()

    # -- as it goes --------------------------------------------------------------------------------------------
    def event(self, what: str, **facts: Any) -> None:
        """Appends what happened, with the seconds since the beginning, and the states that are new."""
        seconds = round(time.monotonic() - self._begun, 3)
        line = json.dumps({"event": what, "at": _now(), "seconds": seconds, **facts}, default=str)
        with writing(self.folder / bundle.EVENTS):
            self._events.write(f"{line}\n".encode())

    def states(self) -> None:
        """Appends the states of the database that are not there yet."""
        text = "".join(f"{line}\n" for line in self._lines.new())
        path = self.folder / bundle.STATES
        if not self._appends:  # what a process before this one wrote, and perhaps not to its end, is there too
            self.text(bundle.STATES, text)
            self._appends = True
        elif text:
            with writing(path), open(path, "ab", buffering=0) as file:
                file.write(text.encode())

    def text(self, name: str, text: str) -> None:
        """Writes a file beside the record, whole."""
        write_file(self.folder / name, text)

    def data(self, name: str, value: Any) -> None:
        """Writes data as JSON."""
        self.text(name, to_text(value))

    def note(self, **fields: Any) -> None:
        """Puts fields into the record, which is written at the end."""
        self.run = replace(self.run, **fields)

    def answer(self, trace: dojoir.Trace) -> None:
        """Writes what a run came to: the trace, its last kernel, its source, and the digest of its machine code."""
        target = self.run.target
        self.text(bundle.TRACE, json.dumps(trace.to_json(), indent=1) + "\n")
        self.text(bundle.FINAL, dojoir.to_text(trace.kernel))
        ending = bundle.ENDINGS.get(target.partition("@")[0], "c")
        with contextlib.suppress(dojoir.DojoError):  # a kernel that the target does not take: built says so
            self.text(f"{bundle.SOURCE}.{ending}", dojoir.emit(trace.kernel, target))
        made = code_and_text(trace.kernel, target)
        if made is not None:
            self.text(bundle.CODE, made[1])
        self.note(result=trace.kernel.hash, moves=len(trace.moves), code=None if made is None else made[0])

    def machine(self, measured: bool = False) -> None:
        """Writes what the doctor says of this machine, and its name as benches have it (`timed`); with what it
        reaches, where that is `measured` already. The folders of Python and of its user are left out."""
        facts = {"timed": this_machine(self.run.target)[0], **dojoir.doctor(measure=measured).to_json()}
        about = json.dumps(facts, indent=1, default=str)
        for place, name in ((sys.prefix, "(python)"), (os.path.expanduser("~"), "(home)")):
            about = about.replace(place, name) if len(place) > 1 else about
        self.text(bundle.MACHINE, f"{about}\n")

    def end(self, status: Status, stopped: str = "") -> Run:
        """Ends the bundle: the states from the database once more, and every file with its digest."""
        with contextlib.suppress(dojoir.DojoError):
            text = "".join(f"{line}\n" for line in RunLines(self.database, self.run.database).new())
            self.text(bundle.STATES, text)
        self.event("ended", status=status, stopped=stopped)
        self.note(
            status=status, stopped=stopped, ended=_now(), files=tuple(listed(self.folder)),
            states=count_states(self.folder),
        )  # fmt: skip
        self._save()
        return self.run

    def _save(self) -> None:
        self.text(bundle.RUN, to_text(self.run))


def _is_hardly_begun(folder: Path) -> bool:
    """Whether a folder has nothing but what `begin` writes before the record."""
    return folder.is_dir() and all(
        one.name == bundle.START or one.name.startswith(UNFINISHED) for one in folder.iterdir()
    )


def _reason(error: BaseException | None) -> str:
    if error is None:
        return "it ended without an answer"
    return error.diagnostic.message if isinstance(error, dojoir.DojoError) else type(error).__name__


def listed(folder: Path) -> Iterator[Listed]:
    """The files of a bundle that may be in one, but for the record, by name."""
    for name in sorted(bundle.FILES):
        path = folder / name
        if path.is_file():
            data = path.read_bytes()
            yield Listed(name, len(data), hashlib.sha256(data).hexdigest())


def count_states(folder: Path) -> int:
    """How many results a bundle has."""
    try:
        with open(folder / bundle.STATES, encoding="utf-8") as file:
            return sum(line.startswith('{"result"') for line in file)
    except OSError:
        return 0


@contextlib.contextmanager
def recorded(
    runs: Path,
    verb: Verb,
    trace: dojoir.Trace,
    *,
    target: str,
    sizes: Sequence[Mapping[str, int]],
    threads: int,
    settings: Mapping[str, Any],
    url: str | None = None,
    arguments: Sequence[str] = (),
    parent: str | None = None,
) -> Iterator[Writer]:
    """A bundle around what is found of a trace: it is written when that is over, with the trace as its answer; one
    that an error ends is `failed`."""
    with store_of(runs, url) as database:
        writer = Writer.begin(
            runs, verb, trace, database, target=target, sizes=sizes, threads=threads, settings=settings,
            arguments=arguments, parent=parent,
        )  # fmt: skip
        with writer:
            database.begin(trace.start, writer.run.settings, writer.run.database)
            yield writer
            writer.answer(trace)
            writer.machine()
            if trace.is_safe:
                database.end(writer.run.database, "done", trace)
            writer.end("done")


def begun_or_resumed(
    runs: Path, name: str, kernel: dojoir.Kernel, database: Database, **about: Any
) -> AbstractContextManager[Writer]:
    """The bundle of a search of this name: the one that is there, to go on with, or a new one."""
    if (runs / name / bundle.RUN).is_file():
        return resumed(runs / name, database)
    return Writer.begin(runs, "tune", dojoir.Trace(kernel), database, name=name, **about)


@contextlib.contextmanager
def resumed(folder: Path, database: Database) -> Iterator[Writer]:
    """The bundle of a run that was stopped, to go on with. Raises as `read` does."""
    from dojoir.evidence.bundle_reading import read

    run = replace(
        read(folder).run, version=bundle.VERSION, status="running", ended=None, files=(), gained=(), gates=()
    )
    with Writer(folder, run, database) as writer:
        yield writer
