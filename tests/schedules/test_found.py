"""The schedules that searches found, in `benchmarks/schedules`: each is taken where it was found, and is legal."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

import dojoir
from dojoir.schedules.choice import choose

FOLDER = Path(__file__).resolve().parents[2] / "benchmarks" / "schedules" / "emeraldrapids"
FILES = sorted(FOLDER.glob("*.moves"))


def test_there_are_some() -> None:
    assert FILES


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.stem)
def test_taken_on_its_processor_at_its_sizes(file: Path) -> None:
    text = file.read_text(encoding="utf-8")
    (conditions,) = re.findall(r"^# when: (.*)$", text, re.MULTILINE)
    sizes = {name: int(value) for name, value in re.findall(r"(\w+) == (\d+)", conditions)}
    kernel = dojoir.kernels.load(file.stem)
    taken = choose(kernel, "llvm", sizes=sizes, threads=1, cpu="emeraldrapids", folders=[FOLDER])
    assert taken.schedule is not None and Path(taken.schedule.path).name == file.name
    larger = choose(
        kernel, "llvm", sizes=dict.fromkeys(sizes, 2048), threads=1, cpu="emeraldrapids", folders=[FOLDER]
    )
    assert larger.schedule is None or Path(larger.schedule.path).parent != FOLDER
