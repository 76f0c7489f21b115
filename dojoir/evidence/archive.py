"""A bundle as one file, the same bytes each time, and what a stranger asks of such a file.

Nothing of it is executed or written to disk, and no compiler is needed: the moves are proved again from their
texts. Every byte counts, for the file must be the one that would be written of what is in it.
"""

from __future__ import annotations

import hashlib
import io
import json
import zipfile
from collections.abc import Mapping
from pathlib import Path

import dojoir
from dojoir.evidence import bundle
from dojoir.evidence.bundle import Run
from dojoir.evidence.figures import Bench
from dojoir.evidence.forms import from_text
from dojoir.evidence.gates import Gates
from dojoir.evidence.reading import Bundle, read_run, states_of
from dojoir.evidence.replay import STEPS, Check, Proof, Prover, along, ends, figures, verdicts
from dojoir.records.lines import read_line

MOST_BYTES = 1 << 30
"""How many bytes all files of an archive may have together."""

WHEN = (1980, 1, 1, 0, 0, 0)
MODE = 0o100644 << 16


def export(given: Bundle, path: Path) -> Path:
    """Writes a bundle as an archive, whole or not at all. Raises ArgumentError: `no-answer` for a run that has not
    ended, `changed-run` for one whose files are not those that its record lists, `cannot-write`."""
    run = given.run
    if run.status not in ("done", "failed"):
        message = f"{run.name} is {run.status}: resume it to its end before it is exported"
        raise dojoir.ArgumentError(message, "no-answer")
    wrong = given.wrong_files()
    if wrong:
        raise dojoir.ArgumentError(f"{run.name} is not what its record says: {wrong[0]}", "changed-run")
    names = [bundle.RUN, *(one.name for one in run.files)]
    dojoir.write_file(path, packed({name: (given.folder / name).read_bytes() for name in names}))
    return path


def packed(files: Mapping[str, bytes]) -> bytes:
    """Files as an archive, the same bytes for the same files: stored as they are, in the order of their names."""
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", zipfile.ZIP_STORED) as archive:
        for name in sorted(files):
            about = zipfile.ZipInfo(name, WHEN)
            about.create_system, about.external_attr = 3, MODE
            archive.writestr(about, files[name])
    return out.getvalue()


def unpacked(data: bytes, name: str) -> dict[str, bytes]:
    """The files of an archive, by their names. Raises ArgumentError, `bad-archive`, for what is none, for a name
    that a bundle does not have (one that leads out of its folder among them), and for one byte that is another."""

    def refuse(what: str) -> dojoir.ArgumentError:
        return dojoir.ArgumentError(f"{name}: {what}", "bad-archive")

    try:
        with zipfile.ZipFile(io.BytesIO(data)) as archive:
            infos = archive.infolist()
            for one in infos:
                if one.filename not in (bundle.RUN, *bundle.FILES):
                    raise refuse(f"{one.filename[:80]!r} is no file of a bundle")
                if (
                    one.compress_type != zipfile.ZIP_STORED
                    or one.flag_bits & 1
                    or one.file_size != one.compress_size
                ):
                    raise refuse(f"{one.filename} is not stored as it is")
            if sum(one.file_size for one in infos) > MOST_BYTES:
                raise refuse(f"its files have more than {MOST_BYTES} bytes")
            names = [one.filename for one in infos]
            twice = next((one for one in names if names.count(one) > 1), None)
            if twice is not None:
                raise refuse(f"it has {twice} twice")
            files = {one.filename: archive.read(one) for one in infos}
    except (zipfile.BadZipFile, OSError, ValueError, EOFError, NotImplementedError, RuntimeError) as error:
        raise refuse(f"it is no whole archive: {error}") from None
    if bundle.RUN not in files:
        raise refuse(f"it has no {bundle.RUN}")
    if packed(files) != data:
        raise refuse("its bytes are not those that its files would be packed to: some were changed or added")
    return files


def check(path: Path) -> Proof:
    """Checks an archive without trusting its author. Raises ArgumentError where it cannot be read at all."""
    try:
        if path.stat().st_size > MOST_BYTES + (1 << 20):
            raise dojoir.ArgumentError(f"{path} has more than {MOST_BYTES} bytes", "cannot-read")
        data = path.read_bytes()
    except OSError as error:
        raise dojoir.ArgumentError(f"cannot read {path}: {error.strerror or error}", "cannot-read") from None
    files: dict[str, bytes] = {}
    runs: list[Run] = []
    traces: list[dojoir.Trace] = []

    def text(name: str) -> str | None:
        if name not in files:
            return None
        try:
            return files[name].decode()
        except UnicodeDecodeError:
            raise dojoir.ArgumentError(f"{name} is not UTF-8 text", "not-text") from None

    def lines() -> list[str]:
        return (text(bundle.STATES) or "").splitlines()

    def archive() -> Check:
        files.update(unpacked(data, path.name))
        return "pass", f"{len(files)} files"

    def record() -> Check:
        runs.append(read_run(text(bundle.RUN) or "", bundle.RUN))
        wrong = _listed(runs[0], files)
        return ("fail", wrong) if wrong else ("pass", f"{runs[0].verb} of {runs[0].kernel}, {runs[0].status}")

    def moves() -> Check:
        given = text(bundle.TRACE)
        if given is None:
            return "unavailable", f"the run has no answer: {runs[0].stopped or runs[0].status}"
        try:
            parsed = json.loads(given)
        except (ValueError, RecursionError):
            return "fail", f"{bundle.TRACE} is not JSON"
        traces.append(dojoir.Trace.from_json(parsed, bundle.TRACE))
        return along(traces[0], states_of(read_line(line) for line in lines()))

    def certified() -> Check:
        verdict = dojoir.certify(traces[0], STEPS)
        if verdict.status == "unknown":
            return "unavailable", str(verdict.reason)
        return ("pass", "by the core alone") if verdict else ("fail", str(verdict))

    def states() -> Check:
        for line in lines():
            read_line(line)
        return "pass", f"{len(lines())} lines, not proved again: dojoir db import proves them"

    def bench() -> Bench | None:
        given = text(bundle.BENCH)
        return None if given is None else from_text(Bench, given, bundle.BENCH)

    def said() -> Check:
        given = text(bundle.GATES)
        gates = None if given is None else from_text(Gates, given, bundle.GATES)
        return verdicts(runs[0], gates, bench())

    prover = Prover()
    prover.ask("archive", archive)
    prover.ask("record", record, ["archive"], bundle.RUN)
    prover.ask("moves", moves, ["record"], bundle.TRACE)
    prover.ask("certified", certified, ["moves"], bundle.TRACE)
    prover.ask("ends", lambda: ends(text, traces[0], runs[0].start, runs[0].result), ["moves"], bundle.FINAL)
    prover.ask("states", states, ["record"], bundle.STATES)
    prover.ask("figures", lambda: figures(bench()), ["record"], bundle.BENCH)
    prover.ask("verdicts", said, ["record"], bundle.GATES)
    return Proof(runs[0].name if runs else path.name, tuple(prover.found))


def _listed(run: Run, files: Mapping[str, bytes]) -> str:
    """How the files differ from those that the record lists, if they do."""
    listed = {one.name: one for one in run.files}
    there = set(files) - {bundle.RUN}
    added, missing = sorted(there - set(listed)), sorted(set(listed) - there)
    if added or missing:
        return f"{added[0]} is not in the list of files" if added else f"{missing[0]} is missing"
    for name, one in listed.items():
        if len(files[name]) != one.size or hashlib.sha256(files[name]).hexdigest() != one.sha256:
            return f"{name} is not the file that is listed"
    return ""
