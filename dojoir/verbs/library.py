"""`dojoir library`: kernels tuned, gated and written as a library."""

from __future__ import annotations

import argparse
import json
from pathlib import Path

import dojoir
from dojoir.cli.chunks import display_name, read_input
from dojoir.cli.output import write_result
from dojoir.cli.streams import say
from dojoir.evidence.making import UNAVAILABLE, Wish, make
from dojoir.verbs.subject import shapes_of


def library(options: argparse.Namespace) -> int:
    """Makes what is left of it; status 3 where something failed, 4 where only a compiler or a device is missing."""
    wishes = []
    for name in options.kernels:
        kernel = dojoir.parse(read_input(name), display_name(name))
        dojoir.prove(kernel)
        own = [(size, values) for size, values in options.shapes if size in kernel.runtime_sizes]
        for sizes in shapes_of(own, kernel):
            wishes += [Wish(kernel, target, sizes) for target in options.targets]
    shelf = make(
        wishes, Path(options.output), seconds=options.seconds, states=options.states, threads=options.threads,
        seed=options.seed, timer=options.timer, gate=None,
        say=lambda line: say(json.dumps({"progress": line}) if options.json else line),
    )  # fmt: skip
    write_result(json.dumps({"library": shelf.to_json()}) + "\n" if options.json else f"{shelf}\n", None)
    wrong = [one for one in shelf.made if not one.passed]
    return 0 if not wrong else 4 if all(one.status == UNAVAILABLE for one in wrong) else 3
