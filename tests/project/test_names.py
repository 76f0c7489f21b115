"""Names that moved: each is where `docs/stability.md` says, and warns under its old name for a version."""

from __future__ import annotations

import importlib

import pytest
from folders import ROOT

import dojoir

MOVED = [(module, name) for module, names in dojoir.MOVED.items() for name in names.split()]

RENAMED = {
    "data": {"Chat": "TrainingChat", "Episode": "RecordedEpisode", "Step": "RecordedStep"},
    "llm": {"Begun": "ChatSubject", "Call": "ToolCall", "Planner": "ModelPlanner"},
    "tasks": {"Case": "JudgedAnswer", "Cost": "TaskCost", "Limits": "TaskLimits"},
}
"""Names of rooms that say of what now."""


def test_so_few_names_are_public() -> None:
    assert len(dojoir.__all__) <= 60 and not {name for _, name in MOVED} & {*dojoir.__all__}


@pytest.mark.parametrize(("module", "name"), MOVED)
def test_a_name_that_moved_warns_with_its_successor(module: str, name: str) -> None:
    with pytest.warns(DeprecationWarning, match=f"dojoir.{name} is dojoir.{module}.{name}, and goes"):
        old = getattr(dojoir, name)
    assert old is getattr(importlib.import_module(f"dojoir.{module}"), name)


def test_the_page_has_the_successor_of_each() -> None:
    text = (ROOT / "docs" / "stability.md").read_text(encoding="utf-8")
    for module, names in dojoir.MOVED.items():
        (line,) = [line for line in text.splitlines() if line.endswith(f"| `dojoir.{module}` |")]
        assert all(f"`{name}`" in line for name in names.split())


@pytest.mark.parametrize(("room", "old"), [(room, old) for room, names in RENAMED.items() for old in names])
def test_an_old_name_of_a_room_warns_with_its_successor(room: str, old: str) -> None:
    module, new = importlib.import_module(f"dojoir.{room}"), RENAMED[room][old]
    with pytest.warns(DeprecationWarning, match=f"dojoir.{room}.{old} is dojoir.{room}.{new} now, and goes"):
        found = getattr(module, old)
    assert found is getattr(module, new)
    line = f"| `dojoir.{room}` | `{old}` | `{new}` |"
    assert line in (ROOT / "docs" / "stability.md").read_text(encoding="utf-8").splitlines()
