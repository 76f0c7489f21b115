"""The result of evaluating a kernel."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field, fields
from typing import Any

from dojoir.support.frozen import dataclass

STATUSES = ("ok", "wrong", "crashed", "hung", "memory", "build-failed", "cut", "lost")
"""ok: built, right in every case, and timed. wrong: a result was not right, or memory was written that is not its
own. crashed, hung, memory: how the worker ended, or what it used up. build-failed: no code could be made of it.
cut: right in the small cases and in its first timed call, and so slow that it was not timed any further. lost:
nothing is known, as the worker was lost through no fault of the kernel, or no clock could be believed."""


@dataclass(frozen=True)
class Evaluation:
    """The result of evaluating the kernel with this `hash`; `status` is one of STATUSES.

    `seconds` is the time of one call, the median of `samples`, which lies within `interval` with 95% confidence;
    of several sizes the geometric mean. None where nothing was timed; of a kernel that was `cut`, what its second
    call took. `ratio` is how many times as fast it is as the `best` that it was raced against, from the rounds in
    which both ran, within `ratio_interval`; `ratios` has one for each size.

    `cases` were compared with the reference. `compared` says of the elements that have one right code how many
    were compared to the bit (`exact`), how many `near` a tie, where the next code is as right, and how many were
    `left_out`; it is empty where there are none. `digest` is that of the machine code (of the source, where a C
    compiler made it). `stages` has the seconds that went into each stage: `build`, `verify`, `lease` (waiting for
    others that time), `time`. `reason` says why the status is not ok, and is empty else."""

    hash: str
    status: str
    seconds: float | None = None
    interval: tuple[float, float] | None = None
    samples: tuple[float, ...] = ()
    cases: int = 0
    digest: str = ""
    stages: Mapping[str, float] = field(default_factory=dict)
    reason: str = ""
    ratio: float | None = None
    ratio_interval: tuple[float, float] | None = None
    ratios: tuple[float, ...] = ()
    compared: Mapping[str, int] = field(default_factory=dict)

    @property
    def ok(self) -> bool:
        """Whether it is right and was timed."""
        return self.status == "ok"

    def to_json(self) -> dict[str, Any]:
        """As plain data; `from_json` makes an equal one of it, also after it was a text."""
        values = {one.name: getattr(self, one.name) for one in fields(self)}
        return {**values, "stages": dict(self.stages), "compared": dict(self.compared)}

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Evaluation:
        """Reads the output of `to_json`."""
        tuples = ("interval", "samples", "ratio_interval", "ratios")
        return cls(**{**data, **{name: tuple(data[name]) for name in tuples if data[name] is not None}})
