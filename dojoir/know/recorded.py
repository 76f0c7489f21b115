"""The moves that gained in recorded runs: documents of the moves that were timed, from bundles and databases.

A gain is the time of a state over that of the state after one move, where both were timed in the same context: the
machine, the target, sizes, threads and protocol. Estimates are none."""

from __future__ import annotations

import json
import math
import os
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Any

import dojoir
from dojoir.evidence.bundle import STATES
from dojoir.evidence.reading import Bundle, every
from dojoir.know.document import MEASURED_HERE, WEIGHTS, Document
from dojoir.records import Database, export_lines
from dojoir.records.contexts import this_machine

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
    names: dict[str, str] = {}
    moves: dict[tuple[str, str], tuple[str, str]] = {}
    seconds: dict[tuple[str, str], dict[str, float]] = {}
    contexts: dict[str, Mapping[str, Any]] = {}
    for line in lines:
        match line:
            case {"kernel": str(hash), "text": str(text)}:
                names[hash] = text.partition("kernel ")[2].partition("(")[0][:64]
            case {"state": str(hash), "of": str(of), "parent": str(parent), "move": str(move)}:
                moves[of, hash] = parent, move
            case {"result": str(hash), "of": str(of), "seconds": float(time), "context": dict(about)} if time > 0:
                if about.get("protocol") != "static":
                    key = json.dumps(about, sort_keys=True)
                    contexts[key] = about
                    seconds.setdefault((of, hash), {})[key] = time
    for (of, hash), (parent, move) in moves.items():
        after, before = seconds.get((of, hash), {}), seconds.get((of, parent), {})
        for key in after.keys() & before.keys():
            if _MOVE.fullmatch(move.partition("(")[0]) and of in names:
                one = Helped(move[:200], names[of], before[key] / after[key], _is_here(contexts[key]))
                yield (of, hash, key), one


def _is_here(about: Mapping[str, Any]) -> bool:
    try:
        return (about.get("machine"), about.get("facts")) == this_machine(str(about.get("target")))
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
    they reach: `1.2x in the median (1.1x to 1.4x, n = 12)`. The interval is between the values of rank
    (n - 1.96 sqrt n)/2 and 1 + (n + 1.96 sqrt n)/2 (Conover, Practical Nonparametric Statistics, 1999, section
    3.2)."""
    n = len(gains)
    reach = 1.96 * math.sqrt(n)
    low, high = (max(0, math.floor((n - reach) / 2) - 1), min(n - 1, math.ceil((n + reach) / 2)))
    word = "" if n >= LEAST else "all from "
    return f"{median(gains):.3g}x in the median ({word}{gains[low]:.3g}x to {gains[high]:.3g}x, n = {n})"
