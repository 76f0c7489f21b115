"""The moves that gained in recorded runs: documents of the moves that were timed, from bundles and databases.

A gain is the time of a state over that of the state after one move, where both were timed in the same context: the
machine, the target, sizes, threads and protocol. Estimates are none."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import dojoir
from dojoir import runtime
from dojoir.evidence.bundle import STATES
from dojoir.evidence.bundle_reading import Bundle, every
from dojoir.know.document import MEASURED_HERE, WEIGHTS, Document
from dojoir.records import Context, Database, State, export_lines, states_in
from dojoir.records.contexts import STATIC, this_machine

NOISE = 0.02
"""A gain of less than this share helps nothing."""

EXAMPLES = 5
"""How many moves of a document are shown, those that gained most."""

LEAST = 6
"""Of fewer values there is no interval of 95% between two of them."""

_MOVE = re.compile(r"[a-z_]{1,40}", re.ASCII)


@dataclass(frozen=True)
class Helped:
    """A move that was timed: by how much the state after it is faster, on a kernel, and whether on this
    machine."""

    move: str
    kernel: str
    gain: float
    here: bool

    @property
    def name(self) -> str:
        """The name of the move, without its arguments."""
        return self.move.partition("(")[0]


def recorded(runs: Sequence[str | os.PathLike[str]] = (), databases: Sequence[Database] = ()) -> list[Document]:
    """Documents of what helped in the bundles of some folders and in databases, one for each move and one for each
    kernel and move; the same state in several of them counts once. Raises ArgumentError, `cannot-read`, for a
    folder that there is not, RunError for a database that fails."""
    found: dict[tuple[Any, ...], Helped] = {}
    for lines in (*_of_folders(runs), *(map(json.loads, export_lines(one)) for one in databases)):
        found |= dict(helped(lines))
    return [*_documents(found.values())]


def _of_folders(runs: Sequence[str | os.PathLike[str]]) -> Iterator[Iterator[Mapping[str, Any]]]:
    for given in runs:
        folder = Path(given)
        if not folder.is_dir():
            raise dojoir.ArgumentError(f"there is no folder {folder} of runs", "cannot-read")
        yield from (one.lines(STATES) for one in every(folder) if isinstance(one, Bundle))


def helped(lines: Iterable[Mapping[str, Any]]) -> Iterator[tuple[tuple[Any, ...], Helped]]:
    """The moves of some records that were timed, each with what tells it from others. Lines that are none are left
    out."""
    moves: dict[tuple[str, str], State] = {}
    times: dict[tuple[str, str], dict[Context, float]] = {}
    for one in states_in(lines):
        moves.setdefault((one.start, one.hash), one)
        if one.seconds and one.context is not None and one.context.protocol != STATIC:
            times.setdefault((one.start, one.hash), {})[one.context] = one.seconds
    for (start, hash), one in moves.items():
        after, before = times.get((start, hash), {}), times.get((start, one.parent or ""), {})
        for at in after.keys() & before.keys():
            if one.move and _MOVE.fullmatch(one.move.partition("(")[0]) and one.kernel:
                yield (start, hash, at), Helped(one.move[:200], one.kernel, before[at] / after[at], _is_here(at))


def _is_here(at: Context) -> bool:
    try:
        return (at.machine, at.facts) == this_machine(at.target)
    except dojoir.DojoError:
        return False


def _documents(found: Iterable[Helped]) -> Iterator[Document]:
    """One for each move, and one for each kernel and move, the names in order."""
    groups: dict[tuple[str, str], list[Helped]] = {}
    for one in found:
        for key in ((one.name, ""), (one.name, one.kernel)):
            groups.setdefault(key, []).append(one)
    for (move, kernel), ones in sorted(groups.items()):
        where = f"{move} on {kernel}" if kernel else move
        gains = sorted(one.gain for one in ones)
        better = sum(gain > 1 + NOISE for gain in gains)
        here = all(one.here for one in ones)
        title = f"{where}: {told(gains)}; faster in {better} of {len(gains)} tries" + (" here" if here else "")
        best = sorted(ones, key=lambda one: (-one.gain, one.move))[:EXAMPLES]
        text = "\n".join([title, *(f"{one.gain:.3g}x: {one.move} on {one.kernel}" for one in best)])
        yield Document("run", where, title, text, "runs", MEASURED_HERE if here else WEIGHTS["run"])


def told(gains: Sequence[float]) -> str:
    """The median of some gains, in order, with its interval of 95%, or where there are fewer than LEAST all that
    they reach: `1.2x in the median (1.1x to 1.4x, n = 12)`."""
    found = runtime.spread(gains, 0.95)
    word = "" if found.count >= LEAST else "all from "
    interval = f"{found.low:.3g}x to {found.high:.3g}x, n = {found.count}"
    return f"{found.median:.3g}x in the median ({word}{interval})"
