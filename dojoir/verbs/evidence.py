"""The options of the verbs that ask for evidence."""

from __future__ import annotations

import argparse
from collections.abc import Callable
from typing import Any

from dojoir.cli.values import positive, seconds, seed
from dojoir.verbs.arguments.values import shape, words
from dojoir.verbs.subject import RUNS

Verb = Callable[[Any, str, str, str], argparse.ArgumentParser]
"""Adds a verb: its name, what it is for, and what does it as `module:function`."""


def add(verbs: Any, verb: Verb) -> None:
    """Adds the verbs."""
    _bench(verb(verbs, "bench", "times kernels beside others: right, and how much faster", "bench:bench"))
    _gate(verb(verbs, "gate", "is it proved, built, right, the same each time, honest, faster?", "gate:gate"))


def _bench(made: argparse.ArgumentParser) -> None:
    made.add_argument(
        "subjects", metavar="KERNEL|TRACE|RUN", nargs="*",
        help="a .dojo file, - for stdin, library:NAME, a file of a trace, or a run",
    )  # fmt: skip
    made.set_defaults(refuse=made.error)
    _measured(made, ("text", "optimize", "numpy", "torch"))
    made.add_argument(
        "--kernelbench", metavar="FILE|FOLDER",
        help="a problem of KernelBench (Model, get_inputs, get_init_inputs), or a folder, instead of kernels",
    )  # fmt: skip
    made.add_argument("--samples", type=positive, default=30, metavar="INT", help="of each, at least (30)")
    made.add_argument("--seconds", type=seconds, default=10.0, metavar="S", help="of the rounds of a shape (10)")
    made.add_argument(
        "--no-check", dest="check", action="store_false", help="do not compare the results with the text first"
    )


def _gate(made: argparse.ArgumentParser) -> None:
    made.add_argument(
        "subject", metavar="KERNEL|TRACE|RUN",
        help="a .dojo file, - for stdin, library:NAME, a file of a trace, or a run",
    )  # fmt: skip
    _measured(made, ("default",))
    made.add_argument("--seed", type=seed, metavar="INT", help="what is drawn follows from it (one nobody knows)")
    made.add_argument("--seconds", type=seconds, default=10.0, metavar="S", help="of the rounds of a shape (10)")
    made.add_argument("--sanitize", action="store_true", help="cuda: run under compute-sanitizer as well")


def _measured(made: argparse.ArgumentParser, beside: tuple[str, ...]) -> None:
    """How something is timed, and beside what."""
    made.add_argument(
        "-s", "--size", dest="shapes", action="append", default=[], type=shape, metavar="NAME=INT[,INT...]",
        help="a runtime size; several values are several shapes; may be repeated",
    )  # fmt: skip
    made.add_argument("--target", default="llvm", metavar="TARGET", help="the target (llvm)")
    made.add_argument("--threads", type=positive, default=1, metavar="INT", help="cores (1)")
    made.add_argument(
        "--beside", type=words, default=beside, metavar="NAMES",
        help="what it is timed beside, of text, optimize, default, c, numpy, torch, compile, with commas "
             f"({','.join(beside)})",
    )  # fmt: skip
    made.add_argument("--torch", metavar="FILE:FUNCTION", help="what PyTorch runs (the library kernel's own)")
    made.add_argument("--cold", action="store_true", help="empty the caches before each call")
    made.add_argument(
        "--runs",
        dest="runs_folder",
        nargs="?",
        const=RUNS,
        metavar="DIR",
        help=f"leave a bundle of the run there ({RUNS}); a run is found there by its name",
    )
