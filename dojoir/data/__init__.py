"""Data sets of what was played: steps, episodes, chats and pairs of the runs that searches, games and rollouts
left.

`docs/data.md` says what stands in a line, and how what is there is proved again.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from dojoir.data.asking import chats, pairs
    from dojoir.data.checking import check
    from dojoir.data.exporting import Filters, export, read_about, read_episodes, read_steps
    from dojoir.data.forms import Chat, Dataset, Episode, Pair, Step
    from dojoir.data.recorded import Recorded
    from dojoir.data.splitting import split_of

_HOME = {
    "Chat": "forms",
    "Dataset": "forms",
    "Episode": "forms",
    "Filters": "exporting",
    "Pair": "forms",
    "Recorded": "recorded",
    "Step": "forms",
    "chats": "asking",
    "check": "checking",
    "export": "exporting",
    "pairs": "asking",
    "read_about": "exporting",
    "read_episodes": "exporting",
    "read_steps": "exporting",
    "split_of": "splitting",
}

__all__ = [
    "Chat",
    "Dataset",
    "Episode",
    "Filters",
    "Pair",
    "Recorded",
    "Step",
    "chats",
    "check",
    "export",
    "pairs",
    "read_about",
    "read_episodes",
    "read_steps",
    "split_of",
]


def __getattr__(name: str) -> object:
    if name not in _HOME:
        raise AttributeError(f"module 'dojoir.data' has no attribute {name!r}")
    value = getattr(importlib.import_module(f"dojoir.data.{_HOME[name]}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *_HOME})
