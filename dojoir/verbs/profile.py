"""`dojoir profile`: what bounds a kernel, where in its text, and which legal moves address it."""

from __future__ import annotations

import argparse
import json

import dojoir
from dojoir.cli.arguments import RUNS
from dojoir.cli.output import write_result
from dojoir.verbs.recording import recording
from dojoir.verbs.subject import shapes_for, trace_of


def profile(options: argparse.Namespace) -> int:
    """A card for each shape."""
    from dojoir.evidence.bundle import PROFILE

    trace = trace_of(options.subject, options.runs_folder or RUNS, unsafe=True)
    shapes = shapes_for(options.subject, options.runs_folder or RUNS, options.shapes, trace.start)
    cards = []
    with recording(options, "profile", trace, shapes, {"ncu": options.ncu}, options.subject) as writer:
        for sizes in shapes:
            card = dojoir.profile(
                trace.kernel, options.target, sizes=sizes, threads=options.threads, ncu=options.ncu
            )  # fmt: skip
            cards.append(card)
            if not options.json:
                write_result(f"{card}\n", None)
        if writer is not None:
            writer.data(PROFILE, [card.to_json() for card in cards])
    if options.json:
        write_result(json.dumps({"profile": [card.to_json() for card in cards]}) + "\n", None)
    return 0
