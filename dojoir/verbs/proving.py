"""`dojoir replay`, `export`, `check`: a run proved again, here and by a stranger."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import TYPE_CHECKING

from dojoir.cli.report import DIFFERS, FINE
from dojoir.verbs.given import answered, check_writable

if TYPE_CHECKING:
    from dojoir.evidence.claims import Proof


def replay(options: argparse.Namespace) -> int:
    """Proves a run again; status 3 where something differs."""
    from dojoir.evidence.reading import find
    from dojoir.evidence.replay import replay as replayed

    given = find(options.name, Path(options.runs_folder))
    return _told(options, "replay", replayed(given, again=options.again, seconds=options.seconds))


def export(options: argparse.Namespace) -> int:
    """Writes a run as one file."""
    from dojoir.evidence.archive import export as exported
    from dojoir.evidence.reading import find

    check_writable(options.output)
    path = exported(find(options.name, Path(options.runs_folder)), Path(options.output))
    said = {"export": {"file": str(path), "bytes": path.stat().st_size}}
    answered(options, said, f"{path}: {path.stat().st_size} bytes\n")
    return FINE


def check(options: argparse.Namespace) -> int:
    """Proves such a file again; status 3 where something differs."""
    from dojoir.evidence.archive import check as checked

    return _told(options, "check", checked(Path(options.file)))


def _told(options: argparse.Namespace, name: str, proof: Proof) -> int:
    from dojoir.records.forms import to_data

    data = {name: {**to_data(proof), "ok": proof.ok}}
    answered(options, data, f"{proof}\n")
    return FINE if proof.ok else DIFFERS
