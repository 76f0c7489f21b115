"""Tasks for agents, and rollouts: what an agent solves of them, as gates decide it.

A task is a file of TOML (`dojoir/tasks/*.toml`): a kernel to make faster, a slow trace to diagnose, a pipeline
to mend, a text to write anew. `docs/tasks.md` says what stands in one, and which texts may be trained on."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dojoir.support.lazily import lazily

if TYPE_CHECKING:
    from dojoir.tasks.desk import Desk
    from dojoir.tasks.judging import JudgedAnswer, Judgement, judge
    from dojoir.tasks.naming import agent_named
    from dojoir.tasks.playing import rollout
    from dojoir.tasks.readiness import readiness
    from dojoir.tasks.rollout_report import Rollout, Row, TaskCost, summary, table
    from dojoir.tasks.settings import Playing, read_playing
    from dojoir.tasks.task import Answer, Given, Goal, Task, TaskLimits, question
    from dojoir.tasks.task_files import find_tasks, own_tasks, read_task, task_of

__all__ = [
    "Answer", "Desk", "Given", "Goal", "JudgedAnswer", "Judgement", "Playing", "Rollout", "Row", "Task",
    "TaskCost", "TaskLimits", "agent_named", "find_tasks", "judge", "own_tasks", "question", "read_playing",
    "read_task", "readiness", "rollout", "summary", "table", "task_of",
]  # fmt: skip
__getattr__, __dir__ = lazily(
    __name__, Case="dojoir.tasks.JudgedAnswer", Cost="dojoir.tasks.TaskCost", Limits="dojoir.tasks.TaskLimits",
)  # fmt: skip
