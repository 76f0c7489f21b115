"""Is a data set what it says? Its files, its splits, and a sample of its steps, proved again from the start."""

from __future__ import annotations

import hashlib
import random
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import dojoir
from dojoir.data.dataset_lines import Dataset, RecordedEpisode, RecordedStep
from dojoir.data.exporting import counted, read_about, read_episodes, read_steps
from dojoir.data.splitting import shape
from dojoir.support.public import public

SAMPLE = 500
"""How many steps are proved again where nothing is said."""

MOST_WRONG = 20
"""After how many wrong steps a check has seen enough."""


@dataclass(frozen=True)
class Found:
    """The result of a check: how many steps were read, how many of them were proved again, and what is wrong."""

    steps: int
    episodes: int
    proved: int
    wrong: tuple[str, ...]

    @property
    def ok(self) -> bool:
        """Whether nothing is wrong."""
        return not self.wrong

    def __str__(self) -> str:
        what = "nothing is wrong" if self.ok else f"{len(self.wrong)} wrong"
        head = f"{self.steps} steps, {self.episodes} episodes, {self.proved} steps proved again: {what}"
        return "\n".join([head, *self.wrong])


@public
def check(
    folder: str | Path, sample: int = SAMPLE, seed: int = 0, progress: Callable[[int], object] = lambda _: None
) -> Found:
    """Holds a data set to what it says: the digests of its files, counts, no step twice, no kernel in two splits.
    It also proves a sample of the steps again: the moves from the start, and the move of the step, through the
    checker, with the texts and hashes of both states. Raises ArgumentError where it cannot be read."""
    folder = Path(folder)
    about = read_about(folder)
    wrong = [f"{name}: it is not the file that is listed" for name in about.files if _differs(folder, name, about)]
    steps, episodes = [*read_steps(folder)], [*read_episodes(folder)]
    wrong += [*_of_counts(about, steps, episodes), *_of_splits(about, steps, episodes)]
    chosen = steps if sample >= len(steps) else random.Random(seed).sample(steps, sample)
    chosen = sorted(chosen, key=lambda step: (step.start, step.way))  # what begins alike is proved once
    proved = 0
    for step in chosen:
        said = proof_of(step, about)
        if said is None:
            proved += 1
            progress(proved)
        else:
            wrong.append(f"step {step.id}: {said}")
        if len(wrong) > MOST_WRONG:
            break
    return Found(len(steps), len(episodes), proved, tuple(wrong))


def proof_of(step: RecordedStep, about: Dataset) -> str | None:
    """The error of a step, None where all of it is proved again."""
    begun = about.starts.get(step.start)
    if begun is None:
        return "its start is not listed"
    try:
        trace = dojoir.Trace(dojoir.parse(begun.text))
        if trace.start.hash != step.start:
            return "its start has another hash"
        for move in step.way:
            trace.apply(move)
        wrong = _differs_from(trace.kernel, step.before, step.text, "before")
        trace.apply(step.move)
        wrong = wrong or _differs_from(trace.kernel, step.after, step.text_after, "after")
    except dojoir.DojoError as error:
        return error.diagnostic.message
    verdicts = (one.verdict for one in step.offered if one.move == step.move and one.verdict != "legal")
    return wrong or next((f"its own move is said to be {verdict}" for verdict in verdicts), None)


def _differs_from(kernel: dojoir.Kernel, hash: str, text: str, what: str) -> str | None:
    if kernel.hash != hash:
        return f"the moves lead to another kernel than the one {what}"
    if dojoir.to_text(kernel) != text:
        return f"the text {what} is another"
    return None


def _differs(folder: Path, name: str, about: Dataset) -> bool:
    path = folder / name
    if "/" in name or not path.is_file():
        return True
    data = path.read_bytes()
    listed = about.files[name]
    return len(data) != listed.size or hashlib.sha256(data).hexdigest() != listed.sha256


def _of_counts(about: Dataset, steps: Sequence[RecordedStep], episodes: Sequence[RecordedEpisode]) -> list[str]:
    names, told = ("splits", "labels", "kernels"), (about.splits, about.labels, about.kernels)
    said = zip(names, told, counted(steps), strict=True)
    found = [f"the counts of {name} are others" for name, one, other in said if dict(one) != other]
    if about.counts.get("steps") != len(steps) or about.counts.get("episodes") != len(episodes):
        found.append("the counts of steps and episodes are others")
    twice = [one for one, count in Counter(step.id for step in steps).items() if count > 1]
    return [*found, *(f"step {one} is there twice" for one in twice[:3])]


def _of_splits(about: Dataset, steps: Sequence[RecordedStep], episodes: Sequence[RecordedEpisode]) -> list[str]:
    homes: dict[str, set[str]] = {}
    for step in steps:
        homes.setdefault(f"kernel {step.kernel}", set()).add(step.split)
        homes.setdefault(f"start {step.start[:12]}", set()).add(step.split)
    for episode in episodes:
        homes.setdefault(f"start {episode.start[:12]}", set()).add(episode.split)
    for hash, begun in about.starts.items():
        homes.setdefault(f"start {hash[:12]}", set()).add(begun.split)
        try:
            homes.setdefault(f"shape {shape(dojoir.parse(begun.text))[:12]}", set()).add(begun.split)
        except dojoir.DojoError as error:
            homes[f"start {hash[:12]} is no kernel: {error.diagnostic.message}"] = {"train", "dev"}
    return [f"{name} is in two splits: {', '.join(sorted(each))}" for name, each in homes.items() if len(each) > 1]
