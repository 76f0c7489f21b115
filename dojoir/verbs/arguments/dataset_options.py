"""The options of `dojoir dataset`."""

from __future__ import annotations

import argparse
from typing import Any

from dojoir.cli.values import positive, seed
from dojoir.verbs.arguments.values import factor
from dojoir.verbs.evidence import Verb

SPLITS = ("train", "dev", "held-out")
LABELS = ("faster", "slower", "same", "unsure", "failed", "not-evaluated")


def add(verbs: Any, verb: Verb) -> None:
    """Adds the verb."""
    about = "data sets of what was played"
    made = verbs.add_parser("dataset", help=about, description=about)
    actions = made.add_subparsers(title="actions", metavar="ACTION", required=True)
    _export(verb(actions, "export", "steps and episodes of runs, with splits", "dataset:export"))
    for name, what in (
        ("sft", "questions and answers as chats"),
        ("pairs", "two moves of a state, the faster first"),
    ):
        one = verb(actions, name, f"{what}, from a data set", f"dataset:{name}")
        one.add_argument("folder", metavar="DIR", help="a data set that export wrote")
        one.add_argument(
            "--split", dest="splits", action="append", choices=SPLITS, default=None,
            help="of which split; may be repeated (train)",
        )  # fmt: skip
        one.add_argument("-o", "--output", required=True, metavar="FILE", help="write the lines there")
    check = verb(actions, "check", "proves a sample of the steps again, from their starts", "dataset:check")
    check.add_argument("folder", metavar="DIR", help="a data set")
    check.add_argument("--sample", type=positive, default=500, metavar="INT", help="how many steps (500)")
    check.add_argument("--seed", type=seed, default=0, metavar="INT", help="the seed of the sample (0)")


def _export(made: argparse.ArgumentParser) -> None:
    add = made.add_argument
    add(
        "--runs", dest="places", nargs="+", required=True, metavar="DIR",
        help="folders of runs, of rollouts, or single runs",
    )  # fmt: skip
    add("-o", "--output", required=True, metavar="DIR", help="the folder of the data set")
    for name, words, what in (("kernel", None, "kernels"), ("target", None, "targets"), ("split", SPLITS, "splits"),
                              ("label", LABELS, "labels")):  # fmt: skip
        add(
            f"--{name}", dest=what, action="append", default=[], choices=words,
            metavar=None if words else "NAME", help=f"only steps of this {name}; may be repeated",
        )  # fmt: skip
    add("--protocol", choices=("static", "measured"), default="", help="only what was estimated, or measured")
    add("--least", type=factor, default=0.0, metavar="X", help="only episodes that came to X times the start")
    add("--cards", action="store_true", help="profile each state that was timed, here and now; takes long")
