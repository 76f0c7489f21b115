"""A question to a language model and its reply, whatever protocol they go by."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, Protocol

CHARACTERS_OF_A_TOKEN = 4
"""About how many characters a token has, where a server does not say how many there were."""

Stopped = Literal["end", "tools", "length", "refused"]


@dataclass(frozen=True)
class ToolCall:
    """A call of a tool: `arguments` is the JSON that the model wrote, which may be broken."""

    id: str
    name: str
    arguments: str


@dataclass(frozen=True)
class Message:
    """A message of a conversation. `calls` are those of an assistant; a message of a tool `answers` the call of
    that id."""

    role: Literal["user", "assistant", "tool"]
    text: str = ""
    calls: tuple[ToolCall, ...] = ()
    answers: str = ""


@dataclass(frozen=True)
class Tool:
    """A tool that a model may call; `schema` is the JSON schema of its arguments, an object."""

    name: str
    about: str
    schema: Mapping[str, Any]


@dataclass(frozen=True)
class Question:
    """A conversation to go on with. `must` names the one tool that has to be called, if any; `facts` are the same
    question as data, which is not sent: `llm:random` draws from it."""

    system: str
    messages: tuple[Message, ...]
    tools: tuple[Tool, ...] = ()
    must: str = ""
    most_tokens: int = 4096
    facts: Mapping[str, Any] = field(default_factory=dict)

    @property
    def about_tokens(self) -> int:
        """About how many tokens are sent."""
        parts = [self.system, *(tool.about + str(tool.schema) for tool in self.tools)]
        for message in self.messages:
            parts += [message.text, *(call.arguments for call in message.calls)]
        return 1 + sum(map(len, parts)) // CHARACTERS_OF_A_TOKEN


@dataclass(frozen=True)
class Reply:
    """The reply of a model: text, calls of tools, the reason why it stopped, and the tokens that were read and
    written."""

    text: str
    calls: tuple[ToolCall, ...] = ()
    stopped: Stopped = "end"
    tokens_in: int = 0
    tokens_out: int = 0


def object_in(text: str) -> dict[str, Any] | None:
    """The object of JSON that a model wrote; None for what is none."""
    try:
        found = json.loads(text or "{}")
    except (ValueError, RecursionError):
        return None
    return found if isinstance(found, dict) else None


class ModelError(Exception):
    """No reply: the reason; whether it may be asked `again`; and the seconds that the server asks to wait."""

    def __init__(self, reason: str, *, again: bool = False, wait: float | None = None) -> None:
        super().__init__(reason)
        self.reason, self.again, self.wait = reason, again, wait


class Model(Protocol):
    """A language model. `name` is how it is called in records."""

    @property
    def name(self) -> str: ...

    def ask(self, question: Question, seconds: float) -> Reply:
        """The reply, within some seconds. Raises ModelError."""
