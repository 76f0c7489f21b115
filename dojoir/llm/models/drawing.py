"""`llm:random`: a model that draws its plans from what the question lists, and heeds nothing else. What a language
model is to be better than, at the same questions and measurements."""

from __future__ import annotations

import json
from random import Random

from dojoir.llm.models.exchange import Question, Reply, ToolCall

MOST_STEPS = 3
"""The most steps of a plan that is drawn."""


class Drawing:
    """Draws by a seed and the number of the question. Tokens are not counted: there are none."""

    def __init__(self, seed: str) -> None:
        self.name, self._rng = "random", Random(seed)

    def ask(self, question: Question, seconds: float) -> Reply:
        """Plans of one to MOST_STEPS listed steps each, from the state of the question; or the number of a move,
        where one is to be named."""
        if "numbers" in question.facts:
            data: dict[str, object] = {"move": self._rng.randrange(question.facts["numbers"])}
            bounds = question.facts["bounds"]
            return _answer({**data, "bound": self._rng.choice(bounds)} if bounds else data)
        listed, state = question.facts["listed"], question.facts["state"]
        if not listed:
            return _answer({"plans": [], "reflection": "", "stop": True})
        plans = []
        for _ in range(question.facts["plans"]):
            count = self._rng.randint(1, min(MOST_STEPS, len(listed)))
            plans.append({"from": state, "steps": self._rng.sample(listed, count), "expect": 1.0, "why": "drawn"})
        return _answer({"plans": plans, "reflection": "none: plans are drawn"})


def _answer(data: dict[str, object]) -> Reply:
    return Reply("", (ToolCall("drawn", "answer", json.dumps(data)),), "tools")
