"""Messages by the client of Anthropic."""

from __future__ import annotations

import json
from functools import cached_property
from typing import Any

from dojoir.llm.models.connection import Connection, Gathered, counted, each
from dojoir.llm.models.exchange import (
    CHARACTERS_OF_A_TOKEN,
    Message,
    ModelError,
    Question,
    Reply,
    Stopped,
    object_in,
)
from dojoir.search.needs import needed

STOPPED: dict[str, Stopped] = {
    "end_turn": "end", "stop_sequence": "end", "tool_use": "tools", "max_tokens": "length", "refusal": "refused",
}  # fmt: skip


class AnthropicMessages:
    """A model behind messages. Raises ToolchainError, `missing-package`, without the client; ArgumentError as
    `Connection`."""

    def __init__(self, model: str, base_url: str | None = None) -> None:
        self.client_module = needed("anthropic", "llm", "a model of anthropic/")
        self.model, self.name = model, f"anthropic/{model}"
        self.connection = Connection("ANTHROPIC_API_KEY", base_url)

    @cached_property
    def client(self) -> Any:
        """The client; it asks each question once, as retries are counted by who asks."""
        made: Any = self.client_module
        return made.Anthropic(api_key=self.connection.key, base_url=self.connection.base_url, max_retries=0)

    def ask(self, question: Question, seconds: float) -> Reply:
        """The reply, within some seconds. Raises ModelError."""
        more: dict[str, Any] = {}
        if question.tools:
            more["tools"] = [
                {"name": one.name, "description": one.about, "input_schema": one.schema} for one in question.tools
            ]
            more["tool_choice"] = {"type": "tool", "name": question.must} if question.must else {"type": "auto"}
        # the same in each question: the server keeps what is sent up to the mark, tools and system prompt
        kept = {"type": "text", "text": question.system, "cache_control": {"type": "ephemeral"}}
        gathered, reason, read, written = Gathered(seconds), "", 0, 0
        with self.connection.told(self.client_module):
            stream = self.client.messages.create(
                model=self.model, system=[kept], messages=_messages(question.messages), stream=True,
                max_tokens=question.most_tokens, timeout=seconds, **more,
            )  # fmt: skip
            for event in each(stream, gathered):
                if isinstance(event, dict):
                    reason, read, written = _heard(event, gathered)
                    break
                match event.type:
                    case "message_start":
                        read = _read(event.message.usage.model_dump())
                    case "content_block_start" if event.content_block.type == "tool_use":
                        gathered.call(event.index, event.content_block.id, event.content_block.name, None)
                    case "content_block_delta" if event.delta.type == "text_delta":
                        gathered.text(event.delta.text)
                    case "content_block_delta" if event.delta.type == "input_json_delta":
                        gathered.call(event.index, None, None, event.delta.partial_json)
                    case "message_delta":
                        reason = event.delta.stop_reason or reason
                        written = counted(event.usage.output_tokens) or written
            if not reason and not gathered.is_whole:
                raise ModelError("the answer of the server was cut off", again=True)
            text, calls = gathered.said(self.connection.clean)
            return Reply(
                text, calls, STOPPED.get(reason, "end"), read or question.about_tokens,
                written or gathered.length // CHARACTERS_OF_A_TOKEN,
            )  # fmt: skip


def _read(usage: dict[str, Any]) -> int:
    """The tokens that were read, also those from what the server kept, and into it."""
    names = ("input_tokens", "cache_read_input_tokens", "cache_creation_input_tokens")
    return sum(counted(usage.get(name)) for name in names)


def _heard(whole: dict[str, Any], gathered: Gathered) -> tuple[str, int, int]:
    """A reply that came in one piece: why it ended, and the tokens that were read and written."""
    for number, block in enumerate(whole.get("content") or ()):
        if block.get("type") == "tool_use":
            gathered.call(number, block.get("id"), block.get("name"), json.dumps(block.get("input") or {}))
        else:
            gathered.text(block.get("text"))
    usage = whole.get("usage") or {}
    return str(whole.get("stop_reason") or "end_turn"), _read(usage), counted(usage.get("output_tokens"))


def _messages(messages: tuple[Message, ...]) -> list[dict[str, Any]]:
    """The messages as blocks; answers of tools that follow each other are one message of the user."""
    found: list[dict[str, Any]] = []
    for message in messages:
        match message.role:
            case "tool":
                block = {"type": "tool_result", "tool_use_id": message.answers, "content": message.text}
                if found and found[-1]["role"] == "user" and isinstance(found[-1]["content"], list):
                    found[-1]["content"].append(block)
                else:
                    found.append({"role": "user", "content": [block]})
            case "assistant":
                blocks: list[dict[str, Any]] = [{"type": "text", "text": message.text}] if message.text else []
                blocks += [
                    {"type": "tool_use", "id": one.id, "name": one.name, "input": object_in(one.arguments) or {}}
                    for one in message.calls
                ]
                found.append({"role": "assistant", "content": blocks or "(nothing)"})
            case "user":
                found.append({"role": "user", "content": message.text})
    return found
