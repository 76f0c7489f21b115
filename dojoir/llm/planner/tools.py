"""The tools that a model may ask before it answers: what is known, why a move is legal or not, what could be
tried."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

import dojoir
from dojoir.cli.arguments import schema_of
from dojoir.know import Document, known
from dojoir.llm.answers import explained, of_verdict, planned
from dojoir.llm.models.exchange import Tool, ToolCall, object_in
from dojoir.llm.planner.answer import ANSWER
from dojoir.llm.planner.tries import Try

MOST_RESULT = 6000
"""The most characters of the answer of a tool."""


def _tool(name: str, about: str, *given: str) -> Tool:
    """A tool with the arguments of `dojoir.cli.arguments`, which are all needed but for a state."""
    properties = {one: {**schema_of(name, one), "maxLength": 1000} if one != "state"
                  else schema_of(name, one, "integer") for one in given}  # fmt: skip
    required = [one for one in given if one != "state"]
    return Tool(name, about, {"type": "object", "properties": properties, "required": required,
                              "additionalProperties": False})  # fmt: skip


TOOLS = (
    _tool("know", "What is written down: by words, or the name of a code, move, pass, mark, rule or structure.",
          "question"),
    _tool("explain", "Why a move is legal or not at a state, and what the code of a refusal means.", "move",
          "state"),
    _tool("suggest", "The verdict on a move at a state; its hint names the nearest legal one.", "move",
          "state"),
    _tool("plan", "Passes and structures that fit a state, the best first by an estimate from the texts.",
          "state"),
    ANSWER,
)  # fmt: skip
"""Those of every question."""


class Tools:
    """Answers calls about some states by number; `notes` are documents that `know` searches as well."""

    def __init__(self, target: str, sizes: Mapping[str, int], threads: int, notes: Sequence[Document] = ()) -> None:
        self.target, self.sizes, self.threads, self.notes = target, dict(sizes), threads, tuple(notes)

    def answer(self, call: ToolCall, state: Try, states: Mapping[int, Try]) -> str:
        """The answer of a tool, as JSON; an error is an answer too."""
        try:
            return _shown(self._answer(call, state, states))
        except dojoir.DojoError as error:
            return _shown({"status": "error", "code": error.diagnostic.code,
                           "message": error.diagnostic.message[:1000]})  # fmt: skip

    def _answer(self, call: ToolCall, state: Try, states: Mapping[int, Try]) -> dict[str, Any]:
        given = _arguments(call)
        number = given.get("state", state.number)
        if isinstance(number, bool) or not isinstance(number, int) or number not in states:
            raise dojoir.ArgumentError(
                f"there is no state of that number; there are {len(states)}", "bad-arguments"
            )
        trace = states[number].trace
        match call.name:
            case "know":
                hits = known(_text_argument(given, "question"), count=4, more=self.notes)
                return {"status": "ok", "know": [hit.to_json() for hit in hits]}
            case "explain":
                return explained(trace.kernel, _text_argument(given, "move"))
            case "suggest":
                return of_verdict(dojoir.suggest(trace.kernel, _text_argument(given, "move")))
            case "plan":
                return {"status": "ok", **planned(trace, self.sizes, self.target, self.threads, 12)}
        names = ", ".join(one.name for one in TOOLS)
        raise dojoir.ArgumentError(f"there is no tool {call.name[:40]!r}; they are {names}", "bad-arguments")


def _arguments(call: ToolCall) -> dict[str, Any]:
    found = object_in(call.arguments)
    if found is None:
        raise dojoir.ArgumentError(f"the arguments of {call.name[:40]} are no object of JSON", "bad-arguments")
    return found


def _text_argument(given: Mapping[str, Any], name: str) -> str:
    value = given.get(name)
    if not isinstance(value, str) or not value.strip():
        raise dojoir.ArgumentError(f"{name} is a text", "bad-arguments")
    return value[:1000]


def _shown(value: Mapping[str, Any]) -> str:
    text = json.dumps(value, default=str)
    return text if len(text) <= MOST_RESULT else f"{text[:MOST_RESULT]} … (the rest is left out)"
