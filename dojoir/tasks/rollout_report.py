"""The report of a rollout: a row for each task, and the table of them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

from dojoir.evidence.bundle import Gained
from dojoir.evidence.figures import geometric
from dojoir.support.public import public
from dojoir.tasks.judging import Judgement

VERSION = 1

RowStatus = Literal["solved", "not-solved", "failed"]


@dataclass(frozen=True)
class TaskCost:
    """The cost of a task. Seconds by the clock that the agent played and that the gates took, states that were
    evaluated, moves that were drawn, builds and measurements. Then how many states ended with each status, and
    questions to a language model, tokens that it read and wrote, and their price. `outside` are the seconds of
    processors that the processes of an agent of a file spent, beside what is counted."""

    seconds: float
    judged: float
    states: int
    moves: int
    builds: int
    measurements: int
    statuses: Mapping[str, int]
    calls: int = 0
    tokens: int = 0
    money: float = 0.0
    outside: float = 0.0


@dataclass(frozen=True, kw_only=True)
class Row(Judgement):
    """The judgement on a task: `failed` where the agent or the machine failed, with the reason. `digest` is that of
    the task, so that one that was changed is played again. `run` is the name of the bundle, whose states are those
    of the task: the one with the hash `result` is its answer."""

    task: str
    kind: str
    split: str
    family: str
    digest: str
    status: RowStatus
    reason: str
    answer: Mapping[str, Any]
    cost: TaskCost
    run: str

    @property
    def gain(self) -> Gained | None:
        """The smallest of what it gained."""
        return min(self.gained, key=lambda one: one.median, default=None)


@dataclass(frozen=True)
class Rollout:
    """The report of a rollout. `settings` are what it was asked for; what goes on is asked for the same."""

    version: int
    agent: str
    timer: str
    seed: int
    settings: Mapping[str, Any]
    machine: str
    versions: Mapping[str, str]
    rows: tuple[Row, ...]

    @property
    def solved(self) -> int:
        """How many tasks are solved."""
        return sum(row.status == "solved" for row in self.rows)


@public
def summary(found: Rollout) -> dict[str, Any]:
    """The figures over all tasks, and over each kind: solved, the geometric mean of the gains of those that ask
    for a kernel, seconds, states."""

    def of(rows: list[Row]) -> dict[str, Any]:
        of_kernels = [row for row in rows if row.kind in ("optimise", "reformulate")]
        gains = [row.gain.median for row in of_kernels if row.gain is not None]
        shares = [row.share for row in of_kernels if row.share is not None]
        return {
            "tasks": len(rows),
            "solved": sum(row.status == "solved" for row in rows),
            "failed": sum(row.status == "failed" for row in rows),
            "gain": geometric(gains),
            "share": sum(shares) / len(shares) if shares else None,
            **{name: sum(getattr(row.cost, name) for row in rows)
               for name in ("seconds", "states", "calls", "tokens", "money")},
        }  # fmt: skip

    kinds = dict.fromkeys(row.kind for row in found.rows)
    by_kind = {kind: of([row for row in found.rows if row.kind == kind]) for kind in kinds}
    return {"all": of([*found.rows]), **by_kind}


@public
def table(found: Rollout) -> str:
    """The rows as a table of Markdown, with the sums below."""
    head = ["task", "status", "gain", "share of the ceiling", "seconds", "states", "CPU s outside", "why not"]
    rows = [head, ["---"] * len(head), *(_cells(row) for row in found.rows)]
    lines = [f"| {' | '.join(cells)} |" for cells in rows]
    title = (
        f"{found.agent}: {found.solved} of {len(found.rows)} tasks solved, timer {found.timer}, seed {found.seed}"
    )
    lines = [title, "", *lines, ""]
    for kind, one in summary(found).items():
        gain = "" if one["gain"] is None else f", {one['gain']:.3g}x in the geometric mean"
        asked = f", {one['calls']} questions, {one['tokens']} tokens" if one["calls"] else ""
        lines.append(f"- {kind}: {one['solved']} of {one['tasks']} solved{gain}, {one['seconds']:.0f} s, "
                     f"{one['states']} states{asked}")  # fmt: skip
    return "\n".join(lines) + "\n"


def _cells(row: Row) -> list[str]:
    gain = row.gain
    shown = "" if gain is None else f"{gain} beside {gain.beside}"
    share = "" if row.share is None else f"{row.share:.0%} of {row.of}"
    wrong = next((f"{one.name}: {one.reason}" for one in row.gates if one.status != "pass"), "")
    reason = (row.reason or wrong).replace("|", "/").replace("\n", " ")
    reason = reason if len(reason) <= 100 else f"{reason[:97]}..."
    cost = row.cost
    figures = [f"{cost.seconds:.1f}", str(cost.states), f"{cost.outside:.1f}"]
    return [row.task, row.status, shown, share, *figures, reason]
