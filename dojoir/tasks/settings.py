"""The settings of a rollout as a file: what its command takes, by the same names."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from dojoir.evidence.bundle_reading import read_text
from dojoir.records.plain_data import from_toml
from dojoir.support.public import Amount, Count, Natural, Seconds, public
from dojoir.tasks.task import Kind


@dataclass(frozen=True)
class Playing:
    """A rollout: the agent and the tasks, then the options of `dojoir rollout` by their names, `_` for `-`. What is
    left out is as on the command line. `last` are the seconds of the last timing of an answer; what follows
    `list_moves` is for language models."""

    agent: str
    tasks: tuple[str, ...]
    kind: Kind | None = None
    output: str | None = None
    timer: Literal["measure", "static"] | None = None
    seed: Natural | None = None
    states: Count | None = None
    seconds: Seconds | None = None
    last: Seconds | None = None
    list_moves: bool | None = None
    base_url: str | None = None
    calls: Count | None = None
    tokens: Count | None = None
    money: Amount | None = None
    prices: tuple[float, float] | None = None
    plans: Count | None = None
    rounds: Count | None = None
    model_timeout: Seconds | None = None
    model_notes: str | None = None
    model_runs: str | None = None


@public
def read_playing(path: str | Path) -> Playing:
    """The settings in a file of TOML. Raises ArgumentError, `bad-record` with the field, `cannot-read`."""
    return from_toml(Playing, read_text(Path(path)), str(path))
