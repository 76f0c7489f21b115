"""Reading bundles: by path or name, whole or interrupted, of this version or an older one; all else is refused."""

from __future__ import annotations

import contextlib
import hashlib
import importlib
import json
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import dojoir
from dojoir.evidence import bundle
from dojoir.evidence.bundle import Run
from dojoir.evidence.figures import Bench
from dojoir.evidence.forms import from_data, from_text

if TYPE_CHECKING:
    from dojoir.evidence.gates import Gates

LARGEST = 1 << 30
"""How many bytes a file of a bundle may have that is read."""

Older = Callable[[dict[str, Any]], dict[str, Any]]

MIGRATIONS: Mapping[int, Older] = {}
"""From the record of a version to that of the next one."""


@dataclass(frozen=True)
class State:
    """A state of a run, in the order of its file: its hash, that of the state before it, the move from there; and
    what became of it, if it was evaluated."""

    hash: str
    parent: str | None
    move: str | None
    status: str = ""
    seconds: float | None = None
    reason: str = ""


def states_of(lines: Iterable[Mapping[str, Any]]) -> tuple[State, ...]:
    """The states that some lines have, in their order, each with what became of it last."""
    found: dict[str, State] = {}
    for line in lines:
        match line:
            case {"state": str(hash), "parent": str() | None as parent, "move": str() | None as move}:
                found.setdefault(hash, State(hash, parent, move))
            case {"result": str(hash), "status": str(status), "reason": str(reason)} if hash in found:
                given = line.get("seconds")
                seconds = float(given) if isinstance(given, int | float) else None
                found[hash] = replace(found[hash], status=status, seconds=seconds, reason=reason)
    return tuple(found.values())


@dataclass(frozen=True)
class Bundle:
    """A bundle that is there: its folder and its record, `interrupted` where nobody writes it any more."""

    folder: Path
    run: Run

    @cached_property
    def trace(self) -> dojoir.Trace:
        """The trace, each move checked again. Raises DojoError, `no-answer` where a run has none."""
        if not (self.folder / bundle.TRACE).is_file():
            raise dojoir.ArgumentError(
                f"{self.run.name} has no answer: it is {self.run.status}; resume it, or show its states",
                "no-answer",
            )
        return dojoir.Trace.load(self.folder / bundle.TRACE, unsafe=True)

    @cached_property
    def start(self) -> dojoir.Kernel:
        """The first kernel."""
        return dojoir.load(self.folder / bundle.START)

    @cached_property
    def bench(self) -> Bench | None:
        """The bench of the run, if there is one. Raises ArgumentError, `bad-record`."""
        text = self.text(bundle.BENCH)
        return None if text is None else from_text(Bench, text, str(self.folder / bundle.BENCH))

    @cached_property
    def gates(self) -> Gates | None:
        """The results of the gates, if these were run. Raises ArgumentError, `bad-record`."""
        from dojoir.evidence.gates import Gates  # with all that measures, which showing a run does not need

        text = self.text(bundle.GATES)
        return None if text is None else from_text(Gates, text, str(self.folder / bundle.GATES))

    @property
    def source(self) -> tuple[str, str] | None:
        """The name and the text of the source."""
        for path in sorted(self.folder.glob(f"{bundle.SOURCE}.*")):
            text = self.text(path.name)
            if text is not None:
                return path.name, text
        return None

    def text(self, name: str) -> str | None:
        """A file of it; None where it is not there. Raises ArgumentError, `cannot-read`, `not-text`."""
        path = self.folder / name
        return read_text(path) if path.is_file() else None

    def lines(self, name: str) -> Iterator[dict[str, Any]]:
        """The lines of a file of JSON; one that was not written to its end is left out, as the last may be."""
        for line in (self.text(name) or "").splitlines():
            with contextlib.suppress(ValueError, RecursionError):
                data = json.loads(line)
                if isinstance(data, dict):
                    yield data

    @cached_property
    def states(self) -> tuple[State, ...]:
        """The states in the order of the file, each with what became of it last."""
        return states_of(self.lines(bundle.STATES))

    def wrong_files(self) -> list[str]:
        """The differences from the list of files in the record, a line each; empty for a run that goes on."""
        if self.run.status not in ("done", "failed"):
            return []
        known = {one.name: one for one in self.run.files}
        found = [
            f"{name}: it is not in the list of files"
            for name in sorted(path.name for path in self.folder.iterdir())
            if name not in known and name != bundle.RUN
        ]
        for one in self.run.files:
            path = self.folder / one.name
            if one.name not in bundle.FILES:
                found.append(f"{one.name[:60]}: a bundle has no file of that name")
            elif path.is_symlink() or not path.is_file():
                found.append(f"{one.name}: it is missing")
            elif hashlib.sha256(path.read_bytes()).hexdigest() != one.sha256:
                found.append(f"{one.name}: it has changed")
        return found


def read_text(path: Path, largest: int = LARGEST) -> str:
    """The text of a file of at most so many bytes. Raises ArgumentError, `cannot-read` or `not-text`."""
    try:
        if path.stat().st_size > largest:
            raise dojoir.ArgumentError(f"{path} has more than {largest} bytes", "cannot-read")
        return path.read_text(encoding="utf-8")
    except OSError as error:
        raise dojoir.ArgumentError(f"cannot read {path}: {error.strerror or error}", "cannot-read") from None
    except UnicodeDecodeError:
        raise dojoir.ArgumentError(f"{path} is not UTF-8 text", "not-text") from None


def read_run(text: str, name: str) -> Run:
    """The record in a text, of this version or an older one. Raises ArgumentError, `bad-record`, and
    `newer-record` for a version that this dojoir does not know."""
    try:
        data = json.loads(text)
    except (ValueError, RecursionError):
        raise dojoir.ArgumentError(f"{name} is not JSON", "bad-record") from None
    number = data.get("version") if isinstance(data, dict) else None
    if type(number) is not int or number < 1:
        raise dojoir.ArgumentError(f"{name} does not say its version: it is no record of a run", "bad-record")
    if number > bundle.VERSION:
        raise dojoir.ArgumentError(
            f"{name} is of version {number}, and this dojoir reads up to {bundle.VERSION}: update dojoir",
            "newer-record",
        )
    while number < bundle.VERSION:
        data = MIGRATIONS[number](data)
        number += 1
    return from_data(Run, data, name)


def read(folder: Path) -> Bundle:
    """The bundle in a folder. Raises ArgumentError, `no-run`, and as `read_run` does."""
    path = folder / bundle.RUN
    if not path.is_file():
        raise dojoir.ArgumentError(f"{folder} is no run: it has no {bundle.RUN}", "no-run")
    run = read_run(read_text(path), str(path))
    if run.status == "running" and not _is_written(folder / bundle.EVENTS):
        run = replace(run, status="interrupted")
    return Bundle(folder, run)


def _is_written(path: Path) -> bool:
    """Whether a process holds the lock of a bundle."""
    try:
        locks = importlib.import_module("fcntl")
        with open(path, "rb") as file:
            locks.flock(file, locks.LOCK_SH | locks.LOCK_NB)
            locks.flock(file, locks.LOCK_UN)
    except (ImportError, FileNotFoundError):
        return False
    except OSError:
        return True
    return False


def find(name: str, runs: Path) -> Bundle:
    """The bundle of a path, of a name in the folder `runs`, of the beginning or the end of one such name, or
    `last`. Raises ArgumentError, `no-run`, with what there is."""
    for folder in (Path(name), runs / name):
        if (folder / bundle.RUN).is_file():
            return read(folder)
    found = fitting(name, runs)
    if len(found) == 1:
        return read(runs / found[0])
    if found:
        message = f"{name} may be {', '.join(found[:5])}: write more of it"
    else:
        known = _names(runs)
        there = f"the last there are {', '.join(known[-5:])}" if known else "there are none"
        message = f"there is no run {name} in {runs}, and {there}"
    raise dojoir.ArgumentError(message, "no-run")


def fitting(name: str, runs: Path) -> list[str]:
    """The names of the runs in a folder that one name may mean: that begin or end with it; the latest for
    `last`."""
    known = _names(runs)
    if name == "last":
        return known[-1:]
    return [one for one in known if name and (one.startswith(name) or one.endswith(name))]


def _names(runs: Path) -> list[str]:
    return sorted(path.parent.name for path in runs.glob(f"*/{bundle.RUN}"))


def every(runs: Path) -> Iterator[Bundle | tuple[str, str]]:
    """The bundles of a folder, the latest first; of what cannot be read its name and why."""
    for path in sorted(runs.glob(f"*/{bundle.RUN}"), reverse=True):
        try:
            yield read(path.parent)
        except dojoir.DojoError as error:
            yield path.parent.name, error.diagnostic.message
