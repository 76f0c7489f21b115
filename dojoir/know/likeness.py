"""Likeness of kernels by structure, and the stored schedules of those that are alike.

Two kernels are alike by half for their lines without names (`dojoir.records.likeness`), and by half for numbers of
their structure (COUNTS, SHARES). They are compared as the sum of the smaller numbers over the sum of the larger
ones. That is the generalised Jaccard index (Charikar, Similarity estimation techniques from rounding algorithms,
2002, section 3.2)."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

import dojoir
from dojoir.game.suite import chosen_sizes
from dojoir.records.likeness import alike
from dojoir.records.plain_data import to_data
from dojoir.search.actions import make, make_one
from dojoir.support.public import Count, public

COUNTS = (
    "depth",
    "scopes",
    "statements",
    "leaves",
    "chains",
    "guards",
    "op =",
    "op +=",
    "op *=",
    "op max=",
    "op min=",
)
SHARES = ("accesses still", "accesses next", "accesses strided", "accesses gathered")
"""The features (`dojoir.search.features`) that are compared: counts as they are, and the classes of strides of
accesses as shares of all accesses, which SCALE makes comparable with counts. Every function that a kernel calls
is a count too."""

SCALE = 4.0

TRIED = 6
"""How many schedules of others are made on a kernel, at most."""

_NAME = re.compile(r"(?<![@\w])([A-Za-z_]\w*)(?![\w(])")
_CALL = re.compile(r"\b([a-z][a-z0-9]*)\(")


@dataclass(frozen=True)
class Tried:
    """A stored schedule of another kernel, made on the one that was asked about, with the names of its arguments
    in the place of the other's: `made` of `moves` are legal there one after another. The others are left out, and
    `refused` says why the first of them is. `ratio` is the time of what `default_schedule` makes over the time of
    what is made here, as `dojoir.search.estimate` has both from the texts; None where nothing was made. `text`
    are the moves, to be pasted. One that is `finished` goes on with `default_schedule`, which does what the
    other's moves have left."""

    name: str
    made: int
    moves: int
    refused: str | None
    ratio: float | None
    text: str
    finished: bool = False

    @property
    def shown(self) -> str:
        """How it is called."""
        return f"{self.name}, then default_schedule" if self.finished else self.name


@dataclass(frozen=True)
class Like:
    """A library kernel: how alike it is, from 0 to 1, what it has in common in words, and those of its stored
    schedules that were tried."""

    kernel: str
    likeness: float
    common: tuple[str, ...]
    schedules: tuple[Tried, ...] = ()

    def to_json(self) -> dict[str, Any]:
        """The same as plain data."""
        return {**to_data(self), "likeness": round(self.likeness, 4)}


def structure_of(kernel: dojoir.Kernel, sizes: Mapping[str, int] | None = None) -> dict[str, float]:
    """The numbers of a kernel's structure, at some sizes (chosen where none are given); none is negative. Raises
    ArgumentError, `size-missing`, where no sizes fit its facts."""
    found = dojoir.search.features(kernel, dict(chosen_sizes(kernel, 1 << 12) if sizes is None else sizes))
    numbers = {name: float(found.get(name, 0.0)) for name in COUNTS}
    accessed = sum(found.get(name, 0.0) for name in SHARES)
    numbers |= {name: SCALE * found.get(name, 0.0) / accessed if accessed else 0.0 for name in SHARES}
    for line in dojoir.to_text(kernel).splitlines():
        for called in _CALL.findall(line) if "=" in line else ():
            numbers[f"calls {called}"] = numbers.get(f"calls {called}", 0.0) + 1
    return numbers


def how_alike(one: dojoir.Kernel, other: dojoir.Kernel) -> float:
    """How alike two kernels are built, from 0 to 1; names and sizes do not count. Raises as `structure_of`."""
    return _of(structure_of(one), structure_of(other), dojoir.to_text(one), dojoir.to_text(other))


def _of(mine: Mapping[str, float], its: Mapping[str, float], text: str, other: str) -> float:
    names = {*mine, *its}
    least = sum(min(mine.get(name, 0.0), its.get(name, 0.0)) for name in names)
    most = sum(max(mine.get(name, 0.0), its.get(name, 0.0)) for name in names)
    return 0.5 * (least / most if most else 0.0) + 0.5 * alike(text, other)


@public
def like(
    kernel: dojoir.Kernel,
    *,
    count: Count = 5,
    target: str = "llvm",
    tried: int = TRIED,
    sizes: Mapping[str, int] | None = None,
) -> list[Like]:
    """The library kernels that are built most like one, at most `count`, the most alike first; the kernel itself is
    none of them, at whatever sizes. Of their stored schedules for `target`, the first `tried` are made on the
    kernel through the checker, as they are and finished by `default_schedule`, and estimated beside
    `default_schedule` at `sizes` (chosen where none are given); `optimize` knows those of the kernel itself.
    Raises ArgumentError, `bad-arguments` for a count below 1, `size-missing`."""
    machine = dojoir.machine_for(target)
    at = dict(chosen_sizes(kernel) if sizes is None else sizes)
    mine, text = structure_of(kernel), dojoir.to_text(kernel)
    found = []
    for name, (other, its) in _library().items():
        if name != kernel.name and other.hash != kernel.hash:
            found.append((_of(mine, its, text, dojoir.to_text(other)), name, _common(mine, its)))
    found.sort(key=lambda one: (-one[0], one[1]))
    left, answers = tried, []
    for how, name, common in found[:count]:
        here = [one for one in dojoir.schedules.schedules(name) if _is_for(one, target, machine)][: max(0, left)]
        left -= len(here)
        made = (one for schedule in here for one in _tried(schedule, kernel, target, at))
        answers.append(Like(name, how, common, tuple(made)))
    return answers


def _is_for(schedule: dojoir.schedules.Schedule, target: str, machine: dojoir.Machine) -> bool:
    named = not schedule.targets or target in schedule.targets or schedule.is_tuned(target, machine)
    return named and schedule.suits(machine)


def _tried(
    schedule: dojoir.schedules.Schedule, kernel: dojoir.Kernel, target: str, sizes: Mapping[str, int]
) -> Iterator[Tried]:
    """Makes the moves of a schedule one after another, those that are legal; then what the default adds to them."""
    name = Path(schedule.path).name.removesuffix(".moves")
    text = _renamed(schedule.moves, dojoir.kernels.load(schedule.kernel), kernel)
    elements = list(dojoir.parse_pipeline(text, schedule.path, machine=dojoir.machine_for("avx512")))
    trace, made, refused = _made(dojoir.Trace(kernel), elements)

    def found(trace: dojoir.Trace, finished: bool) -> Tried:
        after = dojoir.search.estimate(trace.kernel, dict(sizes), target, 1) if trace.moves else 0.0
        ratio = dojoir.search.estimate(usual(kernel, target), dict(sizes), target, 1) / after if after else None
        moves = "; ".join(str(move) for move in trace.moves)
        return Tried(name, made, len(elements), refused, ratio, moves, finished)

    yield found(trace, False)
    default = dojoir.parse_pipeline("default_schedule", machine=dojoir.machine_for(target))
    longer, _, _ = _made(trace.copy(), default)
    if trace.moves and longer.kernel not in (trace.kernel, usual(kernel, target)):
        yield found(longer, True)


def _made(
    trace: dojoir.Trace, elements: Sequence[dojoir.Move | dojoir.Pass]
) -> tuple[dojoir.Trace, int, str | None]:
    """The trace after those elements that are legal, how many are, and why the first of the others is not."""
    refused, made = None, 0
    for element in elements:
        before = trace.copy()
        try:
            make_one(trace, element)
        except dojoir.DojoError as error:
            trace, refused = before, refused or error.diagnostic.message
        else:
            made += 1
    return trace, made, refused


def _renamed(text: str, other: dojoir.Kernel, kernel: dojoir.Kernel) -> str:
    """The moves of a schedule with the buffers of `kernel` in the place of those of `other`: of each role the
    first for the first, and so on."""
    names: dict[str, str] = {}
    for role in ("in", "out", "inout", "tmp"):
        its, mine = ([b.name for b in one.buffers if b.role == role] for one in (other, kernel))
        names |= dict(zip(its, mine, strict=False))
    lines = [line.partition("#")[0] for line in text.splitlines()]
    return _NAME.sub(lambda found: names.get(found[1], found[1]), "\n".join(lines))


@lru_cache(maxsize=64)
def usual(kernel: dojoir.Kernel, target: str) -> dojoir.Kernel:
    """The result of `default_schedule` for a kernel."""
    return make(dojoir.Trace(kernel), "default_schedule", target).kernel


def _common(mine: Mapping[str, float], its: Mapping[str, float]) -> tuple[str, ...]:
    """The numbers that both have, the largest first, in words."""
    shared = {name: min(mine[name], its.get(name, 0.0)) for name in mine}
    chosen = sorted((name for name, value in shared.items() if value >= 1), key=lambda name: (-shared[name], name))
    return tuple(f"{name} {shared[name]:g}" if name in COUNTS or "calls" in name else name for name in chosen)


@lru_cache(maxsize=1)
def _library() -> dict[str, tuple[dojoir.Kernel, dict[str, float]]]:
    """The kernels of the library with the numbers of their structure."""
    found = {}
    for name in dojoir.kernels.names():
        kernel = dojoir.kernels.load(name)
        found[name] = kernel, structure_of(kernel)
    return found
