"""Storing the answer of a search as a schedule: nothing that is faster is replaced.

The file says how, at which sizes and on how many threads it was timed. What is to replace it is raced against it
there too, so that a search at other sizes takes nothing away.
"""

from __future__ import annotations

import json
import os
import tempfile
from collections.abc import Callable, Mapping
from dataclasses import dataclass

import dojoir
from dojoir import runtime
from dojoir.cli.output import writing
from dojoir.search.play import Play
from dojoir.search.tuned import Gain

HEAD = "# timed: "
"""The start of the line of a schedule that tells how it was timed, as JSON."""

Racing = Callable[[dojoir.Trace, dojoir.Trace, Mapping[str, int], int], Gain | None]
"""How many times as fast the first trace is as the second, at some sizes on so many threads; None where one of them
does not come to its end."""


@dataclass(frozen=True)
class TimedSchedule:
    """How a schedule was timed."""

    timer: str
    sizes: tuple[Mapping[str, int], ...]
    threads: int

    @classmethod
    def of(cls, schedule: dojoir.schedules.Schedule) -> TimedSchedule | None:
        """The timing in its file; None where that has none, or a wrong one."""
        line = next((one for one in schedule.moves.splitlines() if one.startswith(HEAD)), HEAD)
        try:
            match json.loads(line.removeprefix(HEAD)):
                case {"timer": str(timer), "sizes": [*sizes], "threads": int(threads)}:
                    return cls(timer, tuple({str(n): int(v) for n, v in one.items()} for one in sizes), threads)
        except (ValueError, AttributeError, TypeError):
            pass
        return None

    def __str__(self) -> str:
        sizes = [dict(one) for one in self.sizes]
        words = json.dumps({"timer": self.timer, "sizes": sizes, "threads": self.threads})
        return f"{HEAD.removeprefix('# ')}{words}"


def check_store(folder: str | os.PathLike[str]) -> None:
    """Raises ArgumentError, `cannot-write`, where no schedule could be stored in a folder, which is made if it is
    not there: before what may take hours is begun."""
    with writing(folder):
        os.makedirs(folder, exist_ok=True)
        with tempfile.TemporaryFile(dir=folder) as file:
            file.write(b"dojoir")
            file.flush()


def stored(play: Play, answer: dojoir.Trace, folder: str | os.PathLike[str], timer: str, race: Racing) -> str:
    """Stores the answer of a search, unless what is there is as fast, and says what was done. Never raises: the
    search is over, and its answer is there."""
    if not answer.moves:
        return "not stored: the text as it is was not made faster"
    target = play.target.partition("@")[0]
    now = TimedSchedule(timer, tuple(play.sizes), play.threads)
    replaced = ""
    try:
        known = dojoir.schedules.stored(play.kernel, target, folder)
    except dojoir.DojoError:  # optimize would not take it either
        known, replaced = None, ", for one that could not be read"
    try:
        if known is not None:
            reason = _kept(play, answer, known, now, race)
            if reason is not None:
                return f"not stored: {known.path} is {reason}"
            replaced = ", for one that is slower"
        path = dojoir.schedules.store(answer, target, folder, note=str(now))
        used = f"optimize(kernel, folders=[{str(os.fspath(folder))!r}]) uses it, and so does dojoir-opt -O with "
        used += f"DOJOIR_SCHEDULES={os.fspath(folder)}"
    except dojoir.DojoError as error:
        return f"not stored: {error.diagnostic.message}"
    return f"stored as {path}{replaced}: {used}"


def _kept(
    play: Play, answer: dojoir.Trace, known: dojoir.schedules.Schedule, now: TimedSchedule, race: Racing
) -> str | None:
    """Why the schedule that is there stays, as a phrase; None where the answer may replace it."""
    try:
        other = known.on(play.kernel)
    except dojoir.DojoError:  # its moves are not legal any more
        return None
    if other.kernel == answer.kernel:
        return "the same already"
    was = TimedSchedule.of(known)
    if now.timer == "static" and (was is None or was.timer != "static"):
        return "no estimate: it stays, as nothing was timed"
    if now.timer != "static" and was is not None and was.timer == "static":
        return None
    mine = [race(answer, other, sizes, play.threads) for sizes in play.sizes]
    theirs = [] if was is None else [race(answer, other, sizes, was.threads) for sizes in was.sizes if was != now]
    gains = [gain for gain in (*mine, *theirs) if gain is not None]
    if len(gains) < len(mine) + len(theirs):
        return "there, and could not be timed beside the answer"
    if any(gain.high < 1 for gain in gains):
        return "faster"
    lows = [gain.low for gain in gains[: len(mine)]]
    return None if runtime.geometric(lows) > 1 else "as fast"


def by_estimate(play: Play) -> Racing:
    """A race of estimates."""

    def race(one: dojoir.Trace, other: dojoir.Trace, sizes: Mapping[str, int], threads: int) -> Gain:
        first, second = (dojoir.search.estimate(t.kernel, sizes, play.target, threads) for t in (one, other))
        ratio = max(second, 1e-12) / max(first, 1e-12)
        return Gain(ratio, ratio, ratio)

    return race
