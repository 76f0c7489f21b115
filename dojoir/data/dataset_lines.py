"""The lines of a data set, and what `dataset.json` says of it. A change of a field raises VERSION.

Every line has all fields, each always of one type, so that `json` and `datasets` read the files as they are:
what has names of its own, such as sizes, is a list of pairs."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

FORMAT, VERSION = "dojoir-dataset", 1

STEPS, EPISODES, ABOUT = "steps.jsonl", "episodes.jsonl", "dataset.json"

Split = Literal["train", "dev", "held-out"]
Label = Literal["faster", "slower", "same", "unsure", "failed", "not-evaluated"]

NOT_EVALUATED = "not-evaluated"
"""The status of a state on the way to others that nobody evaluated."""


@dataclass(frozen=True)
class RecordedSize:
    """A runtime size."""

    name: str
    value: int


@dataclass(frozen=True)
class Offer:
    """A move that was drawn, listed or made at a state, and what the checker said of it. That is `legal`, the code
    of a refusal, `refused` where it was not shown to be legal within the steps of a draw, or `candidate` where it
    could be written and was not asked of the checker."""

    move: str
    verdict: str


@dataclass(frozen=True)
class Timing:
    """An evaluation: the status (`not-evaluated` where there is none), the reason where it failed, and seconds of a
    call with their interval of 95% confidence; null where nothing was timed."""

    status: str
    reason: str
    seconds: float | None
    low: float | None
    high: float | None


@dataclass(frozen=True)
class Later:
    """The best state that was reached from a step on, the state after it among them. Its hash, its seconds with
    their interval, how many times as fast as the start that is, and after how many more moves. Null where none was
    timed."""

    hash: str
    seconds: float
    low: float | None
    high: float | None
    speed: float | None
    moves: int


@dataclass(frozen=True)
class Profile:
    """The work of a text at its sizes (operations on floats, bytes of its arrays once), and the rates that
    the time of the state makes of that (GFLOP/s, GB/s). `kind` and `why` say what bounds the state, where that
    was measured on request; they are empty else."""

    flops: int
    bytes: int
    gflops: float | None
    gbytes: float | None
    kind: str
    why: str


@dataclass(frozen=True)
class Played:
    """The fields that steps and episodes share: where they come from, and how states were timed. `id` is the same
    for the same in the same context; `start` is the hash of the first kernel."""

    id: str
    run: str
    task: str
    kernel: str
    start: str
    split: Split
    machine: str
    target: str
    sizes: tuple[RecordedSize, ...]
    threads: int
    protocol: str


@dataclass(frozen=True)
class RecordedStep(Played):
    """A step: the state before as text, the moves offered, the one made, the state after, and what became of
    that. `way` are the moves from the start to the state before. `speed` is how many times as fast as the start
    the state after is. `label` compares the times of both states: `unsure` where their intervals meet and
    neither is within 2% of the other, `failed` for a state that is wrong, crashed or could not be built.
    `features` are those of the text before, `features_after` of the one after."""

    versions: str
    way: tuple[str, ...]
    before: str
    text: str
    timing_before: Timing
    offered: tuple[Offer, ...]
    move: str
    after: str
    text_after: str
    timing: Timing
    speed: float | None
    label: Label
    best_later: Later | None
    features: Mapping[str, float]
    features_after: Mapping[str, float]
    profile: Profile


@dataclass(frozen=True)
class RecordedEpisode(Played):
    """A way from the start to a state that none follows, or to the answer of a run: the moves, and after each
    the hash, the status and the seconds. `best_at` is the number of the fastest, from 1; null where none was
    timed."""

    moves: tuple[str, ...]
    states: tuple[str, ...]
    statuses: tuple[str, ...]
    seconds: tuple[float | None, ...]
    start_seconds: float | None
    best_at: int | None
    best_speed: float | None
    is_answer: bool
    stopped: str


@dataclass(frozen=True)
class RecordedRun:
    """A run that a data set was made of: its name, the verb, the hash of its start, and the SHA-256 of its
    states."""

    name: str
    verb: str
    kernel: str
    start: str
    states: str


@dataclass(frozen=True)
class RecordedStart:
    """A start: its kernel, its text and the split of all that begins there."""

    kernel: str
    split: Split
    text: str


@dataclass(frozen=True)
class File:
    """A file of a data set: lines, bytes, SHA-256."""

    lines: int
    size: int
    sha256: str


@dataclass(frozen=True)
class Dataset:
    """The record of a data set: counts (of steps in all, by split, label and kernel), the files with their hashes,
    the starts by their hash. Then come the runs, the filters, the versions of what made it, and what was left out
    and why."""

    format: str
    version: int
    dojoir: str
    counts: Mapping[str, int]
    splits: Mapping[str, int]
    labels: Mapping[str, int]
    kernels: Mapping[str, int]
    files: Mapping[str, File]
    starts: Mapping[str, RecordedStart]
    runs: tuple[RecordedRun, ...]
    filters: Mapping[str, str]
    versions: tuple[str, ...]
    machines: tuple[str, ...]
    duplicates: int
    left_out: tuple[str, ...] = field(default_factory=tuple)


@dataclass(frozen=True)
class ChatMessage:
    """A message of a chat."""

    role: Literal["system", "user", "assistant"]
    content: str


@dataclass(frozen=True)
class TrainingChat:
    """A question and its answer as a chat, of the step with this id."""

    id: str
    kernel: str
    split: Split
    messages: tuple[ChatMessage, ...]


@dataclass(frozen=True)
class Pair:
    """Two moves of one state whose intervals do not meet. The question, the answer with the faster one
    (`chosen`) and that with the slower one, and how many times as fast the one is as the other."""

    id: str
    kernel: str
    split: Split
    prompt: tuple[ChatMessage, ...]
    chosen: tuple[ChatMessage, ...]
    rejected: tuple[ChatMessage, ...]
    ratio: float
