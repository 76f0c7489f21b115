"""The answer of a model: its schema, and what is read of it. Whatever a model says is no more than the names of
moves and passes, which the checker judges."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import dojoir
from dojoir.llm.models.exchange import Tool

MOST_PLANS, MOST_STEPS, MOST_STEP, MOST_WORDS = 16, 64, 400, 300
"""The most plans of an answer, steps of a plan, characters of a step, and of a reason or a reflection."""

SCHEMA: Mapping[str, Any] = {
    "type": "object",
    "properties": {
        "plans": {
            "type": "array",
            "maxItems": MOST_PLANS,
            "items": {
                "type": "object",
                "properties": {
                    "from": {"type": "integer", "description": "the number of the state of the first step"},
                    "steps": {
                        "type": "array", "maxItems": MOST_STEPS, "items": {"type": "string"},
                        "description": "moves or choices in their order: as text, or by number, such as '3', for "
                        "those that are listed",
                    },
                    "expect": {
                        "type": "number",
                        "description": "how many times as fast as that state the result will be at least",
                    },
                    "why": {"type": "string", "description": "the reason, in a sentence"},
                },
                "required": ["from", "steps", "expect", "why"],
                "additionalProperties": False,
            },
        },
        "reflection": {"type": "string", "description": "one line: what the earlier tries have shown"},
        "stop": {"type": "boolean", "description": "true where nothing is left to try"},
    },
    "required": ["plans", "reflection"],
    "additionalProperties": False,
}  # fmt: skip

ANSWER = Tool("answer", "Gives your plans. Each is tried: proved, built, verified and timed.", SCHEMA)


@dataclass(frozen=True)
class ModelPlan:
    """Steps from a state, None for the one that the question shows; what is expected, and why."""

    steps: tuple[str, ...]
    of: int | None = None
    expect: float | None = None
    why: str = ""


@dataclass(frozen=True)
class Answered:
    """An answer that fits the schema."""

    plans: tuple[ModelPlan, ...]
    reflection: str = ""
    stop: bool = False


def answered(arguments: str) -> Answered:
    """The content of a call of the tool `answer`. Raises ArgumentError, `bad-answer`, with the place."""
    try:
        data = json.loads(arguments)
    except (ValueError, RecursionError) as error:
        raise _bad(f"it is no JSON: {str(error)[:100]}") from None
    return _answered(data)


def in_text(text: str) -> Answered:
    """The answer in a text without a call: its first object of JSON that has plans. Raises as `answered`."""
    decoder, place = json.JSONDecoder(), text.find("{")
    for _ in range(50):
        if place < 0:
            break
        try:
            data, _ = decoder.raw_decode(text, place)
        except (ValueError, RecursionError):
            data = None
        if isinstance(data, dict) and ("plans" in data or data.get("stop") is True):
            return _answered(data)
        place = text.find("{", place + 1)
    raise _bad("there is no call of the tool `answer`, and no object with `plans`")


def _answered(data: object) -> Answered:
    if not isinstance(data, dict):
        raise _bad("it is an object with `plans` and `reflection`")
    plans, stop = data.get("plans", []), data.get("stop", False)
    if not isinstance(plans, list) or len(plans) > MOST_PLANS:
        raise _bad(f"plans is a list of at most {MOST_PLANS}")
    if not plans and stop is not True:
        raise _bad("plans is empty: give at least one, or stop: true")
    found = tuple(_plan(one, f"plans[{number}]") for number, one in enumerate(plans))
    return Answered(found, _line(data.get("reflection", ""), "reflection"), stop is True)


def _plan(data: object, where: str) -> ModelPlan:
    if not isinstance(data, dict):
        raise _bad(f"{where} is an object with from, steps, expect, why")
    steps, of, expect = data.get("steps"), data.get("from"), data.get("expect")
    if not isinstance(steps, list) or not 1 <= len(steps) <= MOST_STEPS:
        raise _bad(f"{where}.steps is a list of 1 to {MOST_STEPS} moves or choices")
    texts = [str(one) if isinstance(one, int) and not isinstance(one, bool) else one for one in steps]
    for number, one in enumerate(texts):
        if not isinstance(one, str) or not one.strip() or len(one) > MOST_STEP:
            raise _bad(f"{where}.steps[{number}] is a text of at most {MOST_STEP} characters, a move or a number")
    if of is not None and (isinstance(of, bool) or not isinstance(of, int)):
        raise _bad(f"{where}.from is the number of a state")
    if expect is not None:
        is_number = isinstance(expect, int | float) and not isinstance(expect, bool)
        if not is_number or not (math.isfinite(expect) and 0 < expect < 1e6):
            raise _bad(f"{where}.expect is a number above 0, such as 1.5")
        expect = float(expect)
    return ModelPlan(tuple(one.strip() for one in texts), of, expect, _line(data.get("why", ""), f"{where}.why"))


def _line(value: object, where: str) -> str:
    if not isinstance(value, str):
        raise _bad(f"{where} is a text")
    return " ".join(value.split())[:MOST_WORDS]


def _bad(message: str) -> dojoir.ArgumentError:
    return dojoir.ArgumentError(f"the answer does not fit: {message}", "bad-answer")
