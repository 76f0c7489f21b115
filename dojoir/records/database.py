"""`Database`: writes what was tried, state by state, and gives back what need not be done again."""

from __future__ import annotations

import contextlib
import json
import math
import os
import time
import uuid
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import dojoir
from dojoir import runtime
from dojoir.records.contexts import Context, Sizes, here
from dojoir.records.draws import read_draws, write_draws
from dojoir.records.engine import opened, sql, told, url_of
from dojoir.records.likeness import most_alike
from dojoir.records.path import path_of
from dojoir.records.queries import evaluations, fastest, of_row, ranked, way_to
from dojoir.records.schema import (
    builds,
    contexts,
    draws,
    kernels,
    machines,
    measurements,
    prepare,
    runs,
    states,
    verifications,
)
from dojoir.records.state import State, as_lists
from dojoir.support.public import public

VARIABLE = "DOJOIR_DB"
"""The URL of the database where none is named."""

PROTOCOL = "measure"
"""The default protocol of times."""

_KEPT = 100_000
"""How many numbers of rows are kept in memory."""


class Database:
    """A database of states and their times, at a URL: `sqlite:///FILE`, the path of a file, or
    `postgresql://USER@HOST/NAME`; by default what the variable DOJOIR_DB says.

    What a method has written is there when it returns, whatever becomes of the process. Several processes may
    write. Raises ArgumentError for a URL that is none (`bad-database`), no URL at all (`no-database`) or a
    database of a newer version (`newer-database`). Raises ToolchainError where a package is missing, and RunError,
    `database-lost`, wherever the database cannot be reached, read or written."""

    @public
    def __init__(self, url: str | os.PathLike[str] | None = None) -> None:
        given = url if url is not None else os.environ.get(VARIABLE, "")
        if not os.fspath(given):
            raise dojoir.ArgumentError(
                f"no database is named: give its URL, such as sqlite:///tuned.db, or set {VARIABLE}", "no-database"
            )
        self.url = url_of(given)
        self.name = self.url.render_as_string(hide_password=True)
        self._engine = opened(self.url)
        self._numbers: dict[tuple[Any, ...], int] = {}
        with self.writing() as connection:
            prepare(connection, self.name)

    def __repr__(self) -> str:
        return f"<database {self.name}>"

    def __enter__(self) -> Database:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def close(self) -> None:
        """Lets the connections go. What was written stays."""
        self._engine.dispose()

    def forget(self) -> None:
        """Forgets the numbers of rows, where some may have gone."""
        self._numbers.clear()

    @contextlib.contextmanager
    def writing(self) -> Iterator[sql.Connection]:
        """A transaction that writes: all of it or nothing."""
        try:
            with (
                told(self.name),
                self._engine.connect().execution_options(writes=True) as connection,
                connection.begin(),
            ):
                yield connection
        except BaseException:  # of what was done in it, or of its commit: what was numbered in it is not there
            self.forget()
            raise

    @contextlib.contextmanager
    def reading(self) -> Iterator[sql.Connection]:
        """A transaction that reads, and sees what was there at its beginning."""
        with told(self.name), self._engine.connect() as connection, connection.begin():
            yield connection

    # -- writing -----------------------------------------------------------------------------------------
    @public
    def record(
        self,
        trace: dojoir.Trace,
        result: runtime.Evaluation,
        target: str = "llvm",
        *,
        sizes: Sizes | None = None,
        threads: int | None = None,
        protocol: str = PROTOCOL,
        run: str | None = None,
        context: Context | None = None,
    ) -> int:
        """Writes what came out of evaluating the last kernel of a trace, with every state on the way there, and
        gives the number of its row. `context` says where it was timed, if not here. Raises ArgumentError,
        `unsafe-trace`, for moves that no checker saw, and `stale-trace` where the result is of another kernel."""
        _check_safe(trace)
        if result.hash != trace.kernel.hash:
            raise dojoir.ArgumentError("the result is that of another kernel than the trace ends at", "stale-trace")
        at = here(target, sizes, threads, protocol, trace.start) if context is None else context
        chain = path_of(trace)
        for retry in (True, False):
            try:
                with self.writing() as connection:
                    kernel = self.kernel_row(connection, trace.start)
                    state = self.chain_rows(connection, kernel, chain, trace.choice)
                    number = self.context_row(connection, kernel, trace.start.hash, at)
                    run_row = self.run_row(connection, run) if run is not None else None
                    return self.result_rows(connection, state, number, result, run_row, time.time())
            except dojoir.RunError:
                if not (retry and self._is_there()):
                    raise
        raise AssertionError

    def _is_there(self) -> bool:
        """Whether the database answers: then another process may have pruned a row that was numbered here."""
        try:
            with self.reading() as connection:
                return connection.execute(sql.select(sql.literal(1))).scalar() == 1
        except dojoir.RunError:
            return False

    def kernel_row(self, connection: sql.Connection, kernel: dojoir.Kernel) -> int:
        """The number of a kernel, which is written if it is new."""
        values = {"name": kernel.name, "text": dojoir.to_text(kernel)}
        return self.numbered(connection, kernels, {"hash": kernel.hash}, values)

    def chain_rows(
        self, connection: sql.Connection, kernel: int, chain: list[tuple[str, str | None]], choice: str = ""
    ) -> int:
        """The number of the last of a chain of states: the hash of each, and the move to it; and the choice that
        made the last ones."""
        parent: int | None = None
        for length, (state, move) in enumerate(chain):
            own = choice if choice and length == len(chain) - 1 else None
            values = {"parent": parent, "move": move, "length": length, "choice": own}
            parent = self.numbered(connection, states, {"kernel": kernel, "hash": state}, values)
        assert parent is not None
        return parent

    def context_row(self, connection: sql.Connection, kernel: int, hash: str, at: Context) -> int:
        """The number of a context for a kernel."""
        facts = {"name": at.machine, "facts": at.facts}
        machine = self.numbered(connection, machines, {"digest": at.machine_digest}, facts)
        values = {
            "kernel": kernel, "machine": machine, "target": at.target, "sizes": at.sizes,
            "threads": at.threads, "protocol": at.protocol, "versions": at.versions,
        }  # fmt: skip
        return self.numbered(connection, contexts, {"digest": at.digest_for(hash)}, values)

    def result_rows(
        self,
        connection: sql.Connection,
        state: int,
        context: int,
        result: runtime.Evaluation,
        run: int | None,
        made: float,
        imported: bool = False,
    ) -> int:
        """Writes a result, and gives the number of its build. One without cases of its own that has the machine
        code of one with some was verified as that. `imported` says that it was not timed by who writes it."""
        about = {
            "state": state, "context": context, "digest": result.digest or "", "status": result.status,
            "reason": result.reason, "stages": json.dumps(dict(result.stages)), "run": run, "made": made,
            "imported": int(imported),
        }  # fmt: skip
        build = _inserted(connection, builds, about)
        cases = 0 if result.status not in ("ok", "cut") else result.cases or _cases(connection, about)
        if cases:
            connection.execute(verifications.insert().values(build=build, cases=cases))
        if result.status == "ok" and result.seconds is not None:
            low, high = result.interval or (result.seconds, result.seconds)
            values = {
                "build": build, "state": state, "context": context, "seconds": result.seconds, "low": low,
                "high": high, "samples": json.dumps(as_lists(result)),
            }  # fmt: skip
            connection.execute(measurements.insert().values(**values))
        return build

    def numbered(
        self, connection: sql.Connection, table: sql.Table, key: Mapping[str, Any], values: Mapping[str, Any]
    ) -> int:
        """The number of the row with a key, written with `values` if there is none. Another process may do the same
        at the same time."""
        name = (table.name, *key.values())
        if name in self._numbers:
            return self._numbers[name]
        wanted = sql.and_(*(table.c[column] == value for column, value in key.items()))
        found = connection.execute(sql.select(table.c.id).where(wanted)).scalar()
        if found is None:
            _insert_if_new(connection, table, {**key, **values})
            found = connection.execute(sql.select(table.c.id).where(wanted)).scalar_one()
        if len(self._numbers) >= _KEPT:
            self._numbers.clear()
        self._numbers[name] = int(found)
        return int(found)

    # -- runs --------------------------------------------------------------------------------------------
    @public
    def begin(self, kernel: dojoir.Kernel, settings: Mapping[str, Any], name: str | None = None) -> str:
        """Begins a run, with the settings that it is resumed by, and gives its name; a run of this name that is
        there goes on. Raises ArgumentError, `another-run`, where that is of another kernel."""
        name = name or uuid.uuid4().hex
        with self.writing() as connection:
            row = self.kernel_row(connection, kernel)
            found = connection.execute(sql.select(runs.c.kernel).where(runs.c.name == name)).scalar()
            if found is None:
                values = {"name": name, "kernel": row, "settings": json.dumps(dict(settings), sort_keys=True)}
                connection.execute(runs.insert().values(**values, begun=time.time()))
            elif found != row:
                raise dojoir.ArgumentError(f"the run {name} is of another kernel than {kernel.name}", "another-run")
        return name

    @public
    def end(self, run: str, stopped: str, best: dojoir.Trace | None = None) -> None:
        """Writes why a run has stopped, and what came out of it."""
        with self.writing() as connection:
            row = self.run_row(connection, run)
            state = None
            if best is not None:
                state = self.chain_rows(connection, self.kernel_row(connection, best.start), path_of(best))
            values = {"ended": time.time(), "stopped": stopped, "best": state}
            connection.execute(runs.update().where(runs.c.id == row).values(**values))

    @public
    def settings(self, run: str) -> dict[str, Any]:
        """The settings of a run. Raises ArgumentError, `unknown-run`."""
        with self.reading() as connection:
            found = connection.execute(sql.select(runs.c.settings).where(runs.c.name == run)).scalar()
        if found is None:
            raise dojoir.ArgumentError(f"the database has no run {run}", "unknown-run")
        with told(self.name):
            given: dict[str, Any] = json.loads(found)
        return given

    @public
    def outcome(self, run: str) -> dojoir.Trace | None:
        """The outcome of a run, each move checked again; None for one that has not ended, or that there is not.
        Raises as `trace`."""
        with self.reading() as connection:
            found = connection.execute(sql.select(runs.c.best).where(runs.c.name == run)).scalar()
        return None if found is None else self.trace(int(found))

    @public
    def results(self, run: str) -> list[State]:
        """The evaluations of a run, or of the one that began `last`, in their order: `results(run)[16]` is its
        state 17. Raises ArgumentError, `unknown-run`."""
        with self.reading() as connection:
            row = self.run_row(connection, run)
            chosen = evaluations().where(builds.c.run == row).order_by(builds.c.id)
            return [of_row(found) for found in connection.execute(chosen)]

    @public
    def drew(self, run: str, trace: dojoir.Trace, moves: Sequence[tuple[str, str]], listed: bool = False) -> None:
        """Writes what was drawn at the last kernel of a trace in a run. Each move as text with its verdict,
        `legal`, the code of a refusal, or `refused`; `listed` says that it is a full list of what is legal.
        Nothing is written twice. Raises as `record` does, and `unknown-run`."""
        _check_safe(trace)
        if moves:
            chain = path_of(trace)
            with self.writing() as connection:
                state = self.chain_rows(connection, self.kernel_row(connection, trace.start), chain)
                write_draws(connection, self.run_row(connection, run), state, trace.kernel, moves, listed)

    @public
    def drawn(self, run: str) -> dict[str, list[tuple[str, str]]]:
        """The moves that a run drew, by the hash of the state. Raises ArgumentError, `unknown-run`."""
        with self.reading() as connection:
            return read_draws(connection, self.run_row(connection, run))

    def run_row(self, connection: sql.Connection, run: str) -> int:
        """The number of a run by its name, or of the `last` that began. Raises ArgumentError, `unknown-run`."""
        found = connection.execute(sql.select(runs.c.id).where(runs.c.name == run)).scalar()
        if found is None and run == "last":
            found = connection.execute(
                sql.select(runs.c.id).order_by(runs.c.begun.desc(), runs.c.id.desc())
            ).scalar()
        if found is None:
            raise dojoir.ArgumentError(f"the database has no run {run}", "unknown-run")
        return int(found)

    # -- reading -----------------------------------------------------------------------------------------
    @public
    def known(
        self,
        kernel: dojoir.Kernel,
        hash: str,
        target: str = "llvm",
        *,
        sizes: Sizes | None = None,
        threads: int | None = None,
        protocol: str = PROTOCOL,
        digest: str | None = None,
    ) -> runtime.Evaluation | None:
        """The result of evaluating a state of a kernel, by its hash, on this machine at these sizes, the last
        time; with `digest`, only of the same machine code. None where nothing of it is known: what was read in
        from elsewhere is no result."""
        at = here(target, sizes, threads, protocol, kernel)
        chosen = (
            evaluations()
            .where(kernels.c.hash == kernel.hash, states.c.hash == hash)
            .where(contexts.c.digest == at.digest_for(kernel.hash), builds.c.imported == 0)
        )
        if digest is not None:
            chosen = chosen.where(builds.c.digest == digest)
        with self.reading() as connection:
            found = connection.execute(chosen.order_by(builds.c.id.desc()).limit(1)).first()
        return None if found is None else of_row(found).outcome

    @public
    def best(
        self,
        kernel: dojoir.Kernel,
        target: str = "llvm",
        sizes: Sizes | None = None,
        threads: int | None = None,
        *,
        protocol: str | None = None,
        than: dojoir.Kernel | None = None,
    ) -> dojoir.Trace | None:
        """The fastest verified trace of a kernel on this machine, target and number of threads, at these sizes,
        each move of it checked again; None where there is none. Times of several protocols are not compared. The
        one that was first used last is taken, unless one is named; what was only estimated does not count, nor what
        was read in from elsewhere and not timed here. With `than`, a state of the kernel, only what is known to be
        faster than that is given: it was timed here too."""
        other = None if than is None else than.hash
        with self.reading() as connection:
            rows = ranked(connection, kernel, target, sizes, threads, protocol=protocol, than=other)
        for row in rows:
            with contextlib.suppress(dojoir.DojoError):  # a move that this version no longer makes
                trace = self.trace(row)
                if trace.start == kernel:
                    return trace
        return None

    @public
    def faster(
        self,
        kernel: dojoir.Kernel,
        than: dojoir.Kernel,
        target: str = "llvm",
        sizes: Sizes | None = None,
        threads: int | None = None,
    ) -> dojoir.Trace | None:
        """`best`, where it is known to be faster than a state of the kernel, such as the one that `optimize` gives
        without a database."""
        return self.best(kernel, target, sizes, threads, than=than)

    @public
    def elsewhere(
        self,
        kernel: dojoir.Kernel,
        than: dojoir.Kernel,
        target: str = "llvm",
        sizes: Mapping[str, int] | None = None,
        threads: int | None = None,
    ) -> list[dojoir.Trace]:
        """Candidates for these sizes: the traces that `faster` gives at other sizes at which the kernel was timed
        here, those nearest to `sizes` first, each once."""
        with self.reading() as connection:
            chosen = sql.select(contexts.c.sizes).join(kernels, kernels.c.id == contexts.c.kernel).distinct()
            texts = connection.execute(chosen.where(kernels.c.hash == kernel.hash)).scalars().all()
        each = [one for one in map(json.loads, texts) if isinstance(one, dict) and one != sizes]

        def distance(one: Mapping[str, int]) -> float:
            return sum(abs(math.log(max(1, one[name]) / max(1, (sizes or {})[name]))) for name in one)

        known = [one for one in each if one.keys() == (sizes or {}).keys()]
        found = (self.faster(kernel, than, target, one, threads) for one in sorted(known, key=distance))
        return list({trace.kernel.hash: trace for trace in found if trace is not None}.values())

    @public
    def hints(self, kernel: dojoir.Kernel, target: str = "llvm", count: int = 4) -> list[dojoir.Trace]:
        """Traces of a kernel that were the fastest anywhere, at any sizes: where to start, and no results. Moves
        that are not legal any more, and what comes after them, are left out."""
        found: list[dojoir.Trace] = []
        for row in self.top(kernel.hash, count=count, target=target):
            with contextlib.suppress(dojoir.DojoError):
                trace = self.trace(row.number)
                if trace.start == kernel and all(trace.kernel != other.kernel for other in found):
                    found.append(trace)
        return found[:count]

    @public
    def relatives(self, kernel: dojoir.Kernel, target: str = "llvm", count: int = 4) -> list[dojoir.Trace]:
        """The fastest traces of other kernels that are built alike, the most alike first, one for each: their moves
        may do something for this one. Of traces that are not legal any more, none."""
        with self.reading() as connection:
            others = connection.execute(sql.select(kernels.c.hash, kernels.c.text)).all()
        found: list[dojoir.Trace] = []
        for other in most_alike(kernel, {row.hash: row.text for row in others}):
            for row in self.top(other, count=1, target=target)[: count - len(found)]:
                with contextlib.suppress(dojoir.DojoError):
                    found.append(self.trace(row.number))
        return found[:count]

    @public
    def trace(self, state: int) -> dojoir.Trace:
        """The trace that leads to a state, each move checked again. Raises ArgumentError, `unknown-state`, and what
        `Trace.apply` raises where a move is no longer legal."""
        with self.reading() as connection:
            text, moves, wanted = way_to(connection, state)
        trace = dojoir.Trace(dojoir.parse(text))
        for move in moves:
            trace.apply(move)
        if trace.kernel.hash != wanted:
            raise dojoir.ArgumentError("the moves of this state now give another kernel", "stale-trace")
        return trace

    @public
    def top(self, kernel: str | None = None, *, count: int = 10, target: str | None = None) -> list[State]:
        """The fastest states of a kernel, by its name or hash (of all kernels by default). The first `count` of
        each context, contexts in the order of their best, so that only what may be compared stands together."""
        with self.reading() as connection:
            return fastest(connection, kernel, count, target)

    @public
    def stats(self) -> dict[str, int]:
        """How many rows each table has."""
        tables = (machines, kernels, states, contexts, runs, builds, verifications, measurements, draws)
        with self.reading() as connection:
            return {
                table.name: connection.execute(sql.select(sql.func.count()).select_from(table)).scalar_one()
                for table in tables
            }


def _check_safe(trace: dojoir.Trace) -> None:
    if not trace.is_safe:
        raise dojoir.ArgumentError(f"an unsafe trace is not recorded: {trace.unchecked}", "unsafe-trace")


def _cases(connection: sql.Connection, build: Mapping[str, Any]) -> int:
    """In how many cases the machine code of a build was right, as another build of the kernel; 0 where no such one
    was verified."""
    if not build["digest"]:
        return 0
    mine = sql.select(contexts.c.kernel).where(contexts.c.id == build["context"]).scalar_subquery()
    chosen = (
        sql.select(sql.func.max(verifications.c.cases))
        .join(builds, builds.c.id == verifications.c.build)
        .join(contexts, contexts.c.id == builds.c.context)
        .where(contexts.c.kernel == mine, builds.c.digest == build["digest"])
    )
    return int(connection.execute(chosen).scalar() or 0)


def _inserted(connection: sql.Connection, table: sql.Table, values: Mapping[str, Any]) -> int:
    key = connection.execute(table.insert().values(**values)).inserted_primary_key
    assert key is not None
    return int(key[0])


def _insert_if_new(connection: sql.Connection, table: sql.Table, values: Mapping[str, Any]) -> None:
    """Inserts a row unless one with its key is there, or is just being written by another process."""
    if connection.dialect.name == "sqlite":
        from sqlalchemy.dialects.sqlite import insert as of_sqlite

        connection.execute(of_sqlite(table).values(**values).on_conflict_do_nothing())
    else:
        from sqlalchemy.dialects.postgresql import insert as of_postgresql

        connection.execute(of_postgresql(table).values(**values).on_conflict_do_nothing())
