"""The options of `llm:…`, each with its default."""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Annotated, Any

import dojoir
from dojoir.support.public import Amount, Count, Natural, Seconds, Within, public_class


@public_class
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
    prices: tuple[Amount, Amount] | None = None
    plans: Count = 4
    width: Count = 3
    rounds: Count = 1000
    patience: Count = 3
    gain: Amount = 0.01
    near: Annotated[float, Within(0, 10)] = 0.9
    turns: Natural = 6
    repairs: Natural = 2
    listed: Natural = 24
    choices: Natural = 12
    attempts: Count = 5
    timeout: Seconds = 120.0
    most_tokens: Annotated[int, Within(64)] = 4096
    notes: str | os.PathLike[str] | None = None
    runs: str | os.PathLike[str] | None = None
    model: Callable[..., Any] | None = None
    """A function that makes the model from a seed, in place of one of a server: for tests and agents of one's
    own."""

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
