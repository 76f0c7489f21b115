"""`dojoir gate`: is it proved, built, right, the same each time, honest, and faster?"""

from __future__ import annotations

import argparse
import json
import secrets

from dojoir.cli.output import write_result
from dojoir.cli.report import DIFFERS, FINE, TOOLCHAIN
from dojoir.verbs.subject import shapes_of, trace_of


def gate(options: argparse.Namespace) -> int:
    """Asks each gate in turn; status 0 only if all pass, 3 where one fails, 4 where one is not to be had here.
    Raises DojoError."""
    from dojoir.evidence import Asked, TorchFunction, gate_lines, to_data
    from dojoir.evidence import gate as gated

    trace = trace_of(options.subject, options.runs_folder, unsafe=True)
    asked = Asked(
        trace, options.target, shapes_of(options.shapes, trace.start), options.threads, options.beside,
        secrets.randbelow(1 << 31) if options.seed is None else options.seed,
        torch=None if options.torch is None else TorchFunction.of(options.torch), cold=options.cold,
        seconds=options.seconds,
    )  # fmt: skip
    found = gated(asked)
    write_result(json.dumps({"gates": to_data(found)}) + "\n" if options.json else gate_lines(found), None)
    if found.ok:
        return FINE
    return DIFFERS if any(one.status == "fail" for one in found.gates) else TOOLCHAIN
