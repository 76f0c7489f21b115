"""The options of `dojoir mcp`."""

from __future__ import annotations

from typing import Any

from dojoir.cli.values import positive, seconds
from dojoir.verbs.arguments.know_options import add_sources
from dojoir.verbs.evidence import Verb


def add(verbs: Any, verb: Verb) -> None:
    """Adds the verb."""
    made = verb(verbs, "mcp", "serves games to a language model: Model Context Protocol on stdio", "mcp:mcp")
    add = made.add_argument
    add("--folder", metavar="DIR", default=".", help="the only folder that is read and written (the current one)")
    add(
        "--timer", choices=("measure", "static"), default="measure",
        help="measure on this machine, or estimate from the text alone (measure)",
    )  # fmt: skip
    add_sources(add)
    for name, least in (("games", 16), ("calls", 5000), ("measurements", 500)):
        add(f"--{name}", type=positive, default=least, metavar="INT", help=f"of the connection, at most ({least})")
    add("--seconds", type=seconds, default=3600.0, metavar="S", help="of work in all (3600)")
    add("--call-seconds", type=seconds, default=60.0, metavar="S", help="of one call (60)")
