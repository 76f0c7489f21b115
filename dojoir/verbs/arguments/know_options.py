"""The options of `dojoir know`."""

from __future__ import annotations

from typing import Any

from dojoir.cli.values import positive, size
from dojoir.verbs.evidence import Verb

KINDS = ("move", "rule", "schedule", "run", "structure", "pass", "code", "mark", "doc", "note")


def add_sources(add: Any) -> None:
    """Adds the options for what is searched besides what comes with dojoir."""
    add("--notes", metavar="DIR", help="also search the files *.md and *.txt of this folder")
    add(
        "--runs", metavar="DIR", action="append", default=[],
        help="also what helped in the runs of this folder; may be repeated",
    )  # fmt: skip
    add("--db", metavar="URL", action="append", default=[], help="and in this database; may be repeated")


def add(verbs: Any, verb: Verb) -> None:
    """Adds the verb."""
    made = verb(verbs, "know", "what is known: by words, by a name, or of kernels built alike", "know:know")
    add = made.add_argument
    add(
        "question", metavar="WORDS", nargs="*",
        help="a question in words, or the name of a code, move, pass, mark, rule, structure or schedule",
    )  # fmt: skip
    add(
        "--like", metavar="KERNEL", help="library kernels that are built as this one: a .dojo file, -, library:NAME"
    )
    add(
        "-s", "--size", dest="sizes", action="append", default=[], type=size, metavar="NAME=INT",
        help="with --like: a runtime size of KERNEL to estimate at; all of them, or none",
    )  # fmt: skip
    add("--tried", type=positive, default=6, metavar="INT", help="with --like: schedules that are made (6)")
    add("--measure", action="store_true", help="with --like and sizes: time them, and the fastest once more")
    add("--kind", choices=KINDS, help="only documents of this kind")
    add("--count", type=positive, default=8, metavar="INT", help="how many answers at most (8)")
    add_sources(add)
    add("--target", default="llvm", metavar="TARGET", help="with --like: the target of schedules (llvm)")
    made.set_defaults(refuse=made.error)
