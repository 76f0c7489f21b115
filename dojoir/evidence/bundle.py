"""The contents of a bundle of a run: the record `run.json`, and the files beside it.

A bundle is a folder. What happens is appended to `events.jsonl` and `states.jsonl` as it goes; the record is
written whole at the beginning and at the end, where it lists every other file with its digest.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

import dojoir
from dojoir import runtime

VERSION = 2
"""The version of the record. From 2 on, what a run gained and what its gates say stand in its files alone, with all
that they follow from."""

RUN, EVENTS, STATES, TRACE = "run.json", "events.jsonl", "states.jsonl", "trace.json"
START, FINAL, SOURCE, CODE = "start.dojo", "final.dojo", "source", "code.s"
VERIFY, BENCH, MACHINE, PROFILE, GATES, CHAT = (
    "verify.json", "bench.json", "machine.json", "profile.json", "gates.json", "chat.jsonl"
)  # fmt: skip

ENDINGS = {"llvm": "ll", "cuda": "cu", "hip": "hip"}
"""How the name of a source ends, by target; those of others are C."""

FILES = (EVENTS, STATES, TRACE, START, FINAL, CODE, VERIFY, BENCH, MACHINE, PROFILE, GATES, CHAT,
         *(f"{SOURCE}.{ending}" for ending in ("c", *ENDINGS.values())))  # fmt: skip
"""The names that files of a bundle may have, beside the record."""

ENVIRONMENT = (
    "DOJOIR_THREADS",
    "DOJOIR_CHECK",
    "OMP_NUM_THREADS",
    "CUDA_VISIBLE_DEVICES",
    "HIP_VISIBLE_DEVICES",
    "CC",
)
"""The variables of the environment that are recorded, and no others."""

Verb = Literal["tune", "bench", "gate", "profile"]
Status = Literal["running", "done", "failed", "interrupted"]
Verdict = Literal["pass", "fail", "undecided", "not-run", "unavailable"]
"""`undecided` where too little could be compared, `unavailable` where a compiler or a device is missing."""


@dataclass(frozen=True)
class Listed:
    """A file of a bundle: its name, its bytes, and their SHA-256."""

    name: str
    size: int
    sha256: str


Said = tuple[Verdict, str]
"""A verdict, and why."""

NOT_ASKED = ("busy", "no-room")
"""The codes of errors that say nothing of a kernel: an evaluator does not take it, or the machine has no room."""


def said(ask: Callable[[], Said]) -> Said:
    """The answer to a question. An error is one too: that a compiler or a device is missing, or that it fails."""
    try:
        return ask()
    except dojoir.DojoError as error:
        is_missing = isinstance(error, dojoir.ToolchainError) or error.diagnostic.code in NOT_ASKED
        return "unavailable" if is_missing else "fail", error.diagnostic.message


@dataclass(frozen=True)
class Gate:
    """The outcome of a gate, or of a check: its status, why, and the file of the bundle that shows it, empty for
    none."""

    name: str
    status: Verdict
    reason: str = ""
    file: str = ""


@dataclass(frozen=True)
class MachineCode:
    """The machine code of the result: what made it, for which processor, and the SHA-256 of it as text."""

    compiler: str
    processor: str
    sha256: str


@dataclass(frozen=True)
class Gained(runtime.Ratio):
    """How many times as fast the result is as something else, by its name."""

    beside: str

    @classmethod
    def of(cls, beside: str, found: runtime.Ratio) -> Gained:
        """A ratio to what has a name."""
        return cls(found.median, found.low, found.high, beside)


@dataclass(frozen=True)
class Run:
    """The record of a run. `settings` are what it was asked for (seeds and budgets among them), `database` the name
    of its run in the database that the bundle was written from. `result` is the hash of the last kernel of its
    trace. Of a run that was killed, the status on disk is `running`; who reads it says `interrupted`.

    `gained` and `gates` are not written: they follow from the files, and `Bundle.told` has them. Records of version
    1 have them, and they are held to the files."""

    version: int
    name: str
    verb: Verb
    status: Status
    kernel: str
    target: str
    sizes: tuple[Mapping[str, int], ...]
    threads: int
    arguments: tuple[str, ...]
    settings: Mapping[str, Any]
    versions: Mapping[str, str]
    environment: Mapping[str, str]
    begun: str
    start: str
    database: str
    ended: str | None = None
    parent: str | None = None
    stopped: str = ""
    result: str | None = None
    moves: int = 0
    states: int = 0
    gained: tuple[Gained, ...] = ()
    gates: tuple[Gate, ...] = ()
    code: MachineCode | None = None
    files: tuple[Listed, ...] = ()
    notes: tuple[str, ...] = field(default_factory=tuple)
