"""The subject of evidence: a kernel, a trace or a run, at some shapes."""

from __future__ import annotations

import json
import os
from pathlib import Path

import dojoir
from dojoir.cli.arguments import RUNS
from dojoir.cli.chunks import display_name, read_input
from dojoir.verbs.kernel_options import Shapes, shapes_of

TRACE = "trace.json"


def trace_of(name: str, runs: str = RUNS, unsafe: bool = False) -> dojoir.Trace:
    """The trace of a subject: a `.dojo` file, `-`, `library:NAME`, a file of a trace, the folder of a run, or the
    name of a run in the folder `runs`. A kernel is a trace without moves. With `unsafe`, moves that no checker saw
    are made all the same. Raises DojoError."""
    folder = run_folder(name, runs)
    if folder is not None:
        return dojoir.Trace.load(folder / TRACE, unsafe=unsafe)
    text = read_input(name)
    if text.lstrip().startswith("{"):
        try:
            data = json.loads(text)
        except (ValueError, RecursionError):
            raise dojoir.ArgumentError(
                f"{display_name(name)} is not a trace: it is not JSON", "bad-trace"
            ) from None
        return dojoir.Trace.from_json(data, display_name(name), unsafe=unsafe)
    kernel = dojoir.parse(text, display_name(name))
    dojoir.prove(kernel)
    return dojoir.Trace(kernel)


def run_folder(name: str, runs: str = RUNS) -> Path | None:
    """The folder of a run by its path or its name, which may be part of one or `last`; None where the name is of
    something else. Raises ArgumentError, `no-run`, for a part of several names."""
    for folder in (Path(name), Path(runs, name)):
        if os.path.isfile(folder / "run.json"):
            return folder
    if name == "-" or ":" in name or os.path.exists(name) or not os.path.isdir(runs):
        return None
    from dojoir.evidence.bundle_reading import find, fitting

    return find(name, Path(runs)).folder if fitting(name, Path(runs)) else None


def shapes_for(name: str, runs: str, given: Shapes, kernel: dojoir.Kernel) -> list[dict[str, int]]:
    """The shapes that are given; of a run without any, those that it was run at. Raises as `shapes_of`."""
    folder = run_folder(name, runs)
    if given or folder is None:
        return shapes_of(given, kernel)
    from dojoir.evidence.bundle_reading import read

    return [dict(sizes) for sizes in read(folder).run.sizes]
