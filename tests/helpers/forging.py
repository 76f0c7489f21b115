"""Bundles that lie: each is an honest one with a few words changed, and every digest listed anew."""

from __future__ import annotations

import hashlib
import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

from dojoir.evidence.bundle import RUN
from dojoir.evidence.bundle_reading import Bundle, read

Files = dict[str, Any]
"""The files of a bundle that are JSON, as data; of the others the texts. One that is taken out is deleted."""


def forged(given: Bundle, folder: Path, change: Callable[[Files], object], listed: bool = True) -> Bundle:
    """A copy of a bundle with its files changed, which its record lists as they are then."""
    shutil.copytree(given.folder, folder)
    names = sorted(path.name for path in folder.iterdir())
    files: Files = {
        name: json.loads((folder / name).read_text()) if name.endswith(".json") else (folder / name).read_text()
        for name in names
    }
    change(files)
    for name in names:
        if name not in files:
            (folder / name).unlink()
    for name, data in files.items():
        (folder / name).write_text(data if isinstance(data, str) else json.dumps(data, indent=1) + "\n")
    if listed:
        run = files[RUN]
        run["files"] = [
            {"name": name, "size": len(data), "sha256": hashlib.sha256(data).hexdigest()}
            for name in sorted(files)
            if name != RUN
            for data in [(folder / name).read_bytes()]
        ]
        (folder / RUN).write_text(json.dumps(run, indent=1) + "\n")
    return read(folder)
