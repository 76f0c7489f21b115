"""Chat completions by the client of OpenAI: its own server, and any that is compatible with it."""

from __future__ import annotations

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
    "stop": "end",
    "tool_calls": "tools",
    "length": "length",
    "content_filter": "refused",
}


class OpenAIChat:
    """A model behind chat completions. Raises ToolchainError, `missing-package`, without the client; ArgumentError
    as `Connection`."""

    def __init__(self, model: str, base_url: str | None = None) -> None:
        self.client_module = needed("openai", "llm", "a model of openai/")
        self.model, self.name = model, f"openai/{model}"
        self.connection = Connection("OPENAI_API_KEY", base_url)

    @cached_property
    def client(self) -> Any:
        """The client; it asks each question once, as retries are counted by who asks."""
        made: Any = self.client_module
        return made.OpenAI(api_key=self.connection.key, base_url=self.connection.base_url, max_retries=0)

    def ask(self, question: Question, seconds: float) -> Reply:
        """The reply, within some seconds. Raises ModelError."""
        messages = [{"role": "system", "content": question.system}, *map(_message, question.messages)]
        # compatible servers know the older name of the limit
        limit = "max_completion_tokens" if self.connection.base_url is None else "max_tokens"
        more: dict[str, Any] = {limit: question.most_tokens}
        if question.tools:
            more["tools"] = [
                {"type": "function", "function": {"name": one.name, "description": one.about,
                                                  "parameters": one.schema}}
                for one in question.tools
            ]  # fmt: skip
            chosen = {"type": "function", "function": {"name": question.must}}
            more["tool_choice"] = chosen if question.must else "auto"
        gathered, refusal, reason, usage = Gathered(seconds), [""], "", dict[str, Any]()
        with self.connection.told(self.client_module):
            stream = self.client.chat.completions.create(
                model=self.model, messages=messages, stream=True, stream_options={"include_usage": True},
                timeout=seconds, **more,
            )  # fmt: skip
            for chunk in each(stream, gathered):
                one = chunk if isinstance(chunk, dict) else chunk.model_dump()
                usage = one.get("usage") or usage
                for choice in (one.get("choices") or ())[:1]:
                    reason = choice.get("finish_reason") or ("stop" if "message" in choice else reason)
                    delta = choice.get("message") or choice.get("delta") or {}
                    gathered.text(delta.get("content"))
                    if isinstance(delta.get("refusal"), str):
                        refusal.append(delta["refusal"])
                    for call in delta.get("tool_calls") or ():
                        function = call.get("function") or {}
                        gathered.call(
                            call.get("index"), call.get("id"), function.get("name"), function.get("arguments")
                        )
            if not reason and not gathered.is_whole:
                raise ModelError("the answer of the server was cut off", again=True)
            refused = self.connection.clean("".join(refusal))
            text, calls = gathered.said(self.connection.clean)
            return Reply(
                text or refused[:2000], calls, "refused" if refused else STOPPED.get(reason, "end"),
                counted(usage.get("prompt_tokens")) or question.about_tokens,
                counted(usage.get("completion_tokens")) or gathered.length // CHARACTERS_OF_A_TOKEN,
            )  # fmt: skip


def _message(message: Message) -> dict[str, Any]:
    match message.role:
        case "tool":
            return {"role": "tool", "tool_call_id": message.answers, "content": message.text}
        case "assistant" if message.calls:
            # servers read the arguments again: those that are broken are an empty object
            calls = [
                {"id": one.id, "type": "function", "function": {
                    "name": one.name, "arguments": "{}" if object_in(one.arguments) is None else one.arguments}}
                for one in message.calls
            ]  # fmt: skip
            return {"role": "assistant", "content": message.text or None, "tool_calls": calls}
    return {"role": message.role, "content": message.text}
