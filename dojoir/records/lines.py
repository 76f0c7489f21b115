"""The content of a line of exported records, which is validated: it may come from anywhere.

A line is refused where a text of it cannot be written (a lone surrogate, a zero), or a number has no end, is none,
or is beyond what a database holds, a count is below 0, an interval is reversed, or a status is unknown.
"""

from __future__ import annotations

import contextlib
import json
import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any, Never

import dojoir
from dojoir import runtime
from dojoir.records.contexts import Context, sizes_text
from dojoir.records.state import State, from_lists

MOST = 2**31 - 1
"""The largest count that a database holds."""

LARGEST_SIZE = 2**63 - 1

LATEST = 1e11
"""Seconds since 1970 until far beyond what any clock says."""

LONGEST = {"target": 100, "digest": 128}
"""How many characters a database holds of some texts."""

STATUSES = ("ok", "wrong", "crashed", "hung", "memory", "build-failed", "cut", "lost")
"""Those of `dojoir.runtime.Evaluation`."""

TIMED = ("ok", "cut")
"""The statuses of what has a time."""


def read_line(line: str) -> Any:
    """The data of a line. Raises ArgumentError, `bad-record`, for what is no JSON, and for numbers and texts that
    are none."""
    try:
        data = json.loads(line, parse_constant=_refused)
    except (ValueError, RecursionError):
        raise dojoir.ArgumentError("it is not JSON", "bad-record") from None
    _check_texts(data)
    return data


def _refused(word: str) -> Never:
    raise dojoir.ArgumentError(f"{word} is no number", "bad-record")


def _check_texts(data: Any) -> None:
    """Raises ArgumentError where a text in some data cannot be written."""
    open_ = [data]
    while open_:
        match open_.pop():
            case str(text):
                if "\0" in text or any(0xD800 <= ord(one) < 0xE000 for one in text):
                    raise dojoir.ArgumentError("a text in it has characters that cannot be written", "bad-record")
            case dict() as fields:
                open_ += [*fields, *fields.values()]
            case list() as items:
                open_ += items


FIELDS = ("result", "of", "status", "seconds", "interval", "samples", "cases", "digest", "stages", "reason", "made",
          "context")  # fmt: skip
"""Of the line of a result, and no others."""


CONTEXT = ("machine", "facts", "target", "sizes", "threads", "protocol", "versions")
"""The fields of a context in such a line."""


def states_in(lines: Iterable[Mapping[str, Any]]) -> Iterator[State]:
    """The states that some lines have, in their order: each where it was reached, and again with every evaluation
    of it. What is no line of a state is left out."""
    known: dict[tuple[str, str], State] = {}
    names: dict[str, str] = {}
    for line in lines:
        match line:
            case {"kernel": str(hash), "text": str(text)}:
                names[hash] = text.partition("kernel ")[2].partition("(")[0][:64]
            case {
                "state": str(hash),
                "of": str(of),
                "parent": str() | None as parent,
                "move": str() | None as move,
            }:
                if (of, hash) not in known:
                    length = known[of, parent].length + 1 if parent is not None and (of, parent) in known else 0
                    known[of, hash] = State(of, hash, parent, move, kernel=names.get(of, ""), length=length)
                    yield known[of, hash]
            case {"result": str(hash), "of": str(of)} if (of, hash) in known:
                with contextlib.suppress(dojoir.ArgumentError):
                    yield evaluated(known[of, hash], line)


def evaluated(state: State, line: Mapping[str, Any]) -> State:
    """A state with the evaluation that a line has of it. Raises ArgumentError, `bad-record`."""
    outcome, made = result_of(state.hash, line)
    return replace(state, outcome=outcome, context=context_of(line.get("context")), made=made)


def check_fields(data: Mapping[str, Any], known: Sequence[str], what: str) -> None:
    """Raises ArgumentError, `bad-record`, for a field that nothing is known of: it is not dropped unsaid."""
    more = [str(name) for name in data if name not in known]
    if more:
        raise _wrong(f"{what} has no field {more[0][:40]!r}")


def result_of(hash: str, data: Mapping[str, Any]) -> tuple[runtime.Evaluation, float]:
    """The result that a line has of a state, and when it was made. Raises ArgumentError, `bad-record`."""
    check_fields(data, FIELDS, "a result")
    status = _text_field(data, "status")
    if status not in STATUSES:
        raise _wrong(f"its status is {status[:40]!r}, which is none of {', '.join(STATUSES)}")
    seconds = None if data.get("seconds") is None else _amount(data["seconds"], "seconds", above=0.0)
    if seconds is not None and status not in TIMED:
        raise _wrong(f"it has a time, and its status is {status}")
    interval = None
    if data.get("interval") is not None:
        low, high = (_amount(end, "interval", above=0.0) for end in _pair(data["interval"]))
        if low > high:
            raise _wrong("its interval ends before it begins")
        interval = low, high
    samples = data.get("samples")
    if not isinstance(samples, list):
        raise _wrong("its samples are no list")
    every, counts = from_lists(samples)
    stages = data.get("stages")
    if not isinstance(stages, dict):
        raise _wrong("its stages are no object")
    found = runtime.Evaluation(
        hash, status, seconds, interval, tuple(_amount(one, "samples", above=0.0) for one in every),
        _count(data.get("cases"), "cases", 0, MOST),
        _text_field(data, "digest"),
        {str(name): _amount(value, "stages") for name, value in stages.items()}, _text_field(data, "reason"),
        counts=counts,
    )  # fmt: skip
    made = _amount(data.get("made"), "made")
    if made > LATEST:
        raise _wrong("made is a number of seconds since 1970")
    return found, made


def context_of(data: Any, kernel: dojoir.Kernel | None = None) -> Context:
    """The context that a line has of a result, with the sizes that a kernel has. Raises ArgumentError,
    `bad-record`."""
    if not isinstance(data, dict):
        raise _wrong("its context is no object")
    check_fields(data, CONTEXT, "a context")
    sizes: Any = data.get("sizes")
    each: list[Any] = sizes if isinstance(sizes, list) else [sizes]
    if not each or not all(isinstance(one, dict) for one in each):
        raise _wrong("its sizes are no object, and no list of such")
    for one in each:
        for name, value in one.items():
            _count(value, f"the size {name[:40]}", 1, LARGEST_SIZE)
    return Context(
        _text_field(data, "machine"), _text_field(data, "facts"), _text_field(data, "target"),
        json.dumps(sizes) if kernel is None else sizes_text(kernel, each if isinstance(sizes, list) else each[0]),
        _count(data.get("threads"), "threads", 1, MOST),
        _text_field(data, "protocol"), _text_field(data, "versions"),
    )  # fmt: skip


def _wrong(message: str) -> dojoir.ArgumentError:
    return dojoir.ArgumentError(message, "bad-record")


def _text_field(data: Mapping[str, Any], name: str) -> str:
    value = data.get(name)
    if not isinstance(value, str):
        raise _wrong(f"{name} is no text")
    if len(value) > LONGEST.get(name, MOST):
        raise _wrong(f"{name} has more than {LONGEST[name]} characters")
    return value


def _pair(value: Any) -> list[Any]:
    if not isinstance(value, list) or len(value) != 2:
        raise _wrong("its interval is no pair")
    return value


def _amount(value: Any, name: str, above: float | None = None) -> float:
    """A number that is not below 0, and has an end; or one above 0."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise _wrong(f"{name} is no number")
    try:
        found = float(value)
    except OverflowError:
        found = math.inf
    if not math.isfinite(found) or found < 0 or (above is not None and found <= above):
        raise _wrong(f"{name} is a number {'from 0' if above is None else 'above 0'} that has an end")
    return found


def _count(value: Any, name: str, least: int, most: int) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or not least <= value <= most:
        raise _wrong(f"{name} is a whole number from {least} to {most}")
    return value
