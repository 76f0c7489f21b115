"""Two runs beside each other: how they are related, which is right, how their times stand, which moves differ."""

from __future__ import annotations

import difflib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

import dojoir
from dojoir import runtime
from dojoir.evidence.bundle_reading import Bundle
from dojoir.evidence.figures import Bench, Shape, sizes_in_words
from dojoir.evidence.replay import incomparable
from dojoir.support.seconds import format_seconds

Relation = Literal["the same result", "the same kernel", "parent", "child", "another kernel"]
Correctness = Literal["recovered", "regressed", "passes", "fails", "unknown"]


@dataclass(frozen=True)
class ComparedTime(runtime.Ratio):
    """The time of one shape in both runs, and how many times as fast the second is, not in the same rounds."""

    sizes: Mapping[str, int]
    before: float
    after: float


@dataclass(frozen=True)
class Compared:
    """The differences between a second run and a first. `times` are there only where they may be compared;
    `incomparable` says why they may not. `moves` is a diff: each line begins with a space, `-` or `+`."""

    first: str
    second: str
    relation: Relation
    correctness: Correctness
    targets: tuple[str, ...]
    times: tuple[ComparedTime, ...]
    incomparable: str
    moves: tuple[str, ...]
    states: tuple[int, ...]
    gates: Mapping[str, str]

    def __str__(self) -> str:
        lines = [f"{self.first}", f"{self.second}: {self.relation}, {self.correctness}"]
        lines += [f"  targets {' and '.join(self.targets)}, {' and '.join(map(str, self.states))} states"]
        lines += [f"  gate {name}: {change}" for name, change in self.gates.items()]
        if self.incomparable:
            lines.append(f"  times are incomparable: {self.incomparable}")
        for one in self.times:
            seconds = f"{format_seconds(one.before)} to {format_seconds(one.after)}"
            lines.append(f"  {sizes_in_words(one.sizes)}: {seconds}, {one} as fast")
        return "\n".join([*lines, *(f"  {line}" for line in self.moves)])


def compare(first: Bundle, second: Bundle) -> Compared:
    """Compares a run with one before it. Raises ArgumentError for records that are broken."""
    a, b = first.run, second.run
    times, why = _times(first.bench, second.bench)
    return Compared(
        a.name, b.name, _relation(first, second), _correctness(_is_right(first), _is_right(second)),
        tuple(dict.fromkeys((a.target, b.target))), times, why, tuple(diff(_moves(first), _moves(second))),
        (a.states, b.states), _gates(first, second),
    )  # fmt: skip


def _relation(first: Bundle, second: Bundle) -> Relation:
    a, b = first.run, second.run
    if b.parent == a.name:
        return "child"
    if a.parent == b.name:
        return "parent"
    if a.start != b.start:
        return "another kernel"
    return "the same result" if a.result is not None and a.result == b.result else "the same kernel"


def _is_right(given: Bundle) -> bool | None:
    """Whether the result of a run is right, as far as its gates and its bench say."""
    said = [one.status for one in given.verdicts if one.name in ("proved", "correct")]
    if given.bench is not None and given.bench.correct in ("pass", "fail"):
        said.append(given.bench.correct)
    if "fail" in said or any(one.status == "wrong" and one.hash == given.run.result for one in given.states):
        return False
    return True if "pass" in said else None


def _correctness(before: bool | None, after: bool | None) -> Correctness:
    if after is None:
        return "unknown"
    if before is None or before == after:
        return "passes" if after else "fails"
    return "recovered" if after else "regressed"


def _gates(first: Bundle, second: Bundle) -> dict[str, str]:
    """The gates that say something else, `before to after`."""
    a, b = ({one.name: one.status for one in given.verdicts} for given in (first, second))
    names = dict.fromkeys([*a, *b])
    words = {name: (a.get(name, "not asked"), b.get(name, "not asked")) for name in names}
    return {name: f"{one} to {other}" for name, (one, other) in words.items() if one != other}


def _moves(given: Bundle) -> list[str]:
    try:
        return [str(move) for move in given.trace.moves]
    except dojoir.DojoError:  # it has no answer, or one of another version
        return []


def diff(before: Sequence[str], after: Sequence[str]) -> list[str]:
    """Moves that stay, went and came."""
    return [line for line in difflib.ndiff(list(before), list(after)) if not line.startswith("?")]


def _times(one: Bench | None, other: Bench | None) -> tuple[tuple[ComparedTime, ...], str]:
    if one is None or other is None:
        return (), "one of them was not benched"
    why = incomparable(one, other)
    if why is None and one.versions != other.versions:
        why = f"versions are {one.versions} and {other.versions}"
    if why is not None:
        return (), why
    known = {_key(shape): shape for shape in one.shapes}
    found = [_beside(known[_key(shape)], shape) for shape in other.shapes if _key(shape) in known]
    there = tuple(pair for pair in found if pair is not None)
    return there, "" if there else "they were timed at no shape that both have"


def _key(shape: Shape) -> tuple[tuple[str, int], ...]:
    return tuple(sorted(shape.sizes.items()))


def _beside(before: Shape, after: Shape) -> ComparedTime | None:
    a, b = before.own, after.own
    if a is None or b is None:
        return None
    return ComparedTime(**vars(runtime.ratio_apart(a, b)), sizes=after.sizes, before=a.seconds, after=b.seconds)
