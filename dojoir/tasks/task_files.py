"""Reading tasks: files of TOML, held to what they may say, and the tasks that a name stands for."""

from __future__ import annotations

import tomllib
from collections.abc import Iterator, Sequence
from difflib import get_close_matches
from functools import cache
from importlib.resources import files
from pathlib import Path
from typing import Any

import dojoir
from dojoir.evidence.bundle_reading import read_text
from dojoir.records.plain_data import from_data
from dojoir.support.public import public
from dojoir.tasks.task import KINDS, SPLITS, Task, wrong

LARGEST = 1 << 20
"""How many bytes a file of a task may have."""


@public
def read_task(path: str | Path) -> Task:
    """The task in a file. Raises ArgumentError, `cannot-read`, `not-text`, or `bad-task` with the place and what
    should stand there."""
    text = read_text(Path(path), LARGEST)
    return task_of(text, str(path))


@public
def task_of(text: str, name: str = "<task>") -> Task:
    """The task in a text of TOML. Raises ArgumentError, `bad-task`."""
    try:
        data = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise dojoir.ArgumentError(f"{name} is not TOML: {error}", "bad-task") from None
    given = data.get("given")
    if isinstance(given, dict) and isinstance(given.get("moves"), str):  # a pipeline, a move a line
        lines = (line.partition("#")[0].strip() for line in given["moves"].splitlines())
        given["moves"] = [line for line in lines if line]
    try:
        task = from_data(Task, data, name)
        found = wrong(task)
    except dojoir.DojoError as error:
        place = "" if error.diagnostic.message.startswith(name) else f"{name}: "
        raise dojoir.ArgumentError(f"{place}{error.diagnostic.message}", "bad-task") from None
    if found is not None:
        raise dojoir.ArgumentError(f"{name}.{found[0]}: {found[1]}", "bad-task")
    return task


@cache
def own_tasks() -> tuple[Task, ...]:
    """The tasks that come with dojoir, by name."""
    folder = files("dojoir.tasks")
    found = [
        task_of(one.read_text(encoding="utf-8"), one.name)
        for one in sorted(folder.iterdir(), key=lambda one: one.name)
        if one.name.endswith(".toml")
    ]
    return tuple(sorted(found, key=lambda task: task.name))


@public
def find_tasks(names: Sequence[str], kind: str | None = None) -> tuple[Task, ...]:
    """The tasks that some names stand for, each once. A split (`train`, `dev`, `held-out`), a kind, `all`, the name
    of a task, or the path of a file or a folder of them; of a kind only, where one is given. Raises ArgumentError,
    `unknown-task` for a name that stands for none, and as `read_task` does."""
    found: dict[str, Task] = {}
    for name in names:
        for task in _named(name):
            before = found.setdefault(task.name, task)
            if before != task:
                raise dojoir.ArgumentError(f"two tasks are called {task.name}: rename one", "bad-task")
    kept = tuple(task for task in found.values() if kind in (None, task.kind))
    if not kept:
        raise dojoir.ArgumentError(
            f"no task is {' or '.join(names)}{f' and of kind {kind}' if kind else ''}: dojoir tasks lists them",
            "unknown-task",
        )
    return kept


def _named(name: str) -> Iterator[Task]:
    path = Path(name)
    if name.endswith(".toml"):
        yield read_task(path)
    elif name in SPLITS or name in KINDS or name == "all":
        yield from (task for task in own_tasks() if name in ("all", task.split, task.kind))
    elif any(task.name == name for task in own_tasks()):
        yield from (task for task in own_tasks() if task.name == name)
    elif name and path.is_dir():
        each = sorted(path.glob("*.toml"))
        if not each:
            raise dojoir.ArgumentError(f"the folder {name} has no tasks: no file there is *.toml", "unknown-task")
        yield from map(read_task, each)
    else:
        known: list[Any] = [task.name for task in own_tasks()]
        near = get_close_matches(name, [*known, *SPLITS, *KINDS], 3)
        hint = f"; did you mean {' or '.join(near)}?" if near else f"; there are {', '.join((*SPLITS, *KINDS))}"
        raise dojoir.ArgumentError(f"there is no task {name or repr(name)}{hint}", "unknown-task")
