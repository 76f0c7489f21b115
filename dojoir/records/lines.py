"""The lines of exported records, which are validated: they may come from anywhere.

Each kind of line is a dataclass, read by `plain_data`: a text that would control a terminal, a number that has no
end, a count below 0 and a field of another name are refused. Beyond that a time is one of what was timed, an
interval does not end before it begins, and texts are as long as a database holds.
"""

from __future__ import annotations

import contextlib
import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Annotated, Any, Literal

import dojoir
from dojoir import runtime
from dojoir.records.contexts import Context, sizes_text
from dojoir.records.plain_data import from_data, json_of
from dojoir.records.state import State, from_lists
from dojoir.support.public import Amount, Within

MOST = 2**31 - 1
"""The largest count that a database holds."""

LONGEST = {"target": 100, "digest": 128}
"""How many characters a database holds of some texts."""

TIMED = ("ok", "cut")
"""The statuses of what has a time."""

Time = Annotated[float, Within(above=True)]
Size = Annotated[int, Within(1, 2**63 - 1)]


@dataclass(frozen=True)
class KernelLine:
    """A kernel: its hash, and its text."""

    kernel: str
    text: str


@dataclass(frozen=True)
class StateLine:
    """A state by its hash, `of` a kernel: the state before it and the move from there; the kernel itself has
    neither. `choice` is the line of a planner that made the last moves."""

    state: str
    of: str
    parent: str | None
    move: str | None
    choice: str | None = None


@dataclass(frozen=True)
class ResultContext:
    """The context of a result: `sizes` are one or several."""

    machine: str
    facts: str
    target: str
    sizes: Mapping[str, Size] | tuple[Mapping[str, Size], ...]
    threads: Annotated[int, Within(1, MOST)]
    protocol: str
    versions: str


@dataclass(frozen=True)
class ResultLine:
    """The result of a state. `made` is when, in seconds since 1970; `samples` are those of one size, or of each."""

    result: str
    of: str
    status: Literal["ok", "wrong", "crashed", "hung", "memory", "build-failed", "cut", "lost"]
    samples: tuple[Time, ...] | tuple[tuple[Time, ...], ...]
    cases: Annotated[int, Within(0, MOST)]
    digest: str
    stages: Mapping[str, Amount]
    reason: str
    made: Annotated[float, Within(0, 1e11)]
    context: ResultContext
    seconds: Time | None = None
    interval: tuple[Time, Time] | None = None

    def of_state(self, state: State, kernel: dojoir.Kernel | None = None) -> State:
        """The state with this evaluation, at the sizes that a kernel has. Raises ArgumentError, `bad-record`."""
        wrong = ""
        if self.seconds is not None and self.status not in TIMED:
            wrong = f"it has a time, and its status is {self.status}"
        if self.interval is not None and self.interval[0] > self.interval[1]:
            wrong = "its interval ends before it begins"
        at, sizes = self.context, self.context.sizes
        for name, text in (("target", at.target), ("digest", self.digest)):
            if len(text) > LONGEST[name]:
                wrong = f"{name} has more than {LONGEST[name]} characters"
        if wrong or sizes == ():
            raise dojoir.ArgumentError(wrong or "its sizes are none", "bad-record")
        samples, counts = from_lists(self.samples)
        outcome = runtime.Evaluation(
            state.hash, self.status, self.seconds, self.interval, samples, self.cases, self.digest, self.stages,
            self.reason, counts=counts,
        )  # fmt: skip
        text = json.dumps(sizes) if kernel is None else sizes_text(kernel, sizes)
        return replace(state, outcome=outcome, context=Context(**{**vars(at), "sizes": text}), made=self.made)


@dataclass(frozen=True)
class DrawnLine:
    """The moves that a run drew at a state, each with its verdict."""

    drawn: str
    of: str
    moves: tuple[tuple[str, str], ...]
    listed: bool = False


Line = KernelLine | StateLine | ResultLine | DrawnLine
KINDS: Mapping[str, tuple[type[Line], str]] = {
    "kernel": (KernelLine, "a kernel"), "state": (StateLine, "a state"), "result": (ResultLine, "a result"),
    "drawn": (DrawnLine, "what was drawn"),
}  # fmt: skip
"""The kinds of lines by their first field."""


def line_of(data: Any) -> Line:
    """The line in some data. Raises ArgumentError, `bad-record`."""
    kind, name = next((KINDS[one] for one in KINDS if isinstance(data, dict) and one in data), (None, ""))
    if kind is None:
        raise dojoir.ArgumentError("it is no kernel, state or result", "bad-record")
    return from_data(kind, data, name)


def read_line(text: str) -> Line:
    """The line in a text. Raises ArgumentError, `bad-record`."""
    return line_of(json_of(text, "it"))


def states_in(lines: Iterable[Mapping[str, Any]]) -> Iterator[State]:
    """The states that some lines have, in their order: each where it was reached, and again with every evaluation
    of it. What is no line of a state is left out."""
    known: dict[tuple[str, str], State] = {}
    names: dict[str, str] = {}
    for data in lines:
        with contextlib.suppress(dojoir.ArgumentError):
            match line_of(data):
                case KernelLine(hash, text):
                    names[hash] = text.partition("kernel ")[2].partition("(")[0][:64]
                case StateLine(hash, of, parent, move, choice) if (of, hash) not in known:
                    length = known[of, parent].length + 1 if parent is not None and (of, parent) in known else 0
                    state = State(of, hash, parent, move, kernel=names.get(of, ""), length=length, choice=choice)
                    known[of, hash] = state
                    yield state
                case ResultLine(hash, of) as line if (of, hash) in known:
                    yield line.of_state(known[of, hash])
