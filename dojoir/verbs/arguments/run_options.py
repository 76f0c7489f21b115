"""The options of the verbs that read runs, prove them again, and make what is read."""

from __future__ import annotations

import argparse
from collections.abc import Callable
from typing import Any

from dojoir.cli.values import positive, seconds, seed
from dojoir.verbs.arguments.values import shape, words
from dojoir.verbs.subject import RUNS

Verb = Callable[[Any, str, str, str], argparse.ArgumentParser]
"""Adds a verb: its name, what it is for, and what does it as `module:function`."""

SECTIONS = ("text", "moves", "diff", "source", "asm", "bench", "gates", "states", "lineage")


def runs(made: argparse.ArgumentParser, about: str) -> None:
    """Where a bundle is left, if one is."""
    made.add_argument(
        "--runs", dest="runs_folder", nargs="?", const=RUNS, metavar="DIR", help=f"{about} ({RUNS})"
    )  # fmt: skip


def _folder(made: argparse.ArgumentParser) -> None:
    made.add_argument(
        "--runs", dest="runs_folder", default=RUNS, metavar="DIR", help=f"the folder of the runs ({RUNS})"
    )


def _add_run_options(made: argparse.ArgumentParser, *names: str) -> None:
    for name in names or ("name",):
        made.add_argument(name, metavar="RUN", help="its folder, its name, a part of that, or last")
    _folder(made)


def add(verbs: Any, verb: Verb) -> None:
    """Adds the verbs."""
    made = verb(verbs, "runs", "the runs that there are, the latest first", "runs:runs")
    _folder(made)
    made.add_argument("--kernel", metavar="NAME", help="only those of a kernel")
    made.add_argument("--target", metavar="TARGET", help="only those for a target")
    made.add_argument(
        "--status", choices=("running", "done", "failed", "interrupted"), help="only those that ended so"
    )
    made = verb(verbs, "show", "a run, or a part of it", "runs:show")
    _add_run_options(made)
    made.add_argument("--section", choices=SECTIONS, help="what is shown of it (its record)")
    _add_run_options(
        verb(verbs, "compare", "two runs: relation, correctness, times, moves", "runs:compare"), "first", "second"
    )
    made = verb(verbs, "view", "a run or a trace as one page of HTML", "runs:view")
    made.add_argument("subject", metavar="RUN|TRACE", help="a run, a file of a trace, a .dojo file or library:NAME")
    _folder(made)
    made.add_argument("--target", default="llvm", metavar="TARGET", help="whose code is shown of a trace (llvm)")
    made.add_argument("-o", "--output", required=True, metavar="PAGE.html", help="write the page there")
    made = verb(verbs, "replay", "proves a run again: files, moves, source, code, results", "proving:replay")
    _add_run_options(made)
    made.add_argument("--bench", dest="again", action="store_true", help="time it again as well")
    made.add_argument("--seconds", type=seconds, default=10.0, metavar="S", help="of the rounds of a shape (10)")
    made = verb(verbs, "export", "a run as one file, the same bytes each time", "proving:export")
    _add_run_options(made)
    made.add_argument("-o", "--output", required=True, metavar="X.zip", help="write it there, whole or not at all")
    made = verb(verbs, "check", "proves such a file again, and runs nothing of it", "proving:check")
    made.add_argument("file", metavar="X.zip", help="what export wrote")
    _profile(verb(verbs, "profile", "what bounds a kernel, where, and which moves help", "profile:profile"))
    _library(verb(verbs, "library", "kernels tuned, gated and written as a library", "library:library"))


def _profile(made: argparse.ArgumentParser) -> None:
    made.add_argument(
        "subject", metavar="KERNEL|TRACE|RUN",
        help="a .dojo file, - for stdin, library:NAME, a file of a trace, or a run",
    )  # fmt: skip
    _sizes(made)
    made.add_argument("--target", default="llvm", metavar="TARGET", help="the target (llvm)")
    made.add_argument("--ncu", metavar="FILE", help="counters of a GPU: what ncu --csv wrote")
    runs(made, "leave a bundle of the run there")


def _library(made: argparse.ArgumentParser) -> None:
    made.add_argument("kernels", metavar="KERNEL", nargs="+", help="a .dojo file, or library:NAME")
    _sizes(made)
    add = made.add_argument
    add("--targets", type=words, default=("llvm",), metavar="NAMES", help="with commas (llvm)")
    add("--seconds", type=seconds, default=60.0, metavar="S", help="of each search (60)")
    add("--states", type=positive, metavar="INT", help="end each search after so many states")
    add("--seed", type=seed, default=0, metavar="INT", help="the seed of all that is random (0)")
    add("--timer", choices=("measure", "static"), default="measure", help="static times nothing (measure)")
    add("--no-gate", dest="gated", action="store_false", help="ask no gates")
    add("-o", "--output", required=True, metavar="DIR", help="the folder; one that was begun is gone on with")


def _sizes(made: argparse.ArgumentParser) -> None:
    made.add_argument(
        "-s", "--size", dest="shapes", action="append", default=[], type=shape, metavar="NAME=INT[,INT...]",
        help="a runtime size; several values are several shapes; may be repeated",
    )  # fmt: skip
    made.add_argument("--threads", type=positive, default=1, metavar="INT", help="cores (1)")
