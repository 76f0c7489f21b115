"""The result of evaluating a kernel."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field, fields
from typing import Any

from dojoir.support.frozen import dataclass
from dojoir.support.seconds import format_seconds

STATUSES = ("ok", "wrong", "crashed", "hung", "memory", "build-failed", "cut", "lost")
"""ok: built, right in every case, and timed. wrong: a result was not right, or memory was written that is not its
own. crashed, hung, memory: how the worker ended, or what it used up. build-failed: no code could be made of it.
cut: right in the small cases and in its first timed call, and so slow that it was not timed any further. lost:
nothing is known, as the worker was lost through no fault of the kernel, or no clock could be believed."""

_LONGEST = 80
"""Characters of a reason that are printed."""


@dataclass(frozen=True)
class Evaluation:
    """The result of evaluating the kernel with this `hash`; `status` is one of STATUSES.

    `seconds` is the time of one call, the median of `samples`, which lies within `interval` with 95% confidence;
    of several sizes the geometric mean, and `counts` says how many of the samples are of each. None where nothing
    was timed; of a kernel that was `cut`, what its second call took. `ratio` is how many times as fast it is as the
    `best` that it was raced against, from the rounds in which both ran, within `ratio_interval`; `ratios` has one
    for each size.

    `cases` were compared with the reference. `compared` says of the elements that have one right code how many
    were compared to the bit (`exact`), how many `near` a tie, where the next code is as right, and how many were
    `left_out`. It is empty where there are none. `digest` is that of the machine code (of the source, where a C
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
    counts: tuple[int, ...] = ()

    @property
    def ok(self) -> bool:
        """Whether it is right and was timed."""
        return self.status == "ok"

    def __repr__(self) -> str:
        return f"<Evaluation {self.hash[:12]}: {self}>"

    def _repr_html_(self) -> str:
        """The result, its stages, and the reason of a failure, as a table for notebooks."""
        from dojoir.ir.html import table_html

        rows = [("time", self._time)] if self.seconds is not None else []
        rows += [("times as fast as the best", f"{self.ratio:.2f}")] if self.ratio is not None else []
        rows += [("cases compared", str(self.cases))] if self.cases else []
        rows += [(stage, format_seconds(seconds)) for stage, seconds in self.stages.items()]
        rows += [("reason", self.reason)] if self.reason else []
        return table_html(f"{self.hash[:12]}: {self.status}", rows)

    def __str__(self) -> str:
        time = f", {self._time}" if self.seconds is not None else ""
        faster = f", {self.ratio:.2f}x as fast as the best" if self.ratio is not None else ""
        return f"{self.status}{time}{faster}{f', {self._cause}' if self.reason else ''}"

    @property
    def _time(self) -> str:
        between = ""
        if self.interval is not None:
            between = f" ({format_seconds(self.interval[0])} to {format_seconds(self.interval[1])})"
        return f"{format_seconds(self.seconds or 0)}{between}"

    @property
    def _cause(self) -> str:
        line = self.reason.partition("\n")[0]
        return line if len(line) <= _LONGEST else f"{line[: _LONGEST - 3]}..."

    def to_json(self) -> dict[str, Any]:
        """As plain data; `from_json` makes an equal one of it, also after it was a text."""
        values = {one.name: getattr(self, one.name) for one in fields(self)}
        return {**values, "stages": dict(self.stages), "compared": dict(self.compared)}

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Evaluation:
        """Reads the output of `to_json`."""
        tuples = ("interval", "samples", "ratio_interval", "ratios", "counts")
        return cls(**{**data, **{name: tuple(data[name]) for name in tuples if data.get(name) is not None}})
