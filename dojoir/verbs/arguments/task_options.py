"""The options of the verbs on tasks and rollouts."""

from __future__ import annotations

import argparse
from typing import Any

from dojoir.cli.values import positive, seconds, seed
from dojoir.verbs.arguments import model_options
from dojoir.verbs.evidence import Verb

KINDS = ("optimise", "diagnose", "debug", "reformulate")

NAMES = "train, dev, held-out, a kind, all, the name of a task, a file of one or a folder of them"


def add(verbs: Any, verb: Verb) -> None:
    """Adds the verbs."""
    made = verb(verbs, "tasks", "the tasks that there are, or what one asks", "tasks:tasks")
    made.add_argument("tasks", metavar="TASK", nargs="*", help=f"{NAMES} (all)")
    made.add_argument("--kind", choices=KINDS, help="only those of a kind")
    _rollout(verb(verbs, "rollout", "an agent plays tasks, and gates judge what it answers", "tasks:rollout"))


def _rollout(made: argparse.ArgumentParser) -> None:
    add = made.add_argument
    add(
        "agent", metavar="AGENT",
        help="a strategy (random, beam, ...), maxq:FILE, a language model (llm:openai/MODEL, llm:anthropic/MODEL, "
        "llm:random), or a Python file: FILE.py, FILE.py:NAME",
    )  # fmt: skip
    add("tasks", metavar="TASK", nargs="+", help=NAMES)
    add("--kind", choices=KINDS, help="only those of a kind")
    add(
        "-o",
        "--output",
        metavar="DIR",
        default="rollout",
        help="the folder; one that was begun is continued (rollout)",
    )
    add(
        "--timer", choices=("measure", "static"), default="measure",
        help="measure on this machine, or estimate from the text alone: no gate that times is asked (measure)",
    )  # fmt: skip
    add("--seed", type=seed, default=0, metavar="INT", help="the seed of all that is random (0)")
    add("--states", type=positive, metavar="INT", help="of each task, in place of its own budget")
    add("--seconds", type=seconds, metavar="S", help="of each task, in place of its own budget")
    add("--last", type=seconds, default=2.0, metavar="S", help="of the last timing of an answer (2)")
    add("--list-moves", action="store_true", help="record all legal moves of each state; takes long")
    model_options.add(made, with_chat=False)
