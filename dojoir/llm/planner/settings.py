"""The options of `llm:…`, each with its default."""

from __future__ import annotations

import dataclasses
import math
import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import dojoir

_WHOLE: Mapping[str, int] = {
    "plans": 1, "width": 1, "rounds": 1, "patience": 1, "turns": 0, "repairs": 0, "listed": 0, "choices": 0,
    "attempts": 1, "most_tokens": 64,
}  # fmt: skip
"""The whole numbers, each with the least that it may be."""


@dataclass(frozen=True)
class Settings:
    """Options. `base_url` is the address of a compatible server; `chat` the file that exchanges are appended to;
    `replay_chat` one that is replayed, without a model; `prices` of a million tokens, read and written. `plans`
    are asked for in a question, the search continues from `width` states, `rounds` at most. It ends after
    `patience` rounds without a gain of more than `gain`, and where the best reaches the share `near` of a ceiling.
    A conversation has `turns` with tools and `repairs` of answers of which nothing could be made; `listed` moves
    and `choices` are shown by number. A question is asked `attempts` times, `timeout` seconds each, with
    `most_tokens` for the answer. `notes` is a folder of the user's notes for the tool `know`, `runs` one of
    bundles, of which it tells what helped."""

    base_url: str | None = None
    chat: str | os.PathLike[str] | None = None
    replay_chat: str | os.PathLike[str] | None = None
    prices: tuple[float, float] | None = None
    plans: int = 4
    width: int = 3
    rounds: int = 1000
    patience: int = 3
    gain: float = 0.01
    near: float = 0.9
    turns: int = 6
    repairs: int = 2
    listed: int = 40
    choices: int = 12
    attempts: int = 5
    timeout: float = 120.0
    most_tokens: int = 4096
    notes: str | os.PathLike[str] | None = None
    runs: str | os.PathLike[str] | None = None
    model: Callable[..., Any] | None = None
    """A function that makes the model from a seed, in place of one of a server: for tests and agents of one's
    own."""

    def __post_init__(self) -> None:
        """Raises ArgumentError, `bad-arguments`, for a value that does not fit."""
        for name, least in _WHOLE.items():
            value = getattr(self, name)
            if isinstance(value, bool) or not isinstance(value, int) or value < least:
                raise _wrong(name, f"a whole number from {least}", value)
        for name, most in (("gain", math.inf), ("near", 10.0), ("timeout", 86400.0)):
            value = getattr(self, name)
            fits = isinstance(value, int | float) and not isinstance(value, bool) and 0 <= value <= most
            if not fits or (name == "timeout" and value == 0):
                raise _wrong(name, "a number from 0" if name != "timeout" else "a number of seconds", value)
        for name in ("base_url", "chat", "replay_chat", "notes", "runs"):
            value = getattr(self, name)
            if value is not None and not isinstance(value, str | os.PathLike):
                raise _wrong(name, "a text", value)
        if self.prices is not None:
            fits = isinstance(self.prices, tuple | list) and len(self.prices) == 2
            if not fits or any(not isinstance(one, int | float) or not 0 <= one < 1e9 for one in self.prices):
                raise _wrong("prices", "two numbers, of a million tokens that are read and that are written",
                             self.prices)  # fmt: skip

    @property
    def given(self) -> dict[str, object]:
        """The options that are not as by default."""
        fields = dataclasses.fields(self)
        return {one.name: getattr(self, one.name) for one in fields if getattr(self, one.name) != one.default}

    @classmethod
    def of(cls, options: Mapping[str, object]) -> Settings:
        """The settings of some options. Raises ArgumentError, `bad-arguments`, for one that there is not."""
        known = [field.name for field in dataclasses.fields(cls)]
        unknown = [name for name in options if name not in known]
        if unknown:
            message = f"llm has no option {unknown[0]}: they are {', '.join(known)}"
            raise dojoir.ArgumentError(message, "bad-arguments")
        given: dict[str, Any] = dict(options)
        return cls(**given)


def _wrong(name: str, what: str, value: object) -> dojoir.ArgumentError:
    shown = repr(value) if isinstance(value, int | float | str) else type(value).__name__
    return dojoir.ArgumentError(f"{name} is {what}, not {shown[:60]}", "bad-arguments")
