"""The record of one evaluated state, as it is written and read back."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Protocol

import dojoir


class Result(Protocol):
    """The result of an evaluation, by the names that `dojoir.Evaluation` has."""

    @property
    def hash(self) -> str: ...
    @property
    def status(self) -> str: ...
    @property
    def seconds(self) -> float | None: ...
    @property
    def interval(self) -> tuple[float, float] | None: ...
    @property
    def samples(self) -> tuple[float, ...]: ...
    @property
    def cases(self) -> int: ...
    @property
    def digest(self) -> str | None: ...
    @property
    def stages(self) -> Mapping[str, float]: ...
    @property
    def reason(self) -> str: ...


@dataclass(frozen=True)
class Known:
    """The data of a state in the database: the fields of an evaluation."""

    hash: str
    status: str
    seconds: float | None
    interval: tuple[float, float] | None
    samples: tuple[float, ...]
    cases: int
    digest: str
    stages: Mapping[str, float]
    reason: str


def evaluation_of(known: Known) -> dojoir.Evaluation:
    """The data of a state in a database, as an evaluator gives it."""
    return dojoir.Evaluation(
        known.hash, known.status, known.seconds, known.interval, known.samples, known.cases, known.digest,
        known.stages, known.reason,
    )  # fmt: skip


@dataclass(frozen=True)
class Ranked:
    """One line of `top`: a state that was verified and timed, and where; `imported` says that it was read in from
    elsewhere."""

    kernel: str
    hash: str
    moves: int
    seconds: float
    low: float
    high: float
    machine: str
    target: str
    sizes: str
    threads: int
    protocol: str
    versions: str
    state: int
    imported: bool = False

    def to_json(self) -> dict[str, Any]:
        """The same as plain data."""
        return dict(vars(self))

    def __str__(self) -> str:
        where = f"{self.machine} {self.target}, {self.threads} threads, {self.sizes}"
        told = ", read in" if self.imported else ""
        return f"{dojoir.format_seconds(self.seconds):>10}  {self.moves:3} moves  {self.hash[:12]}  {where}{told}"
