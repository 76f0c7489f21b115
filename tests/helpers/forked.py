"""`dojoir-opt` in processes that are forked from one that has loaded it, so that each starts in milliseconds.

A process is what a shell would start: arguments, folder, environment and streams are its own, and its status is
that of the process. Only what Python and the imports do at the start is not seen; `test_cli_streams` and the
terminals of `test_screen` start `dojoir-opt` anew.
"""

from __future__ import annotations

import multiprocessing
import os
import signal
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory

FORKS = multiprocessing.get_context("forkserver")
FORKS.set_forkserver_preload(
    [
        "dojoir.cli.answers", "dojoir.cli.driver", "dojoir.cli.error_report", "dojoir.cli.run_option",
        "dojoir.cli.screen", "dojoir.costs.cost", "dojoir.grammar.pipeline", "dojoir.passes.engine.catalogue",
        "dojoir.proof.certificate", "dojoir.proof.check", "dojoir.runtime.build.compiler",
        "dojoir.runtime.build.llvm_engine", "dojoir.runtime.measurement.measure",
        "dojoir.runtime.verification.verify", "dojoir.schedules.choice",
    ]
)  # fmt: skip


def dojoir_opt(
    arguments: Sequence[str], folder: Path, given: bytes, environment: Mapping[str, str], seconds: float = 120
) -> tuple[int, bytes, bytes]:
    """The exit status, stdout and stderr of `dojoir-opt` in a folder; `given` stands on stdin."""
    with TemporaryDirectory() as name:
        streams = [Path(name) / stream for stream in ("stdin", "stdout", "stderr")]
        streams[0].write_bytes(given)
        process = FORKS.Process(target=_run, args=(tuple(arguments), folder, dict(environment), streams))
        process.start()
        process.join(seconds)
        if process.exitcode is None:
            process.kill()
            raise AssertionError(f"dojoir-opt {' '.join(arguments)} did not end in {seconds:g} s")
        return process.exitcode, streams[1].read_bytes(), streams[2].read_bytes()


def _run(arguments: tuple[str, ...], folder: Path, environment: Mapping[str, str], streams: Sequence[Path]) -> None:
    for number, (path, how) in enumerate(zip(streams, ("rb", "wb", "wb"), strict=True)):
        with path.open(how) as file:
            os.dup2(file.fileno(), number)
    os.environ.clear()
    os.environ.update(environment)
    os.chdir(folder)
    signal.signal(signal.SIGINT, signal.default_int_handler)  # that of the server ignores it
    sys.argv = ["dojoir-opt", *arguments]
    sys.stdin, sys.stdout, sys.stderr = open(0), open(1, "w"), open(2, "w")  # noqa: SIM115

    from dojoir.cli import main

    sys.exit(main())
