"""Reading bundles: by path or name, whole or interrupted, of this version or an older one; all else is refused."""

from __future__ import annotations

import contextlib
import hashlib
import importlib
import json
import stat
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import dojoir
from dojoir.evidence import bundle
from dojoir.evidence.bundle import Gained, Gate, Run
from dojoir.evidence.figures import Bench, computed, gains
from dojoir.records import State, states_in
from dojoir.records.plain_data import from_text, json_of, of_version

if TYPE_CHECKING:
    from dojoir.evidence.gates import Gates

LARGEST = 1 << 30
"""How many bytes a file of a bundle may have that is read."""

STEPS = 1_000_000_000
"""The steps within which a trace is certified."""


@dataclass(frozen=True)
class Bundle:
    """A bundle that is there: its folder and its record, `interrupted` where nobody writes it any more. Of an
    archive, `packed` has the bytes of its files, and there is no folder."""

    folder: Path
    run: Run
    packed: Mapping[str, bytes] | None = None

    @property
    def names(self) -> list[str]:
        """The names of its files."""
        if self.packed is not None:
            return sorted(self.packed)
        return sorted(path.name for path in self.folder.iterdir())

    def has(self, name: str) -> bool:
        """Whether it has a file of that name."""
        return name in self.packed if self.packed is not None else (self.folder / name).is_file()

    def data(self, name: str) -> bytes:
        """The bytes of a file. Raises ArgumentError, `cannot-read`."""
        return self.packed[name] if self.packed is not None else read_bytes(self.folder / name)

    def text(self, name: str) -> str | None:
        """A file of it; None where it is not there. Raises ArgumentError, `cannot-read`, `not-text`."""
        return decoded(self.data(name), self._name_of(name)) if self.has(name) else None

    def _name_of(self, name: str) -> str:
        return name if self.packed is not None else str(self.folder / name)

    @cached_property
    def trace(self) -> dojoir.Trace:
        """The trace, each move checked again. Raises DojoError, `no-answer` where a run has none."""
        text = self.text(bundle.TRACE)
        if text is None:
            raise dojoir.ArgumentError(
                f"{self.run.name} has no answer: it is {self.run.status}; resume it, or show its states",
                "no-answer",
            )
        return dojoir.Trace.from_json(json_of(text, bundle.TRACE), bundle.TRACE, unsafe=True)

    @cached_property
    def certificate(self) -> dojoir.Verdict:
        """The verdict of the checker's core on the trace."""
        return dojoir.certify(self.trace, STEPS)

    @cached_property
    def start(self) -> dojoir.Kernel:
        """The first kernel."""
        return dojoir.parse(self.text(bundle.START) or "", self._name_of(bundle.START))

    @cached_property
    def benches(self) -> tuple[Bench, ...]:
        """The benches of the run as they were written: its own, and that of its gates. Raises ArgumentError,
        `bad-record`."""
        text, gates = self.text(bundle.BENCH), self.gates
        own = () if text is None else (from_text(Bench, text, self._name_of(bundle.BENCH)),)
        seen = None if gates is None or gates.seen is None else gates.seen.timed
        return own if seen is None else (*own, seen)

    @cached_property
    def bench(self) -> Bench | None:
        """The bench of the run, if there is one, with the figures that follow from its samples. Raises
        ArgumentError, `bad-record`."""
        return computed(self.benches[0]) if self.benches else None

    @cached_property
    def gates(self) -> Gates | None:
        """The results of the gates, if these were run. Raises ArgumentError, `bad-record`."""
        text = self.text(bundle.GATES)
        if text is None:
            return None
        from dojoir.evidence.gates import Gates  # with all that measures, which showing other runs does not need

        return from_text(Gates, text, self._name_of(bundle.GATES))

    @cached_property
    def gained(self) -> tuple[Gained, ...]:
        """How many times as fast the result is as each of what it was timed beside, by the samples."""
        return gains(self.bench)

    @cached_property
    def verdicts(self) -> tuple[Gate, ...]:
        """The gates, each with the verdict that follows from what was seen; `proved` and `built`, which follow from
        the trace and the source, as the file says: a check asks them."""
        gates = self.gates
        if gates is None:
            return ()
        found = []
        for one in gates.gates:
            if one.status == "pass" and one.name not in ("proved", "built"):
                status, reason = gates.follows(one.name)
                one = replace(one, status=status, reason=reason)
            found.append(one)
        return tuple(found)

    @property
    def told(self) -> Run:
        """The record with all that follows from the files."""
        return replace(self.run, gained=self.gained, gates=self.verdicts)

    @property
    def source(self) -> tuple[str, str] | None:
        """The name and the text of the source."""
        name = next((one for one in self.names if one.startswith(f"{bundle.SOURCE}.")), "")
        text = self.text(name) if name else None
        return None if text is None else (name, text)

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
        return tuple({one.hash: one for one in states_in(self.lines(bundle.STATES))}.values())

    @property
    def is_listed(self) -> bool:
        """Whether it has ended, and its record lists its files: one that goes on, or was killed, does not."""
        return self.run.ended is not None

    def wrong_files(self) -> list[str]:
        """The differences from the list of files in the record, a line each; empty for a run that goes on."""
        if not self.is_listed:
            return []
        known = {one.name: one for one in self.run.files}
        there = [name for name in self.names if name != bundle.RUN]
        found = [f"{name}: it is not in the list of files" for name in there if name not in known]
        for one in self.run.files:
            if one.name not in bundle.FILES:
                found.append(f"{one.name[:60]}: a bundle has no file of that name")
            elif not self.has(one.name) or (self.packed is None and (self.folder / one.name).is_symlink()):
                found.append(f"{one.name}: it is missing")
            elif hashlib.sha256(data := self.data(one.name)).hexdigest() != one.sha256 or len(data) != one.size:
                found.append(f"{one.name}: it has changed")
        return found


def read_bytes(path: Path, largest: int = LARGEST) -> bytes:
    """The bytes of a file of at most so many. What is no file, such as a pipe or a device, is not waited for.
    Raises ArgumentError, `cannot-read`."""
    try:
        about = path.stat()
        if not stat.S_ISREG(about.st_mode):
            raise dojoir.ArgumentError(f"cannot read {path}: it is no file", "cannot-read")
        if about.st_size > largest:
            raise dojoir.ArgumentError(f"{path} has more than {largest} bytes", "cannot-read")
        return path.read_bytes()
    except OSError as error:
        raise dojoir.ArgumentError(f"cannot read {path}: {error.strerror or error}", "cannot-read") from None


def decoded(data: bytes, name: str) -> str:
    """The text of some bytes. Raises ArgumentError, `not-text`."""
    try:
        return data.decode()
    except UnicodeDecodeError:
        raise dojoir.ArgumentError(f"{name} is not UTF-8 text", "not-text") from None


def read_text(path: Path, largest: int = LARGEST) -> str:
    """The text of a file of at most so many bytes. Raises ArgumentError, `cannot-read` or `not-text`."""
    return decoded(read_bytes(path, largest), str(path))


def read_run(text: str, name: str) -> Run:
    """The record in a text, of this version or an older one. Raises ArgumentError, `bad-record`, and
    `newer-record` for a version that this dojoir does not know."""
    return of_version(Run, json_of(text, name), name, bundle.VERSION)


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
