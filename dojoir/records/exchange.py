"""A database as lines of JSON, and back: what is read in is proved again.

The first line says what the file is. A kernel, a state and a result are a line each, and so is what a run drew at a
state, which is not read in. It belongs to the run. A state names its parent by
its hash and stands after it, a result names its state and its context, whole. Reading in parses each kernel, makes
each move again through the checker and compares the hash: what is not legal, or leads elsewhere, is refused with
its line, and so is whatever hangs on it. Times are taken over as what they say they are, of their machine; until
they are timed here they are hints.
"""

from __future__ import annotations

import json
from collections import OrderedDict
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Any

import dojoir
from dojoir import runtime
from dojoir.records.database import Database
from dojoir.records.draws import draw_lines
from dojoir.records.engine import sql
from dojoir.records.lines import KernelLine, ResultLine, StateLine, read_line
from dojoir.records.plain_data import json_of
from dojoir.records.queries import evaluations, of_row
from dojoir.records.schema import builds, kernels, runs, states
from dojoir.records.state import State

FORMAT = "dojoir-records"
FORMAT_VERSION = 1

BATCH = 200
"""How many lines are written in one transaction."""

_OPEN = 20_000
"""How many kernels are kept to make further moves on."""


@dataclass
class ImportCounts:
    """The outcome of an import: the numbers of kernels, states and results that were taken, and the reasons for
    the others."""

    kernels: int = 0
    states: int = 0
    results: int = 0
    refused: tuple[str, ...] = ()

    def __str__(self) -> str:
        refused = f", {len(self.refused)} lines refused" if self.refused else ""
        return f"{self.kernels} kernels, {self.states} states proved, {self.results} results{refused}"


def export_lines(database: Database) -> Iterator[str]:
    """Everything that a database has but the names of its runs, as lines of JSON without their ends. Raises
    RunError where it fails."""
    yield json.dumps({"format": FORMAT, "version": FORMAT_VERSION})
    with database.reading() as connection:
        names: dict[int, str] = {}
        for row in connection.execute(sql.select(kernels).order_by(kernels.c.id)):
            names[row.id] = row.hash
            yield json.dumps({"kernel": row.hash, "text": row.text})
        hashes = sql.select(states.c.id, states.c.hash).subquery()
        chosen = (
            sql.select(states, hashes.c.hash.label("from_hash"))
            .outerjoin(hashes, hashes.c.id == states.c.parent)
            .order_by(states.c.id)  # a parent was written before its children
        )
        for row in connection.execute(chosen):
            yield _state_line(row, names[row.kernel], row.from_hash)
        for row in connection.execute(evaluations().order_by(builds.c.id)):
            yield json.dumps(of_row(row).to_line())


def _state_line(row: Any, of: str, parent: str | None) -> str:
    choice = {} if row.choice is None else {"choice": row.choice}
    return json.dumps({"state": row.hash, "of": of, "parent": parent, "move": row.move, **choice})


class RunLines:
    """A run of a database as such lines, in parts: each call gives what was written since the one before. A process
    that goes on with it reads on from where the run is then.

    Together they are what `import_lines` reads, as `export_lines` gives it of a database with that run alone; its
    answer is there once the run has ended."""

    def __init__(self, database: Database, run: str) -> None:
        self._database, self._run = database, run
        self._last = self._last_draw = 0
        self._states: set[int] = set()
        self._kernels: dict[int, str] = {}

    def new(self) -> Iterator[str]:
        """The lines that are new. Raises ArgumentError, `unknown-run`, RunError where the database fails."""
        with self._database.reading() as connection:
            row = connection.execute(sql.select(runs).where(runs.c.name == self._run)).first()
            if row is None:
                raise dojoir.ArgumentError(f"the database has no run {self._run}", "unknown-run")
            if not self._kernels:
                yield json.dumps({"format": FORMAT, "version": FORMAT_VERSION})
            yield from self._kernel(connection, row.kernel)
            for last, state, fields in draw_lines(connection, row.id, self._last_draw):
                yield from self._way(connection, state)
                of = sql.select(states.c.hash, states.c.kernel).where(states.c.id == state)
                at = connection.execute(of).one()
                yield json.dumps({"drawn": at.hash, "of": self._kernels[at.kernel], **fields})
                self._last_draw = last
            chosen = evaluations().where(builds.c.run == row.id, builds.c.id > self._last)
            for found in connection.execute(chosen.order_by(builds.c.id)):
                yield from self._way(connection, found.state)
                yield json.dumps(of_row(found).to_line())
                self._last = found.id
            if row.best is not None:
                yield from self._way(connection, row.best)

    def _kernel(self, connection: sql.Connection, number: int) -> Iterator[str]:
        if number not in self._kernels:
            row = connection.execute(sql.select(kernels).where(kernels.c.id == number)).one()
            self._kernels[number] = row.hash
            yield json.dumps({"kernel": row.hash, "text": row.text})

    def _way(self, connection: sql.Connection, state: int) -> Iterator[str]:
        """The states to one, of those that were not written yet."""
        way: list[Any] = []
        at: int | None = state
        while at is not None and at not in self._states:
            row = connection.execute(sql.select(states).where(states.c.id == at)).one()
            self._states.add(at)
            way.append(row)
            at = row.parent
        for row in reversed(way):
            yield from self._kernel(connection, row.kernel)
            before = sql.select(states.c.hash).where(states.c.id == row.parent)
            parent = None if row.parent is None else connection.execute(before).scalar_one()
            yield _state_line(row, self._kernels[row.kernel], parent)


class _LineReader:
    """Reads lines into a database."""

    def __init__(self, database: Database) -> None:
        self.database = database
        self.done = ImportCounts()
        self.roots: dict[str, tuple[int, dojoir.Kernel]] = {}
        self.known: dict[tuple[str, str], int] = {}
        self.open: OrderedDict[tuple[str, str], dojoir.Kernel] = OrderedDict()

    def take(self, connection: sql.Connection, text: str) -> None:
        """One line. Raises DojoError for one that is refused."""
        match read_line(text):
            case KernelLine(hash, source):
                self._kernel(connection, hash, source)
            case StateLine() as line:
                self._state(connection, line)
            case ResultLine() as line:
                self._result(connection, line)

    def forget(self) -> None:
        """Forgets the numbers of rows: those of a line that was taken back are another's."""
        self.database.forget()

    def _kernel(self, connection: sql.Connection, hash: str, text: str) -> None:
        kernel = dojoir.parse(text)
        dojoir.prove(kernel)
        if kernel.hash != hash:
            raise dojoir.ArgumentError("the text of the kernel has another hash", "stale-record")
        self.roots[hash] = self.database.kernel_row(connection, kernel), kernel
        self.open[hash, hash] = kernel
        self.done.kernels += 1

    def _state(self, connection: sql.Connection, line: StateLine) -> None:
        hash, kernel, parent, move = line.state, line.of, line.parent, line.move
        if kernel not in self.roots:
            raise dojoir.ArgumentError("its kernel was not taken", "stale-record")
        number, root = self.roots[kernel]
        if parent is None and move is None:
            if hash != kernel:
                raise dojoir.ArgumentError("a state without a parent is the kernel itself", "stale-record")
            after, row, length = root, None, 0
        elif parent is not None and move is not None and (kernel, parent) in self.known:
            row = self.known[kernel, parent]
            after = dojoir.apply(self._kernel_of(kernel, parent, row), move)
            length = 1 + connection.execute(sql.select(states.c.length).where(states.c.id == row)).scalar_one()
        else:
            raise dojoir.ArgumentError("the state before it was not taken", "stale-record")
        if after.hash != hash:
            raise dojoir.ArgumentError("the move leads to another kernel", "stale-record")
        values = {"parent": row, "move": move, "length": length, "choice": line.choice}
        key = {"kernel": number, "hash": hash}
        self.known[kernel, hash] = self.database.numbered(connection, states, key, values)
        self.open[kernel, hash] = after
        while len(self.open) > _OPEN:
            self.open.popitem(last=False)
        self.done.states += 1

    def _kernel_of(self, kernel: str, hash: str, state: int) -> dojoir.Kernel:
        """The kernel of a state that was taken."""
        found = self.open.get((kernel, hash))
        return self.database.trace(state).kernel if found is None else found

    def _result(self, connection: sql.Connection, line: ResultLine) -> None:
        key = line.of, line.result
        if key not in self.known:
            raise dojoir.ArgumentError("its state was not taken", "stale-record")
        root, kernel = self.roots[line.of]
        state = line.of_state(State(*key), kernel)
        wrong = state.unfounded
        if wrong or state.outcome is None or state.context is None:
            raise dojoir.ArgumentError(wrong, "stale-record")
        row, number = self.known[key], self.database.context_row(connection, root, line.of, state.context)
        if not _is_there(connection, row, number, state.outcome, line.made):
            self.database.result_rows(connection, row, number, state.outcome, None, line.made, imported=True)
            self.done.results += 1


def _is_there(
    connection: sql.Connection, state: int, context: int, result: runtime.Evaluation, made: float
) -> bool:
    same = (builds.c.state == state, builds.c.context == context, builds.c.digest == result.digest)
    chosen = sql.select(builds.c.id).where(*same, builds.c.made == made, builds.c.status == result.status)
    return connection.execute(chosen.limit(1)).first() is not None


def import_lines(
    database: Database, lines: Iterable[str], progress: Callable[[ImportCounts], None] | None = None
) -> ImportCounts:
    """Reads lines that `export_lines` gave into a database, proving each state again. What is there already is not
    written twice; a line that is wrong is refused and told in `refused`, and the others are taken. Raises
    ArgumentError, `bad-record`, where the first line says that it is something else."""
    given = iter(lines)
    try:
        first = json_of(next(given, ""), "the first line")
    except dojoir.ArgumentError:
        first = None
    match first:
        case {"format": "dojoir-records", "version": 1}:
            pass
        case {"format": "dojoir-records", "version": version}:
            raise dojoir.ArgumentError(
                f"these records are of version {version}; this dojoir reads version {FORMAT_VERSION}", "bad-record"
            )
        case _:
            raise dojoir.ArgumentError("these are no records of dojoir: export writes such", "bad-record")
    reader = _LineReader(database)
    number = 1
    while batch := [line for line, _ in zip(given, range(BATCH), strict=False)]:
        with database.writing() as connection:
            for line in batch:
                number += 1
                try:
                    with connection.begin_nested():
                        reader.take(connection, line)
                except dojoir.DojoError as error:
                    if error.diagnostic.code == "database-lost":
                        raise
                    reason = error.diagnostic.message
                except (sql.exc.DataError, sql.exc.IntegrityError) as error:
                    reason = f"the database does not take it: {error.orig}"
                else:
                    continue
                reader.forget()
                reader.done.refused = (*reader.done.refused, f"line {number}: {reason}")
        if progress is not None:
            progress(reader.done)
    return reader.done


def merge(database: Database, other: Database) -> ImportCounts:
    """Takes over what another database has, as `import_lines` does."""
    return import_lines(database, export_lines(other))
