"""The golden data set: what the golden run gives.

`python tests/helpers/golden_data.py` writes it anew, where a form was changed; that raises its version.
"""

from __future__ import annotations

import shutil
from pathlib import Path

from dojoir.data import chats, export, pairs, read_steps
from dojoir.data.dataset_lines import Dataset
from dojoir.data.exporting import lines_written

TESTS = Path(__file__).resolve().parent.parent
GOLDEN = TESTS / "datasets" / "v1"


def exported(folder: Path) -> Dataset:
    """Writes the data set of the golden run, with its chats and pairs."""
    found = export([GOLDEN / "runs"], folder)
    steps = [*read_steps(folder)]
    lines_written(folder / "chats.jsonl", chats(steps))
    lines_written(folder / "pairs.jsonl", pairs(steps))
    return found


if __name__ == "__main__":
    shutil.rmtree(GOLDEN / "data", ignore_errors=True)
    print(exported(GOLDEN / "data").counts)
