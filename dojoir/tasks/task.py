"""A task: what is given, what is asked, the gates that decide, and what may be spent; and the answer to one."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Annotated, Any, Literal

import dojoir
from dojoir.support.public import Count, Seconds, Within, public

Kind = Literal["optimise", "diagnose", "debug", "reformulate"]
Split = Literal["train", "dev", "held-out"]

KINDS: tuple[Kind, ...] = ("optimise", "diagnose", "debug", "reformulate")
SPLITS: tuple[Split, ...] = ("train", "dev", "held-out")

EVIDENCE_GATES = ("proved", "built", "correct", "deterministic", "honest", "faster")
"""Those of `dojoir gate`, in its order."""

OF_KIND: Mapping[str, tuple[str, ...]] = {
    "optimise": (*EVIDENCE_GATES, "gain"),
    "diagnose": ("named", "bound"),
    "debug": ("repaired", "named"),
    "reformulate": (*EVIDENCE_GATES, "equal", "gain"),
}
"""The gates that a task of a kind may ask. Beside those of `dojoir gate`: the text of an answer computes what the
given one does (`equal`); moves are legal again (`repaired`); the right move is `named`; what bounds the kernel is
named (`bound`); it is `least` times as fast (`gain`)."""

TIMED = ("honest", "faster", "bound")
"""The gates that nothing but a measurement decides."""

ASKED: Mapping[str, str] = {
    "optimise": "Moves from the text to a kernel that is as much faster as the goal says.",
    "diagnose": "The number of the move without which the trace is fastest, and what bounds the trace.",
    "debug": "The number of the move that is illegal or gains nothing, and the moves without it.",
    "reformulate": "A text that computes the same and lets rules make it faster, or moves to such a one.",
}
"""The question of each kind."""


@dataclass(frozen=True)
class Given:
    """The given part of a task: a `kernel` of the library (`library:NAME`) or a `text`, its runtime sizes, and
    for `diagnose` and `debug` the moves of a trace or pipeline, each as a line. `fp` is another floating point
    mode than the text says. `target` and `threads` say what it is run on. Where `stored` is false, an answer that
    comes to what a stored schedule of dojoir makes of the kernel is none."""

    sizes: Mapping[str, int]
    kernel: str = ""
    text: str = ""
    fp: Literal["", "strict", "reassoc", "fast"] = ""
    moves: tuple[str, ...] = ()
    target: str = "llvm"
    threads: Count = 1
    stored: bool = True


@dataclass(frozen=True)
class Goal:
    """The gates that decide, in their order: all of them must pass. `gain` asks that the kernel is at least `least`
    times as fast as each of `beside`. The lower end of the interval of 95% confidence. For `diagnose`, the trace
    without the move that is named is that much faster than with it."""

    gates: tuple[str, ...]
    least: Annotated[float, Within(above=True, most=1e6)] = 1.0
    beside: tuple[str, ...] = ("text",)


@dataclass(frozen=True)
class TaskLimits:
    """The budget of a task: states that are evaluated, and seconds by the clock."""

    states: Count | None = None
    seconds: Seconds | None = None


@dataclass(frozen=True)
class Task:
    """A task. `family` is the kernel that it is about: all texts of it are in one split. `source` says where
    its text comes from: `library`, or `own` for one that was written for the task."""

    name: str
    kind: Kind
    split: Split
    family: str
    about: str
    source: Literal["library", "own"]
    given: Given
    goal: Goal
    budget: TaskLimits = field(default_factory=TaskLimits)

    @cached_property
    def kernel(self) -> dojoir.Kernel:
        """The kernel that is given. Raises DojoError."""
        given = self.given
        if given.text:
            kernel = dojoir.parse(given.text, self.name)
        else:
            kernel = dojoir.kernels.load(given.kernel.removeprefix("library:"))
        dojoir.prove(kernel)
        return kernel.with_fp(given.fp) if given.fp else kernel

    @cached_property
    def trace(self) -> dojoir.Trace:
        """The given moves on the kernel, up to the first that is refused."""
        trace, _ = replayed(self.kernel, self.given.moves)
        return trace

    @public
    def with_limits(self, states: Count | None, seconds: Seconds | None) -> Task:
        """The task with another budget, where one is given: states from 1, seconds above 0. Raises
        ArgumentError."""
        if states is None and seconds is None:
            return self
        return replace(self, budget=TaskLimits(states, seconds))


@dataclass(frozen=True)
class Answer:
    """The answer of an agent. `moves` are those from the given kernel, or from `text`, where a reformulated text
    is answered; `move` is the number of a given move, from 0, and `bound` a word of `dojoir.runtime.Bottleneck`.
    `note` is kept in the report."""

    moves: tuple[str, ...] = ()
    text: str = ""
    move: int | None = None
    bound: str = ""
    note: str = ""


def replayed(kernel: dojoir.Kernel, moves: tuple[str, ...]) -> tuple[dojoir.Trace, tuple[int, str] | None]:
    """The trace of some moves, and the number of the first that is refused with the reason, None where all are
    legal."""
    trace = dojoir.Trace(kernel)
    for number, move in enumerate(moves):
        try:
            trace.apply(move)
        except dojoir.DojoError as error:
            return trace, (number, error.diagnostic.message)
    return trace, None


def without(moves: tuple[str, ...], number: int) -> tuple[str, ...]:
    """The moves but for one."""
    return (*moves[:number], *moves[number + 1 :])


def each_without_one(kernel: dojoir.Kernel, moves: tuple[str, ...]) -> dict[int, dojoir.Trace]:
    """The trace without each of its moves, by the number of that; those of which another is illegal then are left
    out."""
    found = {number: replayed(kernel, without(moves, number)) for number in range(len(moves))}
    return {number: trace for number, (trace, refused) in found.items() if refused is None}


_NAME = re.compile(r"[a-z][a-z0-9_-]{0,59}", re.ASCII)


def wrong(task: Task) -> tuple[str, str] | None:
    """The first field of a task that does not fit the others, and why; None where all do. Raises DojoError for
    its text."""
    given, goal = task.given, task.goal
    found: list[tuple[bool, str, str]] = [
        (not _NAME.fullmatch(task.name), "name", "it has small letters, digits, - and _, 60 at most"),
        (not task.family, "family", "it names the kernel that the task is about"),
        (not task.about, "about", "it says in a sentence what the task is"),
        (bool(given.kernel) == bool(given.text), "given", "it has a kernel or a text: one of them"),
        (bool(given.kernel) and not given.kernel.startswith("library:"), "given.kernel",
         "it is library:NAME; another kernel stands as a text"),
        (bool(given.kernel) != (task.source == "library"), "source",
         "it is library where given.kernel is, else own"),
        ((task.kind in ("diagnose", "debug")) != bool(given.moves), "given.moves",
         "diagnose and debug have moves, and no other kind"),
        (not goal.gates, "goal.gates", "at least one gate decides"),
        (not goal.beside, "goal.beside", "it names at least one peer"),
        (task.budget.states is None and task.budget.seconds is None, "budget", "it has states, seconds or both"),
    ]  # fmt: skip
    for is_wrong, where, why in found:
        if is_wrong:
            return where, why
    order = OF_KIND[task.kind]
    for gate in goal.gates:
        if gate not in order:
            return "goal.gates", f"{gate!r} is no gate of {task.kind}: they are {', '.join(order)}"
    if list(goal.gates) != sorted(set(goal.gates), key=order.index):
        return "goal.gates", f"each comes once, in this order: {', '.join(order)}"
    return _of_text(task)


def _of_text(task: Task) -> tuple[str, str] | None:
    """The field among text, sizes and moves that is wrong, and why."""
    kernel, given = task.kernel, task.given
    if set(given.sizes) != set(kernel.runtime_sizes):
        return "given.sizes", f"{kernel.name} has the runtime sizes {', '.join(kernel.runtime_sizes) or '(none)'}"
    kernel.specialize(**given.sizes)
    _, refused = replayed(kernel, given.moves)
    if task.kind == "diagnose" and refused is not None:
        return "given.moves", f"move {refused[0]} is illegal: {refused[1]}"
    return None


@public
def question(task: Task) -> dict[str, Any]:
    """A task as plain data for an agent: all of it."""
    from dojoir.records.plain_data import to_data

    asked: dict[str, Any] = to_data(task)
    asked["asked"] = ASKED[task.kind]
    asked["given"]["text"] = dojoir.to_text(task.kernel)
    return asked
