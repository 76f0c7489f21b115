"""Which tests run: the drawn tier by default, all of them with `-m thorough` or `--share 1`.

A family is a test function with its cases. The drawn tier runs as many of them as meet every value of every axis,
and every pair of values where there are three axes or more, and a share of the rest, an eighth. Of what takes long
(`long.txt`) it runs a share alone, of all cases that take as many seconds together, spread evenly over their
families: an eighth of those that take up to 0.7 seconds, a sixteenth of those up to 1.4, and so on to a 128th. Of
what always runs (WHOLE), blocks of a campaign that takes long are drawn too, at least one. Which ones hangs on the
seed alone: the number of commits of the checkout, so that an unchanged tree runs the same cases, and eight commits
one after another run all that takes no more than that, 128 the rest. A test or a file that is named on the command
line runs whole, unless a share is given.

    python -m pytest -n 2 -m thorough --costs costs.txt && python tests/helpers/tiers.py costs.txt

brings `long.txt` up to date.
"""

from __future__ import annotations

import subprocess
import sys
from collections import defaultdict
from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from hashlib import sha256
from itertools import combinations
from math import ceil
from pathlib import Path
from resource import RUSAGE_CHILDREN, RUSAGE_SELF, getrusage

from folders import HELPERS, ROOT

WHOLE = frozenset({
    "c_goldens", "claims", "codes", "core", "docs::test_the_examples_in_docstrings", "english", "false_claims",
    "imports", "kept_lists", "last_writer", "other_names", "packages", "pages", "peers", "quick", "quick_storage",
    "regressions", "simd_goldens", "style", "two_operators",
})  # fmt: skip
"""Files without `test_`, and families, of which every case always runs: holes once found, shortcuts of the proof
against the core, golden texts, the public names and their examples, the rules of the house."""

LONGEST = 16
"""An axis with more values than this is a list of cases: a share of it is drawn."""

SHARE = Fraction(1, 8)
SECONDS = 0.12
"""A family takes long if a case of it takes more CPU time than this."""

STEP = 0.7
"""The share falls by these seconds: of what takes up to one of them an eighth, up to two a sixteenth."""

MOST_STEPS = 16
"""What takes more of them is drawn as often as what takes so many."""

TABLE = HELPERS / "long.txt"


def families_that_take_long() -> dict[str, float]:
    """The families of `long.txt`, with the mean CPU time of a case in seconds."""
    return {family: float(seconds.rstrip("?")) for family, seconds in _table().items()}


def _table() -> dict[str, str]:
    """The seconds of each family of the table; `?` behind them where they are guessed from others of its file."""
    lines = TABLE.read_text(encoding="utf-8").splitlines()
    return {family: seconds for seconds, family in (line.split(maxsplit=1) for line in lines)}


@dataclass(frozen=True)
class Case:
    """A case of a family: its name, and its value on each axis."""

    name: str
    values: tuple[Hashable, ...] = ()

    @property
    def family(self) -> str:
        """Its test function."""
        return self.name.partition("[")[0]

    @property
    def is_whole(self) -> bool:
        """Whether it always runs."""
        file, _, function = self.family.rpartition("/test_")[2].partition(".py::")
        return file in WHOLE or f"{file}::{function}" in WHOLE


def chosen(cases: Iterable[Case], long: Mapping[str, float], seed: int, share: Fraction) -> set[str]:
    """The names of the cases that run."""
    together: dict[str | int, list[Case]] = defaultdict(list)
    for case in cases:
        is_long = case.family in long and not case.is_whole
        together[max(1, min(MOST_STEPS, ceil(long[case.family] / STEP))) if is_long else case.family].append(case)
    names = set()
    for group, its in together.items():
        if share == 1 or (its[0].is_whole and not _are_blocks(its, long)):
            names |= {case.name for case in its}
        elif its[0].is_whole:
            names |= drawn(its, seed, share, covering=False)
        elif isinstance(group, int):
            names |= drawn(its, seed, share / group, covering=False)
        else:
            names |= drawn(its, seed, share)
    return names


def _are_blocks(cases: Sequence[Case], long: Mapping[str, float]) -> bool:
    """Whether cases are blocks of a campaign, which differ by numbers alone, and take longer than a second."""
    by_number = all(case.values and all(type(value) is int for value in case.values) for case in cases)
    return by_number and long.get(cases[0].family, 0) > 1


def drawn(cases: Sequence[Case], seed: int, share: Fraction, *, covering: bool = True) -> set[str]:
    """The names of the cases that run: a share of all, spread evenly over their families, and, if `covering`, those
    that meet a value or a pair of values that no other has met."""
    order = sorted(cases, key=lambda case: (_hash(case.family), _hash(case.name)))
    count, all_of_them = ceil(len(order) * share), len(order)
    names = {case.name for place, case in enumerate(order, seed) if place * count % all_of_them < count}
    axes = _axes(cases) if covering else []
    met: set[object] = set()
    for case in sorted(order, key=lambda case: case.name not in names):
        new = {(some, tuple(case.values[axis] for axis in some)) for some in axes} - met
        if new:
            met |= new
            names.add(case.name)
    return names


def _axes(cases: Sequence[Case]) -> list[tuple[int, ...]]:
    """The axes, or the pairs of axes where there are three or more, of which each value is to be met."""
    counts = [len(set(values)) for values in zip(*(case.values for case in cases), strict=True)]
    short = [axis for axis, count in enumerate(counts) if 1 < count <= LONGEST]
    return list(combinations(short, 2 if len(short) > 2 else 1))


def parsed_seed(text: str) -> int:
    """A number from 0. Raises ValueError with what would be right."""
    if not text.isdecimal():
        raise ValueError(f"--seed {text}: a seed is a whole number from 0, such as --seed 7")
    return int(text)


def parsed_share(text: str) -> Fraction:
    """A number above 0, at most 1. Raises ValueError with what would be right."""
    try:
        share = Fraction(text)
    except (ValueError, ZeroDivisionError):
        share = Fraction(0)
    if not 0 < share <= 1:
        raise ValueError(f"--share {text}: a share is above 0 and at most 1, such as --share 1/8; 1 runs all")
    return share


def seed_of_tree() -> tuple[int, str]:
    """The seed of this checkout, and what it is made of: the number of its commits; the hash of the commit where
    their history is cut off; the version where there is no git."""
    shallow, commit, count = (_git("rev-parse", "--is-shallow-repository"), _git("rev-parse", "HEAD"),
                              _git("rev-list", "--count", "HEAD"))  # fmt: skip
    if shallow == "false" and count:
        return int(count), f"the commits up to {commit[:8]}"
    if commit:
        return int(commit[:8], 16), f"the commit {commit[:8]}"
    version = (ROOT / "dojoir" / "__init__.py").read_text(encoding="utf-8").partition('__version__ = "')[2]
    version = version.partition('"')[0]
    return _hash(version) % 2**32, f"the version {version}"


def _git(*words: str) -> str:
    """What git says of this checkout; nothing where there is none."""
    try:
        done = subprocess.run(["git", "-C", str(ROOT), *words], capture_output=True, text=True, check=False)
    except OSError:
        return ""
    return done.stdout.strip() if done.returncode == 0 else ""


def _hash(name: str) -> int:
    return int.from_bytes(sha256(name.encode()).digest()[:8], "big")


def values_of(params: Mapping[str, object], indices: Mapping[str, int]) -> tuple[Hashable, ...]:
    """The value of each axis of a case: of one that is no plain value, its number."""
    return tuple(
        value if isinstance(value, str | int | float | bool | None) else ("number", indices[axis])
        for axis, value in params.items()
    )


def cpu_seconds() -> float:
    """The CPU time of this process and of those of its children that have ended."""
    own, children = (getrusage(who) for who in (RUSAGE_SELF, RUSAGE_CHILDREN))
    return own.ru_utime + own.ru_stime + children.ru_utime + children.ru_stime


def behind(taken: Iterable[tuple[str, float]]) -> dict[str, float]:
    """The families that took more than two seconds a case, and three times as many as the table says: they are
    drawn too often. By name, with the seconds of a case."""
    seconds: dict[str, list[float]] = defaultdict(list)
    for name, cpu in taken:
        seconds[name.partition("[")[0]].append(cpu)
    means = {family: sum(its) / len(its) for family, its in sorted(seconds.items())}
    long = families_that_take_long()
    return {family: mean for family, mean in means.items() if mean > max(2, 3 * long.get(family, 0))}


def main(costs: Path) -> None:
    """Brings the table up to date with the CPU seconds of each test that a run has written."""
    seconds: dict[str, list[float]] = defaultdict(list)
    for line in costs.read_text(encoding="utf-8").splitlines():
        taken, name = line.split(maxsplit=1)
        seconds[name.partition("[")[0]].append(float(taken))
    means = {family: sum(taken) / len(taken) for family, taken in seconds.items()}
    table = {family: taken for family, taken in _table().items() if family not in means}
    table |= {family: f"{mean:.2f}" for family, mean in means.items() if mean > SECONDS}
    TABLE.write_text("".join(f"{table[family]} {family}\n" for family in sorted(table)), encoding="utf-8")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
