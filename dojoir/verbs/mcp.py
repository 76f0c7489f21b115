"""`dojoir mcp`: games for a language model, by the Model Context Protocol on stdin and stdout."""

from __future__ import annotations

import argparse

from dojoir.cli.report import FINE


def mcp(options: argparse.Namespace) -> int:
    """Serves one connection until its end. Raises DojoError."""
    from dojoir.llm import Limits, serve
    from dojoir.verbs.know import more_documents

    limits = Limits(
        games=options.games, calls=options.calls, measurements=options.measurements, seconds=options.seconds,
        call_seconds=options.call_seconds,
    )  # fmt: skip
    serve(options.folder, limits, timer=options.timer, more=more_documents(options))
    return FINE
