"""`dojoir library`: kernels tuned, gated and written as a library."""

from __future__ import annotations

import argparse
import secrets
from collections.abc import Mapping
from pathlib import Path

import dojoir
from dojoir.cli.chunks import display_name, read_input
from dojoir.evidence.library_run import UNAVAILABLE, Gated, Wish, make
from dojoir.verbs.kernel_options import answered, shapes_of, told


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
        seed=options.seed, timer=options.timer, gate=_gate(options),
        say=told(options),
    )  # fmt: skip
    wrong = [one for one in shelf.made if not one.passed]
    status = 0 if not wrong else 4 if all(one.status == UNAVAILABLE for one in wrong) else 3
    return answered(options, {"library": shelf.to_json()}, f"{shelf}\n", status)


def _gate(options: argparse.Namespace) -> Gated | None:
    """The gates, unless nothing is to be timed, or they are not asked."""
    if options.timer == "static" or not options.gated:
        return None
    from dojoir.evidence import Asked, Gates
    from dojoir.evidence import gate as gated

    def gate(trace: dojoir.Trace, target: str, sizes: Mapping[str, int], threads: int) -> Gates:
        asked = Asked(trace, target, [sizes], threads, ("default",), secrets.randbelow(1 << 31))
        return gated(asked)

    return gate
