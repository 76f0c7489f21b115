"""Data sets of runs: the lines, the splits, what is left out, and the file that says so."""

from __future__ import annotations

import hashlib
import json
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Literal, TypeVar

import dojoir
from dojoir.cli.output import writing
from dojoir.data.dataset_lines import (
    ABOUT,
    EPISODES,
    FORMAT,
    STEPS,
    VERSION,
    Dataset,
    File,
    Label,
    RecordedEpisode,
    RecordedRun,
    RecordedStart,
    RecordedStep,
    Split,
)
from dojoir.data.splitting import splits_of
from dojoir.data.steps import Making, episodes_of, steps_of
from dojoir.data.trees import Tree, tree_of
from dojoir.evidence.bundle import STATES
from dojoir.evidence.bundle_reading import Bundle, every, read, read_text
from dojoir.evidence.writing import UNFINISHED
from dojoir.records.plain_data import from_text, json_of, of_version, to_data, to_text
from dojoir.support.files import write_file
from dojoir.support.public import Amount, public, public_class

Say = Callable[[str], object]
T = TypeVar("T")


@public_class
@dataclass(frozen=True)
class Filters:
    """The filters of a data set: of each field all where nothing is given. `kernels` are names, `labels` those of
    steps, `families` those of their moves; `protocol` is `static` or `measured`; `least` is the least speed over
    the start that an episode has reached somewhere. Raises ArgumentError for other words, and for what is no tuple
    of them."""

    kernels: tuple[str, ...] = ()
    targets: tuple[str, ...] = ()
    splits: tuple[Split, ...] = ()
    labels: tuple[Label, ...] = ()
    protocol: Literal["", "static", "measured"] = ""
    least: Amount = 0.0
    families: tuple[str, ...] = ()

    def takes(self, one: RecordedStep | RecordedEpisode) -> bool:
        """Whether a step or an episode is taken."""
        is_static = one.protocol == "static"
        return (
            (not self.kernels or one.kernel in self.kernels)
            and (not self.targets or one.target in self.targets)
            and (not self.splits or one.split in self.splits)
            and (not self.protocol or is_static == (self.protocol == "static"))
            and (not isinstance(one, RecordedStep) or not self.labels or one.label in self.labels)
            and (
                not isinstance(one, RecordedStep)
                or not self.families
                or one.move.partition("(")[0] in self.families
            )
            and (not isinstance(one, RecordedEpisode) or (one.best_speed or 0.0) >= self.least)
        )

    def told(self) -> dict[str, str]:
        """The filters that are set, as texts."""
        given = ((one.name, getattr(self, one.name)) for one in fields(self))
        return {name: ",".join(value) if isinstance(value, tuple) else str(value) for name, value in given if value}


def bundles_in(places: Sequence[Path]) -> tuple[list[Bundle], list[str]]:
    """The bundles in some folders of runs, of rollouts (their `runs`), or that are bundles themselves, by name, and
    what cannot be read. Raises ArgumentError, `no-run`, for a folder without any."""
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
    taken: dict[str, RecordedStep] = {}
    ways: dict[str, RecordedEpisode] = {}
    starts: dict[str, RecordedStart] = {}
    sources: list[RecordedRun] = []
    filtered = duplicates = 0
    for number, bundle in enumerate(bundles, 1):
        tree = _tree(bundle, splits, left_out)
        if tree is None:
            continue
        making = Making(splits[bundle.run.start], cards)
        before = len(taken)
        for step in steps_of(tree, making):
            is_taken = filters.takes(step)
            filtered += not is_taken
            duplicates += is_taken and step.id in taken
            if is_taken:
                taken.setdefault(step.id, step)
        for episode in episodes_of(tree, making):
            if filters.takes(episode):
                ways.setdefault(episode.id, episode)
        if len(taken) > before:
            starts[bundle.run.start] = _begun(bundle, splits)
            sources.append(_source(bundle))
        say(f"{number} of {len(bundles)} {bundle.run.name}: {len(taken) - before} steps")
    if not taken:
        if is_new:
            folder.rmdir()
        why = f": {left_out[0]}" if left_out else ""
        raise dojoir.ArgumentError(f"no step of these runs is left{why}", "empty-dataset")
    steps = [*taken.values()]
    written = {
        STEPS: lines_written(folder / STEPS, steps), EPISODES: lines_written(folder / EPISODES, ways.values())
    }  # fmt: skip
    counts = {"steps": len(steps), "episodes": len(ways), "filtered": filtered}
    about = Dataset(
        FORMAT, VERSION, dojoir.__version__, counts, *counted(steps), written, dict(sorted(starts.items())),
        tuple(sources), filters.told(), tuple(sorted({step.versions for step in steps})),
        tuple(sorted({step.machine for step in steps})), duplicates, tuple(left_out),
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
    return of_version(Dataset, json_of(text, str(path)), str(path), VERSION)


@public
def read_steps(folder: str | Path) -> Iterator[RecordedStep]:
    """The steps of a data set. Raises ArgumentError, `bad-record` with the line, `cannot-read`."""
    return _lines(RecordedStep, Path(folder) / STEPS)


@public
def read_episodes(folder: str | Path) -> Iterator[RecordedEpisode]:
    """The episodes of a data set. Raises as `read_steps` does."""
    return _lines(RecordedEpisode, Path(folder) / EPISODES)


def _lines(kind: type[T], path: Path) -> Iterator[T]:
    for number, line in enumerate(read_text(path).splitlines(), 1):
        yield from_text(kind, line, f"{path}:{number}")


def lines_written(path: Path, values: Iterable[object]) -> File:
    """Writes values as lines of JSON, whole or not at all."""
    lines = [json.dumps(to_data(one), allow_nan=False, separators=(",", ":")) for one in values]
    data = "".join(f"{line}\n" for line in lines).encode()
    write_file(path, data)
    return File(len(lines), len(data), hashlib.sha256(data).hexdigest())


def counted(steps: Sequence[RecordedStep]) -> tuple[dict[str, int], dict[str, int], dict[str, int]]:
    """How many steps are of each split, of each label, and of each kernel."""

    def of(name: str) -> dict[str, int]:
        return dict(sorted(Counter(getattr(step, name) for step in steps).items()))

    return of("split"), of("label"), of("kernel")


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


def _begun(bundle: Bundle, splits: dict[str, Split]) -> RecordedStart:
    return RecordedStart(bundle.run.kernel, splits[bundle.run.start], dojoir.to_text(bundle.start))


def _source(bundle: Bundle) -> RecordedRun:
    run = bundle.run
    data = (bundle.text(STATES) or "").encode()
    return RecordedRun(run.name, run.verb, run.kernel, run.start, hashlib.sha256(data).hexdigest())


def _check_folder(folder: Path) -> bool:
    """Makes the folder, and says whether it was not there. One that has a data set, or what an export that was
    killed has left, is written anew."""
    own = (STEPS, EPISODES, ABOUT)
    there = [one.name for one in folder.iterdir()] if folder.is_dir() else []
    if ABOUT not in there and any(name not in own and not name.startswith(UNFINISHED) for name in there):
        raise dojoir.ArgumentError(f"{folder} holds something else: name another folder", "not-empty")
    is_new = not folder.exists()
    with writing(folder):
        folder.mkdir(parents=True, exist_ok=True)
    return is_new
