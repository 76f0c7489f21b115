"""A rollout: an agent plays tasks, the gates judge, and a report by task is written after each of them.

A rollout that was stopped goes on: what is in the report is not played again, and the states of a task that was
under way are in its database."""

from __future__ import annotations

import contextlib
import hashlib
import json
import secrets
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from shutil import rmtree
from typing import Any, Literal

import dojoir
from dojoir import runtime
from dojoir.evidence.bundle import BENCH, GATES
from dojoir.evidence.bundle_reading import read, read_text
from dojoir.evidence.writing import RUNS, UNFINISHED, Writer, begun_or_resumed, store_of, versions
from dojoir.records.plain_data import json_of, of_version, to_data, to_text
from dojoir.search.memory import check_same
from dojoir.support.files import write_file
from dojoir.support.public import public
from dojoir.tasks.agents import Agent, answer_of
from dojoir.tasks.desk import NO_LIMIT, Desk
from dojoir.tasks.judging import SECONDS, JudgedAnswer, Judgement, judge
from dojoir.tasks.rollout_report import VERSION, Rollout, Row, TaskCost, table
from dojoir.tasks.task import EVIDENCE_GATES, Answer, Task

REPORT, TABLE, STORES = "rollout.json", "rollout.md", "stores"

Say = Callable[[str], object]


def digest_of(task: Task) -> str:
    """The same for the same task, as it was before tasks could leave stored schedules out."""
    data = to_data(task)
    if task.given.stored:
        del data["given"]["stored"]
    return hashlib.sha256(json.dumps(data, sort_keys=True).encode()).hexdigest()[:16]


@public
def rollout(
    agent: Agent,
    name: str,
    tasks: Sequence[Task],
    folder: str | Path,
    *,
    timer: Literal["measure", "static"] = "measure",
    seed: int = 0,
    seconds: float = SECONDS,
    list_moves: bool = False,
    models: dojoir.Budget = NO_LIMIT,
    say: Say = lambda _: None,
) -> Rollout:
    """Lets an agent play tasks, and writes to `folder` the report `rollout.json`, the table `rollout.md`, a
    bundle of each task in `runs` and its database in `stores`. `name` is how the agent is called; `seconds` are
    those of a last timing; `models` has the calls, tokens and money that a language model may cost for each task.
    What fails is a row, and stops no other task. Raises ArgumentError:
    `another-rollout` where the folder has the report of another agent, seed or timer, or of what stood in the file
    of the agent before it was changed; `not-empty`,
    `cannot-write`, `bad-record`."""
    settings = {"agent": name, "timer": timer, "seed": seed, "seconds": seconds, "list_moves": list_moves}
    if getattr(agent, "digest", ""):
        settings["digest"] = getattr(agent, "digest")  # noqa: B009
    if models != NO_LIMIT:
        settings["models"] = {name: getattr(models, name) for name in ("calls", "tokens", "money")}
    folder = Path(folder)
    known = _rows_there(folder, settings)
    with contextlib.suppress(OSError):
        folder.mkdir(parents=True, exist_ok=True)
    rows: dict[str, Row] = {row.task: row for row in known}
    found = Rollout(VERSION, name, timer, seed, settings, runtime.processor(), versions(), known)
    _save(folder, found)
    for number, task in enumerate(tasks, 1):
        before = rows.get(task.name)
        where = f"{number} of {len(tasks)} {task.name}"
        if before is not None and before.digest == digest_of(task) and before.status != "failed":
            name = _run_of(task)
            other = _unfounded(before, folder / RUNS / name)
            if not other:
                say(f"{where}: {before.status} before")
                continue
            say(f"{where}: {before.status} in the report, but {other}: it is played again")
            rmtree(folder / RUNS / name, ignore_errors=True)
        rows[task.name] = row = _played(agent, task, folder, settings, models)
        found = replace(found, rows=tuple(rows.values()))
        _save(folder, found)
        gain = "" if row.gain is None else f", {row.gain.median:.3g}x beside {row.gain.beside}"
        say(f"{where}: {row.status}{gain}{f' ({row.reason})' if row.reason else ''}")
    return found


def _run_of(task: Task) -> str:
    """The name of the bundle of a task."""
    return f"{task.name}-{digest_of(task)}"


def _played(agent: Agent, task: Task, folder: Path, settings: Mapping[str, Any], models: dojoir.Budget) -> Row:
    """Plays one task, in a bundle of its own. Raises KeyboardInterrupt where it was stopped."""
    runs, name = folder / RUNS, _run_of(task)
    with store_of(folder / STORES, str(folder / STORES / f"{name}.db")) as database:
        about = {
            **settings, "task": task.name, "kind": task.kind, "split": task.split, "family": task.family,
            "states": task.budget.states, "play_seconds": task.budget.seconds,
        }  # fmt: skip
        around = begun_or_resumed(
            runs, name, task.kernel, database, target=task.given.target, sizes=[task.given.sizes],
            threads=task.given.threads, settings=about,
        )  # fmt: skip
        with around as writer:
            database.begin(task.kernel, about, name)
            desk = Desk(
                task, database=database, run=name, timer=settings["timer"], seed=settings["seed"],
                note=writer.states, list_moves=settings["list_moves"], folder=writer.folder, models=models,
            )  # fmt: skip
            row = _judged(agent, desk, settings, writer)
    return row


def _unfounded(row: Row, folder: Path) -> str:
    """Why a row does not follow from the bundle of its task; "" where it does."""
    if row.run != folder.name:
        return "it names another bundle than that of its task"
    try:
        run = read(folder).told
    except dojoir.DojoError as error:
        return error.diagnostic.message
    if run.stopped != row.status:
        return f"its bundle says {run.stopped or run.status}"
    noted = (note.split(":")[:2] for note in run.notes)
    known = {one.name: one.status for one in run.gates} | {name: rest[0].strip() for name, *rest in noted if rest}
    for gate in row.gates:
        if known.get(gate.name, gate.status) != gate.status:
            return f"its bundle says {known[gate.name]} of {gate.name}"
    if run.result is not None and row.result != run.result:
        return "its bundle has another result"
    return ""


def _judged(agent: Agent, desk: Desk, settings: Mapping[str, Any], writer: Writer) -> Row:
    task, begin = desk.task, time.monotonic()
    answer, reason = Answer(), ""
    try:
        answer = answer_of(agent.play(desk), task.kernel)
    except KeyboardInterrupt:
        raise
    except dojoir.DojoError as error:
        reason = error.diagnostic.message
    except Exception as error:  # of a file of the user's
        reason = f"the agent failed: {type(error).__name__}: {error}"
    finally:
        desk.close()
    played = time.monotonic() - begin
    found = Judgement(())
    case = JudgedAnswer(task, answer, settings["timer"], secrets.randbelow(1 << 31), settings["seconds"])
    if not reason:
        found = judge(case)
    judged = time.monotonic() - begin - played
    cost = TaskCost(played, judged, statuses=dict(desk.statuses), outside=desk.outside, **desk.ledger.used())
    status: Any = "failed" if reason else "solved" if found.solved else "not-solved"
    _left(writer, case, found, status, reason)
    return Row(
        **vars(found), task=task.name, kind=task.kind, split=task.split, family=task.family, digest=digest_of(task),
        status=status, reason=reason, answer=to_data(answer), cost=cost, run=writer.run.name,
    )  # fmt: skip


def _left(writer: Writer, case: JudgedAnswer, found: Judgement, status: str, reason: str) -> None:
    """Writes the bundle of a task: the trace, where it is one of the given kernel, the gates, what was
    gained."""
    trace = case.trace
    if trace is not None and trace.start == case.task.kernel and trace.is_safe:
        writer.answer(trace)
        for name, evidence in ((GATES, case.evidence), (BENCH, case.bench)):
            if evidence is not None and evidence.hash == writer.run.result:
                writer.data(name, evidence)
    writer.note(
        notes=tuple(f"{one.name}: {one.status}{': ' if one.reason else ''}{one.reason}"
                    for one in found.gates if one.name not in EVIDENCE_GATES),
    )  # fmt: skip
    writer.machine()
    writer.end("failed" if status == "failed" else "done", reason or status)


# -- the folder --------------------------------------------------------------------------------------------------
def _rows_there(folder: Path, settings: Mapping[str, Any]) -> tuple[Row, ...]:
    """The rows of the report that is there."""
    path = folder / REPORT
    if not path.exists():
        if folder.is_dir() and any(not one.name.startswith(UNFINISHED) for one in folder.iterdir()):
            raise dojoir.ArgumentError(f"{folder} holds something else: name another folder", "not-empty")
        return ()
    found = of_version(Rollout, json_of(read_text(path), str(path)), str(path), VERSION)
    code = "another-rollout"
    check_same(f"the rollout in {folder}", found.settings, settings, code)
    return found.rows


def _save(folder: Path, found: Rollout) -> None:
    write_file(folder / REPORT, to_text(found))
    write_file(folder / TABLE, table(found))
