"""The steps and episodes of a run."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any

import dojoir
from dojoir.data.dataset_lines import (
    NOT_EVALUATED,
    Label,
    Offer,
    Profile,
    RecordedEpisode,
    RecordedSize,
    RecordedStep,
    Split,
    Timing,
)
from dojoir.data.trees import TIMED, StateNode, Tree, leaves
from dojoir.records import Context
from dojoir.records.contexts import STATIC

NEAR = 0.02
"""Times are the same within this share, where their intervals meet."""


@dataclass(frozen=True)
class Making:
    """Settings of the steps of a run: the split of the start, and whether each state that was timed is profiled
    again."""

    split: Split
    cards: bool = False


def steps_of(tree: Tree, making: Making) -> Iterator[RecordedStep]:
    """A step for each move from a state to another."""
    common = _common(tree)
    if common is None:
        return
    context, sizes = common
    work = _work(tree.start.kernel, sizes)
    about = _about(tree, context, sizes, making.split)
    for node in tree.nodes.values():
        before = node.parent
        if before is None or _elsewhere(node, context) or _elsewhere(before, context):
            continue
        start, seconds, move = tree.start.state.seconds, node.state.seconds, node.way[-1]
        timing = node.timing
        yield RecordedStep(
            id=_id(tree, context, before.kernel.hash, move), versions=context.versions, way=before.way,
            before=before.kernel.hash, text=_text(before.kernel), timing_before=before.timing,
            offered=tuple(Offer(move, before.offered[move]) for move in sorted(before.offered)), move=move,
            after=node.kernel.hash, text_after=_text(node.kernel), timing=timing,
            speed=start / seconds if start and seconds and timing.status in TIMED else None,
            label=label(before.timing, timing), best_later=node.best,
            features=_features(before.kernel, sizes), features_after=_features(node.kernel, sizes),
            profile=_profile(node, work, context, sizes, making.cards), **about,
        )  # fmt: skip


def episodes_of(tree: Tree, making: Making) -> Iterator[RecordedEpisode]:
    """An episode for each way to a state that none follows, and to the answer."""
    common = _common(tree)
    if common is None:
        return
    context, sizes = common
    about = _about(tree, context, sizes, making.split)
    for leaf, is_answer in leaves(tree):
        way: list[StateNode] = []
        at: StateNode | None = leaf
        while at is not None and at.parent is not None:
            way.append(at)
            at = at.parent
        way.reverse()
        if any(_elsewhere(node, context) for node in way):
            continue
        start = tree.start.state.seconds
        timed = [(node.state.seconds, number) for number, node in enumerate(way, 1)
                 if node.state.seconds and node.state.status in TIMED]  # fmt: skip
        best = min(timed, default=None)
        yield RecordedEpisode(
            id=_id(tree, context, leaf.kernel.hash, "episode"), moves=leaf.way,
            states=tuple(node.kernel.hash for node in way), statuses=tuple(node.timing.status for node in way),
            seconds=tuple(node.state.seconds for node in way), start_seconds=start,
            best_at=None if best is None else best[1],
            best_speed=None if best is None or not start or not best[0] else start / best[0],
            is_answer=is_answer, stopped=tree.bundle.run.stopped, **about,
        )  # fmt: skip


def label(before: Timing, after: Timing) -> Label:
    """How the state after a move compares with the one before it."""
    if after.status == NOT_EVALUATED:
        return "not-evaluated"
    if after.status not in TIMED:
        return "failed"
    if before.status == NOT_EVALUATED or not before.seconds or not after.seconds:
        return "unsure"
    if after.high is not None and before.low is not None and after.high < before.low:
        return "faster"
    if before.high is not None and after.low is not None and after.low > before.high:
        return "slower"
    if after.low is None and after.seconds > 1.5 * before.seconds:  # it was cut: called twice, and left
        return "slower"
    return "same" if abs(after.seconds / before.seconds - 1) <= NEAR else "unsure"


def _common(tree: Tree) -> tuple[Context, dict[str, int]] | None:
    """The context of a run, and its sizes; None where nothing was evaluated, or at several sizes together."""
    context = tree.context
    if context is None:
        return None
    sizes: Any = json.loads(context.sizes)
    return None if isinstance(sizes, list) else (context, dict(sizes))


def _elsewhere(node: StateNode, context: Context) -> bool:
    """Whether a state was evaluated in another context, so that its time is not to be compared."""
    return node.state.context not in (None, context)


def _about(tree: Tree, context: Context, sizes: Mapping[str, int], split: Split) -> dict[str, Any]:
    run = tree.bundle.run
    task = run.settings.get("task", "")
    return {
        "run": run.name, "task": task if isinstance(task, str) else "", "kernel": run.kernel, "start": run.start,
        "split": split, "machine": context.machine, "target": context.target,
        "sizes": tuple(RecordedSize(name, value) for name, value in sorted(sizes.items())),
        "threads": context.threads, "protocol": context.protocol,
    }  # fmt: skip


def _id(tree: Tree, context: Context, state: str, move: str) -> str:
    """The same for the same move at the same state in the same context: by it duplicates are told."""
    at = (context.machine, context.target, context.sizes, str(context.threads), context.protocol)
    words = (tree.bundle.run.start, *at, state, move)
    return hashlib.sha256("\0".join(words).encode()).hexdigest()[:20]


@lru_cache(4096)
def _text(kernel: dojoir.Kernel) -> str:
    return dojoir.to_text(kernel)


def _features(kernel: dojoir.Kernel, sizes: Mapping[str, int]) -> Mapping[str, float]:
    return {name: float(value) for name, value in dojoir.search.features(kernel, sizes).items()}


def _work(kernel: dojoir.Kernel, sizes: Mapping[str, int]) -> Profile:
    cost = dojoir.cost(kernel)
    at = cost.at(**sizes)
    return Profile(int(at.flops), int(at.bytes), None, None, "", "")


def _profile(node: StateNode, work: Profile, context: Context, sizes: Mapping[str, int], cards: bool) -> Profile:
    seconds = node.state.seconds
    if not seconds or node.state.status not in TIMED or context.protocol == STATIC:
        return work
    found = replace(work, gflops=work.flops / seconds / 1e9, gbytes=work.bytes / seconds / 1e9)
    if cards and node.state.status == "ok":
        try:
            card = dojoir.profile(node.kernel, context.target, sizes=sizes, threads=context.threads, counted=False)
        except dojoir.DojoError as error:
            return replace(found, kind="unknown", why=error.diagnostic.message)
        found = replace(found, kind=card.kind, why=card.why)
    return found
