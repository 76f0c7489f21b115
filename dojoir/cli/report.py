"""What `dojoir-opt` says of errors, and with which exit status."""

from __future__ import annotations

import json
import platform
import sys
import tempfile
import traceback

import dojoir

FINE, INPUT, USAGE, DIFFERS, TOOLCHAIN, TIME_LIMIT, BUG = 0, 1, 2, 3, 4, 5, 70


def report(error: dojoir.DojoError, as_json: bool) -> int:
    """Prints an error to stderr and returns the exit status for it."""
    if as_json:
        data = error.verdict.to_json() if isinstance(error, dojoir.IllegalMove) else error.diagnostic.to_json()
        print(json.dumps({"error": data}), file=sys.stderr)
    else:
        print(str(error.verdict) if isinstance(error, dojoir.IllegalMove) else str(error), file=sys.stderr)
    return status_of(error)


def status_of(error: dojoir.DojoError) -> int:
    """The exit status for an error."""
    match error:
        case dojoir.ToolchainError():
            return TOOLCHAIN
        case dojoir.RunError():
            return TIME_LIMIT if error.diagnostic.code == "time-limit" else DIFFERS
        case _:
            return INPUT


def report_bug(error: Exception) -> int:
    """Says that something is our fault and where the details are."""
    with tempfile.NamedTemporaryFile("w", prefix="dojoir-bug-", suffix=".txt", delete=False) as file:
        file.write(f"dojoir {dojoir.__version__}, Python {platform.python_version()}, {platform.platform()}\n")
        file.write(f"command: {' '.join(sys.argv)}\n\n")
        file.write("".join(traceback.format_exception(error)))
    summary = f"{type(error).__name__}: {error}".splitlines()[0]
    print(
        f"dojoir-opt: error[internal]: this is a bug in dojoir, not in your kernel: {summary}\n"
        f"please send us {file.name} and the kernel",
        file=sys.stderr,
    )
    return BUG
