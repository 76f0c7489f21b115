"""Calls of a kernel under NVIDIA's compute-sanitizer, where it is installed: accesses out of bounds, races, and
waits that not all threads reach.

A call is made in a process of its own, `python -m dojoir.evidence.sanitized`, which the tool runs: it reads the
kernel as JSON from stdin, compiles it, and runs it on drawn inputs.
"""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from collections.abc import Mapping

import dojoir

TOOL = "compute-sanitizer"
KINDS = ("memcheck", "racecheck", "synccheck")
FOUND = 97
"""The exit status that it is told to give where it found something."""


def complaint(kernel: dojoir.Kernel, target: str, sizes: Mapping[str, int], seed: int, limit: float) -> str | None:
    """The sanitizer's finding for a call of a kernel at some sizes, or None; each kind of check may take `limit`
    seconds. Raises ToolchainError, `no-sanitizer` where it is not installed or does not come to an end, and
    ArgumentError, `bad-target`, for a target that it does not know."""
    if target != "cuda":
        raise dojoir.ArgumentError(f"{TOOL} is for the target cuda, not for {target}", "bad-target")
    tool = shutil.which(TOOL)
    if tool is None:
        raise dojoir.ToolchainError(f"{TOOL} is not installed", "no-sanitizer")
    job = json.dumps({"text": dojoir.to_text(kernel), "sizes": dict(sizes), "seed": seed % (1 << 31)})
    for kind in KINDS:
        command = [tool, "--tool", kind, "--error-exitcode", str(FOUND), "--print-limit", "1",
                   sys.executable, "-m", "dojoir.evidence.sanitized"]  # fmt: skip
        try:
            done = subprocess.run(command, input=job, capture_output=True, text=True, timeout=limit, check=False)
        except subprocess.TimeoutExpired:
            raise dojoir.ToolchainError(f"{kind} takes more than {limit:g} s", "no-sanitizer") from None
        if done.returncode == FOUND:
            return f"{kind}: {_first_words(done.stdout)}"
        if done.returncode:
            words = (done.stderr or done.stdout).strip().splitlines()
            raise dojoir.ToolchainError(f"{TOOL} failed: {words[-1] if words else 'no words'}", "no-sanitizer")
    return None


def _first_words(output: str) -> str:
    """The first complaint in what the sanitizer prints."""
    lines = [line.lstrip("= ").strip() for line in output.splitlines() if line.startswith("=")]
    said = [line for line in lines if line and not line.startswith("COMPUTE-SANITIZER")]
    return said[0] if said else "an error"


def main() -> None:
    """Makes the call that stdin describes."""
    job = json.loads(sys.stdin.read())
    kernel = dojoir.parse(job["text"])
    inputs = dojoir.testing.random_inputs(kernel, seed=job["seed"], **job["sizes"])
    dojoir.compile(kernel, "cuda").run(inputs, **job["sizes"])


if __name__ == "__main__":
    main()
