"""What is no task, run, step or folder is told as that, by every public name of tasks and data sets."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import dojoir
from dojoir import data, tasks

pytest.importorskip("sqlalchemy", reason="needs the extra agents")


def rollout(folder: Path, **given: Any) -> Any:
    about = {"agent": tasks.agent_named("random"), "name": "random", "tasks": tasks.find_tasks(["debug-gemv"]),
             "folder": folder, "timer": "static"} | given  # fmt: skip
    return tasks.rollout(**about)


CALLS: dict[str, Callable[[Any, Path], Any]] = {
    "agent_named": lambda value, _: tasks.agent_named(value),
    "find_tasks": lambda value, _: tasks.find_tasks(value),
    "read_task": lambda value, _: tasks.read_task(value),
    "task_of": lambda value, _: tasks.task_of(value),
    "judge": lambda value, _: tasks.judge(value),
    "question": lambda value, _: tasks.question(value),
    "summary": lambda value, _: tasks.summary(value),
    "table": lambda value, _: tasks.table(value),
    "rollout agent": lambda value, folder: rollout(folder, agent=value),
    "rollout tasks": lambda value, folder: rollout(folder, tasks=value),
    "rollout folder": lambda value, _: rollout(value),
    "rollout timer": lambda value, folder: rollout(folder, timer=value),
    "rollout seconds": lambda value, folder: rollout(folder, seconds=[value]),
    "export": lambda value, folder: data.export(value, folder),
    "export to": lambda value, _: data.export(["runs"], value),
    "export filters": lambda value, folder: data.export(["runs"], folder, filters=value or 3),
    "filters": lambda value, _: data.Filters(kernels=value),
    "labels": lambda value, _: data.Filters(labels=(value,)),
    "least": lambda value, _: data.Filters(least=[value]),  # type: ignore[arg-type]
    "protocol": lambda value, _: data.Filters(protocol=value),
    "check": lambda value, _: data.check(value),
    "check sample": lambda value, folder: data.check(folder, value),
    "read_about": lambda value, _: data.read_about(value),
    "read_steps": lambda value, _: [*data.read_steps(value)],
    "read_episodes": lambda value, _: [*data.read_episodes(value)],
    "split_of": lambda value, _: data.split_of(value),
    "chats": lambda value, _: [*data.chats(value)],
    "pairs": lambda value, _: [*data.pairs([value])],
}


@pytest.mark.parametrize("value", [3, None, {"x": 3}], ids=repr)
@pytest.mark.parametrize("name", [*CALLS])
def test_what_does_not_fit_is_an_argument_error(name: str, value: Any, tmp_path: Path) -> None:
    with pytest.raises(dojoir.ArgumentError):
        CALLS[name](value, tmp_path / "new")
    assert not (tmp_path / "new").exists()


def test_only_a_game_is_recorded(tmp_path: Path) -> None:
    gymnasium = pytest.importorskip("gymnasium", reason="needs the extra agents")
    from dojoir.game import KernelEnv

    for env in (3, None, gymnasium.make("CartPole-v1")):
        with pytest.raises(dojoir.ArgumentError, match="KernelEnv"):
            data.Recorded(env, tmp_path / "runs")
    game = KernelEnv("dot", sizes={"N": 64}, timer="static", actions="candidates", capacity=16)
    for given in ({"runs": 3}, {"runs": tmp_path / "runs", "name": 3}):
        with pytest.raises(dojoir.ArgumentError):
            data.Recorded(game, **given)
    recorded = data.Recorded(game, tmp_path / "runs")
    with pytest.raises(dojoir.ArgumentError, match="no-episode"):
        recorded.step(0)
    recorded.close()
    recorded.close()
