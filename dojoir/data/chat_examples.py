"""A state as a question, and a move with its reason as the answer: what a language model is taught by.

The question has the text, the sizes, the machine, what was known of the state before a move was made, and the legal
moves by number in the order of their texts. Nothing in it follows from what came after.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence

import dojoir
from dojoir.data.dataset_lines import ChatMessage, Later, Pair, RecordedStep, Timing, TrainingChat
from dojoir.data.trees import TIMED
from dojoir.support.seconds import format_seconds

SYSTEM = (
    "You schedule numerical kernels in dojoir. A state is a kernel as text; each move is proved to keep its "
    "meaning. Choose the move that leads to the fastest kernel. Answer with its number, the move, and the reason."
)

MOST = 60
"""How many moves a question has at most: of more, those that the numbers of all are spread over evenly."""

GAIN = 1.05
"""A state gets a chat where one so many times as fast was reached from it: the best of many times of one
kernel is faster than the first by some percent."""

MOST_PAIRS = 4
"""How many pairs are taken of a state, those that are farthest apart first."""

SHOWN = ("flops", "instances", "vector instances", "iterations", "scopes", "leaf extent")
"""The features of a card, where the state has them."""


def by_state(steps: object) -> Iterator[list[RecordedStep]]:
    """The steps that were made at the same state in the same context, together. Raises ArgumentError for what is no
    iterable of steps."""
    groups: dict[tuple[object, ...], list[RecordedStep]] = {}
    if not isinstance(steps, Iterable):
        raise dojoir.ArgumentError("chats and pairs are made of steps, as read_steps gives them", "bad-arguments")
    for step in steps:
        if not isinstance(step, RecordedStep):
            message = f"chats and pairs are made of steps, not of a {type(step).__name__}"
            raise dojoir.ArgumentError(message, "bad-arguments")
        key = (step.start, step.before, step.machine, step.target, step.sizes, step.threads, step.protocol)
        groups.setdefault(key, []).append(step)
    yield from groups.values()


def offered(group: Sequence[RecordedStep]) -> list[str]:
    """The legal moves of a state, in the order of their texts: those that were drawn, listed or made there."""
    legal = {one.move for step in group for one in step.offered if one.verdict == "legal"}
    return sorted(legal | {step.move for step in group})


def chosen_moves(moves: Sequence[str], needed: Iterable[str]) -> list[str]:
    """At most MOST of some moves in their order, those that are needed among them."""
    must = {*needed}
    others = [move for move in moves if move not in must]
    room = max(0, MOST - len(must))
    if len(others) > room:
        others = [others[number * len(others) // room] for number in range(room)] if room else []
    return sorted({*others, *must})


def question(group: Sequence[RecordedStep], moves: Sequence[str]) -> tuple[ChatMessage, ChatMessage]:
    """The question at a state, as two messages."""
    step = group[0]
    sizes = ", ".join(f"{one.name} = {one.value}" for one in step.sizes)
    seconds = step.timing_before.seconds
    is_static = step.protocol == "static"
    known = "not timed" if seconds is None else format_seconds(seconds)
    card = [f"time now: {known}{' (estimated)' if is_static and seconds is not None else ''}",
            f"bytes of the arrays: {step.profile.bytes}"]  # fmt: skip
    if seconds and not is_static:
        rates = f"{step.profile.flops / seconds / 1e9:.3g} GFLOP/s, {step.profile.bytes / seconds / 1e9:.3g} GB/s"
        card.append(f"rates: {rates}")
    card += [f"{name}: {step.features[name]:.6g}" for name in SHOWN if name in step.features]
    made = [f"{number}. {move}" for number, move in enumerate(moves, 1)]
    text = "\n".join([
        f"Machine: {step.machine}, target {step.target}, {step.threads} thread{'s' if step.threads > 1 else ''}",
        f"Sizes: {sizes or 'none'}", f"Moves made so far: {len(step.way)}", "",
        "```dojo", step.text.rstrip(), "```", "", "Card:", *(f"- {line}" for line in card), "",
        "Legal moves:", *made,
    ])  # fmt: skip
    return ChatMessage("system", SYSTEM), ChatMessage("user", text)


def answer(step: RecordedStep, moves: Sequence[str], with_later: bool = True) -> ChatMessage:
    """The answer that a step was, with what was measured."""
    how = "estimated" if step.protocol == "static" else "measured"
    reasons = []
    before, after = step.timing_before, step.timing
    if before.seconds and after.seconds and after.status in TIMED:
        gained = before.seconds / after.seconds
        between = ""
        if after.low and after.high and before.low and before.high and how == "measured":
            between = f" ({before.low / after.high:.3g} to {before.high / after.low:.3g})"
        reasons.append(f"{how}: {gained:.3g}x{between} as fast after it")
    later = step.best_later
    if with_later and later is not None and later.moves and before.seconds:
        more = "move" if later.moves == 1 else "moves"
        reasons.append(f"{before.seconds / later.seconds:.3g}x was reached {later.moves} {more} later")
    number = moves.index(step.move) + 1
    return ChatMessage("assistant", f"{number}: {step.move}\n{'; '.join(reasons) or 'not timed'}.")


def chats(
    steps: Iterable[RecordedStep], takes: Callable[[RecordedStep], bool] | None = None
) -> Iterator[TrainingChat]:
    """A chat for each state from which something was reached that is faster by GAIN at least, its interval
    below that of the state: the move that led to the fastest. `takes` says which steps may be answers; what is
    offered beside them does not change."""
    for group in by_state(steps):
        before = group[0].timing_before
        timed = [step for step in group if step.best_later is not None]
        moves = offered(group)
        if not timed or not before.seconds or len(moves) < 2:
            continue
        best = min(timed, key=lambda step: (step.best_later.seconds if step.best_later else 0.0, step.id))
        if best.best_later is None or not _is_faster(best.best_later, before) or (takes and not takes(best)):
            continue
        asked = chosen_moves(moves, [best.move])
        yield TrainingChat(best.id, best.kernel, best.split, (*question(group, asked), answer(best, asked)))


def _is_faster(later: Later, before: Timing) -> bool:
    """Whether what was reached is faster for sure."""
    if not before.seconds or before.low is None or later.high is None:
        return False
    return later.high < before.low and before.seconds / later.seconds >= GAIN


def pairs(steps: Iterable[RecordedStep], takes: Callable[[RecordedStep], bool] | None = None) -> Iterator[Pair]:
    """Two moves of a state, both timed to the end, whose intervals do not meet. `takes` says which steps may be the
    faster one."""
    for group in by_state(steps):
        timed = [step for step in group if step.timing.status == "ok" and step.timing.high is not None]
        timed.sort(key=lambda step: (step.timing.seconds or 0.0, step.id))
        found = []
        for n, fast in enumerate(timed):
            if takes and not takes(fast):
                continue
            for slow in timed[n + 1 :]:
                if (fast.timing.high or 0.0) < (slow.timing.low or 0.0):
                    ratio = (slow.timing.seconds or 0.0) / (fast.timing.seconds or 1.0)
                    found.append((ratio, fast, slow))
        found.sort(key=lambda one: (-one[0], one[1].id, one[2].id))
        for ratio, fast, slow in found[:MOST_PAIRS]:
            asked = chosen_moves(offered(group), [fast.move, slow.move])
            yield Pair(
                f"{fast.id}-{slow.id}", fast.kernel, fast.split, question(group, asked),
                (answer(fast, asked, with_later=False),), (answer(slow, asked, with_later=False),), ratio,
            )  # fmt: skip
