"""Data sets of runs: the lines, the splits, what is left out, and the file that says so."""

from __future__ import annotations

import hashlib
import json
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Literal

import dojoir
from dojoir.data.forms import (
    ABOUT,
    EPISODES,
    FORMAT,
    STEPS,
    VERSION,
    Begun,
    Dataset,
    Episode,
    File,
    Label,
    Source,
    Split,
    Step,
)
from dojoir.data.splitting import splits_of
from dojoir.data.steps import Making, episodes_of, steps_of
from dojoir.data.trees import Tree, tree_of
from dojoir.evidence.bundle import STATES
from dojoir.evidence.reading import Bundle, every, read_text
from dojoir.evidence.writing import UNFINISHED
from dojoir.records.forms import from_text, to_data, to_text
from dojoir.support.files import write_file
from dojoir.support.public import Amount, public, public_class

Say = Callable[[str], object]


@public_class
@dataclass(frozen=True)
class Filters:
    """The filters of a data set: of each field all where nothing is given. `kernels` are names, `labels`
    those of steps; `protocol` is `static` or `measured`; `least` is the least speed over the start that an episode
    has reached somewhere. Raises ArgumentError for other words, and for what is no tuple of them."""

    kernels: tuple[str, ...] = ()
    targets: tuple[str, ...] = ()
    splits: tuple[Split, ...] = ()
    labels: tuple[Label, ...] = ()
    protocol: Literal["", "static", "measured"] = ""
    least: Amount = 0.0

    def takes(self, one: Step | Episode) -> bool:
        """Whether a step or an episode is taken."""
        is_static = one.protocol == "static"
        return (
            (not self.kernels or one.kernel in self.kernels)
            and (not self.targets or one.target in self.targets)
            and (not self.splits or one.split in self.splits)
            and (not self.protocol or is_static == (self.protocol == "static"))
            and (not isinstance(one, Step) or not self.labels or one.label in self.labels)
            and (not isinstance(one, Episode) or (one.best_speed or 0.0) >= self.least)
        )

    def told(self) -> dict[str, str]:
        """The filters that are set, as texts."""
        given = ((one.name, getattr(self, one.name)) for one in fields(self))
        return {name: ",".join(value) if isinstance(value, tuple) else str(value) for name, value in given if value}


def bundles_in(places: Sequence[Path]) -> tuple[list[Bundle], list[str]]:
    """The bundles in some folders of runs, of rollouts (their `runs`), or that are bundles themselves, by name, and
    what cannot be read. Raises ArgumentError, `no-run`, for a folder without any."""
    from dojoir.evidence.reading import read

    found: dict[Path, Bundle] = {}
    wrong: list[str] = []
    for place in places:
        inner = [one for one in (place, place / "runs") if one.is_dir() and any(one.glob("*/run.json"))]
        if (place / "run.json").is_file():
            found[place] = read(place)
        elif not inner:
            raise dojoir.ArgumentError(
                f"{place} has no runs: name what --runs or a rollout was told to write to", "no-run"
            )
        for folder in inner:
            for one in every(folder):
                if isinstance(one, Bundle):
                    found[one.folder] = one
                else:
                    wrong.append(f"{one[0]}: {one[1]}")
    return sorted(found.values(), key=lambda one: (one.run.name, str(one.folder))), wrong


@public
def export(
    places: Sequence[str | Path],
    folder: str | Path,
    *,
    filters: Filters | None = None,
    cards: bool = False,
    say: Say = lambda _: None,
) -> Dataset:
    """Writes the data set of some runs to a folder: `steps.jsonl`, `episodes.jsonl` and `dataset.json`, the
    same bytes for the same runs. What is there twice is taken once, of the run that comes first by name. Raises
    ArgumentError for places without runs, a folder with something else (`not-empty`) or that cannot be written,
    and where nothing is left (`empty-dataset`)."""
    filters, folder = filters or Filters(), Path(folder)
    is_new = _check_folder(folder)
    bundles, left_out = bundles_in([Path(one) for one in places])
    splits = splits_of(_starts(bundles, left_out))
    taken: dict[str, str] = {}
    ways: dict[str, str] = {}
    found = Counter[str]()
    by_split, by_label, by_kernel = Counter[str](), Counter[str](), Counter[str]()
    starts: dict[str, Begun] = {}
    sources: list[Source] = []
    versions: set[str] = set()
    machines: set[str] = set()
    for number, bundle in enumerate(bundles, 1):
        tree = _tree(bundle, splits, left_out)
        if tree is None:
            continue
        making = Making(splits[bundle.run.start], cards)
        before = len(taken)
        for step in steps_of(tree, making):
            if not filters.takes(step):
                found["filtered"] += 1
            elif step.id in taken:
                found["duplicates"] += 1
            else:
                taken[step.id] = _line(step)
                by_split[step.split] += 1
                by_label[step.label] += 1
                by_kernel[step.kernel] += 1
                versions.add(step.versions)
                machines.add(step.machine)
        for episode in episodes_of(tree, making):
            if filters.takes(episode) and episode.id not in ways:
                ways[episode.id] = _line(episode)
        if len(taken) > before:
            starts[bundle.run.start] = _begun(bundle, splits)
            sources.append(_source(bundle))
        say(f"{number} of {len(bundles)} {bundle.run.name}: {len(taken) - before} steps")
    if not taken:
        if is_new:
            folder.rmdir()
        why = f": {left_out[0]}" if left_out else ""
        raise dojoir.ArgumentError(f"no step of these runs is left{why}", "empty-dataset")
    written = {
        STEPS: _written(folder / STEPS, taken.values()), EPISODES: _written(folder / EPISODES, ways.values())
    }  # fmt: skip
    counts = {"steps": len(taken), "episodes": len(ways), "filtered": found["filtered"]}
    about = Dataset(
        FORMAT, VERSION, dojoir.__version__, counts,
        _sorted(by_split), _sorted(by_label), _sorted(by_kernel), written, dict(sorted(starts.items())),
        tuple(sources), filters.told(), tuple(sorted(versions)), tuple(sorted(machines)), found["duplicates"],
        tuple(left_out),
    )  # fmt: skip
    write_file(folder / ABOUT, to_text(about))
    return about


@public
def read_about(folder: str | Path) -> Dataset:
    """The record of a data set, `dataset.json`. Raises ArgumentError, `no-dataset` where there is none,
    `bad-record`, and `newer-record` for one of a newer version."""
    path = Path(folder) / ABOUT
    if not path.is_file():
        raise dojoir.ArgumentError(f"{folder} is no data set: it has no {ABOUT}", "no-dataset")
    text = read_text(path)
    try:
        number = json.loads(text).get("version")
    except (ValueError, AttributeError, RecursionError):
        raise dojoir.ArgumentError(f"{path} is not JSON of a data set", "bad-record") from None
    if type(number) is int and number > VERSION:
        raise dojoir.ArgumentError(
            f"{path} is of version {number}, and this dojoir reads up to {VERSION}: update dojoir", "newer-record"
        )
    return from_text(Dataset, text, str(path))


def read_steps(folder: str | Path) -> Iterator[Step]:
    """The steps of a data set. Raises ArgumentError, `bad-record` with the line, `cannot-read`."""
    path = _path(folder) / STEPS
    for number, line in enumerate(read_text(path).splitlines(), 1):
        yield from_text(Step, line, f"{path}:{number}")


def read_episodes(folder: str | Path) -> Iterator[Episode]:
    """The episodes of a data set. Raises as `read_steps` does."""
    path = _path(folder) / EPISODES
    for number, line in enumerate(read_text(path).splitlines(), 1):
        yield from_text(Episode, line, f"{path}:{number}")


@public
def _path(folder: str | Path) -> Path:
    return Path(folder)


def lines_written(path: Path, values: Iterable[object]) -> File:
    """Writes values as lines of JSON, whole or not at all."""
    return _written(path, map(_line, values))


def _starts(bundles: Sequence[Bundle], left_out: list[str]) -> Iterator[dojoir.Kernel]:
    for bundle in bundles:
        try:
            yield bundle.start
        except dojoir.DojoError as error:
            left_out.append(f"{bundle.run.name}: {error.diagnostic.message}")


def _tree(bundle: Bundle, splits: dict[str, Split], left_out: list[str]) -> Tree | None:
    if bundle.run.start not in splits:
        return None
    changed = bundle.wrong_files()
    if changed:
        left_out.append(f"{bundle.run.name}: it is not what its record says: {changed[0]}")
        return None
    try:
        tree = tree_of(bundle)
    except dojoir.DojoError as error:
        left_out.append(f"{bundle.run.name}: {error.diagnostic.message}")
        return None
    left_out += [f"{bundle.run.name}: {one}" for one in tree.wrong]
    if tree.context is None:
        left_out.append(f"{bundle.run.name}: nothing was evaluated in it")
    return tree


def _begun(bundle: Bundle, splits: dict[str, Split]) -> Begun:
    return Begun(bundle.run.kernel, splits[bundle.run.start], dojoir.to_text(bundle.start))


def _source(bundle: Bundle) -> Source:
    run = bundle.run
    data = (bundle.text(STATES) or "").encode()
    return Source(run.name, run.verb, run.kernel, run.start, hashlib.sha256(data).hexdigest())


def _check_folder(folder: Path) -> bool:
    """Makes the folder, and says whether it was not there. One that has a data set, or what an export that was
    killed has left, is written anew."""
    own = (STEPS, EPISODES, ABOUT)
    there = [one.name for one in folder.iterdir()] if folder.is_dir() else []
    if ABOUT not in there and any(name not in own and not name.startswith(UNFINISHED) for name in there):
        raise dojoir.ArgumentError(f"{folder} holds something else: name another folder", "not-empty")
    is_new = not folder.exists()
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise dojoir.ArgumentError(f"cannot write to {folder}: {error.strerror or error}", "cannot-write") from None
    return is_new


def _written(path: Path, lines: Iterable[str]) -> File:
    given = [*lines]
    data = "".join(f"{line}\n" for line in given).encode()
    write_file(path, data)
    return File(len(given), len(data), hashlib.sha256(data).hexdigest())


def _line(value: object) -> str:
    return json.dumps(to_data(value), allow_nan=False, separators=(",", ":"))


def _sorted(counts: Counter[str]) -> dict[str, int]:
    return dict(sorted(counts.items()))
