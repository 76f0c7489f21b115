"""`dojoir-opt --emit lib -o DIR`: the kernels of the input as a library of compiled code."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

import dojoir
from dojoir.cli.options import Options
from dojoir.cli.timing import default_sizes


def library(options: Options, traces: Sequence[dojoir.Trace]) -> str:
    """Writes the library and says what it wrote. It is called as its folder is. Raises DojoError."""
    assert options.output is not None
    folder = Path(options.output)
    given = dict(options.sizes)
    sizes = {t.kernel.name: {**default_sizes(t.kernel, given), **given} for t in traces} if options.time else None
    target = "c" if options.target == "llvm" else options.target  # C where none was asked for
    written = dojoir.write_library(
        traces, folder, name=folder.resolve().name, target=target, check=options.check, sizes=sizes
    )
    if options.json:
        return json.dumps({"folder": str(folder), "files": list(written.files)}) + "\n"
    return f"{written}\n"
