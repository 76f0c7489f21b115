"""`dojoir tasks` and `dojoir rollout`: what there is to solve, and what an agent solves of it."""

from __future__ import annotations

import argparse
from pathlib import Path

from dojoir.verbs import models
from dojoir.verbs.kernel_options import answered, told


def tasks(options: argparse.Namespace) -> int:
    """A line for each task; of a single one all that it asks."""
    from dojoir.tasks import find_tasks, question, readiness

    found = find_tasks(options.tasks or ["all"], options.kind)
    if len(found) == 1 and options.tasks:
        (task,) = found
        asked = question(task)
        goal, budget, given = task.goal, task.budget, task.given
        least = f", {goal.least:g}x beside {', '.join(goal.beside)}" if "gain" in goal.gates else ""
        sizes = ", ".join(f"{name}={value}" for name, value in given.sizes.items())
        lines = [f"# {task.name}: {task.kind} of {task.family}, {task.split}", f"# {task.about}",
                 f"# asked: {asked['asked']}", f"# decided by: {', '.join(goal.gates)}{least}",
                 f"# at {sizes}; at most {budget.states or 'any'} states, {budget.seconds or 'any'} seconds",
                 asked["given"]["text"].rstrip()]  # fmt: skip
        for use, broken in readiness(task).items():
            lines.append(f"# {use}" if not broken else f"# not {use}: {'; '.join(broken)} does not hold")
        lines += [f"# {number}: {move}" for number, move in enumerate(given.moves)]
    else:
        lines = [f"{task.name:<34}{task.split:<10}{task.about}" for task in found]
    data = {"tasks": [{**question(task), "not_ready": readiness(task)} for task in found]} if options.json else {}
    return answered(options, data, "".join(f"{line}\n" for line in lines))


def rollout(options: argparse.Namespace) -> int:
    """Lets an agent play; status 0 whatever it solves. Raises DojoError."""
    from dojoir.records.plain_data import to_data
    from dojoir.tasks import agent_named, find_tasks, summary, table
    from dojoir.tasks import rollout as played

    if options.agent.endswith(".toml"):
        options = _from_file(options)
    elif not options.tasks:
        options.refuse("the following arguments are required: TASK, or a file of settings FILE.toml alone")
    found = [task.with_limits(options.states, options.seconds) for task in find_tasks(options.tasks, options.kind)]
    agent = agent_named(options.agent, options.seed, models.options_of(options, options.agent))

    report = played(
        agent, options.agent, found, Path(options.output), timer=options.timer, seed=options.seed,
        seconds=options.last, list_moves=options.list_moves, models=models.budget_of(options),
        say=told(options),
    )  # fmt: skip
    data = {"rollout": {**to_data(report), "summary": summary(report)}}
    return answered(options, data, table(report))


def _from_file(options: argparse.Namespace) -> argparse.Namespace:
    """The options that a file of settings and the command line say; the command line counts where both do. Raises
    ArgumentError."""
    from dojoir.tasks import read_playing

    given = read_playing(options.agent)
    said = {name: value for name, value in vars(given).items() if value is not None and name != "agent"}
    options.reader.set_defaults(**{**said, "tasks": list(given.tasks)})
    found: argparse.Namespace = options.reader.parse_args(options.words[1:])
    found.agent, found.words = given.agent, options.words
    return found
